"""Sums of label moments: order of charge and noise, size, independence. False-alarm rate 1e-6 a test.

Statistics that a run of label moments releases besides its model.

Public weights of features: what they may depend on, and that no row becomes longer.
"""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, kstest, norm

from dpensemble import LabelMomentsClassifier
from dpensemble._random import SeededNoise, SystemNoise
from dpensemble.accounting import Group
from dpensemble.certificates import certificate_of_fit
from dpensemble.cli import main
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.moments import MomentsSource, TableMap
from dpensemble.moments.fits import Fit
from dpensemble.moments.learning import (
    STATISTICS,
    ClassSums,
    FeatureMean,
    FeatureProducts,
    Residuals,
    UnitCount,
    _ClassShares,
    _scale_of_features,
    statistics_of,
)
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.whole import (
    UNIT,
    WHOLE,
    WholeBlock,
    bounded_features,
    centres_and_weights,
    partial_sums,
    probabilities,
)
from dpensemble.relations import Relation
from dpensemble.releases import DiscreteNoise, ReleasedTable, SumReleaser, SumsMeter, sums
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
    return one.noisy_sum(one.first_query(n_classes), share, total_weight)


def two_rounds(one, n_classes=2):
    first = first_round(one, 0.5, n_classes)
    return first, one.noisy_sum(Residuals(n_classes, np.zeros_like(first.values)), 0.5)


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

    plant(SumReleaser, "charge_and_draw", late)
    assert spent_when_drawn() == ([0.0], 0.0)


def test_what_does_not_fit_is_never_drawn():
    one = source(5)
    first_round(one, 0.9)
    one.sums.noise.uniform_bits = None
    with pytest.raises(BudgetError, match="does not fit"):
        one.noisy_sum(Residuals(2, np.zeros((5, 1))), 0.2)


@pytest.mark.parametrize("share", [math.nan, 0.0, -0.5, 1.5])
def test_shares_that_are_none_are_refused_before_a_draw(share):
    one = source(5)
    one.sums.noise.uniform_bits = None
    for query in (ClassSums(2), Residuals(2), UnitCount(), FeatureMean(True), FeatureProducts()):
        with pytest.raises(InvalidParameterError, match="share"):
            one.noisy_sum(query, share)
    assert one.sums.meter.spent_epsilon == 0.0


def test_the_count_is_charged_and_close():
    one = source(1, relation=Relation.ADD_OR_REMOVE_ONE, rows=np.zeros((1000, 1)))
    found, spread = one.noisy_sum(UnitCount(), 0.02)
    meter = one.sums.meter
    assert spread == pytest.approx(meter.sigma(0.02), rel=1e-9)
    assert abs(found - 1000) < 6 * spread
    assert meter.spend_curve()[0][0] == 1
    assert meter.spent_epsilon > 0
    (released,) = one.sums.released
    assert released.table == ReleasedTable("Number of units", (("units", found, spread),))
    # An estimate below 1 would turn signs around.
    few = source(1, relation=Relation.ADD_OR_REMOVE_ONE, rows=np.zeros((1, 1)))
    assert few.noisy_sum(UnitCount(), 1e-6)[0] >= 1


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
        one.noisy_sum(query, 0.5)
    assert one.sums.meter.spent_epsilon == 0.0


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_no_label_leads_to_a_vector_longer_than_a_half(n_classes):
    rng = np.random.default_rng(1)
    features = rng.normal(size=(500, 4))
    width = 1 if n_classes == 2 else n_classes
    for size in (0.0, 1.0, 30.0, 1e6):
        centre = size * rng.normal(size=(4, width))
        c, omega = centres_and_weights(centre, features, n_classes, 1.0)
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
        second = one.noisy_sum(Residuals(n_classes, centre, scale), 0.5, 400.0)
        c, omega = centres_and_weights(centre, rows, n_classes, 1.0)
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
            block = WholeBlock(bounded_features(np.tile(row, (size, 1))), np.full(size, label), weights)
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
            block = WholeBlock(bounded_features(row[None, :]), np.array([label]), np.ones(1))
            total = partial_sums(query, [block]).total
            lengths.append(math.isqrt(sum(entry**2 for entry in total.ravel().tolist())))
            longer = PartialSums(total * 1000 + 1000 * query.removing, 1)
            assert not query.allows(longer, 1.0)
        assert max(lengths) > 0.9 * query.removing


def test_sums_of_random_records_keep_the_bound_of_their_weights():
    rng = np.random.default_rng(0)
    for query, n in itertools.product(queries(2), (1, 5, 50)):
        weights = 1 / rng.integers(1, 9, n)
        features = bounded_features(rng.normal(size=(n, 2)))
        sums = partial_sums(query, [WholeBlock(features, rng.integers(0, 2, n), weights)])
        assert query.allows(sums, math.fsum(weights.tolist()))


def test_a_negative_entry_is_no_sum_of_records_that_add_none():
    total = np.array([[-1]], dtype=object)
    for query in (UnitCount(), FeatureMean(nonnegative=True), ClassSums(2), _ClassShares(("a", "b"))):
        assert not query.allows(PartialSums(total, 1), 1.0)
    assert FeatureMean(nonnegative=False).allows(PartialSums(total, 1), 1.0)


NAMES = ("no", "yes", "unknown")


def one_unit(targets):
    """Return the exact sum of one unit with these records."""
    weights = np.full(len(targets), 1 / len(targets))
    blocks = [WholeBlock(np.full((len(targets), 2), float(UNIT)), np.array(targets), weights)]
    return partial_sums(_ClassShares(NAMES), blocks).total.astype(float)


def test_no_two_units_differ_by_more_than_the_sensitivity():
    units = [one for size in (1, 2, 3) for one in itertools.product(range(3), repeat=size)]
    sums = [one_unit(one) for one in units]
    largest = max(np.linalg.norm(u - v) for u in sums for v in sums)
    # A unit of class a against one of class b needs all of it.
    assert _ClassShares.replacing * (1 - 1e-5) <= largest <= _ClassShares.replacing
    assert max(np.linalg.norm(u) for u in sums) <= _ClassShares.removing == WHOLE


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    return X, np.array(["no", "yes"])[(X[:, 0] > 0.5).astype(int)], rng.normal(size=(300, 3))


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_shares_are_released_charged_and_certified(rows, relation):
    X, y, public = rows
    model = LabelMomentsClassifier(
        classes=["no", "yes"], statistics="class-shares", relation=relation, insecure_release_seed=0
    ).fit(X, y, X_public=public)
    (table,) = [one.table for one in model.result_.releases if one.description == "the share of each class"]
    assert [row[0] for row in table.rows] == ["no", "yes"]
    for name, share, error in table.rows:
        assert abs(share - np.mean(y == name)) < 5 * error < 0.2
    assert len(model.charges_) == len(model.result_.releases)
    assert sum(1 / one["sigma"] ** 2 for one in model.charges_) == pytest.approx(
        model.design_.meter().mu ** 2, rel=1e-9
    )
    assert model.guarantee_.epsilon <= 1.0
    assert len(certificate_of_fit(model)["parts"][0]["body"]["rounds"]) == len(model.charges_)


def test_a_run_without_statistics_releases_what_it_did(rows):
    X, y, public = rows
    settings = {"classes": ["no", "yes"], "insecure_release_seed": 0}
    plain = LabelMomentsClassifier(**settings).fit(X, y, X_public=public)
    looked = [one.table.title for one in plain.result_.releases if one.table]
    assert looked == ["Share of each class"] * plain.design_.looks_for_rare
    paid = sum(plain.design_.shares) + plain.design_.mean_share + plain.design_.rarity_share
    assert paid == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("x", "unknown"),
        ("class-shares,class-shares", "twice"),
        (",", "unknown"),
        (["class-shares", "x"], "unknown"),
        (7, "not a list of names"),
        ([7], "not a list of names"),
    ],
)
def test_unknown_and_repeated_names_are_refused(names, text):
    with pytest.raises(InvalidParameterError, match=text):
        LabelMomentsClassifier(statistics=names).design(n_classes=2)


def test_names_may_have_spaces():
    assert statistics_of(" class-shares ") == tuple(STATISTICS)
    assert statistics_of(["class-shares"]) == statistics_of(("class-shares",)) == ("class-shares",)
    assert statistics_of(None) == statistics_of("") == statistics_of([]) == ()


def test_page_terminal_and_json_show_the_shares(tmp_path, monkeypatch, capsys, rows):
    import pandas as pd

    X, y, public = rows
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(X, columns=list("abc")).assign(y=y).to_csv("private.csv", index=False)
    pd.DataFrame(public, columns=list("abc")).to_csv("public.csv", index=False)
    line = "train label-moments --private private.csv --public public.csv --target y --classes no,yes --out run --quiet"
    assert main([*line.split(), "--statistics", "class-shares"]) == 0
    assert "Share of each class: no 0." in capsys.readouterr().out
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<h3>Share of each class</h3>" in page
    # The noise of one sum among the settings would contradict the list of all.
    assert ">Sigma<" not in page
    card = json.loads((tmp_path / "run" / "card.json").read_text(encoding="utf-8"))
    assert card["privacy"]["released"][0]["table"]["title"] == "Share of each class"
    words = (tmp_path / "run" / "card.md").read_text(encoding="utf-8")
    assert "## Released sums, and their noise in sensitivities" in words
    assert "## Share of each class" in words
    assert " ± 0." in words
    releases = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))["releases"]
    assert [one["table"]["title"] for one in releases if one["table"]] == ["Share of each class"]


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    numbers = np.where(rng.random((n, 2)) < 0.2, np.nan, rng.normal(size=(n, 2)))
    return pd.DataFrame(
        {"a": numbers[:, 0], "b": numbers[:, 1], "c": rng.choice(["x", "y", None], n), "d": rng.choice(["p", "q"], n)}
    )


@pytest.fixture(scope="module")
def fitted():
    feature_map = TableMap().fit(table(200))
    features = bounded_features(feature_map.transform(table(200))) / UNIT
    return feature_map, PublicRows(features, feature_map.blocks_, 2)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("spread", [1e-4, 1e-2, 10.0])
def test_weighted_rows_stay_within_length_one(fitted, seed, spread):
    feature_map, public = fitted
    rng = np.random.default_rng(seed)
    start = Fit.start(public)
    scales = start.scales * np.exp(rng.normal(scale=1.5, size=len(start.scales)))
    fit = Fit(3 * rng.normal(size=start.coefficients.shape), scales)
    factors = _scale_of_features(fit, public, feature_map, spread)
    assert np.isfinite(factors).all()
    assert factors.min() > 0
    # Also for rows that no public row is like.
    rows = table(500, seed + 1)
    rows.loc[0] = [np.nan, np.nan, None, None]
    rows.loc[1] = [1e12, -1e12, "other", "other"]
    weighted = feature_map.transform(rows).multiply(factors)
    lengths = np.sqrt(np.asarray(weighted.power(2).sum(axis=1)).ravel())
    assert lengths == pytest.approx(np.ones(500), abs=1e-9)


def test_sensitivity_goes_where_signal_is(fitted):
    feature_map, public = fitted
    start = Fit.start(public)
    scales = np.full_like(start.scales, 0.3)
    owners = feature_map.columns_of_blocks_
    scales[owners == 1] = 30.0
    factors = _scale_of_features(Fit(start.coefficients, scales), public, feature_map, 1e-2)
    mean = [factors[owners[feature_map.blocks_] == column].mean() for column in range(4)]
    assert mean[1] > 1 > max(mean[0], mean[2], mean[3])
    assert factors[-1] == 1
