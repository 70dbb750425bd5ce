import errno
import gzip
import hashlib
import os
import re
import sys
import threading
from contextlib import contextmanager
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

import dpensemble
from dpensemble import load_digit_images, load_fashion_mnist, load_mnist
from dpensemble.datasets import ImageDataset, published
from dpensemble.datasets.published import (
    ENVIRONMENT_VARIABLE,
    FASHION_MNIST,
    MNIST,
    NotAsPublished,
    NotDelivered,
    PublishedFile,
    _labelled_images,
    _named_home,
    _read_idx,
    _user_cache,
    fetch,
    retrieve,
    store,
)
from dpensemble.errors import DataError, FileError, InvalidParameterError

from ..deadline import GUARD


def test_the_argument_comes_before_the_environment(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "b"))
    assert _named_home(tmp_path / "a") == tmp_path / "a"
    assert _named_home(str(tmp_path / "a")) == tmp_path / "a"
    assert _named_home(None) == tmp_path / "b"


@pytest.mark.parametrize("value", [None, ""])
def test_nothing_need_be_named(monkeypatch, value):
    if value is None:
        monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(ENVIRONMENT_VARIABLE, value)
    assert _named_home(None) is None


def test_the_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "data").mkdir()
    assert _named_home("~/data") == tmp_path / "data"
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "~/data")
    assert _named_home(None) == tmp_path / "data"


def test_what_is_named_must_be_a_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    for value in (tmp_path / "none", tmp_path / "file", "~nobody-of-this-name/data", 5, True):
        with pytest.raises(InvalidParameterError, match=r"data_home='.*' is not a folder: give the folder that holds"):
            _named_home(value)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(InvalidParameterError, match=r"DPENSEMBLE_DATA='.*none' is not a folder"):
        _named_home(None)


@pytest.mark.parametrize(
    ("platform", "variable", "inside"),
    [
        ("linux", "XDG_CACHE_HOME", ".cache"),
        ("freebsd14", "XDG_CACHE_HOME", ".cache"),
        ("win32", "LOCALAPPDATA", "AppData/Local"),
        ("darwin", None, "Library/Caches"),
    ],
)
def test_each_platform_has_its_place_for_caches(tmp_path, monkeypatch, platform, variable, inside):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os.path, "expanduser", lambda _: str(tmp_path))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    usual = tmp_path / inside / "dpensemble"
    assert _user_cache() == usual
    if variable is not None:
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
        assert _user_cache() == tmp_path / "elsewhere" / "dpensemble"
        monkeypatch.setenv(variable, "relative")
        assert _user_cache() == usual


def test_a_user_without_a_home_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(published.os.path, "expanduser", lambda path: path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    with pytest.raises(FileError, match="no home folder to store downloads in: name a folder that holds"):
        _user_cache()
    assert not Path("~").exists()


CONTENT = bytes(range(256)) * 8
FILE = PublishedFile("it", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.mark.parametrize("level", range(10))
def test_content_is_known_however_it_is_packed(level):
    assert FILE.unpack(gzip.compress(CONTENT, level)) == CONTENT
    assert FILE.unpack(CONTENT) == CONTENT


def test_packing_in_several_members_is_the_same_content():
    assert FILE.unpack(gzip.compress(CONTENT[:100]) + gzip.compress(CONTENT[100:])) == CONTENT


def test_another_content_is_refused():
    other = CONTENT[:-1] + b"\0"
    for raw in (other, CONTENT[:-1], CONTENT + b"\0", b"", b"\x1f"):
        for form in (raw, gzip.compress(raw)):
            with pytest.raises(NotAsPublished, match=r"its SHA-256 is [0-9a-f]{12}\.\.\., not [0-9a-f]{12}\.\.\."):
                FILE.unpack(form)


def test_damaged_packing_is_refused():
    packed = gzip.compress(CONTENT)
    for length in range(2, len(packed)):
        with pytest.raises(NotAsPublished, match="it is damaged or incomplete"):
            FILE.unpack(packed[:length])
    with pytest.raises(NotAsPublished, match="it is damaged or incomplete"):
        FILE.unpack(packed + b"more")
    for at in range(2, len(packed)):
        # Time stamps and the like may change, but content may not.
        changed = packed[:at] + bytes([packed[at] ^ 0x15]) + packed[at + 1 :]
        try:
            assert FILE.unpack(changed) == CONTENT
        except NotAsPublished:
            continue


def test_a_bomb_is_not_unpacked():
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < FILE.largest
    with pytest.raises(NotAsPublished):
        FILE.unpack(bomb)


def test_the_largest_form_is_not_too_large():
    whole = bytes(47_040_016)
    assert len(gzip.compress(whole, 0)) <= PublishedFile("it", len(whole), "").largest


@pytest.mark.parametrize("published", [MNIST, FASHION_MNIST], ids=lambda p: p.folder)
def test_declarations_are_complete(published):
    files = [published.train_images, published.train_labels, published.test_images, published.test_labels]
    assert [file.n_bytes for file in files] == [16 + 60_000 * 784, 8 + 60_000, 16 + 10_000 * 784, 8 + 10_000]
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in files)
    assert len(published.addresses) == 2
    assert all(re.fullmatch(r"https?://\S+/", address) for address in published.addresses)
    assert published.addresses[0].startswith("https://")


def test_no_file_is_declared_twice():
    sums = {
        file.sha256
        for published in (MNIST, FASHION_MNIST)
        for file in (published.train_images, published.train_labels, published.test_images, published.test_labels)
    }
    assert len(sums) == 8


def get(published, data_home=None, file="train_labels"):
    return retrieve(published, getattr(published, file), data_home, progress=False)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("place", ["argument", "environment", "cache"])
def test_files_are_found_packed_or_not_without_a_download(
    tmp_path, monkeypatch, cache, publish, fill, contents, server, place, packed
):
    home = cache if place == "cache" else tmp_path / "home"
    fill(home / "tiny", packed)
    if place == "environment":
        monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(home))
    published = publish(server.address)
    for name, content in contents.items():
        assert get(published, home if place == "argument" else None, name.replace("-", "_")) == content
    assert server.asked == []


def test_content_tells_whether_a_file_is_packed_not_its_name(cache, publish, contents):
    (cache / "tiny").mkdir(parents=True)
    (cache / "tiny" / "train-labels.gz").write_bytes(contents["train-labels"])
    (cache / "tiny" / "train-images").write_bytes(gzip.compress(contents["train-images"]))
    assert get(publish()) == contents["train-labels"]
    assert get(publish(), file="train_images") == contents["train-images"]


def test_each_file_is_looked_for_in_both_folders_then_downloaded(
    tmp_path, cache, publish, fill, contents, server, serve
):
    home = tmp_path / "home"
    fill(home / "tiny", packed=False, names=["train-images"])
    fill(cache / "tiny", packed=True, names=["train-labels"])
    published = publish(serve())
    for name, content in contents.items():
        assert get(published, home, name.replace("-", "_")) == content
    assert server.asked == ["/tiny/test-images.gz", "/tiny/test-labels.gz"]
    assert [path.name for path in (home / "tiny").iterdir()] == ["train-images"], "named folders are not written to"


def test_a_named_folder_needs_no_cache(tmp_path, monkeypatch, publish, fill, contents):
    def homeless():
        raise AssertionError("asked for the cache")

    monkeypatch.setattr(published, "_user_cache", homeless)
    fill(tmp_path / "tiny", packed=True)
    assert get(publish(), tmp_path) == contents["train-labels"]


def test_a_download_is_made_once(cache, publish, contents, server, serve):
    published = publish(serve())
    for _ in range(2):
        assert get(published) == contents["train-labels"]
    assert server.asked == ["/tiny/train-labels.gz"]
    assert [path.name for path in (cache / "tiny").iterdir()] == ["train-labels.gz"]


def test_what_an_interrupted_program_left_is_not_read(cache, publish, fill, contents):
    fill(cache / "tiny", packed=True)
    (cache / "tiny" / ".train-labels.gz.0123456789abcdef.part").write_bytes(b"\x1f\x8bhalf")
    assert get(publish()) == contents["train-labels"]


def test_folders_in_a_files_place_are_passed_over(cache, publish, contents, serve):
    (cache / "tiny" / "train-labels").mkdir(parents=True)
    assert get(publish(serve())) == contents["train-labels"]


@pytest.mark.parametrize("name", ["train-labels", "train-labels.gz"])
@pytest.mark.parametrize("in_cache", [False, True])
def test_a_file_that_is_not_the_published_one_is_refused(
    tmp_path, cache, publish, fill, contents, server, serve, name, in_cache
):
    home = tmp_path / "home"
    home.mkdir()
    folder = (cache if in_cache else home) / "tiny"
    fill(folder, packed=name.endswith(".gz"))
    published = publish(serve())
    other = contents["train-labels"][:-1] + b"\7"
    packed = gzip.compress(contents["train-labels"])
    for raw, fault in (
        (other, "its SHA-256 is"),
        (packed[:-3], "damaged"),
        (b"", "SHA-256"),
        (bytes(10**6), "SHA"),
    ):
        (folder / name).write_bytes(raw)
        with pytest.raises(
            FileError, match=rf"{name} is not the published file .*{fault}.*: replace it by the published one"
        ) as found:
            get(published, home)
        assert str(folder / name) in str(found.value)
        assert "\n" not in str(found.value)
        assert (folder / name).read_bytes() == raw
    assert server.asked == []


def test_a_file_that_may_not_be_read_is_named(cache, publish, fill, monkeypatch):
    fill(cache / "tiny", packed=False)

    def refuse(path, mode):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(published.Path, "open", refuse)
    with pytest.raises(FileError, match=r"train-labels cannot be read .Permission denied.: make it readable\."):
        get(publish())


def test_the_second_address_is_tried_when_the_first_fails(cache, publish, contents, server, serve):
    good = serve("good/")
    wrong = {"/cut/": b"\x1f\x8b", "/other/": gzip.compress(b"something else"), "/large/": bytes(10**6)}
    for folder, page in wrong.items():
        server.pages[f"{folder}train-labels.gz"] = page
    server.pages["/half/train-labels.gz"] = lambda request: server.send(request, b"\x1f\x8bhalf", 1000)
    for folder in (*wrong, "/half/", "/missing/"):
        assert get(publish(server.address + folder[1:], good)) == contents["train-labels"]
        (cache / "tiny" / "train-labels.gz").unlink()
    assert len(server.asked) == 2 * 5


def test_when_nothing_helps_the_message_says_where_and_how(tmp_path, cache, publish, server):
    server.pages["/second/train-labels.gz"] = gzip.compress(b"something else")
    first, second = f"{server.address}first/", f"{server.address}second/"
    with pytest.raises(FileError) as found:
        get(publish(first, second), tmp_path)
    message = str(found.value)
    assert message.startswith(f"train-labels.gz of Tiny is not in {tmp_path / 'tiny'} or {cache / 'tiny'} and could")
    assert f"{first}train-labels.gz (the server answered 404) or {second}train-labels.gz (its SHA-256 is" in message
    named = "or into a folder tiny inside the folder that data_home or DPENS"
    assert f"from one of these addresses into {cache / 'tiny'}, {named}" in message
    assert "\n" not in message
    assert not cache.exists()


def test_an_interrupted_download_leaves_nothing(cache, publish, contents, serve, monkeypatch):
    tiny = publish(serve())

    @contextmanager
    def interrupted(*arguments, **settings):
        def stop(_):
            raise KeyboardInterrupt

        yield stop

    with monkeypatch.context() as patch:
        patch.setattr(published, "progress_bar", interrupted)
        with pytest.raises(KeyboardInterrupt):
            get(tiny)
    assert not cache.exists()
    assert get(tiny) == contents["train-labels"]


def test_two_downloads_at_once_both_succeed(cache, publish, contents, server, serve):
    published = publish(serve())
    packed, both = server.pages["/tiny/train-labels.gz"], threading.Barrier(2, timeout=GUARD)

    def together(request):
        both.wait()
        server.send(request, packed, len(packed))

    server.pages["/tiny/train-labels.gz"] = together
    found = []
    threads = [threading.Thread(target=lambda: found.append(get(published))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [contents["train-labels"]] * 2
    assert [path.name for path in (cache / "tiny").iterdir()] == ["train-labels.gz"]


def test_a_cache_that_cannot_be_written_is_named(cache, publish, serve):
    cache.write_bytes(b"a file")
    with pytest.raises(FileError, match=r"train-labels.gz cannot be written"):
        get(publish(serve()))


def test_a_named_folder_must_exist(tmp_path, cache, publish, server, serve):
    with pytest.raises(InvalidParameterError, match="is not a folder"):
        get(publish(serve()), tmp_path / "none")
    assert server.asked == []


def downloaded(address, largest=10**6, progress=False):
    return fetch(address, largest, title="Downloading it", progress=progress)


@pytest.mark.parametrize("size", [0, 1, 2**16, 2**16 + 1, 300_000])
def test_what_is_served_arrives(server, size):
    server.pages["/a"] = bytes(size)
    assert downloaded(server.address + "a") == bytes(size)


def test_a_file_of_unknown_size_arrives(server):
    server.pages["/a"] = lambda request: server.send(request, b"hello", None)
    assert downloaded(server.address + "a") == b"hello"


def test_progress_is_shown_on_stderr_when_asked_for(server, capsys):
    server.pages["/a"] = bytes(100_000)
    downloaded(server.address + "a", progress=True)
    shown = capsys.readouterr()
    assert "Downloading it" in shown.err
    assert "100%" in shown.err
    assert shown.out == ""
    downloaded(server.address + "a")
    assert capsys.readouterr().err == ""


def test_redirections_are_followed(server):
    def elsewhere(request):
        request.send_response(302)
        request.send_header("Location", "/b")
        request.send_header("Content-Length", "0")
        request.end_headers()

    server.pages.update({"/a": elsewhere, "/b": b"there"})
    assert downloaded(server.address + "a") == b"there"


def test_refusals_carry_their_code(server):
    with pytest.raises(NotDelivered, match=r"^the server answered 404$"):
        downloaded(server.address + "missing")


def test_a_broken_connection_is_no_file(server):
    server.pages["/a"] = lambda request: server.send(request, b"half", 8)
    with pytest.raises(NotDelivered, match=r"^the connection broke$"):
        downloaded(server.address + "a")


def test_too_much_is_not_read_to_its_end(server):
    server.pages["/a"] = lambda request: server.send(request, bytes(2**20), None)
    with pytest.raises(NotDelivered, match=r"^it is larger than the published file$"):
        downloaded(server.address + "a", largest=1000)


def test_silence_does_not_last(server, monkeypatch):
    monkeypatch.setattr(published, "_PATIENCE", 0.2)

    def stall(request):
        server.send(request, b"ha", 8)
        server.over.wait(GUARD)

    server.pages.update({"/before": lambda request: server.over.wait(GUARD), "/within": stall})
    for page in ("before", "within"):
        with pytest.raises(NotDelivered, match=r"^the server did not answer in time$"):
            downloaded(server.address + page)


def test_what_is_no_web_server_is_named(server):
    server.pages["/a"] = lambda request: request.wfile.write(b"SSH-2.0\r\n\r\n")
    with pytest.raises(NotDelivered, match="SSH"):
        downloaded(server.address + "a")
    server.pages["/b"] = lambda request: request.wfile.write(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf"
    )
    with pytest.raises(NotDelivered, match="IncompleteRead"):
        downloaded(server.address + "b")


def test_nobody_answers():
    with pytest.raises(NotDelivered, match="refused"):
        downloaded("http://127.0.0.1:9/a")


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1/a", "/etc/hostname", ""])
def test_only_the_web_is_read(address):
    with pytest.raises(NotDelivered, match="not a web address"):
        downloaded(address)


def test_a_file_is_stored_and_replaced(tmp_path):
    target = tmp_path / "new" / "folder" / "a"
    for content in (b"one", b"two"):
        store(content, target)
        assert target.read_bytes() == content
        assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("before", [None, b"old"])
def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch, stop, before):
    target = tmp_path / "a"
    if before is not None:
        target.write_bytes(before)
    write = Path.write_bytes

    def half(path, content):
        write(path, content[:2])
        raise stop

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(
        KeyboardInterrupt if stop is KeyboardInterrupt else FileError,
        match=None if stop is KeyboardInterrupt else r"a cannot be written .No space left on device.: make",
    ):
        store(b"whole", target)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([] if before is None else [before])


def test_writers_at_once_leave_one_whole_file(tmp_path):
    target = tmp_path / "a"
    wholes = {bytes([i]) * 50_000 for i in range(4)}
    store(min(wholes), target)
    threads = [
        threading.Thread(target=lambda whole=whole: [store(whole, target) for _ in range(20)]) for whole in wholes
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert target.read_bytes() in wholes
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_that_another_process_reads_need_not_be_replaced(tmp_path, monkeypatch):
    """On Windows it cannot be."""

    def refuse(path, target):
        raise PermissionError(errno.EACCES, "Access is denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(FileError, match="Access is denied"):
        store(b"whole", tmp_path / "a")
    (tmp_path / "b").write_bytes(b"whole")
    store(b"whole", tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match=r"file.a cannot be written .*: make its folder writable, or name one"):
        store(b"whole", tmp_path / "file" / "a")


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
    published, labels = idx(np.zeros((2, 1, 1))), idx([0, 1])
    with pytest.raises(FileError, match="Tiny test images must be a 3-dimensional IDX file"):
        _labelled_images(labels, published, 10, "Tiny test")
    with pytest.raises(FileError, match="Tiny test labels must be a 1-dimensional IDX file"):
        _labelled_images(published, published, 10, "Tiny test")


# Read before any test changes it.
HOME = os.environ.get(ENVIRONMENT_VARIABLE, "")


@pytest.fixture
def tiny(monkeypatch, cache, publish, fill):
    """Both loaders load the tiny data set from the cache."""
    fill(cache / "tiny", packed=True)
    monkeypatch.setattr(published, "MNIST", publish())
    monkeypatch.setattr(published, "FASHION_MNIST", publish())


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
    monkeypatch.setattr(published, "MNIST", publish())
    with pytest.raises(DataError, match=r"Tiny training has 6 images but 2 labels"):
        load_mnist()
    contents["train-labels"] = idx([1, 2, 3, 4, 5, 10])
    contents["test-images"] = b"no IDX"
    fill(cache / "tiny", packed=False)
    monkeypatch.setattr(published, "MNIST", publish())
    with pytest.raises(DataError, match=r"Tiny training labels go up to 10"):
        load_mnist()
    contents["train-labels"] = idx([1, 2, 3, 4, 5, 6])
    fill(cache / "tiny", packed=False)
    monkeypatch.setattr(published, "MNIST", publish())
    with pytest.raises(FileError, match=r"Tiny test images must be a 3-dimensional IDX file"):
        load_mnist()


def test_everything_is_downloaded_when_nothing_is_there(cache, monkeypatch, publish, serve, server, capsys):
    monkeypatch.setattr(published, "MNIST", publish(serve()))
    assert load_mnist(progress=True).y_test.tolist() == [8, 3, 1]
    assert len(server.asked) == 4
    assert "Downloading tiny/train-images.gz" in capsys.readouterr().err
    assert load_mnist(progress=True).y_test.tolist() == [8, 3, 1]
    assert len(server.asked) == 4
    assert capsys.readouterr().err == ""


def test_a_folder_may_be_named(tmp_path, cache, monkeypatch, publish, fill):
    fill(tmp_path / "mine" / "tiny", packed=False)
    monkeypatch.setattr(published, "FASHION_MNIST", publish())
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
