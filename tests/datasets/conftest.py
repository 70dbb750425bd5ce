"""A tiny published data set, beside the fixtures of all tests that download."""

import gzip
import hashlib

import numpy as np
import pytest

from dpensemble.datasets.published import PublishedFile, PublishedImages

from ..downloads import _no_other_machine, cache, server

__all__ = ["_no_other_machine", "cache", "server"]


@pytest.fixture
def idx():
    """Writes an array as IDX."""

    def write(array):
        array = np.asarray(array, dtype=np.uint8)
        sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
        return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()

    return write


@pytest.fixture
def contents(idx):
    """Unpacked files of a data set of 6 training and 3 test images of 2 x 3 pixels, by name."""
    pixels = np.arange(9 * 6).reshape(9, 2, 3)
    labels = [3, 8, 0, 8, 3, 9, 8, 3, 1]
    return {
        "train-images": idx(pixels[:6] + 200),
        "train-labels": idx(labels[:6]),
        "test-images": idx(pixels[6:]),
        "test-labels": idx(labels[6:]),
    }


@pytest.fixture
def publish(contents):
    """Declares `contents` as published at some addresses. Some contents may be declared otherwise."""

    def declare(*addresses, **instead):
        def file(name):
            content = instead.get(name.replace("-", "_"), contents[name])
            return PublishedFile(name, len(content), hashlib.sha256(content).hexdigest())

        return PublishedImages(
            name="Tiny",
            folder="tiny",
            addresses=addresses,
            licence="none",
            **{name.replace("-", "_"): file(name) for name in contents},
        )

    return declare


@pytest.fixture
def fill(contents):
    """Puts files of the tiny data set into a folder, packed or not."""

    def put(folder, packed, names=None):
        folder.mkdir(parents=True, exist_ok=True)
        for name in contents if names is None else names:
            content = contents[name]
            (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)

    return put


@pytest.fixture
def serve(server, contents):
    """Serves the tiny data set, packed, and returns its address."""

    def put(folder="tiny/"):
        for name, content in contents.items():
            server.pages[f"/{folder}{name}.gz"] = gzip.compress(content)
        return server.address + folder

    return put
