"""Equality of ids: one function of a single entry, in every route and beside all other entries and blocks."""

import datetime
import enum
import uuid
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpensemble._units import (
    _entries_of,
    identity,
    is_id_type,
    named_units,
    number_units,
    require_id_type,
    unit_numbers,
)
from dpensemble.allocation import partitions
from dpensemble.datasets.arrow import ArrowBlocks, _UnitNumbers
from dpensemble.errors import DataError, DPEnsembleError
from dpensemble.relations import Relation
from dpensemble.rows.arguments import Owners
from dpensemble.rows.checksums import RowChecksums
from dpensemble.workflow.scoring import _numbers
from dpensemble.workflow.tables import Tables

# Optional, so that the rest also runs without Polars.
with suppress(ImportError):
    import polars as pl
HAS_POLARS = "pl" in globals()


class Name(str):
    """A text that writes itself in another way."""

    __slots__ = ()

    def __str__(self):
        return "somebody else"


class Kind(enum.IntEnum):
    SEVEN = 7


class Plain(enum.Enum):
    SEVEN = 7


NOON = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
IN_TOKYO = NOON.astimezone(datetime.timezone(datetime.timedelta(hours=9)))
UUID = uuid.UUID(int=7)
# Ids by the class that they have. Every id of a class is one unit, and no two classes are.
ONE_UNIT = [
    [7, "7", np.int8(7), np.uint64(7), Kind.SEVEN, np.str_("7"), Name("7")],
    ["007"],
    [" 7"],
    ["7.0"],
    [-7, "-7"],
    [1, "1", np.int64(1)],
    [True, "True", np.True_],
    ["true"],
    [0, "0", -0],
    [2**53, str(2**53)],
    [2**53 + 1, str(2**53 + 1)],
    [2**64 - 1, np.uint64(2**64 - 1)],
    [10**300, str(10**300)],
    ["\u00e9"],
    ["e\u0301"],
    ["\ud800"],
    ["\udc00"],
    ["a\0"],
    ["a"],
    ["A"],
    ["nan"],
    ["x" * 10_000],
    [b"7", bytearray(b"7"), np.bytes_(b"7")],
    [b""],
    [b"\xff"],
    [UUID, str(UUID)],
]
#: Entries that name nobody.
NOBODY = [
    *(None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), ""),
    *(
        7.0,
        1.5,
        np.float32(7),
        Decimal("1.0"),
        Decimal("1.00"),
        Decimal("sNaN"),
        Fraction(7),
        7 + 0j,
        10**400,
        10**5000,
    ),
    *(NOON, IN_TOKYO, NOON.replace(tzinfo=None), NOON.date(), pd.Timestamp(NOON), np.datetime64("2020-01-01")),
    *(datetime.timedelta(7), (7,), [7], {"a": 7}, Plain.SEVEN, object(), np.ma.masked),
]
CLASS_OF = {id(one): place for place, alike in enumerate(ONE_UNIT) for one in alike}
ENTRIES = st.one_of(
    st.sampled_from([one for alike in ONE_UNIT for one in alike]),
    st.sampled_from(NOBODY),
    st.text(st.characters(), max_size=3),
    st.integers(-(2**70), 2**70),
    st.binary(max_size=2),
    st.floats(),
)


def objects(entries):
    return np.fromiter(entries, dtype=object, count=len(entries))


def column(entries):
    return pd.Series(objects(entries), dtype=object)


def places(units):
    """Return the unit of each record by `number_units`, -1 without one."""
    names, present = named_units(units)
    numbers = np.full(len(present), -1)
    if present.any():
        numbers[present] = number_units(names[present])[1]
    return numbers


def of_owners(entries):
    owners = Owners.of(entries, len(entries), zeroes=True)
    numbers = np.full(len(entries), -1)
    numbers[owners.present] = unit_numbers(owners.units, int(owners.present.sum()))
    return numbers


def by_key(entries):
    """Units of one name go to the same teachers, and those of other names to others, under add-or-remove-one."""
    names, present = named_units(entries)
    drawn = partitions(names[present], 2**30, 2, relation=Relation.ADD_OR_REMOVE_ONE)
    numbers = np.full(len(entries), -1)
    numbers[present] = drawn.teachers.reshape(-1, 2)[drawn.unit_of_record, 0]
    return numbers


def in_parts(entries, *, rows=2):
    """Units by hashes, as parts of a table return them."""
    parts = [column(entries[start : start + rows]) for start in range(0, len(entries), rows)]
    hashed = [RowChecksums(bytes(32)).ids(part) for part in parts]
    return [one.tobytes() if there else -1 for hashes, ids in hashed for one, there in zip(hashes, ids, strict=True)]


def in_blocks(entries, *, rows=2):
    numbers = _UnitNumbers()
    blocks = [column(entries[start : start + rows]) for start in range(0, len(entries), rows)]
    return np.concatenate([numbers.of(block) for block in blocks])


def held_back(entries):
    table = pd.DataFrame({"x": np.zeros(len(entries))})
    return _numbers(
        Tables(name="", classes=[0, 1], X_private=table, y_private=table["x"], X_public=table, units=objects(entries))
    )[0]


ROUTES = {
    "a list": places,
    "an array of objects": lambda entries: places(objects(entries)),
    "a column of objects": lambda entries: places(column(entries)),
    "owners": of_owners,
    "blocks": in_blocks,
    "blocks of one row": lambda entries: in_blocks(entries, rows=1),
    "parts": in_parts,
    "one part": lambda entries: in_parts(entries, rows=len(entries)),
    "held back": held_back,
}


def equal_pairs(numbers):
    """Return which two records are of one unit, and which have no unit."""
    listed = [None if one == -1 else one for one in (numbers.tolist() if hasattr(numbers, "tolist") else numbers)]
    return [[a is not None and a == b for b in listed] for a in listed], [one is None for one in listed]


@pytest.mark.parametrize("route", ROUTES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(entries=st.lists(ENTRIES, min_size=1, max_size=8))
def test_every_route_calls_the_same_ids_equal(route, entries):
    wanted = [identity(one) for one in entries]
    if all(one is None for one in wanted):
        return
    assert equal_pairs(ROUTES[route](entries)) == equal_pairs([-1 if one is None else one for one in wanted])


@settings(max_examples=200, deadline=None)
@given(entry=ENTRIES, others=st.lists(ENTRIES, max_size=4), more=st.lists(ENTRIES, max_size=4))
def test_others_decide_nothing_about_an_id(entry, others, more):
    alone = RowChecksums(bytes(32)).ids(column([entry]))
    hashes, present = RowChecksums(bytes(32)).ids(column([*others, entry, *more]))
    assert np.array_equal(hashes[len(others)], alone[0][0])
    assert present[len(others)] == alone[1][0] == (identity(entry) is not None)


def test_ids_of_one_class_are_one_unit_and_others_are_not():
    written = [{identity(one) for one in alike} for alike in ONE_UNIT]
    assert all(len(of_class) == 1 and None not in of_class for of_class in written)
    assert len(set().union(*written)) == len(ONE_UNIT)
    assert [identity(one) for one in NOBODY] == [None] * len(NOBODY)


@pytest.mark.parametrize("entry", NOBODY, ids=range(len(NOBODY)))
def test_an_entry_that_is_no_id_is_left_out_or_refused_without_quoting_it(entry):
    units = objects([*map(str, range(5)), entry])
    owners = Owners.of(units, 6, zeroes=True)
    assert owners.present.tolist() == [True] * 5 + [False]
    with pytest.raises(DPEnsembleError) as refused:
        unit_numbers(units, 6)
    assert "7" not in str(refused.value)


TYPED = {
    "int64": ([3, 2**53 + 1, -7, 3], np.array([3, 2**53 + 1, -7, 3])),
    "uint64": ([3, 2**64 - 1, 7, 3], np.array([3, 2**64 - 1, 7, 3], dtype=np.uint64)),
    "Int64": ([3, 2**53 + 1, None, 3], pd.array([3, 2**53 + 1, None, 3], dtype="Int64")),
    "truth": ([True, False, True, None], pd.array([True, False, True, None], dtype="boolean")),
    "numpy truth": ([True, False, True], np.array([True, False, True])),
    "text": (["a", "7", None, "a"], pd.Series(["a", "7", None, "a"])),
    "numpy text": (["a", "7", "a"], np.array(["a", "7", "a"])),
    "bytes": ([b"a", b"7", b"a"], np.array([b"a", b"7", b"a"])),
    "categories of numbers": ([2**53 + 1, None, 7], pd.Categorical([2**53 + 1, None, 7])),
    "categories of anything": ([7, "7", True, None], pd.Series([7, "7", True, None], dtype=object).astype("category")),
    "pyarrow": ([2**53 + 1, None, 7], pd.Series([2**53 + 1, None, 7], dtype="int64[pyarrow]")),
    "arrow": ([2**53 + 1, None, 7], pa.array([2**53 + 1, None, 7])),
}
# The oldest pyarrow has no such type.
HAS_UUID = hasattr(pa, "uuid")
if HAS_UUID:
    TYPED["arrow uuid"] = ([UUID, None, UUID], pa.array([UUID.bytes, None, UUID.bytes], pa.uuid()))
if HAS_POLARS:
    TYPED["polars"] = ([2**53 + 1, None, 7], pl.Series([2**53 + 1, None, 7]))


@pytest.mark.parametrize("kind", TYPED)
def test_ids_of_a_declared_type_are_those_of_their_entries(kind):
    entries, given_ids = TYPED[kind]
    wanted = equal_pairs([-1 if identity(one) is None else identity(one) for one in entries])
    assert equal_pairs(places(given_ids)) == wanted
    if not hasattr(given_ids, "to_pylist") and kind != "polars":
        series = pd.Series(given_ids)
        assert equal_pairs(_UnitNumbers().of(series)) == wanted
        hashes, present = RowChecksums(bytes(32)).ids(series)
        alone = [RowChecksums(bytes(32)).ids(column([one]))[0][0] for one in entries]
        assert np.array_equal(hashes[present], np.array(alone)[present])


ARROW = {
    "int64": pa.array([3, 2**53 + 1, -7, 3, None]),
    "string": pa.array(["a", "7", "", "a", None]),
    "large_string": pa.array(["a", "7", "e\u0301", "\u00e9", None], pa.large_string()),
    "string_view": pa.array(["a", "7", "b", "a", None], pa.string_view()),
    "dictionary": pa.array(["a", "7", "b", "a", None]).dictionary_encode(),
    "dictionary of numbers": pa.array([3, 2**53 + 1, -7, 3, None]).dictionary_encode(),
    "bool": pa.array([True, False, True, True, None]),
    "binary": pa.array([b"a", b"7", b"\xff", b"a", None]),
    "fixed_size_binary": pa.array([b"a7", b"7a", b"\xff7", b"a7", None], pa.binary(2)),
    "null": pa.nulls(5),
}
if HAS_UUID:
    ARROW["uuid"] = pa.array([bytes(15) + b"a", bytes(16), None, bytes(16), None], pa.uuid())


@pytest.mark.parametrize("kind", ARROW)
def test_ids_of_streams_are_those_of_their_entries(kind):
    ids = ARROW[kind]
    table = pa.table({"y": [0, 1, 0, 1, 1], "who": ids})
    for rows in (1, 2, 5):
        read = ArrowBlocks(lambda rows=rows: table.to_reader(max_chunksize=rows), "y", unit="who", keep_bad=True)
        wanted = [identity(one) for one in ids.to_pylist()]
        assert equal_pairs(read.units) == equal_pairs([-1 if one is None else one for one in wanted])


REFUSED = [
    *map(np.dtype, ("f8", "f4", "c16", "M8[ns]", "m8[s]")),
    *(pd.Float64Dtype(), pd.CategoricalDtype([1.5]), pd.CategoricalDtype(pd.to_datetime(["2020-01-01"]))),
    *(pd.PeriodDtype("M"), pd.IntervalDtype("int64"), pd.DatetimeTZDtype("us", "UTC"), pd.SparseDtype(float)),
    *map(pd.ArrowDtype, (pa.float64(), pa.decimal128(5), pa.timestamp("us"))),
    *(pa.float16(), pa.float64(), pa.decimal128(5), pa.decimal256(50), pa.date32(), pa.date64(), pa.time64("us")),
    *(pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.duration("s"), pa.month_day_nano_interval()),
    *(pa.list_(pa.int64()), pa.struct({"int64": pa.int64()}), pa.map_(pa.string(), pa.int64())),
    *(pa.dictionary(pa.int32(), pa.float64()), pa.run_end_encoded(pa.int32(), pa.float64())),
    *("double", "float", "decimal(10,2)", "date", "timestamp_ntz", "array<int>", "interval day to second"),
]
TAKEN = [
    *map(np.dtype, (int, "u1", "U3", "S2", object, bool)),
    *(pd.Int64Dtype(), pd.StringDtype(), pd.BooleanDtype(), pd.CategoricalDtype([1, 2]), pd.CategoricalDtype([1, "a"])),
    *map(pd.ArrowDtype, (pa.int64(), pa.string(), pa.dictionary(pa.int8(), pa.string()))),
    *(
        pa.int32(),
        pa.large_string(),
        pa.string_view(),
        pa.binary_view(),
        pa.binary(4),
        pa.null(),
        pa.bool_(),
    ),
    *(pa.dictionary(pa.int32(), pa.int64()), pa.run_end_encoded(pa.int32(), pa.string())),
    *("bigint", "string", "varchar(5)", "tinyint", "boolean", "binary"),
]


if HAS_UUID:
    TAKEN.append(pa.uuid())
if HAS_POLARS:
    REFUSED += [pl.Float64, pl.Decimal(5, 2), pl.Datetime("us"), pl.Date, pl.List(pl.Int64), pl.Time]
    REFUSED += [pl.Struct({"int": pl.Int64})]
    TAKEN += [pl.Int64, pl.String, pl.Categorical(), pl.Boolean, pl.Binary, pl.Enum(["a"])]


def test_types_decide_before_any_entry_is_read():
    assert [str(kind) for kind in REFUSED if is_id_type(kind)] == []
    assert [str(kind) for kind in TAKEN if not is_id_type(kind)] == []
    with pytest.raises(DataError, match=r"^units has the type float64, in which one id may have several forms"):
        require_id_type("units", np.dtype(float))


@pytest.mark.parametrize(
    "given_ids",
    [
        *(np.array([1.0, 2.0]), pd.Series([1, None]), pa.array([1.5, 2]), pd.Series([Decimal(1)] * 2)),
        *([pl.Series([1.5])] if HAS_POLARS else []),
    ],
)
def test_given_columns_of_other_types_are_refused(given_ids):
    with pytest.raises(DPEnsembleError, match="units must be strings, integers or bytes"):
        unit_numbers(given_ids, len(given_ids))


def test_a_list_has_no_type_that_its_entries_decide():
    # NumPy makes one type of a list: texts beside a text, and 1 of True beside a number.
    for entries in ([1, True], [1, "1"], [1, 2.5], [2**63, -1]):
        assert _entries_of("units", entries).tolist() == entries
        assert list(map(type, _entries_of("units", entries).tolist())) == list(map(type, entries))
    assert unit_numbers([1, True, "1", "True"], 4).tolist() == [0, 1, 0, 1]
