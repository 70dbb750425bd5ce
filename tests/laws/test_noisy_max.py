"""Noisy maxima: their formulas, weights that are sampled, and prices of the exponential mechanism against all pairs."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble import PATEClassifier, plan
from dpensemble.accounting import Accounting, Change, price, worst_case
from dpensemble.audit import audit_law
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ExponentialVote, LaplaceNoisyMax, integer_weights

COUNTS = st.integers(2, 6).flatmap(
    lambda c: st.lists(st.lists(st.integers(0, 200), min_size=c, max_size=c), min_size=1, max_size=4)
)
SCALES = st.floats(0.3, 500)


def exact(counts, scale):
    """Integrate the definition in 30 digits."""
    mpmath.mp.dps = 30
    means = [mpmath.mpf(int(c)) / mpmath.mpf(scale) for c in counts]
    below = lambda z: 1 - mpmath.exp(-z) / 2 if z > 0 else mpmath.exp(z) / 2  # noqa: E731
    edges = [-mpmath.inf, *sorted(set(means)), mpmath.inf]
    return [
        float(
            mpmath.quad(
                lambda y, c=c: (
                    mpmath.exp(-abs(y - means[c]))
                    / 2
                    * mpmath.fprod(below(y - m) for j, m in enumerate(means) if j != c)
                ),
                edges,
            )
        )
        for c in range(len(means))
    ]


@pytest.mark.parametrize(
    ("counts", "scale"),
    [
        ([7, 3], 2.0),
        ([0, 0], 1.0),
        ([250, 0], 125.0),
        ([5, 5, 5], 1.0),
        ([100, 3, 60], 2.0),
        ([1, 9, 4, 4, 20], 10.0),
        ([30, 0, 0, 0, 0, 0, 0, 29], 7.0),
        ([500, 1, 2], 1.0),
    ],
)
def test_probabilities_match_thirty_digit_integration(counts, scale):
    found = LaplaceNoisyMax(scale).probabilities(np.array([counts]))[0]
    # A tenth of the error that the sampler pays for.
    assert np.abs(found - exact(counts, scale)).max() < 1e-15


@given(COUNTS, SCALES)
def test_rows_are_laws_ordered_like_the_counts(counts, scale):
    counts = np.array(counts)
    p = LaplaceNoisyMax(scale).probabilities(counts)
    assert np.all(p >= 0)
    assert np.allclose(p.sum(axis=1), 1, atol=1e-13)
    for row, probabilities in zip(counts, p, strict=True):
        order = np.argsort(row, kind="stable")
        assert np.all(np.diff(probabilities[order]) >= -1e-14)


@given(COUNTS, SCALES)
def test_only_gaps_matter_and_classes_are_treated_alike(counts, scale):
    counts = np.array(counts)
    law = LaplaceNoisyMax(scale)
    p = law.probabilities(counts)
    assert np.allclose(p, law.probabilities(counts + 17), atol=1e-14)
    assert np.allclose(p[:, ::-1], law.probabilities(counts[:, ::-1]), atol=1e-14)


def test_a_third_class_far_behind_changes_nothing():
    two = LaplaceNoisyMax(3.0).probabilities(np.array([[600, 590]]))
    three = LaplaceNoisyMax(3.0).probabilities(np.array([[600, 590, 0]]))
    assert np.allclose(two, three[:, :2], atol=1e-15)


@given(COUNTS, SCALES)
def test_integer_weights_sum_exactly_and_keep_a_floor(counts, scale):
    counts = np.array(counts)
    weights = integer_weights(LaplaceNoisyMax(scale), counts)
    assert [sum(map(int, row)) for row in weights] == [2**63] * len(counts)
    assert weights.min() >= 0.99e-6 / counts.shape[1] * 2**63


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf"), "2", None, True])
def test_bad_scales_are_refused(scale):
    with pytest.raises(InvalidParameterError, match="scale="):
        LaplaceNoisyMax(scale)


def test_a_scale_beyond_double_precision_is_refused():
    with pytest.raises(InvalidParameterError, match="use a smaller scale"):
        LaplaceNoisyMax(1e12).mixing_weight(2)


def test_counts_that_are_not_finite_are_refused():
    with pytest.raises(InvalidParameterError, match="counts must be finite"):
        integer_weights(LaplaceNoisyMax(1.0), np.array([[1.0, np.nan]]))


def test_no_queries_give_no_probabilities():
    assert LaplaceNoisyMax(1.0).probabilities(np.empty((0, 3))).shape == (0, 3)


def test_probabilities_are_those_of_gumbel_noise():
    counts, scale = np.array([4, 7, 6]), 1.5
    noisy = counts + np.random.default_rng(0).gumbel(scale=scale, size=(200_000, 3))
    found = np.bincount(noisy.argmax(axis=1), minlength=3) / len(noisy)
    wanted = ExponentialVote(scale).probabilities(counts[None])[0]
    # Five standard deviations: a false alarm in a million.
    assert np.abs(found - wanted).max() < 5 * np.sqrt(0.25 / len(noisy))
    assert np.abs(found - ExponentialVote(1.1 * scale).probabilities(counts[None])[0]).max() > 0.005


@pytest.mark.parametrize(("ballots", "classes", "votes"), [(9, 2, 1), (7, 2, 2), (6, 3, 1), (5, 3, 2), (4, 4, 1)])
@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])
def test_the_price_covers_every_pair_of_histograms_and_hardly_more(ballots, classes, votes, scale):
    law, change = ExponentialVote(scale), Change(ballots=ballots, classes=classes, votes=votes)
    claimed = price(law, change).label.epsilon(1e-6)
    found = audit_law(law, n_teachers=ballots, n_classes=classes, votes_per_unit=votes, delta=1e-6)
    assert 0.9 * claimed <= found.epsilon <= claimed
    assert found.epsilon <= law.pure_epsilon(votes) * (1 + 1e-9)


@pytest.mark.parametrize(("ballots", "scale", "share"), [(40, 4.0, 1.02), (100, 8.0, 1.01), (400, 32.0, 1.005)])
def test_what_is_too_much_to_list_is_covered_by_the_range_of_its_losses(monkeypatch, ballots, scale, share):
    law, change = ExponentialVote(scale), Change(ballots=ballots, classes=3)
    listed = price(law, change).label.rdp
    monkeypatch.setattr(worst_case, "_can_list", lambda *_: False)
    by_range = price(law, change).label.rdp
    assert np.all(by_range >= listed * (1 - 1e-9))
    assert np.all(by_range[:200] <= listed[:200] * share)


def test_the_published_price_is_that_of_bounded_range():
    change = Change(ballots=250, classes=10, votes=3)
    cost = price(ExponentialVote(20.0), change, Accounting.PUBLISHED).label
    assert np.allclose(cost.rdp, cost.orders * (2 * 3 / 20) ** 2 / 8)


@pytest.mark.parametrize("classes", [2, 10])
def test_it_plans_by_name(classes):
    found = plan(PATEClassifier(law="exponential").design(n_classes=classes), epsilon=1)
    assert found.labels == 28
    assert found.design.law == ExponentialVote(20.0)


@pytest.mark.parametrize("scale", [0, -1, np.nan, "2"])
def test_bad_scales_of_the_exponential_mechanism_are_refused(scale):
    with pytest.raises(InvalidParameterError, match="scale="):
        ExponentialVote(scale)
