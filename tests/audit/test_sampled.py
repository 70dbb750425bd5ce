"""Sampled audits: stated error rates, and planted mistakes in laws and in a whole pipeline."""

from math import exp

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier

from dpensemble import SubsampleAggregateClassifier
from dpensemble.audit import audit_law, audit_pipeline, audit_sampler
from dpensemble.audit.sampled import epsilon_lower_bound
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import LaplaceNoisyMax, ReleaseLaw, sampling

SCALE = 2.0
CLAIM = 2 / SCALE


def response(epsilon, seed=0):
    """Randomized response about one bit, with its own noise in every run."""
    truth = exp(epsilon) / (1 + exp(epsilon))
    return lambda bit, i: bit if np.random.default_rng([seed, i]).random() < truth else 1 - bit


@pytest.mark.parametrize("n_runs", [5, 40])
@pytest.mark.parametrize("confidence", [0.6, 0.9])
@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.7, 0.3), (0.98, 0.6), (0.1, 0.01)])
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_bound_holds_as_often_as_stated_by_enumeration(n_runs, confidence, p, q, delta):
    """Every pair of hit counts with its binomial probability, without sampling."""
    hits = np.arange(n_runs + 1)
    chance = np.outer(binom.pmf(hits, n_runs, p), binom.pmf(hits, n_runs, q))
    bounds = epsilon_lower_bound(hits[:, None], hits[None, :], n_runs, delta=delta, confidence=confidence)
    factors = [(p - delta) / q, (q - delta) / p, (1 - p - delta) / (1 - q), (1 - q - delta) / (1 - p)]
    truth = np.log(max(1.0, *factors))
    assert chance[bounds > truth].sum() <= 1 - confidence


def test_the_bound_in_closed_form():
    """Always here, never there: the ends of the intervals are powers of the tail, a quarter of the error."""
    end = (0.01 / 4) ** (1 / 50)
    expected = np.log((end - 0.1) / (1 - end))
    for hits in ((50, 0), (0, 50)):
        assert epsilon_lower_bound(*hits, 50, delta=0.1, confidence=0.99) == pytest.approx(expected, rel=1e-12)


def test_the_bound_closes_in_on_the_truth():
    n_runs = 10**8
    bound = epsilon_lower_bound(0.7 * n_runs, 0.3 * n_runs, n_runs, delta=0.05, confidence=0.99)
    truth = np.log((0.7 - 0.05) / 0.3)
    assert 0.999 * truth < bound < truth


def test_false_alarms_are_as_rare_as_stated_and_a_wrong_claim_is_found():
    """Two hundred audits of one mechanism at 80 % confidence."""
    epsilon, confidence, repeats = 1.0, 0.8, 200
    results = [
        audit_pipeline(response(epsilon, seed), 0, 1, delta=0.0, n_runs=400, confidence=confidence)
        for seed in range(repeats)
    ]
    alarms = sum(result.caught(epsilon) for result in results)
    assert alarms <= binom.ppf(0.999, repeats, 1 - confidence)
    # The claim is met exactly, so an audit that never errs would be too weak.
    assert alarms > 0
    assert sum(result.caught(epsilon / 2) for result in results) > 0.9 * repeats


@pytest.mark.parametrize("kind", ["score", "category"])
def test_choosing_the_event_does_not_raise_the_false_alarms(kind):
    """The two data sets are treated alike, so every difference is chance."""
    repeats, confidence = 150, 0.8

    def run(_, i):
        draw = generator.random()
        return float(draw) if kind == "score" else int(draw * 60)

    alarms = 0
    for seed in range(repeats):
        generator = np.random.default_rng(seed)
        alarms += audit_pipeline(run, 0, 1, delta=0.0, n_runs=300, confidence=confidence).caught(0.0)
    assert alarms <= binom.ppf(0.999, repeats, 1 - confidence)


def test_scores_and_categories_choose_telling_events():
    def run(mean, i):
        return float(np.random.default_rng(i).normal(mean))

    low = audit_pipeline(run, 0.0, 3.0, delta=1e-5, n_runs=1000)
    assert low.epsilon_lower > 2
    assert low.event.startswith("score >= ")
    high = audit_pipeline(run, 3.0, 0.0, delta=1e-5, n_runs=1000)
    assert high.epsilon_lower > 2
    named = audit_pipeline(lambda bit, i: ("yes", "no")[response(2.0)(bit, i)], 0, 1, delta=0.0, n_runs=1000)
    assert named.event in ("outcome in {'yes'}", "outcome in {'no'}")
    assert 1 < named.epsilon_lower < 2
    assert (named.n_measured, named.n_runs) == (500, 1000)
    one_sided = audit_pipeline(lambda bit, i: -np.inf if bit and i % 3 else 0.0, 0, 1, delta=0.0, n_runs=600)
    assert one_sided.caught(2.0)


def test_an_event_given_beforehand_is_measured_by_every_run():
    result = audit_pipeline(response(1.0), 1, 0, delta=0.0, n_runs=500, event=lambda bit: bit == 1)
    assert result.n_measured == result.n_runs == 500
    assert result.caught(0.5)
    assert not result.caught(1.0)
    assert result.hits > result.neighbour_hits


def test_every_run_gets_its_own_number():
    seen = []
    audit_pipeline(lambda data, i: seen.append((data, i)), "a", "b", delta=0.0, n_runs=5)
    assert sorted(i for _, i in seen) == list(range(10))
    assert sum(data == "a" for data, _ in seen) == 5


class GatedAnswer(ReleaseLaw):
    """A noisy maximum that is withheld unless a noisy top count passes 9."""

    def probabilities(self, counts):
        passed = 1 / (1 + np.exp(2.0 * (9 - counts.max(axis=1))))[:, None]
        return np.hstack([passed * LaplaceNoisyMax(SCALE).probabilities(counts), 1 - passed])


def sampled_at_the_worst_pair(law, n_teachers, votes_per_unit=1, n_classes=2):
    # At a small delta the worst pair differs in events that 200,000 draws see.
    pair = audit_law(law, n_teachers, n_classes, votes_per_unit, delta=0.01)
    return audit_sampler(law, pair.counts, pair.neighbour_counts, 200_000, insecure_release_seed=1)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sampled_laws(n_classes):
    right = sampled_at_the_worst_pair(LaplaceNoisyMax(SCALE), 6, n_classes=n_classes)
    assert 0.5 * CLAIM < right.epsilon_lower < CLAIM
    # Planted: half the noise, two votes where one was claimed, votes that move only one count, a free gate.
    assert sampled_at_the_worst_pair(LaplaceNoisyMax(SCALE / 2), 6, n_classes=n_classes).caught(CLAIM)
    assert sampled_at_the_worst_pair(LaplaceNoisyMax(SCALE), 6, 2, n_classes=n_classes).caught(CLAIM)
    assert right.caught(1 / SCALE)
    gated = sampled_at_the_worst_pair(GatedAnswer(), 12, n_classes=n_classes)
    assert gated.caught(CLAIM)
    # A logistic gate of slope 2 costs 2, and no more is found.
    assert not gated.caught(CLAIM + 2)


def test_the_sampler_is_audited_at_the_system_generator_too():
    result = audit_sampler(LaplaceNoisyMax(SCALE), [6, 0], [5, 1], 50_000, confidence=1 - 1e-9)
    assert not result.caught(CLAIM)
    assert result.caught(0.3 * CLAIM)


# The whole pipeline: nine teachers with one record each, twenty public rows, close votes.
N_LABELS = 20
RECORDS = np.arange(9.0)[:, None]
FIVE_TO_FOUR = np.array([0] * 5 + [1] * 4)
FOUR_TO_FIVE = np.array([0] * 4 + [1] * 5)
PUBLIC = np.arange(float(N_LABELS))[:, None]


def released(labels, seed, scale=40.0):
    """Released labels of one fit. The score is how many are 1."""
    model = SubsampleAggregateClassifier(
        DecisionTreeClassifier(max_depth=1),
        DummyClassifier(strategy="most_frequent"),
        classes=[0, 1],
        n_teachers=9,
        law=LaplaceNoisyMax(scale),
        epsilon=4 * N_LABELS / scale,
        delta=1e-5,
        max_labels=N_LABELS,
        random_state=0,
        insecure_release_seed=seed,
    )
    return float(model.fit(RECORDS, labels, X_public=PUBLIC).labels_.labels.sum())


# Pure composition of Theorem 1: valid at every delta, for every accounting of the method.
PIPELINE_CLAIM = N_LABELS * 2 / 40.0


def test_a_right_pipeline_is_not_caught():
    result = audit_pipeline(released, FIVE_TO_FOUR, FOUR_TO_FIVE, delta=1e-5, n_runs=300)
    assert not result.caught(PIPELINE_CLAIM)


def test_a_pipeline_that_samples_another_scale_than_it_accounts_is_caught(plant):
    honest = sampling.integer_weights
    plant(sampling, "integer_weights", lambda law, counts: honest(LaplaceNoisyMax(0.01 * law.scale), counts))
    result = audit_pipeline(released, FIVE_TO_FOUR, FOUR_TO_FIVE, delta=1e-5, n_runs=300)
    assert result.caught(PIPELINE_CLAIM)


def test_a_pipeline_that_claims_too_large_a_scale_is_caught():
    result = audit_pipeline(
        lambda labels, i: released(labels, i, scale=1.0), FIVE_TO_FOUR, FOUR_TO_FIVE, delta=1e-5, n_runs=300
    )
    assert result.caught(PIPELINE_CLAIM)


def test_a_fixed_noise_seed_is_no_noise():
    """One repeated draw distinguishes the neighbours: the pipeline is broken, for every claim."""
    result = audit_pipeline(
        lambda labels, i: released(labels, 3, scale=5.0), FIVE_TO_FOUR, FOUR_TO_FIVE, delta=1e-5, n_runs=300
    )
    assert result.caught(PIPELINE_CLAIM)


@pytest.mark.parametrize(
    "call",
    [
        lambda: audit_pipeline(lambda d, i: i, 0, 1, delta=0.0, n_runs=1),
        lambda: audit_pipeline(lambda d, i: i, 0, 1, delta=2.0, n_runs=10),
        lambda: audit_pipeline(lambda d, i: i, 0, 1, delta=0.0, n_runs=10, confidence=1.0),
        lambda: audit_pipeline(lambda d, i: [i], 0, 1, delta=0.0, n_runs=10),
        lambda: audit_pipeline(lambda d, i: np.nan, 0, 1, delta=0.0, n_runs=10),
        lambda: audit_pipeline(lambda d, i: 0.0, 0, 1, delta=0.0, n_runs=10).caught(-1),
        lambda: audit_sampler(LaplaceNoisyMax(1.0), [1, 2], [1, 2, 0], 100),
        lambda: audit_sampler(LaplaceNoisyMax(1.0), [[1, 2]], [[2, 1]], 100),
        lambda: audit_sampler(LaplaceNoisyMax(1.0), [1, 2], [2, 1], 1),
        lambda: epsilon_lower_bound(11, 0, 10, delta=0.0, confidence=0.9),
        lambda: epsilon_lower_bound(0, np.nan, 10, delta=0.0, confidence=0.9),
    ],
)
def test_refusals(call):
    with pytest.raises(InvalidParameterError, match=r"\.$"):
        call()


def test_rare_outcomes_prove_nothing():
    result = audit_pipeline(lambda data, i: (data, i), 0, 1, delta=0.0, n_runs=100)
    assert (result.epsilon_lower, result.event) == (0.0, "no outcome was seen often enough")


def test_a_bar_is_shown_on_request(capsys):
    audit_pipeline(response(1.0), 0, 1, delta=0.0, n_runs=10, progress=True)
    shown = capsys.readouterr()
    assert "Auditing" in shown.err
    assert shown.out == ""
