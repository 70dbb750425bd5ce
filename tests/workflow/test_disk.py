"""The file of drawn values: each is drawn once, kept before it is used, and returned in order."""

import json

import numpy as np
import pytest

from dpensemble._spending import drawn_once, drawn_together, kept_in
from dpensemble.errors import FileError
from dpensemble.workflow.disk import DrawnFile, digest_of_drawn


def never():
    raise AssertionError("drawn a second time")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "drawn.jsonl"


@pytest.mark.parametrize(
    "value", [7, 2**100, 0.1, np.array([[0.1, -3e300]]), np.array([2**62, -1]), np.empty((0, 3)), {"a": [1, 2.5]}]
)
def test_a_value_comes_back_to_the_last_bit(path, value):
    for draw in (lambda: value, never):
        with kept_in(DrawnFile(path)):
            found = drawn_once("it", draw)
        if isinstance(value, np.ndarray):
            assert (found.dtype, found.tolist()) == (value.dtype, value.tolist())
        else:
            assert found == value
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_run_goes_on_where_it_ended(path):
    with kept_in(DrawnFile(path)):
        assert [drawn_once("sum", lambda: 1), drawn_once("sum", lambda: 2)] == [1, 2]
    with kept_in(DrawnFile(path)):
        assert [drawn_once("sum", never), drawn_once("sum", never), drawn_once("sum", lambda: 3)] == [1, 2, 3]
    with kept_in(DrawnFile(path)):
        assert [drawn_once("sum", never) for _ in range(3)] == [1, 2, 3]


def test_without_a_store_nothing_is_kept():
    assert [drawn_once("sum", draw) for draw in (lambda: 0, lambda: 1)] == [0, 1]


def test_a_line_that_is_not_whole_is_drawn_again(path):
    with kept_in(DrawnFile(path)):
        drawn_once("sum", lambda: 1)
        drawn_once("sum", lambda: 2)
    data = path.read_bytes()
    for cut in range(data.index(b"\n") + 1, len(data)):
        path.write_bytes(data[:cut])
        with kept_in(DrawnFile(path)):
            assert [drawn_once("sum", never), drawn_once("sum", lambda: 5)] == [1, 5]
        assert [json.loads(line)["value"] for line in path.read_text().splitlines()] == [1, 5]


def test_values_that_belong_together_are_all_kept_or_none(path):
    def half():
        with drawn_together():
            drawn_once("answers", lambda: 1)
            raise ZeroDivisionError

    with kept_in(DrawnFile(path)), pytest.raises(ZeroDivisionError):
        half()
    assert not path.exists()
    for draw in (lambda: 9, never):
        with kept_in(DrawnFile(path)), drawn_together():
            assert [drawn_once("answers", draw) for _ in range(2)] == [9, 9]
    with kept_in(DrawnFile(path)):
        assert [drawn_once("answers", never) for _ in range(2)] == [9, 9]
        assert drawn_once("sum", lambda: 4) == 4


def test_a_group_that_was_written_in_part_is_drawn_again_as_a_whole(path):
    """Half of a group belongs to a secret choice that no longer exists."""
    with kept_in(DrawnFile(path)):
        drawn_once("sum", lambda: 1)
        with drawn_together():
            drawn_once("answers", lambda: 2)
            drawn_once("answers", lambda: 3)
    data = path.read_bytes()
    for cut in range(data.index(b"\n") + 1, len(data)):
        path.write_bytes(data[:cut])
        with kept_in(DrawnFile(path)):
            assert drawn_once("sum", never) == 1
            with drawn_together():
                assert [drawn_once("answers", lambda: 8), drawn_once("answers", lambda: 9)] == [8, 9]


def test_seeded_noise_goes_on_behind_what_was_kept(path):
    def run(stop_after):
        noise = iter(range(5))
        with kept_in(DrawnFile(path)):
            return [drawn_once("sum", lambda: next(noise), seeded=True) for _ in range(stop_after)]

    assert run(2) == [0, 1]
    assert run(5) == [0, 1, 2, 3, 4]
    assert run(5) == [0, 1, 2, 3, 4]


def test_another_run_is_refused(path):
    with kept_in(DrawnFile(path)):
        drawn_once("answers", lambda: 1)
    with kept_in(DrawnFile(path)), pytest.raises(FileError, match="holds answers, but this run draws a noisy sum"):
        drawn_once("a noisy sum", never)
    path.write_text("no json\n")
    with pytest.raises(FileError, match="is damaged"):
        DrawnFile(path)


def test_runs_that_drew_the_same_have_one_digest_and_runs_that_drew_nothing_have_none(tmp_path):
    one, other, absent = (tmp_path / name for name in ("one", "other", "absent"))
    one.write_bytes(b"draws\n")
    other.write_bytes(b"draws\n")
    assert digest_of_drawn(one) == digest_of_drawn(other) != digest_of_drawn(absent)
    other.write_bytes(b"draws\nmore\n")
    assert digest_of_drawn(one) != digest_of_drawn(other)
    assert digest_of_drawn(absent) != digest_of_drawn(absent)
    one.write_bytes(b"")
    assert digest_of_drawn(one) != digest_of_drawn(one)
