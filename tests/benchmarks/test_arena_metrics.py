import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from arena.metrics import LEAST_PROBABILITY, calibration_error, scores


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
