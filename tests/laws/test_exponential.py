"""The exponential mechanism: its formula, its price against all pairs of histograms, and its published price."""

import numpy as np
import pytest

from dpensemble import PATEClassifier, plan
from dpensemble.accounting import Accounting, Change, price, worst_case
from dpensemble.audit import audit_law
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ExponentialVote


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
def test_bad_scales_are_refused(scale):
    with pytest.raises(InvalidParameterError, match="scale="):
        ExponentialVote(scale)
