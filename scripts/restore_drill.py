"""Restore a lost machine from its back-up, by the commands of docs/ledger.md, in an empty folder.

Usage: ``python scripts/restore_drill.py``. Exits with 1 if a restored ledger is charged before the restore,
or if anything is left to spend afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path


def run(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one command on the ledger, and show it."""
    command = [sys.executable, "-m", "dpensemble", "ledger", *arguments]
    environment = os.environ | {"DPENSEMBLE_STATE": str(state)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(f"$ dpensemble ledger {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return done


def drill(folder: Path) -> bool:
    """Return whether the drill went as documented."""
    first, backup, second = (folder / name for name in ("first", "backup", "second"))
    for one in (first, backup, second):
        one.mkdir()
    ledger, state = str(first / "ledger.db"), first / "state"
    charge = ("patients", "--epsilon", "0.1", "--delta", "1e-9", "--what")
    run(state, "create", ledger)
    run(state, "open", ledger, "patients", "--epsilon", "3", "--delta", "1e-5")
    run(state, "charge", ledger, *charge, "before the back-up")
    with sqlite3.connect(ledger) as raw:
        raw.execute("VACUUM INTO ?", (str(backup / "ledger.db"),))
    raw.close()
    shutil.copytree(state, backup / "state")
    run(state, "charge", ledger, *charge, "after the back-up")
    run(state, "checkpoint", ledger, "--out", str(folder / "newest.json"))
    run(state, "charge", ledger, *charge, "after the checkpoint")
    shutil.rmtree(first)

    shutil.copytree(backup, second, dirs_exist_ok=True)
    ledger, state = str(second / "ledger.db"), second / "state"
    too_early = [run(state, "charge", ledger, *charge, "too early"), run(state, "show", ledger)]
    restored = run(state, "restored", ledger, "--checkpoint", str(folder / "newest.json"))
    too_much = run(state, "charge", ledger, *charge, "too much")
    shown = run(state, "show", ledger, "--json")
    verified = run(state, "verify", ledger)
    refused = all(one.returncode == 2 for one in (*too_early, too_much))
    done = all(one.returncode == 0 for one in (restored, shown, verified))
    return refused and done and json.loads(shown.stdout)[0]["left"] == 0


def main() -> None:
    """Do the drill in an empty folder, and exit."""
    with tempfile.TemporaryDirectory() as folder:
        went_well = drill(Path(folder))
    print("The drill went as documented." if went_well else "The drill FAILED.")
    sys.exit(not went_well)


if __name__ == "__main__":
    main()
