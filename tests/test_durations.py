"""Which cases of a test run by day, and which at night."""

from itertools import product

import pytest

from .durations import SLOW, _may_be_in, patterns, repeats

DEAR = 10 * SLOW


def test_each_value_runs_by_day():
    cases = [((one, two), DEAR, {("one", one), ("two", two)}) for one, two in product("abc", "xyz")]
    at_night = repeats(cases)
    by_day = [case for case, _, _ in cases if case not in at_night]
    assert len(by_day) == 3
    assert {one for one, _ in by_day} == set("abc")
    assert {two for _, two in by_day} == set("xyz")


def test_cheap_cases_run_by_day_and_spare_dear_ones():
    cases = [
        ((one, two), SLOW if two == "x" else DEAR, {("one", one), ("two", two)}) for one, two in product("ab", "xy")
    ]
    assert repeats(cases) == [("b", "y")]


def test_of_cases_that_share_nothing_all_run_by_day():
    assert repeats([(case, DEAR, {case}) for case in "abc"]) == []


def test_the_dearer_of_two_alike_runs_at_night():
    assert repeats([("dear", 2 * DEAR, {1, 2}), ("cheap", DEAR, {1, 2})]) == ["dear"]


@pytest.mark.parametrize("second", [1, 2])
@pytest.mark.parametrize("first", [1, 2])
def test_marks_are_told_apart(request, first, second):
    from .durations import values_of

    values = values_of(request.node)
    assert len(values) == 2
    assert {place for place, _ in values} == {0, 1}


def test_patterns_are_read():
    night, day = patterns()
    assert any(pattern.search("tests/golden/test_golden.py::test") for pattern in night)
    assert [pattern.pattern for pattern in day if pattern.search("tests/test_architecture.py::test")]


@pytest.mark.parametrize(
    ("pattern", "may_be"),
    [(r"^tests/a\.py::test_one", True), (r"^tests/b\.py::", False), (r"^tests/.*_is_caught", True), ("test_one", True)],
)
def test_only_patterns_that_begin_with_another_file_are_left_out(pattern, may_be):
    assert _may_be_in("tests/a.py", pattern) == may_be
