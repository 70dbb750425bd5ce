"""Published data: UCI Adult in the package, images by address and checksum, and the split of the DPBag paper.

A file is looked up in the folder that the user names and in the user's cache, or it is downloaded there as a whole or
not at all. A file is identified by the SHA-256 of its unpacked content, because publishers and users pack the same
content in different ways, or not at all.

Images are MNIST, Fashion-MNIST, and small digits that need no download. MNIST's format is IDX: a magic number, the
sizes, then one unsigned byte for each entry.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import os
import secrets
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from sklearn.datasets import load_digits

from dpensemble._checks import declared_classes, integer_between
from dpensemble._entries import Integers
from dpensemble._random import Stream, public_entropy, seed_sequence
from dpensemble._work import progress_bar
from dpensemble.datasets.tables import read_table
from dpensemble.errors import DataError, FileError, InvalidParameterError

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


# The third byte of the magic number marks entries as unsigned bytes, and the fourth is the number of dimensions.
_UNSIGNED_BYTES = 0x0800
_WORD = 4


def _read_idx(content: bytes, n_dimensions: int, source: str) -> NDArray[np.uint8]:
    """Return a read-only view of the array in an IDX file of unsigned bytes. `source` is for messages."""
    header = _WORD * (1 + n_dimensions)
    magic, expected = content[:_WORD], (_UNSIGNED_BYTES + n_dimensions).to_bytes(_WORD, "big")
    if not expected.startswith(magic):
        raise FileError(
            f"{source} must be a {n_dimensions}-dimensional IDX file, but it starts with 0x{magic.hex()} "
            f"instead of 0x{expected.hex()}: fetch the published file again."
        )
    if len(content) < header:
        raise FileError(f"{source} is cut off within its header: fetch the published file again.")
    sizes = tuple(int.from_bytes(content[at : at + _WORD], "big") for at in range(_WORD, header, _WORD))
    whole = header + math.prod(sizes)
    if len(content) != whole:
        fault = "is cut off" if len(content) < whole else "goes on after its end"
        raise FileError(
            f"{source} {fault}: it has {len(content)} bytes, but its header announces {whole}; "
            "fetch the published file again."
        )
    if 0 in sizes:
        raise DataError(f"{source} is empty: one of its sizes is zero; use a file that has rows.")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(sizes)


def _labelled_images(images: bytes, labels: bytes, n_classes: int, source: str) -> tuple[NDArray[np.uint8], Integers]:
    """Return images (n_images, height, width) and their labels from two IDX files. `source` is for messages."""
    pixels = _read_idx(images, 3, f"{source} images")
    ids = _read_idx(labels, 1, f"{source} labels").astype(np.int64)
    if len(pixels) != len(ids):
        raise DataError(
            f"{source} has {len(pixels)} images but {len(ids)} labels: use two files of one part of one data set."
        )
    if ids.max() >= n_classes:
        raise DataError(f"{source} labels go up to {ids.max()}: use labels from 0 to {n_classes - 1}.")
    return pixels, ids


_N_CLASSES = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageDataset:
    """Images as rows of pixels, in the published training and test parts.

    Parameters
    ----------
    name : str
        Display name.
    X_train, X_test : ndarray of uint8, shape (n_images, n_pixels)
        Pixels row by row from the top left, 0 for background. See `scaled`.
    y_train, y_test : ndarray of int64, shape (n_images,)
        Class of each image.
    image_shape : tuple of int
        Channels, height and width: ``X_train.reshape(-1, *image_shape)`` are pictures.
    brightest : int
        Largest value that a pixel can have.
    classes : tuple of int
        All possible labels, in ascending order.
    licence : str
        Terms and source, in a line or two.
    """

    name: str
    X_train: NDArray[np.uint8]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    image_shape: tuple[int, int, int]
    brightest: int
    classes: tuple[int, ...]
    licence: str

    def scaled(self, X: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return pixels as numbers from 0 to 1, the best range for most estimators.

        The divisor is public (`brightest`), so private rows may be scaled too.

        Parameters
        ----------
        X : ndarray of uint8
            `X_train`, `X_test` or any rows of them.

        Returns
        -------
        ndarray of float32
            Of the same shape.

        Raises
        ------
        InvalidParameterError
            If the pixels are not bytes, for example because they have been scaled before.

        Examples
        --------
        >>> digits = load_digit_images()
        >>> pixels = digits.scaled(digits.X_train)
        >>> pixels.dtype, float(pixels.min()), float(pixels.max())
        (dtype('float32'), 0.0, 1.0)
        """
        if not isinstance(X, np.ndarray) or X.dtype != np.uint8:
            kind = X.dtype if isinstance(X, np.ndarray) else type(X).__name__
            raise InvalidParameterError(
                f"X must be an array of uint8, but got {kind}: give unscaled rows of X_train or X_test."
            )
        # In one step, so that no temporary array of doubles exists.
        return np.divide(X, np.float32(self.brightest), dtype=np.float32)


def load_mnist(
    *, classes: Sequence[int] | None = None, data_home: Path | str | None = None, progress: bool = False
) -> ImageDataset:
    """Load MNIST: 60,000 handwritten digits to learn from and 10,000 to test on, 28 x 28 pixels from 0 to 255.

    The four published files (11 MB) are read from the folder ``mnist`` inside `data_home` or, if that is None, inside
    the folder in the environment variable ``DPENSEMBLE_DATA``. Otherwise they are read from the user's cache
    (``~/.cache/dpensemble`` or ``$XDG_CACHE_HOME/dpensemble`` on Linux, ``~/Library/Caches/dpensemble`` on macOS,
    ``dpensemble`` in ``%LOCALAPPDATA%`` on Windows). Missing files are downloaded into the cache. Named folders are
    never written to. Files may be packed by gzip, and must have the published SHA-256.

    Parameters
    ----------
    classes : sequence of int, optional
        Digits to keep, at least two. All others are left out. The order of images stays as published.
    data_home : path, optional
        Folder that holds the folder ``mnist``.
    progress : bool, default=False
        Show a progress bar on stderr while downloading.

    Raises
    ------
    InvalidParameterError
        If `classes` are not digits, or `data_home` is not a folder.
    FileError
        If a file is not the published file, or if it is missing and cannot be downloaded.

    References
    ----------
    Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, "Gradient-based learning applied
    to document recognition", Proceedings of the IEEE 86, 1998. CC BY-SA 3.0.

    Examples
    --------
    >>> mnist = load_mnist(classes=(3, 8))  # doctest: +SKIP
    >>> mnist.X_train.shape, mnist.image_shape, mnist.classes  # doctest: +SKIP
    ((11982, 784), (1, 28, 28), (3, 8))
    """
    return _load(MNIST, classes, data_home, progress)


def load_fashion_mnist(
    *, classes: Sequence[int] | None = None, data_home: Path | str | None = None, progress: bool = False
) -> ImageDataset:
    """Load Fashion-MNIST: articles of clothing in the form of MNIST, and harder to distinguish.

    Its 60,000 training and 10,000 test images have 28 x 28 pixels from 0 to 255. `load_mnist` describes the parameters,
    the errors, and how the four published files (30 MB) are found or downloaded. Their folder is
    ``fashion-mnist``. The classes are 0 T-shirt/top, 1 trouser, 2 pullover, 3 dress, 4 coat, 5 sandal, 6 shirt, 7
    sneaker, 8 bag and 9 ankle boot.

    From H. Xiao, K. Rasul and R. Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning
    algorithms", 2017, arXiv:1708.07747. MIT licence.

    Examples
    --------
    >>> fashion = load_fashion_mnist()  # doctest: +SKIP
    >>> fashion.X_test.shape  # doctest: +SKIP
    (10000, 784)
    """
    return _load(FASHION_MNIST, classes, data_home, progress)


def load_digit_images(*, classes: Sequence[int] | None = None) -> ImageDataset:
    """Load the small handwritten digits that come with scikit-learn: 1,797 images of 8 x 8 pixels from 0 to 16.

    A stand-in for MNIST, offline and quick to learn. Every fifth image of each digit is for testing (355 together), and
    the others are for training (1,442). This split is fixed and public. The same people wrote both parts.

    Parameters
    ----------
    classes : sequence of int, optional
        Digits to keep, at least two. All others are left out. The order of images stays as it is in scikit-learn.

    Raises
    ------
    InvalidParameterError
        If `classes` are not digits.

    References
    ----------
    E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
    Repository, 1998, https://doi.org/10.24432/C50P49, CC BY 4.0.

    Examples
    --------
    >>> digits = load_digit_images(classes=(3, 8))
    >>> digits.X_train.shape, digits.X_test.shape, digits.image_shape, digits.classes
    ((287, 64), (70, 64), (1, 8, 8), (3, 8))
    """
    chosen = kept_classes(classes)
    digits = load_digits()
    pixels, labels = digits.images.astype(np.uint8), digits.target.astype(np.int64)
    test = _every_fifth_of_its_class(labels)
    return dataset_of(
        "Digits (scikit-learn, from UCI)",
        (pixels[~test], labels[~test]),
        (pixels[test], labels[test]),
        chosen,
        16,
        "Optical Recognition of Handwritten Digits (test part), E. Alpaydin and C. Kaynak, 1998, "
        "UCI Machine Learning Repository, https://doi.org/10.24432/C50P49; "
        "Creative Commons Attribution 4.0 (CC BY 4.0), https://creativecommons.org/licenses/by/4.0/",
    )


def _load(
    published: PublishedImages, classes: Sequence[int] | None, data_home: Path | str | None, progress: bool
) -> ImageDataset:
    chosen = kept_classes(classes)

    def part(images: PublishedFile, labels: PublishedFile, words: str) -> _Part:
        pixels = retrieve(published, images, data_home, progress=progress)
        targets = retrieve(published, labels, data_home, progress=progress)
        return _labelled_images(pixels, targets, _N_CLASSES, f"{published.name} {words}")

    train = part(published.train_images, published.train_labels, "training")
    test = part(published.test_images, published.test_labels, "test")
    return dataset_of(published.name, train, test, chosen, 255, published.licence)


_Part = tuple[NDArray[np.uint8], NDArray[np.int64]]


def dataset_of(
    name: str, train: _Part, test: _Part, classes: tuple[int, ...], brightest: int, licence: str
) -> ImageDataset:
    """Return the images of some classes as rows. Each part is pictures and their labels."""
    *channels, height, width = train[0].shape[1:]
    X_train, y_train = _of_classes(train, classes)
    X_test, y_test = _of_classes(test, classes)
    return ImageDataset(
        name=name,
        X_train=X_train,
        y_train=y_train,
        X_test=X_test,
        y_test=y_test,
        image_shape=(channels[0] if channels else 1, height, width),
        brightest=brightest,
        classes=classes,
        licence=licence,
    )


def _of_classes(part: _Part, classes: tuple[int, ...]) -> _Part:
    """Return the images of some classes as rows, in new writable arrays."""
    images, labels = part
    rows = np.isin(labels, classes)
    return images.reshape(len(images), -1)[rows], labels[rows]


def kept_classes(classes: Sequence[int] | None) -> tuple[int, ...]:
    """Return the classes to keep, in ascending order."""
    if classes is None:
        return tuple(range(_N_CLASSES))
    if not isinstance(classes, Iterable):
        raise InvalidParameterError(f"classes={classes!r} must name at least two distinct labels, such as (3, 8).")
    return tuple(sorted(integer_between("classes", item, 0, _N_CLASSES - 1) for item in declared_classes(classes)))


def _every_fifth_of_its_class(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which images are the fifth, tenth, ... of their class."""
    fifth = np.zeros(len(labels), dtype=np.bool_)
    for label in range(_N_CLASSES):
        fifth[np.flatnonzero(labels == label)[4::5]] = True
    return fifth
