"""`train --private` and `check` on Arrow files and databases: the release of a Parquet file, or one sentence.

PostgreSQL is a server of the tests' own. Tests of a database are skipped if its package is not installed.
"""

import json
import os
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import orc

import dpensemble.cli.train
from dpensemble.cli import main
from dpensemble.datasets import arrow_sources
from dpensemble.datasets.arrow import ArrowBlocks, ArrowPart
from dpensemble.errors import DataError, FileError

pytestmark = [
    pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning"),
    pytest.mark.usefixtures("few_synthetic_rows"),
]
SETTINGS = "--target y --classes 0,1 --unit who --drop code --delta 1e-3 --insecure-release-seed 1 --quiet --json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("streams")
    rng = np.random.default_rng(0)
    n = 550
    table = pd.DataFrame({"size": rng.normal(size=n), "town": rng.choice(["York", "Bath", None], n), "code": 1})
    table["y"], table["who"] = np.where(table["size"] > 0, 1, 0), rng.integers(0, 150, n)
    table["big"] = 2**60 + np.arange(n)
    table.loc[3, "size"], table.loc[4, "y"] = np.nan, 7
    private, public = table.iloc[:300], table.iloc[300:].drop(columns=["who", "y"])
    public.to_parquet(place / "public.parquet", index=False)
    private.to_parquet(place / "private.parquet", index=False)
    return place


@pytest.fixture(scope="module")
def private(folder):
    return pa.Table.from_pandas(pd.read_parquet(folder / "private.parquet"))


@pytest.fixture(autouse=True)
def without_rehearsal(monkeypatch):
    """Leave out the run on stand-in records, which reads no private table."""
    monkeypatch.setattr(dpensemble.cli.train, "rehearse", lambda *_, **__: None)


def train(folder, capsys, private, *more, method="label-moments", settings=SETTINGS, out="out"):
    out = folder / out
    tables = ["--private", str(private), "--public", str(folder / "public.parquet"), "--out", str(out), "--overwrite"]
    code = main(["train", method, *tables, *settings.split(), *more])
    shown = capsys.readouterr()
    if code:
        return code, shown.err
    record = json.loads(shown.out)
    for name in ("seconds", "created"):
        record.pop(name)
    # The name of the table is the only other difference.
    return (
        (out / "labels.csv").read_bytes(),
        (out / "certificate.json").read_bytes(),
        record["data"].pop("name"),
        record,
    )


def counts(folder, capsys, private):
    files = ["--private", str(private), "--public", str(folder / "public.parquet")]
    given = "--target y --classes 0,1 --unit who --drop code --json"
    assert main(["check", *files, *given.split()]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def expected(folder):
    """Return what the Parquet file releases, and its counts."""
    memory = {}

    def expected(capsys):
        if not memory:
            labels, certificate, _, record = train(folder, capsys, folder / "private.parquet")
            memory["release"] = labels, certificate, record
            memory["counts"] = counts(folder, capsys, folder / "private.parquet")
        return memory["release"], memory["counts"]

    return expected


def require_same(folder, capsys, private, name, expected):
    labels, certificate, shown, record = train(folder, capsys, private)
    release, checked = expected(capsys)
    assert shown == name
    assert (labels, certificate, record) == release
    assert counts(folder, capsys, private) == checked


def write_ipc(path, table, *, index):
    with (pa.ipc.new_file if index else pa.ipc.new_stream)(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=70)
    return path


@pytest.mark.parametrize(
    ("name", "index"), [("private.arrow", True), pytest.param("private.ipc", False, marks=pytest.mark.nightly)]
)
def test_arrow_files_release_what_parquet_releases(folder, capsys, private, expected, name, index):
    require_same(folder, capsys, write_ipc(folder / name, private, index=index), name, expected)


def as_orc(folder, private):
    orc.write_table(private, folder / "private.orc", stripe_size=2048)
    return folder / "private.orc"


def test_an_orc_file_releases_what_parquet_releases(folder, capsys, private, expected):
    require_same(folder, capsys, as_orc(folder, private), "private.orc", expected)


def test_an_orc_file_is_read_stripe_by_stripe(folder, private):
    orc.write_table(pa.concat_tables([private] * 40), folder / "long.orc", stripe_size=1024, batch_size=100)
    with arrow_sources.opened_source(str(folder / "long.orc")) as source:
        batches = list(source.stream(["y", "who"]))
        assert source.columns == private.column_names
    assert len(batches) > 1
    assert pa.Table.from_batches(batches)["who"].to_pylist() == private["who"].to_pylist() * 40


def test_an_orc_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "broken.orc").write_bytes(b"ORC")
    for name, reason in (("broken.orc", "Arrow|OSError"), ("missing.orc", "there is no such file")):
        with (
            pytest.raises(FileError, match=rf"cannot be read as an ORC file \(({reason})"),
            arrow_sources.opened_source(str(tmp_path / name)),
        ):
            pass


@pytest.mark.nightly
def test_duckdb_releases_what_parquet_releases(folder, capsys, expected):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute(f"create table visits as from '{folder / 'private.parquet'}'")
    require_same(folder, capsys, f"duckdb:{folder / 'clinic.duckdb'}:main.visits", "main.visits", expected)


def as_sqlite(folder, private):
    with sqlite3.connect(folder / "clinic.db") as connection:
        private.to_pandas().to_sql("visits", connection, index=False, if_exists="replace")
    connection.close()
    return f"sqlite:{folder / 'clinic.db'}:visits"


@pytest.mark.nightly
def test_sqlite_releases_what_parquet_releases(folder, capsys, private, expected):
    pytest.importorskip("adbc_driver_sqlite")
    require_same(folder, capsys, as_sqlite(folder, private), "visits", expected)


@pytest.mark.nightly
def test_postgresql_releases_what_parquet_releases(folder, capsys, private, expected, postgresql):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with dbapi.connect(postgresql.address) as connection, connection.cursor() as cursor:
        cursor.execute("create schema clinic")
        cursor.adbc_ingest("visits", private, db_schema_name="clinic")
        connection.commit()
    require_same(folder, capsys, f"{postgresql.address}?table=clinic.visits", "clinic.visits", expected)


def test_every_round_sees_the_rows_of_one_moment(private, postgresql):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with dbapi.connect(postgresql.address) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("visits", private)
        connection.commit()
        with arrow_sources.opened_source(f"{postgresql.address}?table=visits") as source:
            assert source.stream(["y"]).read_all().num_rows == 300
            cursor.execute("delete from visits where y = 1")
            connection.commit()
            # A stream that was not read to its end does not keep the next one waiting.
            source.stream(["y", "who"]).close()
            assert source.stream(["y"]).read_all().num_rows == 300


@pytest.mark.parametrize(
    ("address", "more", "message"),
    [
        ("private.arrow", ("--jobs", "2"), "jobs cannot be used with a private table that this process streams"),
        ("private.arrow", ("--cluster", "dask"), "cluster cannot be used with"),
        ("private.arrow", ("--baseline",), "baseline=True requires all private records in memory"),
        ("private.arrow", ("--groups", "town"), "groups require held-back units or test rows"),
        ("none.arrow", (), "there is no such file"),
        ("public.feather", (), "cannot be read as an Arrow file"),
        ("duckdb:visits", (), "write duckdb:FILE:TABLE"),
        ("postgresql://ann:hunter2@host/clinic?table=visits", (), "must not hold a password"),
        ("postgresql://ann@host/clinic?table=visits&password=hunter2", (), "must not hold a password"),
        ("postgresql://ann@host/clinic", (), "such as postgresql://USER@HOST/DATABASE?table=TABLE"),
        ("snowflake://ann:hunter2@account", (), "call fit_blocks in Python"),
    ],
)
def test_what_cannot_be_streamed_is_refused(folder, capsys, private, address, more, message):
    write_ipc(folder / "private.arrow", private, index=True)
    (folder / "public.feather").write_bytes(b"no table")
    given = address if ":" in address else folder / address
    code, shown = train(folder, capsys, given, *more)
    assert code == 2
    assert message in shown.splitlines()[-1]
    assert "hunter2" not in shown


def test_methods_that_do_not_sum_refuse_streams(folder, capsys, private):
    write_ipc(folder / "private.arrow", private, index=True)
    settings = SETTINGS.replace("--unit who ", "")
    code, shown = train(folder, capsys, folder / "private.arrow", method="pate", settings=settings)
    assert (code, "pate cannot read a stream: train label-moments" in shown) == (2, True)


@pytest.mark.parametrize(
    ("address", "package"),
    [
        ("duckdb:clinic.duckdb:visits", "duckdb"),
        ("sqlite:clinic.db:visits", "adbc-driver-sqlite"),
        ("postgresql:///clinic?table=visits", "adbc-driver-postgresql"),
    ],
)
def test_a_missing_package_is_named(folder, capsys, monkeypatch, address, package):
    # None makes an import fail.
    monkeypatch.setitem(__import__("sys").modules, package.replace("-", "_"), None)
    code, shown = train(folder, capsys, address)
    assert (code, f"run pip install {package}." in shown) == (2, True)


@pytest.fixture
def broken(folder, private, monkeypatch):
    """Return an Arrow file whose last pass ends with an error that quotes a row."""
    path, reads = write_ipc(folder / "broken.arrow", private, index=True), []
    plain = arrow_sources._ArrowFile.stream

    def stream(self, columns):
        reads.append(columns)

        def batches():
            yield from plain(self, columns)
            if len(reads) == 7:
                raise OSError("row York 4711")

        return pa.RecordBatchReader.from_batches(plain(self, columns).schema, batches())

    monkeypatch.setattr(arrow_sources._ArrowFile, "stream", stream)
    return path


@pytest.mark.nightly
def test_an_error_of_a_stream_hides_its_rows_and_the_run_can_be_finished(folder, capsys, broken, private, expected):
    out, labels = folder / "failed", expected(capsys)[0][0]
    code, shown = train(folder, capsys, broken, out="failed")
    assert code == 1
    assert "ended with an error (OSError)" in shown
    assert "4711" not in shown
    plain = broken.read_bytes()
    write_ipc(broken, private.slice(1), index=True)
    assert main(["recover", str(out)]) == 2
    assert "has changed since the run" in capsys.readouterr().err
    broken.write_bytes(plain)
    assert main(["recover", str(out)]) == 0
    assert (out / "labels.csv").read_bytes() == labels


@pytest.fixture
def commands(monkeypatch):
    """Return the commands in the journals of runs that end before they begin."""
    commands = []

    def claimed(*_, command, **__):
        commands.append(command)
        raise FileError("no folder")

    monkeypatch.setattr(dpensemble.cli.train, "claimed_folder", claimed)
    return commands


def test_only_runs_on_arrow_files_keep_their_command(folder, capsys, private, commands):
    pytest.importorskip("adbc_driver_sqlite")
    for address in (write_ipc(folder / "private.arrow", private, index=True), as_sqlite(folder, private)):
        assert train(folder, capsys, address)[0] == 2
    assert [bool(one) for one in commands] == [True, False]


def test_duckdb_reads_its_own_tables_only(folder, capsys):
    """A view, or a file that is named like a table, would be read in the light of other rows."""
    duckdb = pytest.importorskip("duckdb")
    path = folder / "views.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"create view visits as from '{folder / 'private.parquet'}'")
    for name in ("visits", folder / "private.parquet", "duckdb_tables"):
        code, shown = train(folder, capsys, f"duckdb:{path}:{name}")
        assert (code, f"{name} is not a table of views.duckdb" in shown) == (2, True)


def test_a_table_of_another_schema_does_not_let_a_view_of_duckdb_in(folder):
    duckdb = pytest.importorskip("duckdb")
    path = folder / "schemas.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create schema other; create table other.visits as select 1 as y")
        connection.execute("create view visits as select 2 as y")
    with pytest.raises(DataError, match="visits is not a table"), arrow_sources.opened_source(f"duckdb:{path}:visits"):
        pass
    for name in ("other.visits", "OTHER.Visits", "schemas.other.visits"):
        with arrow_sources.opened_source(f"duckdb:{path}:{name}") as source:
            assert source.stream(["y"]).read_all().to_pydict() == {"y": [1]}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_moments_of_duckdb_have_the_same_day_everywhere(folder, zone):
    duckdb = pytest.importorskip("duckdb")
    path = folder / f"moments-{len(zone)}.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table visits as select timestamptz '2026-03-01 23:30:00+00' as seen")
    read = (
        "import sys; from dpensemble.datasets.arrow_sources import opened_source, source_frames\n"
        "with opened_source(sys.argv[1]) as source: print(*source_frames(source, ['seen'], 10))"
    )
    command = [sys.executable, "-c", read, f"duckdb:{path}:visits"]
    shown = subprocess.run(command, capture_output=True, check=True, text=True, env={**os.environ, "TZ": zone})
    assert "2026-03-01 23:30:00+00:00" in shown.stdout


@pytest.mark.parametrize(("written", "kind"), [("1::money", "money"), ("'Ann'::citext", "citext")])
def test_types_of_postgresql_that_arrive_otherwise_are_refused(postgresql, written, kind):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with dbapi.connect(postgresql.address) as connection, connection.cursor() as cursor:
        cursor.execute("create extension if not exists citext")
        cursor.execute(f"create table odd as select {written} as entry, 2 as y")
        connection.commit()
    with arrow_sources.opened_source(f"{postgresql.address}?table=odd") as source:
        assert source.stream(["y"]).read_all().to_pydict() == {"y": [2]}
        with pytest.raises(DataError, match=f"column 'entry' has the type {kind}"):
            source.stream(["entry"])


def test_a_stream_of_arrow_that_lacks_its_end_is_refused(folder, private):
    whole = write_ipc(folder / "whole.ipc", private, index=False).read_bytes()
    (folder / "cut.ipc").write_bytes(whole[:-8])
    with (
        pytest.raises(DataError, match=r"cut.ipc is not complete"),
        arrow_sources.opened_source(str(folder / "cut.ipc")),
    ):
        pass


def test_columns_that_have_one_name_are_named(folder):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["y", "y"])
    path = write_ipc(folder / "twice.arrow", table, index=True)
    with pytest.raises(DataError, match="names a column twice"), arrow_sources.opened_source(str(path)):
        pass


def test_a_file_that_is_no_database_of_sqlite_is_named(folder):
    pytest.importorskip("adbc_driver_sqlite")
    (folder / "visits.csv").write_text("a,b\n1,2\n")
    address = f"sqlite:{folder / 'visits.csv'}:visits"
    with pytest.raises(FileError, match="cannot be opened with SQLite"), arrow_sources.opened_source(address):
        pass


@pytest.mark.parametrize("address", ["mysql:ann:hunter2@host/clinic", "host=h user=ann password=hunter2"])
def test_an_address_of_another_database_is_not_repeated(folder, capsys, address):
    code, shown = train(folder, capsys, address)
    assert code == 2
    assert "private must be a file or one of" in shown
    assert "hunter2" not in shown


def test_a_file_of_duckdb_stays_locked_while_it_is_open(folder):
    duckdb = pytest.importorskip("duckdb")
    path = folder / "locked.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table visits as select 1 as y")
    write = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('delete from visits')"
    with arrow_sources.opened_source(f"duckdb:{path}:visits") as source:
        assert source.files == ()
        assert (
            subprocess.run([sys.executable, "-c", write, str(path)], capture_output=True, check=False).returncode != 0
        )
        assert source.stream(["y"]).read_all().num_rows == 1


def test_a_number_of_sqlite_has_one_form(folder):
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(folder / "forms.db") as connection:
        connection.execute("create table visits (who, town)")
        entries = [(5, None), (5.0, None), (-0.0, ""), (0, "York"), (2.5, None), (1e300, "x"), (0.1 + 0.2, "x")]
        connection.executemany("insert into visits values (?, ?)", entries)
    connection.close()
    with arrow_sources.opened_source(f"sqlite:{folder / 'forms.db'}:visits") as source:
        rows = source.stream(["who", "town"]).read_all().to_pydict()
    assert rows["who"][:5] == ["5", "5", "0", "0", "2.5"]
    assert [float(one) for one in rows["who"][5:]] == [1e300, 0.1 + 0.2]
    assert rows["town"] == [None, None, None, "York", None, "x", "x"]


def test_a_first_batch_without_entries_decides_nothing_about_later_ones(folder):
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(folder / "blanks.db") as connection:
        connection.execute("create table visits (town text)")
        connection.executemany("insert into visits values (?)", [(None,)] * 2000 + [("York",)])
    connection.close()
    with arrow_sources.opened_source(f"sqlite:{folder / 'blanks.db'}:visits") as source:
        assert source.stream(["town"]).read_all()["town"].to_pylist()[-2:] == [None, "York"]


@pytest.mark.parametrize("kind", ["numeric", "citext", "character(5)", "interval"])
def test_units_of_postgresql_have_one_form(kind, postgresql):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with dbapi.connect(postgresql.address) as connection, connection.cursor() as cursor:
        if kind == "citext":
            cursor.execute("select count(*) from pg_available_extensions where name = 'citext'")
            if not cursor.fetchone()[0]:
                pytest.skip("the server has no extension citext")
            cursor.execute("create extension citext")
        cursor.execute(f'create table visits (who {kind}, "y" integer, name text)')
        connection.commit()
    with arrow_sources.opened_source(f"{postgresql.address}?table=visits") as source:
        source.require_unit("y")
        source.require_unit("name")
        with pytest.raises(DataError, match="unit='who' has the type"):
            source.require_unit("who")


def test_units_of_arrow_have_one_form():
    for column in (pa.array([[1]]), pa.array([{"a": 1.0}]), pa.array([pa.MonthDayNano([1, 0, 0])])):
        with pytest.raises(DataError, match="could count as several"):
            ArrowPart(pa.table({"y": [1], "who": column}), "y", unit="who")
        with pytest.raises(DataError, match="could count as several"):
            ArrowBlocks(pa.table({"y": [1], "who": column}), "y", unit="who")
    ArrowPart(pa.table({"y": [1], "who": pa.array(["a"]).dictionary_encode()}), "y", unit="who")
