"""Lines of the log: equal lines of strangers and libraries are counted."""

import io
import json

import pytest

from dpensemble.server.http import JsonLog


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
