"""Marks tests by their measured time; see `tests/durations.py`."""

pytest_plugins = ["tests.durations"]
