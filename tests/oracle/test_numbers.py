"""Tiny worlds of numbers: every neighbour of every sum, whole runs, planted mistakes, and the theorem of intervals."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from dpensemble import LabelMomentsRegressor
from dpensemble.cost import GaussianCost, gaussian_mu
from dpensemble.methods import label_moments_regressor
from dpensemble.moments import MomentsSource, residuals
from dpensemble.moments.numbers import most_outside, outside_of_new
from dpensemble.moments.residuals import (
    NestedCounts,
    NumberRange,
    ResidualCounts,
    ResidualSum,
    Scale,
    TargetCounts,
    target_edges,
)
from dpensemble.moments.whole import WHOLE
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser
from tests.records import made_up_sums, records_behind

RANGE = NumberRange(0.0, 100.0)
#: Numbers beyond, at and inside the range.
TARGETS = (-5.0, 0.0, 30.0, 55.5, 100.0, 1e9, math.nan)
ROWS = np.array([[1.0, 0.0, 0.0], [-0.6, 0.8, 0.0], [7.0, -5.0, 1.0]])
PLAIN, LOGARITHMIC = Scale(RANGE, 40.0, 12.0), Scale(RANGE, 3.0, 0.7, shift=5.0)
CENTRE = np.array([0.5, -1.0, 0.25])
ENDS = np.array([[[-0.5, 0.5], [-1.0, 0.2]], [[-2.0, 0.5], [-1.0, 3.0]]])

QUERIES = {
    "residuals, plain": ResidualSum(PLAIN, None, 1.5),
    "residuals, centred": ResidualSum(LOGARITHMIC, CENTRE, 0.3),
    "residuals, tiny limit": ResidualSum(PLAIN, CENTRE, 1e-6),
    "targets": TargetCounts(False, RANGE, target_edges(RANGE)),
    "targets, bad ones counted": TargetCounts(True, RANGE, target_edges(RANGE)),
    "residuals by cell": ResidualCounts(False, PLAIN, CENTRE, np.array([-1.0, 0.0, 1.0]), np.array([0.1])),
    "residuals by cell, bad ones counted": ResidualCounts(True, LOGARITHMIC, CENTRE, np.zeros(1), np.zeros(0)),
    "nested": NestedCounts(False, PLAIN, CENTRE, np.array([0.1]), ENDS),
}


class _Seen(Exception):  # noqa: N818
    pass


class Watched(SumReleaser):
    """Reports the charge, and the sum to which noise would be added."""

    def charge_and_draw(self, query, total, share, *, weight=1.0):
        raise _Seen(total.copy(), query.sensitivity(self.relation))


def seen(query, records, relation, rows=ROWS):
    """Return the exact sum of records ``(row, target, weight)`` and the sensitivity that is charged."""
    ids = np.array([[record[0]] for record in records], dtype=np.int64).reshape(-1, 1)
    targets = RANGE.codes(np.array([record[1] for record in records], dtype=float))
    weights = np.array([record[2] for record in records], dtype=float)

    def transform(places):
        # A bad record has zeros.
        return rows[places[:, 0]]

    blocks = records_behind(transform, ids, targets, weights)
    blocks.features.zeroes_bad = True
    one = MomentsSource(blocks=blocks, nonnegative=False, sums=Watched(relation=relation, meter=None, noise=None))
    try:
        one.noisy_sum(query, 1.0)
    except _Seen as found:
        return found.args
    raise AssertionError


def units(most_records):
    for k in range(1, most_records + 1):
        kinds = list(product(range(3), TARGETS if k == 1 else (-5.0, 30.0, 1e9)))
        for records in product(kinds, repeat=k):
            yield [(row, target, 1 / k) for row, target in records]


def largest_ratio(query, relation, most_records=2):
    """Return the largest distance of neighbours' sums over the sensitivity, and how many pairs were tried."""
    others = [(0, 10.0, 1.0), (1, 90.0, 0.5), (2, 50.0, 0.5)]
    without, sensitivity = seen(query, others, relation)
    sums = [seen(query, [*unit, *others], relation)[0] for unit in units(most_records)]
    flat = np.array([(one - without).ravel() for one in sums], dtype=np.float64)
    if relation is Relation.ADD_OR_REMOVE_ONE:
        return np.linalg.norm(flat, axis=1).max() / sensitivity, len(flat)
    longest = max(np.linalg.norm(flat - one, axis=1).max() for one in np.unique(flat, axis=0))
    return longest / sensitivity, len(flat) ** 2


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", QUERIES)
def test_no_neighbour_moves_a_sum_by_more_than_is_charged(name, relation):
    ratio, pairs = largest_ratio(QUERIES[name], relation)
    assert pairs > 100
    # Attained, so that less noise would be too little. Two vectors of a sum need opposite rows to be so far apart.
    least = 0.85 if "residuals," in name and relation is Relation.REPLACE_ONE else 1 - 1e-5
    assert least < ratio <= 1 + 1e-14


def test_opposite_residuals_of_one_row_reach_the_sensitivity():
    low, high = (seen(QUERIES["residuals, plain"], [(0, y, 1.0)], Relation.REPLACE_ONE) for y in (0.0, 100.0))
    assert np.linalg.norm((low[0] - high[0]).astype(float)) / low[1] > 1 - 1e-5


def test_a_histogram_with_the_sensitivity_of_one_vector_is_caught(plant):
    plant(residuals.CellCounts, "replacing", WHOLE)
    assert largest_ratio(QUERIES["targets"], Relation.REPLACE_ONE, 1)[0] > 1.41


def test_a_scale_that_reads_other_records_is_caught(plant):
    """A planted bug: residuals around the mean of the block, which one record changes for all others."""
    of_codes = Scale.of_codes
    plant(residuals.Scale, "of_codes", lambda self, codes: (u := of_codes(self, codes)) - u.mean())
    ratios = [largest_ratio(QUERIES[name], Relation.REPLACE_ONE, 1)[0] for name in ("residuals, plain", "nested")]
    assert max(ratios) > 1.2


# Whole runs. What is released is made up, the same for all data sets, so that later sums have the same settings.
PUBLIC = np.random.default_rng(5).normal(size=(200, 2))
POINTS = np.array([[-1.5, 0.2], [1.5, -0.3], [0.1, 2.0]])
OTHERS = [[(0, 10.0)], [(1, 90.0), (2, 50.0)], [(2, 0.0)], [(1, 200.0)], [(0, 1.0), (0, 2.0), (1, 3.0)]]
CHANGED = [[(1, 1.0)], [(0, 99.0)], [(0, -3.0), (0, 40.0), (0, 70.0)], [(2, 33.0)] * 7, [(1, 0.0), (0, math.inf)]]


def totals(monkeypatch, units_of, relation, epsilons=None):
    """Run `fit` on units, each a list of ``(row, target)``, and return every exact sum, its query and sensitivity."""
    X = np.array([POINTS[row] for unit in units_of for row, _ in unit])
    y = np.array([target for unit in units_of for _, target in unit])
    names = [number for number, unit in enumerate(units_of) for _ in unit]
    personal = None if epsilons is None else [epsilons[number] for number in names]
    coverage = 0.5 if epsilons is None else None
    model = LabelMomentsRegressor(
        0, 100, proven_coverage=coverage, epsilon=50.0, delta=1e-3, relation=relation, on_bad_record="zero",
        insecure_release_seed=0,
    )  # fmt: skip
    with monkeypatch.context() as patch:
        found = made_up_sums(patch)
        patch.setattr("dpensemble.methods.label_moments_regressor.provable", lambda *_: True)
        people = np.arange(len(PUBLIC))
        model.fit(X, y, X_public=PUBLIC, units=names, public_units=people, personal_epsilons=personal)
    return found


@pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")
@pytest.mark.parametrize("relation", [one.value for one in Relation])
def test_whole_runs_charge_for_what_a_unit_can_do(monkeypatch, relation):
    runs = [totals(monkeypatch, [*OTHERS, unit], relation) for unit in CHANGED]
    if relation == Relation.ADD_OR_REMOVE_ONE.value:
        alone = totals(monkeypatch, OTHERS, relation)
        pairs = [(alone, run) for run in runs]
    else:
        pairs = list(product(runs, runs))
    ratios = [
        max(np.linalg.norm(one[number][0] - other[number][0]) / one[number][1] for one, other in pairs)
        for number in range(len(runs[0]))
    ]
    # The mean, counts of the target, three rounds, two laws, counts at the end and a proof. A private number, too.
    assert len(ratios) == 9 + (relation == Relation.ADD_OR_REMOVE_ONE.value)
    assert 0.9 < max(ratios) <= 1 + 1e-14


def weighted_ratios(monkeypatch, epsilons):
    """Return, for every sum of a run, the largest distance of neighbours' sums in sensitivities."""
    runs = [totals(monkeypatch, [*OTHERS, unit], "replace-one", epsilons) for unit in CHANGED]
    return [
        max(np.linalg.norm(one[number][0] - other[number][0]) / one[number][1] for one, other in product(runs, runs))
        for number in range(len(runs[0]))
    ]


# The last unit is the one that changes, and has the smallest budget.
EPSILONS = [2.0, 1.0, 1.0, 2.0, 2.0, 0.5]


@pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")
def test_whole_runs_weigh_units_by_their_budgets(monkeypatch):
    """A unit moves each sum by its part of the sensitivity only, which is its mu over the largest one."""
    ratios, part = weighted_ratios(monkeypatch, EPSILONS), gaussian_mu(0.5, 1e-3) / gaussian_mu(2.0, 1e-3)
    assert len(ratios) == 8
    assert 0.9 * part < max(ratios) <= part * (1 + 1e-12)


@pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")
def test_forgotten_weights_of_units_are_caught(monkeypatch, plant):
    weights = label_moments_regressor.weights_of_records

    def forgotten(*given):
        found, groups, total = weights(*given)
        return np.ones_like(found), groups, total

    plant(label_moments_regressor, "weights_of_records", forgotten)
    part = gaussian_mu(0.5, 1e-3) / gaussian_mu(2.0, 1e-3)
    assert max(weighted_ratios(monkeypatch, EPSILONS)) > 2 * part


def replacing_costs(relation):
    rng = np.random.default_rng(0)
    X, y, public = rng.normal(size=(300, 1)), rng.uniform(0, 100, 300), rng.normal(size=(250, 1))
    model = LabelMomentsRegressor(
        0, 100, proven_coverage=0.5, epsilon=8.0, delta=1e-4, relation=relation, insecure_release_seed=0
    ).fit(X, y, X_public=public)
    return model, model.student_.steps[-1][1].proof_["squares"]


def test_proofs_use_what_replacing_costs_under_both_relations():
    model, squares = replacing_costs("replace-one")
    sigmas = [charge["sigma"] for charge in model.charges_]
    assert squares == pytest.approx(sum(sigma**-2 for sigma in sigmas))
    model, squares = replacing_costs("add-or-remove-one")
    sigmas = [charge["sigma"] for charge in model.charges_]
    # A mean of signed features and clipped residuals count twice, histograms the root of 2, the number at most once.
    further = [1, 2, math.sqrt(2), 2, math.sqrt(2), 2, math.sqrt(2), 2, math.sqrt(2), math.sqrt(2)]
    assert squares == pytest.approx(sum((f / sigma) ** 2 for f, sigma in zip(further, sigmas, strict=True)))


# The theorem in a world that can be computed: units are coins, and the released "interval" is one of both sides.
def outside_by_majority(p, n, sigma):
    """Return the expected share of own units outside the published side, and the chance that a new unit is outside."""
    own = new = 0.0
    for heads in range(n + 1):
        weight = math.comb(n, heads) * p**heads * (1 - p) ** (n - heads)
        publish_heads = norm.cdf((heads - n / 2) / sigma)
        own += weight * (publish_heads * (1 - heads / n) + (1 - publish_heads) * heads / n)
        new += weight * (publish_heads * (1 - p) + (1 - publish_heads) * p)
    return own, new


def test_the_theorem_holds_in_every_world_of_coins():
    excess, of_less_mu = [], []
    for p, n, sigma in product((0.3, 0.5, 0.8), (1, 2, 5, 9), (0.2, 0.5, 1.0, 3.0)):
        own, new = outside_by_majority(p, n, sigma)
        # Replacing a coin moves the count by 1.
        excess.append(new - outside_of_new(own, GaussianCost(1 / sigma**2)))
        of_less_mu.append(new - outside_of_new(own, GaussianCost(0.16 / sigma**2)))
    assert max(excess) <= 1e-9
    # A single fair coin needs half of the privacy loss, so less than half promises too much.
    assert max(of_less_mu) > 0.01


def test_the_bound_is_inverted_on_the_safe_side():
    for coverage, mu in product((0.5, 0.9, 0.99), (0.1, 0.5, 2.0)):
        allowed = most_outside(coverage, GaussianCost(mu**2, 1e-7))
        assert outside_of_new(allowed, GaussianCost(mu**2, 1e-7)) <= 1 - coverage
        assert outside_of_new(allowed * 1.001 + 1e-12, GaussianCost(mu**2, 1e-7)) > (1 - coverage) * 0.999
    # The figure of the design: 6.1 % of own records prove 90 % at epsilon 1.
    assert most_outside(0.9, GaussianCost(0.268**2)) == pytest.approx(0.0607, abs=5e-4)
