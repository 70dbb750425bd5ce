"""What was last seen of a ledger, kept outside it, so that an old copy that was put back gives no budget back."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from dpensemble.errors import LedgerError
from dpensemble.ledger.chain import Entry
from dpensemble.ledger.store import Transaction

try:
    from filelock import FileLock
except ImportError as error:
    raise LedgerError("a ledger needs filelock and others; install dpensemble[ledger].") from error

ENVIRONMENT_VARIABLE = "DPENSEMBLE_STATE"


def state_home() -> Path:
    """Return the folder for what must outlive a ledger's file."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        return Path(named).absolute()
    if sys.platform == "win32":
        parent, inside = os.environ.get("LOCALAPPDATA", ""), Path("AppData/Local")
    elif sys.platform == "darwin":
        parent, inside = "", Path("Library/Application Support")
    else:
        parent, inside = os.environ.get("XDG_STATE_HOME", ""), Path(".local/state")
    home = Path(parent) if Path(parent).is_absolute() else Path.home() / inside
    return home / "dpensemble"


class Witness:
    """A file with the number and hash of the newest entry that was ever charged for.

    Parameters
    ----------
    path : path
        Where it is; the folder is made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def seen(self) -> tuple[int, str] | None:
        """Return number and hash of the newest entry that was seen; None where there is no file yet."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            return int(found["number"]), str(found["hash"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LedgerError(
                f"{self.path}, which tells an old copy of the ledger, cannot be read ({type(error).__name__}); put it "
                "back, or move it away and accept that an old copy would not be noticed."
            ) from None

    def check(self, transaction: Transaction) -> None:
        """Refuse a ledger that lacks what was seen of it."""
        seen = self.seen()
        if seen is None:
            return
        entry = transaction.entry(seen[0])
        if entry is None or entry.hash != seen[1]:
            raise LedgerError(
                f"the ledger lacks entry {seen[0]:,}, which {self.path} has seen: it is an old copy, or was changed; "
                "put the newest copy back. Nothing is charged meanwhile."
            )

    def note(self, entry: Entry) -> None:
        """Keep an entry as seen, unless a newer one is; on the disk when this returns."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with FileLock(f"{self.path}.lock", timeout=60):
                seen = self.seen()
                if seen is not None and seen[0] >= entry.number:
                    return
                draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
                with draft.open("w", encoding="utf-8") as file:
                    json.dump({"number": entry.number, "hash": entry.hash}, file)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(self.path)
        except (OSError, TimeoutError) as error:
            raise LedgerError(
                f"{self.path}, which tells an old copy of the ledger, cannot be written ({type(error).__name__}); what "
                "was charged stays charged, and no noise was drawn."
            ) from None
