import numpy as np
import pandas as pd
import pytest
from scipy import stats

from arena.ranks import critical_difference, friedman, ranks


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
