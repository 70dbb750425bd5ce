"""`scripts/sum_faults.py` judges runs. `tests/clusters/test_faults.py` runs it on clusters."""

import importlib
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpensemble.releases import SumReleaser


class Engine:
    """An engine that reads the parts in this process."""

    def __init__(self, place):
        self.place = place

    def begin(self):
        pass

    @contextmanager
    def table(self, folder):
        from dpensemble.datasets.partitions import ParquetParts

        yield ParquetParts(folder, "y", unit="who")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return runs, and the module of the script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "scripts"))
        faults = importlib.import_module("sum_faults")
        patch.setitem(faults.ENGINES, "dask", Engine)
        # The script counts releases there.
        patch.setattr(SumReleaser, "charge_and_draw", SumReleaser.charge_and_draw)
        yield faults.Runs("dask", tmp_path_factory.mktemp("runs"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "at", "end"),
    [
        ("a file is added", 1, "same release"),
        ("a file is added", 4, "same release"),
        # A run has five passes: it ends in the same release as a run without a fault.
        ("a file is added", 6, "WRONG: no fault"),
        ("a part is lost", 2, "refused before noise"),
        ("a part is lost", 6, "WRONG: same release"),
        ("a row is lost", 4, "refused before noise"),
        ("a straggler", 6, "WRONG: no fault"),
    ],
)
def test_a_run_that_does_not_reach_its_fault_is_wrong(runs, kind, at, end):
    ended = runs.run(f"{kind} {at}", kind, at)
    assert ended["end"] == end, ended
    assert (ended["executions"] < 1) == (at == 6)
