"""Prices of a user's own laws and of a sparse noisy maximum, against every pair of neighbours of tiny worlds."""

import math
from dataclasses import dataclass, field, replace
from itertools import product
from typing import ClassVar

import numpy as np
import pytest

from dpensemble._random import noise_source
from dpensemble.accounting import Accounting, Change, GaussianSum, price, sparse_cost
from dpensemble.audit import audit_law, exact_epsilon
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.errors import AccountingError, DPEnsembleError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import (
    ConfidentNoisyMax,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    OptimalVote,
    RandomizedResponse,
    ReleaseLaw,
    SparseNoisyMax,
    sample,
)
from dpensemble.laws.sampling import _whole_weights

ORDERS = DEFAULT_ORDERS[[0, 3, 8, 30]]


@dataclass(frozen=True)
class Share(ReleaseLaw):
    """A ballot drawn at random, after some for every class, and more for the later ones."""

    extra: float
    handicap: float = 0.0

    def probabilities(self, counts):
        raised = counts + self.extra + self.handicap * np.arange(counts.shape[1])
        return raised / raised.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class AlikeShare(Share):
    symmetric: ClassVar[bool] = True


@dataclass(frozen=True)
class PureShare(AlikeShare):
    def pure_epsilon(self, votes):
        return float(np.log1p(votes / self.extra))


@dataclass(frozen=True)
class Wavy(ReleaseLaw):
    """A chance that rises and falls with the votes, so that a small change may reveal more than a large one."""

    def probabilities(self, counts):
        second = 0.5 + 0.4 * np.sin(1.3 * counts[:, 1])
        return np.column_stack([1 - second, second])


def rdp(cost):
    return cost.rdp[np.searchsorted(DEFAULT_ORDERS, ORDERS)]


def is_exact(law, change):
    """Check a price against an enumeration of all pairs that knows nothing of how prices are found."""
    cost = price(law, change).label
    for delta in (0.0, 0.01, 0.1):
        found = audit_law(law, change.ballots, change.classes, change.votes, delta=delta, orders=ORDERS)
        assert np.all(np.asarray(found.renyi) <= rdp(cost))
        claimed = cost.parts[0].pairs.hockey_stick(found.epsilon)
        # Where epsilon is 0 already, fewer differ than delta allows.
        assert claimed <= delta + 1e-9
        assert claimed >= delta * (1 - 1e-6) or not found.epsilon
    assert np.all(np.asarray(found.renyi) >= rdp(cost) * (1 - 1e-5))


@pytest.mark.parametrize("votes", [1, 2, 3])
@pytest.mark.parametrize("law", [Share(2.0), Share(0.5, 3.0), AlikeShare(1.0), Wavy()], ids=repr)
def test_probabilities_are_all_that_a_law_of_two_classes_needs(law, votes):
    is_exact(law, Change(ballots=9, classes=2, votes=votes))


@pytest.mark.parametrize(("n_classes", "votes"), [(3, 1), (3, 2), (4, 1)])
@pytest.mark.parametrize("law", [Share(2.0), Share(0.5, 3.0), AlikeShare(1.0)], ids=repr)
def test_more_classes_are_listed(law, n_classes, votes):
    is_exact(law, Change(ballots=6, classes=n_classes, votes=votes))


@pytest.mark.parametrize("change", [Change(ballots=12, classes=3, votes=2), Change(ballots=7, classes=4, weight=2)])
@pytest.mark.parametrize("extra", [0.5, 40.0])
def test_sorted_histograms_stand_for_all_of_a_symmetric_law(extra, change):
    every, few = price(Share(extra), change).label, price(AlikeShare(extra), change).label
    assert len(few.parts[0].pairs) < 0.5 * len(every.parts[0].pairs)
    np.testing.assert_allclose(few.rdp, every.rdp, rtol=1e-9)
    assert few.epsilon(1e-3) == pytest.approx(every.epsilon(1e-3), rel=1e-9)


def test_a_law_of_the_library_costs_the_same_whether_it_says_that_it_is_symmetric_or_not():
    @dataclass(frozen=True)
    class Plain(OptimalVote):
        symmetric: ClassVar[bool] = False

    change = Change(ballots=9, classes=3)
    every, few = price(Plain(6.0, 0.4), change).label, price(OptimalVote(6.0, 0.4), change).label
    np.testing.assert_allclose(few.rdp, every.rdp, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [3, 4])
def test_a_law_that_is_not_as_symmetric_as_it_says_is_refused(n_classes):
    with pytest.raises(AccountingError, match="declares symmetric=True"):
        price(AlikeShare(2.0, handicap=1e-3), Change(ballots=6, classes=n_classes))


def test_a_law_that_singles_out_one_order_of_the_classes_is_refused():
    @dataclass(frozen=True)
    class Odd(AlikeShare):
        def probabilities(self, counts):
            odd = (counts[:, 1] > counts[:, 0]) & (counts[:, 0] > counts[:, 2])
            return np.where(odd[:, None], [0.1, 0.8, 0.1], super().probabilities(counts))

    with pytest.raises(AccountingError, match="declares symmetric=True"):
        price(Odd(1.0), Change(ballots=8, classes=3))


def test_too_many_histograms_need_a_pure_epsilon():
    change = Change(ballots=250, classes=10, votes=2)
    for law in (Share(5.0), AlikeShare(5.0)):
        with pytest.raises(AccountingError, match="fewer teachers, or define pure_epsilon"):
            price(law, change)
    found = price(PureShare(5.0), change).label
    np.testing.assert_array_equal(found.rdp, PrivacyCost.pure(np.log1p(2 / 5)).rdp)
    # It is what listing comes to at most, and listing is taken where it can be.
    small = Change(ballots=6, classes=3, votes=2)
    listed, pure = price(PureShare(5.0), small).label, PrivacyCost.pure(np.log1p(2 / 5))
    np.testing.assert_allclose(listed.rdp, price(AlikeShare(5.0), small).label.rdp)
    assert np.all(listed.rdp <= pure.rdp * (1 + 1e-6))


def test_mixing_that_does_not_pay_for_rounding_is_refused():
    @dataclass(frozen=True)
    class Mixed(PureShare):
        def mixing_weight(self, n_classes):
            return 0.009

    change = Change(ballots=250, classes=10)
    with pytest.raises(AccountingError, match="mixing_weight too small for its pure_epsilon=1e-08"):
        price(PureShare(1e8), change)
    np.testing.assert_array_equal(price(Mixed(1e8), change).label.rdp, PrivacyCost.pure(np.log1p(1e-8)).rdp)


@pytest.mark.parametrize("accounting", Accounting)
def test_a_gated_query_costs_its_check_and_if_answered_its_label(accounting):
    change = Change(ballots=40, classes=2)
    found = price(ConfidentNoisyMax(30.0, 20.0, 9.0), change, accounting)
    plain = price(GaussianNoisyMax(9.0), change, accounting)
    assert plain.check is None
    assert plain.answered is plain.label
    np.testing.assert_array_equal(found.label.rdp, plain.label.rdp)
    np.testing.assert_array_equal(found.answered.rdp, found.check.rdp + found.label.rdp)
    # For every prediction of the student.
    interactive = InteractiveNoisyMax(30.0, 20.0, 9.0)
    for law in (interactive, interactive.against([[0.3, 0.7]])):
        np.testing.assert_array_equal(price(law, change, accounting).answered.rdp, found.answered.rdp)


def test_published_prices_are_for_what_the_papers_cover():
    with pytest.raises(AccountingError, match="no published accounting covers Share: use accounting='exact'"):
        price(Share(2.0), Change(ballots=6, classes=2), Accounting.PUBLISHED)


@dataclass(frozen=True)
class Loud(GaussianNoisyMax):
    def probabilities(self, counts):
        counts = np.asarray(counts)
        odds = np.where(counts == counts.max(axis=1, keepdims=True), 1.0, 1e-9)
        return odds / odds.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class LoudResponse(RandomizedResponse):
    probabilities = Loud.probabilities


@pytest.mark.parametrize("change", [Change(ballots=9, classes=2), Change(ballots=7, classes=3)])
def test_a_subclass_does_not_inherit_the_price_of_its_parent(change):
    for law in (Loud(100.0), LoudResponse(0.01)):
        assert float(price(law, change).label.rdp[-1]) > 10
    with pytest.raises(AccountingError, match="no published accounting covers Loud"):
        price(Loud(100.0), change, Accounting.PUBLISHED)


def test_what_is_no_law_is_refused_in_a_sentence():
    class Open(ReleaseLaw):
        def probabilities(self, counts):
            return np.full(np.shape(counts), 1 / np.shape(counts)[1])

    @dataclass(frozen=True)
    class Hidden(Open):
        extra: float = field(default=1.0, compare=False)

    @dataclass(frozen=True)
    class Listed(Open):
        extra: list = field(default_factory=list)

    @dataclass(frozen=True)
    class Gated(Open):
        gated = True

    @dataclass(frozen=True)
    class Together(Open):
        def probabilities(self, counts):
            raised = np.exp(np.asarray(counts) / np.max(counts))
            return raised / raised.sum(axis=1, keepdims=True)

    @dataclass(frozen=True)
    class InPlace(Open):
        def probabilities(self, counts):
            counts += 1
            return counts / counts.sum(axis=1, keepdims=True)

    @dataclass(frozen=True)
    class Understated(Share):
        def pure_epsilon(self, votes):
            return 0.01 * votes

    change = Change(ballots=6, classes=3)
    for law, message in [
        (Open(), "law=Open must be a frozen dataclass"),
        (Hidden(), "law=Hidden must be a frozen dataclass that compares all settings"),
        (Listed(), "law=Listed has a setting that cannot be hashed"),
        (Gated(), "law=Gated has a gate"),
        (Together(), "law=Together gives a query other probabilities beside other queries than alone"),
        (InPlace(), "law=InPlace fails on read-only counts"),
        (Understated(2.0), "law=Understated declares pure_epsilon=0.01 of 1 votes and loses 0.4"),
    ]:
        with pytest.raises(AccountingError, match=message):
            price(law, change)


def test_what_a_parent_declares_is_not_the_claim_of_other_probabilities():
    with pytest.raises(AccountingError, match="or define pure_epsilon"):
        price(LoudResponse(0.01), Change(ballots=250, classes=10))
    assert price(PureShare(5.0), Change(ballots=250, classes=10)).label.rdp[-1] > 0


@dataclass(frozen=True)
class Leaky(ReleaseLaw):
    """A column that is not looked at where the other one rises."""

    def probabilities(self, counts):
        second = np.asarray(counts)[:, 1] / np.sum(counts, axis=1)
        odd = (np.asarray(counts)[:, 1] % 1000) == 7
        return np.column_stack([np.where(odd, 0.1, 1 - second), second])


def test_rows_that_are_no_probabilities_are_refused_wherever_they_are():
    for ballots in (20_000, 20_002):
        with pytest.raises(DPEnsembleError, match="law=Leaky gives rows that are not probabilities"):
            price(Leaky(), Change(ballots=ballots, classes=2))
    with pytest.raises(DPEnsembleError, match="law=Leaky gives rows that are not probabilities"):
        sample(Leaky(), np.array([[3000, 7]]), noise_source(1))


CLASSES = 4


def sampled(law, counts):
    """Return the exact law that is drawn from, over all classes and no answer."""
    named = np.flatnonzero(counts)
    row = np.zeros(len(counts) + 1)
    row[[*named, len(counts)]] = _whole_weights(law.mixed_probabilities(np.array(counts)[named])[None])[0] / 2.0**63
    return row


def neighbours(voters):
    for counts in product(range(voters + 1), repeat=CLASSES):
        if sum(counts) == voters:
            for a, b in product(range(CLASSES), repeat=2):
                if a != b and counts[a]:
                    moved = np.array(counts)
                    moved[a] -= 1
                    moved[b] += 1
                    yield counts, tuple(moved)


@pytest.mark.parametrize(
    ("sigma", "threshold", "delta", "voters"), [(1.0, 2.5, 0.1, 3), (1.0, 4.0, 2e-3, 3), (0.5, 3.0, 1e-3, 1)]
)
def test_no_neighbours_reveal_more_than_is_charged(sigma, threshold, delta, voters):
    law = SparseNoisyMax(sigma, threshold)
    cost = sparse_cost(law, voters)
    pairs = [(sampled(law, here), sampled(law, there)) for here, there in neighbours(voters)]
    p, q = (np.array(side) for side in zip(*pairs, strict=True))
    worst = float(exact_epsilon(p, q, delta).max())
    assert worst <= cost.epsilon(delta) < np.inf
    # A class of one vote shows itself: without its share of delta the promise would be false.
    assert cost.lost > 1e-5
    assert float(exact_epsilon(p, q, cost.lost / 10).max()) > 3
    # Two answers on the same neighbours, for the first and the worst of them.
    place = int(np.argmax(exact_epsilon(p, q, delta)))
    for at in (0, place):
        joint = [np.multiply.outer(side[at], side[at]).ravel() for side in (p, q)]
        assert float(exact_epsilon(*joint, delta=2 * delta)) <= (cost * 2).epsilon(2 * delta)


def test_a_threshold_that_is_too_low_leaves_no_delta():
    cost = sparse_cost(SparseNoisyMax(20.0, 60.0), 100)
    assert cost.epsilon(1e-5) == np.inf
    assert cost.most(Budget(epsilon=1, delta=1e-5)) == 0
    assert not cost.fits(Budget(epsilon=10, delta=1e-5))


def test_what_fits_is_what_the_epsilon_says():
    cost, budget = sparse_cost(SparseNoisyMax(20.0, 114.0), 100), Budget(epsilon=0.5, delta=1e-5)
    most = cost.most(budget)
    assert most >= 4
    assert (cost * most).epsilon(budget.delta) <= budget.epsilon < (cost * (most + 1)).epsilon(budget.delta)
    assert (cost * 0).epsilon(1e-5) == 0


def test_costs_of_different_laws_add_up():
    one, other = sparse_cost(SparseNoisyMax(20.0, 114.0), 100), sparse_cost(SparseNoisyMax(25.0, 140.0), 50)
    both = one + other
    assert both.epsilon(1e-5) > max(one.epsilon(1e-5), other.epsilon(1e-5))
    assert (one + one).epsilon(1e-5) == pytest.approx((one * 2).epsilon(1e-5), rel=1e-12)
    assert both.renyi is None
    with pytest.raises(TypeError):
        one + PrivacyCost.zero()


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e-9])
def test_no_accident_makes_an_answer_free(value):
    for name in ("eta", "lost", "rounding"):
        with pytest.raises(AccountingError, match="every number of a privacy cost must be finite and not negative"):
            replace(sparse_cost(SparseNoisyMax(20.0, 114.0), 100), **{name: value})


@pytest.mark.parametrize("voters", [0, 9001, 2.0])
def test_bad_numbers_of_voters_are_refused(voters):
    with pytest.raises(InvalidParameterError, match="n_voters"):
        sparse_cost(SparseNoisyMax(2.0, 20.0), voters)


def test_answers_that_only_take_from_delta_are_not_free():
    from dpensemble.accounting.price import SparseCost

    cost = SparseCost(PrivacyCost.zero(), eta=0.1, lost=0.5, rounding=0.0)
    assert cost.epsilon(1e-5) == np.inf
    assert not cost.fits(Budget(epsilon=1.0, delta=1e-5))
    assert (cost * 0).epsilon(1e-5) == 0.0


def test_a_law_says_its_noise():
    law = GaussianSum(4)
    assert law.sigma == 4.0
    assert isinstance(law.sigma, float)
    assert law.settings() == {"law": repr(law), "sigma": 4.0}
    assert "4 sensitivities" in law.words()
    assert law == GaussianSum(sigma=4.0)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, "4", None, True])
def test_noise_that_is_none_is_refused(sigma):
    with pytest.raises(InvalidParameterError, match="sigma"):
        GaussianSum(sigma)
