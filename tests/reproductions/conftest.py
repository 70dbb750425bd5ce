import numpy as np
import pytest

from reproductions import Cell, Experiment, Need, Panel, Table, figure

from ..downloads import _no_other_machine, cache, server

__all__ = ["_no_other_machine", "cache", "server"]


class Counter:
    """Counts the runs, and stops at a given number."""

    def __init__(self):
        self.ran = []
        self.stop_at = None
        self.error = KeyboardInterrupt


@pytest.fixture
def counter():
    return Counter()


@pytest.fixture
def tiny(counter):
    """Return a table on made-up numbers: two settings, each with a published mean."""

    def cells(settings, seed):
        for repeat in range(seed, seed + settings["repeats"]):
            for name, mean in settings["means"].items():

                def work(place, name=name, mean=mean, repeat=repeat):
                    if counter.stop_at == (name, repeat):
                        raise counter.error
                    counter.ran.append((name, repeat))
                    drawn = np.random.default_rng([repeat, len(name)]).normal(mean, 0.1, size=100)
                    return {
                        figure(name, "Mean", "all"): float(
                            place.kept((drawn, name), lambda: drawn.mean(keepdims=True))[0]
                        ),
                        figure(name, "Mean", "all", "median"): float(np.median(drawn)),
                    }

                yield Cell(name=f"{name}-run{repeat}", seconds=2.0, work=work)

    def make(**more):
        experiment = Experiment(
            name="tiny",
            settings={"means": {"one": 1.0, "three": 3.0}, "repeats": 4},
            quick={"repeats": 1},
            cells=cells,
            **more,
        )
        return Table(
            name="tiny-1",
            where="Nobody, table 1",
            title="Means",
            experiment=experiment,
            panels=(Panel(title="Mean", columns=("all",), digits=2),),
            published={"one": {("Mean", "all"): 1.0}, "three": {("Mean", "all"): 3.5}},
            beside={"median": "median"},
            why="The printed 3.5 was made up.",
        )

    return make


@pytest.fixture
def absent():
    return Need(name="moon", missing=lambda: "the moon: put it into the folder that DPENSEMBLE_DATA names")
