"""Download one file, and store it as a whole or not at all."""

from __future__ import annotations

import secrets
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from dpensemble._progress import progress_bar
from dpensemble.errors import FileError

_CHUNK = 2**16
# Seconds without data, not of the whole download.
_PATIENCE = 30.0


class NotDelivered(Exception):  # noqa: N818
    """A file did not arrive. The text is the reason in a few words."""


def fetch(address: str, largest: int, *, title: str, progress: bool) -> bytes:
    """Return the content of an address. Raise NotDelivered if that fails or exceeds `largest` bytes."""
    if not address.startswith(("https://", "http://")):
        raise NotDelivered("it is not a web address")
    try:
        return _read(Request(address, headers={"User-Agent": "dpensemble"}), largest, title, progress)  # noqa: S310
    except HTTPError as error:
        # The error holds an open connection.
        error.close()
        raise NotDelivered(f"the server answered {error.code}") from None
    except (OSError, HTTPException) as error:
        raise NotDelivered(_words(error)) from None


def _read(request: Request, largest: int, title: str, progress: bool) -> bytes:
    with urlopen(request, timeout=_PATIENCE) as response:  # noqa: S310
        n_bytes: int | None = response.length
        received = bytearray()
        with progress_bar(title, n_bytes, shown=progress) as advance:
            while chunk := response.read(_CHUNK):
                received += chunk
                if len(received) > largest:
                    raise NotDelivered("it is larger than the published file")
                advance(len(chunk))
    if n_bytes is not None and len(received) != n_bytes:
        raise NotDelivered("the connection broke")
    return bytes(received)


def _words(error: Exception) -> str:
    """Return the reason of an error in a few words."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return "the server did not answer in time"
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__


def store(content: bytes, target: Path) -> None:
    """Write a file so that no reader ever sees a part of it, even after an interrupt or beside another writer."""
    # In the same folder, so that renaming moves no data, and under a name that no other writer uses.
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(content)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        # Windows does not replace a file that another process, which stored it first, is reading.
        if not (isinstance(error, PermissionError) and target.is_file()):
            raise FileError(
                f"{target} cannot be written ({error.strerror}): make its folder writable, "
                "or name one that holds the data sets by data_home."
            ) from None
