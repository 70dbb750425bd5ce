"""One release by one process, two processes, Dask and Spark: bit for bit the same, with CPU time and memory of each.

By default the table is Adult. With --rows it is a generated table of numbers, which is written in parts and used again
by later runs with the same --home. Every route runs in a process of its own, one after the other. CPU seconds and
memory are those of this process and of all its descendants, sampled in /proc twice a second. Memory is the largest sum
of proportional set sizes. Dask and Spark are left out if they are missing.

    python benchmarks/sums_at_scale.py
    python benchmarks/sums_at_scale.py --rows 200000 --columns 100 --public 2000 --home /tmp/sums --routes one,two
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from dpensemble import LabelMomentsClassifier, load_adult, on_cluster, three_way_split
from dpensemble.datasets.partitions import DaskParts, ParquetOnSpark, ParquetParts, SparkParts

ROUTES = {
    "fit": "fit, in memory",
    "one": "one process",
    "two": "two processes",
    "dask": "Dask, two workers, Parquet",
    "frame": "Dask, two workers, frame",
    "spark": "Spark, local[2], Parquet",
    "rows": "Spark, local[2], DataFrame",
}
ROWS_OF_A_PART = 2**17
# Rows from which the table is not loaded into memory as a whole, unless asked for.
MOST_ROWS_IN_MEMORY = 1_000_000
MISSING = 3  # exit code of a route whose packages are missing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=0, help="rows of a generated table; 0 for Adult")
    parser.add_argument("--columns", type=int, default=100, help="number columns of the generated table")
    parser.add_argument("--public", type=int, default=900, help="public rows of the generated table")
    parser.add_argument("--units", action="store_true", help="protect units of two records, as for Adult")
    parser.add_argument("--home", type=Path, help="folder of the generated table; by default it is deleted afterwards")
    parser.add_argument("--routes", default=None, help=f"some of {','.join(ROUTES)}")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        return run(arguments.run, arguments.home)
    few = arguments.rows <= MOST_ROWS_IN_MEMORY
    routes = arguments.routes.split(",") if arguments.routes else [name for name in ROUTES if few or name != "fit"]
    with tempfile.TemporaryDirectory() as place:
        home = arguments.home or Path(place)
        if arguments.rows:
            write_generated(home, arguments)
        else:
            write_adult(home)
        size = sum(file.stat().st_size for file in home.rglob("*.parquet")) / 1e9
        print(f"{json.loads((home / 'table.json').read_text())['rows']:,} rows, {size:.2f} GB on disk")
        return compare(routes, home)


def write_adult(home):
    adult = load_adult()
    split = three_way_split(len(adult.X), 0)
    private = adult.X.iloc[split.private].assign(_label=adult.y.iloc[split.private], _person=range(len(split.private)))
    private["_person"] //= 2
    (home / "parts").mkdir(parents=True, exist_ok=True)
    for number in range(4):
        private.iloc[number::4].to_parquet(home / "parts" / f"{number}.parquet", index=False)
    adult.X.iloc[split.public].to_parquet(home / "public.parquet", index=False)
    settings = {"classes": list(adult.classes), "epsilon": 1.0, "delta": 1e-5}
    table = {"rows": len(private), "unit": "_person", "columns": list(adult.X.columns), "settings": settings}
    (home / "table.json").write_text(json.dumps(table))


def generated(n_rows, n_columns, seed):
    """Return numbers with three decimals that share a factor, a label that follows a few of them, and persons."""
    rng = np.random.default_rng(seed)
    numbers = np.round(rng.normal(size=(n_rows, n_columns)) + rng.normal(size=(n_rows, 1)), 3)
    table = pd.DataFrame(numbers, columns=[f"x{place}" for place in range(n_columns)])
    score = numbers[:, 0] - numbers[:, -1] * np.abs(numbers[:, n_columns // 2]) + rng.normal(size=n_rows)
    return table.assign(_label=(score > 0).astype(np.int64))


def write_generated(home, arguments):
    """Write the table, or keep one of the same size."""
    table = {"rows": arguments.rows, "unit": "_person" if arguments.units else None}
    wanted = {**table, "n_columns": arguments.columns}
    parts, done = home / "parts", home / "generated.json"
    if not (done.exists() and json.loads(done.read_text()) == wanted):
        shutil.rmtree(parts, ignore_errors=True)
        done.unlink(missing_ok=True)
        parts.mkdir(parents=True)
        for number, start in enumerate(range(0, arguments.rows, ROWS_OF_A_PART)):
            n_rows = min(ROWS_OF_A_PART, arguments.rows - start)
            part = generated(n_rows, arguments.columns, (1, number))
            if arguments.units:
                part["_person"] = np.arange(start, start + n_rows) // 2
            part.to_parquet(parts / f"{number:05}.parquet", index=False)
        done.write_text(json.dumps(wanted))
    public = generated(arguments.public, arguments.columns, (2,)).drop(columns="_label")
    public.to_parquet(home / "public.parquet", index=False)
    settings = {"classes": [0, 1], "epsilon": 1.0, "delta": min(1e-5, 0.1 / arguments.rows)}
    table |= {"columns": list(public.columns), "settings": settings}
    (home / "table.json").write_text(json.dumps(table))


def compare(routes, home):
    """Run the routes one after the other, and print their figures beside those of the first."""
    print(f"{'route':28}{'same bits':>10}{'seconds':>9}{'CPU s':>9}{'CPU, ratio':>12}{'GB':>7}  seconds of each pass")
    first, wrong = None, False
    for name in routes:
        result = home / "result.json"
        result.unlink(missing_ok=True)
        spent, most, code = watched([sys.executable, __file__, "--run", name, "--home", str(home)])
        if code == MISSING:
            print(f"{ROUTES[name]:28}{'missing':>10}")
            continue
        if code:
            print(f"{ROUTES[name]:28}{'failed':>10}")
            wrong = True
            continue
        got = json.loads(result.read_text())
        first = first or (got["bits"], spent)
        same = got["bits"] == first[0]
        wrong |= not same
        passes = " ".join(f"{seconds:.1f}" for seconds in got["passes"])
        print(
            f"{ROUTES[name]:28}{'yes' if same else 'NO':>10}{got['seconds']:9.1f}{spent:9.1f}{spent / first[1]:12.2f}"
            f"{most / 1e9:7.2f}  {passes}",
            flush=True,
        )
    return int(wrong)


def watched(command):
    """Run a command, and return its CPU seconds, its largest memory in bytes and its exit code, with descendants."""
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    spent, most = {}, 0
    process = subprocess.Popen(command)  # noqa: S603  this script
    family = {process.pid}
    while process.poll() is None:
        memory = 0
        stats = dict(statistics_of_processes())
        for _ in range(8):
            family |= {pid for pid, (parent, *_) in stats.items() if parent in family}
        for pid in family & stats.keys():
            _, started, ticks, pages = stats[pid]
            spent[pid, started] = ticks / tick
            memory += proportional_memory(pid) or pages * page
        most = max(most, memory)
        time.sleep(0.5)
    return sum(spent.values()), most, process.returncode


def statistics_of_processes():
    """Yield the id of each process with its parent, start, CPU ticks and pages of memory."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(place.name), (int(fields[1]), fields[19], int(fields[11]) + int(fields[12]), int(fields[21]))


def proportional_memory(pid):
    """Return the memory of a process in bytes, where pages of several processes are divided among them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def run(name, home):
    """Make the release of one route, and store its bits."""
    table, parts = json.loads((home / "table.json").read_text()), home / "parts"
    columns = {"target": "_label", "unit": table["unit"]}
    public = pd.read_parquet(home / "public.parquet")[table["columns"]]
    model = LabelMomentsClassifier(**table["settings"], insecure_release_seed=7)
    passes = []
    try:
        with source_of(name, parts, columns) as source:
            start = time.perf_counter()
            if name == "fit":
                private = source.pop("X")
                model.fit(private[table["columns"]], private["_label"], X_public=public, **source)
            else:
                model.fit_blocks(timed(source, passes), X_public=public)
            seconds = time.perf_counter() - start
    except ImportError:
        return MISSING
    bits = hashlib.sha256(b"".join(one.values.tobytes() for one in model.moments_)).hexdigest()
    (home / "result.json").write_text(json.dumps({"bits": bits, "seconds": seconds, "passes": passes}))
    return 0


def timed(source, passes):
    """Return a table in parts that appends the seconds of each pass."""
    results = source.results

    def measured(work):
        start = time.perf_counter()
        yield from results(work)
        passes.append(time.perf_counter() - start)

    source.results = measured
    return source


@contextmanager
def source_of(name, parts, columns):
    """Yield the private table of a route, within its cluster."""
    if name == "fit":
        private = pd.read_parquet(parts)
        yield {"X": private} | ({} if columns["unit"] is None else {"units": private[columns["unit"]]})
    elif name in ("one", "two"):
        yield ParquetParts(parts, **columns, n_jobs=1 + (name == "two"))
    elif name in ("dask", "frame"):
        with dask_of_two_workers() as dask:
            frame = name == "frame"
            yield DaskParts(dask.read_parquet(str(parts)), **columns) if frame else ParquetParts(parts, **columns)
    else:
        with spark_session() as session:
            if name == "rows":
                yield SparkParts(session.read.parquet(str(parts)), **columns)
            else:
                yield ParquetOnSpark(session, parts, **columns)


@contextmanager
def dask_of_two_workers():
    import dask.dataframe  # noqa: PLC0415  an optional extra
    from distributed import Client  # noqa: PLC0415  an optional extra

    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as place:
        address = str(Path(place) / "scheduler.json")
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        processes = [subprocess.Popen([*command, "--no-dashboard", "--scheduler-file", address], **quiet)]  # noqa: S603
        command = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", address, "--nthreads", "1"]
        more = ["--no-nanny", "--no-dashboard", "--memory-limit", "0", "--host", "127.0.0.1"]
        try:
            processes += [subprocess.Popen([*command, *more], **quiet) for _ in range(2)]  # noqa: S603
            with Client(scheduler_file=address, timeout=60, set_as_default=False) as client:
                client.wait_for_workers(2, timeout=60)
                where = client.scheduler.address
            with on_cluster("dask", where):
                yield dask.dataframe
        finally:
            # A worker that loses its scheduler may wait for it for ever.
            for process in processes:
                process.kill()
            for process in processes:
                process.wait()


@contextmanager
def spark_session():
    from pyspark.sql import SparkSession  # noqa: PLC0415  an optional extra

    if shutil.which("java") is None:
        raise ImportError("Spark needs Java.")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as place:
        session = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
        session = session.config("spark.driver.host", "127.0.0.1").config("spark.local.dir", place)
        session = session.config("spark.ui.showConsoleProgress", "false")
        session = session.config("spark.io.encryption.enabled", "true").getOrCreate()
        try:
            yield session
        finally:
            session.stop()


if __name__ == "__main__":
    sys.exit(main())
