"""API keys: made, found, revoked, and never kept."""

import json
import multiprocessing
import stat
import threading

import pytest
from filelock import FileLock

from dpensemble.cli import main
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.server.sign_in import KeyRing, Scope, Sessions, create_key, read_keys, revoke_key


def test_a_key_is_found_by_its_token_alone_and_gone_at_once(tmp_path):
    path = tmp_path / "keys.json"
    made, token = create_key(path, "alice", ["read"], ["october"])
    other, _ = create_key(path, "alice", ["own"])
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
    revoke_key(path, made.id)
    assert ring.of(token) is None


def test_keys_expire(tmp_path):
    path = tmp_path / "keys.json"
    _, token = create_key(path, "alice", ["read"], days=1)
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
        create_key(**{"path": tmp_path / "keys.json", "holder": "alice", "scopes": ["read"]} | given)
    assert not (tmp_path / "keys.json").exists()


def test_a_new_holder_looks_like_no_other(tmp_path):
    path = tmp_path / "keys.json"
    create_key(path, "alice", ["read"])
    for name in ("Alice", "ALICE", "aIice"):
        with pytest.raises(InvalidParameterError, match="looks like 'alice'"):
            create_key(path, name, ["read"])
    # A holder has as many keys as wanted.
    create_key(path, "alice", ["predict"])
    create_key(path, "bob", ["read"])
    assert [one.holder for one in read_keys(path).values()] == ["alice", "alice", "bob"]


@pytest.mark.parametrize("kind", [threading.Thread, multiprocessing.get_context("fork").Process])
def test_a_key_that_is_revoked_while_another_is_made_stays_away(tmp_path, monkeypatch, kind):
    path = tmp_path / "keys.json"
    gone, _ = create_key(path, "alice", ["read"])
    others = []

    def meanwhile(_):
        if not others:
            others.append(kind(target=revoke_key, args=(path, gone.id)))
            others[0].start()
            # As long as it would take without a lock. With a lock it continues when the key is made.
            others[0].join(0.3)

    monkeypatch.setattr("dpensemble.workflow.durable.step", meanwhile)
    made, _ = create_key(path, "bob", ["read"])
    others[0].join()
    assert read_keys(path) == {made.id: made}


def test_keys_that_cannot_be_changed_alone_are_left(tmp_path, monkeypatch):
    path = tmp_path / "keys.json"
    made, _ = create_key(path, "alice", ["read"])
    monkeypatch.setattr("dpensemble.server.sign_in._LOCK_PATIENCE", 0.01)
    with FileLock(f"{path}.lock"), pytest.raises(FileError, match="cannot be locked"):
        revoke_key(path, made.id)
    assert read_keys(path) == {made.id: made}
    with pytest.raises(FileError, match="dpensemble keys create"):
        revoke_key(tmp_path / "none.json", made.id)
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
    made, token = create_key(path, "alice", ["read"], ["october"])
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
    create_key(path, "alice", ["read"])
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"keys": content["keys"] * 2}))
    with pytest.raises(FileError, match="must be a file of keys of version"):
        read_keys(path)


def test_sessions_end_with_their_key_and_their_time(tmp_path, monkeypatch):
    path = tmp_path / "keys.json"
    made, _ = create_key(path, "alice", ["read"])
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
    revoke_key(path, made.id)
    assert sessions.of(cookie) is None
