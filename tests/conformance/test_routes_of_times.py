"""Times until an event by every route of private rows: equal to the last bit, and one record of a person counts.

A person's records may lie in any blocks and parts, and the first event counts, or without events the last time. So what
a block shows of a person is not enough to know which record counts, and a planted bug decides block by block.
"""

import warnings
from functools import partial
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from dpensemble import LabelMomentsSurvival, LifeTable
from dpensemble.datasets import ParquetBlocks
from dpensemble.datasets.arrow import ArrowBlocks, ArrowPart
from dpensemble.datasets.partitions import ParquetParts
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.releases import SumReleaser
from dpensemble.rows import passes
from dpensemble.rows.checked import RowCheck
from dpensemble.rows.checksums import RowChecksums
from dpensemble.rows.passes import UnitCounts

from .routes import BY_PROCESSES, RELATIONS, ROUTES, ROW_BY_ROW, InParts, PrivateTable

N, BINS, TARGET = 48, [2.0, 4.0, 8.0], ("status", "days")
#: Records of one person in any order, in one part or in several.
SHUFFLED = {
    f"{parts} parts in another order": lambda rows, parts=parts: (
        InParts(
            rows.table.sample(frac=1, random_state=parts), rows.unit, np.linspace(0, N, parts + 1, dtype=int), TARGET
        ),
        None,
    )
    for parts in (1, 2, 5)
}
ALL = ROUTES | ROW_BY_ROW | SHUFFLED


def table_of_times(folder, public, *, unit, bad):
    """Return records of 13 persons with many equal times. About every third is bad in some way if asked."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"size": rng.normal(size=N), "ward": rng.choice(["a", "b"], N)})
    table["arm"], table["status"] = rng.choice(["drug", "none"], N), rng.integers(0, 3, N)
    table["days"], table["who"] = rng.integers(0, 10, N).astype(float), [f"p{n}" for n in rng.integers(0, 13, N)]
    if bad:
        table.loc[::7, "days"] = [np.nan, -1.0, np.inf, np.nan, -1.0, np.inf, np.nan]
        table.loc[1::7, "status"] = 9
        table.loc[2::7, "arm"] = "undeclared"
        table.loc[3::7, "who"] = None
        table.loc[4::7, "size"] = np.inf
        # Nothing of one person can be read.
        table.loc[table["who"] == "p3", "days"] = np.nan
    columns = [*public.columns, *TARGET, *([unit] if unit else [])]
    return PrivateTable(table[columns], public, unit, folder, zeroes=True, target=TARGET).write()


def public_rows():
    rng = np.random.default_rng(2)
    return pd.DataFrame({"size": rng.normal(size=40), "ward": rng.choice(["a", "b"], 40)})


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return the table of a life table or of risks, with units or not, and with bad records or not."""
    made = {}

    def table(public, unit, bad):
        case = tuple(public.columns), unit, bad
        if case not in made:
            made[case] = table_of_times(tmp_path_factory.mktemp("times"), public, unit=unit, bad=bad)
        return made[case]

    return table


def life_table(relation, competing, strata):
    values = {"arm": ["none", "drug"]} if strata else None
    return LifeTable(
        BINS, events=[1] if competing else [1, 2], competing=competing, strata=values, relation=relation, **SETTINGS
    )


SETTINGS = {"epsilon": 3.0, "delta": 1e-4, "insecure_release_seed": 5}
FEWEST = {"replace-one": {}, "add-or-remove-one": {"fewest_units": 2}}


def by_times(route, model, rows):
    """Fit a life table by a route, or in memory."""
    more = FEWEST[model.relation]
    if route is None:
        strata = rows.table[rows.features] if model.strata else None
        return model.fit(rows.table["days"], rows.table["status"], strata=strata, units=rows.units, **more)
    read, units = route(rows)
    return model.fit_blocks(read, units=units, **more)


def by_risk(route, model, rows):
    """Fit risks by a route, or in memory."""
    more = FEWEST[model.relation] | {"X_public": rows.public}
    if route is None:
        return model.fit(rows.table[rows.features], rows.labels(rows.table), units=rows.units, **more)
    read, units = route(rows)
    return model.fit_blocks(read, units=units, **more)


def released(fit, route, model, rows):
    """Return exact sums, what is charged and what is released."""
    sums, real = [], SumReleaser.charge_and_draw

    def watched(self, query, total, share, *, weight=1.0):
        sums.append((np.asarray(total).tolist(), query.sensitivity(self.relation), share, weight))
        return real(self, query, total, share, weight=weight)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(SumReleaser, "charge_and_draw", watched)
        fit(route, model, rows)
    return sums, model.charges_, model.guarantee_, model.life_table_.noisy.tolist()


CASES = list(product(RELATIONS, [None, "who"], [False, True], [(), (2,)], [False, True]))


def different_tables(tables, routes, relation, unit, bad, competing, strata):
    rows = tables(pd.DataFrame(columns=["arm"]), unit, bad)

    def of(route):
        return released(by_times, route, life_table(relation, competing, strata), rows)

    wanted = of(None)
    assert np.abs(np.array(wanted[0][0][0], dtype=float)).sum() > 0
    return [name for name, route in routes.items() if repr(of(route)) != repr(wanted)]


# Each value of each part of a case is among these.
BY_DAY = range(0, len(CASES), 3)


@pytest.mark.parametrize("place", BY_DAY)
def test_a_life_table_is_that_in_memory_by_every_route(tables, place):
    """By day some cases take a quarter of the routes each, and tables row by row come at night."""
    some = dict(list((ROUTES | SHUFFLED).items())[place // 3 % 4 :: 4])
    assert different_tables(tables, some, *CASES[place]) == []


def test_each_value_is_met_by_day():
    for values in zip(*(CASES[place] for place in BY_DAY), strict=True):
        assert len(set(values)) == 2


def test_units_that_are_merged_often_have_the_same_table(tables, monkeypatch):
    monkeypatch.setattr(passes, "_RECORDS_WAITING", 3)
    routes = {name: ALL[name] for name in ("blocks of 7", "a table in uneven parts", "2 parts in another order")}
    assert different_tables(tables, routes, RELATIONS[0], "who", True, (2,), True) == []


@pytest.mark.nightly
@pytest.mark.parametrize("place", range(len(CASES)))
def test_a_life_table_is_that_in_memory_by_all_routes(tables, place):
    assert different_tables(tables, ALL, *CASES[place]) == []


@pytest.mark.parametrize(("relation", "unit", "competing"), [(RELATIONS[0], "who", (2,)), (RELATIONS[1], None, ())])
def test_risks_are_those_in_memory_by_every_route(tables, relation, unit, competing):
    rows = tables(public_rows(), unit, True)

    def of(route):
        events = [1] if competing else [1, 2]
        model = LabelMomentsSurvival(BINS, events=events, competing=competing, relation=relation, **SETTINGS)
        found = released(by_risk, route, model, rows)
        return repr((*found, model.predict_risk(rows.public, BINS).tolist(), model.readable_share_, model.drift_))

    wanted, names = of(None), ["uneven blocks", "a folder in parts", "5 parts in another order"]
    routes = {name: ALL[name] for name in names}
    assert [name for name, route in routes.items() if of(route) != wanted] == []


@pytest.mark.nightly
@pytest.mark.parametrize("route", [name for name in ALL if name not in ROW_BY_ROW])
def test_risks_are_those_in_memory_by_all_routes(tables, route):
    rows = tables(public_rows(), "who", True)

    def of(route):
        model = LabelMomentsSurvival(BINS, competing=[2], **SETTINGS)
        return repr((*released(by_risk, route, model, rows), model.predict_risk(rows.public, BINS).tolist()))

    assert of(ALL[route]) == of(None)


@pytest.mark.slow
def test_processes_release_what_memory_releases(tables):
    route = BY_PROCESSES["two processes"]
    assert different_tables(tables, {"processes": route}, RELATIONS[0], "who", True, (2,), True) == []


# One person may be anything, in a table whose other records stay the same. Records are spread over the table.
OTHERS = [("x", 1, 3.0), ("y", 0, 1.0), ("x", 0, 9.0), ("y", 2, 5.0)]
ENTRIES = [(1, 1.0), (1, 3.0), (0, 3.0), (2, 1.0), (0, 9.0), (1, np.nan), (9, 1.0)]
PERSONS = [(), *((one,) for one in ENTRIES), *combinations(ENTRIES, 2), (ENTRIES[1],) * 3]


def with_person(records):
    """Return records, in which those of one person begin, lie between and end the others."""
    rows = [("me", *one) for one in records[:1]]
    for place, other in enumerate(OTHERS):
        rows += [other, *(("me", *one) for one in records[1:2] if place == 1)]
    rows += [("me", *one) for one in records[2:]]
    return pd.DataFrame(rows, columns=["who", "status", "days"])


def exact_sum(route, records, relation):
    """Return the exact sum of a life table of records, and its sensitivity."""
    table = with_person(records)
    rows = PrivateTable(table, pd.DataFrame(), "who", folder=None, zeroes=True, target=TARGET)
    model = life_table(relation, (2,), strata=False)
    total, charged, *_ = released(by_times, route, model, rows)[0][0]
    return np.array(total, dtype=float), charged


TINY = {
    "blocks of 1": ROW_BY_ROW["blocks of 1"],
    "blocks of 2": lambda rows: (
        lambda: ((None, rows.labels(rows.table[start : start + 2])) for start in range(0, len(rows.table), 2)),
        rows.units,
    ),
    "parts of 1": ROW_BY_ROW["parts of 1"],
    "parts of 3": lambda rows: (InParts(rows.table, "who", range(0, len(rows.table) + 3, 3), TARGET), None),
}


# Tables row by row take long.
EACH = [pytest.param(name, marks=[pytest.mark.nightly] if name.endswith("of 1") else []) for name in TINY]


def moves(route, relation):
    """Return how far the sum of a life table moves between any two neighbours, in sensitivities."""
    found = [exact_sum(route, records, relation) for records in PERSONS]
    charged = found[0][1]
    if relation == "add-or-remove-one":
        return [float(np.linalg.norm(one - found[0][0])) / charged for one, _ in found[1:]]
    return [float(np.linalg.norm(one - other)) / charged for (one, _), (other, _) in combinations(found[1:], 2)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("route", EACH)
def test_brute_force_no_person_moves_the_sum_further_than_one_record(route, relation):
    largest = max(moves(TINY[route], relation))
    assert 0.99 < largest <= 1


class _Enough(Exception):  # noqa: N818
    pass


def first_sums(route, records):
    """Return the mean of features and the life table of risks before noise, with the sensitivity of each.

    Later sums depend on what was released. Columns of the person's records are as far apart as they can be.
    """
    table, public, sums, real = with_person(records), public_rows(), [], SumReleaser.charge_and_draw
    mine = table["who"] == "me"
    table["size"] = np.where(mine, 9.0 * (-1.0) ** np.cumsum(mine), 0.1 * np.arange(len(table)))
    table["ward"] = "a"
    rows = PrivateTable(table, public, "who", folder=None, zeroes=True, target=TARGET)

    def watched(self, query, total, share, *, weight=1.0):
        sums.append((np.array(total, dtype=float), query.sensitivity(self.relation)))
        if len(sums) == 2:
            raise _Enough
        return real(self, query, total, share, weight=weight)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(SumReleaser, "charge_and_draw", watched)
        # The guard of private rows hides the kind of other errors.
        with pytest.raises(DataError, match="Enough"):
            by_risk(route, LabelMomentsSurvival(BINS, competing=[2], **SETTINGS), rows)
    return sums


def moves_of_risks(route, persons):
    found = [first_sums(route, records) for records in persons]
    return [
        float(np.linalg.norm(one - other)) / charged
        for pair in combinations(found, 2)
        for (one, charged), (other, _) in zip(*pair, strict=True)
    ]


# An event, a censoring, both, an event beside a bad record, a bad record, and a censoring beside a bad record.
SOME = [PERSONS[place] for place in (1, 3, 9, 12, 7, 27)]


@pytest.mark.parametrize("route", [pytest.param("blocks of 1", marks=pytest.mark.nightly), "parts of 3"])
def test_no_person_moves_sums_of_risks_further_than_one_record(route):
    largest = max(moves_of_risks(TINY[route], SOME))
    assert 0.9 < largest <= 1


def chosen_in_its_block(check, X, y, ids=None, *, first=0):
    """A planted bug: each block chooses a record of each of its persons."""
    block = RowCheck.real_block(check, X, y, ids, first=first)
    return block._replace(weights=UnitCounts.of(block.units, block.ranks).weights(block.units, block.ranks))


@pytest.mark.parametrize("route", EACH)
def test_a_person_who_counts_once_in_each_block_is_caught(monkeypatch, plant, route):
    monkeypatch.setattr(RowCheck, "real_block", RowCheck.checked_block, raising=False)
    plant(RowCheck, "checked_block", chosen_in_its_block)
    if route.startswith("parts"):
        # A part's sum is also compared with what its units may add.
        with pytest.raises(DataError, match="a sum or a number of records that no rows could give"):
            moves(TINY[route], "add-or-remove-one")
    else:
        assert max(moves(TINY[route], "add-or-remove-one")) > 1.4


# Rows whose order within a person changes between two passes, and nothing else that is summed.


def fit_to_changing_times(since=2):
    rows, passes = public_rows()[:4], []

    def read():
        passes.append(1)
        # Both records are in one bin. If their times become equal, both would count.
        days = [2.5, 3.0 if len(passes) < since else 2.5, 1.0, 7.0]
        yield rows, pd.DataFrame({"status": [1, 1, 0, 0], "days": days})

    model = LabelMomentsSurvival(BINS, **SETTINGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit_blocks(read, units=["a", "a", "b", "c"], X_public=public_rows())


def test_times_that_change_their_order_end_the_run():
    fit_to_changing_times(since=99)
    with pytest.raises(DataError, match="changed between two passes"):
        fit_to_changing_times()


def test_checksums_without_the_order_of_records_are_caught(monkeypatch, plant):
    """Without ranks in checksums a person counts twice, and nobody notices."""
    monkeypatch.setattr(RowChecksums, "real", RowChecksums.of, raising=False)
    plant(RowChecksums, "of", lambda self, rows, targets, units=None, ranks=None: self.real(rows, targets, units))
    fit_to_changing_times()


# What is refused by declarations and declared types.


def of_dates(folder):
    folder.mkdir(exist_ok=True)
    day = pd.Timestamp("2026-01-01")
    pd.DataFrame({"status": [0, 1], "days": [day, day]}).to_parquet(folder / "1.parquet", index=False)
    return folder


DATES = {
    "blocks": partial(ParquetBlocks, target=TARGET),
    "parts": partial(ParquetParts, target=TARGET),
    "a stream": lambda folder: ArrowBlocks(lambda: arrow_of(folder), TARGET),
    "a stream as one part": lambda folder: ArrowPart(lambda: arrow_of(folder), TARGET),
}


def arrow_of(folder):
    return parquet.read_table(folder / "1.parquet")


@pytest.mark.parametrize("reader", DATES)
def test_columns_of_dates_are_refused_by_their_type(tmp_path, reader):
    with pytest.raises(DataError, match=r"column 'days' of .* holds dates or durations: write numbers"):
        DATES[reader](of_dates(tmp_path / "dates"))


@pytest.mark.parametrize("reader", DATES)
def test_a_target_that_is_missing_is_named(tmp_path, reader):
    table = pd.DataFrame({"status": [0, 1], "hours": [1.0, 2.0]})
    table.to_parquet(tmp_path / "1.parquet", index=False)
    with pytest.raises(DataError, match=r"target='days' is not (a|one) column of"):
        DATES[reader](tmp_path)


def test_blocks_without_declared_strata_or_with_one_field_are_refused(tables):
    rows = tables(pd.DataFrame(columns=["arm"]), None, False)
    y = rows.labels(rows.table)
    with pytest.raises(InvalidParameterError, match="declares \\['arm'\\]"):
        life_table(RELATIONS[0], (), strata=True).fit_blocks(lambda: iter([(None, y)]))
    for one in (y[["days"]], y["days"].to_numpy()):
        with pytest.raises(DataError, match="y must have two fields"):
            life_table(RELATIONS[0], (), strata=False).fit_blocks(lambda one=one: iter([(None, one)]))
    swapped = pd.DataFrame({"days": y["days"], "status": y["status"]})
    with pytest.raises(DataError, match="give the event first"):
        life_table(RELATIONS[0], (), strata=False).fit_blocks(lambda: iter([(None, swapped)]))
