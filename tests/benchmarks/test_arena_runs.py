"""What is run, at which budget, and how a stopped run goes on."""

import doctest
import signal
from math import exp

import pytest
from scipy.stats import norm

from arena import relations, results, running, splits
from arena.contestants import CONTESTANTS
from arena.estimate import estimated
from arena.limits import TooSlowError, cpu_limit
from arena.relations import ADD, HALVED, NOMINAL, REPLACE, budgets, spent
from arena.results import Task
from arena.tables import TABLES


@pytest.mark.parametrize("module", [relations, splits])
def test_examples(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 5.0])
@pytest.mark.parametrize("shift", [0.05, 0.3, 1.0])
def test_halved_budget_covers_replacing_a_record(epsilon, shift):
    """The Gaussian mechanism is exact: delta of two shifts at epsilon is at most what two steps promise."""
    half, _ = spent(epsilon, 1e-5, HALVED)
    by_one = _delta(half, shift)
    assert _delta(epsilon, 2 * shift) <= (1 + exp(half)) * by_one * (1 + 1e-9)


def test_halved_delta_gives_the_nominal_one_back():
    half, smaller = spent(3.0, 1e-5, HALVED)
    assert half == 1.5
    assert (1 + exp(half)) * smaller == pytest.approx(1e-5)


def test_budgets_of_relations():
    assert budgets(ADD, nominal=False) == (HALVED,)
    assert budgets(ADD, nominal=True) == (HALVED, NOMINAL)
    assert budgets(REPLACE, nominal=True) == (NOMINAL,)
    assert budgets(None, nominal=True) == (NOMINAL,)


def test_a_plan_has_every_draw_and_one_fit_without_privacy(plan):
    tasks = list(plan(draws=3).tasks())
    assert len(set(tasks)) == len(tasks)
    by_name = {one.name: [t for t in tasks if t.contestant == one.name] for one in CONTESTANTS}
    assert len(by_name["label-moments"]) == 2 * 2 * 3
    assert {t.budget for t in by_name["label-moments"]} == {NOMINAL}
    assert {t.budget for t in by_name["dp-ebm"]} == {HALVED}
    assert [(t.epsilon, t.draw) for t in by_name["boosting"]] == [(None, 0), (None, 0)]
    # PATE is for three and more classes here, and the table has two.
    assert not by_name["pate"]


def test_the_second_table_doubles_only_what_is_halved(plan):
    tasks = list(plan(nominal=True).tasks())
    assert {t.budget for t in tasks if t.contestant == "dp-ebm"} == {HALVED, NOMINAL}
    assert len([t for t in tasks if t.contestant == "label-moments"]) == 4


def test_seeds_of_draws_differ_and_the_first_is_that_of_old_results():
    seeds = {Task("adult", "pate", 1, 1.0, split, draw, NOMINAL).seed for split in range(13) for draw in range(3)}
    assert len(seeds) == 39
    assert Task("adult", "pate", 1, 1.0, 8, 0, NOMINAL).seed == 8


def test_a_stopped_run_goes_on(tmp_path):
    path = tmp_path / "results.jsonl"
    first, second = (Task("adult", "pate", 1, 1.0, 8, draw, NOMINAL) for draw in range(2))
    results.append(path, first, {"accuracy": 0.5})
    with path.open("a") as file:
        file.write('{"table": "adult", "contes')
    assert set(results.load(path)) == {first}
    results.append(path, second, {"accuracy": 0.6})
    assert {task: row["accuracy"] for task, row in results.load(path).items()} == {first: 0.5, second: 0.6}


def test_results_of_before_have_one_draw(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"table": "adult", "contestant": "pate", "version": 1, "epsilon": 0.5, "split": 3}\n')
    assert set(results.load(path)) == {Task("adult", "pate", 1, 0.5, 3, 0, NOMINAL)}


def test_a_contestant_that_is_too_slow_twice_is_not_tried_again(monkeypatch, tmp_path):
    tasks = [Task("adult", "dp-ebm", 1, 1.0, split, 0, HALVED) for split in range(4)]
    ran = []

    def run(task, home):
        ran.append(task.split)
        return {"error": "TooSlowError: late"}

    monkeypatch.setattr(running, "run", run)
    known = {tasks[0]: {"error": "TooSlowError: late"}}
    outcomes = list(running.run_all(tasks[1:], tmp_path, 1, known))
    assert ran == [1]
    assert [outcome["error"].split(":")[0] for _, outcome in outcomes] == ["TooSlowError", "not tried", "not tried"]


def test_a_limit_of_cpu_time():
    with pytest.raises(TooSlowError, match=r"0\.02 CPU seconds"), cpu_limit(0.02):
        _be_busy()
    with cpu_limit(1000.0):
        # Of the processor. Waiting costs nothing.
        assert 0 < signal.getitimer(signal.ITIMER_PROF)[0] < 1001
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_an_estimate_names_what_is_unknown():
    known = {Task("t", "a", 1, 1.0, 0, 0, NOMINAL): {"table": "t", "contestant": "a", "seconds": 3600.0}}
    wanted = [Task("t", "a", 1, 1.0, split, 0, NOMINAL) for split in (1, 2)] + [Task("t", "b", 1, 1.0, 0, 0, NOMINAL)]
    assert estimated(wanted, known) == "3 fits to run: about 2.0 CPU hours, and unknown time for b."


def _be_busy():
    while True:
        pass


@pytest.mark.parametrize("word", ["x", "8-", "-3", "8..9"])
def test_what_is_no_split_is_an_error(word):
    with pytest.raises(ValueError, match="--splits"):
        splits.parsed([word])


@pytest.fixture
def plan(monkeypatch, tmp_path):
    monkeypatch.setattr(running, "table_packages", lambda home: home)
    monkeypatch.setattr(running, "read", lambda table, packages: (None, None, ("no", "yes")))

    def make(draws=1, nominal=False):
        return running.Plan(TABLES[:1], CONTESTANTS, (0.5, 1.0), (8, 9), draws, nominal, tmp_path)

    return make


def _delta(epsilon, shift):
    """Delta of the Gaussian mechanism (Balle and Wang 2018, Theorem 8), with the sensitivity in deviations."""
    return norm.cdf(shift / 2 - epsilon / shift) - exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift)
