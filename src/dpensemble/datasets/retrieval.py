"""Find a published file in the user's folders, or download it into the user's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from dpensemble.datasets.download import NotDelivered, fetch, store
from dpensemble.datasets.homes import ENVIRONMENT_VARIABLE, named_home, user_cache
from dpensemble.datasets.picture_package import (
    LARGEST_LABELS,
    TEST_LABELS,
    TRAIN_LABELS,
    file_of,
    labels_of,
    n_images,
    picture_of,
)
from dpensemble.datasets.published import NotAsPublished, PublishedArchive, PublishedFile, PublishedImages
from dpensemble.errors import FileError

_Content = TypeVar("_Content")


def retrieve(published: PublishedImages, file: PublishedFile, data_home: Path | str | None, *, progress: bool) -> bytes:
    """Return the unpacked content of a file, from the named home, else the user's cache, else a download."""
    content, searched = _look_up(published.folder, data_home, partial(_stored, file=file))
    return _downloaded(published, file, searched, progress) if content is None else content


def retrieve_archive(
    published: PublishedArchive, data_home: Path | str | None, *, progress: bool, download: bool = True
) -> dict[str, bytes]:
    """Return the content of every file of an archive by name, from the same places as `retrieve`."""
    content, searched = _look_up(published.folder, data_home, partial(_unpacked, published=published))
    if content is not None:
        return content
    if not download:
        raise FileError(
            f"{published.archive} of {published.name} is not in {' or '.join(map(str, searched))}: get it from "
            f"{published.address}{published.archive} and put it there, or the files of the npm package "
            f"{published.package}."
        )
    return _downloaded_archive(published, searched, progress)


def _look_up(
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


def _unpacked(folder: Path, published: PublishedArchive) -> dict[str, bytes] | None:
    """Return all files in a folder: unpacked, from the archive, or from pictures. Return None if a file is missing."""
    for place in (folder / published.inside, folder):
        contents = {file.name: _stored(place, file) for file in (*published.train, published.test)}
        whole = {name: content for name, content in contents.items() if content is not None}
        if len(whole) == len(contents):
            return whole
    content = _read(folder / published.archive, published.n_bytes, published.members)
    return _from_pictures(folder, published) if content is None else content


def _from_pictures(folder: Path, published: PublishedArchive) -> dict[str, bytes] | None:
    """Return all files from the pictures of the npm package, or None if there is no picture."""
    files = (*published.train, published.test)
    # npm names the folder after the package, and its archive names the folder "package".
    for place in (folder, folder / published.package, folder / "package"):
        if any((place / picture_of(file)).exists() for file in files):
            parts = ((published.train, TRAIN_LABELS), ((published.test,), TEST_LABELS))
            return {name: content for part in parts for name, content in _pictures(place, published, *part).items()}
    return None


def _pictures(place: Path, published: PublishedArchive, files: Sequence[PublishedFile], name: str) -> dict[str, bytes]:
    """Return the content of some files by name, whose labels are in one file of the package."""

    def read(name: str, largest: int, unpack: Callable[[bytes], _Content]) -> _Content:
        content = _read(place / name, largest, unpack)
        if content is None:
            raise FileError(f"{place} has no {name}: put all files of the npm package {published.package} there.")
        return content

    labels, contents, first = read(name, LARGEST_LABELS, partial(labels_of, files=files)), {}, 0
    for file in files:
        own = labels[first : first + n_images(file)]
        contents[file.name] = read(picture_of(file), file.largest, partial(file_of, labels=own, file=file))
        first += len(own)
    return contents


def _downloaded_archive(published: PublishedArchive, searched: list[Path], progress: bool) -> dict[str, bytes]:
    """Download the archive into the last of the searched folders, and return its content."""
    address = published.address + published.archive
    title = f"Downloading {published.folder}/{published.archive}"
    try:
        raw = fetch(address, published.n_bytes, title=title, progress=progress)
        content = published.members(raw)
    except (NotDelivered, NotAsPublished) as fault:
        raise FileError(
            f"{published.archive} of {published.name} is not in {' or '.join(map(str, searched))} and could not be "
            f"downloaded from {address} ({fault}): put it into {searched[-1]}, or into a folder {published.folder} "
            f"inside the folder that data_home or {ENVIRONMENT_VARIABLE} names."
        ) from None
    store(raw, searched[-1] / published.archive)
    return content


def _stored(folder: Path, file: PublishedFile) -> bytes | None:
    """Return the content of the file in a folder, packed or not, or None if the file is missing."""
    for path in (folder / file.name, folder / f"{file.name}.gz"):
        content = _read(path, file.largest, file.unpack)
        if content is not None:
            return content
    return None


def _read(path: Path, largest: int, unpack: Callable[[bytes], _Content]) -> _Content | None:
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
