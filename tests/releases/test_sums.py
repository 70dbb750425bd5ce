"""Released sums: the sensitivity of the relation, kept values, descriptions and tables."""

import copy
from dataclasses import asdict, dataclass

import numpy as np
import pytest

from dpensemble._drawn import kept_in
from dpensemble._random import SeededNoise, SystemNoise
from dpensemble.accounting import Group, SumsMeter
from dpensemble.budget import Budget
from dpensemble.errors import BudgetError, DataError, DuplicateError, InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.releases import ReleasedSum, ReleasedTable, SumQuery, SumReleaser
from dpensemble.releases.sums import PaidSums
from dpensemble.workflow.drawn import DrawnFile

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
    values, spread = one.release(Shares(), total, 0.5, weight=1000.0)
    assert values == pytest.approx([0.6, 0.3, 0.1], abs=6 * spread)
    (released,) = one.released
    sigma = one.meter.charges[0]["sigma"]
    assert released == ReleasedSum("the share of each class", Shares().table((values, spread)), sigma)
    assert asdict(released)["table"]["rows"][1] == ("class 1", values[1], spread)


def test_the_noise_is_that_of_the_relation():
    total = np.zeros(3, dtype=np.int64)
    spreads = {relation: releaser(relation).release(Shares(), total, 1.0)[1] for relation in Relation}
    assert spreads[Relation.REPLACE_ONE] == pytest.approx(2 * spreads[Relation.ADD_OR_REMOVE_ONE], rel=1e-9)
    for relation in Relation:
        assert releaser(relation).spread(Shares(), 1.0) == pytest.approx(spreads[relation], rel=1e-9)


def test_what_was_drawn_is_not_drawn_twice(tmp_path):
    total, found = np.arange(3) * UNIT, []
    for _ in range(2):
        with kept_in(DrawnFile(tmp_path / "drawn")):
            found.append(releaser(noise=SystemNoise()).release(Shares(), total, 1.0))
    assert found[0] == found[1]


def test_what_does_not_fit_is_neither_drawn_nor_described():
    one = releaser()
    one.release(Shares(), np.zeros(3, dtype=np.int64), 0.9)
    one.noise.uniform_bits = None
    with pytest.raises(BudgetError, match="does not fit"):
        one.release(Shares(), np.zeros(3, dtype=np.int64), 0.2)
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
        one.release(Shares(), np.array([0.5, 0.25, np.nan]), 0.5)
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
