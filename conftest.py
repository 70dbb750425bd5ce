"""Marks tests by their measured time; see `tests/durations.py`."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # Each core runs tests of its own. Threads of numpy and scikit-learn would only wait for each other.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")

pytest_plugins = ["tests.durations"]
