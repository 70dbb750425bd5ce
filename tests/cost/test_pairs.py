"""Dominating pairs: divergences and inflation, and hulls in exact fractions, where rounding selects nothing."""

from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpensemble.cost import DominatingPairs
from dpensemble.cost.pairs import _FLAT, _NEAR_END, _concave_hull, _vertices, ranks
from dpensemble.errors import AccountingError

ULP = 2.0**-53
whole_masses = st.lists(st.integers(1, 12), min_size=3, max_size=3)
noise = st.lists(st.integers(-2, 2), min_size=24, max_size=24)


def exact_curve(p, q):
    """The corners of one pair's curve, in fractions, by falling ratio."""
    outcomes = sorted(
        ((Fraction(b), Fraction(a)) for a, b in zip(p, q, strict=True) if b > 0),
        key=lambda o: o[1] / o[0],
        reverse=True,
    )
    return list(accumulate(outcomes, lambda c, o: (c[0] + o[0], c[1] + o[1]), initial=(Fraction(0), Fraction(0))))


def lies_below(point, curve):
    """Whether a point lies on or below a concave curve, beyond which the curve stays level."""
    q, p = point
    for (q0, p0), (q1, p1) in pairwise(curve):
        if q <= q1:
            return (p - p0) * (q1 - q0) <= (q - q0) * (p1 - p0)
    return p <= max(1, curve[-1][1])


def tables(rows, nudges):
    """Pairs that have equal ratios and equal rows by design, each entry moved by its last bits."""
    p, q = (np.array([row[i] for row in rows], dtype=float) for i in (0, 1))
    # The first and the last outcome have one ratio, and each row comes again in another order.
    p[:, 2], q[:, 2] = 2 * p[:, 0], 2 * q[:, 0]
    p, q = np.vstack([p, p[:, ::-1]]), np.vstack([q, q[:, ::-1]])
    p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
    moved = 1 + ULP * np.resize(np.array(nudges), p.shape)
    return p * moved, q * moved[::-1]


two_rows = st.lists(st.tuples(whole_masses, whole_masses), min_size=1, max_size=3)


@given(two_rows, noise, st.sampled_from([None, 2, 3, 4]))
def test_a_single_pair_dominates_in_exact_fractions(rows, nudges, n_outcomes):
    p, q = tables(rows, nudges)
    one = DominatingPairs(p, q).single(n_outcomes)
    hull = exact_curve(one.p[0], one.q[0])
    for row in zip(p, q, strict=True):
        assert all(lies_below(corner, hull) for corner in exact_curve(*row)[1:-1])


@given(two_rows, noise)
def test_last_bits_do_not_select_corners(rows, nudges):
    losing = tables(rows, [0])
    # Without any loss there is nothing to select.
    assume(np.abs(losing[0] - losing[1]).max() > 1e-9)
    hulls = [_concave_hull(_vertices(*tables(rows, n)).reshape(-1, 2)) for n in ([0], nudges)]
    assert hulls[0].shape == hulls[1].shape
    assert np.allclose(hulls[0], hulls[1], rtol=0, atol=1e-14)


@given(st.lists(st.tuples(st.floats(1e-9, 1), st.floats(1e-9, 1), st.floats(-2, 2)), min_size=1, max_size=8))
def test_flat_corners_are_paid_for(drawn):
    """Corners just above a chord, by up to twice the distance at which they count as flat."""
    near = [(q, min(1.0, (q + p) / 2 + flat * _FLAT)) for q, p, flat in drawn] + [(q, p) for q, p, _ in drawn]
    near = [(q, p) for q, p in near if p >= q and 1 - q >= 1e-6]
    hull = _concave_hull(np.array(near).reshape(-1, 2))
    assert np.all(np.diff(hull, axis=0) >= 0)
    inner = [
        (Fraction(q) - Fraction(2 * _NEAR_END), Fraction(p) + Fraction(2 * _NEAR_END)) for q, p in hull[1:-1].tolist()
    ]
    paid = [(Fraction(0), Fraction(0)), *inner, (Fraction(1), Fraction(1))]
    if all(q > 0 for q, _ in inner):
        assert all(lies_below((Fraction(q), Fraction(p)), paid) for q, p in near)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6), noise)
def test_polygons_of_two_outcomes_contain_every_pair_and_do_not_depend_on_last_bits(rows, nudges):
    chances = np.array(rows) / 41
    assume(any(a != b for a, b in rows))
    found = []
    for moved in (1 + ULP * np.resize(np.array(nudges), chances.shape), np.ones(chances.shape)):
        p, q = np.sort(chances * moved, axis=1)[:, ::-1].T
        pairs = DominatingPairs(np.stack([p, 1 - p], axis=1), np.stack([q, 1 - q], axis=1))
        found.append(pairs.few_corners(0.01, 50.0))
        corners = [(Fraction(b), Fraction(a)) for a, b in zip(found[-1].p[:, 0], found[-1].q[:, 0], strict=True)]
        polygon = [(Fraction(0), Fraction(0)), *sorted(corners), (Fraction(1), Fraction(1))]
        assert all(lies_below((Fraction(b), Fraction(a)), polygon) for a, b in zip(p, q, strict=True))
    assert found[0].p.shape == found[1].p.shape
    assert np.allclose(found[0].p, found[1].p, rtol=0, atol=1e-11)


def test_values_closer_than_rounding_share_a_rank():
    assert ranks(np.array([0.3, 0.1, 0.1 + 1e-15, 0.2, 0.3 - 1e-15]), 1e-13).tolist() == [2, 0, 0, 1, 2]
    assert ranks(np.array([]), 1e-13).tolist() == []


@pytest.mark.parametrize("seed", range(3))
def test_a_direction_and_its_opposite_gather_alike(seed, monkeypatch):
    """LAPACK may return either, as its rounding has it."""
    rng = np.random.default_rng(seed)
    drawn = rng.dirichlet(np.ones(3), size=(41, 2))
    mixed = 0.9 * drawn.mean(axis=1, keepdims=True) + 0.1 * drawn
    pairs = DominatingPairs(mixed[:, 0], mixed[:, 1])
    found = pairs.few(0.003, np.inf)
    whole = np.linalg.svd
    monkeypatch.setattr(np.linalg, "svd", lambda *a, **k: (*whole(*a, **k)[:2], -whole(*a, **k)[2]))
    turned = pairs.few(0.003, np.inf)
    assert found.p.shape == turned.p.shape
    assert np.allclose(found.p, turned.p, rtol=0, atol=1e-13)


masses = st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3)


def table(rows):
    rows = np.array(rows)
    return rows / rows.sum(axis=1, keepdims=True)


@given(st.lists(st.tuples(masses, masses), min_size=1, max_size=4))
def test_divergences_are_their_definitions(rows):
    p, q = (table([row[i] for row in rows]) for i in (0, 1))
    pairs = DominatingPairs(p, q)
    for order in (1.3, 2.0, 7.0, 60.0):
        direct = np.log((p**order * q ** (1 - order)).sum(axis=1)) / (order - 1)
        assert pairs.renyi([order])[0] == pytest.approx(max(direct.max(), 0), rel=1e-8, abs=1e-13)
        assert np.allclose(pairs.renyi_of_each([order])[:, 0], direct, rtol=1e-8, atol=1e-13)
    assert pairs.hockey_stick(0.3) == pytest.approx(np.maximum(p - np.exp(0.3) * q, 0).sum(axis=1).max())


@given(st.lists(st.tuples(masses, masses), min_size=1, max_size=5), st.sampled_from([None, 2, 3]))
def test_a_single_pair_dominates_the_set(rows, n_outcomes):
    pairs = DominatingPairs(*(table([row[i] for row in rows]) for i in (0, 1)))
    single = pairs.single(n_outcomes)
    assert len(single) == 1
    assert n_outcomes is None or single.p.shape[1] <= n_outcomes
    for epsilon in (-1.0, -0.2, 0.0, 0.1, 0.5, 2.0):
        assert single.hockey_stick(epsilon) >= pairs.hockey_stick(epsilon) - 1e-14
    orders = [1.5, 4.0, 30.0]
    assert np.all(single.renyi(orders) >= pairs.renyi(orders) * (1 - 1e-9) - 1e-13)
    if len(rows) == 1 and n_outcomes is None:
        assert single.hockey_stick(0.1) == pytest.approx(pairs.hockey_stick(0.1), abs=1e-12)


@given(masses, masses, st.lists(st.floats(-1, 1), min_size=4, max_size=4))
def test_inflation_covers_every_law_within_the_error(p, q, shifts):
    p, q = table([p]), table([q])
    error = 1e-4
    moved_p = p + error * np.array([shifts[0], shifts[1], -shifts[0] - shifts[1]]) / 2
    moved_q = q + error * np.array([shifts[2], shifts[3], -shifts[2] - shifts[3]]) / 2
    inflated = DominatingPairs(p, q).inflated(error)
    for epsilon in (-0.5, 0.0, 0.2, 1.0):
        assert inflated.hockey_stick(epsilon) >= DominatingPairs(moved_p, moved_q).hockey_stick(epsilon) - 1e-14


def test_tiny_divergences_keep_their_digits():
    """Second order in the difference: 1e-9 squared must not drown in rounding."""
    step = 1e-7
    pairs = DominatingPairs([[0.5 + step, 0.5 - step]], [[0.5, 0.5]])
    assert pairs.renyi([2.0])[0] == pytest.approx(4 * step**2, rel=0.05)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([[0.5, 0.6]], [[0.5, 0.5]]),
        ([[np.nan, 0.5]], [[0.5, 0.5]]),
        ([[1.5, -0.5]], [[0.5, 0.5]]),
        ([[0.5, 0.5]], [[1.0, 0.0]]),
        ([0.5, 0.5], [0.5, 0.5]),
        ([[]], [[]]),
    ],
)
def test_what_is_no_pair_of_laws_is_refused(p, q):
    with pytest.raises(AccountingError):
        DominatingPairs(p, q)


def test_a_set_is_filled_up_and_turned_round():
    two, three = (
        DominatingPairs([[0.6, 0.4]], [[0.5, 0.5]]),
        DominatingPairs([[0.2, 0.3, 0.5]], [[0.3, 0.3, 0.4]]),
    )
    both = DominatingPairs.union([two, three])
    assert both.p.shape == (2, 3)
    assert both.hockey_stick(0.0) == max(two.hockey_stick(0.0), three.hockey_stick(0.0))
    reverse = both.both_ways().renyi([5.0])
    assert reverse >= DominatingPairs(both.q, both.p).renyi([5.0])


def test_domination_of_randomized_response():
    truth = 1 / (1 + np.exp(-0.3))
    pairs = DominatingPairs([[truth, 1 - truth]], [[1 - truth, truth]])
    assert pairs.dominate_randomized_response(0.299)
    assert not pairs.dominate_randomized_response(0.301)


def test_an_outcome_that_only_one_law_can_produce_is_refused_whichever_it_is():
    for p, q in (([[1.0, 0.0]], [[0.5, 0.5]]), ([[0.5, 0.5]], [[1.0, 0.0]])):
        with pytest.raises(AccountingError, match="possible under both p and q"):
            DominatingPairs(p, q)
