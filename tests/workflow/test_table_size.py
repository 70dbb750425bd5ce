"""Estimates before anything is spent: the noise of a run, intervals, costly columns, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble import LabelMomentsClassifier, plan_label_moments
from dpensemble._spending import Spending, listen
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.workflow import difficulty, stand_ins, table_size
from dpensemble.workflow.difficulty import Points, attenuated, attenuation, distance, ranges_of

ROWS = 240
# Public tables by which difficulty is known.
N_KNOWN = 41


@pytest.fixture(scope="module")
def public() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=ROWS), "b": rng.choice(list("xyz"), size=ROWS)})


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame({"a": rng.normal(size=151), "b": rng.choice(list("xyz"), size=151)})


@pytest.fixture(scope="module")
def labels(public: pd.DataFrame) -> np.ndarray:
    noise = 0.5 * np.random.default_rng(1).normal(size=ROWS)
    return np.where(public["a"] + noise > 0, "yes", "no")


@pytest.fixture(scope="module")
def labelled(public: pd.DataFrame, labels: np.ndarray) -> table_size.TableSizePlan:
    return plan_label_moments(epsilon=[2.0], records=150, X_public=public, y_public=labels)


def _setting(public: pd.DataFrame, **change: Any) -> stand_ins.Setting:
    usual = {"n_classes": 2, "declared": None, "share": 0.3, "unit_size": 1, "delta": None, "seed": 0}
    return stand_ins.Setting(public=public, **usual | change)


def _codes(labels: np.ndarray) -> np.ndarray:
    return (labels == "yes").astype(int)


def test_the_noise_and_delta_are_those_of_a_run(
    public: pd.DataFrame, records: pd.DataFrame, labels: np.ndarray
) -> None:
    run = LabelMomentsClassifier(classes=["no", "yes"], epsilon=2.0, columns={}, insecure_release_seed=7)
    run.fit(records, labels[:151], X_public=public)
    with stand_ins.nothing_spent():
        fit = _setting(public).fit(records, _codes(labels[:151]), 2.0, 0)
    assert stand_ins._noise(fit) == (run.charges_[0]["sigma"], run.guarantee_.delta)


def test_units_of_several_records_get_the_noise_of_fewer_units(
    public: pd.DataFrame, records: pd.DataFrame, labels: np.ndarray
) -> None:
    run = LabelMomentsClassifier(classes=["no", "yes"], epsilon=2.0, delta=1e-4, columns={}, insecure_release_seed=7)
    run.fit(records, labels[:151], X_public=public, units=np.arange(151) // 3, public_units=np.arange(ROWS))
    with stand_ins.nothing_spent():
        fit = _setting(public, unit_size=3, delta=1e-4).fit(records, _codes(labels[:151]), 2.0, 0)
    assert stand_ins._noise(fit) == (run.charges_[0]["sigma"], 1e-4)


def test_a_plan_states_the_noise_of_its_units(public: pd.DataFrame, labels: np.ndarray) -> None:
    (size,) = plan_label_moments(
        epsilon=[2.0], records=151, X_public=public, y_public=labels, unit_size=3, delta=1e-4
    ).sizes
    assert (size.records, size.units, size.delta) == (151, 51, 1e-4)
    with stand_ins.nothing_spent():
        fit = _setting(public, unit_size=3, delta=1e-4).fit(public[:151].copy(), _codes(labels[:151]), 2.0, 0)
    assert size.sigma == stand_ins._noise(fit)[0]


def test_simulated_fits_charge_nothing(public: pd.DataFrame, records: pd.DataFrame, labels: np.ndarray) -> None:
    heard: list[Spending] = []

    def fit() -> None:
        _setting(public).fit(records, _codes(labels[:151]), 2.0, 0)

    with listen(heard.extend):
        with stand_ins.nothing_spent():
            fit()
        assert heard == []
        # The same fit outside is heard.
        fit()
    assert heard


def test_strong_labels_are_seen_and_random_ones_are_not(
    labelled: table_size.TableSizePlan, public: pd.DataFrame
) -> None:
    (strong,) = labelled.sizes
    assert strong.auroc.low > 0.7
    assert strong.accuracy.low > 0.6
    coins = np.random.default_rng(2).choice(["no", "yes"], size=ROWS)
    (weak,) = plan_label_moments(epsilon=[2.0], records=150, X_public=public, y_public=coins).sizes
    assert weak.auroc.low < 0.5 < weak.auroc.high
    assert weak.auroc.high < 0.7


def test_an_interval_of_labelled_rows_covers_the_error_of_hanley_and_mcneil() -> None:
    # Oracle: the variance of the Mann-Whitney statistic of two samples of exponential scores, whose formula is exact.
    rng = np.random.default_rng(3)
    positive, negative, rate = 30, 50, 3.0
    values = [
        float(np.mean(rng.exponential(rate, positive)[:, None] > rng.exponential(1.0, negative)[None]))
        for _ in range(4_000)
    ]
    formula = difficulty.variance_of_auroc(rate / (1 + rate), np.array([negative, positive]))
    # The standard deviation of a variance of 4,000 draws is 2.3 %, so 10 % is a false alarm of less than 1e-4.
    assert np.var(values) <= 1.1 * formula
    assert formula <= 1.4 * np.var(values)


@settings(max_examples=30, deadline=None)
@given(st.floats(min_value=0.01, max_value=50.0))
def test_attenuation_finds_the_loss_that_made_the_pairs(loss: float) -> None:
    areas = (0.65, 0.8, 0.95)
    seen = [attenuated(distance(area), loss) for area in areas]
    pairs = [(area, difficulty._NORMAL.cdf(one / 2**0.5)) for area, one in zip(areas, seen, strict=True)]
    found, spread = attenuation(pairs)
    assert found == pytest.approx(loss, rel=0.06)
    assert spread < 0.02


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_made_up_chances_have_their_area_and_share(public: pd.DataFrame, share: float) -> None:
    setting = _setting(public, share=share)
    chances = stand_ins._made_up_chances(public, 0.8, setting, 0)
    assert chances[:, 1].mean() == pytest.approx(share, abs=1e-6)
    assert np.allclose(chances.sum(axis=1), 1)
    # Oracle: all pairs of rows, one with the second class and the other without.
    first, second = 1 - chances[:, 1], chances[:, 1]
    above = (second[:, None] > second[None]) + 0.5 * (second[:, None] == second[None])
    assert (second @ above @ first) / (second.sum() * first.sum()) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(("gap", "share"), [(0.0, 0.3), (1.0, 0.5), (2.0, 0.1)])
def test_the_accuracy_of_the_best_rule_is_that_of_draws(gap: float, share: float) -> None:
    rng = np.random.default_rng(4)
    second = rng.random(200_000) < share
    scores = rng.normal(size=len(second)) + gap * second
    rule = gap * scores - gap**2 / 2 + np.log(share / (1 - share)) > 0
    # Five standard deviations of a mean of 200,000 draws.
    assert difficulty.accuracy_at(gap, share) == pytest.approx(np.mean(rule == second), abs=0.0056)


def test_more_difficulties_make_longer_intervals() -> None:
    points = Points(1_000, 1.0, tuple((area, area - 0.02, 0.8) for area in (0.65, 0.8, 0.95)), 10.0, 1e-5)
    unknown, accuracy = ranges_of(points, 2, 0.3)
    stated, _ = ranges_of(points, 2, 0.3, best=0.8)
    assert stated.high - stated.low < 0.6 * (unknown.high - unknown.low)
    assert stated.low < 0.78 < stated.high + 0.02
    assert 0.6 <= accuracy.low <= accuracy.estimate <= accuracy.high <= 1


_CELLS = [(n_records, epsilon) for n_records in table_size.USUAL_RECORDS for epsilon in table_size.USUAL_EPSILONS]


def test_all_cells_of_the_default_are_stored() -> None:
    assert set(difficulty.usual_points()) == set(_CELLS)
    known = difficulty._difficulty()
    assert len(known.aurocs) == N_KNOWN
    assert 0.5 < known.aurocs.min() < known.aurocs.max() <= 1
    # A loss for each table at two epsilons, and the errors of two runs at each.
    assert (len(known.losses), len(known.accuracy_errors)) == (2 * N_KNOWN, 4 * N_KNOWN)
    assert known.losses.min() >= 0


@pytest.mark.parametrize(("n_records", "epsilon"), _CELLS)
def test_the_stored_noise_is_that_of_an_account(n_records: int, epsilon: float) -> None:
    stored = difficulty.usual_points()[n_records, epsilon]
    design = _setting(stand_ins.usual_rows(), delta=stored.delta).method(epsilon).design(n_classes=2)
    # What the sums of labels leave compares rows first.
    design = replace(design, compares_rows=True)
    assert stored.sigma == pytest.approx(design.meter().sigma(1 - sum(design.shares)), rel=1e-9)


@pytest.mark.parametrize(("n_records", "epsilon"), _CELLS)
def test_stored_figures_are_those_of_fits_today(n_records: int, epsilon: float) -> None:
    stored = difficulty.usual_points()[n_records, epsilon]
    fresh = stand_ins.made_up_points(stand_ins.usual_rows(), n_records, epsilon)
    assert (fresh.sigma, fresh.delta) == (stored.sigma, stored.delta)
    assert np.allclose(fresh.effects, stored.effects, atol=0.02)


def test_columns_that_cost_more_than_they_pay_for_are_named(public: pd.DataFrame) -> None:
    costs = stand_ins.Costs(_setting(public), 300, 0.5)
    # One of six columns has most of the directions.
    costs.width, costs.freed = 40.0, {"town": 35.0} | {f"c{place}": 1.0 for place in range(5)}
    seen, costly = costs.of(300, 0.5, 1e-5)
    assert "town" in costly
    much, paid = costs.of(1_000_000, 8.0, 1e-9)
    assert paid == ()
    assert seen is not None
    assert much is not None
    assert seen < 0.5
    assert much > 0.99


def test_a_plan_is_printed_and_written(labelled: table_size.TableSizePlan) -> None:
    content = json.loads(labelled.to_json())
    assert content["method"] == "label-moments"
    assert content["columns"] == 2
    assert content["public_rows"] == ROWS
    assert content["share"] is None
    (size,) = content["sizes"]
    assert size["auroc"]["low"] <= size["auroc"]["estimate"] <= size["auroc"]["high"]
    assert "150 records, epsilon 2: AUROC" in str(labelled)
    assert "Nothing was spent" in str(labelled)
    assert "<p>" in labelled._repr_html_()


def test_the_smallest_sufficient_epsilon_loses_little() -> None:
    def size(epsilon: float, area: float) -> table_size.TableSize:
        one = difficulty.Range(area, area, area)
        return table_size.TableSize(
            records=100,
            units=100,
            epsilon=epsilon,
            delta=1e-5,
            sigma=1.0,
            auroc=one,
            accuracy=one,
            seen=None,
            costly=(),
        )

    plan = table_size.TableSizePlan((size(3, 0.8), size(1, 0.79), size(0.3, 0.7)), "", None, 1, 1)
    assert plan.sufficient == {100: 1}
    assert "epsilon 1 would do" in str(plan)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"records": 0}, "records=0"),
        ({"records": [500, -1]}, "records=-1"),
        ({"records": []}, r"records=\[\]"),
        ({"records": "500"}, "records='500'"),
        ({"records": 1}, "fewer than 2 columns"),
        ({"records": 4, "unit_size": 5}, "a unit of 5"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": [1.0, float("nan")]}, "epsilon=nan"),
        ({"epsilon": []}, r"epsilon=\[\]"),
        ({"epsilon": "1"}, "epsilon='1'"),
        ({"share": 0}, "strictly between"),
        ({"share": 1.0}, "strictly between"),
        ({"share": 1.5}, "share=1.5"),
        ({"share": 0.2, "classes": ["a", "b", "c"]}, "for two classes"),
        ({"unit_size": 0}, "unit_size=0"),
        ({"auroc": 0.4}, "auroc=0.4"),
        ({"classes": ["only"]}, "classes"),
        ({"n_columns": 3}, "made-up rows"),
        ({"declared_columns": {"a": (0, 1)}}, "both given"),
    ],
)
def test_bad_settings_are_refused_before_any_fit(public: pd.DataFrame, change: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"records": 100, "X_public": public} | change
    with pytest.raises(InvalidParameterError, match=words):
        plan_label_moments(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("y_public", "words"),
    [
        (["no"] * (ROWS - 1), "has shape"),
        (["no"] * (ROWS - 1) + ["maybe"], "'maybe', which is not one of the classes"),
        (["no"] * ROWS, "of the rarest class"),
    ],
)
def test_bad_labels_are_refused(public: pd.DataFrame, y_public: list[str], words: str) -> None:
    with pytest.raises((DataError, InvalidParameterError), match=words):
        plan_label_moments(records=100, X_public=public, y_public=y_public)


def test_labels_replace_statements_about_difficulty(public: pd.DataFrame, labels: np.ndarray) -> None:
    for change in ({"auroc": 0.8}, {"share": 0.3}):
        with pytest.raises(InvalidParameterError, match=f"{next(iter(change))}=" if "auroc" in change else "share is"):
            plan_label_moments(records=100, X_public=public, y_public=labels, **change)  # type: ignore[arg-type]


def test_public_rows_without_columns_are_refused() -> None:
    with pytest.raises(DataError, match="no columns"):
        plan_label_moments(records=100, X_public=pd.DataFrame(index=range(5)))


def test_three_classes_have_the_mean_of_their_areas(public: pd.DataFrame) -> None:
    chances = stand_ins._made_up_chances(public, 0.8, _setting(public, n_classes=3), 0)
    assert chances.shape == (ROWS, 3)
    assert np.allclose(chances.sum(axis=1), 1)
    assert stand_ins._auroc(chances, chances) == pytest.approx(0.8, abs=0.01)


def test_a_plan_for_three_classes(public: pd.DataFrame) -> None:
    y = np.array(["low", "middle", "high"])[np.searchsorted([-0.5, 0.5], public["a"])]
    names = ["low", "middle", "high"]
    plan = plan_label_moments(epsilon=[8.0], records=200, classes=names, X_public=public, y_public=y)
    assert plan.sizes[0].auroc.estimate > 0.7
    assert plan.share is None


def test_public_rows_are_read_as_a_run_reads_them(public: pd.DataFrame) -> None:
    rng = np.random.default_rng(6)
    written = pd.DataFrame(
        {
            "Patientennummer": [f"P{number:06d}" for number in range(ROWS)],
            "a": [f"{number:.2f} kg".replace(".", ",") for number in public["a"]],
            "Kosten": [f"{1000 + number:,}" for number in range(ROWS)],
        }
    )
    with pytest.raises(DataError, match="Kosten"):
        plan_label_moments(epsilon=[2.0], records=150, X_public=written)
    rows, n_columns, sentence = table_size._prepared(written, columns={"Kosten": "number:1,234.5"})
    assert (n_columns, sentence) == (2, " A run leaves out Patientennummer.")
    np.testing.assert_allclose(rows["a"].to_numpy(dtype=float), public["a"].round(2))
    np.testing.assert_array_equal(rows["Kosten"].to_numpy(dtype=float), 1000.0 + np.arange(ROWS))
    plan = plan_label_moments(
        epsilon=[2.0],
        records=150,
        X_public=written,
        y_public=rng.choice(["no", "yes"], ROWS),
        columns={"Kosten": "number:1,234.5"},
    )
    assert plan.n_columns == 2
    assert "A run leaves out Patientennummer." in plan.basis
    with pytest.raises(InvalidParameterError, match="X_public"):
        plan_label_moments(columns={"a": "number"})


def test_effects_of_written_numbers_are_those_of_numbers() -> None:
    rng = np.random.default_rng(5)
    numbers = pd.DataFrame({name: rng.normal(50, 9, 400).round(1) for name in "abcd"})
    written = numbers.map(lambda number: f"{number:.1f}".replace(".", ",") + " %")
    settings = {"records": 2_000, "epsilon": [3.0]}
    one, other = (plan_label_moments(X_public=rows, **settings) for rows in (numbers, written))
    assert one.sizes[0].auroc.estimate == pytest.approx(other.sizes[0].auroc.estimate, abs=0.02)
