"""Find a published file in the user's folders, or download it into the user's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from dpensemble.datasets.download import NotDelivered, fetch, store
from dpensemble.datasets.homes import ENVIRONMENT_VARIABLE, named_home, user_cache
from dpensemble.datasets.published import NotAsPublished, PublishedFile, PublishedImages
from dpensemble.errors import FileError

_Content = TypeVar("_Content")


def retrieve(published: PublishedImages, file: PublishedFile, data_home: Path | str | None, *, progress: bool) -> bytes:
    """Return the unpacked content of a file, from the named home, else the user's cache, else a download."""
    content, searched = look_up(published.folder, data_home, partial(stored, file=file))
    return _downloaded(published, file, searched, progress) if content is None else content


def look_up(
    folder: str, data_home: Path | str | None, look: Callable[[Path], _Content | None]
) -> tuple[_Content | None, list[Path]]:
    """Return the content in the named home or else the user's cache, if any, and the folders that were searched."""
    searched = []
    for home in _homes(data_home):
        searched.append(home / folder)
        content = look(searched[-1])
        if content is not None:
            return content, searched
    return None, searched


def _homes(data_home: Path | str | None) -> Iterator[Path]:
    named = named_home(data_home)
    if named is not None:
        yield named
    # Only now, because users who have the files elsewhere need no cache.
    yield user_cache()


def stored(folder: Path, file: PublishedFile) -> bytes | None:
    """Return the content of the file in a folder, packed or not, or None if the file is missing."""
    for path in (folder / file.name, folder / f"{file.name}.gz"):
        content = read_published(path, file.largest, file.unpack)
        if content is not None:
            return content
    return None


def read_published(path: Path, largest: int, unpack: Callable[[bytes], _Content]) -> _Content | None:
    """Return the unpacked content of a file, or None if the file is missing."""
    try:
        with path.open("rb") as opened:
            raw = opened.read(largest + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise FileError(f"{path} cannot be read ({error.strerror}): make it readable.") from None
    try:
        return unpack(raw)
    except NotAsPublished as fault:
        raise FileError(f"{path} is not the published file ({fault}): replace it by the published one.") from None


def _downloaded(published: PublishedImages, file: PublishedFile, searched: list[Path], progress: bool) -> bytes:
    """Download the file into the last of the searched folders, and return its content."""
    packed = f"{file.name}.gz"
    title = f"Downloading {published.folder}/{packed}"
    faults = []
    for address in published.addresses:
        try:
            raw = fetch(address + packed, file.largest, title=title, progress=progress)
            content = file.unpack(raw)
        except (NotDelivered, NotAsPublished) as fault:
            faults.append(f"{address}{packed} ({fault})")
        else:
            store(raw, searched[-1] / packed)
            return content
    raise FileError(
        f"{packed} of {published.name} is not in {' or '.join(map(str, searched))} and could not be downloaded "
        f"from {' or '.join(faults)}: put the four files from one of these addresses into {searched[-1]}, "
        f"or into a folder {published.folder} inside the folder that data_home or {ENVIRONMENT_VARIABLE} names."
    )
