import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dpensemble.student.fitting import default_student, fit_soft_student, fit_student


@pytest.mark.parametrize("label", [1, 1.0, np.float64(0.5), "yes", True])
def test_labels_that_all_agree_make_a_constant_student(label):
    X = np.arange(6.0).reshape(3, 2)
    student = fit_student(default_student(), X, np.array([label] * 3), seed=0)
    assert student.predict(X).tolist() == [label] * 3


FITTING_RNG = np.random.default_rng(0)
ROWS = FITTING_RNG.normal(size=(400, 3))
CHANCES = 1 / (1 + np.exp(-2 * ROWS[:, 0]))
SOFT = np.stack([1 - CHANCES, CHANCES], axis=1)


def test_averages_outside_of_0_to_1_are_learned_without_bias():
    """Noise of mean 0 on soft labels. The mean of many students is close to the student without noise."""
    clean = fit_soft_student(None, ROWS, SOFT, np.array([0, 1]), 0, spread=0.01)
    found = []
    for seed in range(30):
        noise = np.random.default_rng(seed).normal(scale=0.5, size=400)
        noisy = SOFT + np.stack([-noise, noise], axis=1)
        assert noisy.min() < -0.4
        found.append(
            LogisticRegression(C=clean.C, max_iter=1000)
            .fit(np.repeat(ROWS, 2, axis=0), np.tile([0, 1], 400), sample_weight=noisy.ravel())
            .coef_[0]
        )
    assert np.mean(found, axis=0) == pytest.approx(clean.coef_[0], abs=0.35)


def test_more_noise_takes_a_stronger_penalty():
    found = []
    for spread in (0.01, 0.3, 3.0):
        noise = np.random.default_rng(1).normal(scale=spread, size=400)
        noisy = SOFT + np.stack([-noise, noise], axis=1)
        found.append(fit_soft_student(None, ROWS, noisy, np.array([0, 1]), 0, spread=spread).C)
    assert found[0] > 3 * found[1] > 9 * found[2]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_penalty_does_about_as_well_as_the_best(n_classes):
    rng = np.random.default_rng(2)
    logits = ROWS @ rng.normal(size=(3, n_classes))
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    noise = rng.normal(scale=0.5, size=truth.shape)
    noisy = truth + noise - noise.mean(axis=1, keepdims=True)
    classes = np.arange(n_classes)

    def loss(model):
        return -np.mean((truth * model.predict_log_proba(ROWS)).sum(axis=1))

    weighted = {"sample_weight": noisy.ravel()}
    rows, labels = np.repeat(ROWS, n_classes, axis=0), np.tile(classes, 400)
    tried = [LogisticRegression(C=c, max_iter=1000).fit(rows, labels, **weighted) for c in 10.0 ** np.arange(-4, 2)]
    best = min(map(loss, tried))
    assert loss(fit_soft_student(None, ROWS, noisy, classes, 0, spread=0.5)) < best + 0.03


def test_constant_columns_leave_the_weakest_penalty():
    assert fit_soft_student(None, np.ones((9, 2)), SOFT[:9], np.array([0, 1]), 0).C == 10.0
