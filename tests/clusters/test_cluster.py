"""What is refused before any cluster is asked, with or without the extra."""

import socket
import sys

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from dpensemble import PrivateMajorityClassifier, SubsampleAggregateClassifier, on_cluster
from dpensemble._same_code import versions
from dpensemble.cli import main
from dpensemble.clusters import cluster
from dpensemble.clusters.cluster import _OpaqueTask
from dpensemble.errors import InvalidParameterError


class NoCluster:
    """Stands for a cluster that must not be asked."""

    n_workers = 3

    def results(self, work, calls):
        pytest.fail("asked")


@pytest.fixture
def somewhere():
    token = cluster._ACTIVE.set(NoCluster())
    yield
    cluster._ACTIVE.reset(token)


@pytest.fixture
def world():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return X, (X[:, 0] > 0).astype(int), rng.normal(size=(20, 3))


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    ("backend", "scheduler", "message"),
    [
        ("spark", "tcp://127.0.0.1:1", "backend='spark' is unknown: use 'dask'"),
        ("dask", "nowhere", "scheduler='nowhere' must be an address: write it as tcp://HOST:PORT"),
        ("dask", "tcp://127.0.0.1:none", "must be an address"),
        ("dask", "tcp://127.0.0.1:{port}", "does not answer: start one there"),
    ],
)
def test_addresses_without_a_scheduler_are_refused_at_once(backend, scheduler, message):
    if scheduler.endswith("}") or backend == "dask":
        pytest.importorskip("distributed")
    with pytest.raises(InvalidParameterError, match=message), on_cluster(backend, scheduler.format(port=closed_port())):
        pass
    assert cluster.active_cluster() is None


def test_dask_that_is_not_installed_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "dask", None)
    refused = pytest.raises(InvalidParameterError, match=r'not installed: run pip install "dpensemble\[dask\]"\.$')
    with refused, on_cluster("dask", "tcp://127.0.0.1:8786"):
        pass


def test_what_a_cluster_is_no_use_for_is_refused_before_anything_is_spent(somewhere, world):
    X, y, public = world
    settings = {"classes": [0, 1], "delta": 1e-3}
    with pytest.raises(InvalidParameterError, match="fitted in batches on one machine"):
        SubsampleAggregateClassifier(n_teachers=10, **settings).fit(X, y, X_public=public)
    with pytest.raises(InvalidParameterError, match="noise of private teachers is drawn on this machine"):
        PrivateMajorityClassifier(**settings).fit(X, y, X_public=public)
    trees = SubsampleAggregateClassifier(DecisionTreeClassifier(), n_teachers=10, **settings)
    with pytest.raises(pytest.fail.Exception, match="asked"):
        trees.fit(X, y, X_public=public)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--backend", "dask"), "--backend and --scheduler belong together"),
        (("--scheduler", "tcp://127.0.0.1:1"), "--backend and --scheduler belong together"),
        (("--backend", "dask", "--scheduler", "tcp://127.0.0.1:1"), "does not answer|not installed"),
    ],
)
def test_the_command_refuses_in_one_sentence_and_leaves_nothing(tmp_path, options, capsys, more, message):
    out = tmp_path / "out"
    code = main(["train", "saa", "--out", str(out), *options, *more])
    shown = capsys.readouterr().err
    assert code == 2
    assert len(shown.strip().splitlines()) == 1
    assert any(part in shown for part in message.split("|")), shown
    assert not out.exists()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["private.csv", "public.csv"]


@pytest.mark.parametrize(
    ("scheduler", "workers", "encrypted"),
    [
        ("tcp://127.0.0.1:1", ["tcp://127.0.0.1:2"], True),
        ("tcp://localhost:1", ["tcp://[::1]:2"], True),
        ("tls://10.255.0.5:1", ["tls://10.255.0.6:2"], True),
        ("tcp://192.0.2.5:1", [], False),
        ("tcp://127.0.0.1:1", ["tcp://192.0.2.5:2"], False),
        ("tls://10.255.0.5:1", ["tcp://192.0.2.5:2"], False),
        ("tcp://0.0.0.0:1", [], False),
        ("ws://127.0.0.1:1", [], False),
    ],
)
def test_a_network_in_the_clear_is_refused(scheduler, workers, encrypted):
    if encrypted:
        cluster._require_encrypted(scheduler, workers)
        return
    with pytest.raises(InvalidParameterError, match="without encryption"):
        cluster._require_encrypted(scheduler, workers)


def test_a_worker_of_other_versions_does_not_load_the_task(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "get_worker", lambda: None)
    with pytest.raises(InvalidParameterError, match=r"a worker with python .* must have 3.2"):
        _OpaqueTask(b"no pickle", versions() | {"python": "3.2"})()
