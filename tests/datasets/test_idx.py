import numpy as np
import pytest

from dpensemble.datasets.idx import labelled_images, read_idx
from dpensemble.errors import DataError, FileError


@pytest.mark.parametrize("shape", [(1,), (300,), (2, 3, 4), (1, 28, 28)])
def test_idx_is_read_as_it_was_written(idx, shape):
    array = np.random.default_rng(0).integers(256, size=shape)
    found = read_idx(idx(array), len(shape), "it")
    assert found.dtype == np.uint8
    assert np.array_equal(found, array)


def test_every_cut_and_every_excess_is_refused(idx):
    whole = idx(np.zeros((2, 2, 2)))
    for length in range(len(whole)):
        with pytest.raises(FileError, match=r"^it (is cut off|must be a 3-dim).*fetch the published file again\.$"):
            read_idx(whole[:length], 3, "it")
    with pytest.raises(FileError, match="it goes on after its end: it has 25 bytes, but its header announces 24"):
        read_idx(whole + b"\0", 3, "it")


@pytest.mark.parametrize(
    "magic",
    [
        b"\0\0\x08\x01",
        b"\0\0\x09\x03",
        b"\0\0\x0d\x03",
        b"\x08\x03\0\0",
        b"\x1f\x8b\x08\0",
        b"<htm",
        b"PK\3\4",
        b"\xff",
    ],
    ids=repr,
)
def test_another_magic_number_is_refused(idx, magic):
    with pytest.raises(
        FileError, match=f"must be a 3-dimensional IDX file, but it starts with 0x{magic.hex()} instead of 0x"
    ):
        read_idx(magic + idx(np.zeros((1, 1, 1)))[4:] if len(magic) == 4 else magic, 3, "it")


def test_huge_sizes_are_compared_not_allocated():
    with pytest.raises(FileError, match="cut off: it has 16 bytes, but its header announces 79228162458924"):
        read_idx(b"\0\0\x08\x03" + b"\xff" * 12, 3, "it")


@pytest.mark.parametrize("shape", [(0, 2, 2), (2, 0, 2), (2, 2, 0)])
def test_nothing_is_no_data_set(idx, shape):
    with pytest.raises(DataError, match="it is empty: one of its sizes is zero"):
        read_idx(idx(np.zeros(shape)), 3, "it")


def test_images_come_with_their_labels(idx):
    pixels, labels = labelled_images(idx([[[1, 2]], [[3, 4]]]), idx([9, 0]), 10, "Tiny test")
    assert pixels.tolist() == [[[1, 2]], [[3, 4]]]
    assert labels.tolist() == [9, 0]
    assert labels.dtype == np.int64


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            [0, 1, 2],
            r"Tiny test has 2 images but 3 labels: use two files of one part of one data set\.",
        ),
        ([0], "has 2 images but 1 labels"),
        ([0, 10], r"Tiny test labels go up to 10: use labels from 0 to 9\."),
        ([255, 0], "go up to 255"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(idx, labels, message):
    with pytest.raises(DataError, match=message):
        labelled_images(idx(np.zeros((2, 1, 1))), idx(labels), 10, "Tiny test")


def test_images_and_labels_are_not_mistaken_for_each_other(idx):
    images, labels = idx(np.zeros((2, 1, 1))), idx([0, 1])
    with pytest.raises(FileError, match="Tiny test images must be a 3-dimensional IDX file"):
        labelled_images(labels, images, 10, "Tiny test")
    with pytest.raises(FileError, match="Tiny test labels must be a 1-dimensional IDX file"):
        labelled_images(images, images, 10, "Tiny test")
