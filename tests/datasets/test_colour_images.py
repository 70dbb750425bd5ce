"""CIFAR-10 from its archive or its files, as made-up small ones of the same form."""

import hashlib
import io
import tarfile
from dataclasses import replace

import numpy as np
import pytest

from dpensemble.datasets import cifar10, load_cifar10
from dpensemble.datasets.cifar10 import CIFAR_10
from dpensemble.datasets.published import PublishedFile
from dpensemble.errors import FileError, InvalidParameterError

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
