"""How many partitions of a job of Spark are done, for a bar on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from threading import Event, Thread

from dpensemble._arrays import Rows
from dpensemble._progress import bars_are_shown, pass_bar

_SECONDS = 0.5


@contextmanager
def partitions_shown(frame: Rows) -> Iterator[None]:
    """Show how many partitions the jobs of the block have done. Spark Connect does not report it."""
    over, watch = Event(), None
    if bars_are_shown():
        with suppress(Exception):
            # A session of Spark Connect has no context.
            tracker = frame.sparkSession.sparkContext.statusTracker()
            # The job blocks this thread.
            watch = Thread(target=copy_context().run, args=(_watch, tracker, over), daemon=True)
            watch.start()
    try:
        yield
    finally:
        over.set()
        if watch is not None:
            watch.join()


def _watch(tracker: Rows, over: Event) -> None:
    with suppress(Exception):
        while not over.wait(_SECONDS):
            stages = sorted(tracker.getActiveStageIds())
            if stages:
                # Earlier stages are shuffles of the plan itself.
                _follow(tracker, stages[-1], over)


def _follow(tracker: Rows, stage: int, over: Event) -> None:
    about, n_done = tracker.getStageInfo(stage), 0
    with pass_bar(about.numTasks, "parts") as advance:
        while stage in tracker.getActiveStageIds():
            about = tracker.getStageInfo(stage)
            advance(about.numCompletedTasks - n_done)
            n_done = about.numCompletedTasks
            if over.wait(_SECONDS):
                break
        about = tracker.getStageInfo(stage)
        advance(about.numCompletedTasks - n_done)
