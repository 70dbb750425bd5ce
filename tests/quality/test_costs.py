"""Costs of wrong decisions, and thresholds: the formula unless a histogram surely shows better."""

import numpy as np
import pytest

from dpensemble.errors import InvalidParameterError
from dpensemble.quality.costs import Costs, decide
from dpensemble.quality.curves import class_curves
from dpensemble.quality.release import HALF

EDGES = np.array([0.05, 0.1, 0.3, HALF])
MIDDLES = np.array([0.02, 0.07, 0.2, 0.4, 0.7])
COSTS = Costs(false_negative=9, false_positive=1)


def decided(cells, sigma, costs=COSTS):
    curves = class_curves("yes", cells, EDGES, MIDDLES, np.full(5, 0.5), sigma, half=HALF)
    return decide(costs, "yes", cells, curves, sigma)


def right(n=1000):
    """Return cells of probabilities that are right."""
    return np.stack([n * (1 - MIDDLES), n * MIDDLES])


def test_probabilities_that_are_right_keep_the_threshold_of_the_formula():
    assert COSTS.threshold == 0.1
    for sigma in (0.0, 5.0, 100.0):
        decision = decided(right(), sigma)
        assert decision.threshold == decision.formula == 0.1
        assert "no other one saves anything beyond the noise" in decision.why


def test_the_threshold_moves_only_if_the_histogram_surely_shows_a_better_one():
    # The student states 0.2 and 0.4 where nobody is a case.
    cells = right()
    cells[0, 2:4] += cells[1, 2:4]
    cells[1, 2:4] = 0
    decision = decided(cells, 2.0)
    assert decision.threshold == HALF
    assert "at least" in decision.why
    # The same cells under much noise prove nothing.
    assert decided(cells, 2000.0).threshold == 0.1
    # And noise alone, that happens to favour another threshold, is not enough.
    rng = np.random.default_rng(0)
    moved = sum(decided(right() + rng.normal(0, 60, (2, 5)), 60.0).threshold != 0.1 for _ in range(40))
    # Sampling, which is allowed for, does not vary here: far below 5 %.
    assert moved <= 2


def test_the_table_counts_per_1000_people():
    decision = decided(right(), 1e-9)
    row, half = decision.table
    assert (row["name"], half["name"]) == ("for these costs", "one half")
    assert row["alarms"].value == pytest.approx(600)
    assert row["missed"].value == pytest.approx(1000 * (0.02 + 0.07) / 5)
    assert row["false_alarms"].value == pytest.approx(1000 * (0.8 + 0.6 + 0.3) / 5)
    assert row["cost"].value == pytest.approx(9 * row["missed"].value + row["false_alarms"].value)
    for name in ("alarms", "missed", "false_alarms", "cost"):
        assert row[name].low <= row[name].value <= row[name].high
    written = decision.to_dict()
    assert written["per_1000"][0]["alarms"]["value"] == row["alarms"].value
    assert written["costs"] == {"false_negative": 9, "false_positive": 1}


def test_equal_costs_ask_for_one_half_and_have_one_row():
    decision = decided(right(), 1.0, Costs(false_negative=1, false_positive=1))
    assert decision.formula == 0.5
    assert decision.threshold == HALF
    assert [row["name"] for row in decision.table] == ["for these costs"]


def test_without_held_back_units_the_formula_is_all_there_is():
    decision = decide(COSTS, "yes", None, None, 0.0)
    assert (decision.threshold, decision.table) == (0.1, ())
    assert "--holdout-score" in decision.why


@pytest.mark.parametrize("bad", [0, -1, np.nan, np.inf, "9", None, True])
@pytest.mark.parametrize("name", ["false_negative", "false_positive"])
def test_costs_that_are_not_above_zero_are_refused(name, bad):
    with pytest.raises(InvalidParameterError, match=f"cost_{name}=.* must be a number above 0"):
        Costs(**{"false_negative": 1.0, "false_positive": 1.0} | {name: bad})


@pytest.mark.parametrize("given", [{"false_negative": 1}, {"false_negative": 1, "false_alarm": 2}, [1, 2]])
def test_costs_have_two_names(given):
    with pytest.raises(InvalidParameterError, match=r"costs=.* must have false_negative and false_positive"):
        Costs.of(given)


def test_costs_of_nothing_are_none():
    assert Costs.of(None) is None
    assert Costs.of({"false_negative": 9, "false_positive": 1}) == COSTS
