"""Tiny worlds of label moments: every neighbour, hostile maps, planted mistakes, and an audit from outside."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm

from dpensemble import moments
from dpensemble._random import SeededNoise
from dpensemble.accounting import Group
from dpensemble.audit import audit_pipeline
from dpensemble.cost import gaussian_mu
from dpensemble.errors import DataError
from dpensemble.guarantee import Budget
from dpensemble.methods import label_moments
from dpensemble.methods.label_moments import LabelMomentsClassifier
from dpensemble.moments import MomentsSource, learning
from dpensemble.moments.learning import FeatureMean, FeatureProducts, Residuals, UnitCount
from dpensemble.moments.maps import curved
from dpensemble.moments.maps.curved import CurvedMap
from dpensemble.moments.whole import UNIT, WHOLE, bounded_features
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser, SumsMeter
from dpensemble.rows import passes as blocks
from tests.records import records_behind, whole_blocks

S = math.sqrt(0.5)
#: The values of a public map at rows 0, 1 and 2.
MAPS = {
    "corners": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]],
    "opposite": [[S, -S, 0.0], [-S, S, 0.0], [0.0, 0.0, 0.0]],
    "long": [[3.0, 1.0, -2.0], [-5.0, 4.0, 1.0], [1.0, 1.0, 1.0]],
    "float32": np.float32([[1 / 3, 2 / 3, 2 / 3], [0.6, 0.8, 0.0], [-2 / 7, 3 / 7, 6 / 7]]).tolist(),
    "denormal": [[5e-324, 1e-310, -5e-324], [1.0, 1e-310, 0.0], [-1.0, 0.0, 5e-324]],
    "huge": [[1e300, -1e300, 1e300], [-1e300, 1e-300, 1e300], [1e308, 1e308, 1e308]],
}
ROUNDS = ["class sums or even shares", "residuals", "weighted residuals"]

# Made-up worlds and mocked releases differ from their public rows, and users are warned of such rows.
pytestmark = [
    pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning"),
    pytest.mark.filterwarnings("ignore:the test cannot decide whether public rows look:UserWarning"),
]


class _Seen(Exception):  # noqa: N818
    pass


class Watched(SumReleaser):
    """Reports the charge, and the sum to which noise would be added."""

    def charge_and_draw(self, query, total, share, *, weight=1.0):
        raise _Seen(total.copy(), query.sensitivity(self.relation))


def in_whole_units(query, noisy, weight):
    """Return what a query reads from a noisy sum in whole units, whose noise has the variance 2**60."""
    return query.read(noisy.astype(float) / query.unit / weight, 2**30 / query.unit / weight)


def seen(records, *, rows, thin, n_classes, relation, kind, nonnegative=True, centre=None, scale=None):
    """Return the exact sum of records ``(row, label, weight)`` and the sensitivity that is charged."""
    table = np.asarray(rows, dtype=np.float64)

    def transform(ids):
        found = table[ids[:, 0]]
        return sparse.csr_matrix(found) if thin else found

    ids = np.array([[record[0]] for record in records], dtype=np.int64).reshape(-1, 1)
    labels = np.array([record[1] for record in records], dtype=np.int64)
    weights = np.array([record[2] for record in records], dtype=np.float64)
    one = MomentsSource(
        blocks=records_behind(transform, ids, labels, weights),
        nonnegative=nonnegative,
        sums=Watched(relation=relation, meter=None, noise=None),
    )
    residuals = Residuals(n_classes, centre, scale if kind == ROUNDS[2] else None)
    try:
        one.noisy_sum(one.first_query(n_classes) if kind == ROUNDS[0] else residuals, 1.0)
    except _Seen as found:
        return found.args
    raise AssertionError


def units(n_classes, weight, most_records):
    """All units of at most `most` records, whose weights add up to the unit's."""
    kinds = list(product(range(3), range(n_classes)))
    for k in range(1, most_records + 1):
        for records in product(kinds, repeat=k):
            yield [(row, label, weight * (1 / k)) for row, label in records]


def largest_ratio(rows, *, thin, n_classes, relation, kind, nonnegative, weight=1.0, most_records=2, seed=0):
    """Return the largest distance of neighbours' sums, over the charge for a unit of that weight, and the pairs."""
    rng = np.random.default_rng(seed)
    width = 1 if n_classes == 2 else n_classes
    size = (0.0, 1.0, 4.0, 300.0)[seed % 4]
    world = {
        "rows": rows,
        "thin": thin,
        "n_classes": n_classes,
        "relation": relation,
        "kind": kind,
        "nonnegative": nonnegative,
        "centre": size * rng.normal(size=(3, width)),
        "scale": np.array([0.5, 1.0, 7.0]) if seed % 2 else rng.exponential(size=3),
    }
    others = [(0, 0, 1.0), (1, 1, 0.5), (2, 1, 0.5)]
    without, sensitivity = seen(others, **world)
    sums = [seen([*unit, *others], **world)[0] for unit in units(n_classes, weight, most_records)]
    flat = np.array([(one - without).ravel() for one in sums], dtype=np.float64)
    if relation is Relation.ADD_OR_REMOVE_ONE:
        longest, pairs = np.linalg.norm(flat, axis=1).max(), len(flat)
    else:
        # Whole numbers below 2**35: differences are exact, and squares are to sixteen digits.
        longest = max(np.linalg.norm(flat - one, axis=1).max() for one in flat)
        pairs = len(flat) ** 2
    return longest / (sensitivity * weight), pairs


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_neighbour_moves_a_sum_by_more_than_is_charged(n_classes, thin, relation):
    ratios, pairs = {}, 0
    worlds = [
        (ROUNDS[0], False, 0),
        (ROUNDS[0], True, 0),
        (ROUNDS[1], True, 0),
        (ROUNDS[1], True, 1),
        (ROUNDS[2], True, 1),
    ]
    for (name, rows), (kind, nonnegative, seed) in product(MAPS.items(), worlds):
        ratios[name, kind, nonnegative, seed], n_pairs = largest_ratio(
            rows,
            thin=thin,
            n_classes=n_classes,
            relation=relation,
            kind=kind,
            nonnegative=nonnegative,
            most_records=2 if n_classes == 2 and seed == 0 else 1,
            seed=seed,
        )
        pairs += n_pairs
    assert max(ratios.values()) <= 1 + 1e-14
    # Attained, so that less noise would be too little: for class sums and for residuals.
    for kind, nonnegative in ((ROUNDS[0], False), (ROUNDS[0], True), (ROUNDS[1], True)):
        assert max(r for key, r in ratios.items() if key[1:3] == (kind, nonnegative)) > 1 - 1e-5
    assert pairs > 1000 if relation is Relation.REPLACE_ONE else pairs > 100


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("weight", [1.0, 1 / 3, 0.017])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_unit_of_several_records_moves_a_sum_by_more_than_its_weight(n_classes, weight, relation):
    worst = 0.0
    for rows, thin, kind, seed in product(MAPS.values(), (False, True), ROUNDS, range(4)):
        ratio, _ = largest_ratio(
            rows,
            thin=thin,
            n_classes=n_classes,
            relation=relation,
            kind=kind,
            nonnegative=True,
            weight=weight,
            most_records=3 if n_classes == 2 and seed == 1 else 2,
            seed=seed,
        )
        worst = max(worst, ratio)
    # Small weights lose up to a whole unit in 2**20.
    assert 1 - 1e-3 < worst <= 1 + 1e-12


def without_clip(thin):
    def forgotten(features):
        if sparse.issparse(features) != thin:
            return bounded_features(features)
        found = sparse.csr_matrix(features) if thin else np.asarray(features)
        return found.multiply(UNIT).tocsr() if thin else np.trunc(found * UNIT)

    return forgotten


@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
def test_a_forgotten_clip_is_caught(plant, thin):
    plant(blocks, "bounded_features", without_clip(thin))
    settings = {"n_classes": 2, "relation": Relation.REPLACE_ONE, "nonnegative": True, "most_records": 1}
    for kind in ROUNDS[:2]:
        assert largest_ratio(MAPS["long"], thin=thin, kind=kind, **settings)[0] > 1.5
        # The other path is as it was.
        assert largest_ratio(MAPS["long"], thin=not thin, kind=kind, **settings)[0] <= 1


def test_a_sensitivity_of_one_for_class_sums_is_caught(plant):
    plant(learning.ClassSums, "replacing", WHOLE)
    settings = {"thin": False, "n_classes": 2, "relation": Relation.REPLACE_ONE, "nonnegative": True}
    assert largest_ratio(MAPS["corners"], kind=ROUNDS[0], **settings)[0] > 1.41
    assert largest_ratio(MAPS["corners"], kind=ROUNDS[1], **settings)[0] <= 1


# Whole runs. What is released is made up, the same for all data sets, so that later rounds have the same centres.
PUBLIC = np.random.default_rng(5).normal(size=(200, 2))
#: Public rows, so few of them that synthetic ones are drawn, and none.
WAYS = {
    "many": {"public": PUBLIC},
    "few": {"public": PUBLIC[:40]},
    "none": {"declared_columns": {0: (-2.5, 2.0), 1: (-1, 2)}},
}
ROWS = np.array([[-1.5, 0.2], [1.5, -0.3], [0.1, 2.0]])


def totals(monkeypatch, units_of, relation="replace-one", epsilons=None, n_classes=2, public=None, **settings):
    """Run `fit` on units, each a list of ``(row, label)``, and return every exact sum and its sensitivity."""
    found = []

    def made_up(self, query, total, share, *, weight=1.0):
        found.append((total.astype(np.float64), query.sensitivity(self.relation)))
        noisy = np.random.default_rng(len(found)).normal(scale=WHOLE, size=total.shape) + 5 * WHOLE
        return in_whole_units(query, noisy, weight)

    X = np.array([ROWS[row] for unit in units_of for row, _ in unit])
    y = np.array([label for unit in units_of for _, label in unit])
    names = [number for number, unit in enumerate(units_of) for _ in unit]
    public = PUBLIC if public is None and "declared_columns" not in settings else public
    personal = None if epsilons is None else [epsilons[number] for number in names]
    model = LabelMomentsClassifier(
        classes=list(range(n_classes)), rounds=2, delta=1e-3, relation=relation, insecure_release_seed=0, **settings
    )
    with monkeypatch.context() as patch:
        patch.setattr(SumReleaser, "charge_and_draw", made_up)
        patch.setattr(moments.learning, "_SYNTHETIC_ROWS", 100)
        # Each public row is a person, so that the comparison of public rows can decide.
        people = None if public is None else np.arange(len(public))
        model.fit(X, y, X_public=public, units=names, public_units=people, personal_epsilons=personal)
    return found, model


OTHERS = [[(0, 1)], [(1, 0), (2, 1)], [(2, 0)], [(1, 1)], [(0, 0), (0, 0), (1, 0)], [(2, 1)]]
CHANGED = [[(1, 1)], [(0, 0)], [(0, 1), (0, 1), (0, 1)], [(2, 0)] * 7, [(1, 0), (0, 1)]]


def ratios_of_runs(monkeypatch, relation, epsilons=None, **settings):
    """Return, for every round, the largest distance of neighbours' sums in sensitivities."""
    if relation == "add-or-remove-one":
        alone = totals(monkeypatch, OTHERS, relation, **settings)[0]
        runs = [totals(monkeypatch, [*OTHERS, unit], relation, **settings)[0] for unit in CHANGED]
        pairs = [(alone, run) for run in runs]
    else:
        runs = [totals(monkeypatch, [*OTHERS, unit], relation, epsilons, **settings)[0] for unit in CHANGED]
        pairs = list(product(runs, runs))
    return [
        max(np.linalg.norm(one[number][0] - other[number][0]) / one[number][1] for one, other in pairs)
        for number in range(len(runs[0]))
    ]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("relation", [one.value for one in Relation])
@pytest.mark.parametrize("way", WAYS)
def test_whole_runs_charge_for_what_a_unit_can_do(monkeypatch, way, relation, n_classes):
    ratios = ratios_of_runs(monkeypatch, relation, n_classes=n_classes, **WAYS[way])
    # Two rounds, shares of cells, and what goes with what. A private number of units is released, too. Many public rows
    # raise an alarm after a mean of features.
    assert len(ratios) == 4 + (relation == "add-or-remove-one") + (way == "many")
    assert 0.3 < max(ratios) <= 1 + 1e-14


@pytest.fixture
def few_landmarks(monkeypatch):
    """Choose 30 landmarks among 1,000 public rows for few units, so that each of many runs is quick.

    Few units are few cases, and landmarks would be left out, so no number of cases counts as few.
    """
    monkeypatch.setattr("dpensemble.moments.maps.tables._FEW_RECORDS", 0)
    monkeypatch.setattr("dpensemble.moments.maps.tables._CASES", -1e9)
    monkeypatch.setattr(curved, "_MOST_SHARE", 0.03)


@pytest.mark.usefixtures("few_landmarks")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("relation", [one.value for one in Relation])
def test_whole_runs_with_landmarks_charge_for_what_a_unit_can_do(monkeypatch, relation, n_classes):
    """Made-up sums would raise an alarm and lead to synthetic rows, so alarms are switched off."""
    monkeypatch.setattr(moments.public_rows, "_FALSE_ALARM", -1.0)
    public = np.random.default_rng(5).normal(size=(1000, 2))
    ratios = ratios_of_runs(monkeypatch, relation, n_classes=n_classes, public=public)
    # The number of units if it is private, the mean of the base map, the shares of two classes, and two rounds of class
    # sums.
    assert len(ratios) == 3 + (relation == "add-or-remove-one") + (n_classes == 2)
    assert 0.3 < max(ratios[-2:]) <= 1 + 1e-14
    assert max(ratios) <= 1 + 1e-14


@pytest.mark.usefixtures("few_landmarks")
@pytest.mark.parametrize("relation", [one.value for one in Relation])
def test_whole_runs_with_rare_cases_charge_for_what_a_unit_can_do(monkeypatch, relation):
    monkeypatch.setattr(moments.public_rows, "_FALSE_ALARM", -1.0)
    monkeypatch.setattr("dpensemble.moments.maps.tables._CASES", 1e9)
    public = np.random.default_rng(5).normal(size=(1000, 2))
    ratios = ratios_of_runs(monkeypatch, relation, public=public)
    shares = 1 + (relation == "add-or-remove-one")
    assert len(ratios) == shares + 3
    # The shares of two units of different classes are as far apart as two may be.
    assert ratios[shares] == pytest.approx(1.0)
    assert 0.3 < max(ratios[-2:]) <= 1 + 1e-14
    assert max(ratios) <= 1 + 1e-14


@pytest.mark.usefixtures("few_landmarks")
def test_signed_landmark_features_are_caught(monkeypatch, plant):
    """A planted bug: class sums of the signed features of the base map, which nothing cuts."""
    monkeypatch.setattr(moments.public_rows, "_FALSE_ALARM", -1.0)
    plant(moments.learning, "cut", lambda features: features)
    plant(CurvedMap, "transform", lambda self, X: self.base_.transform(X))
    public = np.random.default_rng(5).normal(size=(1000, 2))
    assert max(ratios_of_runs(monkeypatch, "replace-one", public=public)) > 1.01


@pytest.mark.parametrize("way", WAYS)
def test_whole_runs_weigh_units_by_their_budgets(monkeypatch, way):
    epsilons = [2.0, 1.0, 1.0, 2.0, 0.5, 2.0, 0.5]
    ratios = ratios_of_runs(monkeypatch, "replace-one", epsilons, **WAYS[way])
    part = gaussian_mu(0.5, 1e-3) / gaussian_mu(2.0, 1e-3)
    assert 0.3 * part < max(ratios) <= part * (1 + 1e-12)


def test_forgotten_weights_of_units_are_caught(monkeypatch, plant):
    weights = label_moments.weights_of_records

    def forgotten(*given):
        found, groups, total = weights(*given)
        return np.ones_like(found), groups, total

    plant(label_moments, "weights_of_records", forgotten)
    for relation in Relation:
        assert max(ratios_of_runs(monkeypatch, relation.value)) > 1.5


def test_a_centre_from_private_labels_is_caught(monkeypatch, plant):
    release = MomentsSource.noisy_sum

    def private(self, query, share, total_weight=1.0, **more):
        centre = getattr(query, "centre", None)
        if centre is None:
            return release(self, query, share, total_weight, **more)
        seen_labels = np.concatenate([block.targets for block in whole_blocks(self.blocks)])
        steep = 1e3 * (seen_labels.mean() - 0.45)
        # The published parts stay the same. Only the sum changes.
        found = release(self, replace(query, centre=centre * 0 + steep), share, total_weight, **more)
        return replace(found, centre=centre)

    plant(MomentsSource, "noisy_sum", private)
    public = np.random.default_rng(5).normal(size=(1000, 2))
    assert max(ratios_of_runs(monkeypatch, "replace-one", public=public)) > 1.01


def test_a_count_that_is_not_charged_is_caught(monkeypatch, plant):
    def rounds_and_sums():
        run = totals(monkeypatch, OTHERS, "add-or-remove-one")
        X, y = ROWS[[0, 1, 2] * 4], [0, 1, 1] * 4
        model = LabelMomentsClassifier(
            classes=[0, 1], rounds=2, delta=1e-3, relation="add-or-remove-one", insecure_release_seed=0
        ).fit(X, y, X_public=PUBLIC)
        return len(run[0]), model.spend_[-1][0]

    # What is made up raises an alarm, after which there are two sums more.
    assert rounds_and_sums() == (6, 4)

    release = MomentsSource.noisy_sum

    def exact(self, query, share, total_weight=1.0, **more):
        if isinstance(query, UnitCount):
            return float(sum(len(block.weights) for block in whole_blocks(self.blocks))), 0.0
        return release(self, query, share, total_weight, **more)

    plant(MomentsSource, "noisy_sum", exact)
    assert rounds_and_sums() == (5, 3)


# An audit from outside: one record with one feature, whose label is the other one next door.
AUDITED = Budget(epsilon=1.0, delta=0.05)


class AlreadyPriced:
    """The noise of a whole budget, computed once, since tens of thousands of meters would take minutes."""

    def __init__(self, factor):
        meter = SumsMeter([Group("everyone", AUDITED)])
        self._sigma = factor * meter.sigma(1.0)

    def sigma(self, share):
        return self._sigma

    def charge(self, sigma, *, variance, entries):
        pass


def attacked(label, i, *, kind, meter):
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])[[label if kind == "class sums" else 0]]
    if kind != "class sums":
        rows = rows[:, :1]
    weight = float(label) if kind == "count" else 1.0
    one = MomentsSource(
        blocks=records_behind(lambda rows: rows, rows, np.array([label]), np.array([weight])),
        nonnegative=kind == "class sums",
        sums=SumReleaser(relation=Relation.REPLACE_ONE, meter=meter, noise=SeededNoise(i)),
    )
    if kind == "count":
        return one.noisy_sum(UnclippedCount(), 1.0)
    found = one.noisy_sum(one.first_query(2) if kind == "class sums" else Residuals(2), 1.0)
    if kind == "class sums":
        # (feature, class): from (0, 0) to (1, 1).
        of_second = found.mean / 2 + found.values[:, 0]
        return float(of_second[1] - (found.mean - of_second)[0]) / math.sqrt(2)
    return float(found.values[0, 0])


class UnclippedCount(UnitCount):
    """The number without its lower end, which would hide the noise from the attacker."""

    def read(self, sums, spread):
        return float(sums[0, 0])

    def table(self, outcome):
        return None


def proven(kind, n_runs, factor=1.0):
    mu, meter = gaussian_mu(AUDITED.epsilon, AUDITED.delta), AlreadyPriced(factor)
    # The best half-line for this many runs, from the claimed distribution, fixed beforehand.
    lower = {"class sums": -S, "residuals": -0.5, "count": 0.0}[kind]
    threshold = lower + 1.58 / mu * (1.0 if kind != "class sums" else math.sqrt(2))
    return audit_pipeline(
        lambda label, i: attacked(label, i, kind=kind, meter=meter),
        1,
        0,
        delta=AUDITED.delta,
        n_runs=n_runs,
        confidence=0.99,
        event=lambda score: score > threshold,
    )


@pytest.mark.parametrize("kind", ["class sums", "residuals", "count"])
def test_an_attacker_proves_most_of_epsilon_but_no_more(kind):
    """The worst pair with noise of the library, a false-alarm rate of one per cent, and a fixed seed."""
    result = proven(kind, 20_000)
    assert 0.8 * AUDITED.epsilon < result.epsilon_lower <= AUDITED.epsilon
    assert not result.caught(AUDITED.epsilon)


def test_an_attacker_finds_noise_that_is_too_small():
    assert proven("residuals", 6000, factor=0.7).caught(AUDITED.epsilon)


def test_the_audited_event_is_as_likely_as_claimed():
    """What the audit above would find with runs without end."""
    mu = gaussian_mu(AUDITED.epsilon, AUDITED.delta)
    p, q = norm.sf(1.58 - mu), norm.sf(1.58)
    assert 0.95 < math.log((p - AUDITED.delta) / q) <= 1


def test_a_row_answers_alike_whoever_else_is_there():
    """Scores of a row must not depend on how many rows are in its block."""
    rng = np.random.default_rng(3)
    features = bounded_features(rng.normal(size=(6667, 50))) / UNIT
    centre = rng.normal(size=(50, 3))
    few, more = (moments.whole.centres_and_weights(centre, features[:n], 3, 1.0) for n in (6666, 6667))
    assert np.array_equal(few[0], more[0][:6666])
    assert np.array_equal(few[1], more[1][:6666])


def test_a_units_number_of_records_shows_nowhere(monkeypatch):
    """The same sums released: outputs must not reveal how many records a unit has."""
    outputs = [totals(monkeypatch, [*OTHERS, [(0, 1)] * k])[1] for k in (1, 49)]
    assert np.array_equal(outputs[0].moments_[0].values, outputs[1].moments_[0].values)


ANY_WAY = np.vstack([np.eye(2), -np.eye(2), [[0.6, -0.8]], [[3.0, 4.0]], [[0.5, 0.5]]])


def means_of_neighbours(monkeypatch, query, relation, *, nonnegative):
    """Return the distances, in what is charged, of sums of all neighbours of two-unit data sets, before the noise."""
    seen = []

    def noisy(self, query, total, share, *, weight=1.0):
        seen.append((total.astype(float), query.sensitivity(self.relation)))
        return in_whole_units(query, total, weight)

    monkeypatch.setattr(SumReleaser, "charge_and_draw", noisy)

    def total(picked):
        X, n = ANY_WAY[list(picked)], len(picked)
        blocks = records_behind(lambda part: part, X, np.zeros(n, dtype=np.int64), np.ones(n))
        releaser = SumReleaser(relation=relation, meter=None, noise=None)
        MomentsSource(blocks=blocks, nonnegative=nonnegative, sums=releaser).noisy_sum(query, 0.5, float(n))
        return seen[-1]

    ratios = []
    for first, second, other in product(range(len(ANY_WAY)), repeat=3):
        sum_here, charged = total([first, second])
        neighbour = [first, other] if relation is Relation.REPLACE_ONE else [first]
        ratios.append(np.linalg.norm(sum_here - total(neighbour)[0]) / charged)
    return ratios


QUERIES = {
    ("mean", False): FeatureMean(nonnegative=False),
    ("mean", True): FeatureMean(nonnegative=True),
    ("products", False): FeatureProducts(),
}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("release", "nonnegative"), [("mean", False), ("mean", True), ("products", False)])
def test_released_means_charge_for_what_a_unit_can_do(monkeypatch, release, nonnegative, relation):
    ratios = means_of_neighbours(monkeypatch, QUERIES[release, nonnegative], relation, nonnegative=nonnegative)
    assert max(ratios) <= 1
    # Rounding to whole numbers of 2**-7 makes slanting rows a little shorter.
    assert max(ratios) > 0.9999


@pytest.mark.parametrize("release", ["mean", "products"])
def test_a_sensitivity_of_one_for_means_is_caught(monkeypatch, plant, release):
    query = FeatureMean(nonnegative=True) if release == "mean" else FeatureProducts()
    plant(type(query), "replacing", WHOLE)
    assert max(means_of_neighbours(monkeypatch, query, Relation.REPLACE_ONE, nonnegative=True)) > 1.4


def test_entries_below_zero_that_are_not_cut_are_caught(monkeypatch, plant):
    plant(learning, "cut", lambda features: features)
    query = FeatureMean(nonnegative=True)
    assert max(means_of_neighbours(monkeypatch, query, Relation.REPLACE_ONE, nonnegative=True)) > 1.4


# Neighbours whose last row, read together with the others, would change how numpy or pandas reads these.
BIG = 2**53 + 1
ODD_NEIGHBOURS = {
    "texts among numbers": ([[5.0]] * 40, ([[7.0]], [["x"]]), {"declared_columns": {"c": ["5", "7"]}}),
    "none among texts": (
        [[5.0]] * 40 + [["n/a"]] * 2,
        ([["n/a"]], [[None]]),
        {"public": [[5.0]] * 200 + [["n/a"]] * 100},
    ),
    "blank among huge numbers": (
        [[BIG]] * 40,
        ([[BIG]], [[None]]),
        {"declared_columns": {"c": [str(BIG - 1), str(BIG)]}},
    ),
}


@pytest.mark.parametrize("as_array", [False, True], ids=["list", "objects"])
@pytest.mark.parametrize("name", ODD_NEIGHBOURS)
def test_no_record_decides_how_others_are_read(monkeypatch, name, as_array):
    rows, last, settings = ODD_NEIGHBOURS[name]
    public = settings.get("public")
    found = []

    def kept(self, query, total, share, *, weight=1.0):
        found.append((total.astype(np.float64), query.sensitivity(self.relation)))
        return in_whole_units(query, total, weight)

    monkeypatch.setattr(SumReleaser, "charge_and_draw", kept)
    monkeypatch.setattr(moments.learning, "_SYNTHETIC_ROWS", 100)
    firsts = []
    for one in last:
        X = np.array([*rows, *one], dtype=object) if as_array else [*rows, *one]
        declared = settings.get("declared_columns")
        model = LabelMomentsClassifier(classes=[0, 1], rounds=1, delta=1e-3, declared_columns=declared)
        found.clear()
        model.fit(X, np.arange(len(X)) % 2, X_public=public)
        firsts.append(found[0])
    (here, charged), (there, _) = firsts
    assert np.linalg.norm(here - there) <= charged


def test_arrays_of_texts_are_refused():
    X = np.array([["5.0"], ["x"]] * 30)
    with pytest.raises(DataError, match="array of texts"):
        LabelMomentsClassifier(classes=[0, 1], declared_columns={"c": ["x"]}).fit(X, np.arange(60) % 2)
