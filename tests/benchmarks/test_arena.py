"""The arena: what is run at which budget, how a stopped run goes on, what rivals are given, metrics and ranks."""

import doctest
import signal
from dataclasses import asdict
from math import exp

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from arena import relations, results, running, splits, summary
from arena.contestants import CONTESTANTS
from arena.discrete import BINS, CATEGORIES, codes_of
from arena.estimate import estimated
from arena.limits import TooSlowError, cpu_limit
from arena.metrics import LEAST_PROBABILITY, calibration_error, scores
from arena.ranks import critical_difference, friedman, ranks
from arena.relations import ADD, HALVED, NOMINAL, REPLACE, budgets, spent
from arena.results import Task
from arena.rival_side import moments
from arena.tables import TABLES


def test_log_loss_clips_and_counts_zeros():
    probabilities = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    result = scores(probabilities, np.array([1, 1, 0]))
    expected = -(np.log(LEAST_PROBABILITY) + np.log(0.75) + np.log(0.5)) / 3
    assert result["log_loss"] == pytest.approx(expected)
    assert result["zeros"] == 1
    assert result["accuracy"] == pytest.approx(2 / 3)
    # The usual score of two classes: the mean squared difference of one class.
    assert result["brier"] == pytest.approx((1.0 + 0.25**2 + 0.5**2) / 3)


def test_auroc_of_several_classes_is_the_macro_mean():
    generator = np.random.default_rng(0)
    y = generator.integers(4, size=300)
    probabilities = generator.dirichlet(np.ones(4), size=300) * 0.7 + 0.3 * np.eye(4)[y]
    expected = roc_auc_score(y, probabilities, multi_class="ovr", average="macro")
    assert scores(probabilities, y)["auroc"] == pytest.approx(expected)


def test_a_class_that_test_rows_lack_has_no_auroc():
    probabilities = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.5, 0.4, 0.1]])
    assert scores(probabilities, np.array([0, 1, 0]))["auroc"] == pytest.approx(1.0)


def test_calibrated_probabilities_have_no_calibration_error():
    """The error of calibrated labels is at most 0.01 with a chance of far more than 0.999: its deviation is 0.003."""
    generator = np.random.default_rng(1)
    first = generator.uniform(size=5_000)
    probabilities = np.column_stack([first, 1 - first])
    y = (generator.uniform(size=5_000) > first).astype(int)
    assert 0.0 <= calibration_error(probabilities, y) < 0.01


def test_calibration_error_of_confident_guesses():
    """Nine in ten promised and six in ten kept: an error of 0.3, less a bias of about 0.002."""
    probabilities = np.tile([0.9, 0.1], (10_000, 1))
    y = np.repeat([0, 1], [6_000, 4_000])
    assert calibration_error(probabilities, y) == pytest.approx(0.3, abs=0.005)


def test_equal_confidences_share_a_bin():
    # In the order of the rows every bin would be all right or all wrong.
    probabilities = np.tile([0.6, 0.4], (1_000, 1))
    y = np.repeat([0, 1], [600, 400])
    assert calibration_error(probabilities, y) == pytest.approx(0.0)


def test_calibration_error_is_repeatable():
    generator = np.random.default_rng(2)
    probabilities = generator.dirichlet(np.ones(3), size=200)
    y = generator.integers(3, size=200)
    assert calibration_error(probabilities, y) == calibration_error(probabilities, y)


@pytest.mark.parametrize("row", [[np.nan, 1.0], [-0.1, 1.1], [0.4, 0.4]])
def test_what_is_no_probability_is_an_error(row):
    with pytest.raises(ValueError, match="probabilities"):
        scores(np.array([row, [0.5, 0.5]]), np.array([0, 1]))


def test_nemenyi_of_demsar():
    """Demsar 2006, Table 5 and the example of Section 3.2.2: q is 2.569 for four classifiers."""
    assert critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=2e-3)
    assert critical_difference(10, 20) == pytest.approx(3.164 * np.sqrt(10 * 11 / (6 * 20)), abs=2e-3)


def test_friedman_of_demsar():
    """The example of Section 3.2.2: an F of 3.69 with 3 and 39 degrees of freedom."""
    p_value = friedman(np.array([3.143, 2.000, 2.893, 1.964]), 14)
    assert p_value == pytest.approx(stats.f.sf(3.69, 3, 39), abs=2e-4)


def test_friedman_agrees_with_scipy_on_the_statistic():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(9, 5)) + np.arange(5) * 0.4
    mean_ranks = stats.rankdata(values, axis=1).mean(axis=0)
    chi_square = stats.friedmanchisquare(*values.T).statistic
    by_iman = stats.f.sf(8 * chi_square / (9 * 4 - chi_square), 4, 32)
    assert friedman(mean_ranks, 9) == pytest.approx(by_iman)


@pytest.mark.parametrize("function", [lambda: critical_difference(1, 9), lambda: critical_difference(3, 1)])
def test_too_few_for_a_test(function):
    assert np.isnan(function())


def test_ranks_by_table_means():
    frame = _frame(
        [
            ("adult", "label-moments", [0.9, 0.8], None),
            ("adult", "dp-ebm", [0.7, 0.9], None),
            ("adult", "boosting", [1.0, 1.0], None),
            ("magic", "label-moments", [0.5, 0.5], None),
            ("magic", "dp-ebm", [0.9, np.nan], "RivalError: broken"),
            ("churn", "label-moments", [0.5, 0.5], None),
        ]
    )
    result = ranks(frame, "accuracy")
    # Churn lacks a contestant, and what has no privacy is not ranked. An error is the worst.
    assert result.tables == ("adult", "magic")
    assert result.mean_ranks.to_dict() == {"label-moments": 1.0, "dp-ebm": 2.0}


def test_smaller_log_loss_ranks_first():
    frame = _frame([("adult", "label-moments", [0.9], None), ("adult", "dp-ebm", [0.7], None)], metric="log_loss")
    assert ranks(frame, "log_loss").mean_ranks.to_dict() == {"dp-ebm": 1.0, "label-moments": 2.0}


def _frame(cells, metric="accuracy"):
    return pd.DataFrame(
        [
            {
                "table": table,
                "contestant": who,
                "split": split,
                metric: value,
                "error": error if np.isnan(value) else None,
            }
            for table, who, values, error in cells
            for split, value in enumerate(values)
        ]
    )


def test_bins_and_categories_come_from_public_rows():
    public = pd.DataFrame({"number": [1.0, 2.0, 3.0, 3.0], "colour": ["red", "red", "blue", "blue"]})
    private = pd.DataFrame({"number": [-9.0, 1.4, 9.0], "colour": ["red", "green", "blue"]})
    codes = codes_of(private, public, public)
    assert codes.sizes.tolist() == [3, 3]
    assert codes.ordered.tolist() == [True, False]
    assert codes.private.tolist() == [[0, 1], [0, 2], [2, 0]]
    assert codes.values[0] == pytest.approx((np.array([1.0, 2.0, 3.0]) - 2.25) / np.std([1, 2, 3, 3]))


def test_private_rows_change_no_bin():
    generator = np.random.default_rng(0)
    public = pd.DataFrame({"number": generator.normal(size=500)})
    one, other = (codes_of(pd.DataFrame({"number": n}), public, public) for n in (np.zeros(3), np.full(3, 1e6)))
    assert np.array_equal(one.test, other.test)
    assert np.array_equal(one.values, other.values)


@pytest.mark.parametrize("seed", range(5))
def test_every_bin_has_public_rows(seed):
    generator = np.random.default_rng(seed)
    numbers = np.round(generator.exponential(size=800), 1) * (generator.uniform(size=800) < 0.3)
    public = pd.DataFrame({"number": numbers})
    codes = codes_of(public, public, public)
    counts = np.bincount(codes.private[:, 0], minlength=codes.sizes[0])
    assert counts.min() > 0
    assert codes.sizes[0] <= BINS + 1
    # Seven in ten are 0 and have a bin of their own.
    assert counts.max() == (numbers == 0).sum()


def test_rare_categories_share_a_code():
    public = pd.DataFrame({"name": [f"n{i}" for i in range(2 * CATEGORIES)] + ["n0"] * 3})
    assert codes_of(public, public, public).sizes.tolist() == [CATEGORIES + 1]


def test_a_column_with_one_code_is_left_out():
    public = pd.DataFrame({"same": [1.0, 1.0], "number": [1.0, 2.0]})
    assert codes_of(public, public, public).private.shape == (2, 1)


def test_the_polynomial_meets_the_log_likelihood_at_its_nodes():
    constant, slope, curvature = moments.polynomial()
    node = 6 * np.cos(np.pi / 6)
    for margin in (-node, 0.0, node):
        assert constant + slope * margin + curvature * margin**2 == pytest.approx(-np.logaddexp(0, -margin))
    assert slope == pytest.approx(0.5)


@pytest.mark.parametrize("classes", [2, 3])
def test_coefficients_from_tables_are_those_from_rows(classes):
    generator = np.random.default_rng(classes)
    sizes, ordered = np.array([4, 3]), np.array([True, False])
    values = np.array([[-1.0, 0.0, 0.5, 2.0], [0.0, 0.0, 0.0, 0.0]])
    codes = np.column_stack([generator.integers(size, size=400) for size in sizes])
    y = (codes.sum(axis=1) + generator.integers(2, size=400)) % classes
    held = [*codes.T, y]
    columns = moments.designs(sizes, ordered, values)

    def table(a, b):
        counts = np.zeros((max(held[a]) + 1, max(held[b]) + 1))
        np.add.at(counts, (held[a], held[b]), 1.0)
        return counts

    X = np.column_stack([values[0][codes[:, 0]], np.eye(3)[codes[:, 1]], np.ones(400)])
    signs = 2.0 * np.eye(classes)[y] - 1.0
    _, slope, curvature = moments.polynomial()
    penalty = np.diag([1.0] * 4 + [0.0])
    expected = np.linalg.solve(-2 * curvature * X.T @ X + penalty, slope * X.T @ signs)
    weights = moments.coefficients(table, columns, 400.0)
    assert weights == pytest.approx(expected)
    probabilities = moments.probabilities(codes, columns, weights)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(400))
    assert probabilities.min() > 0


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


METRICS = {"auroc": 0.5, "log_loss": 0.5, "brier": 0.2, "ece": 0.0, "zeros": 0, "seconds": 1.0}


def test_spreads_over_draws_and_splits_are_apart():
    part = pd.DataFrame({"split": [8, 8, 9, 9], "accuracy": [0.1, 0.3, 0.5, 0.5], "error": [None] * 4})
    cell = summary.cell(part, "accuracy")
    assert cell.mean == pytest.approx(0.35)
    assert cell.over_draws == pytest.approx(np.sqrt((0.02 + 0.0) / 2))
    assert cell.over_splits == pytest.approx(np.std([0.2, 0.5], ddof=1))
    assert (cell.fits, cell.errors) == (4, 0)


def test_one_draw_has_no_spread_over_draws():
    part = pd.DataFrame({"split": [8, 9], "accuracy": [0.1, 0.3], "error": [None, None]})
    assert np.isnan(summary.cell(part, "accuracy").over_draws)


def test_errors_are_counted_and_left_out():
    part = pd.DataFrame({"split": [8, 9], "accuracy": [0.1, np.nan], "error": [None, "late"]})
    cell = summary.cell(part, "accuracy")
    assert (cell.mean, cell.fits, cell.errors) == (0.1, 1, 1)


def test_like_for_like_takes_half_of_epsilon_for_adding_or_removing():
    rows = [
        _row("dp-ebm", "halved", 0.7),
        _row("dp-ebm", "nominal", 0.8),
        _row("label-moments", "nominal", 0.9),
        _row("boosting", "nominal", 1.0, epsilon=None),
    ]
    frame = summary.table_of(rows, [8])
    assert sorted(summary.like_for_like(frame)["accuracy"]) == [0.7, 0.9, 1.0]
    assert sorted(summary.nominal(frame)["accuracy"]) == [0.8, 0.9, 1.0]


def test_only_the_splits_that_are_asked_for():
    rows = [_row("label-moments", "nominal", 0.9), _row("label-moments", "nominal", 0.1, split=0)]
    assert summary.table_of(rows, [8])["accuracy"].tolist() == [0.9]


def test_earlier_versions_stand_beside():
    rows = [_row("label-moments", "nominal", 0.9), _row("label-moments", "nominal", 0.8, version=0)]
    assert summary.table_of(rows, [8])["accuracy"].tolist() == [0.9]
    frame = summary.table_of(rows, [8], earlier=True)
    assert summary.ordered(frame, private=True) == ["label-moments", "label-moments (version 0)"]
    assert len(summary.like_for_like(frame)) == 2
    assert summary.title("label-moments (version 0)") == "label moments (ours) (version 0)"


def test_differences_are_positive_where_the_first_is_better():
    rows = [_row("label-moments", "nominal", 0.9), _row("pate", "nominal", 0.8)]
    frame = summary.table_of(rows, [8])
    assert summary.differences(frame, "label-moments", "pate", "accuracy")["adult"] == pytest.approx(0.1)
    frame["log_loss"] = [0.4, 0.6]
    assert summary.differences(frame, "label-moments", "pate", "log_loss")["adult"] == pytest.approx(0.2)


def test_contestants_without_a_relation_are_marked():
    assert summary.title("dpl-bayes").endswith("†")
    assert not summary.title("dpl-logistic").endswith("†")


def _row(contestant, budget, accuracy, *, epsilon=1.0, split=8, version=None):
    version = summary._BY_NAME[contestant].version if version is None else version
    return asdict(Task("adult", contestant, version, epsilon, split, 0, budget)) | METRICS | {"accuracy": accuracy}
