"""A web server on this machine, an empty cache, and a fence around all other machines, for tests that download."""

import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dpensemble.datasets import published
from dpensemble.datasets.published import ENVIRONMENT_VARIABLE

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
    monkeypatch.setattr(published, "_PATIENCE", 5.0)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of this user, and no other folder of data sets."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(published, "_user_cache", lambda: folder)
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
