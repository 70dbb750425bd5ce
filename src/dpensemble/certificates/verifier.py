"""The program that checks certificates, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dpensemble.errors import FileError

_SECONDS = 600
_SEEDED, _RELEASE = "NOT FOR RELEASE", "stated to be for release"


def verifier_path() -> Path:
    """Return the path of the verifier, one file that imports nothing of this library."""
    here = Path(__file__).parents[1]
    for path in (here / "verify.py", here.parents[1] / "verify" / "verify.py"):
        if path.exists():
            return path
    raise FileError("the verifier must be installed: get verify/verify.py from the repository.")


def confirmed(path: Path) -> tuple[bool, str]:
    """Run the verifier on a file in a process of its own.

    Parameters
    ----------
    path : path
        The certificate.

    Returns
    -------
    yes : bool
        Whether the verifier confirms the certificate. False for an experiment, even if its arithmetic is right.
    said : str
        The verifier's sentence. See `release_stated`.

    Raises
    ------
    FileError
        If the verifier or python-flint is not installed.
    """
    try:
        # -I keeps this library and the current folder off its path.
        process = subprocess.run(  # noqa: S603
            [sys.executable, "-I", str(verifier_path()), str(path)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no: not done after {_SECONDS} seconds"
    if "No module named 'flint'" in process.stderr:
        raise FileError("the verifier needs python-flint; pip install python-flint.")
    sentence = process.stdout.strip() or f"no: the verifier failed ({process.returncode})"
    return process.returncode == 0 and sentence.startswith("yes:"), sentence


def release_stated(said: str) -> bool | None:
    """Return whether the sentence of a confirmed certificate states it is for release, or None if it states neither.

    Parameters
    ----------
    said : str
        The verifier's sentence, from `confirmed`.

    Examples
    --------
    >>> release_stated("NOT FOR RELEASE: the noise came from a seed.")
    False
    """
    if said.startswith(_SEEDED):
        return False
    return True if said.startswith("yes:") and said.endswith(f"; {_RELEASE}") else None
