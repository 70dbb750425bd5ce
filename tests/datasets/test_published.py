import gzip
import hashlib
import os
import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpensemble.datasets import published
from dpensemble.datasets import published as download
from dpensemble.datasets import published as retrieval
from dpensemble.datasets.published import (
    ENVIRONMENT_VARIABLE,
    FASHION_MNIST,
    MNIST,
    NotAsPublished,
    PublishedFile,
    _named_home,
    _user_cache,
    retrieve,
)
from dpensemble.errors import FileError, InvalidParameterError

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

    monkeypatch.setattr(retrieval, "_user_cache", homeless)
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

    monkeypatch.setattr(retrieval.Path, "open", refuse)
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
    published = publish(serve())

    @contextmanager
    def interrupted(*arguments, **settings):
        def stop(_):
            raise KeyboardInterrupt

        yield stop

    with monkeypatch.context() as patch:
        patch.setattr(download, "progress_bar", interrupted)
        with pytest.raises(KeyboardInterrupt):
            get(published)
    assert not cache.exists()
    assert get(published) == contents["train-labels"]


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
