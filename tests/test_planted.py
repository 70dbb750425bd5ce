"""A planted fault is one that a run reached."""

import math
from types import SimpleNamespace

import pytest

from .planted import Plant


class Meter:
    most = 3

    def asked(self, number):
        return number


@pytest.fixture
def plants(monkeypatch):
    return Plant(monkeypatch)


def test_a_fault_counts_how_often_it_is_reached(plants):
    method, constant = plants(Meter, "asked", lambda self, number: 2 * number), plants(Meter, "most", 7)
    function = plants(math, "sqrt", lambda number: 0.0)
    assert (Meter().asked(4), Meter().asked(number=1), Meter().most, math.sqrt(4)) == (8, 2, 7, 0.0)
    assert (method.times, constant.times, function.times) == (2, 1, 1)
    plants.require_reached()


def test_a_fault_that_no_run_reached_fails_its_test(plants):
    plants(math, "sqrt", lambda number: 0.0)
    plants(Meter, "most", 7)
    math.sqrt(4)
    with pytest.raises(pytest.fail.Exception, match=r"no run reached: Meter\.most$"):
        plants.require_reached()


def test_a_test_without_a_fault_fails(plants):
    with pytest.raises(pytest.fail.Exception, match="none was planted"):
        plants.require_reached()


def test_a_fault_that_raises_was_reached(plants):
    def fails():
        raise OSError("a fault")

    owner = SimpleNamespace(step=None)
    plants(owner, "step", fails)
    with pytest.raises(OSError, match="a fault"):
        owner.step()
    plants.require_reached()


def test_a_constant_of_a_module_cannot_be_watched(plants):
    with pytest.raises(TypeError, match=r"plant what reads math\.pi"):
        plants(math, "pi", 3)
