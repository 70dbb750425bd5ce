import errno
import threading
from pathlib import Path

import pytest

from dpensemble.datasets import published
from dpensemble.datasets.published import NotDelivered, fetch, store
from dpensemble.errors import FileError

from ..deadline import GUARD


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
