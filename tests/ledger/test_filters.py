"""Filters: whole numbers, and every adaptive strategy of a tiny world that stops when it likes."""

import math

import numpy as np
import pytest

from dpensemble._spending import Spending
from dpensemble.accounting import Change, price
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.ledger import Amount, Filter, Terms


def randomized_response(epsilon, delta):
    """Return the pair of laws that dominates every (epsilon, delta)-private release."""
    tell = (1 - delta) / (1 + math.exp(-epsilon))
    p = np.array([delta, tell, 1 - delta - tell, 0.0])
    return p, p[::-1].copy()


RELEASES = [(0.3, 0.0), (0.9, 0.0), (0.6, 1e-3), (0.15, 5e-4)]


def transcripts(terms, rng):
    """Return the laws of all that a strategy sees: each release, and the end, is chosen by what came before."""
    p, q = [], []

    def ask(spent, here, there, depth):
        choice = int(rng.integers(len(RELEASES) + 1)) if depth else 1
        fitting = [
            (one, amount)
            for one in RELEASES
            if (amount := spent + terms.price(Spending(name="x", epsilon=one[0], delta=one[1]))).within(terms.limit)
        ]
        if not fitting or choice == len(RELEASES) or depth == 4:
            p.append(here)
            q.append(there)
            return
        release, amount = fitting[choice % len(fitting)]
        for a, b in zip(*randomized_response(*release), strict=True):
            if a or b:
                ask(amount, here * a, there * b, depth + 1)

    ask(Amount(), 1.0, 1.0, 0)
    return np.array(p), np.array(q)


@pytest.mark.parametrize("kind", list(Filter))
@pytest.mark.parametrize(("epsilon", "delta", "approximate"), [(1.0, 0.02, 0.2), (2.5, 0.005, 0.5), (4.0, 0.01, 0.3)])
def test_no_strategy_loses_more_than_the_account_allows(kind, epsilon, delta, approximate):
    terms = Terms(budget=Budget(epsilon=epsilon, delta=delta), filter=kind, approximate=approximate)
    used = 0.0
    for seed in range(8):
        p, q = transcripts(terms, np.random.default_rng(seed))
        assert p.sum() == pytest.approx(1)
        for a, b in ((p, q), (q, p)):
            found = np.maximum(a - np.exp(epsilon) * b, 0).sum()
            assert found <= delta * (1 + 1e-12)
            used = max(used, np.maximum(a - b, 0).sum())
    # The strategies do lose privacy.
    assert used > 0.2


def test_what_is_taken_is_rounded_up_and_what_is_allowed_down():
    basic = Terms(budget=Budget(epsilon=0.1, delta=1e-5), filter="basic")
    # A tenth is a tenth, although no double is.
    assert basic.limit == Amount(100_000, 10**13)
    assert basic.price(Spending(name="x", epsilon=0.1, delta=1e-5)) == basic.limit
    assert basic.price(Spending(name="x", epsilon=0.1 + 1e-12, delta=1e-5 + 1e-20)) == Amount(100_001, 10**13 + 1)
    assert basic.price(Spending(name="x", epsilon=1e-9, delta=1e-30)) == Amount(1, 1)
    assert basic.price(Spending(name="x", epsilon=1e300, delta=0.5)).loss > basic.limit.loss
    assert not basic.price(Spending(name="x", epsilon=math.inf, delta=0.0)).within(basic.limit)


def test_a_release_with_a_curve_takes_its_divergence_at_the_order():
    terms = Terms(budget=Budget(epsilon=3, delta=1e-5))
    one = price(LaplaceNoisyMax(20.0), Change(ballots=100, classes=2)).label * 40
    at = int(np.flatnonzero(terms.order == DEFAULT_ORDERS)[0])
    asked = terms.price(Spending(name="x", epsilon=3, delta=1e-5, find_cost=lambda: one))
    assert asked == Amount(math.ceil(one.rdp[at] * 1e6), 0)
    # A curve at one order above that of the account bounds it; one below does not.
    above = PrivacyCost(rdp=np.array([0.25]), orders=np.array([terms.order + 5]))
    assert terms.price(Spending(name="x", epsilon=3, delta=1e-5, find_cost=lambda: above)) == Amount(250_000, 0)
    below = PrivacyCost(rdp=np.array([0.25]), orders=np.array([terms.order - 1]))
    assert terms.price(Spending(name="x", epsilon=0.5, delta=1e-7, find_cost=lambda: below)).delta > 0


def test_terms_come_back_from_plain_values():
    for terms in (
        Terms(budget=Budget(epsilon=3, delta=1e-5), order=16.0, approximate=0.3),
        Terms(budget=Budget(epsilon=3, delta=1e-5), filter=Filter.BASIC),
    ):
        assert Terms.from_dict(terms.to_dict()) == terms


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"filter": "odometer"}, "filter='odometer'"),
        ({"filter": "basic", "order": 8.0}, "order=8.0"),
        ({"order": 2.5}, "order=2.5"),
        ({"approximate": 1.0}, "approximate=1"),
        ({"approximate": math.nan}, "approximate=nan"),
        ({"budget": Budget(epsilon=1e-8, delta=1e-5)}, "too small for an account"),
    ],
    ids=str,
)
def test_bad_terms_are_refused(given, match):
    with pytest.raises(InvalidParameterError, match=match):
        Terms(**{"budget": Budget(epsilon=1, delta=1e-5)} | given)
