import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import NotFittedError

from dpensemble.errors import InvalidParameterError
from dpensemble.moments import MomentsModel
from dpensemble.moments.model import probabilities


@given(arrays(np.float64, (3, 4), elements=st.floats(-1e6, 1e6)), st.sampled_from([1, 3, 7]))
def test_probabilities_are_some_whatever_the_scores(features, width):
    coefficients = np.random.default_rng(width).normal(size=(4, width))
    found = MomentsModel.of(coefficients, np.arange(max(2, width))).predict_proba(features)
    assert found.shape == (3, max(2, width))
    assert found.min() >= 0
    assert np.allclose(found.sum(axis=1), 1)


def test_two_columns_that_differ_equal_one():
    features, one = np.random.default_rng(0).normal(size=(2, 50, 4))
    coefficients = one[:4, :1]
    both = np.hstack([np.zeros((4, 1)), coefficients])
    assert np.allclose(probabilities(features, coefficients)[:, 0], probabilities(features, both)[:, 1])


def test_it_cannot_be_fitted_to_labels():
    with pytest.raises(InvalidParameterError, match="LabelMomentsClassifier"):
        MomentsModel().fit([[1.0]], [1])


def test_it_predicts_nothing_before_it_is_made():
    with pytest.raises(NotFittedError):
        MomentsModel().predict_proba([[1.0]])
    with pytest.raises(NotFittedError):
        MomentsModel().predict([[1.0]])
