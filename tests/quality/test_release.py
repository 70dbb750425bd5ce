"""The release: what a unit can change, what that costs, an audit of it, and the edges of its bins."""

from itertools import product

import numpy as np
import pytest

from dpensemble._random import SeededNoise
from dpensemble.accounting import gaussian_delta
from dpensemble.audit import audit_pipeline
from dpensemble.cost import gaussian_mu
from dpensemble.errors import InvalidParameterError
from dpensemble.quality.layout import Layout, plan_layout
from dpensemble.quality.release import (
    HALF,
    WHOLE,
    HeldRecords,
    QualitySum,
    bin_edges,
    exact_total,
    public_edges,
    quality_cost,
    release_histograms,
)
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser
from dpensemble.releases.sums import PaidSums

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
    edges = public_edges(layout, np.full((5, len(layout.classes)), 0.4))
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
        vectors.add(tuple(exact_total(layout, edges, held).tolist()))
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
        assert vectors[:, start : start + histogram.n_cells].sum(axis=1).max() <= WHOLE
        start += histogram.n_cells
    assert start == vectors.shape[1] == layout.n_cells
    if relation is Relation.REPLACE_ONE:
        squares = max(int(((vectors - one) ** 2).sum(axis=1).max()) for one in vectors)
    else:
        squares = int((vectors**2).sum(axis=1).max())
    sensitivity = QualitySum(len(layout.histograms)).sensitivity(relation)
    assert squares <= sensitivity**2
    # Some pair reaches it, to whole numbers: less noise would not do.
    assert squares > 0.999999 * sensitivity**2
    assert sensitivity / WHOLE == pytest.approx(layout.sensitivity)


def test_records_of_a_unit_weigh_one_together_however_many_they_are():
    layout, rng = layout_of(), np.random.default_rng(0)
    edges = public_edges(layout, None)
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
        assert WHOLE - n < exact_total(layout, edges, held).sum() <= WHOLE


@pytest.mark.parametrize("groups", [{}, {"sex": ("f", "m")}])
def test_all_of_the_budget_is_used_and_no_more(groups):
    layout = layout_of(groups=groups)
    total = np.zeros(layout.n_cells, dtype=np.int64)
    released = release_histograms(layout, public_edges(layout, None), total, SeededNoise(0))
    assert 0.9999 < released.epsilon <= 1.0
    sensitivity = np.sqrt(2 * (1 + len(groups)))
    assert released.sigma == pytest.approx(layout.sigma, rel=1e-6)
    assert gaussian_delta(sensitivity / released.sigma, 1.0) <= 1e-5
    assert gaussian_delta(1.001 * sensitivity / released.sigma, 1.0) > 1e-5
    assert quality_cost(1.0, 1e-5).mu == pytest.approx(sensitivity / released.sigma, rel=1e-4)
    (charge,) = released.charges
    assert charge["entries"] == layout.n_cells
    with pytest.raises(InvalidParameterError, match="epsilon=0"):
        quality_cost(0.0, 1e-5)


@pytest.mark.parametrize("groups", [{}, {"sex": ("f",)}])
def test_an_audit_reaches_what_is_charged_and_never_exceeds_it(groups):
    """The worst pair of units, told apart by the released cells. False alarm below 0.002."""
    layout = layout_of(groups=groups)
    layout = Layout(**vars(layout) | {"epsilon": 8.0, "delta": 1e-3})
    edges = public_edges(layout, None)

    def total(truth, probable, group):
        held = HeldRecords(
            probabilities=np.array([[1 - probable, probable]]),
            truth=np.array([truth]),
            groups={column: np.array([group]) for column in groups},
            unit_of=np.zeros(1, dtype=int),
            n_units=1,
            usable=np.ones(1, dtype=bool),
        )
        return exact_total(layout, edges, held)

    pair = total(1, 0.9, 0), total(0, 0.1, 1)
    direction = (pair[0] - pair[1]) / WHOLE
    released = release_histograms(layout, edges, pair[0], SeededNoise(0))
    (charge,) = released.charges
    query = QualitySum(len(layout.histograms))

    def run(data, i):
        # The same place draws, for a charge that was made once: a budget is searched for longer than noise is drawn.
        paid = PaidSums(charge["sigma"], charge["variance"], charge["entries"])
        sums = SumReleaser(relation=layout.relation, meter=paid, noise=SeededNoise(i))
        cells, spread = sums.release(query, data, 1.0)
        assert spread == released.sigma
        return float(cells @ direction)

    middle = float((pair[0] + pair[1]) @ direction / WHOLE / 2)
    delta = 0.6
    audit = audit_pipeline(run, *pair, delta=delta, n_runs=4000, confidence=0.999, event=lambda score: score > middle)
    charged, proven = gaussian_mu(8.0, 1e-3), gaussian_mu(audit.epsilon_lower, delta)
    assert 0.9 * charged <= proven <= charged


def test_edges_hold_the_required_thresholds_and_half_of_the_rare_class():
    rng = np.random.default_rng(0)
    public = 1 / (1 + np.exp(4 - 1.2 * rng.normal(size=4000)))
    edges = bin_edges(public, 10, [0.5, 0.1])
    assert len(edges) == 9
    assert {HALF, 0.1} <= set(edges.tolist())
    assert (np.diff(edges) > 0).all()
    # Of 7 free edges some lie where the expected cases are, which 10 % of the rows hold.
    assert np.count_nonzero(edges > np.quantile(public, 0.9)) >= 3
    assert bin_edges(public, 2).tolist() == [HALF]
    # Of few different probabilities, as many edges as open a bin.
    assert len(bin_edges(np.full(50, 0.2), 20)) <= 2


def test_a_probability_at_an_edge_is_above_it_and_one_half_is_not_a_prediction_of_the_class():
    layout = plan_layout(("no", "yes"), 1000, 3.0, 1e-5, required=2)
    edges = public_edges(layout, np.array([[0.9, 0.1]] * 9), [0.5, 0.25])
    held = HeldRecords(
        probabilities=np.array([[0.75, 0.25], [0.5, 0.5]]),
        truth=np.array([1, 1]),
        groups={},
        unit_of=np.arange(2),
        n_units=2,
        usable=np.ones(2, dtype=bool),
    )
    cells = exact_total(layout, edges, held).reshape(2, layout.bins)[1] // WHOLE
    inner = edges.of_class["yes"].tolist()
    assert cells[inner.index(0.25) + 1 :].sum() == 2
    assert cells[inner.index(HALF) + 1 :].sum() == 0
    assert held.probabilities.argmax(axis=1).tolist() == [0, 0]


def test_bins_without_public_rows_are_spread_over_logits():
    for classes, positive in ((("no", "yes"), 1), (("no", "yes"), 0), (("a", "b", "c"), 0)):
        layout = layout_of(classes=classes, positive=positive, bins=10)
        for inner in public_edges(layout, None).of_class.values():
            assert inner.min() < 0.1
            assert inner.max() > 0.9
