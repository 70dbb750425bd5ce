"""Noise, partial sums and released sums.

Discrete noise has its law and its spread. Partial sums merge in any order, and only of the same records in every round.
Released sums have the sensitivity of their relation, are drawn once, and have descriptions and tables.

Noisy sums: random sequences of charges, against 60 digits.
"""

import copy
import math
from dataclasses import asdict, dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpensemble._random import SeededNoise, SystemNoise
from dpensemble._spending import kept_in
from dpensemble.accounting import Group
from dpensemble.errors import BudgetError, DataError, DuplicateError, FileError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.moments.learning import ClassSums
from dpensemble.relations import Relation
from dpensemble.releases import DiscreteNoise, ReleasedSum, ReleasedTable, SumQuery, SumReleaser, SumsMeter
from dpensemble.releases.answers import PaidSums
from dpensemble.releases.sums import CHECKSUMS, PartialSums, SameRecords, _whole_numbers
from dpensemble.workflow.disk import DrawnFile

from ..tiny_votes import gaussian_delta_in_digits


def discrete_law(kind, size):
    values = np.arange(-400, 401)
    masses = np.exp(-np.abs(values) / size) if kind == "laplace" else np.exp(-(values**2) / (2 * size))
    return values, masses / masses.sum()


@pytest.mark.parametrize(("kind", "size"), [("laplace", 1), ("laplace", 5), ("gaussian", 1), ("gaussian", 30)])
def test_noise_has_the_discrete_law_and_no_other(kind, size):
    draw = getattr(DiscreteNoise(SeededNoise(5)), kind)
    found = np.array([draw(size) for _ in range(6000)])

    def p_value(size):
        values, masses = discrete_law(kind, size)
        edges = np.flatnonzero(masses * len(found) > 8)
        inner, outer = values[edges], np.setdiff1d(values, values[edges])
        observed = [np.sum(found == v) for v in inner] + [np.sum(~np.isin(found, inner))]
        expected = np.append(masses[edges], masses[np.isin(values, outer)].sum()) * len(found)
        return chisquare(observed, expected).pvalue

    assert p_value(size) > 1e-3
    assert p_value(size * 1.25) < 1e-4


def test_large_noise_spreads_as_it_should():
    noise = DiscreteNoise(SeededNoise(1))
    assert np.std([noise.gaussian(10**24) for _ in range(1500)]) == pytest.approx(1e12, rel=0.06)
    assert np.mean([abs(noise.laplace(10**20)) for _ in range(1500)]) == pytest.approx(1e20, rel=0.08)
    for draw in (noise.gaussian, noise.laplace):
        with pytest.raises(InvalidParameterError, match="an integer from 1"):
            draw(0)


entries = st.lists(st.integers(-(2**70), 2**70), min_size=2, max_size=2)
parts = st.builds(
    lambda total, rows, checksum: PartialSums(np.array(total, dtype=object), rows, checksum),
    entries,
    st.integers(0, 9),
    st.integers(0, CHECKSUMS - 1),
)


def same(one, other):
    assert one.total.tolist() == other.total.tolist()
    assert one.records == other.records


@given(parts, parts, parts)
def test_the_order_of_parts_does_not_matter(a, b, c):
    same(a + b, b + a)
    same((a + b) + c, a + (b + c))
    same(a + PartialSums(None), a)
    same(PartialSums(None) + a, a)
    assert (a + b).checksum == (a.checksum + b.checksum) % 2**128
    assert (PartialSums(None) + PartialSums(None)).total is None


def test_merged_sums_have_no_limit():
    largest = PartialSums(np.array([[2**62]], dtype=object), 2**28)
    merged = sum([largest] * 9, PartialSums(None))
    assert merged.total.tolist() == [[9 * 2**62]]
    assert merged.rows == 9 * 2**28


def test_what_does_not_belong_together_is_refused():
    one = PartialSums(np.array([1], dtype=object))
    with pytest.raises(DataError, match="two different rounds"):
        one + PartialSums(np.array([1], dtype=object), round=1)
    with pytest.raises(DataError, match="different shapes"):
        one + PartialSums(np.array([1, 2], dtype=object))


@pytest.mark.parametrize("changed", [(2, 7), (3, 8), (0, 0)])
def test_other_records_are_refused_without_their_number(changed):
    records = SameRecords()
    records.require((3, 7))
    records.require((3, 7))
    with pytest.raises(DataError, match="changed between two passes") as found:
        records.require(changed)
    assert not any(letter.isdigit() for letter in str(found.value))


def test_python_integers_get_the_same_noise_as_those_of_numpy():
    total = np.arange(6).reshape(3, 2)
    one, other = (releaser().charge_and_draw(ClassSums(2), values, 0.5) for values in (total, total.astype(object)))
    assert np.array_equal(one.values, other.values)


@pytest.mark.parametrize(
    "total", [np.array([0.5]), np.array([1, 0.5], dtype=object), np.array([True, 2], dtype=object)]
)
def test_fractions_get_no_noise(total):
    assert not _whole_numbers(total)
    with pytest.raises(DataError, match="whole numbers"):
        releaser().charge_and_draw(ClassSums(2), total, 0.5)


UNIT = 2**30


@dataclass(frozen=True)
class Shares(SumQuery[list[float]]):
    """A query of its own: the shares of three classes."""

    description = "the share of each class"
    unit = UNIT
    replacing = 2 * UNIT
    removing = UNIT

    def read(self, sums, spread):
        return sums.tolist(), spread

    def table(self, outcome):
        values, spread = outcome
        return ReleasedTable("Classes", tuple((f"class {i}", value, spread) for i, value in enumerate(values)))


def releaser(relation=Relation.REPLACE_ONE, noise=None, epsilon=1.0):
    meter = SumsMeter([Group("everyone", Budget(epsilon=epsilon, delta=1e-5))])
    return SumReleaser(relation=relation, meter=meter, noise=SeededNoise(0) if noise is None else noise)


def test_a_query_is_all_that_a_new_kind_of_sum_needs():
    one, total = releaser(epsilon=1e6), UNIT * np.array([600, 300, 100])
    values, spread = one.charge_and_draw(Shares(), total, 0.5, weight=1000.0)
    assert values == pytest.approx([0.6, 0.3, 0.1], abs=6 * spread)
    (released,) = one.released
    sigma = one.meter.charges[0]["sigma"]
    assert released == ReleasedSum("the share of each class", Shares().table((values, spread)), sigma)
    assert asdict(released)["table"]["rows"][1] == ("class 1", values[1], spread)


def test_the_noise_is_that_of_the_relation():
    total = np.zeros(3, dtype=np.int64)
    spreads = {relation: releaser(relation).charge_and_draw(Shares(), total, 1.0)[1] for relation in Relation}
    assert spreads[Relation.REPLACE_ONE] == pytest.approx(2 * spreads[Relation.ADD_OR_REMOVE_ONE], rel=1e-9)
    for relation in Relation:
        assert releaser(relation).spread(Shares(), 1.0) == pytest.approx(spreads[relation], rel=1e-9)


def test_what_was_drawn_is_not_drawn_twice(tmp_path):
    total, found = np.arange(3) * UNIT, []
    for _ in range(2):
        with kept_in(DrawnFile(tmp_path / "drawn")):
            found.append(releaser(noise=SystemNoise()).charge_and_draw(Shares(), total, 1.0))
    assert found[0] == found[1]


def test_a_sum_of_another_size_is_not_taken_over(tmp_path):
    with kept_in(DrawnFile(tmp_path / "drawn")):
        releaser(noise=SystemNoise()).charge_and_draw(Shares(), np.zeros(3, dtype=np.int64), 1.0)
    later = releaser(noise=SystemNoise())
    with kept_in(DrawnFile(tmp_path / "drawn")), pytest.raises(FileError, match="drew a sum of another size"):
        later.charge_and_draw(Shares(), np.zeros(4, dtype=np.int64), 1.0)
    assert later.released == []


def test_what_does_not_fit_is_neither_drawn_nor_described():
    one = releaser()
    one.charge_and_draw(Shares(), np.zeros(3, dtype=np.int64), 0.9)
    one.noise.uniform_bits = None
    with pytest.raises(BudgetError, match="does not fit"):
        one.charge_and_draw(Shares(), np.zeros(3, dtype=np.int64), 0.2)
    assert len(one.released) == 1


def paid_sums():
    return PaidSums(noise=5.0, variance=2**60, entries=6)


@pytest.mark.parametrize(
    ("sigma", "variance", "entries"),
    [(4.9, 2**60, 6), (5.0, 2**59, 6), (5.0, 2**60, 7), (float("nan"), 2**60, 6), (5.0, 2**60, 0), (5.0, 2**60, -2)],
)
def test_sums_that_were_paid_before_are_those_and_no_others(sigma, variance, entries):
    with pytest.raises(BudgetError, match="must match those that were charged before"):
        paid_sums().charge(sigma, variance=variance, entries=entries)


def test_what_was_paid_once_is_drawn_once():
    paid = paid_sums()
    assert paid.sigma(1.0) == 5.0
    paid.charge(5.0, variance=2**60, entries=6)
    with pytest.raises(BudgetError, match="0 entries"):
        paid.charge(5.0, variance=2**60, entries=1)
    with pytest.raises(DuplicateError):
        copy.deepcopy(paid_sums()).charge(5.0, variance=2**60, entries=6)


def test_a_total_that_is_not_of_whole_numbers_is_refused_before_it_is_charged():
    one = releaser()
    with pytest.raises(DataError, match="whole numbers"):
        one.charge_and_draw(Shares(), np.array([0.5, 0.25, np.nan]), 0.5)
    assert one.meter.charges == ()


def test_an_unknown_relation_never_gets_the_smaller_sensitivity():
    meter = releaser().meter
    with pytest.raises(InvalidParameterError, match="relation"):
        SumReleaser(relation="replace", meter=meter, noise=SeededNoise(0))
    by_name = SumReleaser(relation="replace-one", meter=meter, noise=SeededNoise(0))
    assert by_name.relation is Relation.REPLACE_ONE
    assert Shares().sensitivity(None) == Shares().sensitivity(Relation.REPLACE_ONE)


def test_a_group_of_votes_is_no_group_of_a_sum():
    with pytest.raises(InvalidParameterError, match="weight for sums"):
        SumsMeter([Group("everyone", Budget(epsilon=1, delta=1e-5), votes=5)])


VARIANCE = 2**70


def everyone(epsilon=1.0, delta=1e-5):
    return SumsMeter([Group("everyone", Budget(epsilon=epsilon, delta=delta))])


@settings(max_examples=10)
@given(
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12),
    st.floats(0.01, 20.0),
    st.sampled_from([1e-12, 1e-5, 1e-2]),
)
def test_what_is_admitted_never_exceeds_the_budget(parts, epsilon, delta):
    meter = everyone(epsilon, delta)
    mus = []
    for part in parts:
        sigma, before = meter.sigma(part), meter.spent_epsilon
        try:
            meter.charge(sigma, variance=VARIANCE, entries=100)
        except BudgetError:
            assert meter.spent_epsilon == before
        else:
            mus.append(1 / sigma)
    mu = math.sqrt(math.fsum(one**2 for one in mus))
    assert gaussian_delta_in_digits(mu, epsilon) <= delta
    assert gaussian_delta_in_digits(mu, meter.spent_epsilon) <= delta
    assert meter.spent_epsilon <= epsilon
    # What fits is admitted: nothing is refused for as long as all shares add up to 1.
    if math.fsum(parts) <= 1:
        assert len(mus) == len(parts)


def test_shares_that_add_up_to_one_spend_all():
    for parts in ((1.0,), (0.3, 0.3, 0.4), (0.1,) * 10, (1 / 3,) * 3, (0.01,) * 100):
        meter = everyone()
        for part in parts:
            meter.charge(meter.sigma(part), variance=VARIANCE, entries=3000)
        assert 1 - 1e-6 < meter.spent_epsilon <= 1
        assert meter.spend_curve() == [(len(parts), (meter.spent_epsilon,))]
        with pytest.raises(BudgetError, match="does not fit"):
            meter.charge(meter.sigma(0.01), variance=VARIANCE, entries=1)


@settings(max_examples=12)
@given(
    st.lists(st.tuples(st.floats(0.05, 10.0), st.floats(0.0, 1.0)), min_size=1, max_size=4),
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=4),
)
def test_every_group_is_charged_by_its_weight(members, parts):
    groups = [
        Group(str(i), Budget(epsilon=epsilon, delta=1e-5), weight=weight) for i, (epsilon, weight) in enumerate(members)
    ]
    meter = SumsMeter(groups)
    if not 1e-3 < meter.mu < 1e3:
        return
    square = 0.0
    for part in parts:
        try:
            meter.charge(meter.sigma(part), variance=VARIANCE, entries=10)
        except BudgetError:
            continue
        square += 1 / meter.sigma(part) ** 2
    for group, spent in zip(groups, meter.group_epsilons, strict=True):
        assert spent <= group.budget.epsilon
        mu = group.weight * math.sqrt(square)
        assert not mu or gaussian_delta_in_digits(mu, spent) <= 1e-5
    assert meter.spent_epsilon == max(meter.group_epsilons)
    assert meter.budget.epsilon == max(epsilon for epsilon, _ in members)


def test_slack_is_charged():
    exact, coarse = everyone(), everyone()
    exact.charge(exact.sigma(0.5), variance=2**80, entries=1)
    coarse.charge(coarse.sigma(0.5), variance=2**40, entries=10**6)
    eta = 181 * 10**6 / 2**40
    assert coarse.spent_epsilon > exact.spent_epsilon + 2 * eta * 0.99
    # Entries without end do not fit however small their share is.
    with pytest.raises(BudgetError):
        coarse.charge(1e9, variance=2**40, entries=2**36)


@pytest.mark.parametrize("sigma", [math.nan, math.inf, -1.0, 0.0, 1e-9, None, "1"])
def test_noise_that_is_none_is_refused(sigma):
    meter = everyone()
    with pytest.raises(InvalidParameterError):
        meter.charge(sigma, variance=VARIANCE, entries=1)
    assert meter.spent_epsilon == 0.0


@pytest.mark.parametrize("share", [math.nan, math.inf, -0.1, 0.0, 1.0001])
def test_shares_outside_are_refused(share):
    with pytest.raises(InvalidParameterError):
        everyone().sigma(share)


@pytest.mark.parametrize("change", [{"variance": 2**39}, {"variance": 2.0**50}, {"entries": 0}, {"entries": 1.5}])
def test_sums_that_are_none_are_refused(change):
    meter = everyone()
    with pytest.raises(InvalidParameterError):
        meter.charge(meter.sigma(0.5), **{"variance": VARIANCE, "entries": 1, **change})
    assert meter.spent_epsilon == 0.0


def test_groups_have_one_delta_and_weights_up_to_one():
    with pytest.raises(InvalidParameterError, match="at least one"):
        SumsMeter([])
    one, other = Budget(epsilon=1, delta=1e-5), Budget(epsilon=1, delta=1e-6)
    with pytest.raises(InvalidParameterError, match="one delta"):
        SumsMeter([Group("a", one), Group("b", other)])
    for weight in (math.nan, -0.1, 1.1):
        with pytest.raises(InvalidParameterError):
            Group("a", one, weight=weight)


def test_accounting_names_its_sources():
    meter = everyone()
    meter.charge(meter.sigma(0.5), variance=VARIANCE, entries=1)
    assert "1 noisy sum " in meter.accounting
    meter.charge(meter.sigma(0.5), variance=VARIANCE, entries=1)
    assert "2 noisy sums" in meter.accounting
