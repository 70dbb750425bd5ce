"""The release: what a unit can change, what that costs, an audit of it, and the edges of its bins.

The cells are those that a budget supports, chosen and stated before anything is charged.
"""

from itertools import product

import numpy as np
import pytest

from dpensemble._random import SeededNoise
from dpensemble.audit import audit_pipeline
from dpensemble.cost import gaussian_delta, gaussian_mu
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.quality.figures import ABOVE_HALF
from dpensemble.quality.release import MOST_BINS, WHOLE_UNIT, HeldRecords, Layout, _QualitySum, bin_edges, release_meter
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser
from dpensemble.releases.answers import PaidSums

LAYOUTS = {
    "two classes": {},
    "two classes, the first positive": {"positive": 0},
    "one group column": {"groups": {"sex": ("f", "m")}},
    "two group columns": {"groups": {"sex": ("f", "m"), "ward": ("a",)}},
    "three classes": {"classes": ("a", "b", "c")},
    "three classes without bins": {"classes": ("a", "b", "c"), "bins": 0},
    "three classes and groups": {"classes": ("a", "b", "c"), "groups": {"sex": ("f",)}},
}


def layout_of(relation=Relation.REPLACE_ONE, **changes):
    settings = {"classes": ("no", "yes"), "positive": 1, "groups": {}, "bins": 2, "group_bins": 2} | changes
    return Layout(n_units=1, epsilon=1.0, delta=1e-5, relation=relation, **settings)


def vectors_of_units(layout, n_records):
    """Return what each possible unit adds: every true class, prediction, group and kind of bad record."""
    edges = layout.edges(np.full((5, len(layout.classes)), 0.4))
    n_classes = len(layout.classes)
    # A prediction is sure of one class, which decides every bin.
    kinds = list(
        product(
            range(n_classes),
            range(n_classes),
            product(*(range(len(values) + 1) for values in layout.groups.values())),
            (True, False),
        )
    )
    vectors = set()
    for records in product(kinds, repeat=n_records):
        truth, predicted, groups, usable = zip(*records, strict=True)
        held = HeldRecords(
            probabilities=np.eye(n_classes)[list(predicted)],
            truth=np.array(truth),
            groups={column: np.array([one[place] for one in groups]) for place, column in enumerate(layout.groups)},
            unit_of=np.zeros(n_records, dtype=int),
            n_units=1,
            usable=np.array(usable),
        )
        vectors.add(tuple(held.exact_total(layout, edges).tolist()))
    return np.array(sorted(vectors), dtype=object)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    ("name", "n_records"), [*((name, 1) for name in LAYOUTS), ("two classes", 2), ("two classes", 3)]
)
def test_no_unit_moves_the_sum_by_more_than_it_is_charged_for(name, n_records, relation):
    """Every pair of units, bad ones included, against each other, and every unit against none."""
    layout = layout_of(relation, **LAYOUTS[name])
    vectors = vectors_of_units(layout, n_records)
    assert vectors.min() >= 0
    start = 0
    for histogram in layout.histograms:
        assert vectors[:, start : start + histogram.n_cells].sum(axis=1).max() <= WHOLE_UNIT
        start += histogram.n_cells
    assert start == vectors.shape[1] == layout.n_cells
    if relation is Relation.REPLACE_ONE:
        squares = max(int(((vectors - one) ** 2).sum(axis=1).max()) for one in vectors)
    else:
        squares = int((vectors**2).sum(axis=1).max())
    sensitivity = _QualitySum(len(layout.histograms)).sensitivity(relation)
    assert squares <= sensitivity**2
    # Some pair reaches it, to whole numbers: less noise would not do.
    assert squares > 0.999999 * sensitivity**2
    assert sensitivity / WHOLE_UNIT == pytest.approx(layout.sensitivity)


def test_records_of_a_unit_weigh_one_together_however_many_they_are():
    layout, rng = layout_of(), np.random.default_rng(0)
    edges = layout.edges(None)
    for n in (1, 3, 7, 1000):
        probable = rng.random(n)
        held = HeldRecords(
            probabilities=np.column_stack([1 - probable, probable]),
            truth=rng.integers(0, 2, n),
            groups={},
            unit_of=np.zeros(n, dtype=int),
            n_units=1,
            usable=np.ones(n, dtype=bool),
        )
        assert WHOLE_UNIT - n < held.exact_total(layout, edges).sum() <= WHOLE_UNIT


@pytest.mark.parametrize("groups", [{}, {"sex": ("f", "m")}])
def test_all_of_the_budget_is_used_and_no_more(groups):
    layout = layout_of(groups=groups)
    total = np.zeros(layout.n_cells, dtype=np.int64)
    released = layout.release(layout.edges(None), total, SeededNoise(0))
    assert 0.9999 < released.epsilon <= 1.0
    sensitivity = np.sqrt(2 * (1 + len(groups)))
    assert released.sigma == pytest.approx(layout.sigma, rel=1e-6)
    assert gaussian_delta(sensitivity / released.sigma, 1.0) <= 1e-5
    assert gaussian_delta(1.001 * sensitivity / released.sigma, 1.0) > 1e-5
    assert release_meter(1.0, 1e-5).renyi_costs()[0].mu == pytest.approx(sensitivity / released.sigma, rel=1e-4)
    (charge,) = released.charges
    assert charge["entries"] == layout.n_cells
    with pytest.raises(InvalidParameterError, match="epsilon=0"):
        release_meter(0.0, 1e-5)


@pytest.mark.parametrize("groups", [{}, {"sex": ("f",)}])
def test_an_audit_reaches_what_is_charged_and_never_exceeds_it(groups):
    """The worst pair of units, told apart by the released cells. False alarm below 0.002."""
    layout = layout_of(groups=groups)
    layout = Layout(**vars(layout) | {"epsilon": 8.0, "delta": 1e-3})
    edges = layout.edges(None)

    def total(truth, probable, group):
        held = HeldRecords(
            probabilities=np.array([[1 - probable, probable]]),
            truth=np.array([truth]),
            groups={column: np.array([group]) for column in groups},
            unit_of=np.zeros(1, dtype=int),
            n_units=1,
            usable=np.ones(1, dtype=bool),
        )
        return held.exact_total(layout, edges)

    pair = total(1, 0.9, 0), total(0, 0.1, 1)
    direction = (pair[0] - pair[1]) / WHOLE_UNIT
    released = layout.release(edges, pair[0], SeededNoise(0))
    (charge,) = released.charges
    query = _QualitySum(len(layout.histograms))

    def run(data, i):
        # The same place draws, for a charge that was made once: a budget is searched for longer than noise is drawn.
        paid = PaidSums(charge["sigma"], charge["variance"], charge["entries"])
        sums = SumReleaser(relation=layout.relation, meter=paid, noise=SeededNoise(i))
        cells, spread = sums.charge_and_draw(query, data, 1.0)
        assert spread == released.sigma
        return float(cells @ direction)

    middle = float((pair[0] + pair[1]) @ direction / WHOLE_UNIT / 2)
    delta = 0.6
    audit = audit_pipeline(run, *pair, delta=delta, n_runs=4000, confidence=0.999, event=lambda score: score > middle)
    charged, proven = gaussian_mu(8.0, 1e-3), gaussian_mu(audit.epsilon_lower, delta)
    assert 0.9 * charged <= proven <= charged


def test_edges_hold_the_required_thresholds_and_half_of_the_rare_class():
    rng = np.random.default_rng(0)
    public = 1 / (1 + np.exp(4 - 1.2 * rng.normal(size=4000)))
    edges = bin_edges(public, 10, [0.5, 0.1])
    assert len(edges) == 9
    assert {ABOVE_HALF, 0.1} <= set(edges.tolist())
    assert (np.diff(edges) > 0).all()
    # Of 7 free edges some lie where the expected cases are, which 10 % of the rows hold.
    assert np.count_nonzero(edges > np.quantile(public, 0.9)) >= 3
    assert bin_edges(public, 2).tolist() == [ABOVE_HALF]
    # Of few different probabilities, as many edges as open a bin.
    assert len(bin_edges(np.full(50, 0.2), 20)) <= 2


def test_a_probability_at_an_edge_is_above_it_and_one_half_is_not_a_prediction_of_the_class():
    layout = Layout.planned(("no", "yes"), 1000, 3.0, 1e-5, required=2)
    edges = layout.edges(np.array([[0.9, 0.1]] * 9), [0.5, 0.25])
    held = HeldRecords(
        probabilities=np.array([[0.75, 0.25], [0.5, 0.5]]),
        truth=np.array([1, 1]),
        groups={},
        unit_of=np.arange(2),
        n_units=2,
        usable=np.ones(2, dtype=bool),
    )
    cells = held.exact_total(layout, edges).reshape(2, layout.bins)[1] // WHOLE_UNIT
    inner = edges.of_class["yes"].tolist()
    assert cells[inner.index(0.25) + 1 :].sum() == 2
    assert cells[inner.index(ABOVE_HALF) + 1 :].sum() == 0
    assert held.probabilities.argmax(axis=1).tolist() == [0, 0]


def test_bins_without_public_rows_are_spread_over_logits():
    for classes, positive in ((("no", "yes"), 1), (("no", "yes"), 0), (("a", "b", "c"), 0)):
        layout = layout_of(classes=classes, positive=positive, bins=10)
        for inner in layout.edges(None).of_class.values():
            assert inner.min() < 0.1
            assert inner.max() > 0.9


TWO, THREE = ("no", "yes"), ("a", "b", "c")


@pytest.mark.parametrize("n_units", [100, 500, 1400, 20_000])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_more_units_and_more_budget_buy_more_bins(n_units, epsilon):
    layout = Layout.planned(TWO, n_units, epsilon, 1e-5)
    more = Layout.planned(TWO, 2 * n_units, 2 * epsilon, 1e-5)
    assert 4 <= layout.bins <= more.bins <= MOST_BINS
    assert layout.n_cells == 2 * layout.bins
    # A bin more than four is added only while an average bin holds as many times the noise as there are bins.
    assert layout.bins == 4 or layout.sigma * layout.bins**2 <= n_units


def test_each_group_column_is_a_histogram_of_its_own_and_adds_noise():
    plain = Layout.planned(TWO, 5000, 1.0, 1e-5)
    by_sex = Layout.planned(TWO, 5000, 1.0, 1e-5, groups={"sex": ("f", "m")})
    by_both = Layout.planned(TWO, 5000, 1.0, 1e-5, groups={"sex": ("f", "m"), "ward": ("a", "b", "c")})
    assert [len(one.histograms) for one in (plain, by_sex, by_both)] == [1, 2, 3]
    for more, one in enumerate((plain, by_sex, by_both), start=1):
        assert one.sigma == pytest.approx(plain.sigma * more**0.5)
    # Two values and all others.
    assert by_sex.histograms[1].shape == (3, 2, by_sex.group_bins)
    assert by_sex.group_bins <= by_sex.bins
    added = Layout.planned(TWO, 5000, 1.0, 1e-5, relation=Relation.ADD_OR_REMOVE_ONE)
    assert added.sigma == pytest.approx(plain.sigma / 2**0.5)


def test_more_than_two_classes_have_decisions_and_each_class_against_the_rest_while_noise_allows():
    many = Layout.planned(THREE, 3000, 1.0, 1e-5, groups={"sex": ("f",)})
    assert [one.kind for one in many.histograms] == ["decisions", *["bins"] * 3, "decisions by group"]
    assert many.histograms[-1].shape == (2, 3, 2)
    few = Layout.planned(THREE, 140, 1.0, 1e-5)
    assert [one.kind for one in few.histograms] == ["decisions"]
    assert "no bins" in few.sentence()
    # Left-out histograms take their noise with them.
    assert few.sigma == pytest.approx(Layout.planned(TWO, 140, 1.0, 1e-5).sigma)


def test_a_student_that_expects_few_cases_gets_fewer_bins_within_groups_and_keeps_required_edges():
    layout = Layout.planned(TWO, 6000, 3.0, 1e-5, required=3, groups={"sex": ("f", "m")})
    assert layout.for_shares([0.5, 0.5], 3) == layout
    rare = layout.for_shares([0.99, 0.01], 3)
    assert 4 <= rare.group_bins < layout.group_bins
    assert layout.for_shares([1.0, 0.0], 3).group_bins == 4
    assert (rare.sigma, rare.bins) == (layout.sigma, layout.bins)


@pytest.mark.parametrize(
    ("n_units", "epsilon", "changes", "text"),
    [
        (50, 1.0, {}, "50 held-back units are too few for any cell at epsilon=1"),
        (1000, 0.05, {}, "too few for any cell at epsilon=0.05"),
        (100, 1.0, {"groups": {"sex": ("f", "m")}}, "hold back more"),
        (400, 0.7, {"groups": {"ward": tuple("abcdefgh")}}, "'ward' has 9 groups of about 44 held-back units"),
    ],
)
def test_too_few_units_for_any_cell_are_refused(n_units, epsilon, changes, text):
    with pytest.raises(BudgetError, match=text):
        Layout.planned(TWO, n_units, epsilon, 1e-5, **changes)


def test_the_cells_are_stated_in_a_sentence():
    layout = Layout.planned(TWO, 1400, 1.0, 1e-5, groups={"sex": ("f", "m")})
    sentence = layout.sentence("record")
    assert "1,400 records are held back" in sentence
    assert f"at most {layout.n_cells} cells" in sentence
    assert "by sex" in sentence
