"""Compare twenty exported students with the library in every engine, and time SQL on many rows.

The students have units, blanks, dates, new categories, several classes, curves and landmarks: those of
``tests/exports/test_onnx.py``. The table has the largest difference of a probability from ``student.predict_proba``
for each engine and its seconds, and how far the student's probabilities spread. PostgreSQL, DuckDB and ONNX Runtime are
left out where they are not installed.

Run ``python benchmarks/exports.py``. ``--time-rows 1000000`` is the number of rows of the time, 0 for none.
PostgreSQL takes about a millisecond a row for directions of many columns, so that a million rows take a quarter hour.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import sqlite3
import sys
import tempfile
import warnings
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from dpensemble import load_classifier
from dpensemble.errors import InvalidParameterError, NotForReleaseWarning
from dpensemble.exports.description import described
from dpensemble.exports.onnx import as_onnx
from dpensemble.exports.script import as_script
from dpensemble.exports.sql import as_sql
from tests import postgresql as servers
from tests.exports.engines import answers, created
from tests.exports.test_onnx import CASES, Rows, predicted, session, trained

ENGINES = ("sqlite", "postgresql", "duckdb", "python", "onnx")


def typed(rows):
    """Return rows as a database has them: blanks are None."""
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in rows.inputs.items()}).replace(
        {np.nan: None, "": None}
    )


def chances_of(found, classes):
    return np.array([[row[f"probability of {name}"] for name in classes] for row in found], dtype=float)


def by_engine(engine, student, rows, server):
    """Return the probabilities of rows in an engine."""
    if engine == "onnx":
        return predicted(session(as_onnx(student)), rows.inputs)[1]
    if engine == "python":
        names = {"__name__": "scorer"}
        exec(as_script(student), names)  # noqa: S102  the file that is compared
        return chances_of([names["classify"](row) for row in typed(rows).to_dict("records")], student.classes)
    table = typed(rows).assign(id=range(len(rows.labels)))
    found = answers(engine, as_sql(student, engine, table="t", keep=["id"]), "t", table, server)
    return chances_of(sorted(found, key=lambda row: row["id"]), student.classes)


def quietly_trained(name, folder):
    """Return the folder of a student's run."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return trained(CASES[name], folder / name)


def compared(names, engines, n_rows, folder, server):
    """Yield a line for each student: its largest difference in each engine, or why there is none."""
    for name in names:
        run = quietly_trained(name, folder)
        student, rows = described(run), Rows(CASES[name], n_rows, 3, new=True)
        expected = load_classifier(run / "student.skops").predict_proba(rows.frame())
        line = {"student": name, "spread": float(np.ptp(expected[:, 0]))}
        for engine in engines:
            start = perf_counter()
            try:
                line[engine] = float(np.abs(by_engine(engine, student, rows, server) - expected).max())
            except InvalidParameterError:
                line[engine] = "refused"
            line[f"seconds of {engine}"] = round(perf_counter() - start, 2)
        yield line


def timed(name, n_rows, engines, folder, server):
    """Return seconds of SQL, and of the student, on the same rows: ten thousand different ones, repeated."""
    run = folder / name / "run" if (folder / name / "run").exists() else quietly_trained(name, folder)
    student, rows = described(run), Rows(CASES[name], 10_000, 3, new=True)
    times = max(n_rows // 10_000, 1)
    library, frame = load_classifier(run / "student.skops"), pd.concat([rows.frame()] * times)
    start = perf_counter()
    library.predict_proba(frame)
    seconds = {"student": perf_counter() - start}
    table = typed(rows)
    for engine in set(engines) & {"duckdb", "postgresql"}:
        create, insert = created(engine, "few", table)
        records = list(table.itertuples(index=False, name=None))
        more = f"CREATE TABLE many AS SELECT few.* FROM few CROSS JOIN generate_series(1, {times})"  # noqa: S608  a whole number
        scores = "CREATE TABLE scores AS " + as_sql(student, engine, table="many")
        if engine == "duckdb":
            import duckdb  # noqa: PLC0415  may be missing

            connection = duckdb.connect(config={"threads": 1})
            frame_of_few = table.infer_objects()  # noqa: F841
            connection.execute(create)
            connection.execute("INSERT INTO few SELECT * FROM frame_of_few")
        else:
            import psycopg  # noqa: PLC0415  may be missing

            connection = psycopg.connect(server.address, autocommit=True)
            connection.execute("SET jit = off")
            connection.execute(create)
            with connection.cursor() as cursor:
                cursor.executemany(insert, records)
        with closing(connection):
            connection.execute(more)
            start = perf_counter()
            connection.execute(scores)
            seconds[engine] = perf_counter() - start
    return {"student timed": name, "rows": times * 10_000, "seconds": {k: round(v, 2) for k, v in seconds.items()}} | {
        "times as long as the student": {k: round(v / seconds["student"], 1) for k, v in seconds.items()}
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--time-rows", type=int, default=1_000_000)
    parser.add_argument("--students", nargs="*", default=list(CASES))
    parser.add_argument("--timed", default="blanks")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES))
    given = parser.parse_args()
    warnings.simplefilter("ignore", NotForReleaseWarning)
    missing = {one for one in ("duckdb", "onnxruntime") if importlib.util.find_spec(one) is None}
    engines = [one for one in given.engines if one not in missing and not (one == "onnx" and "onnxruntime" in missing)]
    if servers.programs() is None and "postgresql" in engines:
        engines.remove("postgresql")
    server = servers.Server() if "postgresql" in engines else None
    print(f"SQLite {sqlite3.sqlite_version}, {given.rows:,} rows, engines: {', '.join(engines)}")
    largest = dict.fromkeys(engines, 0.0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            print("student".ljust(28), "spread", *(engine.rjust(22) for engine in engines), flush=True)
            for line in compared(given.students, engines, given.rows, Path(folder), server):
                cells = []
                for engine in engines:
                    value = line[engine]
                    if value != "refused":
                        largest[engine] = max(largest[engine], value)
                        value = f"{value:.1e}"
                    cells.append(f"{value} ({line[f'seconds of {engine}']:g} s)".rjust(22))
                print(line["student"].ljust(28), f"{line['spread']:.2f}".rjust(6), *cells, flush=True)
            print("largest".ljust(28), " " * 6, *(f"{largest[engine]:.1e}".rjust(22) for engine in engines), flush=True)
            if given.time_rows:
                print(json.dumps(timed(given.timed, given.time_rows, engines, Path(folder), server), indent=2))
    finally:
        if server is not None:
            server.remove()


if __name__ == "__main__":
    main()
