"""A tiny published data set, a web server on this machine, and a fence around all other machines."""

import gzip
import hashlib
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from dpensemble.datasets import download, retrieval
from dpensemble.datasets.homes import ENVIRONMENT_VARIABLE
from dpensemble.datasets.published import PublishedFile, PublishedImages

LOCAL = "127.0.0.1"


@pytest.fixture(autouse=True)
def _no_other_machine(monkeypatch):
    connect = socket.socket.connect

    def fenced(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] != LOCAL:
            raise AssertionError(f"a test reached for {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", fenced)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "_PATIENCE", 5.0)


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
def cache(tmp_path, monkeypatch):
    """An empty cache of this user, and no other folder of data sets."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(retrieval, "user_cache", lambda: folder)
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    return folder


class Server:
    """Serves `pages` (bytes, or a function of the request) by path, and lists the paths `asked` for."""

    def __init__(self):
        outer = self
        self.pages, self.asked, self.over = {}, [], threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                page = outer.pages.get(self.path)
                # The client may be gone, which is what some tests are about.
                with suppress(OSError):
                    if callable(page):
                        page(self)
                    elif page is None:
                        self.send_error(404)
                    else:
                        outer.send(self, page, len(page))

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer((LOCAL, 0), Handler)
        self.address = f"http://{LOCAL}:{self.http.server_port}/"

    @staticmethod
    def send(request, body, announced):
        request.send_response(200)
        if announced is not None:
            request.send_header("Content-Length", str(announced))
        request.end_headers()
        request.wfile.write(body)


@pytest.fixture
def server():
    running = Server()
    thread = threading.Thread(target=running.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.over.set()
    running.http.shutdown()
    thread.join()
    running.http.server_close()


@pytest.fixture
def serve(server, contents):
    """Serves the tiny data set, packed, and returns its address."""

    def put(folder="tiny/"):
        for name, content in contents.items():
            server.pages[f"/{folder}{name}.gz"] = gzip.compress(content)
        return server.address + folder

    return put
