"""Tiny worlds of teachers that answer with vectors: every neighbour, planted mistakes, and an audit from outside."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from dpensemble import SoftVotesClassifier
from dpensemble._random import SeededNoise
from dpensemble.accounting import Group
from dpensemble.audit import audit_pipeline
from dpensemble.cost import gaussian_mu
from dpensemble.guarantee import Budget
from dpensemble.moments import averages
from dpensemble.moments.averages import AnswerBound
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser, SumsMeter
from dpensemble.teachers import SoftTeacherEnsemble

ROWS = np.array([[-1.5, 0.2], [1.5, -0.3], [0.1, 2.0]])
PUBLIC = np.array([[-1.5, 0.2], [1.5, -0.3], [0.2, 1.9], [0.0, 0.0], [3.0, 3.0]])
#: Units of records ``(row, label)``, and what one of them may be next door.
OTHERS = [[(0, 1)], [(1, 0), (2, 1)], [(2, 0)], [(1, 1)], [(0, 0), (0, 0), (1, 0)], [(2, 1)], [(0, 0)]]
CHANGED = [
    [(1, 1)],
    [(0, 0), (1, 1), (2, 1)],
    [(0, 1), (1, 0), (2, 0)],
    [(0, 1)] * 3,
    [(2, 0)] * 7,
    [(1, 0), (0, 1)] * 9,
    [(1, 2), (0, 1), (2, 0)],
    [(1, 0), (0, 2), (2, 1)],
]
ANSWERS = {
    "trees": {"teacher": DecisionTreeClassifier(random_state=0)},
    "probabilities": {"teacher": None},
    "shortened": {"teacher": DecisionTreeClassifier(random_state=0), "clip": 0.2},
    "parameters": {"answers": "parameters", "teacher": LogisticRegression(C=1e3), "clip": 0.5},
    "parameters, batched": {"answers": "parameters", "clip": 1.0},
}


def sum_of(monkeypatch, units, relation, n_classes=2, epsilons=None, n_teachers=3, **settings):
    """Run `fit` on units, and return the exact sum and the charge for it. The release is made up."""
    found = []

    def made_up(self, query, total, share, *, weight=1.0):
        found.append((total.astype(np.float64), query.sensitivity(self.relation), self.meter))
        noisy = np.random.default_rng(0).normal(scale=1e8, size=total.shape)
        return query.read(noisy / query.unit / weight, 2**30 / query.unit / weight)

    X = np.array([ROWS[row] for unit in units for row, _ in unit])
    y = np.array([min(label, n_classes - 1) for unit in units for _, label in unit])
    names = [number for number, unit in enumerate(units) for _ in unit]
    personal = None if epsilons is None else [epsilons[number] for number in names]
    model = SoftVotesClassifier(
        classes=list(range(n_classes)),
        n_teachers=n_teachers,
        delta=1e-3,
        relation=relation,
        random_state=0,
        insecure_release_seed=0,
        **settings,
    )
    with monkeypatch.context() as patch:
        patch.setattr(SumReleaser, "charge_and_draw", made_up)
        model.fit(X, y, X_public=PUBLIC, units=names, personal_epsilons=personal)
    (one,) = found
    return one


def worst_ratio(monkeypatch, relation, place=3, **settings):
    """Return the largest distance of neighbours' sums in sensitivities."""
    if relation is Relation.REPLACE_ONE:
        worlds = [[*OTHERS[:place], unit, *OTHERS[place + 1 :]] for unit in [OTHERS[place], *CHANGED]]
        runs = [sum_of(monkeypatch, world, relation.value, **settings) for world in worlds]
        pairs = product(runs, runs)
    else:
        alone = sum_of(monkeypatch, OTHERS, relation.value, **settings)
        pairs = [(alone, sum_of(monkeypatch, [*OTHERS, unit], relation.value, **settings)) for unit in CHANGED]
    return max(np.linalg.norm(one[0] - other[0]) / one[1] for one, other in pairs)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ANSWERS)
def test_whole_runs_charge_for_what_a_unit_can_do(monkeypatch, kind, n_classes, relation):
    ratios = [worst_ratio(monkeypatch, relation, place, n_classes=n_classes, **ANSWERS[kind]) for place in (0, 3)]
    assert 0.05 < max(ratios) <= 1 + 1e-12
    # One unit of several records can turn every answer of a teacher, so that less noise would be too little.
    if kind == "trees" and relation is Relation.REPLACE_ONE:
        assert max(ratios) > 0.7


def test_the_worst_case_is_attained(monkeypatch):
    """Two units whose only teachers are they, and who disagree on every public row."""
    tree = {"teacher": DecisionTreeClassifier(random_state=0), "n_teachers": 2}
    units = ([(0, 0), (1, 1), (2, 1)], [(0, 1), (1, 0), (2, 0)])
    first, second = (sum_of(monkeypatch, [unit, *OTHERS[:1]], "replace-one", **tree) for unit in units)
    assert np.linalg.norm(first[0] - second[0]) / first[1] == pytest.approx(1, rel=1e-6)


def test_whole_runs_weigh_units_by_their_budgets(monkeypatch):
    epsilons = [2.0, 0.5, 2.0, 0.5, 0.5, 2.0, 2.0]
    part = gaussian_mu(0.5, 1e-3) / gaussian_mu(2.0, 1e-3)
    for kind in ("trees", "parameters"):
        settings = ANSWERS[kind] | {"epsilons": epsilons, "n_teachers": 4}
        strict = worst_ratio(monkeypatch, Relation.REPLACE_ONE, 3, **settings)
        lenient = worst_ratio(monkeypatch, Relation.REPLACE_ONE, 0, **settings)
        assert 0.1 * part < strict <= part * (1 + 1e-12)
        assert part < lenient <= 1 + 1e-12
    meter = sum_of(monkeypatch, OTHERS, "replace-one", **settings)[2]
    assert [group.weight for group in meter.groups] == pytest.approx([part, 1.0])


def test_a_teacher_that_sees_others_records_is_caught(monkeypatch, plant):
    honest = SoftTeacherEnsemble.probabilities

    def leaking(self, X):
        turned = int(1e6 * self._shares[:, 0].sum()) % 2
        for found in honest(self, X):
            yield 1 - found if turned else found

    tree = ANSWERS["trees"]
    assert worst_ratio(monkeypatch, Relation.REPLACE_ONE, **tree) <= 1
    plant(SoftTeacherEnsemble, "probabilities", leaking)
    assert worst_ratio(monkeypatch, Relation.REPLACE_ONE, **tree) > 1.2


def test_a_forgotten_clip_is_caught(monkeypatch, plant):
    def forgotten(self, answers, weights):
        return np.trunc(answers * averages._UNIT).astype(np.int64)

    plant(AnswerBound, "whole", forgotten)
    for kind in ("shortened", "parameters"):
        assert worst_ratio(monkeypatch, Relation.REPLACE_ONE, **ANSWERS[kind]) > 1.5


# An audit from outside: one teacher, whose answer is the opposite one next door.
AUDITED = Budget(epsilon=1.0, delta=0.05)


class AlreadyPriced:
    def __init__(self, factor):
        self._sigma = factor * SumsMeter([Group("everyone", AUDITED)]).sigma(1.0)

    def sigma(self, share):
        return self._sigma

    def charge(self, sigma, *, variance, entries):
        pass


def proven(kind, n_runs, factor=1.0):
    mu, meter = gaussian_mu(AUDITED.epsilon, AUDITED.delta), AlreadyPriced(factor)
    bound = {
        "two classes": AnswerBound.of_probabilities(1, 2, clip=1.0),
        "three classes": AnswerBound.of_probabilities(1, 3, clip=1.0),
    }[kind]
    answers = {
        "two classes": [[-0.5], [0.5]],
        "three classes": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    }[kind]
    ends = bound.whole(np.array(answers), np.ones(2)) / averages._UNIT
    way = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
    threshold = ends[0] @ way + 1.58 / mu * bound.distance

    def attacked(label, i):
        chunk = [np.array([answers[label]])]
        sums = SumReleaser(relation=Relation.REPLACE_ONE, meter=meter, noise=SeededNoise(i))
        return float(bound.noisy_average(chunk, np.ones(1), sums)[0] @ way)

    return audit_pipeline(
        attacked, 1, 0, delta=AUDITED.delta, n_runs=n_runs, confidence=0.99, event=lambda score: score > threshold
    )


@pytest.mark.parametrize("kind", ["two classes", "three classes"])
def test_an_attacker_proves_most_of_epsilon_but_no_more(kind):
    result = proven(kind, 20_000)
    assert 0.8 * AUDITED.epsilon < result.epsilon_lower <= AUDITED.epsilon
    assert not result.caught(AUDITED.epsilon)


def test_an_attacker_finds_noise_that_is_too_small():
    assert proven("two classes", 6000, factor=0.7).caught(AUDITED.epsilon)


def test_the_audited_event_is_as_likely_as_claimed():
    mu = gaussian_mu(AUDITED.epsilon, AUDITED.delta)
    p, q = norm.sf(1.58 - mu), norm.sf(1.58)
    assert 0.95 < math.log((p - AUDITED.delta) / q) <= 1
