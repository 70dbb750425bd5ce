"""The last signed checkpoint of a ledger, so that a start need not read all entries first."""

from __future__ import annotations

import json
from pathlib import Path

from dpensemble.errors import LedgerError
from dpensemble.ledger.files import replace_file
from dpensemble.ledger.keys import SigningKey, checked, read_statement
from dpensemble.ledger.names import now
from dpensemble.ledger.standing import Standing

#: Number of entries between checkpoints.
INTERVAL = 1000


class SignedStanding:
    """A file with a signed checkpoint that also contains the state of accounts and grants."""

    def __init__(self, path: Path, ledger: str, public_key: str) -> None:
        self.path, self._ledger, self._public_key = path, ledger, public_key
        self._number = 0

    def load(self) -> Standing:
        """Return the last signed standing, or the standing before the first entry if no checkpoint can be trusted."""
        if not self.path.exists():
            return Standing()
        try:
            fields = checked(read_statement(self.path), self._public_key)
        except LedgerError:
            # Then all entries are read, which takes longer and trusts nothing.
            return Standing()
        if fields.get("ledger") != self._ledger or "standing" not in fields:
            return Standing()
        standing = Standing.from_dict(fields["standing"])
        self._number = standing.number
        return standing

    def forget(self) -> None:
        """Remove the file, because it may be about entries that a restored copy lacks."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise LedgerError(
                f"the checkpoint {self.path} cannot be removed ({error.strerror}): remove the file, and try again."
            ) from None
        self._number = 0

    def save(self, standing: Standing, key: SigningKey) -> None:
        """Sign the ledger's standing if enough entries have been added since the last checkpoint."""
        if standing.number < self._number + INTERVAL:
            return
        fields = {"ledger": self._ledger, "number": standing.number, "hash": standing.hash, "time": now()}
        text = json.dumps(key.signed(fields | {"standing": standing.to_dict()}))
        try:
            replace_file(self.path, lambda _: (text + "\n").encode())
        except OSError as error:
            raise LedgerError(
                f"the checkpoint {self.path} cannot be written ({error.strerror}): repair the folder, and try again."
            ) from None
        self._number = standing.number
