"""Sums of label moments: order of charge and noise, size, independence. False-alarm rate 1e-6 a test."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from dpensemble._random import SeededNoise, SystemNoise
from dpensemble.accounting import Group, SumsMeter
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.moments import MomentsSource
from dpensemble.moments.model import expected, probabilities
from dpensemble.moments.queries import (
    ClassSums,
    FeatureMean,
    FeatureProducts,
    Residuals,
    UnitCount,
    _ClassShares,
    partial_sums,
)
from dpensemble.moments.whole import WHOLE, WholeBlock, whole_features
from dpensemble.relations import Relation
from dpensemble.releases import DiscreteNoise, ReleasedTable, SumReleaser, sums
from dpensemble.releases.sums import PartialSums
from tests.records import records_behind, whole_blocks

FALSE_ALARM = 1e-6
BUDGET = Budget(epsilon=1.0, delta=1e-5)


def source(
    n_features=400, *, relation=Relation.REPLACE_ONE, noise=None, n_classes=2, nonnegative=True, rows=None, meter=None
):
    """A source whose sums are 0 unless `rows` are given, so that what is released is noise."""
    X = np.zeros((3, n_features)) if rows is None else rows
    targets, weights = np.arange(len(X)) % n_classes, np.ones(len(X))
    releaser = SumReleaser(
        relation=relation,
        meter=SumsMeter([Group("everyone", BUDGET)]) if meter is None else meter,
        noise=SeededNoise(3) if noise is None else noise,
    )
    blocks = records_behind(lambda rows: rows, X, targets, weights)
    return MomentsSource(blocks=blocks, nonnegative=nonnegative, sums=releaser)


def first_round(one, share, n_classes=2, total_weight=1.0):
    return one.release(one.first_query(n_classes), share, total_weight)


def two_rounds(one, n_classes=2):
    first = first_round(one, 0.5, n_classes)
    return first, one.release(Residuals(n_classes, np.zeros_like(first.values)), 0.5)


def independent(a, b):
    a, b = np.ravel(a), np.ravel(b)
    # Under independence the correlation is nearly normal with variance 1 / n.
    return abs(np.corrcoef(a, b)[0, 1]) * math.sqrt(len(a)) < norm.isf(FALSE_ALARM / 2)


def right_size(noise, spread):
    noise = np.ravel(noise) / spread
    square, n = float(noise @ noise), len(noise)
    inside = chi2.isf(1 - FALSE_ALARM / 4, n) < square < chi2.isf(FALSE_ALARM / 4, n)
    return inside and kstest(noise, "norm").pvalue > FALSE_ALARM / 2


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_noise_has_the_spread_that_is_said_and_charged(relation, n_classes, nonnegative):
    one = source(relation=relation, n_classes=n_classes, nonnegative=nonnegative)
    for moments in two_rounds(one, n_classes):
        # The mean of three class sums is taken off, so that a contrast of two classes is compared.
        columns = moments.values if n_classes == 2 else (moments.values[:, :1] - moments.values[:, 1:2]) / 2**0.5
        assert right_size(columns, moments.spread)
    assert one.sums.meter.spent_epsilon == pytest.approx(1, rel=1e-5)


def test_spreads_are_those_of_the_sensitivity():
    sigma = source().sums.meter.sigma(0.5)
    expectations = {
        (Relation.REPLACE_ONE, True): (1.0, 1.0),
        (Relation.REPLACE_ONE, False): (1.0, 1.0),
        (Relation.ADD_OR_REMOVE_ONE, True): (0.5, 0.5),
    }
    for (relation, nonnegative), wanted in expectations.items():
        one = source(1, relation=relation, nonnegative=nonnegative)
        found = [moments.spread for moments in two_rounds(one)]
        assert found == pytest.approx([sigma * part for part in wanted], rel=1e-9)
        assert one.sums.spread(Residuals(2), 0.5) == pytest.approx(found[1], rel=1e-9)
    # Three class sums: one moves by the square root of 2, and a contrast of them has the noise of one.
    first, _ = two_rounds(source(1, n_classes=3), 3)
    assert first.spread == pytest.approx(sigma * math.sqrt(2), rel=1e-9)
    assert first.mean_spread == pytest.approx(sigma * math.sqrt(2) * math.sqrt(3), rel=1e-9)


def test_rounds_and_entries_have_noise_of_their_own():
    first, second = two_rounds(source())
    assert independent(first.values, second.values)
    assert independent(first.values[:-1], first.values[1:])
    assert independent(first.values[:200], first.values[200:])
    assert independent(first.values, first.mean)
    columns = first_round(source(n_classes=3, nonnegative=False), 0.5, 3).values
    assert independent(columns[:, 0], columns[:, 1])
    assert independent(columns[:, 1], columns[:, 2])


def test_noise_used_twice_is_noticed(plant):
    class Reused(DiscreteNoise):
        kept = ()

        def gaussian(self, variance):
            if not Reused.kept:
                Reused.kept = [super(Reused, self).gaussian(variance) for _ in range(400)]
            self._next = getattr(self, "_next", -1) + 1
            return Reused.kept[self._next]

    plant(sums, "DiscreteNoise", Reused)
    first, second = two_rounds(source(nonnegative=False))
    assert not independent(first.values, second.values)


def test_noise_ten_per_cent_off_is_noticed(plant):
    real = sums.noise_variance
    plant(sums, "noise_variance", lambda sigma, sensitivity: real(0.9 * sigma, sensitivity))
    sizes = []
    for seed in range(3):
        moments = first_round(source(1200, nonnegative=False, noise=SeededNoise(seed)), 0.5)
        sigma = SumsMeter([Group("everyone", BUDGET)]).sigma(0.5)
        sizes.append(moments.values.ravel() / sigma)
    assert not right_size(np.concatenate(sizes), 1.0)


def test_without_a_seed_every_release_has_fresh_noise():
    one, other = (first_round(source(50, noise=SystemNoise()), 0.5) for _ in range(2))
    assert not np.isin(one.values, other.values).any()
    assert np.array_equal(first_round(source(50), 0.5).values, first_round(source(50), 0.5).values)


class BrokenNoise:
    """Bits run out, and it notes what was spent at that moment."""

    for_release = False

    def __init__(self):
        self.meter = None
        self.spent = []

    def uniform_bits(self, size):
        self.spent.append(self.meter.spent_epsilon)
        raise OSError("no entropy")


def spent_when_drawn():
    one = source(5, noise=BrokenNoise())
    noise, meter = one.sums.noise, one.sums.meter
    noise.meter = meter
    with pytest.raises(OSError, match="no entropy"):
        first_round(one, 0.5)
    assert one.sums.released == []
    return noise.spent, meter.spent_epsilon


def test_the_charge_comes_before_the_noise_and_stays():
    asked, after = spent_when_drawn()
    assert len(asked) == 1
    assert asked[0] > 0.5
    assert after == asked[0]


def test_a_charge_after_the_draw_is_noticed(plant):
    def late(self, query, total, share, *, weight=1.0):
        sigma = self.meter.sigma(share)
        variance = sums.noise_variance(sigma, query.sensitivity(self.relation))
        found = [float(entry + DiscreteNoise(self.noise).gaussian(variance)) for entry in total.ravel().tolist()]
        self.meter.charge(sigma, variance=variance, entries=total.size)
        return query.read(np.array(found).reshape(total.shape), math.sqrt(variance))

    plant(SumReleaser, "release", late)
    assert spent_when_drawn() == ([0.0], 0.0)


def test_what_does_not_fit_is_never_drawn():
    one = source(5)
    first_round(one, 0.9)
    one.sums.noise.uniform_bits = None
    with pytest.raises(BudgetError, match="does not fit"):
        one.release(Residuals(2, np.zeros((5, 1))), 0.2)


@pytest.mark.parametrize("share", [math.nan, 0.0, -0.5, 1.5])
def test_shares_that_are_none_are_refused_before_a_draw(share):
    one = source(5)
    one.sums.noise.uniform_bits = None
    for query in (ClassSums(2), Residuals(2), UnitCount(), FeatureMean(True), FeatureProducts()):
        with pytest.raises(InvalidParameterError, match="share"):
            one.release(query, share)
    assert one.sums.meter.spent_epsilon == 0.0


def test_the_count_is_charged_and_close():
    one = source(1, relation=Relation.ADD_OR_REMOVE_ONE, rows=np.zeros((1000, 1)))
    found, spread = one.release(UnitCount(), 0.02)
    meter = one.sums.meter
    assert spread == pytest.approx(meter.sigma(0.02), rel=1e-9)
    assert abs(found - 1000) < 6 * spread
    assert meter.spend_curve()[0][0] == 1
    assert meter.spent_epsilon > 0
    (released,) = one.sums.released
    assert released.table == ReleasedTable("Number of units", (("units", found, spread),))
    # An estimate below 1 would turn signs around.
    few = source(1, relation=Relation.ADD_OR_REMOVE_ONE, rows=np.zeros((1, 1)))
    assert few.release(UnitCount(), 1e-6)[0] >= 1


def test_what_was_released_is_described_in_order():
    one = source(4)
    two_rounds(one)
    descriptions = [released.description for released in one.sums.released]
    assert descriptions[0] == "the mean of the features of each class"
    assert "what the model so far predicts" in descriptions[1]
    assert "equal chances for all classes" in Residuals(2).description


def test_sums_of_parts_of_the_records_are_the_sum_of_all():
    rng = np.random.default_rng(0)
    rows, targets, weights = rng.uniform(size=(90, 4)) / 2, np.arange(90) % 3, np.full(90, 0.7)
    centre, scale = rng.normal(size=(4, 3)), np.linspace(0.5, 2, 4)

    def blocks(*parts):
        return [
            block
            for part in parts
            for block in whole_blocks(records_behind(lambda part: part, rows[part], targets[part], weights[part]))
        ]

    for query in (UnitCount(), FeatureMean(True), FeatureProducts(), ClassSums(3), Residuals(3, centre, scale)):
        parts = [partial_sums(query, blocks(slice(*ends))) for ends in ((0, 20), (20, 21), (21, 90), (90, 90))]
        whole = partial_sums(query, blocks(slice(None)))
        for order in (parts, parts[::-1]):
            merged = sum(order, PartialSums(None))
            assert np.array_equal(merged.total, whole.total)
            assert merged.records == (90, 0)


@pytest.mark.parametrize("query", [UnitCount(), FeatureMean(True), ClassSums(2)])
def test_without_records_nothing_is_charged(query):
    one = source(rows=np.zeros((0, 2)))
    with pytest.raises(DataError, match="no private records"):
        one.release(query, 0.5)
    assert one.sums.meter.spent_epsilon == 0.0


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_no_label_leads_to_a_vector_longer_than_a_half(n_classes):
    rng = np.random.default_rng(1)
    features = rng.normal(size=(500, 4))
    width = 1 if n_classes == 2 else n_classes
    for size in (0.0, 1.0, 30.0, 1e6):
        centre = size * rng.normal(size=(4, width))
        c, omega = expected(centre, features, n_classes, 1.0)
        labels = np.eye(n_classes)[:, :, None].transpose(0, 2, 1) if width > 1 else np.array([0.0, 1.0])[:, None, None]
        lengths = np.linalg.norm(omega[:, None] * (labels - c), axis=2)
        assert lengths.max() <= 0.5 * (1 + 1e-12)
        # The worst label uses all of it.
        assert lengths.max(axis=0) == pytest.approx(np.full(500, 0.5))
        assert np.allclose(c, probabilities(features, centre))


def test_released_sums_are_what_they_estimate():
    """Against the definition in floating point, at a budget whose noise is far below the tolerance."""
    rng = np.random.default_rng(0)
    for n_classes in (2, 3):
        rows = np.abs(rng.normal(size=(400, 6)))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        meter = SumsMeter([Group("everyone", Budget(epsilon=1e6, delta=0.1))])
        one = source(n_classes=n_classes, rows=rows, meter=meter)
        onehot = np.eye(n_classes)[np.arange(400) % n_classes]
        y = onehot[:, 1:] if n_classes == 2 else onehot
        first = first_round(one, 0.5, n_classes, 400.0)
        assert np.allclose(first.values, rows.T @ (y - 1 / n_classes) / 400, atol=2e-4)
        assert np.allclose(first.mean, rows.mean(axis=0), atol=2e-4)
        centre, scale = rng.normal(size=(6, y.shape[1])), rng.uniform(0.2, 1.0, size=6)
        second = one.release(Residuals(n_classes, centre, scale), 0.5, 400.0)
        c, omega = expected(centre, rows, n_classes, 1.0)
        assert np.allclose(second.values, (rows * scale).T @ (omega[:, None] * (y - c)) / 400, atol=2e-4)


def test_a_map_that_gives_no_numbers_is_refused_without_a_charge():
    one = source(rows=np.array([[0.1, np.nan]]))
    with pytest.raises(DataError, match="NaN or infinity"):
        first_round(one, 0.5)
    assert one.sums.meter.spent_epsilon == 0.0


def test_units_weigh_at_most_one_whole():
    """For every number of records, a unit's weights add up to at most one when they are cut."""
    for k in [*range(1, 300), 10**4, 10**6 + 3]:
        for part in (1.0, 0.3, 1 / 3):
            weight = part * (1 / k)
            assert k * int(np.floor(weight * WHOLE)) <= part * WHOLE


def queries(n_classes):
    coefficients = np.array([[1.5] * (n_classes - 1 if n_classes == 2 else n_classes)] * 2)
    return [
        UnitCount(),
        FeatureMean(nonnegative=True),
        FeatureMean(nonnegative=False),
        FeatureProducts(),
        ClassSums(n_classes),
        _ClassShares(tuple("abc"[:n_classes])),
        Residuals(n_classes),
        Residuals(n_classes, coefficients),
        Residuals(n_classes, coefficients, np.array([0.4, 3.0])),
    ]


EXTREMES = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.6, 0.8], [-0.6, -0.8], [1e300, 1.0], [0.7, -0.9]])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_honest_sum_is_longer_than_the_public_bound(n_classes):
    """Every row of a small grid, as one to seven records of a unit, in exact arithmetic."""
    for query, label, size in itertools.product(queries(n_classes), range(n_classes), (1, 2, 3, 7)):
        for row in EXTREMES:
            weights = np.full(size, 1 / size)
            block = WholeBlock(whole_features(np.tile(row, (size, 1))), np.full(size, label), weights)
            sums = partial_sums(query, [block])
            length = sum(entry**2 for entry in sums.total.ravel().tolist())
            assert length <= query.removing**2
            assert sums.is_sound
            assert query.allows(sums, math.fsum(weights))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_public_bound_is_reached_and_no_longer_sum_passes(n_classes):
    """Some row of the grid is nearly as long as the bound, so that a bound that is too large is noticed."""
    for query in queries(n_classes):
        lengths = []
        for row, label in itertools.product(EXTREMES, range(n_classes)):
            block = WholeBlock(whole_features(row[None, :]), np.array([label]), np.ones(1))
            total = partial_sums(query, [block]).total
            lengths.append(math.isqrt(sum(entry**2 for entry in total.ravel().tolist())))
            longer = PartialSums(total * 1000 + 1000 * query.removing, 1)
            assert not query.allows(longer, 1.0)
        assert max(lengths) > 0.9 * query.removing


def test_sums_of_random_records_keep_the_bound_of_their_weights():
    rng = np.random.default_rng(0)
    for query, n in itertools.product(queries(2), (1, 5, 50)):
        weights = 1 / rng.integers(1, 9, n)
        features = whole_features(rng.normal(size=(n, 2)))
        sums = partial_sums(query, [WholeBlock(features, rng.integers(0, 2, n), weights)])
        assert query.allows(sums, math.fsum(weights.tolist()))


def test_a_negative_entry_is_no_sum_of_records_that_add_none():
    total = np.array([[-1]], dtype=object)
    for query in (UnitCount(), FeatureMean(nonnegative=True), ClassSums(2), _ClassShares(("a", "b"))):
        assert not query.allows(PartialSums(total, 1), 1.0)
    assert FeatureMean(nonnegative=False).allows(PartialSums(total, 1), 1.0)
