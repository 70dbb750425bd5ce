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
        sys.exit(f"The {what} is {found!r}, not {wanted!r}.")


def use(file: Path, programs: Path, folder: Path) -> None:
    """Install a wheel or an sdist in a fresh environment, and use it in an empty part of a folder."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    work = Path(tempfile.mkdtemp(dir=folder))
    output(work, programs / "python", "-m", "pip", "install", "--quiet", file)
    home = output(work, programs / "python", "-c", "import dpensemble; print(dpensemble.__file__)").strip()
    expect(Path(home).is_relative_to(programs.parent), True, "code imported from its own environment")
    expect(output(work, programs / "dpensemble", "--version").strip(), f"dpensemble {version}", "version")
    plan = json.loads(output(work, programs / "dpensemble", *PLAN.split()))
    expect(plan["labels"] > 0, True, "plan able to answer")
    output(work, programs / "dpensemble", *TRAIN.split())
    expect((work / "run" / "report.html").is_file(), True, "report written")
    output(work, programs / "dpensemble", *PLAN.split(), "--scale", "25", "--certificate", "plan.certificate")
    verdict = json.loads(output(work, programs / "dpensemble", "verify", "plan.certificate", "--json"))
    expect(verdict["confirmed"], True, "certificate confirmed")


def check(folder: Path) -> None:
    """Build, install and use the wheel below an empty folder."""
    output(folder, sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("dpensemble-*.whl")
    venv.create(folder / "fresh", with_pip=True)
    use(wheel, folder / "fresh" / ("Scripts" if os.name == "nt" else "bin"), folder)
    print(f"{wheel.name} installs, plans and trains in a fresh environment.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        check(Path(temporary).resolve())
