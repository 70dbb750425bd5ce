"""Exact audits against closed forms, brute force, and planted mistakes."""

from itertools import chain, combinations, product
from math import comb, exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.audit import audit_law, compose_outcomes, exact_epsilon, sampled_probabilities
from dpensemble.audit.exact import hockey_stick, renyi_divergence
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import LaplaceNoisyMax, ReleaseLaw


def randomized_response(epsilon):
    truth = exp(epsilon) / (1 + exp(epsilon))
    return np.array([truth, 1 - truth]), np.array([1 - truth, truth])


@st.composite
def pairs(draw, zeros=True):
    """Two laws over the same outcomes, some of them impossible."""
    n_outcomes = draw(st.integers(1, 6))
    weights = st.integers(0 if zeros else 1, 20)
    rows = st.lists(weights, min_size=n_outcomes, max_size=n_outcomes).filter(any)
    p, q = np.array(draw(rows), dtype=float), np.array(draw(rows), dtype=float)
    return p / p.sum(), q / q.sum()


def subsets(n_outcomes):
    return chain.from_iterable(combinations(range(n_outcomes), size) for size in range(1, n_outcomes + 1))


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 5.0])
def test_randomized_response_in_closed_form(epsilon):
    p, q = randomized_response(epsilon)
    assert exact_epsilon(p, q, 0.0) == pytest.approx(epsilon, abs=1e-12)
    for smaller in (0.0, epsilon / 2, epsilon, epsilon + 1):
        expected = max(0.0, p[0] - exp(smaller) * q[0])
        assert hockey_stick(p, q, smaller) == pytest.approx(expected, abs=1e-15)
    order = 3.0
    moment = p[0] ** order * q[0] ** (1 - order) + p[1] ** order * q[1] ** (1 - order)
    assert renyi_divergence(p, q, [order])[0] == pytest.approx(log(moment) / (order - 1), abs=1e-12)


@given(pairs(), st.floats(0, 3))
def test_hockey_stick_is_the_best_event(pair, epsilon):
    p, q = pair
    best = max(p[list(s)].sum() - exp(epsilon) * q[list(s)].sum() for s in subsets(len(p)))
    assert hockey_stick(p, q, epsilon) == pytest.approx(max(0.0, best), abs=1e-12)


@given(pairs(), st.sampled_from([0.0, 1e-9, 0.01, 0.3]))
def test_exact_epsilon_suffices_and_nothing_less_does(pair, delta):
    p, q = pair
    epsilon = exact_epsilon(p, q, delta)
    assert epsilon >= 0
    if np.isinf(epsilon):
        assert max(p[q == 0].sum(), q[p == 0].sum()) > delta
        return
    assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= delta + 1e-12
    if epsilon > 1e-6:
        smaller = epsilon - 1e-6
        assert max(hockey_stick(p, q, smaller), hockey_stick(q, p, smaller)) > delta


@given(pairs(zeros=False), st.floats(0.01, 2))
def test_exact_epsilon_inverts_the_hockey_stick(pair, epsilon):
    p, q = pair
    delta = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
    found = exact_epsilon(p, q, delta)
    # Where delta is 0 the curve is flat, and a smaller epsilon has the same delta.
    assert found <= epsilon + 1e-9
    if delta > 1e-6:
        assert found == pytest.approx(epsilon, abs=1e-7)


@given(pairs(), st.floats(1.01, 50))
def test_renyi_divergence_rises_to_the_pure_loss(pair, order):
    p, q = pair
    at_order, later = renyi_divergence(p, q, [order, 2 * order])
    assert 0 <= at_order <= later + 1e-12
    assert later <= exact_epsilon(p, q, 0.0) + 1e-12


def test_impossible_outcomes():
    p, q = np.array([0.9, 0.1, 0.0, 0.0]), np.array([0.9, 0.0, 0.1, 0.0])
    assert exact_epsilon(p, q, 0.05) == np.inf
    assert exact_epsilon(p, q, 0.1) == pytest.approx(0, abs=1e-12)
    assert hockey_stick(p, q, np.inf) == pytest.approx(0.1)
    assert np.isinf(renyi_divergence(p, q, [2.0])[0])
    assert renyi_divergence(p, p, [2.0])[0] == pytest.approx(0, abs=1e-15)


def test_many_pairs_at_once():
    rows = np.random.default_rng(0).dirichlet(np.ones(4), size=(5, 3))
    found = exact_epsilon(rows, rows[:, :1], 0.01)
    assert found.shape == (5, 3)
    assert found[2, 1] == exact_epsilon(rows[2, 1], rows[2, 0], 0.01)
    assert renyi_divergence(rows, rows[0, 0], [2.0, 3.0]).shape == (5, 3, 2)


def test_composition_in_closed_form():
    p, q = randomized_response(0.7)
    n_answers = 6
    joint_p, joint_q = compose_outcomes([p] * n_answers), compose_outcomes([q] * n_answers)
    assert joint_p.sum() == pytest.approx(1)
    assert exact_epsilon(joint_p, joint_q, 0.0) == pytest.approx(n_answers * 0.7)
    epsilon = 1.5
    # An outcome with j truthful answers has probability proportional to exp(0.7 j).
    total = (1 + exp(0.7)) ** n_answers
    excess = [
        comb(n_answers, j) / total * max(exp(0.7 * j) - exp(epsilon + 0.7 * (n_answers - j)), 0)
        for j in range(n_answers + 1)
    ]
    assert hockey_stick(joint_p, joint_q, epsilon) == pytest.approx(sum(excess), abs=1e-14)
    different = compose_outcomes([[0.2, 0.8], [0.5, 0.3, 0.2]])
    assert np.allclose(different, [0.1, 0.06, 0.04, 0.4, 0.24, 0.16])


@pytest.mark.parametrize(("n_teachers", "n_classes", "moved"), [(1, 2, 1), (4, 2, 3), (3, 3, 1), (4, 3, 2), (2, 4, 2)])
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_audit_law_is_brute_force_over_ballots(n_teachers, n_classes, moved, delta):
    """Change the ballots themselves, not the histograms."""
    law = LaplaceNoisyMax(0.8)

    def answer(ballots):
        return sampled_probabilities(law, np.bincount(ballots, minlength=n_classes)[None])[0]

    ballots = list(product(range(n_classes), repeat=n_teachers))
    worst, moments, histograms = 0.0, np.zeros(2), set()
    for before, after in product(ballots, ballots):
        counts = tuple(tuple(np.bincount(x, minlength=n_classes).tolist()) for x in (before, after))
        if sum(a != b for a, b in zip(before, after, strict=True)) > moved or counts[0] == counts[1]:
            continue
        if frozenset(counts) not in histograms:
            worst = max(worst, exact_epsilon(answer(before), answer(after), delta))
            moments = np.maximum(moments, renyi_divergence(answer(before), answer(after), [2.0, 9.0]))
            histograms.add(frozenset(counts))
    found = audit_law(law, n_teachers, n_classes, moved, delta=delta, orders=[2.0, 9.0])
    assert found.epsilon == pytest.approx(worst, rel=1e-12)
    assert np.allclose(found.renyi, moments, rtol=1e-12)
    assert found.n_pairs == len(histograms)
    attained = sampled_probabilities(law, [found.counts, found.neighbour_counts])
    assert exact_epsilon(*attained, delta) == pytest.approx(worst, rel=1e-12)


@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
@pytest.mark.parametrize(("n_teachers", "n_classes", "moved"), [(30, 2, 1), (30, 2, 3), (12, 3, 2), (6, 4, 1)])
def test_a_right_claim_is_not_caught(scale, n_teachers, n_classes, moved):
    assert not audit_law(LaplaceNoisyMax(scale), n_teachers, n_classes, moved).caught(2 * moved / scale)


class Gated(ReleaseLaw):
    """The noisy maximum, but no answer unless the top count passes a noisy threshold."""

    def __init__(self, threshold, gate_scale, scale):
        self.threshold, self.gate_scale, self.answer = threshold, gate_scale, LaplaceNoisyMax(scale)

    def probabilities(self, counts):
        gap = (self.threshold - counts.max(axis=1)) / self.gate_scale
        passed = np.where(gap > 0, np.exp(-np.abs(gap)) / 2, 1 - np.exp(-np.abs(gap)) / 2)[:, None]
        return np.hstack([passed * self.answer.probabilities(counts), 1 - passed])

    def mixing_weight(self, n_classes):
        return self.answer.mixing_weight(n_classes + 1)

    def settings(self):
        return {}


SCALE = 2.0
CLAIM = 2 / SCALE


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_a_wrong_sensitivity_is_caught(delta):
    assert audit_law(LaplaceNoisyMax(SCALE), 20, 2, 2, delta=delta).caught(CLAIM)
    assert audit_law(LaplaceNoisyMax(SCALE), 20, 2, delta=delta).caught(1 / SCALE)
    assert audit_law(LaplaceNoisyMax(SCALE), 8, 3, delta=delta).caught(1 / SCALE)


def test_halved_noise_is_caught():
    assert audit_law(LaplaceNoisyMax(SCALE / 2), 20, 2).caught(CLAIM)
    assert audit_law(LaplaceNoisyMax(SCALE / 2), 8, 3).caught(CLAIM)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_forgotten_gate_is_caught(n_classes):
    law = Gated(threshold=9, gate_scale=1.0, scale=SCALE)
    found = audit_law(law, 12, n_classes)
    assert found.caught(CLAIM)
    assert found.caught(1 / law.gate_scale)
    assert not found.caught(CLAIM + 1 / law.gate_scale)


def test_an_off_by_one_in_composition_is_caught():
    """The published pure losses add. Charging one answer too few exceeds that bound's slack."""
    law, n_answers = LaplaceNoisyMax(SCALE), 8
    found = audit_law(law, 20, 2)
    laws = sampled_probabilities(law, [found.counts, found.neighbour_counts])
    cost = exact_epsilon(*(compose_outcomes([row] * n_answers) for row in laws), 0.0)
    assert (n_answers - 1) * CLAIM < cost <= n_answers * CLAIM


def test_an_off_by_one_against_an_exact_claim_is_caught():
    """Against exact accounting, any number of answers shows it."""
    p, q = randomized_response(0.3)
    costs = [exact_epsilon(compose_outcomes([p] * n), compose_outcomes([q] * n), 0.01) for n in range(1, 15)]
    assert np.all(np.diff(costs) > 1e-3)


def test_a_claim_met_exactly_is_not_caught_and_a_hair_less_is():
    found = audit_law(LaplaceNoisyMax(SCALE), 10, 2)
    assert not found.caught(found.epsilon)
    assert found.caught(found.epsilon * (1 - 1e-6))


def test_zero_mixing_leaves_an_infinite_loss():
    class Plurality(ReleaseLaw):
        def probabilities(self, counts):
            return np.eye(counts.shape[1])[counts.argmax(axis=1)]

        def mixing_weight(self, n_classes):
            return 0.0

        def settings(self):
            return {}

    assert audit_law(Plurality(), 5, 2, orders=[2.0]).renyi == (np.inf,)
    assert audit_law(Plurality(), 5, 2, delta=1e-5).caught(1e9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: hockey_stick([0.5, 0.5], [1.0], 1.0),
        lambda: hockey_stick([0.5, 0.5], [0.5, 0.5], -1.0),
        lambda: hockey_stick([0.5, 0.5], [0.5, 0.5], np.nan),
        lambda: hockey_stick(0.5, 0.5, 1.0),
        lambda: exact_epsilon([0.5, 0.6], [0.5, 0.5], 0.1),
        lambda: exact_epsilon([np.nan, 0.5], [0.5, 0.5], 0.1),
        lambda: exact_epsilon([1.5, -0.5], [0.5, 0.5], 0.1),
        lambda: exact_epsilon([0.5, 0.5], [0.5, 0.5], 1.1),
        lambda: exact_epsilon(np.full((2, 2), 0.5), np.full((3, 2), 0.5), 0.1),
        lambda: renyi_divergence([0.5, 0.5], [0.5, 0.5], [1.0]),
        lambda: renyi_divergence([0.5, 0.5], [0.5, 0.5], 2.0),
        lambda: compose_outcomes([]),
        lambda: compose_outcomes([[[0.5, 0.5]]]),
        lambda: compose_outcomes([[0.5, 0.5]] * 30),
        lambda: audit_law(LaplaceNoisyMax(1.0), 0, 2),
        lambda: audit_law(LaplaceNoisyMax(1.0), 5, 1),
        lambda: audit_law(LaplaceNoisyMax(1.0), 5, 2, 6),
        lambda: audit_law(LaplaceNoisyMax(1.0), 1000, 5),
        lambda: audit_law(LaplaceNoisyMax(1.0), 5, 2, delta=-0.1),
        lambda: audit_law(LaplaceNoisyMax(1.0), 5, 2).caught(np.nan),
    ],
)
def test_refusals(call):
    with pytest.raises(InvalidParameterError, match=r"\.$"):
        call()
