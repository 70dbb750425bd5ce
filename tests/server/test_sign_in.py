"""API keys: made, found, revoked, and never kept.

Tokens of an OpenID Connect provider, with a provider of the tests' own on this machine.
"""

import base64
import json
import multiprocessing
import socket
import stat
import threading
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from filelock import FileLock

from dpensemble.cli import main
from dpensemble.errors import DPEnsembleError, FileError, InvalidParameterError
from dpensemble.server import read_settings, sign_in
from dpensemble.server.sign_in import KeyFile, KeyRing, Scope, Sessions

from ..deadline import GUARD, until
from .conftest import CONFIG, Served


def test_a_key_is_found_by_its_token_alone_and_gone_at_once(tmp_path):
    path = tmp_path / "keys.json"
    made, token = KeyFile(path).create("alice", ["read"], ["october"])
    other, _ = KeyFile(path).create("alice", ["own"])
    ring = KeyRing(path)
    assert ring.of(token) == made
    assert made.may(Scope.READ)
    assert not made.may(Scope.PREDICT)
    assert (made.covers("october"), made.covers("november")) == (True, False)
    assert all(map(other.may, Scope))
    swapped = token.replace(made.id, other.id)
    for wrong in (swapped, token[:-1], token + "x", token.upper(), "", "dpe_", "Bearer " + token, token + "\n"):
        assert ring.of(wrong) is None
    assert token.split("_", 2)[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    KeyFile(path).revoke(made.id)
    assert ring.of(token) is None


def test_keys_expire(tmp_path):
    path = tmp_path / "keys.json"
    _, token = KeyFile(path).create("alice", ["read"], days=1)
    ring = KeyRing(path)
    assert ring.of(token) is not None
    text = json.loads(path.read_text())
    text["keys"][0]["expires"] = "2020-01-01"
    path.write_text(json.dumps(text))
    assert ring.of(token) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"holder": "a b"}, "holder must be 1 to 40 letters"),
        ({"holder": "a:b"}, "holder must be 1 to 40 letters"),
        ({"scopes": []}, "requires a scope"),
        ({"scopes": ["all"]}, "'read' or"),
        ({"days": 0}, "days=0"),
    ],
)
def test_wrong_keys_are_not_made(tmp_path, given, message):
    with pytest.raises(InvalidParameterError, match=message):
        KeyFile(tmp_path / "keys.json").create(**{"holder": "alice", "scopes": ["read"]} | given)
    assert not (tmp_path / "keys.json").exists()


def test_a_new_holder_looks_like_no_other(tmp_path):
    path = tmp_path / "keys.json"
    KeyFile(path).create("alice", ["read"])
    for name in ("Alice", "ALICE", "aIice"):
        with pytest.raises(InvalidParameterError, match="looks like 'alice'"):
            KeyFile(path).create(name, ["read"])
    # A holder has as many keys as wanted.
    KeyFile(path).create("alice", ["predict"])
    KeyFile(path).create("bob", ["read"])
    assert [one.holder for one in KeyFile(path).read().values()] == ["alice", "alice", "bob"]


@pytest.mark.parametrize("kind", [threading.Thread, multiprocessing.get_context("fork").Process])
def test_a_key_that_is_revoked_while_another_is_made_stays_away(tmp_path, monkeypatch, kind):
    path = tmp_path / "keys.json"
    gone, _ = KeyFile(path).create("alice", ["read"])
    others = []

    def meanwhile(_):
        if not others:
            others.append(kind(target=KeyFile(path).revoke, args=(gone.id,)))
            others[0].start()
            # As long as it would take without a lock. With a lock it continues when the key is made.
            others[0].join(0.3)

    monkeypatch.setattr("dpensemble.workflow.disk.step", meanwhile)
    made, _ = KeyFile(path).create("bob", ["read"])
    others[0].join()
    assert KeyFile(path).read() == {made.id: made}


def test_keys_that_cannot_be_changed_alone_are_left(tmp_path, monkeypatch):
    path = tmp_path / "keys.json"
    made, _ = KeyFile(path).create("alice", ["read"])
    monkeypatch.setattr("dpensemble.server.sign_in._LOCK_PATIENCE", 0.01)
    with FileLock(f"{path}.lock"), pytest.raises(FileError, match="cannot be locked"):
        KeyFile(path).revoke(made.id)
    assert KeyFile(path).read() == {made.id: made}
    with pytest.raises(FileError, match="dpensemble keys create"):
        KeyFile(tmp_path / "none.json").revoke(made.id)
    assert not list(tmp_path.glob("none*"))


def test_files_that_are_no_keys_are_refused(tmp_path):
    with pytest.raises(FileError, match="dpensemble keys create"):
        KeyRing(tmp_path / "keys.json")
    for text in ("", "{}", "[]", '{"version": 2, "keys": []}', '{"version": 1, "keys": [{"id": "x"}]}'):
        (tmp_path / "keys.json").write_text(text)
        with pytest.raises(FileError, match="must be a file of keys of version"):
            KeyRing(tmp_path / "keys.json")


@pytest.mark.parametrize("name", ["id", "holder", "scopes", "grants", "sha256", "created", "expires", "more"])
@pytest.mark.parametrize("value", [-1, 1e308, True, "", "own", [], {}, ["x"], [["read"]], [1], "20301231", "\ud800"])
def test_an_entry_of_another_form_is_refused_and_never_widens_a_key(tmp_path, capsys, name, value):
    path = tmp_path / "keys.json"
    made, token = KeyFile(path).create("alice", ["read"], ["october"])
    content = json.loads(path.read_text())
    content["keys"][0][name] = value
    path.write_text(json.dumps(content))
    code = main(["keys", "list", str(path)])
    out, err = capsys.readouterr()
    if code == 0:
        # A list without grants covers all grants, and an older or another date or name is a date or a name.
        key = KeyRing(path).of(token)
        assert key is None or key.scopes == made.scopes or not value
        assert name in ("holder", "created", "expires", "grants", "scopes")
        assert key is None or key.covers("november") == (name == "grants" and value == [])
    else:
        assert (code, out) == (2, "")
        assert "must be a file of keys of version 1" in err


def test_two_keys_with_one_id_are_refused(tmp_path):
    path = tmp_path / "keys.json"
    KeyFile(path).create("alice", ["read"])
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"keys": content["keys"] * 2}))
    with pytest.raises(FileError, match="must be a file of keys of version"):
        KeyFile(path).read()


def test_sessions_end_with_their_key_and_their_time(tmp_path, monkeypatch):
    path = tmp_path / "keys.json"
    made, _ = KeyFile(path).create("alice", ["read"])
    sessions = Sessions(KeyRing(path), b"secret")
    cookie = sessions.begin(made)
    assert sessions.of(cookie) == made
    ident, until, part, signed = cookie.split(".")
    said = f"{ident}.{until}.{part}"
    other = "1" if signed.endswith("0") else "0"
    forged = [
        f"{ident}.{int(until) + 1}.{part}.{signed}",
        f"{said}x.{signed}",
        f"{said}.{signed[:-1]}{other}",
        f"{said}.",
    ]
    assert [sessions.of(one) for one in [*forged, "", "...", "é.1.x.x"]] == [None] * 7
    assert Sessions(KeyRing(path), b"other").of(cookie) is None
    assert sessions.is_own_form(cookie, sessions.form_token(cookie))
    assert not sessions.is_own_form(cookie, sessions.form_token(cookie + "x"))
    monkeypatch.setattr("dpensemble.server.sign_in.time.time", lambda: int(until) + 1)
    assert sessions.of(cookie) is None
    monkeypatch.undo()
    KeyFile(path).revoke(made.id)
    assert sessions.of(cookie) is None


# The clock of these tests stands still.
NOW = 1_800_000_000
ISSUER, AUDIENCE = "https://login.example.org/realm", "dpensemble-answers"
ALGORITHMS = {rsa.RSAPrivateKey: "RS256", ec.EllipticCurvePrivateKey: "ES256", ed25519.Ed25519PrivateKey: "EdDSA"}


class StoppedClock(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


class Login:
    """A provider: keys that it publishes, and tokens that it signs."""

    def __init__(self):
        self.keys, self.asked = {}, 0
        login = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self):
                login.asked += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({"keys": [login.published(kid) for kid in login.keys]}).encode())

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Page)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"

    def close(self):
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()

    def add(self, kid, key):
        self.keys[kid] = key

    def algorithm(self, kid):
        return next(name for kind, name in ALGORITHMS.items() if isinstance(self.keys[kid], kind))

    def published(self, kid):
        algorithm = jwt.get_algorithm_by_name(self.algorithm(kid))
        found = algorithm.to_jwk(self.keys[kid].public_key(), as_dict=True)
        return {**found, "kid": kid, "use": "sig", "alg": self.algorithm(kid)}

    def token(self, kid="one", *, key=None, algorithm=None, header=None, **claims):
        said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": NOW, "exp": NOW + 300,
                "scope": "openid dpensemble:read dpensemble:predict"} | claims  # fmt: skip
        said = {name: value for name, value in said.items() if value is not None}
        key, algorithm = key or self.keys.get(kid), algorithm or self.algorithm(kid)
        return jwt.encode(said, key, algorithm, headers={"kid": kid} if header is None else header)


@pytest.fixture
def login(monkeypatch):
    monkeypatch.setattr("jwt.api_jwt.datetime", StoppedClock)
    for name in ("_LIFESPAN", "_PATIENCE", "_COOLDOWN"):
        monkeypatch.setattr(sign_in, name, 10 * GUARD)
    found = Login()
    found.add("one", ec.generate_private_key(ec.SECP256R1()))
    yield found
    found.close()


@pytest.fixture
def served(home, login):
    text = f'\n[oidc]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\njwks_url = "{login.url}"\n'
    with (home / "service.toml").open("a") as file:
        file.write(text)
    found = Served(home)
    with found.client:
        yield found


def ask(served, token, key="row 1"):
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}
    return served.client.post("/v1/grants/october/predictions", json={"counts": [[50, 50]]}, headers=headers)


def get(served, token, path="/v1/grants"):
    return served.client.get(path, headers={"Authorization": f"Bearer {token}"})


def test_a_token_is_as_good_as_its_scopes(served, login):
    told = ask(served, login.token())
    assert told.status_code == 200
    # Another token of the same person gets the same answer. A token of another person has names of its own.
    assert ask(served, login.token()).content == told.content
    assert ask(served, login.token(sub="bob")).headers["idempotent-replayed"] == "false"
    assert ask(served, login.token(scope="dpensemble:read")).status_code == 403
    assert get(served, login.token(scope="dpensemble:read")).status_code == 200
    assert get(served, login.token(scope="read predict own")).status_code == 403
    assert get(served, login.token(scope=None)).status_code == 403
    assert get(served, login.token(scope=["dpensemble:own"])).status_code == 403
    assert get(served, login.token(scope="dpensemble:own"), "/v1/checkpoint").status_code == 200
    # API keys go on.
    assert served.ask(key="other").status_code == 200
    # The ledger and the log hold no person's name.
    said = json.dumps([entry.to_dict() for entry in served.ledger.entries()]) + served.log.getvalue()
    assert "alice" not in said.replace("alice:other", "")
    assert login.token()[:40] not in said


@pytest.mark.parametrize(
    "key", [rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()], ids=["RS256", "EdDSA"]
)
def test_other_signatures_are_checked_as_well(served, login, key):
    login.add("two", key)
    assert get(served, login.token("two")).status_code == 200
    head, body, signature = login.token("two").split(".")
    assert get(served, f"{head}.{body}.{signature[:-8]}{signature[:8]}").status_code == 401


def wrong_tokens(login):
    """Yield tokens that are not to be believed, by what is wrong with them."""
    yield "issuer", login.token(iss="https://login.example.org/other")
    yield "issuer that begins alike", login.token(iss=ISSUER + "/")
    yield "audience", login.token(aud="another-service")
    yield "expired", login.token(exp=NOW - 31)
    yield "not yet", login.token(nbf=NOW + 31)
    yield "from the future", login.token(iat=NOW + 31)
    for claim in ("exp", "iat", "iss", "aud", "sub"):
        yield f"no {claim}", login.token(**{claim: None})
    yield "sub is no text", login.token(sub=5)
    yield "sub is empty", login.token(sub="")
    yield "sub is blank", login.token(sub=" \t")
    yield "exp is no number", login.token(exp="soon")
    yield "no key named", login.token(header={})
    yield "unknown key", login.token(header={"kid": "nine"})
    yield "another's key", login.token(key=ec.generate_private_key(ec.SECP256R1()))
    yield "changed", changed(login.token(), sub="mallory")
    yield "none", unsigned(login.token())
    public = login.keys["one"].public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    yield "shared secret", by_secret(login.token(), pem)
    yield "nothing", ""
    yield "text", "a.b.c"
    yield "long", "a" * 10_000 + ".b.c"
    yield "encrypted", "e30.e30.e30.e30.e30"


def encoded(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def decoded(part):
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def changed(token, **claims):
    head, body, signature = token.split(".")
    return f"{head}.{encoded(decoded(body) | claims)}.{signature}"


def unsigned(token):
    head, body, _ = token.split(".")
    return f"{encoded(decoded(head) | {'alg': 'none'})}.{body}."


def by_secret(token, secret):
    """Return a token that is signed with the public key as if it were a shared secret."""
    import hashlib
    import hmac

    head, body, _ = token.split(".")
    text = f"{encoded(decoded(head) | {'alg': 'HS256'})}.{body}"
    signature = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def test_what_is_not_to_be_believed_is_refused(served, login):
    for wrong, token in wrong_tokens(login):
        found = get(served, token)
        assert found.status_code == 401, wrong
        assert found.json()["type"] == "urn:dpensemble:problem:no-key"
        assert ask(served, token).status_code == 401
    assert served.get("/v1/grants/october").json()["answered"] == 0
    # Of all that only tokens that name an unknown key make a difference to the provider, which is not asked each time.
    assert login.asked <= 3


def test_keys_rotate(served, login, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(served.app._app.state.service.sign_in.provider._keys, "_clock", lambda: now[0])
    monkeypatch.setattr(sign_in, "_COOLDOWN", 1)
    assert get(served, login.token()).status_code == 200
    login.add("next", ec.generate_private_key(ec.SECP256R1()))
    assert get(served, login.token("next")).status_code == 401
    now[0] = 2.0
    assert get(served, login.token("next")).status_code == 200
    old = login.token()
    del login.keys["one"]
    # A withdrawn token is good until the keys are fetched again.
    assert get(served, old).status_code == 200
    now[0] = 2.0 + 11 * GUARD
    assert get(served, old).status_code == 401
    assert get(served, login.token("next")).status_code == 200


def test_a_provider_that_is_away_is_no_reason_to_believe(served, login):
    token = login.token()
    login.close()
    found = get(served, token)
    assert (found.status_code, found.headers["retry-after"]) == (503, "5")
    assert served.get("/v1/grants").status_code == 200


class Hanging:
    """A provider whose keys come when the test lets them, with a clock that the test sets."""

    def __init__(self):
        self.calls, self.go, self.now, self.answers = 0, threading.Event(), 0.0, []
        self.keys = sign_in._ProviderKeys(self.get, lambda: self.now)

    def get(self):
        self.calls += 1
        assert self.go.wait(GUARD)
        if not self.answers:
            raise jwt.PyJWKClientConnectionError
        return [SimpleNamespace(key_id=name) for name in self.answers]

    def ended(self, name="a"):
        fetch = self.keys.fetch_for(name)
        if fetch is not None:
            fetch.result(GUARD)


@pytest.fixture
def hanging():
    found = Hanging()
    yield found
    found.go.set()


def test_a_provider_is_asked_once_at_a_time(hanging):
    fetches = {hanging.keys.fetch_for(f"key {number}") for number in range(50)}
    assert len(fetches) == 1
    hanging.answers = ["a"]
    hanging.go.set()
    fetches.pop().result(GUARD)
    assert hanging.calls == 1
    assert hanging.keys.find("a").key_id == "a"
    with pytest.raises(jwt.PyJWTError):
        hanging.keys.find("unknown")


def test_a_failure_is_remembered_briefly(hanging):
    hanging.go.set()
    for _ in range(9):
        hanging.ended()
    assert hanging.calls == 1
    with pytest.raises(DPEnsembleError, match="does not return its keys now"):
        hanging.keys.find("a")
    hanging.now, hanging.answers = sign_in._BRIEFLY + 1, ["a"]
    hanging.ended()
    assert hanging.calls == 2
    assert hanging.keys.find("a").key_id == "a"


def test_keys_that_are_known_wait_for_no_fetch(hanging):
    hanging.answers = ["a"]
    hanging.go.set()
    hanging.ended()
    hanging.go.clear()
    hanging.now = sign_in._COOLDOWN + 1
    assert hanging.keys.fetch_for("unknown") is not None
    assert hanging.keys.fetch_for("a") is None
    assert hanging.keys.find("a").key_id == "a"


def test_fetches_that_hang_stay_few(hanging):
    for hour in range(20):
        hanging.now = 3600.0 * hour
        hanging.keys.fetch_for("a")
    until(lambda: hanging.calls == sign_in._HUNG)
    assert hanging.keys.fetch_for("a") is None
    hanging.go.set()


def test_api_keys_do_not_wait_for_a_provider_that_hangs(home, monkeypatch):
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/keys"
        with (home / "service.toml").open("a") as file:
            file.write(f'\n[oidc]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\njwks_url = "{url}"\n')
        monkeypatch.setattr(sign_in, "_PATIENCE", 10 * GUARD)
        served = Served(home)
        keys = served.app._app.state.service.sign_in.provider._keys
        junk = ".".join((encoded({"alg": "RS256", "kid": "zzz"}), "e30", "AAAA"))
        with served.client:
            # More than all threads of the service.
            asked = [threading.Thread(target=get, args=(served, junk)) for _ in range(60)]
            for one in asked:
                one.start()
            until(lambda: keys._fetch is not None)
            assert served.get("/v1/grants").status_code == 200
            assert served.get("/health", None).status_code == 200
            silent.close()
            for one in asked:
                one.join()


def test_keys_of_a_provider_here_are_not_fetched_through_a_proxy(home, login, monkeypatch):
    text = f'\n[oidc]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\njwks_url = "{login.url}"\n'
    (home / "service.toml").write_text(CONFIG + text)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidParameterError, match=r"set no_proxy=127\.0\.0\.1"):
        Served(home)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert get(Served(home), login.token()).status_code == 200


def test_tokens_can_be_for_some_grants(home, login):
    with (home / "service.toml").open("a") as file:
        file.write(f'\n[oidc]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\njwks_url = "{login.url}"\n')
        file.write('grants_claim = "grants"\n')
    served = Served(home)
    assert ask(served, login.token(grants=["october"])).status_code == 200
    assert ask(served, login.token(grants=["november"])).status_code == 404
    for given in (None, [], "october", [5]):
        assert ask(served, login.token(grants=given)).status_code == 401


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('oidc = "x"', "oidc must be a table"),
        ('[oidc]\nissuer = "a"', "oidc lacks audience, jwks_url"),
        (
            '[oidc]\nissuer = "a"\naudience = "b"\njwks_url = "http://example.org/k"',
            "jwks_url must be an https address",
        ),
        ('[oidc]\nissuer = ""\naudience = "b"\njwks_url = "https://example.org/k"', "issuer is empty"),
    ],
)
def test_bad_settings_are_refused(home, text, match):
    before = (home / "service.toml").read_text()
    (home / "service.toml").write_text(f"{text}\n{before}" if text.startswith("oidc") else f"{before}\n{text}\n")
    with pytest.raises(InvalidParameterError, match=match):
        read_settings(home / "service.toml")


def test_no_algorithm_takes_a_shared_secret():
    assert not [name for name in sign_in._ALGORITHMS if name.startswith("HS") or name == "none"]
