"""Marks tests by their measured time; see `tests/durations.py`."""

import gc
import os

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Each core runs tests of its own. Threads of numpy and scikit-learn would only wait for each other.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")

pytest_plugins = ["tests.durations"]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage among ten thousand tests: neither while they are found, nor during each of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
