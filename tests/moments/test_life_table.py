"""The sum of a life table and what follows from it. False-alarm rate 1e-3 a statistical test."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from dpensemble.cost import gaussian_mu
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.life_table import (
    Curve,
    LifeTableEstimate,
    LifeTableSum,
    PlacesOfTimes,
    _before,
    _expected,
    _linear_incidence,
    _Observed,
    checked_ends,
    columns_of_bins,
    ranks_of_times,
)
from dpensemble.moments.whole import WHOLE, WholeBlock, bounded_features, partial_sums
from dpensemble.relations import Relation
from dpensemble.rows.passes import UnitCounts, as_hashes

ENDS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
SPREAD = math.sqrt(2) / gaussian_mu(1.0, 1e-5)


def exact_sum(ends, times, is_event, strata=None, n_strata=1):
    """The sum before noise, in people, by the query of the library."""
    times = np.asarray(times, dtype=float)
    is_event = np.asarray(is_event, dtype=bool) & (times <= ends[-1])
    classes = is_event + 2 * (np.zeros(len(times), dtype=int) if strata is None else strata)
    features = bounded_features(PlacesOfTimes(tuple(ends))(np.column_stack([times, is_event])))
    block = WholeBlock(features, classes, np.ones(len(times)))
    return partial_sums(LifeTableSum(2 * n_strata), [block]).total.astype(float) / WHOLE


def plain_curve(ends, times, is_event):
    """Kaplan-Meier by bins with half of the censorings, by loops over people."""
    survival, curve, start = 1.0, [], 0.0
    for end in ends:
        entering = sum(
            t >= start and not (e and t <= start and start > 0) for t, e in zip(times, is_event, strict=True)
        )
        events = sum((e and start < t <= end) or (e and t == start == 0) for t, e in zip(times, is_event, strict=True))
        censored = sum(not e and start <= t < end for t, e in zip(times, is_event, strict=True))
        survival *= 1 - events / (entering - censored / 2) if entering - censored / 2 else 1.0
        curve.append(survival)
        start = end
    return np.array(curve)


def cohort(rng, n, hazard=1.0):
    died, left = rng.exponential(1.0, n) / hazard, rng.uniform(0.2, 3.0, n)
    return np.minimum(died, left), died <= left


@given(st.integers(2, 60))
def test_no_column_is_longer_than_1_and_counts_are_read_back(n_bins):
    columns = columns_of_bins(n_bins)
    assert (columns >= 0).all()
    assert ((columns**2).sum(axis=0) <= 1).all()
    counts = np.arange(2.0 * n_bins + 1)
    sums = np.zeros((n_bins + 1, 2))
    reverse = n_bins - np.arange(n_bins)
    sums[:, 1] = columns[:, reverse] @ counts[:n_bins]
    sums[:, 0] = columns[:, np.append(reverse, 0)] @ counts[n_bins:]
    assert np.allclose(_Observed(sums, 1.0).counts, counts, atol=1e-8)


def test_noise_of_numbers_at_risk_is_less_than_that_of_sums_of_cells():
    at_risk = _Observed(np.zeros((61, 2)), 1.0).at_risk_noise
    assert at_risk.max() < 0.5 * math.sqrt(121)
    assert at_risk[-1] < at_risk[0]


@pytest.mark.parametrize("relation", list(Relation))
def test_brute_force_no_two_people_differ_by_more_than_the_sensitivity_and_some_do(relation):
    ends, times = (1.0, 2.0, 4.0), (0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 9.0, math.nan)
    query, people = LifeTableSum(4), [np.zeros((4, 4))]
    for time, event, stratum in itertools.product(times, (0, 1), (0, 1)):
        features = PlacesOfTimes(ends)(np.array([[time, event]]))
        if np.isnan(features).any():
            continue
        block = WholeBlock(bounded_features(features), np.array([2 * stratum + event]), np.ones(1))
        people.append(partial_sums(query, [block]).total.astype(float))
    pairs = (
        [(people[0], one) for one in people]
        if relation is Relation.ADD_OR_REMOVE_ONE
        else itertools.product(people, people)
    )
    largest = max(np.linalg.norm(one - other) for one, other in pairs)
    assert largest <= query.sensitivity(relation)
    assert largest > 0.999 * query.sensitivity(relation)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.75, 1.0, 2.0, 5.0]), st.booleans()), min_size=30, max_size=60
    )
)
def test_without_noise_the_curve_is_kaplan_meier_of_the_bins(people):
    times, is_event = zip(*people, strict=True)
    is_event = tuple(e and t <= ENDS[-1] for t, e in people)
    observed = _Observed(exact_sum(ENDS, times, is_event), 1e-6)
    hazards = observed.counts[: len(ENDS)] / np.maximum(observed.exposed @ observed.counts, 1e-9)
    expected = plain_curve(ENDS, times, is_event)
    enough = (observed.exposed @ observed.counts) > 0.4
    assert np.allclose(np.cumprod(1 - hazards)[enough], expected[enough], atol=1e-6)


def test_derivatives_of_the_law_are_those_of_differences():
    logits = np.random.default_rng(0).normal(size=9)
    counts, slopes = _expected(logits)
    for place in range(9):
        step = np.zeros(9)
        step[place] = 1e-6
        change = np.log(_expected(logits + step)[0]) - np.log(_expected(logits - step)[0])
        assert np.allclose(change / 2e-6, slopes[:, place], atol=1e-6)
    assert math.isclose(counts.sum(), math.exp(logits[0]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 2), st.booleans()), max_size=12))
def test_each_person_has_the_first_event_or_else_the_last_time(rows):
    units, times, kinds, good = (
        np.array([row[place] for row in rows], dtype=dtype) for place, dtype in enumerate((int, float, int, bool))
    )
    ranks = ranks_of_times(np.where(good, times, np.nan), kinds, good)
    weights = UnitCounts.of(units, ranks).weights(units, ranks) if rows else np.zeros(0)
    for unit in set(units.tolist()):
        own, counts = (units == unit) & good, weights > 0
        assert math.isclose(weights[units == unit].sum(), 1)
        assert len(set(weights[(units == unit) & counts])) == 1
        events = own & (kinds > 0)
        if events.any():
            first = events & (times == times[events].min())
            wanted = first & (kinds == kinds[first].min())
        else:
            wanted = own & (times == times[own].max(initial=0)) if own.any() else units == unit
        np.testing.assert_array_equal(counts & (units == unit), wanted)


def test_ranks_are_in_the_order_of_times_whatever_their_bits():
    times = np.array([0.0, -0.0, 5e-324, 1.0, np.nextafter(1.0, 2.0), 1e308])
    good = np.ones(6, dtype=bool)
    events = as_hashes(ranks_of_times(times, np.ones(6, dtype=int), good)).tolist()
    others = as_hashes(ranks_of_times(times, np.zeros(6, dtype=int), good)).tolist()
    (bad,) = as_hashes(ranks_of_times(np.array([np.inf]), np.array([1]), np.array([False]))).tolist()
    assert (events[0], others[0]) == (events[1], others[1])
    wanted = [*events[1:], *reversed(others[1:]), bad]
    assert sorted(set(wanted)) == wanted


def released(rng, times, is_event, strata=None, n_strata=1, spread=SPREAD):
    exact = exact_sum(ENDS, times, is_event, strata, n_strata)
    names = tuple(map(str, range(n_strata)))
    return LifeTableEstimate(np.array(ENDS), names, exact + SPREAD * rng.normal(size=exact.shape), spread)


def covers(curve, low, high, truth):
    banded = ~np.isnan(low)
    return bool(banded.any() and ((low <= truth) & (truth <= high))[banded].all())


def test_bands_cover_in_at_least_372_of_400_releases():
    rng, population, sample, narrow = np.random.default_rng(3), 0, 0, 0
    for _ in range(400):
        times, is_event = cohort(rng, 400)
        curve = released(rng, times, is_event).curves[0]
        n, truth = len(curve.times), np.exp(-curve.times)
        population += covers(curve, curve.low, curve.high, truth)
        narrow += covers(curve, curve.sample_low, curve.sample_high, truth)
        observed = _Observed(exact_sum(ENDS, times, is_event), 1e-6)
        own = np.cumprod(1 - observed.counts[: len(ENDS)] / (observed.exposed @ observed.counts))[:n]
        sample += covers(curve, curve.sample_low, curve.sample_high, own)
    assert population >= 372
    assert sample >= 372
    # The band for the sample is too narrow for the population.
    assert narrow < 372


@pytest.mark.parametrize("n_strata", [2, 3])
def test_the_log_rank_test_has_its_level_and_none_without_the_noise_term(n_strata):
    rng, rejected, planted, n = np.random.default_rng(4), 0, 0, 200
    for _ in range(n):
        times, is_event = cohort(rng, 500)
        strata = rng.integers(0, n_strata, 500)
        noisy = released(rng, times, is_event, strata, n_strata)
        rejected += noisy.log_rank.p_value < 0.05
        # The variance of the textbook.
        planted += LifeTableEstimate(noisy.ends, noisy.strata, noisy.noisy, 1e-3).log_rank.p_value < 0.05
    assert rejected <= binom.isf(1e-3, n, 0.05)
    assert planted > binom.isf(1e-3, n, 0.05)


def test_the_log_rank_test_finds_a_difference():
    rng, found = np.random.default_rng(5), 0
    for _ in range(20):
        first, second = cohort(rng, 1000), cohort(rng, 1000, hazard=1.6)
        times, is_event = (np.concatenate(pair) for pair in zip(first, second, strict=True))
        found += released(rng, times, is_event, np.repeat([0, 1], 1000), 2).log_rank.p_value < 0.05
    assert found >= 18


def test_a_curve_ends_where_few_are_at_risk_and_nobody_at_all_has_none():
    rng = np.random.default_rng(0)
    estimate = released(rng, [0.1] * 300 + [0.6] * 12, [True] * 312)
    assert 1 <= len(estimate.curves[0].times) < len(ENDS)
    empty = released(rng, [0.1] * 300, [True] * 300, np.zeros(300, dtype=int), 2)
    assert len(empty.curves[1].times) == 0
    assert empty.curves[1].median == (math.inf,) * 3
    assert empty.to_dict()["curves"][1]["restricted_mean"] == [None] * 3


def test_curves_fall_and_lie_within_bands():
    rng = np.random.default_rng(1)
    curve = released(rng, *cohort(rng, 3000)).curves[0]
    assert isinstance(curve, Curve)
    banded = ~np.isnan(curve.low)
    for line in (curve.survival[banded], curve.low[banded], curve.high[banded]):
        assert (np.diff(line) <= 1e-12).all()
    assert ((curve.low <= curve.survival) & (curve.survival <= curve.high))[banded].all()
    assert (curve.high - curve.low > curve.sample_high - curve.sample_low)[banded].all()
    assert curve.median[1] <= curve.median[0] <= curve.median[2]
    mean, low, high = curve.restricted_mean
    assert low < mean < high
    assert abs(mean - (1 - math.exp(-curve.times[-1]))) < 0.1


@pytest.mark.parametrize(
    ("bins", "words"),
    [
        ([30], "has 1 entries"),
        ([], "has 0 entries"),
        ([30, 20], "must ascend"),
        ([30, 30], "must ascend"),
        ([0, 30], "the first bin begins at 0"),
        ([30, math.inf], "bins=inf"),
        (5, "is not a list"),
        (list(range(1, 300)), "has 299 entries"),
    ],
)
def test_bins_that_cannot_be_used_are_refused(bins, words):
    with pytest.raises(InvalidParameterError, match=words):
        checked_ends(bins)


def competing_cohort(rng, n, hazards=(1.0, 0.5)):
    """Times and kinds: 0 for a censoring, and each kind of event with a constant hazard."""
    died = rng.exponential(1.0, (n, len(hazards))) / hazards
    left = rng.uniform(0.2, 3.0, n)
    times = np.minimum(died.min(axis=1), left)
    return times, np.where(times < left, 1 + died.argmin(axis=1), 0)


def exact_sum_of_kinds(ends, times, kinds, n_kinds=2):
    kinds = np.where(times <= ends[-1], kinds, 0)
    features = bounded_features(PlacesOfTimes(tuple(ends))(np.column_stack([times, kinds > 0])))
    block = WholeBlock(features, kinds, np.ones(len(times)))
    return partial_sums(LifeTableSum(1 + n_kinds), [block]).total.astype(float) / WHOLE


def plain_incidence(ends, times, kinds, kind):
    """The estimator of Aalen and Johansen by bins with half of the censorings, by loops over people."""
    free, chance, chances, start = 1.0, 0.0, [], 0.0
    for end in ends:
        inside = (times > start) | (start == 0)
        at_risk = inside.sum() - 0.5 * (inside & (times < end) & (kinds == 0)).sum()
        here = inside & (times <= end)
        chance += free * (here & (kinds == kind)).sum() / at_risk
        free *= 1 - (here & (kinds > 0)).sum() / at_risk
        chances.append(chance)
        start = end
    return np.array(chances)


def competing(noisy, spread):
    (curve,) = LifeTableEstimate(np.array(ENDS), ("",), noisy, spread, ("1", "2")).curves
    return curve


def test_without_noise_incidences_are_those_of_aalen_and_johansen():
    times, kinds = competing_cohort(np.random.default_rng(6), 3000)
    curve = competing(exact_sum_of_kinds(ENDS, times, kinds), 1e-6)
    n = len(curve.times)
    assert n > 3
    for place, one in enumerate(curve.incidence):
        assert one.chance == pytest.approx(plain_incidence(ENDS, times, kinds, place + 1)[:n], abs=1e-6)
    assert sum(one.chance for one in curve.incidence) == pytest.approx(1 - curve.survival, abs=1e-6)


def test_slopes_of_incidences_are_those_of_differences():
    rng, n_bins, n_kinds = np.random.default_rng(7), 4, 2
    counts = rng.uniform(20, 60, n_kinds * n_bins + n_bins + 1)
    later, eye = np.triu(np.ones((n_bins, n_bins))), np.eye(n_bins)
    exposed = np.hstack([later] * n_kinds + [later - eye / 2, np.ones((n_bins, 1))])

    def hazards_of(counts):
        own = counts[: n_kinds * n_bins].reshape(n_kinds, n_bins) / (exposed @ counts)
        return own, own.sum(axis=0)

    def incidence(counts, kind):
        own, hazards = hazards_of(counts)
        return np.cumsum(_before(hazards) * own[kind])

    own, hazards = hazards_of(counts)
    for kind in range(n_kinds):
        centre, linear, _ = _linear_incidence(kind, n_kinds, hazards, own[kind], exposed @ counts)
        assert centre == pytest.approx(incidence(counts, kind))
        steps = 1e-4 * np.eye(len(counts))
        slopes = [(incidence(counts + step, kind) - incidence(counts - step, kind)) / 2e-4 for step in steps]
        assert linear == pytest.approx(np.array(slopes).T, abs=1e-6)


def test_bands_of_incidences_cover_and_not_without_the_noise():
    rng, covered, planted, n = np.random.default_rng(8), 0, 0, 300
    for _ in range(n):
        times, kinds = competing_cohort(rng, 500)
        exact = exact_sum_of_kinds(ENDS, times, kinds)
        noisy = exact + SPREAD * rng.normal(size=exact.shape)
        curve = competing(noisy, SPREAD)
        truth = [share * (1 - np.exp(-1.5 * curve.times)) for share in (2 / 3, 1 / 3)]
        one = curve.incidence[0]
        covered += covers(curve, one.low, one.high, truth[0])
        narrow = competing(noisy, 1e-3).incidence[0]
        planted += covers(
            curve, narrow.low, narrow.high, (2 / 3) * (1 - np.exp(-1.5 * np.array(ENDS)[: len(narrow.low)]))
        )
    assert covered >= binom.ppf(1e-3, n, 0.95)
    assert planted < binom.ppf(1e-3, n, 0.95)
