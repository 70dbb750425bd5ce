"""Messages over HTTPS: the service of the coordinator's folder, and how a site sends and gets messages there.

Nothing that comes from the service is trusted. Messages are signed, as in a folder, and sizes are bounded on both ends.
A key of a site only keeps others from filling the folder.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from dpensemble._files import JSON, parse_json
from dpensemble.errors import DataError, FileError
from dpensemble.server.client import NoAnswer, NotThere, Sender
from dpensemble.sites.messages import KINDS, MOST_PUBLIC_BYTES, Folder, SitesError
from dpensemble.sites.tables import PUBLIC_FILE
from dpensemble.sites.terms import COORDINATOR

_PATH = "/v1/messages"
# Names as `file_name` writes them: kind, sender, attempt, number.
_NAME = re.compile(r"([a-z]{1,20})\.([A-Za-z0-9][A-Za-z0-9-]{0,39})\.(0|[1-9][0-9]?)\.(0|[1-9][0-9]{0,3})\.json")
# Bytes of all messages of one site, and of a list of all messages. Small messages count as larger ones, so that no site
# makes the list too long for the others.
_ROOM, _LEAST, _LONGEST_LIST = 2**30, 2**17, 2**24
# Tries to get and to put a message. A message that is not put may end an attempt, so a site waits minutes for that.
_GETS, _PUTS = 6, 60
# Seconds for which a list of messages is used again, and most bytes of a message that is kept in memory.
_FRESH, _KEPT = 0.1, 2**20


class SharedBox:
    """The messages of a folder, as the coordinator's service shows them. The coordinator itself uses the folder.

    Parameters
    ----------
    folder : path
        Folder of messages.
    """

    most_bytes = max(KINDS.values())

    def __init__(self, folder: Path | str) -> None:
        self._path = Path(folder)
        if not self._path.is_dir():
            raise FileError(f"messages={str(folder)!r} must be a folder that exists.")
        self._folder = Folder(self._path)
        # A sender that got no answer may send a message again while the first one is written.
        self._one_at_a_time = Lock()

    def largest(self, sender: str, name: str) -> int | None:
        """Return how many bytes a message of a site may have, or None if it is not a message of this site."""
        match = _NAME.fullmatch(name)
        if match is None or match[2] != sender or sender.lower() == COORDINATOR:
            return None
        return KINDS.get(match[1])

    def put(self, sender: str, name: str, content: bytes) -> bool:
        """Store a message. Return False, and store nothing, if the site has used up its room."""
        with self._one_at_a_time:
            own = (about for name, about in self._files() if (match := _NAME.fullmatch(name)) and match[2] == sender)
            if sum(max(about.st_size, _LEAST) for about in own) + max(len(content), _LEAST) > _ROOM:
                return False
            self._folder.put(name, content)
            return True

    def get(self, name: str) -> bytes | None:
        """Return a message or the public rows, or None if it is missing or cannot be read."""
        largest = self._readable(name)
        try:
            return None if largest is None else self._folder.get(name, largest)
        except OSError:
            return None

    def stamps(self) -> dict[str, str]:
        """Return the names of all messages, each with a text that changes when the file does."""
        return {name: f"{about.st_ino}-{about.st_mtime_ns}-{about.st_size}" for name, about in self._files()}

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the name and the status of each message, in the order of names."""
        for path in sorted(self._path.iterdir()):
            if self._readable(path.name) is not None:
                # Lost in between, as while a file is replaced.
                with suppress(FileNotFoundError):
                    yield path.name, path.lstat()

    @staticmethod
    def _readable(name: str) -> int | None:
        match = _NAME.fullmatch(name)
        return (MOST_PUBLIC_BYTES if name == PUBLIC_FILE else None) if match is None else KINDS.get(match[1])


class HTTPMessages:
    """Messages at the coordinator's service, in place of a folder.

    Parameters
    ----------
    url : str
        Address, such as ``"https://coordinator.example.org:8443"``. ``http`` is only for this machine.
    key : str
        API key of this site, with the scope ``messages``.
    authority : path, optional
        Certificates in PEM of the authority that issued the service's certificate. By default those of the system.

    Raises
    ------
    InvalidParameterError
        If the address would send the key in the open, or the key cannot be sent.

    Examples
    --------
    >>> HTTPMessages("https://coordinator.example.org:8443", "dpe_...")
    HTTPMessages('https://coordinator.example.org:8443')
    """

    def __init__(self, url: str, key: str, *, authority: Path | str | None = None) -> None:
        self._sender = Sender(url, key, authority=authority)
        self._stamps: dict[str, str] = {}
        self._until = 0.0
        self._kept: dict[str, tuple[str, bytes]] = {}

    def __repr__(self) -> str:
        return f"HTTPMessages({self._sender.url!r})"

    def put(self, name: str, content: bytes) -> None:
        """Send a message, and try for minutes if the service is away."""
        headers = {"Content-Type": "application/octet-stream"}
        self._sender.send(
            f"{_PATH}/{quote(name)}", content, headers, method="PUT", read=bytes, tries=_PUTS, largest=_KEPT
        )
        self._until = 0.0

    def get(self, name: str, largest: int) -> bytes | None:
        """Return a message that arrived, or None. Raise OSError if the service is away or the message is too large."""
        try:
            stamp = self._listed().get(name)
            if stamp is None:
                return None
            kept = self._kept.get(name)
            if kept is not None and kept[0] == stamp and len(kept[1]) <= largest:
                return kept[1]
            content, _ = self._sender.send(f"{_PATH}/{quote(name)}", read=bytes, tries=_GETS, largest=largest)
        except NotThere:
            return None
        except NoAnswer:
            raise OSError(0, f"{self._sender.url} gives no answer") from None
        except DataError:
            raise OSError(0, f"{self._sender.url} sends something else") from None
        if len(content) <= _KEPT:
            self._kept[name] = stamp, content
        return content

    def _listed(self) -> dict[str, str]:
        """Return the stamps of all messages. A party looks for many messages at once, so a list is used for a while."""
        if time.monotonic() >= self._until:
            try:
                self._stamps, _ = self._sender.send(_PATH, read=_stamps_in, tries=_GETS, largest=_LONGEST_LIST)
            except NotThere:
                if self._stamps:
                    # As when a proxy in front starts before the service.
                    raise NoAnswer(self._sender.url) from None
                raise SitesError(
                    f"{self._sender.url} has no messages: give the address at which 'dpensemble sites serve' listens."
                ) from None
            self._until = time.monotonic() + _FRESH
        return self._stamps


def _stamps_in(content: bytes) -> dict[str, str]:
    stamps: JSON = parse_json(content)
    if not isinstance(stamps, dict) or not all(isinstance(stamp, str) for stamp in stamps.values()):
        raise ValueError
    return stamps
