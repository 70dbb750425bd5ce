"""One thread for libraries of linear algebra."""

import sys
from types import ModuleType

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from dpensemble import _threads
from dpensemble._threads import one_thread


@pytest.fixture(autouse=True)
def product():
    """Load a library of linear algebra."""
    return np.ones((2, 2)) @ np.ones((2, 2))


@pytest.mark.parametrize("user_api", ["blas", None])
def test_libraries_use_one_thread_and_as_many_as_before_afterwards(user_api):
    before = threadpool_info()
    with one_thread(user_api):
        within = [each["num_threads"] for each in threadpool_info() if user_api in (each["user_api"], None)]
        assert set(within) == {1}
    assert threadpool_info() == before


def test_libraries_are_looked_up_again_only_after_an_import(monkeypatch):
    one_thread()
    looked_up = _threads._controller.cache_info().misses
    one_thread()
    assert _threads._controller.cache_info().misses == looked_up
    monkeypatch.setitem(sys.modules, "a module that may load a library", ModuleType("another"))
    one_thread()
    assert _threads._controller.cache_info().misses == looked_up + 1
