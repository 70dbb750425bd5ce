"""Read IDX, the format of MNIST: a magic number, the sizes, then one unsigned byte for each entry."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Integers
from dpensemble.errors import DataError, FileError

# The third byte of the magic number marks entries as unsigned bytes, and the fourth is the number of dimensions.
_UNSIGNED_BYTES = 0x0800
_WORD = 4


def read_idx(content: bytes, n_dimensions: int, source: str) -> NDArray[np.uint8]:
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


def labelled_images(images: bytes, labels: bytes, n_classes: int, source: str) -> tuple[NDArray[np.uint8], Integers]:
    """Return images (n_images, height, width) and their labels from two IDX files. `source` is for messages."""
    pixels = read_idx(images, 3, f"{source} images")
    ids = read_idx(labels, 1, f"{source} labels").astype(np.int64)
    if len(pixels) != len(ids):
        raise DataError(
            f"{source} has {len(pixels)} images but {len(ids)} labels: use two files of one part of one data set."
        )
    if ids.max() >= n_classes:
        raise DataError(f"{source} labels go up to {ids.max()}: use labels from 0 to {n_classes - 1}.")
    return pixels, ids
