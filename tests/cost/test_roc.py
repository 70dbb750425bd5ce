"""Hulls in exact fractions: whatever rounding selects dominates, and rounding selects nothing."""

from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpensemble.cost import DominatingPairs
from dpensemble.cost.merging import gathered, outlined
from dpensemble.cost.roc import FLAT, NEAR_END, concave_hull, ranks, vertices

ULP = 2.0**-53
masses = st.lists(st.integers(1, 12), min_size=3, max_size=3)
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


two_rows = st.lists(st.tuples(masses, masses), min_size=1, max_size=3)


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
    hulls = [concave_hull(vertices(*tables(rows, n)).reshape(-1, 2)) for n in ([0], nudges)]
    assert hulls[0].shape == hulls[1].shape
    assert np.allclose(hulls[0], hulls[1], rtol=0, atol=1e-14)


@given(st.lists(st.tuples(st.floats(1e-9, 1), st.floats(1e-9, 1), st.floats(-2, 2)), min_size=1, max_size=8))
def test_flat_corners_are_paid_for(drawn):
    """Corners just above a chord, by up to twice the distance at which they count as flat."""
    near = [(q, min(1.0, (q + p) / 2 + flat * FLAT)) for q, p, flat in drawn] + [(q, p) for q, p, _ in drawn]
    near = [(q, p) for q, p in near if p >= q and 1 - q >= 1e-6]
    hull = concave_hull(np.array(near).reshape(-1, 2))
    assert np.all(np.diff(hull, axis=0) >= 0)
    inner = [
        (Fraction(q) - Fraction(2 * NEAR_END), Fraction(p) + Fraction(2 * NEAR_END)) for q, p in hull[1:-1].tolist()
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
        found.append(outlined(pairs, 0.01, 50.0))
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
    found = gathered(pairs, 0.003, np.inf)
    whole = np.linalg.svd
    monkeypatch.setattr(np.linalg, "svd", lambda *a, **k: (*whole(*a, **k)[:2], -whole(*a, **k)[2]))
    turned = gathered(pairs, 0.003, np.inf)
    assert found.p.shape == turned.p.shape
    assert np.allclose(found.p, turned.p, rtol=0, atol=1e-13)
