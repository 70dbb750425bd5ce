import random
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings

from dpensemble import _random, _work
from dpensemble.moments import learning

from . import postgresql as servers
from .deadline import deadline
from .planted import Plant

# Deterministic runs, no deadline: timings belong to benchmarks.
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("suite")

# What the system's generator gives to secure releases repeats with the name of the test, so that a statistical test
# which passed passes again. Processes of their own still ask the system.
_system = random.Random()
_random.os = SimpleNamespace(urandom=_system.randbytes)


# A slow machine must not add lines to what commands write.
SECONDS_BETWEEN_LINES, _work._SECONDS_BETWEEN_LINES = _work._SECONDS_BETWEEN_LINES, 10_000.0


# What a test may write.
_ROOM = 64_000_000


def pytest_runtest_setup(item):
    _system.seed(item.nodeid)
    folder = Path(item.config.option.basetemp or tempfile.gettempdir())
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if shutil.disk_usage(place).free < _ROOM:
        pytest.skip(f"the disk of {place} is full: tests need {_ROOM // 1_000_000} MB there; free some, or set TMPDIR")


@pytest.fixture
def plant(monkeypatch):
    """Plant faults: `plant(owner, name, instead)`. The test fails if no run reached a fault."""
    plants = Plant(monkeypatch)
    yield plants
    plants.require_reached()


@pytest.fixture
def blobs():
    """Two overlapping classes: 600 private records, 300 public rows."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(900, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=900) > 0).astype(int)
    return X[:600], y[:600], X[600:]


@pytest.fixture(scope="module")
def few_synthetic_rows():
    """Draw few synthetic rows in tests that measure no accuracy, since fits to them take much less time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "_SYNTHETIC_ROWS", 1000)
        yield


@pytest.fixture(scope="module")
def postgresql_server():
    """Begin a PostgreSQL server for a module, and skip if there is none."""
    if servers.programs() is None:
        pytest.skip("there is no PostgreSQL server; Debian's package postgresql has one")
    try:
        server = servers.Server()
    except (OSError, LookupError, subprocess.CalledProcessError) as error:
        # For example as root without the user postgres, or without the programs of a client.
        pytest.skip(f"a PostgreSQL server cannot be started here: {error}")
    yield server
    server.remove()


@pytest.fixture
def postgresql(postgresql_server):
    """Return a PostgreSQL server that runs, without any tables."""
    postgresql_server.clear()
    return postgresql_server


@pytest.fixture
def has_a_deadline():
    """Fail a test, instead of waiting for ever, if its worker processes died."""
    with deadline():
        yield
