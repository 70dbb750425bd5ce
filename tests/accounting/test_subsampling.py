"""Bagging without noise, and runs whose teachers hold a record by chance: figures of papers, special cases, rounding.

``tests/oracle/test_bagging.py`` enumerates draws.
"""

from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from dpensemble.accounting import Change, Group, bagging_delta, fresh_cost, largest_subsample, price, published_bagging
from dpensemble.accounting.meters import worst_case_meter
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.accounting.subsampling import _ENDLESS, SubsampledCost
from dpensemble.accounting.worst_case import worst_case_cost
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.design.voting import _subsampled_cost, _subsampled_meter
from dpensemble.errors import AccountingError, BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, LaplaceNoisyMax, OptimalVote
from dpensemble.relations import Relation
from dpensemble.votes import Votes

MNIST = 60_000
# Subsample, epsilon and delta as printed in the paper's tables 2 (n = 60,000) and 3 (n = 50,000), one model.
PRINTED = [
    (MNIST, 300, 0.005, 0.005),
    (MNIST, 500, 0.0083, 0.0083),
    (MNIST, 1000, 0.017, 0.017),
    (MNIST, 5000, 0.083, 0.080),
    (MNIST, 10_000, 0.167, 0.154),
    (50_000, 1000, 0.02, 0.02),
    (50_000, 5000, 0.1, 0.095),
    (50_000, 10_000, 0.2, 0.181),
    (50_000, 20_000, 0.4, 0.33),
    (50_000, 30_000, 0.6, 0.45),
]


@pytest.mark.parametrize(("n", "size", "epsilon", "delta"), PRINTED)
def test_the_papers_tables(n, size, epsilon, delta):
    scheme = BootstrapScheme("with-replacement", 1, size)
    digits = len(str(delta)) - 2
    # Half a unit more, since the paper rounds some figures and cuts others.
    assert bagging_delta(scheme, n) == pytest.approx(delta, abs=10.0**-digits)
    assert published_bagging(scheme, n)[0] == pytest.approx(epsilon, abs=6e-4)
    assert published_bagging(scheme, n)[1] == bagging_delta(scheme, n)


def test_by_hand():
    found = [bagging_delta(BootstrapScheme("with-replacement", 1, k), MNIST) for k in (300, 500, 1000, 5000, 10_000)]
    assert [round(delta, 4) for delta in found] == [0.005, 0.0083, 0.0165, 0.08, 0.1535]
    # Only the total counts with replacement and for distinct draws. Subsets that may overlap hold slightly less.
    for scheme, delta in (("with-replacement", found[0]), ("distinct", 0.005)):
        assert bagging_delta(BootstrapScheme(scheme, 3, 100), MNIST) == delta
    assert bagging_delta(BootstrapScheme("subsets", 3, 100), MNIST) == pytest.approx(0.005 - 3 * (1 / 600) ** 2)


SCHEMES = st.tuples(
    st.sampled_from(list(Bootstrap)), st.integers(1, 3000), st.integers(1, 10**6), st.integers(1, 10**9)
)


def exact(scheme, n):
    """The probability that one unit is drawn, in 60 digits."""
    mpmath.mp.dps = 60
    total, n = mpmath.mpf(scheme.n_models) * scheme.subsample, mpmath.mpf(n)
    return {
        Bootstrap.WITH_REPLACEMENT: lambda: 1 - (1 - 1 / n) ** total,
        Bootstrap.DISTINCT: lambda: total / n,
        Bootstrap.SUBSETS: lambda: 1 - (1 - scheme.subsample / n) ** scheme.n_models,
    }[scheme.scheme]()


@given(SCHEMES)
def test_delta_is_rounded_up_and_accurate_at_any_size(settings):
    *fields, n = settings
    scheme = BootstrapScheme(*fields)
    needed = {Bootstrap.DISTINCT: scheme.n_draws, Bootstrap.SUBSETS: scheme.subsample}.get(scheme.scheme, 1)
    n = max(n, needed)
    claim, true = bagging_delta(scheme, n), exact(scheme, n)
    assert 0 < claim <= 1
    assert claim == 1 or mpmath.mpf(repr(claim)) >= true * (1 - mpmath.mpf(10) ** -40)
    assert claim <= true * (1 + 1e-14)
    assert claim >= 1 / n


@given(SCHEMES)
def test_the_published_epsilon_is_rounded_up_and_accurate(settings):
    *fields, n = settings
    scheme = BootstrapScheme(*fields)
    n = max(n, scheme.n_draws, scheme.subsample)
    published = published_bagging(scheme, n)
    if scheme.scheme is Bootstrap.SUBSETS:
        assert published is None
        return
    mpmath.mp.dps = 60
    total, size = mpmath.mpf(scheme.n_draws), mpmath.mpf(n)
    true = {
        Bootstrap.WITH_REPLACEMENT: total * mpmath.log((size + 1) / size),
        Bootstrap.DISTINCT: mpmath.log((size + 1) / (size + 1 - total)),
    }[scheme.scheme]
    assert true <= published[0] <= true * (1 + 1e-13)


@given(SCHEMES.map(lambda found: (found[0], 1 + found[1] % 300, *found[2:])))
def test_the_law_of_holders_adds_up_and_agrees_with_delta(settings):
    *fields, n = settings
    scheme = BootstrapScheme(*fields)
    n = max(n, {Bootstrap.DISTINCT: scheme.n_draws, Bootstrap.SUBSETS: scheme.subsample}.get(scheme.scheme, 1))
    law, delta = scheme.holders(n), bagging_delta(scheme, n)
    assert law.sum() == pytest.approx(1, abs=1e-11)
    assert law[1:].sum() == pytest.approx(delta, rel=1e-11)
    mean = {
        Bootstrap.WITH_REPLACEMENT: scheme.n_models * -np.expm1(scheme.subsample * np.log1p(-1 / n)) if n > 1 else 1,
    }.get(scheme.scheme, scheme.n_draws / n)
    if n > 1:
        assert law @ np.arange(len(law)) == pytest.approx(mean, rel=1e-10)


@pytest.mark.parametrize(("n", "n_models", "size"), [(60_000, 50, 300), (7, 40, 6), (5000, 250, 4900)])
def test_the_law_of_holders_is_accurate_far_into_its_tails(n, n_models, size):
    mpmath.mp.dps = 60
    for scheme in (Bootstrap.WITH_REPLACEMENT, Bootstrap.SUBSETS):
        missed = {
            Bootstrap.WITH_REPLACEMENT: (1 - mpmath.mpf(1) / n) ** size,
            Bootstrap.SUBSETS: 1 - mpmath.mpf(size) / n,
        }[scheme]
        law = BootstrapScheme(scheme, n_models, size).holders(n)
        for number in range(n_models + 1):
            true = mpmath.binomial(n_models, number) * (1 - missed) ** number * missed ** (n_models - number)
            if true > 1e-290:
                assert abs(law[number] / true - 1) < 1e-11


def test_edges():
    # Everything is drawn for sure.
    for settings, n in (
        (("distinct", 2, 3), 6),
        (("subsets", 2, 6), 6),
        (("with-replacement", 1, 1), 1),
        (("subsets", 1, 1), 1),
    ):
        scheme = BootstrapScheme(*settings)
        assert bagging_delta(scheme, n) == 1
        assert scheme.holders(n)[0] == 0
    assert published_bagging(BootstrapScheme("distinct", 2, 3), 6) == pytest.approx((np.log(7), 1))
    # One record a model: nothing can repeat within one, and round figures stay round.
    for scheme in Bootstrap:
        assert bagging_delta(BootstrapScheme(scheme, 1, 1), 1000) == 0.001
    assert bagging_delta(BootstrapScheme("distinct", 3, 100), 1000) == 0.3
    assert BootstrapScheme("distinct", 1, 1).holders(4).tolist() == [0.75, 0.25]
    # Large subsamples with replacement come close to 1, not beyond.
    assert bagging_delta(BootstrapScheme("with-replacement", 1000, 10**6), 1000) == 1
    with pytest.raises(InvalidParameterError, match="use a subsample of at most 3"):
        bagging_delta(BootstrapScheme("distinct", 2, 4), 7)


@given(st.sampled_from(list(Bootstrap)), st.floats(1e-4, 0.999), st.integers(2, 10**6), st.integers(1, 50))
def test_the_inverse_is_the_largest_that_fits(scheme, delta, n, n_models):
    try:
        found = largest_subsample(delta, n, n_models, scheme)
    except (BudgetError, InvalidParameterError):
        assert n_models > n or bagging_delta(BootstrapScheme(scheme, n_models, 1), n) > delta
        return
    assert bagging_delta(BootstrapScheme(scheme, n_models, found), n) <= delta
    try:
        assert bagging_delta(BootstrapScheme(scheme, n_models, found + 1), n) > delta
    except InvalidParameterError:
        assert scheme is not Bootstrap.WITH_REPLACEMENT


def test_the_inverse_of_printed_figures_and_of_decimals():
    assert [largest_subsample(delta, MNIST) for delta in (0.005, 0.0165287, 0.5)] == [300, 1000, 41_588]
    # 0.3 is below 3/10 as a double, but it is the decimal that people mean.
    assert Fraction(0.3) < Fraction(3, 10)
    assert largest_subsample(0.3, 1000, 1, "distinct") == 300
    assert largest_subsample(0.3, 1000, 3, "distinct") == 100
    assert largest_subsample(0.999, 10, 1, "subsets") == 9


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (1e-6, MNIST),
            BudgetError,
            "where 1 model of one record each need delta=1.667e-05 at any epsilon: use at",
        ),
        ((1e-4, MNIST, 10), BudgetError, "10 models of one record each need delta=0.0001667 "),
        ((0.9, 1), BudgetError, "need delta=1 at any epsilon: use more records"),
        ((0.5, 3, 4, "distinct"), InvalidParameterError, "use at most 3 models, or scheme='subsets'"),
        ((0, 10), InvalidParameterError, "delta=0 is not a number strictly between"),
        ((1.0, 10), InvalidParameterError, r"delta=1\.0"),
        ((float("nan"), 10), InvalidParameterError, "delta=nan"),
        ((0.1, 0), InvalidParameterError, "n_units=0"),
        ((0.1, 10, 0), InvalidParameterError, "n_models=0"),
        (
            (0.1, 10, 1, "poisson"),
            InvalidParameterError,
            "scheme='poisson' is unknown: use 'with-replacement' or",
        ),
    ],
)
def test_what_cannot_be_had_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        largest_subsample(*arguments)


T = 20
BUDGET = Budget(epsilon=1.0, delta=1e-5)
LAWS = [LaplaceNoisyMax(10.0), GaussianNoisyMax(8.0), OptimalVote(30.0)]


def one_holder(chance):
    return np.array([1 - chance, chance] + [0.0] * (T - 1))


def meter(law, holders, budget=BUDGET):
    cost = _subsampled_cost(law, holders, n_teachers=T, n_classes=2)
    return _subsampled_meter(VotingSchedule.everyone(law, T), Group("everyone", budget), cost)


def ballots(n_queries):
    return Votes(np.zeros((n_queries, T), dtype=np.uint8), 2)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_record_that_surely_has_one_teacher_is_a_partition(law):
    everyone = [Group("everyone", BUDGET, pool=0)]
    plain = worst_case_meter(VotingSchedule.everyone(law, T), everyone, n_classes=2)
    assert meter(law, one_holder(1.0)).sure_queries == plain.sure_queries > 0


@pytest.mark.parametrize("chance", [0.5, 0.1, 1e-3])
def test_one_holder_by_chance_is_amplification_by_subsampling_of_the_whole_run(chance):
    # Inner figures by the plain cost, with exp(epsilon') = 1 + q (exp(epsilon) - 1) and delta' = q delta.
    law, n = LAWS[1], 12
    cost = _subsampled_cost(law, one_holder(chance), n_teachers=T, n_classes=2) * n
    plain = worst_case_cost(law, Change(ballots=T, classes=2)) * n
    for delta in (1e-4, 1e-6):
        inner = plain.epsilon(delta / chance)
        outer = np.log1p(chance * np.expm1(inner))
        cost.refine(outer, delta)
        assert cost.epsilon(delta) == pytest.approx(outer, rel=0.02)


@given(st.floats(1e-6, 1.0), st.floats(0.0, 300.0))
def test_inner_epsilon_solves_its_equation_from_below(held, epsilon):
    cost = SubsampledCost(lambda ballots: PrivacyCost.zero(), one_holder(held))
    inner = cost.inner_epsilon(epsilon)
    assert inner >= epsilon * (1 - 1e-9)
    back = np.log1p(cost.held * np.expm1(inner)) if inner < 300 else inner + np.log(cost.held)
    assert back <= epsilon * (1 + 1e-12) + 1e-15
    assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-12)


def test_more_teachers_a_record_cost_more_and_fewer_draws_less():
    law, n = LAWS[1], 1000
    sure = [
        meter(law, binom.pmf(np.arange(T + 1), T, 1 - (1 - 1 / n) ** k), Budget(epsilon=2.0, delta=1e-5)).sure_queries
        for k in (1, 2, 5, 10, 20)
    ]
    assert sure == sorted(sure, reverse=True)
    assert sure[0] > sure[-1] > 0


def gaussian_delta(mean, epsilon):
    return norm.cdf(mean / 2 - epsilon / mean) - np.exp(epsilon) * norm.cdf(-mean / 2 - epsilon / mean)


def test_agrees_with_gaussian_noise_in_closed_form():
    # A curve only, of a Gaussian mechanism of mean 1 / 10 an answer and holder, with delta by its closed form.
    cost = SubsampledCost(
        lambda b: PrivacyCost(rdp=DEFAULT_ORDERS * (0.1 * b) ** 2 / 2), binom.pmf(np.arange(6), 5, 0.3)
    )
    for epsilon in (0.2, 1.0, 3.0):
        inner = cost.inner_epsilon(epsilon)
        exact = sum(binom.pmf(b, 5, 0.3) * gaussian_delta(0.1 * b * 5, inner) for b in range(1, 6))
        assert exact <= (cost * 25).delta(epsilon) <= 12 * exact


def test_exact_composition_only_improves_on_the_renyi_curve():
    holders = binom.pmf(np.arange(T + 1), T, 0.05)
    for law in LAWS:
        cost = _subsampled_cost(law, holders, n_teachers=T, n_classes=2) * 10
        before = cost.epsilon(1e-5)
        cost.refine(before, 1e-5)
        assert 0.5 * before < cost.epsilon(1e-5) < before


def test_unlikely_numbers_of_holders_are_charged_in_full():
    priced = []

    def one(b):
        priced.append(b)
        return worst_case_cost(LAWS[0], Change(ballots=T, classes=2, votes=b))

    holders = binom.pmf(np.arange(T + 1), T, 0.01)
    cost = SubsampledCost(one, holders) * 5
    rough = cost.delta(50.0, negligible=1e-6)
    assert max(priced) < 6
    assert rough >= holders[max(priced) + 1 :].sum()
    assert rough >= cost.delta(50.0)


def test_epsilon_and_delta_are_inverse_and_monotone():
    cost = _subsampled_cost(LAWS[1], binom.pmf(np.arange(T + 1), T, 0.05), n_teachers=T, n_classes=2) * 20
    cost.refine(1.0, 1e-5)
    for delta in (1e-3, 1e-5, 1e-8):
        epsilon = cost.epsilon(delta)
        assert cost.delta(epsilon, delta * 1e-4) <= delta < cost.delta(epsilon * (1 - 1e-6))
    one = _subsampled_cost(LAWS[1], binom.pmf(np.arange(T + 1), T, 0.05), n_teachers=T, n_classes=2)
    deltas = [(one * n).delta(0.5) for n in (0, 1, 5, 20, 50)]
    assert deltas == sorted(deltas)
    assert deltas[0] == 0.0


def test_a_delta_that_allows_publishing_the_teachers_allows_any_number_of_answers():
    assert meter(LAWS[0], one_holder(1e-6)).sure_queries == _ENDLESS
    cost = _subsampled_cost(LAWS[0], one_holder(1e-6), n_teachers=T, n_classes=2)
    assert (cost * 10**9).delta(0.0) == pytest.approx(1e-6, rel=1e-6)


def test_the_curve_of_a_run_is_above_what_is_stated_and_is_one_of_whole_runs():
    found = meter(LAWS[1], one_holder(0.3))
    assert found.cost.renyi.rdp.max() == 0
    assert found.admit(ballots(5)) == 5
    assert found.cost.renyi.epsilon(1e-5) >= found.spent_epsilon > 0
    # Amplifying each query and composing would claim less than the truth.
    assert np.all(found.cost.renyi.rdp > 5 * found.one_query.renyi.rdp)


@pytest.mark.parametrize("chunks", [[], [3, 0, 4], [40, 40, 40], [1, 200]])
@pytest.mark.parametrize(("epsilon", "chance"), [(0.3, 0.05), (1.0, 0.5), (2.0, 1.0)])
def test_the_meter_stays_within_its_budget(chunks, epsilon, chance):
    budget = Budget(epsilon=epsilon, delta=1e-5)
    found = meter(LAWS[1], one_holder(chance), budget)
    total, spent = 0, 0.0
    for size in chunks:
        admitted = found.admit(ballots(size))
        total += admitted
        assert admitted == min(size, found.sure_queries - total + admitted)
        assert spent <= found.spent_epsilon <= epsilon
        spent = found.spent_epsilon
    assert total <= found.sure_queries == found.most_queries
    assert [n for n, _ in found.spend_curve()][-1:] == ([total] if total else [])
    assert all(value <= epsilon for _, (value,) in found.spend_curve())


def test_too_small_a_budget_names_the_smallest_that_would_do():
    found = meter(LaplaceNoisyMax(1.0), one_holder(0.5), Budget(epsilon=0.1, delta=1e-6))
    with pytest.raises(BudgetError, match="smallest epsilon that would do is") as error:
        found.require_one_query()
    enough = float(str(error.value).split("would do is ")[1].split(",")[0])
    assert meter(LaplaceNoisyMax(1.0), one_holder(0.5), Budget(epsilon=enough, delta=1e-6)).sure_queries >= 1


@pytest.mark.parametrize("holders", [[0.5, 0.4], [1.5, -0.5], [np.nan, 1.0]])
def test_chances_that_are_none_are_refused(holders):
    with pytest.raises(AccountingError, match=r"holders must be the chances that .* sum to 1"):
        SubsampledCost(lambda ballots: PrivacyCost.zero(), np.array(holders))


@pytest.mark.parametrize("delta", [0, 1, 40, -1e-5, np.nan])
def test_a_delta_that_is_none_is_refused(delta):
    with pytest.raises(InvalidParameterError, match="delta"):
        _subsampled_cost(LAWS[0], one_holder(0.5), n_teachers=T, n_classes=2).epsilon(delta)


def test_the_chance_of_a_holder_cannot_be_changed():
    cost = _subsampled_cost(LAWS[1], one_holder(0.1), n_teachers=T, n_classes=2)
    with pytest.raises(AttributeError):
        cost.held = 0.0


LAW = LaplaceNoisyMax(3.0)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_rate_of_one_is_fixed_sampling(classes):
    change = Change(ballots=10, classes=classes)
    fixed, fresh = price(LAW, change).label, fresh_cost(LAW, change, 1.0, Relation.ADD_OR_REMOVE_ONE)
    assert np.allclose(fixed.rdp, fresh.rdp, rtol=1e-12)


def test_a_smaller_rate_costs_less_and_replacing_no_less_than_adding():
    for classes in (2, 5):
        change = Change(ballots=10, classes=classes)
        costs = [fresh_cost(LAW, change, rate, Relation.ADD_OR_REMOVE_ONE).rdp for rate in (0.01, 0.1, 0.5, 1.0)]
        assert all(np.all(low < high) for low, high in pairwise(costs))
        replaced = fresh_cost(LAW, change, 0.1, Relation.REPLACE_ONE).rdp
        assert np.all(replaced >= costs[1] * (1 - 1e-9))


def test_one_answer_has_exactly_the_amplified_curve():
    change, rate, epsilon = Change(ballots=10, classes=2), 0.02, 0.3
    fixed = price(LAW, change).label.parts[0].pairs
    for relation in Relation:
        fresh = fresh_cost(LAW, change, rate, relation).parts[0].pairs
        # Balle, Barthe and Gaboardi 2018, Theorem 2, where it is tight.
        assert fresh.hockey_stick(np.log1p(rate * np.expm1(epsilon))) == pytest.approx(
            rate * fixed.hockey_stick(epsilon)
        )


def test_ten_voters_have_ten_thousand_answers_in_place_of_six():
    budget, change = Budget(epsilon=3, delta=1e-5), Change(ballots=10, classes=2)
    assert price(LAW, change).label.most(budget) == 6
    fresh = fresh_cost(LAW, change, 0.02, Relation.ADD_OR_REMOVE_ONE)
    assert (fresh * 10_000).fits(budget)


@pytest.mark.parametrize(
    ("law", "change", "match"),
    [
        (ConfidentNoisyMax(8, 4, 4), Change(ballots=10, classes=2), "gate"),
        (GaussianNoisyMax(2.0), Change(ballots=10, classes=4, votes=2), "finite outcomes"),
    ],
)
def test_laws_that_cannot_be_sampled_freshly_are_refused(law, change, match):
    with pytest.raises(AccountingError, match=match):
        fresh_cost(law, change, 0.1, Relation.REPLACE_ONE)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, np.nan, "0.1", True])
def test_bad_rates_are_refused(rate):
    with pytest.raises(InvalidParameterError, match="rate="):
        fresh_cost(LAW, Change(ballots=10, classes=2), rate, Relation.REPLACE_ONE)
