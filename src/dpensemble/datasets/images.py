"""Images for classification: MNIST, Fashion-MNIST, and small digits that need no download.

MNIST's format is IDX: a magic number, the sizes, then one unsigned byte for each entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from dpensemble._checks import integer_between
from dpensemble._class_names import declared_classes
from dpensemble._entries import Integers
from dpensemble.datasets.published import FASHION_MNIST, MNIST, PublishedFile, PublishedImages, retrieve
from dpensemble.errors import DataError, FileError, InvalidParameterError

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
