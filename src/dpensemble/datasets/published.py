"""Published data: UCI Adult in the package, images by address and checksum, and the split of the DPBag paper.

A file is looked up in the folder that the user names and in the user's cache, or it is downloaded there as a whole or
not at all. A file is identified by the SHA-256 of its unpacked content, because publishers and users pack the same
content in different ways, or not at all.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import secrets
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from typing import TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble._random import Stream, public_entropy, seed_sequence
from dpensemble._work import progress_bar
from dpensemble.datasets.tables import read_table
from dpensemble.errors import FileError, InvalidParameterError

ENVIRONMENT_VARIABLE = "DPENSEMBLE_DATA"


def _named_home(data_home: Path | str | None) -> Path | None:
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


def _user_cache() -> Path:
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


_GZIP = b"\x1f\x8b"


class NotAsPublished(Exception):  # noqa: N818
    """Bytes are not those of a published file. The text is the reason in a few words."""


@dataclass(frozen=True)
class PublishedFile:
    """One file of a data set."""

    name: str  # without .gz
    n_bytes: int  # unpacked; so is what the checksum is of
    sha256: str

    @property
    def largest(self) -> int:
        """Upper bound on the number of bytes of any form of the file. Packing without compression adds a little."""
        return self.n_bytes + 2**16

    def unpack(self, raw: bytes) -> bytes:
        """Return the content of a copy of this file, packed by gzip or not. Raise NotAsPublished for other content."""
        content = self._gunzip(raw) if raw.startswith(_GZIP) else raw
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise NotAsPublished(f"its SHA-256 is {digest[:12]}..., not {self.sha256[:12]}...")
        return content

    def _gunzip(self, raw: bytes) -> bytes:
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
                # One byte more than expected: a bomb is not unpacked, and longer content differs.
                return packed.read(self.n_bytes + 1)
        except (OSError, EOFError, zlib.error):
            raise NotAsPublished("it is damaged or incomplete") from None


@dataclass(frozen=True, kw_only=True)
class PublishedImages:
    """A data set of four files."""

    name: str
    folder: str  # of a data home
    addresses: tuple[str, ...]  # of the packed files, tried in this order; each ends in a slash
    train_images: PublishedFile
    train_labels: PublishedFile
    test_images: PublishedFile
    test_labels: PublishedFile
    licence: str  # terms and source, in a line or two


MNIST = PublishedImages(
    name="MNIST (handwritten digits)",
    folder="mnist",
    addresses=("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    train_images=PublishedFile(
        "train-images-idx3-ubyte", 47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
    ),
    train_labels=PublishedFile(
        "train-labels-idx1-ubyte", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
    ),
    test_images=PublishedFile(
        "t10k-images-idx3-ubyte", 7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
    ),
    test_labels=PublishedFile(
        "t10k-labels-idx1-ubyte", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
    ),
    licence=(
        "MNIST, Yann LeCun, Corinna Cortes and Christopher J. C. Burges, 1998, derived from data of NIST; "
        "Creative Commons Attribution-ShareAlike 3.0 (CC BY-SA 3.0), https://creativecommons.org/licenses/by-sa/3.0/"
    ),
)

FASHION_MNIST = PublishedImages(
    name="Fashion-MNIST (articles of clothing)",
    folder="fashion-mnist",
    addresses=(
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        # Not offered by https. The checksum verifies the content.
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    train_images=PublishedFile(
        "train-images-idx3-ubyte", 47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
    ),
    train_labels=PublishedFile(
        "train-labels-idx1-ubyte", 60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
    ),
    test_images=PublishedFile(
        "t10k-images-idx3-ubyte", 7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
    ),
    test_labels=PublishedFile(
        "t10k-labels-idx1-ubyte", 10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
    ),
    licence=(
        "Fashion-MNIST, Zalando SE, 2017, https://github.com/zalandoresearch/fashion-mnist; MIT licence, "
        "https://opensource.org/license/mit"
    ),
)

_Content = TypeVar("_Content")


def retrieve(published: PublishedImages, file: PublishedFile, data_home: Path | str | None, *, progress: bool) -> bytes:
    """Return the unpacked content of a file, from the named home, else the user's cache, else a download."""
    content, searched = look_up(published.folder, data_home, partial(stored_content, file=file))
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
    named = _named_home(data_home)
    if named is not None:
        yield named
    # Only now, because users who have the files elsewhere need no cache.
    yield _user_cache()


def stored_content(folder: Path, file: PublishedFile) -> bytes | None:
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


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with its target, all possible classes, a display name, and the terms and source of the data."""

    name: str
    X: pd.DataFrame
    y: pd.Series
    classes: tuple[str, ...]
    licence: str


def load_adult() -> Dataset:
    """Load UCI Adult (the 1994 US census extract), offline.

    Both published files are joined: 48,842 rows, 6 numeric and 8 categorical columns (108 features once one-hot
    encoded), target ``income``. Missing entries are the category ``"?"``, as published.

    References
    ----------
    B. Becker and R. Kohavi, "Adult", UCI Machine Learning Repository, 1996, https://doi.org/10.24432/C5XW20, CC BY 4.0.

    Examples
    --------
    >>> adult = load_adult()
    >>> adult.X.shape, adult.classes
    ((48842, 14), ('<=50K', '>50K'))
    """
    folder = resources.files("dpensemble.datasets") / "data"
    with resources.as_file(folder / "adult.parquet") as path:
        table = read_table(path)
    return Dataset(
        name="Adult (UCI census income)",
        X=table.drop(columns="income"),
        y=table["income"],
        classes=("<=50K", ">50K"),
        licence=(folder / "ADULT-LICENCE.txt").read_text(encoding="utf-8"),
    )


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of the private, public and test rows. They are disjoint, and together they are all rows."""

    private: NDArray[np.int64]
    public: NDArray[np.int64]
    test: NDArray[np.int64]


def three_way_split(n_rows: int, random_state: int | None = None) -> Split:
    """Divide rows at random into a third private, a third public and a third test.

    Parameters
    ----------
    n_rows : int
        Number of rows, at least 3.
    random_state : int or None
        Seed.

    Returns
    -------
    Split
        Sizes differ by at most one.

    References
    ----------
    Jordon et al. 2019, section 5.

    Examples
    --------
    >>> split = three_way_split(10, random_state=0)
    >>> len(split.private), len(split.public), len(split.test)
    (4, 3, 3)
    """
    n_rows = integer_between("n_rows", n_rows, 3)
    generator = np.random.default_rng(seed_sequence(public_entropy(random_state), Stream.SPLIT))
    return Split(*np.array_split(generator.permutation(n_rows), 3))
