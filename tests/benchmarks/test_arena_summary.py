from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from arena import summary
from arena.results import Task

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
