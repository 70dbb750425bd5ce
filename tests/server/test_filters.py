"""Filters: whole numbers, and every adaptive strategy of a tiny world that stops when it likes."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpensemble._spending import Spending
from dpensemble.accounting import Change, price
from dpensemble.cost import DEFAULT_ORDERS, GaussianCost, PrivacyCost, gaussian_epsilon, gaussian_mu, pure_mu
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.server import Terms
from dpensemble.server.filters import Amount, Filter


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
    assert used > 0.15


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
    # A curve at one order above that of the account bounds it. A curve below does not.
    above = PrivacyCost(rdp=np.array([0.25]), orders=np.array([terms.order + 5]))
    assert terms.price(Spending(name="x", epsilon=3, delta=1e-5, find_cost=lambda: above)) == Amount(250_000, 0)
    below = PrivacyCost(rdp=np.array([0.25]), orders=np.array([terms.order - 1]))
    assert terms.price(Spending(name="x", epsilon=0.5, delta=1e-7, find_cost=lambda: below)).delta > 0


def test_terms_come_back_from_plain_values():
    for terms in (
        Terms(budget=Budget(epsilon=3, delta=1e-5), order=16.0, approximate=0.3),
        *(Terms(budget=Budget(epsilon=3, delta=1e-5), filter=kind) for kind in Filter),
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


def noisy_sum(mu):
    """Return a release by Gaussian noise."""
    cost = GaussianCost(mu**2, slack=1e-6)
    return Spending(name="x", epsilon=1e3, delta=1e-5, find_cost=lambda: cost)


BINS = np.linspace(-4, 5, 10)


def binned(mean):
    """Return the law of a normal variable with this mean, rounded to its bin."""
    return np.diff(norm.cdf(np.concatenate([[-np.inf], BINS, [np.inf]]) - mean))


def noisy_transcripts(terms, choose):
    """Return the laws of what is seen of noisy sums, each chosen by the bins of those before it, while they fit."""
    p, q = [], []

    def ask(spent, here, there, depth):
        mu = choose(depth, here / there)
        price = terms.price(noisy_sum(mu))
        if depth == 3 or not (spent + price).within(terms.limit):
            p.append(here)
            q.append(there)
            return
        for a, b in zip(binned(mu), binned(0.0), strict=True):
            ask(spent + price, here * a, there * b, depth + 1)

    ask(Amount(), 1.0, 1.0, 0)
    return np.array(p), np.array(q)


@pytest.mark.parametrize("kind", [Filter.RENYI, Filter.ZCDP, Filter.GDP])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.02), (2.5, 0.005)])
def test_no_strategy_of_noisy_sums_loses_more_than_the_account_allows(kind, epsilon, delta):
    terms = Terms(budget=Budget(epsilon=epsilon, delta=delta), filter=kind, approximate=0.0)
    whole = terms.gaussian_left(terms.limit)
    strategies = [
        # All at once, bold after bad luck, bold after good luck, or by thirds.
        lambda depth, ratio: 0.999 * whole,
        lambda depth, ratio: whole * (0.5 if depth == 0 else 0.85 if ratio > 1 else 0.2),
        lambda depth, ratio: whole * (0.5 if depth == 0 else 0.85 if ratio < 1 else 0.2),
        lambda depth, ratio: 0.57 * whole,
    ]
    found = []
    for choose in strategies:
        p, q = noisy_transcripts(terms, choose)
        assert p.sum() == pytest.approx(1)
        found += [np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p))]
    assert max(found) <= delta * (1 + 1e-12)
    # Rounding to ten bins loses little of what noise gives away, so the bound is not idle.
    assert max(found) > (0.5 if kind is Filter.GDP else 0.05) * delta


def test_noisy_sums_fit_a_gdp_account_best_and_anything_else_a_renyi_account():
    def fitting(kind, spending):
        terms = Terms(budget=Budget(epsilon=3, delta=1e-5), filter=kind)
        return terms.limit.loss // terms.price(spending).loss

    one = noisy_sum(gaussian_mu(1.0, 1e-5))
    assert [fitting(kind, one) for kind in (Filter.GDP, Filter.RENYI, Filter.ZCDP)] == [7, 6, 6]
    pure = Spending(name="x", epsilon=0.1, delta=0.0)
    assert fitting(Filter.RENYI, pure) > fitting(Filter.BASIC, pure)
    assert fitting(Filter.ZCDP, pure) <= fitting(Filter.RENYI, pure)


def test_a_gdp_filter_takes_no_curve_for_gaussian_privacy():
    gdp = Terms(budget=Budget(epsilon=3, delta=1e-5), filter="gdp")
    one = price(LaplaceNoisyMax(20.0), Change(ballots=100, classes=2)).label * 40
    asked = Spending(name="x", epsilon=0.5, delta=1e-7, find_cost=lambda: one)
    # As if nothing but epsilon and delta were known.
    assert gdp.price(asked) == gdp.price(Spending(name="x", epsilon=0.5, delta=1e-7))
    # So are two noisy sums in one release, whose slacks are more than the filter pays for.
    two = noisy_sum(0.1).cost + noisy_sum(0.1).cost
    assert two.mu is None
    assert (noisy_sum(0.1).cost * 2).mu is None


def test_a_gdp_filter_admits_no_more_noisy_sums_than_their_rounding_allows():
    for epsilon in (0.2, 3.0, 10.0):
        gdp = Terms(budget=Budget(epsilon=epsilon, delta=1e-5), filter="gdp", approximate=0.0)
        most, mu = gdp.limit.loss // gdp.price(noisy_sum(1e-6)).loss, math.sqrt(gdp.limit.loss / 1e6)
        assert gdp.gaussian_left(Amount(499)) == 0 < gdp.gaussian_left(Amount(500))
        # As far from Gaussian noise as this many can be.
        found = gaussian_epsilon(mu, 1e-5 * math.exp(-1e-6 * most)) + 2e-6 * most
        assert 0.99 * epsilon < found <= epsilon


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 30.0])
def test_randomized_response_is_gaussian_private_at_its_mu_and_not_below(epsilon):
    mu, middle = pure_mu(epsilon), 1 / (1 + math.exp(epsilon))
    for a in np.concatenate([np.linspace(1e-6, 1 - 1e-6, 2001), [middle]]):
        response = max(1 - math.exp(epsilon) * a, math.exp(-epsilon) * (1 - a), 0.0)
        assert norm.cdf(norm.isf(a) - mu) <= response + 1e-15
    assert norm.cdf(norm.isf(middle) - 0.999 * mu) > middle


@pytest.mark.parametrize("kind", Filter)
def test_what_depends_on_no_record_costs_nothing(kind):
    terms = Terms(budget=Budget(epsilon=1, delta=1e-5), filter=kind)
    assert terms.price(Spending(name="x", epsilon=0.0, delta=0.0)) == Amount(0, 0)
    assert terms.price(Spending(name="x", epsilon=0.0, delta=1e-9)) != Amount(0, 0)
