"""What changes a sensitivity, and no result on clean data: neighbouring tables in every route, and planted bugs.

One person is replaced by anything: other entries, bad records, another number of records, or records without an id.
Sums before their noise move by at most what is charged. Four rules keep this bound, and each has a planted bug:

- A unit's records are counted before bad records become zeros, so that its weight is 1.
- Ids that `dpensemble._units` calls equal are one unit, in any part and of any type.
- Rows that change between two passes end the run.
- Records are held back by their places where places are fixed, and nowhere else.
"""

import os
import shutil
import sqlite3
import warnings
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from dpensemble import SubsampleAggregateClassifier, _units
from dpensemble._units import identity
from dpensemble.datasets import ParquetBlocks, columns
from dpensemble.datasets.arrow import ArrowBlocks, ArrowPart
from dpensemble.datasets.arrow_sources import opened_source
from dpensemble.datasets.partitions import ParquetParts
from dpensemble.errors import DataError, FileError, InvalidParameterError
from dpensemble.releases import SumReleaser
from dpensemble.rows.checked import RowCheck
from dpensemble.rows.checksums import RowChecksums
from dpensemble.rows.source import Facts
from dpensemble.workflow.scoring import hold_back
from dpensemble.workflow.table_files import ReadOptions, TableFiles, Workers
from dpensemble.workflow.tables import file_tables

from .routes import (
    BY_PROCESSES,
    RELATIONS,
    ROUTES,
    ROW_BY_ROW,
    InParts,
    PrivateTable,
    by_route,
    cut,
    in_memory,
    moments_model,
)

N, MINE = 15, [2, 7, 8, 14]
ALL_ROUTES = {"memory": in_memory} | {name: by_route(route) for name, route in (ROUTES | ROW_BY_ROW).items()}


class _Enough(Exception):  # noqa: N818
    pass


def sums_of(fit, rows, relation="replace-one"):
    """Return the sums of a run before noise, with the sensitivity of each: number of units, statistics and a mean.

    Later sums depend on what was released, so they are of other queries in each table.
    """
    seen, n_sums = [], 2 if relation == "replace-one" else 3
    real = SumReleaser.charge_and_draw

    def watched(self, query, total, share, *, weight=1.0):
        seen.append((np.asarray(total, dtype=float), query.sensitivity(self.relation)))
        if len(seen) == n_sums:
            raise _Enough
        return real(self, query, total, share, weight=weight)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(SumReleaser, "charge_and_draw", watched)
        # The guard of private rows hides the kind of other errors.
        with pytest.raises(DataError, match="Enough"):
            fit(moments_model(rows, 2, relation=relation, statistics="class-shares", rounds=1), rows)
    assert len(seen) == n_sums
    return seen


def largest_move(one, other):
    """Return how far a sum moves at most, as a multiple of the sensitivity that is charged."""
    return max(float(np.linalg.norm(a - b)) / charged for (a, charged), (b, _) in zip(one, other, strict=True))


def public_rows():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"size": rng.normal(size=30), "ward": rng.choice(["a", "b"], 30)})


def others():
    """Return records of six persons, whose ids are whole numbers in texts. The records MINE are those of person 7."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"size": rng.normal(size=N), "ward": rng.choice(["a", "b"], N)})
    table["y"], table["who"] = rng.choice(["p", "q"], N), [f"{place % 5}" for place in range(N)]
    table.loc[MINE, "who"] = "7"
    return table


def entries(table, places, **values):
    table = table.copy()
    for name, value in values.items():
        table[name] = table[name].astype(object) if value is None else table[name]
        table.loc[places, name] = value
    return table


# What one person may be, in a table whose other records stay the same.
PERSONS = {
    "removed": lambda table: table.drop(index=MINE),
    "as before": lambda table: table,
    "one class": lambda table: entries(table, MINE, size=9.0, y="p", ward="a"),
    "other class": lambda table: entries(table, MINE, size=-9.0, y="q", ward="b"),
    "all but one record is bad": lambda table: entries(entries(table, MINE, y="p"), MINE[1:], size=np.inf),
    "all records are bad": lambda table: entries(table, MINE, y="undeclared"),
    "one record": lambda table: entries(table.drop(index=MINE[1:]), MINE[0], y="q", size=9.0, ward="b"),
    "one bad record": lambda table: entries(table.drop(index=MINE[1:]), MINE[0], size=-np.inf),
    "many records": lambda table: pd.concat([table, *[entries(table.loc[MINE], MINE, y="q", size=9.0)] * 3]),
    "nobody's records": lambda table: entries(table, MINE, who=None, y="p", size=9.0),
    "a new name": lambda table: entries(table, MINE, who="\u00e9", size=np.nan),
}


@pytest.fixture
def written(tmp_path):
    """Return a private table that is written to files."""

    def write(table, unit="who"):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        return PrivateTable(table.reset_index(drop=True), public_rows(), unit, folder, zeroes=True).write()

    return write


def moves(fit, written, relation, persons=tuple(PERSONS)):
    """Return how far sums move between two tables at most, and between a table and the one without the person."""
    runs = {name: sums_of(fit, written(PERSONS[name](others())), relation) for name in persons}
    between = max(largest_move(runs[one], runs[other]) for one, other in combinations(persons, 2))
    return between, max(largest_move(runs["removed"], runs[name]) for name in persons)


@pytest.mark.slow
@pytest.mark.parametrize("route", ALL_ROUTES)
def test_a_person_moves_no_sum_by_more_than_is_charged(written, route):
    relation = RELATIONS[list(ALL_ROUTES).index(route) % 2]
    some = ("removed", "one class", "all but one record is bad", "many records")
    replaced, removed = moves(ALL_ROUTES[route], written, relation, some)
    assert 0.4 < removed <= 1 + 1e-9
    assert 0.4 < replaced <= (1 if relation == "replace-one" else 2) + 1e-9


@pytest.mark.nightly
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("route", [*ALL_ROUTES, *BY_PROCESSES])
def test_anybody_moves_no_sum_by_more_than_is_charged(written, route, relation):
    fit = ALL_ROUTES[route] if route in ALL_ROUTES else by_route(BY_PROCESSES[route])
    some = {"two processes": ("removed", "all but one record is bad", "many records")}
    replaced, removed = moves(fit, written, relation, some.get(route, tuple(PERSONS)))
    assert 0.4 < removed <= 1 + 1e-9
    assert 0.4 < replaced <= (1 if relation == "replace-one" else 2) + 1e-9


# Counting records: before bad ones become zeros.


def test_the_weight_of_a_person_is_1_whatever_is_bad(written):
    """A noisy number of persons is the sum of their weights. It counts persons with bad records, and nobody twice."""
    for fit in (in_memory, by_route(ROUTES["uneven blocks"]), by_route(ROUTES["a table in uneven parts"])):
        one = sums_of(fit, written(others()[:1]), "add-or-remove-one")[0][0]
        for name in ("removed", "all but one record is bad", "all records are bad", "nobody's records"):
            table = PERSONS[name](others())
            (count, _), *_ = sums_of(fit, written(table), "add-or-remove-one")
            assert count.sum() == pytest.approx(one.sum() * table["who"].nunique(), rel=1e-9)


def test_records_that_are_counted_after_bad_ones_became_zeros_are_caught(written, plant):
    checked_block = RowCheck.checked_block

    def counted_after(self, *given, **more):
        block = checked_block(self, *given, **more)
        good = np.bincount(block.units[block.targets >= 0], minlength=block.units.max() + 1)
        return block._replace(weights=1 / np.maximum(good, 1)[block.units])

    plant(RowCheck, "checked_block", counted_after)
    some = ("removed", "one class", "all but one record is bad")
    assert moves(in_memory, written, "add-or-remove-one", some)[1] > 1.4


# Equality of ids.

#: Ids of one person in a column of objects, and ids of other persons or of nobody.
ONE_PERSON = ["7", 7, np.int64(7), np.uint8(7)]
OTHER_IDS = ["07", " 7", "7.0", b"7", 7.0, np.float32(7), "\uff17", None, np.nan, True, "True"]
OBJECTS = {
    "memory": lambda model, rows: model.fit(
        rows.table[rows.features], rows.table["y"], X_public=rows.public, units=rows.table["who"].tolist()
    ),
    "memory, a column": in_memory,
    "blocks": by_route(lambda rows: (_blocks(rows), rows.table["who"].tolist())),
    "parts": by_route(lambda rows: (InParts(rows.table, "who", rows.places), None)),
    "parts of 1": by_route(ROW_BY_ROW["parts of 1"]),
}


def _blocks(rows):
    return lambda: ((one[rows.features], one["y"]) for one in cut(rows.table, 4))


def of_one_person(**values):
    """Return a table in which one person's records have ids that are written differently, beside odd ids of others."""
    table, who = entries(others(), MINE, **values), np.empty(N, dtype=object)
    who[:] = others()["who"]
    for place, entry in zip(MINE, ONE_PERSON, strict=True):
        who[place] = entry
    for place, entry in zip([place for place in range(N) if place not in MINE], OTHER_IDS, strict=True):
        who[place] = entry
    table["who"] = pd.Series(who, dtype=object)
    return PrivateTable(table, public_rows(), "who", folder=None, zeroes=True)


def moves_of_ids(route, relation="replace-one"):
    pair = [of_one_person(**values) for values in ({"size": 9.0, "y": "p"}, {"size": -9.0, "y": "q"})]
    return largest_move(*(sums_of(OBJECTS[route], rows, relation) for rows in pair))


@pytest.mark.slow
@pytest.mark.parametrize("route", OBJECTS)
def test_ids_of_one_person_are_one_unit(route):
    assert len({identity(one) for one in ONE_PERSON}) == 1
    assert 0.4 < moves_of_ids(route) <= 1 + 1e-9
    # Persons are counted once, and whose records have no id are not counted.
    count, n_persons = sums_of(OBJECTS[route], of_one_person(), "add-or-remove-one")[0], 1 + 6
    assert n_persons == 1 + len({identity(one) for one in OTHER_IDS} - {None})
    one = sums_of(in_memory, PrivateTable(others()[:1], public_rows(), "who", None, zeroes=True), "add-or-remove-one")
    assert float(count[0].sum()) == n_persons * float(one[0][0].sum())


def of_type(entry):
    found = identity(entry)
    return None if found is None else found + type(entry).__name__.encode()


@pytest.mark.parametrize("route", OBJECTS)
def test_ids_that_differ_by_their_type_are_caught(plant, route):
    plant(_units if route in ("memory", "memory, a column", "blocks") else columns, "identity", of_type)
    assert moves_of_ids(route) > 1.4


# Types of the column of units in two files of one table. An id in the first type equals the id in the second type.
TYPES_OF_IDS = {
    "texts and integers": (pa.string(), pa.int64()),
    "dictionaries and small integers": (pa.dictionary(pa.int8(), pa.string()), pa.uint8()),
    "large texts and integers": (pa.large_string(), pa.int32()),
}
FOLDERS = {
    "in blocks": lambda folder: ParquetBlocks(folder, "y", unit="who", rows=4, keep_bad=True),
    "in parts": lambda folder: ParquetParts(folder, "y", unit="who"),
}


@pytest.mark.slow
@pytest.mark.parametrize("reader", FOLDERS)
@pytest.mark.parametrize("kinds", TYPES_OF_IDS)
def test_files_with_ids_of_other_types_have_the_units_of_one_type(tmp_path, kinds, reader):
    table, public = others(), public_rows()
    rows = PrivateTable(table, public, "who", tmp_path, zeroes=True)
    for place, (part, kind) in enumerate(zip((table[:8], table[8:]), TYPES_OF_IDS[kinds], strict=True)):
        ids = pa.array(part["who"].astype(int)) if pa.types.is_integer(kind) else pa.array(part["who"])
        ids = ids.dictionary_encode() if pa.types.is_dictionary(kind) else ids.cast(kind)
        plain = pa.Table.from_pandas(part.drop(columns="who"), preserve_index=False).append_column("who", ids)
        parquet.write_table(plain, tmp_path / f"{place}.parquet")
    read = FOLDERS[reader](tmp_path)
    found = sums_of(lambda model, _: model.fit_blocks(read, X_public=public), rows)
    assert largest_move(found, sums_of(in_memory, rows)) == 0


# Rows that change between two passes.


def changed(table, how):
    """Return a table with one change. Numbers of records and of units stay the same."""
    table = table.copy()
    if how == "an entry":
        table.loc[3, "size"] += 1e-9
    elif how == "a text":
        table.loc[3, "ward"] = "b" if table.loc[3, "ward"] == "a" else "a"
    elif how == "a label":
        table.loc[3, "y"] = "p" if table.loc[3, "y"] == "q" else "q"
    elif how == "a unit":
        table.loc[MINE[0], "who"] = table.loc[0, "who"]
    elif how == "a record twice":
        table.loc[3] = table.loc[4]
    elif how == "a record more":
        table = pd.concat([table, table[-1:]], ignore_index=True)
    elif how == "another order":
        table = table[::-1]
    return table


HOW = ["an entry", "a text", "a label", "a unit", "a record twice", "a record more"]


class Passes:
    """A table that is another one from some pass on."""

    def __init__(self, rows, how, since):
        self.rows, self.other, self.since, self.passes = rows, changed(rows.table, how), since, 0

    def next(self):
        self.passes += 1
        return self.rows.table if self.passes < self.since else self.other


class ChangingParts(Passes):
    target, unit = "y", "who"

    def results(self, work):
        table = self.next()
        return InParts(table, "who", [0, 7, len(table)]).results(work)


class ChangingFile(Passes):
    """Parts of a file that is written again before a pass. Its size is that of the first table."""

    target, unit = "y", "who"

    def results(self, work):
        self.next()
        if self.passes == self.since:
            rewritten(self.rows.file, self.other)
        return ParquetParts(self.rows.file, "y", unit="who").results(work)


def rewritten(path, table):
    """Write another table to a file, and set back the time of its last change."""
    before = path.stat()
    parquet.write_table(pa.Table.from_pandas(table, preserve_index=False), path, row_group_size=15)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def changing_blocks(rows, how, since):
    passes = Passes(rows, how, since)

    def read():
        return ((one[rows.features], one["y"]) for one in cut(passes.next(), 4))

    return read, rows.table["who"]


def changing_parquet_blocks(rows, how, since):
    passes, read = Passes(rows, how, since), ParquetBlocks(rows.file, "y", unit="who", rows=4, keep_bad=True)

    def reads():
        passes.next()
        if passes.passes == since:
            rewritten(rows.file, passes.other)
        return read()

    return reads, read.units


def arrow_of(table):
    return pa.Table.from_pandas(table, preserve_index=False)


def changing_arrow_blocks(rows, how, since):
    # The schema and the units are read first.
    passes = Passes(rows, how, since + 2)
    return ArrowBlocks(lambda: arrow_of(passes.next()), "y", unit="who", keep_bad=True), None


def changing_arrow_part(rows, how, since):
    passes = Passes(rows, how, since + 2)
    return ArrowPart(lambda: arrow_of(passes.next()), "y", unit="who"), None


CHANGING = {
    "blocks": changing_blocks,
    "Parquet in blocks": changing_parquet_blocks,
    "Arrow in blocks": changing_arrow_blocks,
    "parts in memory": lambda *given: (ChangingParts(*given), None),
    "Parquet in parts": lambda *given: (ChangingFile(*given), None),
    "Arrow as one part": changing_arrow_part,
}
# Units of these have the places of records, which another order would give to other persons.
BY_PLACE = ["blocks", "Parquet in blocks", "Arrow in blocks"]
# Blocks with units beside them cannot show a change of units, since they read none.
CHANGES = [(route, how) for route in CHANGING for how in HOW if (route, how) != ("blocks", "a unit")]
CHANGES += [(route, "another order") for route in BY_PLACE]


def end_of_changing(written, route, how, since):
    """Return the error of a run whose rows change, or None if it ends well. Nothing more is drawn after the change."""
    rows = written(others())
    drawn, real = [], SumReleaser.charge_and_draw

    def watched(self, *given, **named):
        drawn.append(1)
        return real(self, *given, **named)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(SumReleaser, "charge_and_draw", watched)
        try:
            by_route(lambda rows: CHANGING[route](rows, how, since))(moments_model(rows, 2, rounds=1), rows)
        except (DataError, FileError) as error:
            # The first pass counts, and each later one is for a sum.
            assert len(drawn) <= max(0, since - 2)
            return str(error)
    return None


NOTICED = r"changed|in another order|more entries|fewer entries|have records"


@pytest.mark.slow
@pytest.mark.parametrize("route", CHANGING)
def test_rows_that_change_before_the_first_sum_end_the_run(written, route):
    ends = {how: end_of_changing(written, route, how, since=2) for one, how in CHANGES if one == route}
    assert [how for how, text in ends.items() if text is None or not pd.Series(text).str.contains(NOTICED)[0]] == []


@pytest.mark.nightly
@pytest.mark.parametrize("since", [2, 3])
@pytest.mark.parametrize(("route", "how"), CHANGES)
def test_rows_that_change_before_any_sum_end_the_run(written, route, how, since):
    text = end_of_changing(written, route, how, since)
    assert text is not None
    assert pd.Series(text).str.contains(NOTICED)[0]


@pytest.mark.parametrize("route", ["parts in memory", "Arrow as one part"])
def test_parts_may_come_in_any_order(written, route):
    """Each record is read with its unit, so a sum in another order is the same sum."""
    assert end_of_changing(written, route, "another order", since=2) is None


@pytest.mark.parametrize("route", ["blocks", "parts in memory", "Arrow as one part"])
def test_checksums_that_are_off_are_caught(written, plant, route):
    plant(RowChecksums, "of", lambda *_: 0)
    assert end_of_changing(written, route, "a label", since=2) is None


def test_records_that_are_read_again_need_a_checksum():
    """Arrays stay as they are, since one call of `fit` converts them once. All other records are read again."""
    assert Facts.of(ArrowPart(arrow_of(others()), "y")).may_change
    assert Facts().may_change


def test_rows_that_change_end_a_vote(monkeypatch):
    monkeypatch.setattr("dpensemble.teachers.ensemble._BYTES_AT_ONCE", 8 * 2 * 8)
    rng = np.random.default_rng(0)
    X, y, passes, refusals = rng.normal(size=(40, 2)), np.arange(40) % 2, [], []

    def read():
        passes.append(1)
        order = np.arange(40) if len(passes) < 3 else np.arange(40)[::-1]
        yield X[order], y[order]

    model = SubsampleAggregateClassifier(
        GaussianNB(), DecisionTreeClassifier(), classes=[0, 1], n_teachers=4, epsilon=30.0, delta=1e-3
    )
    try:
        model.fit_blocks(read, X_public=rng.normal(size=(9, 2)))
    except DataError as error:
        refusals.append(str(error))
    assert (len(passes) > 2, [text for text in refusals if "changed between two passes" in text]) == (True, refusals)
    assert refusals


# Held-back records.

HELD_ROWS = 120


def people():
    """Return private records of persons who have several, in the order of their first records, and public rows."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"size": rng.normal(size=HELD_ROWS), "ward": rng.choice(["a", "b"], HELD_ROWS)})
    table["y"] = rng.choice(["p", "q"], HELD_ROWS)
    table["who"] = [f"person {place if place < 60 else place % 60 // 2}" for place in range(HELD_ROWS)]
    return table


def stored_csv(folder, table):
    table.to_csv(folder / "private.csv", index=False)
    return folder / "private.csv", {}


def stored_parquet(folder, table, **options):
    path = folder / "parts"
    path.mkdir()
    for place, rows in enumerate(np.split(np.arange(len(table)), [0, 31])):
        table.iloc[rows].to_parquet(path / f"{place}.parquet", index=False, row_group_size=20)
    return path, {"in_blocks": True} | options


def stored_arrow(folder, table):
    table.to_feather(folder / "private.arrow")
    return folder / "private.arrow", {"source": str(folder / "private.arrow")}


def stored_sqlite(folder, table):
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(folder / "clinic.db") as connection:
        table.to_sql("visits", connection, index=False)
    connection.close()
    return folder / "clinic.db", {"source": f"sqlite:{folder / 'clinic.db'}:visits"}


def stored_duckdb(folder, table):
    duckdb = pytest.importorskip("duckdb")
    table.to_parquet(folder / "rows.parquet", index=False)
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute(f"create table visits as from '{folder / 'rows.parquet'}'")
    return folder / "clinic.duckdb", {"source": f"duckdb:{folder / 'clinic.duckdb'}:visits"}


PLACED = {
    "CSV in memory": stored_csv,
    "a folder in blocks": stored_parquet,
    "a folder in parts": partial(stored_parquet, workers=Workers(jobs=1)),
    "an Arrow file": stored_arrow,
}
NOT_PLACED = {"SQLite": stored_sqlite, "DuckDB": stored_duckdb}


def divided(folder, table, store, *, unit="who", on_source=lambda source: source):
    """Return the taught and the held-back records of a table in files: sizes, and those of the taught that are read."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    public_rows().to_csv(folder / "public.csv", index=False)
    path, options = store(folder, table)
    drop = () if unit else ("who",)
    files = TableFiles(private=path, public=folder / "public.csv", target="y", classes=["p", "q"], unit=unit, drop=drop)
    rows = PrivateTable(table, public_rows(), unit, folder, zeroes=True)
    source = options.pop("source", None)

    def held(workers):
        given = ReadOptions(blanks=True, takes_blocks=True, on_bad_record="zero", workers=workers, **options)
        rest, back = hold_back(file_tables(files, given), moments_model(rows, 2, epsilon=30.0), 0.4)
        if rest.stream is None:
            taught = rest.X_private["size"].tolist()
        elif rest.stream.parts is not None:
            reports = rest.stream.parts.results(lambda tables: [one for part in tables for one in part.X["size"]])
            taught = [one for report in reports for one in report]
        else:
            taught = [one for part, _ in rest.stream.read() for one in part["size"]]
        return taught, back.X["size"].tolist(), back.n_units

    if source is None:
        return held(options.pop("workers", None))
    with opened_source(source) as opened:
        return held(Workers(source=on_source(opened)))


def neighbour(table, unit):
    """Return the table in which the person of record 5, or that record, is replaced by anything at the same place."""
    mine = [5] if unit is None else table.index[table["who"] == table["who"][5]]
    table = entries(table, mine, size=np.arange(100.0, 100.0 + len(mine)), y="undeclared")
    if unit is not None:
        table = pd.concat([table, table.loc[[5] * 4]], ignore_index=True)
        table = entries(table, table.index[table["who"] == table["who"][5]], who="somebody else")
    return table


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["who", None], ids=["units", "rows"])
@pytest.mark.parametrize("store", PLACED)
def test_held_back_records_are_chosen_by_place(tmp_path, store, unit):
    """A person is held back or taught, never both, and nobody else moves when one person is replaced."""
    table = people()
    pair = [table, neighbour(table, unit)]
    runs = [divided(tmp_path / "files", one, PLACED[store], unit=unit) for one in pair]
    for one, (taught, held, _) in zip(pair, runs, strict=True):
        assert sorted([*taught, *held]) == sorted(one["size"])
        if unit is not None:
            owner = dict(zip(one["size"], one["who"], strict=True))
            assert not {owner[size] for size in taught} & {owner[size] for size in held}
    assert runs[0][2] == runs[1][2]
    same = set(pair[0]["size"]) & set(pair[1]["size"])
    assert [{*taught} & same for taught, _, _ in runs] == [{*runs[0][0]} & same] * 2
    # The choice is that of a table in memory.
    assert runs[0] == divided(tmp_path / "files", table, stored_csv, unit=unit)


@pytest.mark.slow
@pytest.mark.parametrize("store", NOT_PLACED)
def test_records_without_fixed_places_are_not_held_back(tmp_path, store):
    with pytest.raises(InvalidParameterError, match="fixed places, which a database or a table of Spark does not give"):
        divided(tmp_path / "files", people(), NOT_PLACED[store])


class WithPlaces:
    """A planted bug: a database that states fixed places."""

    def __init__(self, source, path):
        self.source, self.files = source, (path,)

    def __getattr__(self, name):
        return getattr(self.source, name)


@pytest.mark.slow
def test_places_of_a_database_are_caught(tmp_path):
    def lies(source):
        return WithPlaces(source, tmp_path / "files" / "clinic.db")

    taught, held, _ = divided(tmp_path / "files", people(), stored_sqlite, on_source=lies)
    assert len(taught) + len(held) == HELD_ROWS
