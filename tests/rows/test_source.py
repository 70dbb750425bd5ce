"""Sources of private rows: what a source does not state has the safe value, and four things bound a unit."""

from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from dpensemble.errors import DataError
from dpensemble.moments.learning import UnitCount
from dpensemble.rows.checked import RowCheck, TableForm, UnitsByPlace
from dpensemble.rows.passes import CheckedRecords, Features, SumsOfRecords
from dpensemble.rows.source import BlockSource, Facts, Given, converted_source, rows_here, source_without

TABLE = pd.DataFrame({"size": [0.0, 1.0, np.inf, 3.0, 4.0], "y": ["p", "q", "p", "no class", "q"]})
IDS = ["7", 7, np.int64(7), "seven", None]


class Silent:
    """A source that states nothing about its rows."""

    target = "y"

    def __init__(self, *tables, unit=None):
        self.passes, self.unit = list(tables), unit

    def results(self, work):
        table = self.passes[0] if len(self.passes) == 1 else self.passes.pop(0)
        return (work(iter([part])) for part in (table[:2], table[2:2], table[2:]))

    def without(self, held):
        return Silent(*(table[~held] for table in self.passes))


def check(**more):
    return RowCheck(TableForm(TABLE[["size"]].iloc[:0]), np.array(["p", "q"]), zeroes=True, **more)


def behind(records):
    """Return the sums of records behind a map."""
    return SumsOfRecords(
        records, Features(lambda table: table.to_numpy(), zeroes_bad=True, n_features=1, keeps=records.keeps)
    )


def weight(records, number=0):
    """Return the total weight of units."""
    return behind(records).sums(UnitCount(), number).total[0, 0] / UnitCount().unit


def counted(source, **more):
    """Return the records of a source after the first pass, and the total weight of their units."""
    records = CheckedRecords.of_source(source, check(**more))
    return records, weight(records)


def owned(ids):
    return TABLE.assign(who=pd.Series(ids, dtype=object))


@pytest.mark.parametrize("bad", [False, True])
def test_all_records_of_a_unit_count_in_its_weight(bad):
    """Also those that became zeros, or a person with bad records would weigh more than 1."""
    table = owned(["a", "b", "a", "b", "a"])
    if not bad:
        table["size"], table["y"] = np.arange(5.0), "p"
    records, weight = counted(Silent(table, unit="who"))
    assert (records.n_records, records.n_units) == (5, 2)
    assert weight == pytest.approx(2, abs=1e-6)


def test_units_are_those_of_equal_ids():
    """7 is written in three ways, and nobody's record is in no sum."""
    records, weight = counted(Silent(owned(IDS), unit="who"))
    assert (records.n_records, records.n_units) == (4, 2)
    assert weight == pytest.approx(2, abs=1e-6)
    other = counted(Silent(owned([UUID(int=1), str(UUID(int=1)), b"a", "a", "b"]), unit="who"))[0]
    assert other.n_units == 4


def test_rows_that_nobody_states_to_be_fixed_have_checksums():
    changed = TABLE.assign(size=TABLE["size"] + 1)
    for source in (Silent(TABLE), converted_source(Silent(TABLE), lambda X, y: (X, y)), BlockSource(lambda: iter(()))):
        assert Facts.of(source).may_change
    records = CheckedRecords.of_source(Silent(TABLE, changed), check())
    sums = behind(records)
    with pytest.raises(DataError, match="changed between two passes"):
        records.same.require(sums.sums(UnitCount(), 0).records)


def test_rows_without_fixed_places_cannot_be_held_back():
    held = np.array([True, False, False, False, False])
    for source in (Silent(TABLE), converted_source(Silent(TABLE), lambda X, y: (X, y)), BlockSource(lambda: iter(()))):
        with pytest.raises(DataError, match="have no fixed places: write them to files"):
            source_without(source, held)
    rest = source_without(
        BlockSource(lambda: iter([(TABLE[["size"]], TABLE["y"].to_numpy())]), fixed_places=True), held
    )
    assert [X["size"].tolist() for X, _ in rows_here(rest)] == [TABLE["size"].tolist()[1:]]


def test_rows_in_memory_are_converted_once_and_need_no_checksum(monkeypatch):
    passes, converted_once = [], TableForm.converted
    monkeypatch.setattr(
        TableForm, "converted", lambda self, X, **more: passes.append(len(X)) or converted_once(self, X, **more)
    )
    units = UnitsByPlace(np.array([0, 1, 0, 1, -1]), np.array([0.5, 0.5, 0.5, 0.5, 0.0]))
    records = CheckedRecords.in_memory(TABLE[["size"]], TABLE["y"], check(units=units))
    assert [weight(records, number) for number in (0, 1)] == pytest.approx([2, 2], abs=1e-6)
    assert (passes, records.n_records, records.n_units) == ([5], 4, 2)


@pytest.mark.parametrize("value", [None, "", "no", "False", 0, 1, np.nan, np.bool_(False), [], print])
def test_what_is_neither_true_nor_false_states_nothing(value):
    source = Silent(TABLE)
    for name in ("fixed_places", "may_change", "keeps_features", "names_rows"):
        setattr(source, name, value)
    assert Facts.of(source) == Facts()


@pytest.mark.parametrize("names_rows", [False, True])
@pytest.mark.parametrize("keeps_features", [False, True])
@pytest.mark.parametrize("may_change", [False, True])
def test_units_of_a_column_weigh_1_whatever_a_source_states(may_change, keeps_features, names_rows):
    """Records that are converted once would keep the weight that they had before units were counted."""
    source = Silent(owned(["a", "b", "a", "a", "a"]), unit="who")
    source.results = lambda work: iter([work(iter([source.passes[0]]))])
    source.may_change, source.keeps_features, source.names_rows = may_change, keeps_features, names_rows
    records, weight = counted(source)
    assert records.n_units == 2
    assert weight == pytest.approx(2, abs=1e-6)


def test_units_that_no_column_names_are_refused():
    source = Silent(TABLE)
    source.target, source.names_rows = None, True
    source.results = lambda work: iter([work(iter([Given(TABLE[["size"]], TABLE["y"], np.arange(5))]))])
    with pytest.raises(DataError, match="gives units although its unit is None"):
        CheckedRecords.of_source(source, check())


def test_features_of_one_part_never_stand_for_another():
    class Hasty(Silent):
        keeps_features = names_rows = True

    for may_change in (True, False):
        source = Hasty(TABLE)
        source.may_change = may_change
        sums = behind(CheckedRecords.of_source(source, check()))
        assert [sums.sums(UnitCount(), number).total[0, 0] / UnitCount().unit for number in (0, 1)] == [5, 5]


def test_a_loop_that_has_more_or_fewer_rows_than_units_ends():
    units = UnitsByPlace(np.zeros(4, dtype=np.int64), np.full(4, 0.25))
    with pytest.raises(DataError, match="units has fewer entries"):
        counted(BlockSource(lambda: iter([(TABLE[["size"]], TABLE["y"])])), units=units)
    with pytest.raises(DataError, match="units has more entries"):
        counted(BlockSource(lambda: iter([(TABLE[["size"]][:3], TABLE["y"][:3])])), units=units)
