"""Finding a published file in the user's folders, or else downloading it into the user's cache."""

from __future__ import annotations

from pathlib import Path

from dpensemble.datasets.download import NotDelivered, fetch, store
from dpensemble.datasets.homes import ENVIRONMENT_VARIABLE, named_home, user_cache
from dpensemble.datasets.published import NotAsPublished, PublishedFile, PublishedImages
from dpensemble.errors import FileError


def retrieve(published: PublishedImages, file: PublishedFile, data_home: Path | str | None, *, progress: bool) -> bytes:
    """Return the unpacked content of a file, from the named home, else the user's cache, else a download."""
    named = named_home(data_home)
    searched = []
    if named is not None:
        searched.append(named / published.folder)
        content = _stored(searched[0], file)
        if content is not None:
            return content
    # Asked for only now: whoever has the files elsewhere needs no cache.
    cache = user_cache() / published.folder
    content = _stored(cache, file)
    return _downloaded(published, file, [*searched, cache], progress) if content is None else content


def _stored(folder: Path, file: PublishedFile) -> bytes | None:
    """Return the content of the file in a folder, packed or not; None if there is none."""
    for path in (folder / file.name, folder / f"{file.name}.gz"):
        try:
            with path.open("rb") as opened:
                raw = opened.read(file.largest + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue
        except OSError as error:
            raise FileError(f"{path} cannot be read ({error.strerror}); let it be readable.") from None
        try:
            return file.unpack(raw)
        except NotAsPublished as fault:
            raise FileError(
                f"{path} is refused because it is not the published file ({fault}); "
                "replace it, or delete it to have it downloaded."
            ) from None
    return None


def _downloaded(published: PublishedImages, file: PublishedFile, searched: list[Path], progress: bool) -> bytes:
    """Download the file into the last of the folders that were searched, and return its content."""
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
        f"from {' or '.join(faults)}; put the four files that one of these addresses has into {searched[-1]}, "
        f"or into a folder {published.folder} inside the one that data_home or {ENVIRONMENT_VARIABLE} names."
    )
