"""The user's state folder: a secret key that marks files of this user's runs, and notes about runs that ended."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import sys
from pathlib import Path

from dpensemble._folders import make_folder, sync_folder

ENVIRONMENT_VARIABLE = "DPENSEMBLE_STATE"
_KEY, _KEY_BYTES, _NOTE_BYTES, _OWN_FILE, _OWN_FOLDER = "journal.key", 32, 1_000, 0o600, 0o700
#: Flag of `os.open` that refuses a link in the place of a file, where the system has links.
NO_LINK = 0 if sys.platform == "win32" else os.O_NOFOLLOW
# Notes that never change, in a folder of the state folder.
_NOTES = "finished-runs"
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def state_home() -> Path:
    """Return the folder for files that must outlive a ledger's file or a run's folder."""
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


def signature_of(content: bytes) -> str:
    """Return a signature of a file's content, or an empty text if the state folder cannot hold the key."""
    key = _key(make=True)
    return "" if key is None else _signed(key, content)


def is_signature_of(signature: str, content: bytes) -> bool:
    """Return whether `signature_of` returned this signature for this content, with the key of this state folder."""
    key = _key(make=False)
    return key is not None and hmac.compare_digest(signature.encode(), _signed(key, content).encode())


def note_of(name: str) -> str | None:
    """Return what the state folder notes under a name, or None if it notes nothing."""
    try:
        handle = os.open(_note_path(name), os.O_RDONLY | NO_LINK)
    except (OSError, RuntimeError) as error:
        if isinstance(error, FileNotFoundError) or _key(make=False) is None:
            return None
        raise
    with os.fdopen(handle, "rb") as file:
        return file.read(_NOTE_BYTES).decode(errors="replace")


def noted_once(name: str, content: str) -> str:
    """Note `content` on the disk unless there is a note under this name, and return the note, which never changes.

    Without a key, nothing is noted, since this user's runs sign nothing either.
    """
    if _key(make=False) is None:
        return content
    path = _note_path(name)
    if not path.exists():
        _write_once(path, content.encode())
    # Also a note of a process that was killed before this.
    sync_folder(path.parent)
    return note_of(name) or ""


def _note_path(name: str) -> Path:
    return state_home() / _NOTES / hashlib.sha256(name.encode()).hexdigest()


def _signed(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def _key(*, make: bool) -> bytes | None:
    """Return the key, or None if there is none that only this user can read. With `make`, create a missing key."""
    try:
        path = state_home() / _KEY
        if make and not os.path.lexists(path):
            _write_once(path, secrets.token_bytes(_KEY_BYTES))
        handle = os.open(path, os.O_RDONLY | NO_LINK)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if sys.platform != "win32" and (status.st_uid != os.geteuid() or status.st_mode & _FOR_OTHERS):
                return None
            key = file.read(_KEY_BYTES + 1)
    except (OSError, RuntimeError):
        # A home folder that cannot be determined is a RuntimeError.
        return None
    return key if len(key) == _KEY_BYTES else None


def _write_once(path: Path, content: bytes) -> None:
    """Write a new file to the disk. It appears with its whole content, and never replaces another process's file."""
    make_folder(path.parent, _OWN_FOLDER)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWN_FILE), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        except OSError:
            # Some file systems have no hard links.
            if not os.path.lexists(path):
                draft.rename(path)
        # A journal whose key is lost is not trusted, and a run whose note is lost could end again.
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)
