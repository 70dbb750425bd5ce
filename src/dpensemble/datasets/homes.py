"""Folders that may hold data sets: the folder that the user names, and the user's cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dpensemble.errors import FileError, InvalidParameterError

ENVIRONMENT_VARIABLE = "DPENSEMBLE_DATA"


def named_home(data_home: Path | str | None) -> Path | None:
    """Return the user's folder of data sets, from `data_home` or ``DPENSEMBLE_DATA``, or None."""
    if data_home is not None:
        parameter, value = "data_home", data_home
    else:
        parameter, value = ENVIRONMENT_VARIABLE, os.environ.get(ENVIRONMENT_VARIABLE, "")
        if not value:
            return None
    home = Path(os.path.expanduser(value)) if isinstance(value, str | os.PathLike) else None
    if home is None or not home.is_dir():
        raise InvalidParameterError(
            f"{parameter}={str(value)!r} is not a folder: give the folder that holds the folders of data sets, "
            "such as mnist."
        )
    return home


def user_cache() -> Path:
    """Return the folder for this user's downloads. It need not exist."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        parent, inside = os.environ.get("LOCALAPPDATA", ""), Path("AppData", "Local")
    elif sys.platform == "darwin":
        parent, inside = "", Path("Library", "Caches")
    else:
        parent, inside = os.environ.get("XDG_CACHE_HOME", ""), Path(".cache")
    # The XDG rules require ignoring relative folders.
    if os.path.isabs(parent):
        return Path(parent, "dpensemble")
    if not os.path.isabs(home):
        raise FileError(
            "this user has no home folder to store downloads in: "
            f"name a folder that holds the data sets by data_home or {ENVIRONMENT_VARIABLE}."
        )
    return Path(home) / inside / "dpensemble"
