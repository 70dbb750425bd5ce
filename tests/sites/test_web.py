"""Messages over HTTP on a port of this machine: whole runs, keys, sizes, restarts, and services that lie."""

import datetime
import io
import ipaddress
import json
import logging
import os
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import dpensemble.engine.run as engine
from dpensemble.cli import main
from dpensemble.errors import DataError, DPEnsembleError, FileError, InvalidParameterError
from dpensemble.server import client
from dpensemble.server.app import _how_to_listen, _tls_context
from dpensemble.server.mailbox import create_mailbox
from dpensemble.server.sign_in import KeyFile
from dpensemble.sites import HTTPMessages, SiteRun, web
from dpensemble.sites.messages import KINDS, SitesError
from dpensemble.sites.web import SharedBox
from tests.deadline import until
from tests.sites.hospitals import DECLARED, Hospitals, a_folder, table
from tests.sites.parties import ZeroNoise

AGREE = "agree.h0.1.0.json"


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """Let parties see each message at once, and wait for no service."""
    monkeypatch.setattr(web, "_FRESH", 0.0)
    monkeypatch.setattr(client, "time", SimpleNamespace(sleep=lambda _: None))


class Service:
    """The service of a folder, with a key for each site."""

    def __init__(self, root, names=("h0", "h1", "h2")):
        self.folder, self.keys, self.log = root / "messages", root / "keys.json", io.StringIO()
        self.folder.mkdir(exist_ok=True)
        self.tokens = {name: KeyFile(self.keys).create(name, ["messages"])[1] for name in names}
        self.port = 0

    @contextmanager
    def on(self, tls=None):
        """Serve in a thread, on the same port as before."""
        app = create_mailbox(SharedBox(self.folder), self.keys, self.log)
        listening = _how_to_listen(20, *(() if tls is None else (tls,)))
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=self.port, lifespan="off", **listening))
        thread = threading.Thread(target=server.run)
        thread.start()
        until(lambda: server.started)
        self.port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.should_exit = True
            thread.join()

    def messages(self, name, **more):
        scheme = "https" if more else "http"
        return HTTPMessages(f"{scheme}://127.0.0.1:{self.port}", self.tokens[name], **more)


@pytest.fixture
def served(tmp_path):
    with Service(tmp_path).on() as service:
        yield service


class FarHospitals(Hospitals):
    """Hospitals whose sites reach the coordinator's folder by its service only."""

    def __init__(self, root, service, **settings):
        self.service = service
        super().__init__(root, **settings)

    def join(self, names=None, **more):
        for name in names or self.names:
            carrier = self.service.messages(name)
            self.parties[name] = SiteRun.join(carrier, self.own(name), name=name, private=self.file(name), **more)


@contextmanager
def far(tmp_path, **settings):
    hospitals = FarHospitals(tmp_path, None, **settings)
    service = hospitals.service = Service(tmp_path)
    with service.on():
        yield hospitals


def test_a_run_over_http_gives_the_model_of_a_run_by_files(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "noise_source", lambda _: ZeroNoise())
    settings = {"declared_columns": DECLARED, "sizes": (20, 30, 40)}
    near = Hospitals(a_folder(tmp_path / "near"), **settings).all_join().play()
    rows = table(50, 7, target=False)[list(DECLARED)]
    expected = near.parties["h0"].model_.predict_proba(rows)
    with far(a_folder(tmp_path / "far"), **settings) as hospitals:
        hospitals.all_join().play()
        for party in hospitals.parties.values():
            assert (party.model_.predict_proba(rows) == expected).all()
        assert hospitals.parties["h1"].status()["problems"] == []
        assert {path.name for path in hospitals.messages.iterdir()} == {path.name for path in near.messages.iterdir()}
        # The log names neither messages nor sites, and has no secret.
        said = hospitals.service.log.getvalue()
    assert said
    for secret in (*hospitals.service.tokens.values(), *hospitals.names, "agree", "sum"):
        assert secret not in said


def test_public_rows_are_fetched_from_the_service(tmp_path):
    with far(tmp_path) as hospitals:
        hospitals.join(["h0"])
        assert (hospitals.own("h0") / "public.csv").read_bytes() == (hospitals.messages / "public.csv").read_bytes()


def test_a_service_that_starts_again_in_the_middle_loses_no_attempt(tmp_path):
    hospitals = FarHospitals(tmp_path, None, declared_columns=DECLARED)
    service = hospitals.service = Service(tmp_path)
    with service.on():
        hospitals.all_join()
        for name in list(hospitals.parties) * 4:
            hospitals.step(name)
    # While the service is away, messages count as missing.
    assert not hospitals.step("h0")
    assert "gives no answer" in hospitals.parties["h0"].status()["problems"][0]
    with service.on():
        hospitals.play()
    assert hospitals.parties["h0"].status()["attempts"] == 1


def test_a_message_is_sent_when_the_service_is_back(tmp_path, monkeypatch):
    service = Service(tmp_path)
    with service.on():
        carrier = service.messages("h0")
    tries = []

    def pause(_):
        tries.append(1)
        if len(tries) == 3:
            back.append(service.on())
            back[0].__enter__()

    back = []
    monkeypatch.setattr(client, "time", SimpleNamespace(sleep=pause))
    carrier.put(AGREE, b"later")
    assert carrier.get(AGREE, 10) == b"later"
    back[0].__exit__(None, None, None)


@pytest.mark.parametrize("token", ["dpe_wrong", f"dpe_{'0' * 12}_{'A' * 43}"])
def test_a_wrong_key_is_refused_at_once_and_never_shown(served, tmp_path, token, capfd):
    served.tokens["h0"] = token
    table(30, 0).to_csv(tmp_path / "h0.csv", index=False)
    with pytest.raises(DPEnsembleError, match="A valid API key is required") as caught:
        SiteRun.join(served.messages("h0"), tmp_path / "own", name="h0", private=tmp_path / "h0.csv")
    assert token not in str(caught.value) + served.log.getvalue() + "".join(capfd.readouterr())
    assert token not in repr(served.messages("h0"))
    assert list(served.folder.iterdir()) == []


def test_a_key_of_the_service_of_answers_does_not_reach_messages(served):
    served.tokens["reader"] = KeyFile(served.keys).create("reader", ["read", "predict"])[1]
    with pytest.raises(DPEnsembleError, match="scope 'messages'"):
        served.messages("reader").get(AGREE, 10)


@pytest.mark.parametrize(
    "name",
    [
        "agree.h1.1.0.json",
        "terms.coordinator.0.0.json",
        "public.csv",
        "other.h0.1.0.json",
        "agree.h0.1.0.json.exe",
        "agree.h0.100.0.json",
        "agree.h0.01.0.json",
        "agree.h0.1.00.json",
        "../agree.h0.1.0.json",
        "agree.h0.٣.0.json",
        ".agree.h0.1.0.json",
    ],
)
def test_a_site_puts_only_messages_under_its_own_name(served, name):
    with pytest.raises(DPEnsembleError, match=r"does not allow a message of this name|There is nothing here"):
        served.messages("h0").put(name, b"x")
    assert list(served.folder.iterdir()) == []


def test_a_key_called_coordinator_does_not_speak_for_the_coordinator(served):
    for name in ("coordinator", "Coordinator"):
        with suppress(InvalidParameterError):
            served.tokens[name] = KeyFile(served.keys).create(name, ["messages"])[1]
            with pytest.raises(DPEnsembleError, match="does not allow"):
                served.messages(name).put(f"start.{name}.1.0.json", b"x")


def test_too_large_messages_and_too_many_are_refused(served, monkeypatch):
    carrier = served.messages("h0")
    with pytest.raises(DataError, match="too large"):
        carrier.put(AGREE, b"x" * (KINDS["agree"] + 1))
    with pytest.raises(DataError, match="too large"):
        carrier.put("sum.h0.1.0.json", b"x" * (KINDS["sum"] + 1))
    assert list(served.folder.iterdir()) == []
    monkeypatch.setattr(web, "_ROOM", 100)
    monkeypatch.setattr(web, "_LEAST", 0)
    carrier.put(AGREE, b"x" * 60)
    with pytest.raises(DataError, match="used up its room"):
        carrier.put("agree.h0.1.1.json", b"x" * 60)
    # Another site has its own room.
    served.messages("h1").put("agree.h1.1.0.json", b"x" * 60)
    assert sorted(path.name for path in served.folder.iterdir()) == [AGREE, "agree.h1.1.0.json"]


def test_empty_messages_take_room_of_their_own_site_only(tmp_path, monkeypatch):
    """A list of a million empty messages would be too long for all other sites."""
    monkeypatch.setattr(web, "_ROOM", 3 * web._LEAST)
    box = SharedBox(tmp_path)
    assert [box.put("h0", f"agree.h0.0.{number}.json", b"") for number in range(5)] == [True] * 3 + [False] * 2
    # The name of a site may be the number of an attempt.
    assert box.put("0", "agree.0.1.0.json", b"")
    assert len(box.stamps()) == 4


def test_a_message_that_is_sent_twice_at_once_is_written_once_at_a_time(tmp_path, monkeypatch):
    """Both writers would use one draft, and readers would see the beginning of a message."""
    box, held = SharedBox(tmp_path), []
    monkeypatch.setattr(box._folder, "put", lambda *_: held.append(box._one_at_a_time.locked()))
    assert box.put("h0", AGREE, b"x")
    assert held == [True]
    assert not box._one_at_a_time.locked()


def test_a_reader_bounds_what_it_reads_and_sees_changed_messages(served):
    writer, reader = served.messages("h0"), served.messages("h1")
    for content in (b"one", b"two", b"longer"):
        writer.put(AGREE, content)
        assert reader.get(AGREE, 10) == content
    with pytest.raises(OSError, match="sends something else"):
        reader.get(AGREE, 5)
    assert reader.get("agree.h2.1.0.json", 10) is None


def test_a_party_that_waits_for_long_writes_few_lines(served):
    carrier = served.messages("h0")
    for _ in range(20):
        assert carrier.get(AGREE, 10) is None
    lines = [json.loads(line) for line in served.log.getvalue().splitlines()]
    # Equal lines of ten seconds are counted. So slow a machine that this takes longer writes another line.
    assert [line["route"] for line in lines if line["event"] == "request"].count("/v1/messages") < 20
    assert "often" not in served.log.getvalue()


@pytest.mark.parametrize("make", ["mkdir", "link", "pipe"])
def test_what_is_no_file_in_the_folder_is_not_followed(served, tmp_path, make):
    place = served.folder / AGREE
    if make == "mkdir":
        place.mkdir()
    elif make == "link":
        (tmp_path / "secret").write_text("secret")
        place.symlink_to(tmp_path / "secret")
    else:
        os.mkfifo(place)
    assert served.messages("h1").get(AGREE, 10) is None


LIST = json.dumps({AGREE: "1"}).encode()


@contextmanager
def liar(of_list, of_message=b"", status=200, headers=()):
    """Return the address of a service that sends what it likes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = of_list if self.path == "/v1/messages" else of_message
            self.send_response(status)
            for name, value in headers or [("Content-Length", str(len(content)))]:
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield HTTPMessages(f"http://127.0.0.1:{server.server_port}", "dpe_x")
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "answers",
    [
        {"of_list": LIST, "of_message": b"x" * 1000},
        {"of_list": b" " * 2**25},
        {"of_list": b"[1]"},
        {"of_list": b'{"a": 1}'},
        {"of_list": b"[" * 10**5},
        {"of_list": LIST[:-3], "headers": [("Content-Length", str(len(LIST)))]},
    ],
    ids=["large message", "large list", "no names", "no stamps", "deep", "cut off"],
)
def test_what_a_lying_service_sends_counts_as_missing(answers):
    with liar(**answers) as carrier, pytest.raises(OSError, match=r"no answer|something else"):
        carrier.get(AGREE, 100)


def test_refusals_of_a_lying_service_are_shown_without_control_characters():
    refusal = json.dumps({"title": "\x1b[2Jno", "detail": "x" * 10}).encode()
    with liar(refusal, status=403) as carrier, pytest.raises(DPEnsembleError) as caught:
        carrier.get(AGREE, 100)
    assert str(caught.value).isprintable()
    with liar(b"[" * 60_000, status=403) as carrier, pytest.raises(DPEnsembleError, match="refused with status 403"):
        carrier.get(AGREE, 100)
    elsewhere = [("Location", "http://127.0.0.1:9/")]
    refused = pytest.raises(DPEnsembleError, match="redirections are not followed")
    with liar(b"", status=307, headers=elsewhere) as carrier, refused:
        carrier.get(AGREE, 100)
    with liar(b"", status=404) as carrier, pytest.raises(SitesError, match="has no messages"):
        carrier.get(AGREE, 100)


def test_addresses_that_show_the_key_and_keys_that_are_none_are_refused(tmp_path):
    for url in ("http://example.org", "ftp://localhost", "example.org"):
        with pytest.raises(InvalidParameterError, match="https"):
            HTTPMessages(url, "dpe_x")
    with pytest.raises(InvalidParameterError, match="key must be an API key"):
        HTTPMessages("https://example.org", "two words")
    with pytest.raises(InvalidParameterError, match="give HTTPMessages"):
        SiteRun.load("https://example.org", tmp_path / "own")
    with pytest.raises(FileError, match="authority="):
        HTTPMessages("https://example.org", "dpe_x", authority=tmp_path / "none.pem")
    with pytest.raises(FileError, match="must be a folder that exists"):
        SharedBox(tmp_path / "none")


def certificate(folder):
    """Write a certificate for this machine that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "coordinator")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(2000, 1, 1))
        .not_valid_after(datetime.datetime(2199, 1, 1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "c.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    (folder / "k.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return folder / "c.pem", folder / "k.pem"


def test_tls_needs_a_certificate_of_a_trusted_authority(tmp_path):
    paths = certificate(tmp_path)
    service = Service(tmp_path)
    with service.on(_tls_context(*paths)):
        trusting = service.messages("h0", authority=paths[0])
        trusting.put(AGREE, b"one")
        assert trusting.get(AGREE, 10) == b"one"
        with pytest.raises(DPEnsembleError, match=r"certificate of https://127.0.0.1:\d+ is not trusted"):
            HTTPMessages(f"https://127.0.0.1:{service.port}", service.tokens["h0"]).get(AGREE, 10)


def test_commands_take_an_address_in_place_of_the_folder(served, tmp_path, capsys):
    table(60, 0).to_csv(tmp_path / "h0.csv", index=False)
    table(220, 99, target=False).to_csv(tmp_path / "public.csv", index=False)
    options = [
        "--sites",
        "h0,h1,h2",
        "--classes",
        "no,yes",
        "--target",
        "sick",
        "--public",
        str(tmp_path / "public.csv"),
    ]
    assert main(["sites", "new", str(served.folder), str(tmp_path / "c"), *options]) == 0
    (tmp_path / "key").write_text(served.tokens["h0"] + "\n")
    place, own = f"http://127.0.0.1:{served.port}", str(tmp_path / "own")
    key = ["--key-file", str(tmp_path / "key")]
    joining = ["--name", "h0", "--private", str(tmp_path / "h0.csv")]
    assert main(["sites", "join", place, own, *key, *joining]) == 0
    assert main(["sites", "status", place, own, *key]) == 0
    assert "h0 joined with the fingerprint" in capsys.readouterr().out
    assert main(["sites", "run", place, own, *key, "--private", str(tmp_path / "h0.csv"), "--patience", "0"]) == 2
    assert "waiting for h1, h2 to join" in capsys.readouterr().err
    for wrong in ([place, own], [str(served.folder), own, *key], [place, own, "--key-file", str(tmp_path / "none")]):
        assert main(["sites", "status", *wrong]) == 2
        assert "key_file" in capsys.readouterr().err.replace("--key-file", "key_file")


def test_the_command_that_serves_takes_the_options_of_the_service(served, tmp_path, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr("dpensemble.server.app.uvicorn.run", lambda app, **given: ran.append((app, given)))
    # Not the loggers of this process, which later tests read.
    quiet = SimpleNamespace(getLogger=logging.Logger, WARNING=logging.WARNING)
    monkeypatch.setattr("dpensemble.server.app.logging", quiet)
    paths = certificate(tmp_path)
    command = ["sites", "serve", str(served.folder), "--keys", str(served.keys), "--port", "8443"]
    assert main([*command, "--certificate", str(paths[0]), "--certificate-key", str(paths[1])]) == 0
    assert ran[0][1]["port"] == 8443
    assert main([*command, "--certificate", str(paths[0])]) == 2
    assert "TLS requires a certificate and its key" in capsys.readouterr().err
    assert main(["sites", "serve", str(tmp_path / "none"), "--keys", str(served.keys)]) == 2
    assert "must be a folder that exists" in capsys.readouterr().err
    assert main(["sites", "serve", str(served.folder), "--keys", str(tmp_path / "none.json")]) == 2
    assert "keys create" in capsys.readouterr().err
