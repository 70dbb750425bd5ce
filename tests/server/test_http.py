"""Bodies that are small to send and large to read: each ends at its first error, and quotes nothing.

Lines of the log: equal lines of strangers and libraries are counted.
"""

import io
import json
import tracemalloc

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from dpensemble.server.http import JsonLog, _prediction_model, _queries_of_body

NAMES = b",".join(b'"SECRET%x":[]' % one for one in range(100_000))
HOSTILE = {
    "objects as votes": (b'{"counts":[' + b",".join([b"{}"] * 600_000) + b"]}", "too_many_parts"),
    "objects as votes, within bounds": (b'{"counts":[' + b",".join([b"{}"] * 200_000) + b"]}", "list_type"),
    "objects as rows": (b'{"rows":[' + b",".join([b"{}"] * 200_000) + b"]}", "too_long"),
    "unknown names": (b"{" + NAMES + b"}", "extra_forbidden"),
    "wrong labels": (b'{"ballots":[[' + b",".join([b"0.5"] * 400_000) + b"]]}", "int_type"),
    "nested": (b'{"counts":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "json_invalid"),
    "a long number": (b'{"counts":[[' + b"9" * 1_800_000 + b"]]}", "json_invalid"),
    "a long name": (b'{"' + b"a" * 1_800_000 + b'":1}', "extra_forbidden"),
    "no JSON": (b"\xff" * 1_800_000, "json_invalid"),
}


class Counted:
    """The model of a request, and how many errors were made of each body that it read."""

    def __init__(self):
        self.model, self.errors = _prediction_model(1_000), []

    def model_validate_json(self, body):
        try:
            found = self.model.model_validate_json(body)
        except ValidationError as error:
            self.errors.append(error.error_count())
            raise
        self.errors.append(0)
        return found


@pytest.mark.parametrize(("body", "kind"), HOSTILE.values(), ids=HOSTILE)
def test_reading_ends_at_the_first_error(body, kind):
    model = Counted()
    tracemalloc.start()
    try:
        with pytest.raises(RequestValidationError) as caught:
            _queries_of_body(model, body, 250_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # An error for each object took more than two gigabytes, and 16 s. What has too many parts is not even read.
    assert peak < 100_000_000
    assert len(model.errors) == (kind != "too_many_parts")
    # One wrong entry has an error for each of its two types.
    assert max(model.errors, default=0) <= 2
    errors = caught.value.errors()
    assert [one["type"] for one in errors] == [kind]
    assert "input" not in errors[0]
    assert caught.value.__context__ is None


@pytest.mark.parametrize("body", [one for one, _ in HOSTILE.values()], ids=HOSTILE)
def test_hostile_bodies_are_refused_unquoted(served, body):
    headers = served.as_("alice", "k") | {"Content-Type": "application/json"}
    found = served.client.post("/v1/grants/october/predictions", content=body, headers=headers)
    assert found.status_code == 422
    assert len(found.content) < 1_000
    assert "SECRET" not in found.text
    assert served.ledger.verify().requests == 0


def test_nothing_of_a_body_is_read_before_its_sender_is_known(served, monkeypatch):
    read = []
    monkeypatch.setattr("dpensemble.server.http._queries_of_body", lambda *given: read.append(given))
    path = "/v1/grants/october/predictions"
    assert served.client.post(path, json={"counts": [[50, 50]]}).status_code == 401
    assert served.ask(who="prometheus").status_code == 403
    assert read == []


@pytest.fixture
def log():
    found = JsonLog(io.StringIO(), lambda: found.now)
    found.now = 0.0
    return found


def lines(log):
    read = [json.loads(one) for one in log._stream.getvalue().splitlines()]
    return [{name: value for name, value in one.items() if name != "time"} for one in read]


def test_repeated_lines_are_counted(log):
    for _ in range(100_000):
        log.counted("library", at="selector_events:190")
    log.counted("library", at="elsewhere:1")
    assert len(lines(log)) == 2
    log.now = 11.0
    log.counted("library", at="selector_events:190")
    first = {"event": "library", "at": "selector_events:190"}
    assert lines(log) == [first, {"event": "library", "at": "elsewhere:1"}, first | {"repeated": 99_999}, first]
    log.flush()
    assert len(lines(log)) == 4


def test_many_different_lines_take_little_memory(log):
    for number in range(1_000):
        log.counted("request", route=str(number))
        log.counted("request", route=str(number))
    assert len(log._repeats) <= 200
    log.flush()
    assert sum(one.get("repeated", 0) for one in lines(log)) == 1_000


def test_requests_without_a_key_are_counted_and_others_are_not(served):
    for _ in range(5):
        assert served.get("/v1/grants", None).status_code == 401
        assert served.get("/v1/grants").status_code == 200
    shown = [json.loads(one) for one in served.log.getvalue().splitlines()]
    assert [one["status"] for one in shown if one["event"] == "request"].count(401) == 1
    assert [one["status"] for one in shown if one["event"] == "request"].count(200) == 5
