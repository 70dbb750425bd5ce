import numpy as np
import pytest

from dpensemble.workflow.comparison import _further_measures
from dpensemble.workflow.learners import scores


def test_two_classes_score_the_second():
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.35, 0.65], [0.2, 0.8]])
    found = scores(p, np.array(["a", "b", "a", "b"]), np.array(["a", "b"]))
    brier = (0.1**2 + 0.6**2 + 0.65**2 + 0.2**2) / 4
    assert found == {
        "accuracy": 0.5,
        "auroc": 0.75,
        "auprc": pytest.approx((1 + 2 / 3) / 2),
        "brier": pytest.approx(brier),
    }


def test_more_classes_are_averaged_over_those_that_occur():
    p = np.eye(4)[[0, 1, 2, 2]] * 0.9 + 0.025
    found = scores(p, np.array([0, 1, 2, 1]), np.arange(4))
    assert found["accuracy"] == 0.75
    assert 0.8 < found["auroc"] < 1


def test_a_single_class_has_no_areas():
    assert scores(np.array([[0.4, 0.6]]), np.array([1]), np.array([0, 1])) == {
        "accuracy": 1.0,
        "brier": pytest.approx(0.16),
    }


def test_measures_beside_accuracy():
    three, truth = np.arange(3), np.array([0, 0, 0, 1, 2])
    found = _further_measures(np.zeros(5, dtype=int), np.full((5, 3), 1 / 3), truth, three)
    assert found == {"balanced_accuracy": pytest.approx(1 / 3), "brier": pytest.approx(2 / 3)}
    assert _further_measures(np.array([1, 1]), None, np.array([0, 1]), np.array([0, 1])) == {"auroc": 0.5}
    assert _further_measures(np.array([0, 1]), None, np.array([0, 1]), np.array([0, 1])) == {}
