"""Every figure of a release, of two and of more classes and by group, against counts of the same records.

A threshold for costs of wrong decisions is that of the formula, unless a histogram surely shows a better one.
"""

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dpensemble.errors import InvalidParameterError
from dpensemble.quality.figures import ABOVE_HALF, ClassCurves
from dpensemble.quality.release import WHOLE_UNIT, HeldRecords, Layout, NoisyHistograms
from dpensemble.quality.result import Costs, ReleasedQuality
from quality_bands import Study


def records_of(n_classes, n=4000, seed=0):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(n_classes), size=n)
    truth = np.array([rng.choice(n_classes, p=row) for row in probabilities])
    return HeldRecords(
        probabilities=probabilities,
        truth=truth,
        groups={"sex": rng.choice(3, size=n, p=[0.5, 0.4, 0.1])},
        unit_of=np.arange(n),
        n_units=n,
        usable=np.ones(n, dtype=bool),
    )


def quality(records, sigma=1e-6, costs=None, positive=1, required=(0.5,)):
    classes = ("a", "b", "c", "d")[: records.probabilities.shape[1]]
    layout = Layout.planned(
        classes,
        records.n_units,
        5.0,
        1e-5,
        groups={"sex": ("f", "m")},
        positive=positive if len(classes) == 2 else 0,
        required=len(required),
    )
    edges = layout.edges(records.probabilities, required)
    cells = records.exact_total(layout, edges) / WHOLE_UNIT
    noisy = cells + sigma * np.random.default_rng(0).normal(size=cells.shape)
    released = NoisyHistograms(
        layout=layout, edges=edges, cells=layout.split(noisy), sigma=sigma, epsilon=5.0, delta=1e-5
    )
    return ReleasedQuality.of_histograms(released, costs)


@pytest.mark.parametrize("positive", [0, 1])
def test_figures_of_two_classes_are_those_of_counts(positive):
    records = records_of(2)
    found = quality(records, positive=positive)
    (curves,) = found.curves
    probable, case = records.probabilities[:, positive], records.truth == positive
    assert curves.name == "ab"[positive]
    assert curves.share.value == pytest.approx(case.mean())
    assert found.accuracy.value == pytest.approx((records.probabilities.argmax(axis=1) == records.truth).mean())
    assert found.most_common.value == pytest.approx(max(case.mean(), 1 - case.mean()))
    assert found.most_common_class == "ab"[np.bincount(records.truth).argmax()]
    for place, threshold in enumerate(curves.thresholds):
        alarm = probable >= threshold
        expected = {
            "sensitivity": alarm[case].mean(),
            "specificity": 1 - alarm[~case].mean(),
            "positive_predictive_value": case[alarm].mean(),
            "negative_predictive_value": 1 - case[~alarm].mean(),
            "alarms": alarm.mean(),
            "missed": (~alarm & case).mean(),
            "false_alarms": (alarm & ~case).mean(),
        }
        for name, value in expected.items():
            figure = curves.at[name][place]
            assert figure.value == pytest.approx(value, abs=1e-6), name
            assert figure.low <= value <= figure.high
    pairs = np.sign(np.subtract.outer(probable[case][:800], probable[~case][:800]))
    assert curves.auroc.value is None
    assert curves.auroc.if_as_public == pytest.approx((pairs.mean() + 1) / 2, abs=0.02)
    assert curves.auroc.low < roc_auc_score(case, probable) < curves.auroc.high
    for low, high, predicted, observed in curves.calibration:
        within = (probable >= low) & (probable < high)
        assert observed.value == pytest.approx(case[within].mean(), abs=1e-6)
        assert predicted == pytest.approx(probable[within].mean())
    exact_loss = -np.log(records.probabilities[np.arange(len(case)), records.truth]).mean()
    assert curves.log_loss.value == pytest.approx(exact_loss, abs=0.02)


def test_figures_of_groups_are_those_of_their_counts():
    records = records_of(2)
    found = quality(records)
    right = records.probabilities.argmax(axis=1) == records.truth
    assert [one.name for one in found.groups["sex"]] == ["f", "m", "other"]
    for place, one in enumerate(found.groups["sex"]):
        within = records.groups["sex"] == place
        assert one.share.value == pytest.approx(within.mean())
        assert one.accuracy.value == pytest.approx(right[within].mean())
        assert one.class_shares["b"].value == pytest.approx((records.truth[within] == 1).mean())
        alarm = records.probabilities[within, 1] >= one.thresholds[0]
        assert one.at["alarms"][0].value == pytest.approx(alarm.mean())
        assert one.at["sensitivity"][0].value == pytest.approx(alarm[records.truth[within] == 1].mean())


def test_figures_of_four_classes_are_those_of_counts():
    records = records_of(4)
    found = quality(records)
    predicted, truth = records.probabilities.argmax(axis=1), records.truth
    assert found.accuracy.value == pytest.approx((predicted == truth).mean())
    assert found.most_common.value == pytest.approx(np.bincount(truth).max() / len(truth))
    assert [one.name for one in found.curves] == list("abcd")
    for place, name in enumerate("abcd"):
        assert found.decisions.shares[name].value == pytest.approx((truth == place).mean())
        assert found.decisions.recall[name].value == pytest.approx((predicted == truth)[truth == place].mean())
        assert found.decisions.precision[name].value == pytest.approx((predicted == truth)[predicted == place].mean())
        curves = found.curves[place]
        assert curves.accuracy is None
        alarm = records.probabilities[:, place] >= curves.thresholds[0]
        assert curves.at["sensitivity"][0].value == pytest.approx(alarm[truth == place].mean())
    for place, one in enumerate(found.groups["sex"]):
        within = records.groups["sex"] == place
        assert one.accuracy.value == pytest.approx((predicted == truth)[within].mean())
        assert one.recall["c"].value == pytest.approx((predicted == truth)[within & (truth == 2)].mean())
    assert found.to_dict()["auroc"] is None


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("sigma", [0.0, 3.0, 1e6])
def test_a_result_is_plain_values_whatever_the_noise(n_classes, sigma):
    costs = Costs(false_negative=9, false_positive=1) if n_classes == 2 else None
    required = (0.5,) if costs is None else (0.5, costs.threshold)
    found = quality(records_of(n_classes), sigma, costs, required=required)
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert written["units"] == 4000
    assert written["accuracy_low"] <= written["accuracy_high"]
    if sigma == 1e6:
        assert written["accuracy"] is None
        assert written["most_common"] == {"value": None, "low": 0.0, "high": 1.0, "class": None}
        assert written["auroc"] is None
    if costs is not None:
        assert json.dumps(found.decision.to_dict(), allow_nan=False)


def test_the_class_shares_of_four_classes_hold_together():
    """20 releases of samples. Binomial(20, 0.95) is below 14 with probability 4e-5."""
    # Classes are equally frequent.
    truth = dict.fromkeys("abcd", 0.25)
    held = sum(
        all(one.low <= truth[name] <= one.high for name, one in found.decisions.shares.items())
        for found in (quality(records_of(4, n=600, seed=seed), sigma=6.0) for seed in range(1, 21))
    )
    assert held >= 14


def test_a_rare_class_that_noise_hides_is_unknown_and_not_wrong():
    study = Study(0.003, 1000, 1.0)
    curves = study.release(0).curves[0]
    assert curves.auroc.low <= study.truth()["auroc"] <= curves.auroc.high
    assert curves.at["sensitivity"][0].low == 0.0


EDGES = np.array([0.05, 0.1, 0.3, ABOVE_HALF])
MIDDLES = np.array([0.02, 0.07, 0.2, 0.4, 0.7])
COSTS = Costs(false_negative=9, false_positive=1)


def decided(cells, sigma, costs=COSTS):
    curves = ClassCurves.of_cells("yes", cells, EDGES, MIDDLES, np.full(5, 0.5), sigma, of_two=True)
    return costs.decision("yes", cells, curves, sigma)


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
    assert decision.threshold == ABOVE_HALF
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
    assert decision.threshold == ABOVE_HALF
    assert [row["name"] for row in decision.table] == ["for these costs"]


def test_without_held_back_units_the_formula_is_all_there_is():
    decision = COSTS.decision("yes")
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
