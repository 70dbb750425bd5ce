"""SIGKILL at every step of a request. `scripts/service_kills_at.py` does it hundreds of times."""

import runpy
from pathlib import Path

import pytest

# Newer Pythons warn of forks of a process with threads. Those of linear algebra are idle here.
pytestmark = [pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")]
KILLS = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "service_kills_at.py"))


@pytest.fixture(autouse=True)
def _state():
    """Leave all tests here the state folder of `trial`."""


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPENSEMBLE_STATE", str(folder / "state"))
        yield KILLS["Trial"](folder, 2, str(folder / "ledger.db"))


@pytest.mark.parametrize("step", KILLS["STEPS"])
def test_a_kill_at_any_step_costs_an_answer_at_most(trial, step):
    told = trial.kills_at(step)
    was_drawing = KILLS["STEPS"].index(step) >= KILLS["STEPS"].index("drawn")
    assert f"{2 if was_drawing else 0} after noise was drawn" in told
