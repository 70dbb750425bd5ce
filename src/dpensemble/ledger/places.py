"""The ledger of each file or address, remembered outside the ledger, so that a new ledger cannot replace it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from filelock import FileLock

from dpensemble._state_home import state_home
from dpensemble._untrusted import LARGEST_JSON, file_bytes, parse_json
from dpensemble.errors import LedgerError, ReplacedLedgerError

_FILE = "ledgers.json"


class Places:
    """Remembers the id of the ledger in each place, in a file in the folder of the witness."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _FILE

    def ledger_in(self, place: str) -> str | None:
        """Return the id of the ledger that was charged in a place, or None."""
        return self._read().get(place)

    def require(self, place: str, ledger: str | None) -> None:
        """Raise for a place where another ledger was charged before."""
        before = self.ledger_in(place)
        if before is not None and before != ledger:
            new = "a new ledger" if ledger is None else f"ledger {ledger}"
            usual = self.path.parent == state_home()
            witness = "" if usual else f" --witness {self.path.with_name(f'{before}.witness')}"
            raise ReplacedLedgerError(
                f"{place} held ledger {before} before, and {new} in its place would not count what was spent: restore "
                f"the old ledger, or give it up for good by 'dpensemble ledger forget {place} --id {before}"
                f"{witness}'."
            )

    def remember(self, place: str, ledger: str) -> None:
        """Remember which ledger is in a place. The file is on the disk when this returns."""
        if self.ledger_in(place) == ledger:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with FileLock(f"{self.path}.lock", timeout=60):
                self.require(place, ledger)
                self._write(self._read() | {place: ledger})
        except (OSError, TimeoutError) as error:
            raise self._unusable("written", type(error).__name__) from None

    def forget(self, place: str, ledger: str) -> None:
        """Forget which ledger was in a place. Raise if another ledger, or none, is remembered."""
        try:
            with FileLock(f"{self.path}.lock", timeout=60):
                places = self._read()
                if places.get(place) != ledger:
                    raise LedgerError(
                        f"id={ledger!r:.60} is not the ledger that is remembered in {place}: give its id."
                    )
                self._write({name: one for name, one in places.items() if name != place})
        except (OSError, TimeoutError) as error:
            raise self._unusable("written", type(error).__name__) from None

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
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with draft.open("w", encoding="utf-8") as file:
            file.write(json.dumps(places, indent=1, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    def _unusable(self, what: str, why: str) -> LedgerError:
        return LedgerError(
            f"{self.path}, which remembers the ledger of each place, cannot be {what} ({why}): repair or restore the "
            "file. No noise was drawn."
        )
