"""Neighbouring tables in every route: one person or record is replaced by anything, and all others are the same.

Sums move by at most the sensitivity that is charged. With ``on_bad_record="zero"`` a record that cannot be read is the
same as a record with a blank in its place. With ``"raise"`` no error quotes an entry.
"""

import datetime
import functools
import io
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpensemble import LabelMomentsClassifier
from dpensemble._units import identity
from dpensemble.datasets import ParquetBlocks
from dpensemble.datasets.arrow import ArrowBlocks, ArrowPart
from dpensemble.datasets.partitions import ParquetParts
from dpensemble.errors import ColumnWarning, DPEnsembleError, HiddenError
from dpensemble.releases import SumReleaser
from dpensemble.workflow.table_files import ReadOptions, TableFiles, Workers
from dpensemble.workflow.tables import file_tables

N, PLACE = 24, 13
RNG = np.random.default_rng(0)
PUBLIC = pd.DataFrame({"a": RNG.normal(size=60), "c": RNG.choice(["x", "y"], 60)})
OTHERS = pd.DataFrame({"a": RNG.normal(size=N), "c": RNG.choice(["x", "y"], N), "y": RNG.choice(["n", "p"], N)})
SETTINGS = {"classes": ["n", "p"], "epsilon": 5.0, "delta": 1e-3, "insecure_release_seed": 1, "rounds": 1}
SETTINGS |= {"statistics": "class-shares"}
RELATIONS = ["replace-one", "add-or-remove-one"]


class _Enough(Exception):  # noqa: N818
    pass


def sums_of(fit, *, relation="replace-one", on_bad_record="zero"):
    """Return the sums of a run before their noise, with the sensitivity of each: counts, statistics and a mean."""
    seen, n_sums = [], 2 if relation == "replace-one" else 3
    real = SumReleaser.charge_and_draw

    def watched(self, query, total, share, *, weight=1.0):
        seen.append((total.copy(), query.sensitivity(self.relation)))
        # Later sums depend on what was released, so they are of other queries in each table.
        if len(seen) == n_sums:
            raise _Enough
        return real(self, query, total, share, weight=weight)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(SumReleaser, "charge_and_draw", watched)
        try:
            fit(LabelMomentsClassifier(**SETTINGS, relation=relation, on_bad_record=on_bad_record))
        except DPEnsembleError:
            if not seen:
                raise
    return seen


def distances(one, other):
    """Return how far each sum moves, as a multiple of the sensitivity that is charged."""
    return [
        float(np.linalg.norm((first - second).astype(float))) / charged
        for (first, charged), (second, _) in zip(one, other, strict=True)
    ]


class InParts:
    """A table in parts of a few rows, like a frame of Dask."""

    target = "y"

    def __init__(self, table, *, unit="who", rows=7):
        self.unit = unit
        self._parts = [table.iloc[start : start + rows] for start in range(0, len(table), rows)]

    def results(self, work):
        return (work(iter([part])) for part in self._parts)


def blocks_of(table, rows=7):
    features = [name for name in table.columns if name not in ("y", "who")]
    return lambda: (
        (part[features], part["y"].to_numpy())
        for part in (table.iloc[start : start + rows] for start in range(0, len(table), rows))
    )


# Routes of tables of pandas whose ids are objects of any kind.
OF_OBJECTS = {
    "memory": lambda model, table: model.fit(
        table[["a", "c"]], table["y"], X_public=PUBLIC, units=table["who"].tolist()
    ),
    "memory, a column": lambda model, table: model.fit(
        table[["a", "c"]], table["y"], X_public=PUBLIC, units=table["who"]
    ),
    "blocks": lambda model, table: model.fit_blocks(blocks_of(table), X_public=PUBLIC, units=table["who"].tolist()),
    "parts": lambda model, table: model.fit_blocks(InParts(table), X_public=PUBLIC),
    "parts of one row": lambda model, table: model.fit_blocks(InParts(table, rows=1), X_public=PUBLIC),
}
IDS = [
    *(1, "1", "01", " 1", True, "True", np.int64(1), 2**53, 2**53 + 1, "\u00e9", "e\u0301", "\ud800", b"1", "", "nan"),
    *(1.0, Decimal("1.0"), Decimal("1.00"), None, np.nan, pd.NaT, pd.NA, 10**400, (1,), [1], datetime.date(2020, 1, 1)),
    *(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), np.float32(1), Decimal("sNaN"), np.ma.masked),
]


def with_ids(ids, rng):
    """Return a table whose other persons have the ids that are most like those of one person, in any order."""
    table = OTHERS.copy()
    who = np.empty(N, dtype=object)
    for place in range(N):
        who[place] = ids[rng.integers(len(ids))]
    # Some units remain when one of them loses its id.
    who[:3] = "q", 5, "r"
    return table.assign(who=pd.Series(who, dtype=object))


def replaced(table, rng, ids):
    """Return the table in which all records of one unit have another id, other entries and other labels."""
    written = [identity(one) for one in table["who"]]
    names = sorted({one for one in written if one is not None})
    name = names[rng.integers(len(names))]
    mine = [place for place, one in enumerate(written) if one == name]
    unused = [one for one in ids if identity(one) not in names]
    new = table.copy()
    who = new["who"].to_numpy(dtype=object).copy()
    entry = unused[rng.integers(len(unused))] if unused else "a new person"
    for place in mine:
        who[place] = entry
    new["who"] = pd.Series(who, dtype=object)
    new.loc[mine, "a"], new.loc[mine, "c"], new.loc[mine, "y"] = rng.choice([-9.0, 9.0, np.inf]), "z", "n"
    return new


def largest_of_pairs(route, relation, seeds):
    largest = 0.0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        table = with_ids([IDS[place] for place in rng.permutation(len(IDS))[: rng.integers(4, 12)]] + ["q", 5], rng)
        other = replaced(table, rng, IDS)
        first, second = (
            sums_of(lambda model, rows=rows: OF_OBJECTS[route](model, rows), relation=relation)
            for rows in (table, other)
        )
        largest = max([largest, *distances(first, second)])
    return largest


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("route", OF_OBJECTS)
def test_replacing_a_person_moves_no_sum_by_more_than_is_charged(route, relation):
    # Adding or removing is half of replacing, which therefore moves sums by twice as much.
    bound = 1 if relation == "replace-one" else 2
    assert 0 < largest_of_pairs(route, relation, range(4)) <= bound + 1e-9


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("route", OF_OBJECTS)
def test_replacing_a_person_in_sixty_tables(route, relation):
    bound = 1 if relation == "replace-one" else 2
    # A part of one row takes as long as one of seven rows, so there are fewer tables.
    seeds = range(100, 160, 3 if route == "parts of one row" else 1)
    assert 0 < largest_of_pairs(route, relation, seeds) <= bound + 1e-9


# An entry that no type of numpy or pandas holds, beside another one of its kind in the same column.
ODD_ENTRIES = {
    "surrogate": "\ud800",
    "signalling": Decimal("sNaN"),
    "large": 10**400,
    "list": [1],
    "dictionary": {},
    "complex": 1j,
    "bytes": b"\xff",
    "last day": datetime.date(9999, 12, 31),
    "masked": np.ma.masked,
}
OF_ONE_COLUMN = {name: OF_OBJECTS[name] for name in ("memory", "blocks", "parts", "parts of one row")}


def with_entries(column, entries):
    """Return the table with entries at the first places of a column of objects."""
    table = OTHERS.assign(who=[f"person {place}" for place in range(N)])
    values = np.empty(N, dtype=object)
    values[:] = table[column]
    for place, entry in enumerate(entries):
        values[place] = entry
    return table.assign(**{column: pd.Series(values, dtype=object)})


def sums_of_two(route, column, first, beside):
    table = with_entries(column, [first, beside])
    return sums_of(lambda model: OF_ONE_COLUMN[route](model, table))


@functools.cache
def sums_beside_an_ordinary_entry(route, column, beside):
    return sums_of_two(route, column, "x", ODD_ENTRIES[beside])


def distances_of_first(route, column, odd, beside):
    """Return how far the sums move when an ordinary entry takes the place of one of two odd entries."""
    sums = sums_of_two(route, column, ODD_ENTRIES[odd], ODD_ENTRIES[beside])
    return distances(sums, sums_beside_an_ordinary_entry(route, column, beside))


@pytest.mark.parametrize("column", ["c", "y"])
@pytest.mark.parametrize("route", OF_ONE_COLUMN)
def test_odd_entries_of_two_persons_in_one_column_stop_no_run(route, column):
    for odd, beside in [("surrogate", "signalling"), ("large", "list")]:
        assert max(distances_of_first(route, column, odd, beside)) <= 1 + 1e-9


@pytest.mark.nightly
@pytest.mark.parametrize("odd", ODD_ENTRIES)
@pytest.mark.parametrize("column", ["c", "y"])
@pytest.mark.parametrize("route", OF_ONE_COLUMN)
def test_each_pair_of_odd_entries_in_one_column_stops_no_run(route, column, odd):
    names = [*ODD_ENTRIES]
    # No two entries meet in a part of one row: there, each is beside its own kind and one other.
    others = [odd, names[names.index(odd) - 1]] if route == "parts of one row" else names
    for beside in others:
        assert max(distances_of_first(route, column, odd, beside)) <= 1 + 1e-9


@pytest.mark.parametrize("odd", ODD_ENTRIES)
def test_a_list_of_labels_with_an_odd_one_stops_no_run(odd):
    table = with_entries("y", [ODD_ENTRIES[odd]])
    features, units = table[["a", "c"]], table["who"].tolist()
    labels = table["y"].tolist()
    for rows in (features, features.to_numpy(dtype=object)):
        public = PUBLIC if rows is features else PUBLIC.to_numpy(dtype=object)
        sums = sums_of(lambda model, X=rows, known=public: model.fit(X, labels, X_public=known, units=units))
        other = sums_of(
            lambda model, X=rows, known=public: model.fit(X, ["n", *labels[1:]], X_public=known, units=units)
        )
        assert max(distances(sums, other)) <= 1 + 1e-9


# Routes of labels in a type of pandas that may have blanks.
OF_LABELS = {
    "memory": lambda model, table: model.fit(table[["a", "c"]], table["y"], X_public=PUBLIC),
    "memory, a table": lambda model, table: model.fit(table[["a", "c"]], table[["y"]], X_public=PUBLIC),
    "memory, an index": lambda model, table: model.fit(table[["a", "c"]], pd.Index(table["y"]), X_public=PUBLIC),
    "memory, an array": lambda model, table: model.fit(table[["a", "c"]], table["y"].array, X_public=PUBLIC),
    "blocks": lambda model, table: model.fit_blocks(
        lambda: ((part[["a", "c"]], part["y"]) for part in (table[:7], table[7:])), X_public=PUBLIC
    ),
    "parts": lambda model, table: model.fit_blocks(InParts(table, unit=None), X_public=PUBLIC),
}


def with_labels(kind, *, blank):
    """Return tables of labels in a type, in which one label is blank or not. The numbers are equal as floats."""
    numbers = [2**60 + place % 2 for place in range(N)]
    labels = [place % 2 == 0 for place in range(N)] if kind == "boolean" else numbers
    labels = [None if blank and place == PLACE else label for place, label in enumerate(labels)]
    column = pd.Categorical(labels, sorted(set(numbers))) if kind == "category" else pd.array(labels, dtype=kind)
    return OTHERS.assign(y=pd.Series(column))


@pytest.mark.parametrize("kind", ["Int64", "UInt64", "int64[pyarrow]", "category"])
@pytest.mark.parametrize("route", OF_LABELS)
def test_a_blank_label_changes_no_large_label_of_another_record(monkeypatch, route, kind):
    monkeypatch.setitem(SETTINGS, "classes", [2**60, 2**60 + 1])
    pair = [with_labels(kind, blank=blank) for blank in (False, True)]
    first, second = (sums_of(lambda model, rows=rows: OF_LABELS[route](model, rows)) for rows in pair)
    assert max(distances(first, second)) <= 1 + 1e-9


@pytest.mark.parametrize("kind", ["Int64", "boolean"])
@pytest.mark.parametrize("route", OF_LABELS)
def test_labels_of_another_type_are_refused_with_and_without_a_blank(monkeypatch, route, kind):
    monkeypatch.setitem(SETTINGS, "classes", ["False", "True"])
    refusals = []
    for table in [with_labels(kind, blank=blank) for blank in (False, True)]:
        with pytest.raises(DPEnsembleError) as refused:
            sums_of(lambda model, rows=table: OF_LABELS[route](model, rows))
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize(
    "odd", ["n", ["n", "p"], [], None, np.ma.array([1, 2]), np.ma.masked, [["n"]], np.array(["n"])]
)
@pytest.mark.parametrize("first", [["n"], ["n", "p"], np.array(["p"])])
def test_a_label_in_a_list_changes_no_other_label(first, odd):
    labels = [first if place < 2 else [label] for place, label in enumerate(OTHERS["y"])]
    pair = [labels, [*labels[:PLACE], odd, *labels[PLACE + 1 :]]]
    for fit in (
        lambda model, y: model.fit(OTHERS[["a", "c"]], y, X_public=PUBLIC),
        lambda model, y: model.fit_blocks(lambda: iter([(OTHERS[["a", "c"]], y)]), X_public=PUBLIC),
    ):
        one, other = (sums_of(lambda model, y=y, fit=fit: fit(model, y)) for y in pair)
        assert max(distances(one, other)) <= 1 + 1e-9


def test_lists_of_several_labels_stop_no_run():
    labels = [["n", "p"] for _ in range(N)]
    assert sums_of(lambda model: model.fit(OTHERS[["a", "c"]], labels, X_public=PUBLIC))


ODD_ROWS = {
    "longer": [1.0, 2.0, 3.0],
    "shorter": [1.0],
    "a number": 5.0,
    "nothing": None,
    "a text": "ab",
    "masked": np.ma.masked_array([1.0, 2.0], mask=[True, False]),
    "a dictionary": {"a": 1, "b": 2},
    "of two dimensions": np.zeros((2, 1)),
}
NUMBERS = np.random.default_rng(3).normal(size=(N, 2)).tolist()


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("kind", ODD_ROWS)
def test_a_row_of_another_form_in_a_list_of_rows_is_blank(kind, in_blocks):
    labels, public = OTHERS["y"].tolist(), np.random.default_rng(4).normal(size=(60, 2))

    def fit(model, rows):
        if not in_blocks:
            return model.fit(rows, labels, X_public=public)
        starts = range(0, N, 7)
        return model.fit_blocks(
            lambda: ((rows[one : one + 7], labels[one : one + 7]) for one in starts), X_public=public
        )

    def sums(row):
        rows = [*NUMBERS[:PLACE], row, *NUMBERS[PLACE + 1 :]]
        return sums_of(lambda model: fit(model, rows))

    assert same(sums(ODD_ROWS[kind]), sums([np.nan, np.nan]))
    plain, odd = sums(NUMBERS[PLACE]), sums(ODD_ROWS[kind])
    assert 0 < max(distances(odd, plain)) <= 1 + 1e-9


def test_a_list_without_any_row_as_public_rows_have_is_noted():
    model = LabelMomentsClassifier(**SETTINGS, on_bad_record="zero")
    with pytest.warns(ColumnWarning, match="no row has 2 entries"):
        model.fit([1.0] * N, OTHERS["y"].tolist(), X_public=np.zeros((60, 2)) + np.arange(60)[:, None])


BAD_TEXT = b"Zaphod\xff\xfe\x81"


def of_bytes(kind, texts, plain):
    """Return texts of any bytes in a type of Arrow that holds texts as UTF-8."""
    return pa.Array.from_buffers(kind, len(texts), pa.array(texts, plain).buffers())


def column_of(kind, odd):
    """Return a column of a type of Arrow with an odd entry at one place, and ordinary entries elsewhere."""
    return pa.array([odd if place == PLACE else 0 for place in range(N)], pa.int64()).cast(pa.int64()).view(kind)


def texts_with(odd):
    return [odd if place == PLACE else (b"x", b"y")[place % 2] for place in range(N)]


YEARS = 2**62 // 86_400_000 * 86_400_000
# Columns of a type of Arrow, whose entry at one place is odd and must be read as a blank or as any other text.
BLANKS = {
    "date64": column_of(pa.date64(), YEARS),
    "date32": pa.array([2**31 - 1 if place == PLACE else 0 for place in range(N)], pa.int32()).view(pa.date32()),
    **{f"timestamp {unit} in a zone": column_of(pa.timestamp(unit, "UTC"), 2**62) for unit in ("s", "ms", "us")},
    **{f"timestamp {unit} in Berlin": column_of(pa.timestamp(unit, "Europe/Berlin"), -(2**62)) for unit in ("s", "us")},
    "time64": column_of(pa.time64("us"), 2**62),
    "list of dates": pa.ListArray.from_arrays(
        pa.array(range(N + 1), pa.int32()),
        pa.array([2**31 - 1 if place == PLACE else 0 for place in range(N)], pa.int32()).view(pa.date32()),
    ),
    "list of texts": pa.ListArray.from_arrays(
        pa.array(range(N + 1), pa.int32()), of_bytes(pa.string(), texts_with(BAD_TEXT), pa.binary())
    ),
}
# Entries that are texts, and whose category no public row has.
OTHER_TEXTS = {
    "string": of_bytes(pa.string(), texts_with(BAD_TEXT), pa.binary()),
    "large_string": of_bytes(pa.large_string(), texts_with(BAD_TEXT), pa.large_binary()),
    "binary": pa.array(texts_with(BAD_TEXT)),
    "binary_view": pa.array(texts_with(BAD_TEXT), pa.binary_view()),
    "dictionary": pa.DictionaryArray.from_arrays(
        pa.array([2 if place == PLACE else place % 2 for place in range(N)], pa.int8()),
        of_bytes(pa.string(), [b"x", b"y", BAD_TEXT], pa.binary()),
    ),
    "dictionary of large texts": pa.DictionaryArray.from_arrays(
        pa.array([2 if place == PLACE else place % 2 for place in range(N)], pa.int8()),
        of_bytes(pa.large_string(), [b"x", b"y", BAD_TEXT], pa.large_binary()),
    ),
    "timestamp s": column_of(pa.timestamp("s"), 2**52),
    "timestamp us": column_of(pa.timestamp("us"), 2**62),
    "duration": column_of(pa.duration("s"), 2**61),
}
# Older pyarrow cannot make such a column of bytes.
with suppress(ValueError):
    OTHER_TEXTS["string_view"] = of_bytes(pa.string_view(), texts_with(BAD_TEXT), pa.binary_view())
ODD = BLANKS | OTHER_TEXTS
IDENTITIES = pa.array([f"person {place // 2}" for place in range(N)])


def table_with(column, *, who=IDENTITIES):
    return pa.table({"a": OTHERS["a"], "c": column, "y": pa.array(list(OTHERS["y"])), "who": who})


def blanked(table):
    """Return the table in which the odd entry is blank."""
    column = table["c"].combine_chunks()
    parts = [column.slice(0, PLACE), pa.nulls(1, column.type), column.slice(PLACE + 1)]
    return table.set_column(1, "c", pa.chunked_array(parts))


def of_files(model, path, options):
    """Fit as `train` does: to private rows of a file as a whole, in blocks or in parts."""
    PUBLIC.to_csv(path.with_name("public.csv"), index=False)
    files = TableFiles(private=path, public=path.with_name("public.csv"), target="y", classes=["n", "p"], unit="who")
    tables = file_tables(
        files, ReadOptions(blanks=True, takes_blocks=True, on_bad_record=model.on_bad_record, **options)
    )
    if tables.stream is None:
        return model.fit(tables.X_private, tables.y_private, X_public=tables.X_public, units=tables.units)
    if tables.stream.parts is not None:
        return model.fit_blocks(tables.stream.parts, X_public=tables.X_public)
    return model.fit_blocks(tables.stream.read, X_public=tables.X_public, units=tables.stream.units)


def keeps(model):
    return model.on_bad_record == "zero"


READERS = {
    "parquet in blocks": lambda model, path, table: model.fit_blocks(
        ParquetBlocks(path, "y", unit="who", rows=7, keep_bad=keeps(model)), X_public=PUBLIC
    ),
    "parquet in parts": lambda model, path, table: model.fit_blocks(
        ParquetParts(path, "y", unit="who"), X_public=PUBLIC
    ),
    "arrow in blocks": lambda model, path, table: model.fit_blocks(
        ArrowBlocks(lambda: table.to_reader(max_chunksize=5), "y", unit="who", keep_bad=keeps(model)), X_public=PUBLIC
    ),
    "arrow as one part": lambda model, path, table: model.fit_blocks(
        ArrowPart(table, "y", unit="who"), X_public=PUBLIC
    ),
    "file": lambda model, path, table: of_files(model, path, {}),
    "file in blocks": lambda model, path, table: of_files(model, path, {"in_blocks": True}),
    "file in parts": lambda model, path, table: of_files(model, path, {"workers": Workers()}),
}


def read_by(reader, path, table, **settings):
    if "parquet" in reader or "file" in reader:
        kind = table.schema.field("c").type
        if pa.types.is_timestamp(kind) and kind.unit == "s" and kind.tz is not None:
            pytest.skip("Parquet holds milliseconds, and older pyarrow writes others for such a moment")
        try:
            parquet.write_table(table, path)
        except pa.ArrowException:
            pytest.skip("Parquet does not hold this type")
    return sums_of(lambda model: READERS[reader](model, path, table), **settings)


def same(one, other):
    return len(one) == len(other) and all(np.array_equal(a, b) for (a, _), (b, _) in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("reader", READERS)
def test_an_odd_entry_stops_no_run_and_is_a_blank_or_another_text(reader, kind, tmp_path):
    if "dictionary" in kind and "arrow" not in reader:
        pytest.skip("pyarrow refuses such a dictionary in Parquet before it returns a row")
    table = table_with(ODD[kind])
    odd = read_by(reader, tmp_path / "p.parquet", table)
    if kind in BLANKS:
        assert same(odd, read_by(reader, tmp_path / "p.parquet", blanked(table)))
    else:
        assert max(distances(odd, read_by(reader, tmp_path / "p.parquet", blanked(table)))) <= 1 + 1e-9


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_a_table_alike(reader, tmp_path):
    table = table_with(pa.array(list(OTHERS["c"])))
    frame = table.to_pandas()
    wanted = sums_of(lambda model: model.fit(frame[["a", "c"]], frame["y"], X_public=PUBLIC, units=frame["who"]))
    assert same(read_by(reader, tmp_path / "p.parquet", table), wanted)


LABELS = {
    "undeclared": pa.array(["Zaphod" if place == PLACE else "n" for place in range(N)]),
    "not UTF-8": of_bytes(pa.string(), [BAD_TEXT if place == PLACE else b"n" for place in range(N)], pa.binary()),
    "missing": pa.array([None if place == PLACE else "n" for place in range(N)]),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("reader", READERS)
def test_a_bad_label_adds_nothing_or_is_refused_without_quoting_it(reader, kind, tmp_path):
    table = table_with(pa.array(list(OTHERS["c"]))).set_column(2, "y", LABELS[kind])
    one = read_by(reader, tmp_path / "p.parquet", table)
    blank = table.set_column(2, "y", LABELS["missing"])
    assert same(one, read_by(reader, tmp_path / "p.parquet", blank))
    with pytest.raises(DPEnsembleError) as refused:
        read_by(reader, tmp_path / "p.parquet", table, on_bad_record="raise")
    error = refused.value
    while error is not None:
        assert "Zaphod" not in str(error)
        error = error.__context__


UNITS = {
    "missing": pa.array([None if place == PLACE else f"person {place // 2}" for place in range(N)]),
    "empty": pa.array(["" if place == PLACE else f"person {place // 2}" for place in range(N)]),
    "not UTF-8": of_bytes(
        pa.string(), [BAD_TEXT if place == PLACE else b"person %d" % (place // 2) for place in range(N)], pa.binary()
    ),
    "bytes": pa.array([BAD_TEXT if place == PLACE else b"person %d" % (place // 2) for place in range(N)]),
}


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize("reader", READERS)
def test_an_odd_unit_stops_no_run(reader, kind, tmp_path):
    table = table_with(pa.array(list(OTHERS["c"])), who=UNITS[kind])
    assert read_by(reader, tmp_path / "p.parquet", table)


@pytest.mark.parametrize("kind", ["double", "decimal128(25, 1)", "date32[day]", "timestamp[us, tz=UTC]", "duration[s]"])
@pytest.mark.parametrize("reader", READERS)
def test_units_of_a_type_with_several_forms_are_refused_by_the_type(reader, kind, tmp_path):
    types = [pa.float64(), pa.decimal128(25, 1), pa.date32(), pa.timestamp("us", "UTC"), pa.duration("s")]
    who = pa.array([None if place == PLACE else 0 for place in range(N)], pa.int64())
    wanted = next(one for one in types if str(one) == kind)
    who = who.cast(wanted if kind != "date32[day]" else pa.int32()).cast(wanted)
    table = table_with(pa.array(list(OTHERS["c"])), who=who)
    with pytest.raises(DPEnsembleError, match=r"unit='who' has the type .*, in which one id may have several forms"):
        read_by(reader, tmp_path / "p.parquet", table)


LINES = {
    "an open quotation mark": b'"1.5,x,n,person 3',
    "no unit": b"1.5,x,n,",
    "another unit": b"1.5,x,n,nobody else",
    "a unit in other bytes": b"1.5,x,n,\xff\xfe",
    "an undeclared label": b"1.5,x,Zaphod,person 3",
    "text among numbers": b"Zaphod,x,n,person 3",
    "an infinite number": b"inf,x,n,person 3",
    "too many entries": b"1.5,x,n,person 3,4,5,6",
    "an empty record": b",,,",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Return what `train` shows for a line of the private table: exit code, outputs and files, without digits."""

    def shown(line):
        from dpensemble.cli import main

        folder = tmp_path_factory.mktemp("run")
        PUBLIC.to_csv(folder / "public.csv", index=False)
        lines = [f"{a},{c},{y},person {row // 2}".encode() for row, (a, c, y) in enumerate(OTHERS.to_numpy().tolist())]
        lines[PLACE] = lines[PLACE] if line is None else line
        (folder / "private.csv").write_bytes(b"\n".join([b"a,c,y,who", *lines, b""]))
        given = {"private": folder / "private.csv", "public": folder / "public.csv", "target": "y", "classes": "n,p"}
        given |= {"unit": "who", "epsilon": 5, "delta": 1e-3, "out": folder / "out", "insecure-release-seed": 1}
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(
                ["train", "label-moments", *(part for name, one in given.items() for part in (f"--{name}", str(one)))]
            )
        files = sorted(str(path.relative_to(folder)) for path in (folder / "out").rglob("*"))
        texts = [re.sub(r"[-+.,\d]+(e-?\d+)?", "#", text.getvalue().replace(str(folder), "")) for text in (out, err)]
        return code, files, texts

    return shown


@pytest.mark.parametrize("kind", LINES)
def test_train_shows_the_same_whatever_one_record_is(shown, kind):
    code, files, texts = shown(LINES[kind])
    assert (code, files) == shown(None)[:2]
    assert code == 0
    assert texts[1] == shown(None)[2][1]
    assert "Zaphod" not in texts[0]


ENDS_OF_RECORDS = {
    "an open quotation mark": b'"41.5,1,x,person 3',
    "no unit": b"41.5,1,x,",
    "another unit": b"41.5,1,x,nobody else",
    "an undeclared code": b"41.5,Zaphod,x,person 3",
    "an undeclared stratum": b"41.5,1,Zaphod,person 3",
    "a date": b"2024-02-01,1,x,person 3",
    "a negative time": b"-4,1,x,person 3",
    "a time beyond the horizon": b"1e9,1,x,person 3",
    "an infinite time": b"inf,0,x,person 3",
    "a decimal comma": b'"41,5",1,x,person 3',
    "too many entries": b"41.5,1,x,person 3,4,5,6",
    "an empty record": b",,,",
    "bytes that are no text": b"\xff\xfe,1,x,person 3",
}


@pytest.fixture(scope="module")
def shown_of_times(tmp_path_factory):
    """Return what `lifetable` shows for a line of the private table: exit code, outputs and files, without digits."""
    from dpensemble.cli import main

    rng, runs = np.random.default_rng(5), {}
    lines = [
        f"{days:.1f},{code},{arm},person {row // 2}".encode()
        for row, (days, code, arm) in enumerate(
            zip(rng.exponential(40, 600), rng.integers(0, 3, 600), rng.choice(["x", "y"], 600), strict=True)
        )
    ]

    def shown(line):
        if line in runs:
            return runs[line]
        folder, own = tmp_path_factory.mktemp("run"), list(lines)
        own[PLACE] = own[PLACE] if line is None else line
        (folder / "private.csv").write_bytes(b"\n".join([b"days,code,arm,who", *own, b""]))
        given = {"private": folder / "private.csv", "time": "days", "event": "code=1", "competing": "2"}
        given |= {"bins": "20,40,80,120", "strata": "arm=x,y", "unit": "who", "epsilon": 5, "delta": 1e-3}
        given |= {"out": folder / "out", "insecure-release-seed": 1}
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["lifetable", *(part for name, one in given.items() for part in (f"--{name}", str(one)))])
        files = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in (folder / "out").iterdir()}
        texts = [re.sub(r"[-+.,\d]+(e-?\d+)?", "#", text.getvalue().replace(str(folder), "")) for text in (out, err)]
        runs[line] = code, files, texts
        return runs[line]

    return shown


@pytest.mark.parametrize("kind", ENDS_OF_RECORDS)
def test_lifetable_shows_the_same_whatever_one_record_is(shown_of_times, kind):
    code, files, texts = shown_of_times(ENDS_OF_RECORDS[kind])
    usual = shown_of_times(None)
    assert code == usual[0] == 0
    assert files.keys() == usual[1].keys()
    assert texts[1] == usual[2][1]
    assert not any("Zaphod" in text for text in (*texts, *files.values()))


def sum_of_times(rows, units, relation):
    """Return the sum of a life table before its noise, and its sensitivity."""
    from dpensemble import LifeTable

    table = pd.DataFrame(rows, columns=["days", "code", "arm"])
    model = LifeTable(
        [20.0, 40.0, 80.0],
        events=[1],
        censored=[0],
        competing=[2],
        strata={"arm": ["x", "y"]},
        relation=relation,
        epsilon=5.0,
        delta=1e-3,
        insecure_release_seed=1,
    )
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = []

        def watched(self, query, total, share, **_):
            seen.append((total.astype(float), query.sensitivity(self.relation)))
            raise _Enough

        patch.setattr(SumReleaser, "charge_and_draw", watched)
        with suppress(_Enough, HiddenError):
            model.fit(table["days"].to_numpy(), table["code"].to_numpy(), strata=table, units=units)
    return seen[0]


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_person_moves_a_table_with_competing_events_by_more_than_is_charged(relation):
    ends = [
        (days, code, arm) for days in (5.0, 20.0, 50.0, 99.0, np.nan) for code in (0, 1, 2, 9) for arm in ("x", "z")
    ]
    others, names = [(30.0, 1, "y"), (45.0, 2, "x")], ["b", "c"]
    sums = [sum_of_times([one, *others], ["a", *names], relation) for one in ends]
    # Several records of one person count once.
    sums += [
        sum_of_times([one, other, *others], ["a", "a", *names], relation)
        for one, other in zip(ends[::3], ends[1::3], strict=False)
    ]
    if relation == "add-or-remove-one":
        without = sum_of_times(others, names, relation)[0]
        largest = max(np.linalg.norm(total - without) for total, _ in sums)
    else:
        largest = max(np.linalg.norm(one - other) for one, _ in sums for other, _ in sums)
    assert 0.999 * sums[0][1] < largest <= sums[0][1]
