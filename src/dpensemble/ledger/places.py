"""The ledger of each file or address, remembered outside the ledger, so that a new ledger cannot replace it."""

from __future__ import annotations

import json
from pathlib import Path

from filelock import FileLock

from dpensemble._folders import make_folder
from dpensemble._state_home import state_home
from dpensemble._untrusted import LARGEST_JSON, file_bytes, parse_json
from dpensemble.errors import LedgerError, ReplacedLedgerError
from dpensemble.ledger.addresses import is_certain
from dpensemble.ledger.files import replace_file
from dpensemble.ledger.store import Store
from dpensemble.ledger.transaction import PATIENCE

_FILE = "ledgers.json"


class Places:
    """Remembers the id of the ledger in each place, in a file in the folder of the witness.

    A file's place is its path. A database's place is what the server states about itself, and the address.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / _FILE

    def require(self, store: Store, ledger: str) -> None:
        """Raise if another ledger was charged in this place before."""
        places = self._read()
        for place in store.identities:
            if places.get(place, ledger) != ledger:
                raise self._replaced(store, places[place], f"ledger {ledger}")

    def require_fresh(self, store: Store) -> None:
        """Raise if any ledger was, or may have been, charged in this place before, under any address."""
        places = self._read()
        certain = {ledger for place, ledger in places.items() if is_certain(place)}
        for place, ledger in places.items():
            # Of a ledger whose server is known, only that server and the very same address count.
            is_counted = is_certain(place) or ledger not in certain
            if place in store.identities or (is_counted and store.may_be(place)):
                raise self._replaced(store, ledger, "a new ledger")

    def remember(self, store: Store, ledger: str) -> None:
        """Remember which ledger is in a place. The file is on the disk when this returns."""
        places = self._read()
        if all(places.get(place) == ledger for place in store.identities):
            return
        try:
            make_folder(self.path.parent, 0o700)
            with FileLock(f"{self.path}.lock", timeout=PATIENCE):
                self.require(store, ledger)
                self._write(self._read() | dict.fromkeys(store.identities, ledger))
        except (OSError, TimeoutError) as error:
            raise self._unusable("written", type(error).__name__) from None

    def forget(self, store: Store, ledger: str) -> None:
        """Forget that a ledger was in a place. Raise if another ledger, or none, is remembered."""
        try:
            with FileLock(f"{self.path}.lock", timeout=PATIENCE):
                places = self._read()
                gone = {
                    place
                    for place, one in places.items()
                    if one == ledger and (place in store.identities or store.may_be(place))
                }
                if not gone:
                    raise LedgerError(
                        f"id={ledger!r:.60} is not the ledger that is remembered in {store.place}: give its id."
                    )
                self._write({place: one for place, one in places.items() if place not in gone})
        except (OSError, TimeoutError) as error:
            raise self._unusable("written", type(error).__name__) from None

    def _replaced(self, store: Store, before: str, new: str) -> ReplacedLedgerError:
        usual = self.path.parent == state_home()
        witness = "" if usual else f" --witness {self.path.with_name(f'{before}.witness')}"
        return ReplacedLedgerError(
            f"{store.place} held ledger {before} before, and {new} in its place would not count what was spent: "
            f"restore the old ledger, or give it up for good by 'dpensemble ledger forget {store.place} --id {before}"
            f"{witness}'."
        )

    def _read(self) -> dict[str, str]:
        try:
            places = parse_json(file_bytes(self.path, links=True, largest=LARGEST_JSON))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unusable("read", type(error).__name__) from None
        if not isinstance(places, dict):
            raise self._unusable("read", "it is damaged")
        return places

    def _write(self, places: dict[str, str]) -> None:
        replace_file(self.path, lambda _: (json.dumps(places, indent=1, sort_keys=True) + "\n").encode())

    def _unusable(self, what: str, why: str) -> LedgerError:
        return LedgerError(
            f"{self.path}, which remembers the ledger of each place, cannot be {what} ({why}): repair or restore the "
            "file. No noise was drawn."
        )
