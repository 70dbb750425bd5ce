"""Build a wheel, install it in a fresh environment outside the tree, and use it there as a stranger would.

Usage: ``python scripts/check_wheel.py``. Needs nothing but Python and pip.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLAN = "plan --method saa --teachers 50 --epsilon 1 --delta 1e-5 --json"
TRAIN = "train --dataset adult --method saa --teachers 20 --epsilon 1 --delta 1e-5 --seed 0 --quiet --out run"


def output(folder: Path, *command: str | Path) -> str:
    """Run a command in a folder, with nothing added to its imports, and return its output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(command, cwd=folder, env=clean, check=True, text=True, stdout=subprocess.PIPE).stdout


def expect(found: object, wanted: object, what: str) -> None:
    """End with a sentence if something is not as it should be."""
    if found != wanted:
        sys.exit(f"The wheel's {what} is {found!r}, not {wanted!r}.")


def check(folder: Path) -> None:
    """Build, install and use the wheel below an empty folder."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    output(folder, sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("dpensemble-*.whl")
    venv.create(folder / "fresh", with_pip=True)
    programs = folder / "fresh" / ("Scripts" if os.name == "nt" else "bin")
    output(folder, programs / "python", "-m", "pip", "install", "--quiet", wheel)

    home = output(folder, programs / "python", "-c", "import dpensemble; print(dpensemble.__file__)").strip()
    expect(Path(home).is_relative_to(folder), True, "code imported from its own environment")
    expect(output(folder, programs / "dpensemble", "--version").strip(), f"dpensemble {version}", "version")
    plan = json.loads(output(folder, programs / "dpensemble", *PLAN.split()))
    expect(plan["labels"] > 0, True, "plan able to answer")
    output(folder, programs / "dpensemble", *TRAIN.split())
    expect((folder / "run" / "report.html").is_file(), True, "report written")
    output(folder, programs / "dpensemble", *PLAN.split(), "--scale", "25", "--certificate", "plan.certificate")
    verdict = json.loads(output(folder, programs / "dpensemble", "verify", "plan.certificate", "--json"))
    expect(verdict["confirmed"], True, "certificate confirmed")
    print(f"{wheel.name} installs, plans and trains in a fresh environment.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        check(Path(temporary).resolve())
