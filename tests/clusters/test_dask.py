"""Real clusters of several processes: the same teachers, and true sentences where processes die."""

import importlib
import os
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from dpensemble import SubsampleAggregateClassifier, _same_code, on_cluster
from dpensemble.cli import main
from dpensemble.clusters import cluster as cluster_module
from dpensemble.clusters.cluster import _OpaqueTask, active_cluster
from dpensemble.errors import InvalidParameterError, TeacherError

from ..deadline import GUARD

distributed = pytest.importorskip("distributed")

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]


TEACHERS = """
import os, time
from sklearn.tree import DecisionTreeClassifier

class SlowTree(DecisionTreeClassifier):
    def fit(self, X, y):
        time.sleep(0.15)
        return super().fit(X, y)

class DeadlyTree(DecisionTreeClassifier):
    def fit(self, X, y):
        os._exit(9)

def held(dask_worker):
    return len(dask_worker.data)
"""


class Local:
    """A scheduler and workers as processes of their own."""

    def __init__(self, tmp_path, n_workers, *flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address, self.tmp_path, self.processes = f"tcp://127.0.0.1:{port}", tmp_path, []
        self.scheduler = self.start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        self.workers = [self.worker(*flags) for _ in range(n_workers)]
        with distributed.Client(self.address, timeout=GUARD, set_as_default=False) as client:
            if n_workers:
                client.wait_for_workers(n_workers, timeout=GUARD)

    def start(self, what, *flags):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *flags]
        own = {"cwd": self.tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen(command, start_new_session=True, **own))
        return self.processes[-1]

    def worker(self, *flags):
        flags = flags or ("--memory-limit", "0")
        return self.start("worker", self.address, "--nthreads", "1", "--no-dashboard", "--no-nanny", *flags)

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@pytest.fixture(scope="module", autouse=True)
def teachers(tmp_path_factory):
    """Teachers that take time, or end every process that fits them, in a module that workers can import, too."""
    folder = tmp_path_factory.mktemp("teachers")
    (folder / "slow_and_deadly.py").write_text(TEACHERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        yield importlib.import_module("slow_and_deadly")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, teachers):
    found = Local(tmp_path_factory.mktemp("dask"), 2)
    yield found
    found.end()


@pytest.fixture
def own_cluster(tmp_path, teachers):
    found = Local(tmp_path, 2)
    yield found
    found.end()


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int), rng.normal(size=(60, 4))


def released(world, teacher=None, **settings):
    X, y, public = world
    model = SubsampleAggregateClassifier(
        DecisionTreeClassifier(max_features=1, splitter="random") if teacher is None else teacher,
        classes=[0, 1], n_teachers=24, delta=1e-3, random_state=3, insecure_release_seed=4, n_jobs=1, **settings,
    )  # fmt: skip
    model.fit(X, y, X_public=public)
    return model.labels_.labels.tolist(), model.guarantee_


def test_the_same_seeds_give_the_same_labels(cluster, world, teachers):
    with on_cluster("dask", cluster.address):
        assert active_cluster().n_workers == 2
        there = released(world)
    assert active_cluster() is None
    assert there == released(world)
    with distributed.Client(cluster.address, set_as_default=False) as client:
        # No rows and no teachers are left there.
        assert set(client.run(teachers.held).values()) == {0}


def test_a_worker_killed_in_the_middle_changes_nothing(own_cluster, world, teachers):
    timer = threading.Timer(1.0, own_cluster.workers[0].send_signal, [signal.SIGKILL])
    with on_cluster("dask", own_cluster.address):
        timer.start()
        there = released(world, teachers.SlowTree(max_features=1))
        assert own_cluster.workers[0].wait(timeout=GUARD) == -signal.SIGKILL
        assert active_cluster().n_workers == 1
        # One that joins late is given work, too.
        own_cluster.worker()
        active_cluster()._client.wait_for_workers(2, timeout=GUARD)
        assert released(world) == released_here(world)
    assert there == released(world, DecisionTreeClassifier(max_features=1))


def released_here(world):
    token = cluster_module._ACTIVE.set(None)
    try:
        return released(world)
    finally:
        cluster_module._ACTIVE.reset(token)


def test_a_lost_scheduler_is_one_sentence_and_no_budget(own_cluster, world, teachers, monkeypatch):
    spent = []
    monkeypatch.setattr("dpensemble.engine.run.announce", lambda *given, **more: spent.append(given))
    timer = threading.Timer(1.5, own_cluster.scheduler.send_signal, [signal.SIGKILL])
    timer.start()
    with on_cluster("dask", own_cluster.address), pytest.raises(TeacherError) as caught:
        released(world, teachers.SlowTree())
    assert "the scheduler was lost" in str(caught.value)
    assert not spent


def test_teachers_that_end_their_workers_do_not_keep_anybody_waiting(own_cluster, world, teachers, monkeypatch):
    """joblib's own backend waits for ever here."""
    monkeypatch.setattr(cluster_module, "_PATIENCE_SECONDS", 1.0)
    with on_cluster("dask", own_cluster.address), pytest.raises(TeacherError, match=r"without a worker|KilledWorker"):
        released(world, teachers.DeadlyTree())


def test_workers_of_another_version_get_nothing(cluster, monkeypatch):
    there = _same_code.versions() | {"scikit-learn": "0.1"}
    monkeypatch.setattr(cluster_module, "versions", lambda: there)
    refused = pytest.raises(InvalidParameterError, match=r"a worker with scikit-learn \S+, but must have 0.1")
    with refused, on_cluster("dask", cluster.address):
        pass
    assert active_cluster() is None


def test_a_worker_that_may_write_rows_to_disk_is_refused_even_if_it_joins_late(own_cluster, world, teachers):
    refused = pytest.raises(InvalidParameterError, match="may write private rows to its disk")
    with on_cluster("dask", own_cluster.address):
        own_cluster.worker("--memory-limit", "1GB")
        active_cluster()._client.wait_for_workers(3, timeout=GUARD)
        with refused:
            released(world, teachers.SlowTree())
    with refused, on_cluster("dask", own_cluster.address):
        pass


def test_a_scheduler_without_workers_and_a_stranger_are_refused(tmp_path, monkeypatch):
    empty = Local(tmp_path, 0)
    try:
        with (
            pytest.raises(InvalidParameterError, match="must have at least one worker"),
            on_cluster("dask", empty.address),
        ):
            pass
    finally:
        empty.end()
    monkeypatch.setattr(cluster_module, "_PROBE_SECONDS", 0.5)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        address = f"tcp://127.0.0.1:{stranger.getsockname()[1]}"
        with (
            pytest.raises(InvalidParameterError, match="must be a scheduler, but something else listens there"),
            on_cluster("dask", address),
        ):
            pass


def test_the_command_trains_there(cluster, options, tmp_path, capsys):
    command = "train saa --teachers 20 --max-labels 20 --seed 1 --jobs 1 --insecure-release-seed 2 --quiet --json"
    found = []
    for place, more in (("there", ["--backend", "dask", "--scheduler", cluster.address]), ("here", [])):
        assert main([*command.split(), *options, "--out", str(tmp_path / place), *more]) == 0
        capsys.readouterr()
        found.append((tmp_path / place / "labels.csv").read_text())
    assert found[0] == found[1]


def test_tasks_tell_nothing():
    assert repr(_OpaqueTask(b"rows", {})) == "OpaqueTask()"
