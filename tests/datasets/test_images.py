import os
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

import dpensemble
from dpensemble import load_digit_images, load_fashion_mnist, load_mnist
from dpensemble.datasets import ImageDataset, images
from dpensemble.datasets.images import _labelled_images, _read_idx
from dpensemble.datasets.published import ENVIRONMENT_VARIABLE
from dpensemble.errors import DataError, FileError, InvalidParameterError


@pytest.mark.parametrize("shape", [(1,), (300,), (2, 3, 4), (1, 28, 28)])
def test_idx_is_read_as_it_was_written(idx, shape):
    array = np.random.default_rng(0).integers(256, size=shape)
    found = _read_idx(idx(array), len(shape), "it")
    assert found.dtype == np.uint8
    assert np.array_equal(found, array)


def test_every_cut_and_every_excess_is_refused(idx):
    whole = idx(np.zeros((2, 2, 2)))
    for length in range(len(whole)):
        with pytest.raises(FileError, match=r"^it (is cut off|must be a 3-dim).*fetch the published file again\.$"):
            _read_idx(whole[:length], 3, "it")
    with pytest.raises(FileError, match="it goes on after its end: it has 25 bytes, but its header announces 24"):
        _read_idx(whole + b"\0", 3, "it")


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
        _read_idx(magic + idx(np.zeros((1, 1, 1)))[4:] if len(magic) == 4 else magic, 3, "it")


def test_huge_sizes_are_compared_not_allocated():
    with pytest.raises(FileError, match="cut off: it has 16 bytes, but its header announces 79228162458924"):
        _read_idx(b"\0\0\x08\x03" + b"\xff" * 12, 3, "it")


@pytest.mark.parametrize("shape", [(0, 2, 2), (2, 0, 2), (2, 2, 0)])
def test_nothing_is_no_data_set(idx, shape):
    with pytest.raises(DataError, match="it is empty: one of its sizes is zero"):
        _read_idx(idx(np.zeros(shape)), 3, "it")


def test_images_come_with_their_labels(idx):
    pixels, labels = _labelled_images(idx([[[1, 2]], [[3, 4]]]), idx([9, 0]), 10, "Tiny test")
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
        _labelled_images(idx(np.zeros((2, 1, 1))), idx(labels), 10, "Tiny test")


def test_images_and_labels_are_not_mistaken_for_each_other(idx):
    images, labels = idx(np.zeros((2, 1, 1))), idx([0, 1])
    with pytest.raises(FileError, match="Tiny test images must be a 3-dimensional IDX file"):
        _labelled_images(labels, images, 10, "Tiny test")
    with pytest.raises(FileError, match="Tiny test labels must be a 1-dimensional IDX file"):
        _labelled_images(images, images, 10, "Tiny test")


# Read before any test changes it.
HOME = os.environ.get(ENVIRONMENT_VARIABLE, "")


@pytest.fixture
def tiny(monkeypatch, cache, publish, fill):
    """Both loaders load the tiny data set from the cache."""
    fill(cache / "tiny", packed=True)
    monkeypatch.setattr(images, "MNIST", publish())
    monkeypatch.setattr(images, "FASHION_MNIST", publish())


def real(folder):
    if not HOME or not (Path(HOME).expanduser() / folder).is_dir():
        pytest.skip(f"{ENVIRONMENT_VARIABLE} names no folder that holds {folder}")
    return HOME


@pytest.mark.parametrize("load", [load_mnist, load_fashion_mnist])
def test_images_are_rows_in_the_published_order(tiny, load):
    data = load()
    assert isinstance(data, ImageDataset)
    assert data.X_train.tolist() == [[(200 + 6 * i + j) % 256 for j in range(6)] for i in range(6)]
    assert data.X_test.tolist() == [[6 * i + j for j in range(6)] for i in range(6, 9)]
    assert data.y_train.tolist() == [3, 8, 0, 8, 3, 9]
    assert data.y_test.tolist() == [8, 3, 1]
    assert (data.X_train.dtype, data.y_train.dtype) == (np.uint8, np.int64)
    assert (data.image_shape, data.brightest, data.classes) == ((1, 2, 3), 255, tuple(range(10)))
    assert (data.name, data.licence) == ("Tiny", "none")


@pytest.mark.parametrize("classes", [(3, 8), [8, 3], {8, 3}, np.array([3, 8]), (np.int64(8), 3)], ids=repr)
def test_classes_are_kept_and_the_order_of_images_too(tiny, classes):
    data = load_mnist(classes=classes)
    assert data.X_train[:, 0].tolist() == [200, 206, 218, 224]
    assert data.y_train.tolist() == [3, 8, 8, 3]
    assert data.X_test[:, 0].tolist() == [36, 42]
    assert data.y_test.tolist() == [8, 3]
    assert data.classes == (3, 8)
    assert all(type(label) is int for label in data.classes)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (3, r"classes=3 must name at least two"),
        ([], r"classes=\[\] must name at least two"),
        ([3], r"classes=\[3\] must name at least two"),
        ([3, 3], r"classes=\[3, 3\] must name at least two distinct"),
        ([3, 10], r"classes=10 is not an integer from 0 to 9"),
        ([-1, 3], r"classes=-1 is not"),
        ([3.0, 8], r"classes=3.0 is not"),
        ([False, True], r"classes=False is not"),
        ("38", r"classes='38' must be a list of labels"),
    ],
)
@pytest.mark.parametrize("load", [load_mnist, load_fashion_mnist, load_digit_images])
def test_classes_that_are_none_are_refused_before_anything_is_read(cache, load, classes, message):
    with pytest.raises(InvalidParameterError, match=message):
        load(classes=classes)


@pytest.mark.parametrize("classes", [None, (3, 8)])
def test_arrays_may_be_written_to_and_share_nothing(tiny, classes):
    first, second = load_mnist(classes=classes), load_mnist(classes=classes)
    for name in ("X_train", "y_train", "X_test", "y_test"):
        array = getattr(first, name)
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert not np.shares_memory(array, getattr(second, name))
    with pytest.raises(FrozenInstanceError):
        first.name = "another"


def test_scaled_pixels_are_floats_from_0_to_1(tiny):
    data = load_mnist()
    every = np.arange(256, dtype=np.uint8).reshape(2, 128)
    found = data.scaled(every)
    assert found.dtype == np.float32
    assert found.shape == (2, 128)
    assert np.array_equal(found.ravel(), np.arange(256, dtype=np.float32) / np.float32(255))
    assert np.array_equal(data.scaled(data.X_train)[1:3], data.scaled(data.X_train[1:3]))
    assert every.dtype == np.uint8


@pytest.mark.parametrize("X", [np.zeros((2, 2), np.float32), np.zeros((2, 2), np.int64), [[0, 1]], None])
def test_only_unscaled_pixels_are_scaled(X):
    with pytest.raises(
        InvalidParameterError, match=r"X must be an array of uint8, but got .*: give unscaled rows of X_train or X_test"
    ):
        load_digit_images().scaled(X)


def test_files_that_disagree_are_refused(cache, monkeypatch, publish, contents, fill, idx):
    """If a publisher's own files were faulty, their checksums would not show it."""
    contents["train-labels"] = idx([1, 2])
    fill(cache / "tiny", packed=False)
    monkeypatch.setattr(images, "MNIST", publish())
    with pytest.raises(DataError, match=r"Tiny training has 6 images but 2 labels"):
        load_mnist()
    contents["train-labels"] = idx([1, 2, 3, 4, 5, 10])
    contents["test-images"] = b"no IDX"
    fill(cache / "tiny", packed=False)
    monkeypatch.setattr(images, "MNIST", publish())
    with pytest.raises(DataError, match=r"Tiny training labels go up to 10"):
        load_mnist()
    contents["train-labels"] = idx([1, 2, 3, 4, 5, 6])
    fill(cache / "tiny", packed=False)
    monkeypatch.setattr(images, "MNIST", publish())
    with pytest.raises(FileError, match=r"Tiny test images must be a 3-dimensional IDX file"):
        load_mnist()


def test_everything_is_downloaded_when_nothing_is_there(cache, monkeypatch, publish, serve, server, capsys):
    monkeypatch.setattr(images, "MNIST", publish(serve()))
    assert load_mnist(progress=True).y_test.tolist() == [8, 3, 1]
    assert len(server.asked) == 4
    assert "Downloading tiny/train-images.gz" in capsys.readouterr().err
    assert load_mnist(progress=True).y_test.tolist() == [8, 3, 1]
    assert len(server.asked) == 4
    assert capsys.readouterr().err == ""


def test_a_folder_may_be_named(tmp_path, cache, monkeypatch, publish, fill):
    fill(tmp_path / "mine" / "tiny", packed=False)
    monkeypatch.setattr(images, "FASHION_MNIST", publish())
    assert load_fashion_mnist(data_home=tmp_path / "mine").y_test.tolist() == [8, 3, 1]
    with pytest.raises(InvalidParameterError, match=r"data_home='.*none' is not a folder"):
        load_fashion_mnist(data_home=tmp_path / "none")


def test_digits_are_split_for_good():
    digits = load_digit_images()
    assert digits.X_train.shape == (1442, 64)
    assert digits.X_test.shape == (355, 64)
    assert (digits.X_train.dtype, digits.y_train.dtype) == (np.uint8, np.int64)
    assert (digits.image_shape, digits.brightest, digits.classes) == ((1, 8, 8), 16, tuple(range(10)))
    assert np.bincount(digits.y_test).tolist() == [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]
    assert digits.y_test[:10].tolist() == [5, 0, 9, 8, 7, 1, 2, 6, 3, 4]
    assert digits.scaled(digits.X_train).max() == 1
    assert "CC BY 4.0" in digits.licence


def test_digits_are_those_of_scikit_learn_each_once():
    from sklearn.datasets import load_digits

    digits, found = load_digit_images(), load_digits()
    rows = np.concatenate([digits.X_train, digits.X_test])
    labels = np.concatenate([digits.y_train, digits.y_test])
    ours = sorted((label, *row) for label, row in zip(labels.tolist(), rows.tolist(), strict=True))
    theirs = sorted((label, *row) for label, row in zip(found.target.tolist(), found.data.tolist(), strict=True))
    assert ours == theirs
    order = {tuple(row): i for i, row in enumerate(found.data.tolist())}
    positions = [order[tuple(row)] for row in digits.X_train.tolist()]
    assert positions == sorted(positions)


def test_a_subset_of_digits_is_a_part_of_the_whole():
    whole, part = load_digit_images(), load_digit_images(classes=(8, 3))
    for X, y in (("X_train", "y_train"), ("X_test", "y_test")):
        kept = np.isin(getattr(whole, y), (3, 8))
        assert np.array_equal(getattr(part, X), getattr(whole, X)[kept])
        assert np.array_equal(getattr(part, y), getattr(whole, y)[kept])


def test_an_estimator_learns_from_images():
    digits = load_digit_images(classes=(0, 1))
    test = digits.scaled(digits.X_test)
    model = dpensemble.SubsampleAggregateClassifier(
        classes=digits.classes, n_teachers=15, epsilon=20, random_state=0, insecure_release_seed=0
    )
    model.fit(digits.scaled(digits.X_train), digits.y_train, X_public=test)
    assert np.mean(model.predict(test) == digits.y_test) > 0.9
    assert model.classes_.tolist() == list(digits.classes)


@pytest.mark.parametrize(
    ("load", "folder", "train", "test", "mean"),
    [
        (
            load_mnist,
            "mnist",
            [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
            [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
            0.1307,
        ),
        (load_fashion_mnist, "fashion-mnist", [6000] * 10, [1000] * 10, 0.2860),
    ],
)
def test_the_published_files_are_as_described(cache, load, folder, train, test, mean):
    data = load(data_home=real(folder))
    assert data.X_train.shape == (60_000, 784)
    assert data.X_test.shape == (10_000, 784)
    assert data.image_shape == (1, 28, 28)
    assert np.bincount(data.y_train).tolist() == train
    assert np.bincount(data.y_test).tolist() == test
    # The mean that everyone normalises by.
    assert data.X_train.mean() / 255 == pytest.approx(mean, abs=5e-5)
    assert not cache.exists()


def test_the_first_digit_is_the_famous_five(cache, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, real("mnist"))
    data = load_mnist(classes=(5, 0))
    assert data.y_train[:4].tolist() == [5, 0, 5, 0]
    assert len(data.y_train) == 5421 + 5923
    assert load_mnist(classes=(3, 8)).X_train.shape == (11_982, 784)
