"""The published bounds of PATE: against an independent computation, and against the true laws of tiny votes."""

import math
import tracemalloc
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr

from dpensemble.accounting import Accounting, Change, Group
from dpensemble.accounting.meters import worst_case_meter
from dpensemble.accounting.price import _published_cost
from dpensemble.accounting.published import (
    PublishedPerRecordMeter,
    _laplace_rdp,
    _lnmax_log_error,
    _pure_rdp,
    _threshold_log_error,
    conjectured_lnmax_rdp,
    gaussian_rdp,
    gnmax_log_error,
    gnmax_rdp,
    laplace_moments,
    lnmax_rdp,
    threshold_rdp,
)
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.allocation import partitions
from dpensemble.cost import Conversion
from dpensemble.errors import AccountingError, BudgetError, DataError, DPEnsembleError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax, RandomizedResponse
from dpensemble.relations import Basis, Relation
from dpensemble.votes import Votes

from ..tiny_votes import histograms, neighbours


def test_bounds_of_a_split_and_of_a_clear_vote():
    orders = np.array([4.0])
    np.testing.assert_allclose(
        gaussian_rdp(np.array([-0.5, -5.0]), 10.0, orders), [[0.04], [0.010173]], rtol=0, atol=1e-6
    )
    np.testing.assert_allclose(
        _laplace_rdp(np.array([-0.7, -5.0]), 0.1, orders), [[0.019596], [0.001492]], rtol=0, atol=1e-6
    )


def test_the_pure_bound_is_that_of_randomized_response():
    epsilon, order = 0.1, 32
    truth = 1 / (1 + np.exp(-epsilon))
    moment = truth**order * (1 - truth) ** (1 - order) + (1 - truth) ** order * truth ** (1 - order)
    assert _pure_rdp(epsilon, [order])[0] == pytest.approx(np.log(moment) / (order - 1))


# Jordon et al. 2019, table 2 and supplement table 6. They count the breaching query, at delta 1e-3.
CLASSICAL = Conversion.CLASSICAL
N = 3
PUBLISHED = {50: (11, 85, 211), 100: (43, 338, 843), 250: (264, 2108, 5269)}


def meter_of(scale, budget):
    schedule, everyone = VotingSchedule.everyone(LaplaceNoisyMax(scale), N), [Group("everyone", budget, pool=0)]
    return worst_case_meter(schedule, everyone, n_classes=2, accounting=Accounting.PUBLISHED)


@pytest.mark.parametrize("n", PUBLISHED)
def test_published_counts_at_delta_1e3_less_the_breaching_query(n):
    found = [meter_of(n / 2, Budget(epsilon=e, delta=1e-3)).sure_queries for e in (1, 3, 5)]
    assert found == [count - 1 for count in PUBLISHED[n]]


def test_counts_at_the_delta_that_the_paper_states():
    found = {n: [meter_of(n / 2, Budget(epsilon=e, delta=1e-5)).sure_queries for e in (1, 3, 5)] for n in PUBLISHED}
    assert found == {50: [6, 54, 140], 100: [26, 216, 561], 250: [162, 1354, 3512]}


def test_the_formula_of_the_paper():
    """epsilon = min over l of (Q 2 lambda^2 l (l + 1) + log(1 / delta)) / l."""
    lam, queries, delta = 2 / 100, 42, 1e-3
    moments = range(1, 200)
    by_hand = min((queries * 2 * lam**2 * m * (m + 1) + np.log(1 / delta)) / m for m in moments)
    assert laplace_moments(1 / lam, queries).epsilon(delta, CLASSICAL) == pytest.approx(by_hand, rel=1e-12)


def test_partitions_and_scale_grow_together_at_no_cost():
    one = laplace_moments(125.0, 300)
    ten = laplace_moments(1250.0, 300 * 10**2)
    assert np.allclose(one.rdp, ten.rdp)


@given(st.floats(0.2, 50), st.floats(1e-9, 0.4), st.floats(1.0, 300))
def test_the_largest_affordable_amount_fits_and_one_more_does_not(epsilon, delta, scale):
    amount = laplace_moments(scale, 1).most(Budget(epsilon=epsilon, delta=delta), CLASSICAL)
    assert laplace_moments(scale, amount).epsilon(delta, CLASSICAL) <= epsilon
    assert laplace_moments(scale, amount + 1).epsilon(delta, CLASSICAL) > epsilon


def test_a_meter_admits_across_chunks_and_then_no_more():
    meter = meter_of(25, Budget(epsilon=1, delta=1e-3))
    chunk = Votes(np.zeros((4, 3), dtype=np.uint8), 2)
    assert [meter.admit(chunk) for _ in range(5)] == [4, 4, 2, 0, 0]
    assert meter.spent_epsilon <= 1 < laplace_moments(25, 11).epsilon(1e-3, CLASSICAL)


def test_a_budget_below_one_label_names_one_that_works():
    meter = meter_of(5, Budget(epsilon=0.01, delta=1e-5))
    with pytest.raises(BudgetError, match="the smallest epsilon that would do is"):
        meter.require_one_query()
    enough = Budget(epsilon=meter.smallest_epsilon(), delta=1e-5)
    assert meter_of(5, enough).sure_queries == 1
    barely = Budget(epsilon=meter.smallest_epsilon() * 0.999, delta=1e-5)
    assert meter_of(5, barely).sure_queries == 0


def test_published_costs_of_other_laws():
    laplace = _published_cost(LaplaceNoisyMax(20), Change(ballots=9, classes=2, votes=3))
    assert np.allclose(laplace.rdp, laplace_moments(20, 9).rdp)
    gaussian = _published_cost(GaussianNoisyMax(40), Change(ballots=9, classes=2, votes=2))
    assert np.allclose(gaussian.rdp, gaussian.orders * 4 / 40**2)
    with pytest.raises(AccountingError, match="use accounting='exact'"):
        _published_cost(RandomizedResponse(1.0), Change(ballots=9, classes=2))


ORDERS = np.array([1.05, 1.5, 2, 3, 5, 8, 16])
# Divergences below this are lost in the rounding of the oracle's probabilities.
FLOOR = {"gnmax": 1e-13, "threshold": 1e-13, "lnmax": 1e-11}


# --- the true laws of tiny votes -------------------------------------------------------------------------------


def gaussian_law(counts, sigma):
    """Integrate over the winning noisy count. The trapezoidal rule is exact to rounding for such integrands."""
    counts = np.asarray(counts, dtype=float)
    points = np.arange(counts.min() - 14 * sigma, counts.max() + 14 * sigma, sigma / 30)
    scores = (points[:, None] - counts) / sigma
    below = log_ndtr(scores)
    density = -0.5 * scores**2 - 0.5 * math.log(2 * math.pi)
    return np.exp(below.sum(axis=1, keepdims=True) - below + density).sum(axis=0) / 30


def law_of(kind, counts, noise, threshold):
    if kind == "gnmax":
        return gaussian_law(counts, noise)
    if kind == "lnmax":
        return LaplaceNoisyMax(noise).probabilities(np.array([counts]))[0]
    return np.exp(log_ndtr(np.array([1, -1]) * (max(counts) - threshold) / noise))


def renyi(p, other, order):
    """Divergence of `p` from `other`, with the likeliest outcome taken from its complement."""
    leader = np.argmax(p)
    rest = np.arange(len(p)) != leader
    log_ratio = np.log(p / other)
    weights = p.copy()
    if p[rest].sum() < 0.5 and other[rest].sum() < 0.5:
        log_ratio[leader] = np.log1p(-p[rest].sum()) - np.log1p(-other[rest].sum())
        weights[leader] = 1 - p[rest].sum()
    return np.log1p(np.sum(weights * np.expm1((order - 1) * log_ratio))) / (order - 1)


def bound_of(kind, counts, noise, threshold):
    if kind == "gnmax":
        return gnmax_rdp(counts, noise, ORDERS)
    if kind == "lnmax":
        return lnmax_rdp(counts, noise, ORDERS)
    return threshold_rdp(counts, threshold, noise, ORDERS)


def worst_ratios(kind, n_votes, n_classes, noise):
    """Return the largest share of the bound that is used from the given data, and from its neighbours."""
    votes = histograms(n_votes, n_classes)
    threshold = 0.6 * n_votes
    bounds = dict(zip(votes, bound_of(kind, np.array(votes), noise, threshold), strict=True))
    laws = {counts: law_of(kind, counts, noise, threshold) for counts in votes}
    own = others = 0.0
    for counts in votes:
        for near in neighbours(counts):
            for order, bound in zip(ORDERS, bounds[counts], strict=True):
                own = max(own, (renyi(laws[counts], laws[near], order) - FLOOR[kind]) / bound)
                others = max(others, (renyi(laws[near], laws[counts], order) - FLOOR[kind]) / bound)
    return own, others


@pytest.mark.parametrize("kind", ["gnmax", "lnmax", "threshold"])
@pytest.mark.parametrize(("n_votes", "n_classes"), [(12, 2), (5, 2), (7, 3)])
@pytest.mark.parametrize("noise", [0.8, 1.5, 4.0])
def test_the_bound_holds_from_the_data_at_hand(kind, n_votes, n_classes, noise):
    own, _ = worst_ratios(kind, n_votes, n_classes, noise)
    assert 0.3 < own <= 1


@pytest.mark.parametrize(("kind", "excess"), [("gnmax", 1e3), ("threshold", 10), ("lnmax", 5)])
def test_the_bound_does_not_hold_towards_the_data_at_hand(kind, excess):
    """The published theorems bound ``D(M(D) || M(D'))`` only. The other direction can be far larger."""
    _, others = worst_ratios(kind, 12, 2, 0.8)
    assert others > excess


# --- an independent computation --------------------------------------------------------------------------------


def gaussian_by_the_book(log_q, sigma, order):
    """Theorem 6 with Proposition 10 at 700 digits, one query and one order at a time."""
    with mpmath.workdps(700):
        q, sigma, order = mpmath.exp(mpmath.mpf(log_q)), mpmath.mpf(sigma), mpmath.mpf(order)
        independent = order / sigma**2
        mu2 = sigma * mpmath.sqrt(mpmath.log(1 / q))
        mu1 = mu2 + 1
        if mu2 <= 1 or order > mu1:
            return float(independent)
        loss1, loss2 = mu1 / sigma**2, mu2 / sigma**2
        if q > mpmath.exp((mu2 - 1) * loss2) / (mu1 / (mu1 - 1) * mu2 / (mu2 - 1)) ** mu2 or q * mpmath.exp(loss2) >= 1:
            return float(independent)
        a = (1 - q) / (1 - (q * mpmath.exp(loss2)) ** ((mu2 - 1) / mu2))
        b = mpmath.exp(loss1) / q ** (1 / (mu1 - 1))
        tight = mpmath.log((1 - q) * a ** (order - 1) + q * b ** (order - 1)) / (order - 1)
        return float(min(independent, tight))


def laplace_by_the_book(log_q, epsilon, order):
    with mpmath.workdps(700):
        q, loss, order = mpmath.exp(mpmath.mpf(log_q)), mpmath.mpf(epsilon), mpmath.mpf(order)
        likely, other = mpmath.exp(loss) / (1 + mpmath.exp(loss)), 1 / (1 + mpmath.exp(loss))
        moment = likely**order * other ** (1 - order) + other**order * likely ** (1 - order)
        independent = mpmath.log(moment) / (order - 1)
        if q >= (mpmath.exp(loss) - 1) / (mpmath.exp(2 * loss) - 1):
            return float(independent)
        stays = (1 - q) * ((1 - q) / (1 - mpmath.exp(loss) * q)) ** (order - 1)
        tight = mpmath.log(stays + q * mpmath.exp(loss * (order - 1))) / (order - 1)
        return float(min(independent, tight))


VOTES = np.array(
    [
        [250, 0, 0],
        [240, 6, 4],
        [200, 30, 20],
        [150, 80, 20],
        [130, 119, 1],
        [84, 83, 83],
        [126, 124, 0],
        [180, 70, 0],
    ]
)
SOME_ORDERS = [1.001, 1.5, 2, 7, 20.5, 64, 500]


@pytest.mark.parametrize("sensitivity", [1.0, 0.3, 4])
@pytest.mark.parametrize("noise", [0.7, 5, 40.0, 300.0])
def test_the_bounds_are_the_published_ones(noise, sensitivity):
    cases = [
        (
            gnmax_rdp(VOTES, noise, SOME_ORDERS, sensitivity),
            [
                [gaussian_by_the_book(e, noise / sensitivity, o) for o in SOME_ORDERS]
                for e in gnmax_log_error(VOTES, noise)
            ],
        ),
        (
            threshold_rdp(VOTES, 140, noise, SOME_ORDERS, sensitivity),
            [
                [gaussian_by_the_book(e, math.sqrt(2) * noise / sensitivity, o) for o in SOME_ORDERS]
                for e in _threshold_log_error(VOTES, 140, noise)
            ],
        ),
        (
            lnmax_rdp(VOTES, noise, SOME_ORDERS, sensitivity),
            [
                [laplace_by_the_book(e, 2 * sensitivity / noise, o) for o in SOME_ORDERS]
                for e in _lnmax_log_error(VOTES, noise)
            ],
        ),
    ]
    for bound, expected in cases:
        floored = np.maximum(expected, np.finfo(float).tiny)
        assert bound == pytest.approx(floored, rel=1e-8, abs=0)
        assert np.all(bound >= floored * (1 - 1e-13))


@pytest.mark.parametrize("noise", [0.7, 6.0, 40.0])
def test_errors_are_the_published_unions(noise):
    with mpmath.workdps(400):
        for row, gaussian, laplace in zip(
            VOTES, gnmax_log_error(VOTES, noise), _lnmax_log_error(VOTES, noise), strict=True
        ):
            gaps = [mpmath.mpf(int(row[0] - other)) for other in row[1:]]
            for got, q in (
                (gaussian, sum(mpmath.erfc(gap / (2 * mpmath.mpf(noise))) / 2 for gap in gaps)),
                (laplace, sum((2 + gap / noise) / (4 * mpmath.exp(gap / noise)) for gap in gaps)),
            ):
                assert got == pytest.approx(float(mpmath.log(min(q, mpmath.mpf(2) / 3))), rel=1e-12)


def test_the_noise_decides_the_error_and_the_sensitivity_the_rest():
    votes = [[160, 90]]
    error = gnmax_log_error(votes, 40.0)
    assert gnmax_rdp(votes, 40.0, [3], 2.0)[0, 0] == pytest.approx(gaussian_by_the_book(error[0], 20.0, 3))


def test_the_conjecture_is_the_proven_bound_when_every_vote_may_change():
    orders = [2, 5.5, 40]
    assert np.array_equal(
        conjectured_lnmax_rdp(VOTES, 20.0, orders, np.full(len(VOTES), 3)), lnmax_rdp(VOTES, 20.0, orders, 3.0)
    )
    assert not conjectured_lnmax_rdp([[5, 5]], 20.0, orders, [0]).any()
    assert "NOT a guarantee" in conjectured_lnmax_rdp.__doc__


# --- properties ------------------------------------------------------------------------------------------------

counts_rows = st.lists(st.lists(st.integers(0, 400), min_size=3, max_size=3), min_size=1, max_size=4).map(np.array)
weights = st.floats(0.1, 3)
noises = st.floats(0.3, 300)


def three(counts, noise, orders, sensitivity):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        asked = threshold_rdp(counts, 200, noise, orders, sensitivity)
    return gnmax_rdp(counts, noise, orders, sensitivity), lnmax_rdp(counts, noise, orders, sensitivity), asked


@given(counts_rows, weights, noises, weights)
def test_never_above_what_holds_for_all_data(counts, weight, noise, sensitivity):
    gaussian, laplace, asked = three(counts * weight, noise, ORDERS, sensitivity)
    worst = ORDERS * (sensitivity / noise) ** 2
    assert np.all(gaussian <= worst * (1 + 1e-12))
    assert np.all(asked <= worst / 2 * (1 + 1e-12))
    loss = 2 * sensitivity / noise
    assert np.all(laplace <= np.minimum(loss, loss**2 * ORDERS / 2) * (1 + 1e-12))
    for bound in (gaussian, laplace, asked):
        assert np.all(bound > 0)


@given(counts_rows, noises, st.floats(1, 3), st.floats(1, 3))
def test_more_sensitive_costs_more(counts, noise, sensitivity, factor):
    for low, high in zip(
        three(counts, noise, ORDERS, sensitivity), three(counts, noise, ORDERS, sensitivity * factor), strict=True
    ):
        assert np.all(low <= high * (1 + 1e-9))


@given(counts_rows, noises, noises)
def test_all_at_once_equals_one_by_one(counts, noise, other):
    for bound, make in zip(
        three(counts, noise, ORDERS, 1.0),
        zip(*[three(row[None], noise, ORDERS, 1.0) for row in counts], strict=True),
        strict=True,
    ):
        assert np.array_equal(bound, np.concatenate(make))
    assert np.array_equal(gnmax_rdp(counts, other, [5]), gnmax_rdp(counts, other, ORDERS)[:, ORDERS == 5])


@given(st.integers(0, 60), noises, st.floats(1, 3))
def test_a_clearer_vote_costs_no_more_by_its_error(lead, noise, factor):
    near, far = [[200, 200 - lead, 0]], [[200, 200 - min(int(lead * factor), 200), 0]]
    assert gnmax_log_error(far, noise) <= gnmax_log_error(near, noise)
    assert _lnmax_log_error(far, noise) <= _lnmax_log_error(near, noise)


@given(st.floats(1e-9, 200), st.floats(1.0001, 1e4))
def test_pure_rdp_is_randomized_response(epsilon, order):
    got = _pure_rdp(epsilon, [order])[0]
    with mpmath.workdps(80):
        loss, alpha = mpmath.mpf(epsilon), mpmath.mpf(order)
        exact = mpmath.log(mpmath.cosh((alpha - 0.5) * loss) / mpmath.cosh(loss / 2)) / (alpha - 1)
    assert got == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("noise", [1e-9, 1e-3, 1.0, 1e12])
@pytest.mark.parametrize("order", [1 + 1e-9, 2, 1e6])
def test_extremes_stay_finite_and_never_free(noise, order):
    votes = np.array([[1e15, 0], [0, 0], [1, 1], [1e15, 1e15 - 1]])
    for bound in three(votes, noise, [order], 1.0):
        assert np.all(np.isfinite(bound))
        assert np.all(bound > 0)


def test_no_queries():
    assert gnmax_rdp(np.empty((0, 3)), 1.0, [2, 3]).shape == (0, 2)
    assert lnmax_rdp(np.empty((0, 3)), 1.0, [2, 3]).shape == (0, 2)
    assert threshold_rdp(np.empty((0, 3)), 1, 1.0, [2, 3]).shape == (0, 2)


# --- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [[[1, float("nan")]], [[1, -1]], [[float("inf"), 0]], [1, 2], [[1]], [["x", 2]], [[[1, 2]]]]
)
def test_counts_that_are_not_votes(bad):
    for refuse in (
        lambda: gnmax_rdp(bad, 1.0, [2]),
        lambda: lnmax_rdp(bad, 1.0, [2]),
        lambda: threshold_rdp(bad, 1, 1.0, [2]),
    ):
        with pytest.raises(DataError):
            refuse()


def test_errors_show_no_count():
    with pytest.raises(DPEnsembleError) as caught:
        gnmax_rdp([[73501, -9]], 1.0, [2])
    assert "73501" not in str(caught.value)
    assert "9" not in str(caught.value).replace("1e15", "")


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "2", True])
@pytest.mark.parametrize("name", ["noise", "sensitivity"])
def test_settings_out_of_range(bad, name):
    settings = {"noise": 1.0, "sensitivity": 1.0} | {name: bad}
    for refuse in (
        lambda: gnmax_rdp([[2, 1]], settings["noise"], [2], settings["sensitivity"]),
        lambda: lnmax_rdp([[2, 1]], settings["noise"], [2], settings["sensitivity"]),
        lambda: threshold_rdp([[2, 1]], 1, settings["noise"], [2], settings["sensitivity"]),
    ):
        with pytest.raises(InvalidParameterError):
            refuse()


@pytest.mark.parametrize("bad", [[1], [0.5], [2, float("nan")], [float("inf")], [], 2, [[2]], ["two"]])
def test_orders_out_of_range(bad):
    for refuse in (
        lambda: gnmax_rdp([[2, 1]], 1.0, bad),
        lambda: lnmax_rdp([[2, 1]], 1.0, bad),
        lambda: threshold_rdp([[2, 1]], 1, 1.0, bad),
        lambda: _pure_rdp(1.0, bad),
    ):
        with pytest.raises(InvalidParameterError):
            refuse()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None])
def test_threshold_out_of_range(bad):
    with pytest.raises(InvalidParameterError):
        threshold_rdp([[2, 1]], bad, 1.0, [2])


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_pure_loss_out_of_range(bad):
    with pytest.raises(InvalidParameterError):
        _pure_rdp(bad, [2])


@pytest.mark.parametrize("bad", [[1.0, 2.0], [float("nan")], [-1.0], 1.0])
def test_changed_votes_must_fit(bad):
    with pytest.raises(DataError):
        conjectured_lnmax_rdp([[2, 1]], 1.0, [2], bad)


def test_a_threshold_nobody_can_reach_is_warned_of():
    with pytest.warns(UserWarning, match="hardly any"):
        threshold_rdp([[2, 1]], 4, 1.0, [2])


def by_hand(ballots, allocation, n_classes, k):
    """Jordon et al. 2019, Algorithm 1, with loops: the sum of m squared of the worst record or ``*``."""
    groups = [allocation.teachers_of(u) for u in range(allocation.n_units)] + [allocation.next_slot]
    totals = []
    for teachers in groups:
        total = 0.0
        for row in ballots:
            shares = [np.mean(row[teachers] == c) for c in range(n_classes)]
            total += max(1 - share for share in shares) ** 2
        totals.append(total)
    return max(totals) * k**2


@given(st.integers(2, 4), st.integers(1, 5), st.integers(2, 5), st.integers(0, 10**6), st.integers(5, 40))
def test_the_streamed_sum_equals_the_loops_of_the_paper(n_classes, k, n_subsets, seed, n):
    rng = np.random.default_rng(seed)
    allocation = partitions(range(n), n_subsets, k, entropy=seed)
    bias = rng.dirichlet(np.full(n_classes, 0.5), size=9)
    ballots = np.stack([rng.choice(n_classes, size=allocation.n_teachers, p=p) for p in bias]).astype(np.uint8)
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(7.0), allocation, Budget(epsilon=1e9, delta=1e-5), n_classes, stop_when_spent=True
    )
    for start in (0, 4):
        assert meter.admit(Votes(ballots[start : start + 4 + start], n_classes)) == 4 + start // 4
    expected = laplace_moments(7.0, round(by_hand(ballots, allocation, n_classes, k)))
    assert np.allclose(meter.cost.rdp, expected.rdp, rtol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_chunks_do_not_change_what_is_admitted(seed, chunk):
    rng = np.random.default_rng(seed)
    allocation = partitions(range(80), 5, 4, entropy=seed)
    ballots = (rng.random((300, 20)) < rng.random((300, 1))).astype(np.uint8)
    budget = Budget(epsilon=3.0, delta=1e-3)

    def admitted(size):
        meter = PublishedPerRecordMeter(LaplaceNoisyMax(30.0), allocation, budget, 2, stop_when_spent=True)
        total = sum(meter.admit(Votes(ballots[i : i + size], 2)) for i in range(0, 300, size))
        return total, meter.spent_epsilon

    whole = admitted(300)
    assert admitted(chunk) == whole
    assert whole[1] <= 3.0
    # The query after the last one would not have fitted.
    if whole[0] < 300:
        free = PublishedPerRecordMeter(
            LaplaceNoisyMax(30.0), allocation, Budget(epsilon=1e9, delta=1e-3), 2, stop_when_spent=True
        )
        free.admit(Votes(ballots[: whole[0] + 1], 2))
        assert free.spent_epsilon > 3.0


def test_it_never_admits_fewer_than_the_worst_case_nor_more_than_the_public_limit():
    rng = np.random.default_rng(0)
    allocation = partitions(range(200), 10, 5)
    budget, law = Budget(epsilon=5, delta=1e-3), LaplaceNoisyMax(25.0)
    everyone = [Group("everyone", budget, pool=0, votes=5)]
    worst = worst_case_meter(VotingSchedule.everyone(law, 50), everyone, n_classes=2, accounting=Accounting.PUBLISHED)
    for share in (0.0, 0.5):
        meter = PublishedPerRecordMeter(law, allocation, budget, 2, stop_when_spent=True)
        ballots = (rng.random((400, 50)) < share).astype(np.uint8)
        admitted = meter.admit(Votes(ballots, 2))
        assert worst.sure_queries == meter.sure_queries <= admitted <= meter.most_queries
        if share == 0:
            assert admitted == worst.sure_queries
        else:
            assert admitted > worst.sure_queries


def test_with_one_partition_it_is_the_data_independent_cost():
    allocation = partitions(range(50), 10, 1)
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(5.0), allocation, Budget(epsilon=1e9, delta=1e-5), 2, stop_when_spent=True
    )
    ballots = np.random.default_rng(1).integers(0, 2, (20, 10))
    meter.admit(Votes(ballots, 2))
    assert np.allclose(meter.cost.rdp, laplace_moments(5.0, 20).rdp)


def test_an_added_record_is_charged():
    """All present records sit with divided teachers. Only the next free slot is unanimous."""
    allocation = partitions(range(4), 4, 2, entropy=0)
    free = set(range(8)) - set(allocation.next_slot.tolist())
    ballots = np.zeros((1, 8), dtype=np.uint8)
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(5.0), allocation, Budget(epsilon=1e9, delta=1e-5), 2, stop_when_spent=True
    )
    split = {t: i % 2 for i, t in enumerate(sorted(free))}
    for t, vote in split.items():
        ballots[0, t] = vote
    meter.admit(Votes(ballots, 2))
    assert meter.cost.rdp[0] == pytest.approx(laplace_moments(5.0, 4).rdp[0])


def test_under_keyed_draws_an_added_record_may_join_any_teachers():
    allocation = partitions(range(40), 4, 3, relation=Relation.ADD_OR_REMOVE_ONE, entropy=2)
    rng = np.random.default_rng(3)
    ballots = rng.integers(0, 2, (30, 12))
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(5.0), allocation, Budget(epsilon=1e9, delta=1e-5), 2, stop_when_spent=True
    )
    meter.admit(Votes(ballots, 2))
    expected = 0
    for row in ballots.reshape(30, 3, 4):
        expected += max(sum(bool((row[p] != c).any()) for p in range(3)) for c in (0, 1)) ** 2
    assert meter.cost.rdp[0] == pytest.approx(laplace_moments(5.0, expected).rdp[0])
    assert meter.basis is Basis.DATA_DEPENDENT


def test_it_streams():
    """20,000 records and 2,000 queries would be 320 MB as floats. The meter stays below a tenth of that."""
    allocation = partitions(range(20_000), 50, 4)
    votes = Votes(np.random.default_rng(0).integers(0, 2, (2000, 200)), 2)
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(100.0), allocation, Budget(epsilon=1e9, delta=1e-5), 2, stop_when_spent=True
    )
    tracemalloc.start()
    meter.admit(votes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32_000_000


def test_more_than_255_partitions_do_not_overflow():
    allocation = partitions(range(6), 2, 300)
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(300.0), allocation, Budget(epsilon=1e9, delta=1e-5), 2, stop_when_spent=True
    )
    meter.admit(Votes(np.zeros((5, 600), dtype=np.uint8), 2))
    assert np.allclose(meter.cost.rdp, laplace_moments(300.0, 5 * 300**2).rdp)
