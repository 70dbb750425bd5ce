"""The bar of a job of Spark, by a tracker that plays one. `tests/clusters` has real jobs."""

from threading import Event
from types import SimpleNamespace

import pytest

from dpensemble import show_progress
from dpensemble.datasets import partitions
from dpensemble.datasets.partitions import partitions_shown

from ..deadline import GUARD


class Tracker:
    """A job of two stages. The second one has three tasks, and ends one at each look."""

    def __init__(self):
        self.done, self.over = 0, Event()

    def statusTracker(self):  # noqa: N802
        return self

    def getActiveStageIds(self):  # noqa: N802
        return [] if self.over.is_set() else [4, 7]

    def getStageInfo(self, stage):  # noqa: N802
        assert stage == 7
        self.done = min(3, self.done + 1)
        if self.done == 3:
            self.over.set()
        return SimpleNamespace(numTasks=3, numCompletedTasks=self.done)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(partitions, "_SECONDS", 0.001)


def test_tasks_of_the_last_stage_are_counted(capsys):
    tracker = Tracker()
    with show_progress(), partitions_shown(SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=tracker))):
        assert tracker.over.wait(GUARD)
    assert "Checking records: 3 of 3 parts" in capsys.readouterr().err


def test_nothing_is_asked_without_bars_and_connect_shows_none(capsys):
    with partitions_shown(None), show_progress(), partitions_shown(SimpleNamespace()):
        pass
    assert capsys.readouterr().err == ""


class Broken(Tracker):
    def getStageInfo(self, stage):  # noqa: N802
        self.over.set()
        raise OSError(stage)


def test_an_error_of_the_tracker_does_not_end_the_job():
    tracker = Broken()
    with show_progress(), partitions_shown(SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=tracker))):
        assert tracker.over.wait(GUARD)
