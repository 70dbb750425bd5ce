"""Whole runs of discriminant analysis: every pair of neighbouring units, hostile rows, and planted mistakes."""

from itertools import product

import numpy as np
import pytest

from dpensemble.methods import DiscriminantClassifier
from dpensemble.methods import discriminant as steps
from dpensemble.moments import discriminant
from dpensemble.moments.discriminant import ClassMeans
from dpensemble.moments.whole import UNIT, WHOLE
from dpensemble.releases import SumReleaser

RELATIONS = ["replace-one", "add-or-remove-one"]
PUBLIC = np.random.default_rng(5).normal(size=(200, 2))
#: Rows that units hold, the last ones far outside of what is public.
ROWS = np.array([[-1.5, 0.2], [1.5, -0.3], [0.1, 2.0], [1e300, -1e300], [-9.0, 1e9]])
OTHERS = [[(0, 1)], [(1, 0), (2, 1)], [(2, 0)], [(1, 1)], [(0, 0), (0, 0), (1, 0)], [(2, 1)]]
CHANGED = [
    *([(row, label)] for row, label in product(range(len(ROWS)), range(2))),
    [(0, 1), (0, 1), (0, 1)],
    [(3, 0), (4, 1)],
    [(2, 0)] * 7,
]


def totals(monkeypatch, units_of, relation, seed):
    """Run `fit` on units, each a list of ``(row, label)``, and return every exact sum and its sensitivity.

    What is released is made up, the same for all data sets, so that later sums have the same centres.
    """
    sums = []

    def made_up(self, query, total, share, *, weight=1.0):
        sums.append((total.astype(np.float64), query.sensitivity(self.relation)))
        rng = np.random.default_rng(10 * seed + len(sums))
        noisy = rng.normal(scale=WHOLE, size=total.shape) + 5 * WHOLE
        return query.read(noisy / query.unit / weight, 2**30 / query.unit / weight)

    X = np.array([ROWS[row] for unit in units_of for row, _ in unit])
    y = np.array([label for unit in units_of for _, label in unit])
    names = [number for number, unit in enumerate(units_of) for _ in unit]
    model = DiscriminantClassifier(classes=[0, 1], delta=1e-3, relation=relation, insecure_release_seed=0)
    with monkeypatch.context() as patch:
        patch.setattr(SumReleaser, "charge_and_draw", made_up)
        model.fit(X, y, X_public=PUBLIC, units=names)
    return sums


def ratios(monkeypatch, relation, seed=0):
    """Return, for every sum, the largest distance of neighbours in sensitivities."""
    runs = [totals(monkeypatch, [*OTHERS, unit], relation, seed) for unit in CHANGED]
    alone = totals(monkeypatch, OTHERS, relation, seed)
    pairs = list(product(runs, runs)) if relation == "replace-one" else [(alone, run) for run in runs]
    return [
        max(np.linalg.norm(one[number][0] - other[number][0]) / one[number][1] for one, other in pairs)
        for number in range(3)
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("relation", RELATIONS)
def test_whole_runs_charge_for_what_a_unit_can_do(monkeypatch, relation, seed):
    found = ratios(monkeypatch, relation, seed)
    assert max(found) <= 1 + 1e-14
    # No sum is charged for far more than happens.
    assert min(found[:2]) > 0.5


@pytest.mark.parametrize("relation", RELATIONS)
def test_forgotten_weights_of_units_are_caught(monkeypatch, plant, relation):
    prepare = steps.DiscriminantSteps.prepare

    def forgotten(self):
        prepare(self)
        self._weights = np.ones_like(self._weights)

    plant(steps.DiscriminantSteps, "prepare", forgotten)
    assert max(ratios(monkeypatch, relation)) > 1.5


def test_points_that_are_not_cut_are_caught(monkeypatch, plant):
    plant(discriminant, "bounded_features", lambda features: np.trunc(features * UNIT))
    assert max(ratios(monkeypatch, "replace-one")) > 1.5


def test_a_sensitivity_of_one_for_means_is_caught(monkeypatch, plant):
    plant(ClassMeans, "replacing", WHOLE)
    assert ratios(monkeypatch, "replace-one")[0] > 1.4


def test_rows_of_very_many_columns_are_read_alone():
    rng = np.random.default_rng(0)
    rows = 64 * np.sign(rng.normal(size=(300, 3000)))
    public = discriminant.PublicDirections.of(rng.normal(size=(60, 3000)))
    together = public.points(rows)
    for place in range(0, 300, 37):
        assert np.array_equal(public.points(rows[place : place + 1])[0], together[place])
    order = rng.permutation(300)
    assert np.array_equal(public.points(rows[order]), together[order])


def test_without_units_equal_records_add_a_vector_each(monkeypatch):
    X, y = np.repeat(ROWS[:2], 30, axis=0), np.repeat([0, 1], 30)
    sizes = []
    read = ClassMeans.read

    def noted(self, sums, spread):
        sizes.append(sums[0] * UNIT / 11_586)
        return read(self, sums, spread)

    monkeypatch.setattr(ClassMeans, "read", noted)
    for relation in RELATIONS:
        model = DiscriminantClassifier(
            classes=[0, 1], epsilon=1e6, delta=1e-3, relation=relation, insecure_release_seed=0
        )
        model.fit(X, y, X_public=PUBLIC)
    assert np.allclose(sizes, 30, atol=0.1)
