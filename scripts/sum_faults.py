"""Random faults of sums on a cluster: every run ends in the release of one process, or in a refusal before noise.

`python scripts/sum_faults.py dask --runs 200` (or `spark`) begins a cluster of local processes, and lets one fault
happen in a random pass of every run. Every kind of fault has its right ends, also for the announced budget. A run that
did not reach its fault is a wrong end. At the end all files of the engine and all output of this process are searched
for a text of the private rows. Runs use a copy of the library, so that nobody changes its files. The script needs the
extras `dask` or `spark`, and Java for Spark. The exit code is 1 if a run ended in any other way.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread, Timer

import numpy as np
import pandas as pd
from fault_engines import ENGINES, TARGET, UNIT

import dpensemble
from dpensemble import LabelMomentsClassifier
from dpensemble._spending import listen
from dpensemble.datasets.partitions import ParquetParts
from dpensemble.errors import DPEnsembleError
from dpensemble.releases import SumReleaser

PLANTED, COLUMNS, PARTS, PASSES = "Zq7planted", ["a", "b", "c"], 4, 4
SAME, REFUSED, OTHER = "same release", "refused before noise", "release of another table"
# What happens once, in one part of one pass, and the ends that are right.
ON_WORKERS = {
    "a task fails": {SAME},
    "a worker is killed": {SAME},
    "a worker is killed while it sends": {SAME},
    "a straggler": {SAME},
    "a row is repeated": {REFUSED},
    "a row is lost": {REFUSED},
    "other versions": {REFUSED},
    "the engine is lost": {REFUSED},
}
IN_REPORTS = {"a part comes twice": {REFUSED}, "a part is lost": {REFUSED}}
CHANGES = {
    "a file changes": {REFUSED},
    "a file is added": {SAME, REFUSED},
    "a file is removed": {REFUSED},
    "the library changes": {REFUSED},
}
IN_DRIVER = IN_REPORTS | CHANGES
# Dask does not repeat a task that raised.
RIGHT = {
    "dask": ON_WORKERS | {"a task fails": {REFUSED}} | IN_DRIVER,
    "spark": ON_WORKERS | {"an executor is killed": {SAME}} | IN_DRIVER,
}
# A word of the reason why a run is refused. A refusal for another reason is a wrong end.
_CHANGED = "changed between two passes"
REASONS = {
    "a task fails": "raised RuntimeError",
    "a row is repeated": _CHANGED,
    "a row is lost": _CHANGED,
    "other versions": "has other versions",
    "the engine is lost": "scheduler was lost|a job of Spark failed",
    "a part comes twice": _CHANGED,
    "a part is lost": _CHANGED,
    "a file changes": f"{_CHANGED}|was changed or removed|could not be read|a job of Spark failed",
    "a file is added": _CHANGED,
    "a file is removed": "was changed or removed|could not be read|a job of Spark failed",
    "the library changes": "source files of dpensemble",
}


@dataclass
class Fault:
    """A fault in one pass. `place` is a folder for marks, so that the fault happens once."""

    kind: str
    number: int
    place: str

    def happens(self) -> bool:
        """Note that the fault was reached. Return whether this is the part that fails: the first one to come here."""
        Path(self.place, str(uuid.uuid4())).touch()
        try:
            os.close(os.open(f"{self.place}/mark", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class Deadly:
    """A report that kills the process that sends it."""

    def __reduce__(self):
        """Kill this process."""
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class FaultyWork:
    """Work on parts, one of which has a fault."""

    work: object
    fault: Fault
    engine: str

    def __call__(self, tables):
        """Return what the work returns, unless the fault prevents it."""
        if not self.fault.happens():
            return self.work(tables)
        kind = self.fault.kind
        if kind == "a task fails":
            raise RuntimeError("a fault")
        if kind == "a worker is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "a worker is killed while it sends":
            report = self.work(tables)
            if self.engine == "dask":
                return Deadly()
            # Before, while or after the report is pickled and written to the executor.
            Timer(float(np.random.default_rng().uniform(0, 0.01)), os.kill, (os.getpid(), signal.SIGKILL)).start()
            return report
        if kind == "an executor is killed":
            # The parent of Spark's daemon of Python workers is the executor.
            stat = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(stat.rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
            time.sleep(5)
        if kind in {"a straggler", "the engine is lost"}:
            # Spark would compute the part again on another host, but starts no copy on the host of the first task.
            time.sleep(2)
        if kind == "other versions":
            return replace(self.work, wanted={**self.work.wanted, "numpy": "0.1"})(tables)
        if kind == "a row is repeated":
            tables = (pd.concat([table, table[:1]]) for table in tables)
        if kind == "a row is lost":
            tables = (table[1:] for table in tables)
        return self.work(tables)


class FaultyTable:
    """A table in parts with a fault in one of its passes."""

    def __init__(self, table, fault, folder, name, engine):
        self.table, self.fault, self.folder, self.name, self.engine = table, fault, folder, name, engine
        self.target, self.unit, self.passes = table.target, table.unit, 0

    def results(self, work):
        """Yield the reports of a pass."""
        self.passes += 1
        if self.passes != self.fault.number:
            yield from self.table.results(work)
            return
        kind, loses = self.fault.kind, Thread(target=self.lose)
        if kind == "the engine is lost":
            loses.start()
        undo = change(kind, self.folder)
        if kind in CHANGES:
            self.fault.happens()
        try:
            reports = list(
                self.table.results(FaultyWork(work, self.fault, self.name) if kind not in IN_DRIVER else work)
            )
        finally:
            undo()
            if loses.is_alive():
                loses.join()
        if kind in IN_REPORTS:
            reports = [*reports, reports[0]] if kind == "a part comes twice" else reports[:-1]
            self.fault.happens()
        yield from reports

    def lose(self):
        """Lose the engine while a part is summed."""
        until = time.monotonic() + 60
        while not Path(self.fault.place, "mark").exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(float(np.random.default_rng().uniform(0, 0.5)))
        self.engine.lose()


def change(kind, folder):
    """Change a file, if this is the fault, and return what changes it back after the pass."""
    path = folder / "1.parquet"
    if kind == "a file changes":
        table = pd.read_parquet(path)
        table.loc[table.index[3], "c"] += 1
        table.to_parquet(path, index=False)
    if kind == "a file is added":
        shutil.copy(path, folder / "9.parquet")
    if kind == "a file is removed":
        path.unlink()
    if kind != "the library changes":
        return lambda: None
    source = Path(dpensemble.__file__).parent / "moments" / "fits.py"
    text, stat = source.read_text(), source.stat()
    source.write_text(text + "# changed\n")

    def undo():
        source.write_text(text)
        os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    return undo


def begin_world(place: Path) -> pd.DataFrame:
    """Write private rows to a folder, and return public rows."""
    rng, n = np.random.default_rng(0), 1000
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["x", "y"], n), "c": rng.integers(0, 9, n)})
    table["y"], table["who"] = (table["a"] + 0.3 * rng.normal(size=n) > 0).astype(int), rng.integers(0, 500, n)
    private = table.iloc[300:].copy()
    private["b"] = np.where(np.arange(len(private)) % 50 == 0, PLANTED, private["b"])
    place.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(private)), PARTS)):
        private.iloc[part].to_parquet(place / f"{number}.parquet", index=False)
    return table.iloc[:300][COLUMNS]


class Runs:
    """Runs with one fault each, on an engine."""

    def __init__(self, name: str, home: Path) -> None:
        self.name, self.home, self.drawn, self.heard = name, home, [], []
        self.public = begin_world(home / "source")
        charge_and_draw = SumReleaser.charge_and_draw
        SumReleaser.charge_and_draw = lambda *one, **more: self.drawn.append(0) or charge_and_draw(*one, **more)
        self.expected = self.values(ParquetParts(home / "source", TARGET, unit=UNIT))
        self.engine = ENGINES[name](home / "engine")
        self.engine.begin()

    def values(self, parts):
        """Fit a model, and return its released sums."""
        model = LabelMomentsClassifier(classes=[0, 1], delta=1e-4, insecure_release_seed=5)
        return [one.values.tolist() for one in model.fit_blocks(parts, X_public=self.public).moments_]

    def run(self, number: int, kind: str, at: int) -> dict[str, object]:
        """Let a fault happen in a pass of a run, and return how the run ended."""
        folder = Path(shutil.copytree(self.home / "source", self.home / f"run{number}"))
        mark = Path(tempfile.mkdtemp(dir=self.home))
        self.drawn.clear()
        self.heard.clear()
        start, table, why = time.monotonic(), None, ""
        try:
            with self.engine.table(folder) as parts, listen(self.heard.append):
                table = FaultyTable(parts, Fault(kind, at, str(mark)), folder, self.name, self.engine)
                found = self.values(table)
            end = SAME if found == self.expected else "another release"
            # A file that changed before the first pass is another table.
            if end != SAME and at == 1 and found == self.values(ParquetParts(folder, TARGET, unit=UNIT)):
                end = OTHER
        except DPEnsembleError as error:
            why = str(error)
            end = REFUSED if len(self.drawn) <= max(at, 2) - 2 else "refused after noise"
            if not re.search(REASONS.get(kind, "^$"), why):
                end = "refused for another reason"
        except Exception as error:
            end, why = type(error).__name__, str(error)
        executions = len(list(mark.iterdir())) - 1
        right = RIGHT[self.name][kind] | ({OTHER} if at == 1 and kind == "a file changes" else set())
        if end not in right:
            end = f"WRONG: {end}"
        # Also where the right end is the same release, which a run without a fault has, too.
        elif executions < 1:
            end = "WRONG: no fault"
        # The whole budget is announced once, after the checking pass and before any noise.
        elif len(self.heard) != (end != REFUSED or table.passes > 1):
            end = f"WRONG: announced {len(self.heard)} times"
        if kind == "the engine is lost":
            self.engine.end()
            self.engine.begin()
        shutil.rmtree(folder)
        seconds = round(time.monotonic() - start, 1)
        return {"kind": kind, "at": at, "end": end, "executions": executions, "seconds": seconds, "why": why}


def child(options: argparse.Namespace) -> None:
    """Run faults, and write how each run ended to a file."""
    warnings.simplefilter("ignore")
    rng, start, number = np.random.default_rng(options.seed), time.monotonic(), 0
    kinds = list(RIGHT[options.engine]) if options.kind is None else [options.kind]
    runs = Runs(options.engine, options.home)
    try:
        while number < options.runs and time.monotonic() - start < options.seconds:
            # Every kind comes first once, then kinds are random.
            kind = kinds[number] if number < len(kinds) else str(rng.choice(kinds))
            ended = runs.run(number, kind, int(rng.integers(1, PASSES + 1)))
            number += 1
            with options.record.open("a") as file:
                file.write(json.dumps({"engine": options.engine, "seed": options.seed, "run": number, **ended}) + "\n")
    finally:
        runs.engine.end()


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder. An engine that ends removes folders meanwhile, which `os.walk` passes over."""
    for place, _, names in os.walk(folder):
        yield from (file for name in names if (file := Path(place) / name).is_file())


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def main() -> int:
    """Run the faults in a process with a copy of the library, search its files, and print how runs ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=sorted(RIGHT))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no run after this time")
    parser.add_argument("--kind", choices=list(RIGHT["dask"] | RIGHT["spark"]), help="by default, all")
    parser.add_argument("--record", type=Path, help="write a line of JSON for each run to the end of this file")
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.home is not None:
        child(options)
        return 0
    # An executor may write its last lines while the folder is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        home = Path(place)
        engine, library = home / "engine", home / "library"
        (engine / "tmp").mkdir(parents=True)
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(dpensemble.__file__).parent, library / "dpensemble", ignore=without)
        record = options.record or home / "runs.jsonl"
        before = len(record.read_text().splitlines()) if record.exists() else 0
        paths = {"PYTHONPATH": os.pathsep.join([str(library), os.environ.get("PYTHONPATH", "")])}
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with (engine / "output").open("w") as output:
            command = [sys.executable, __file__, *sys.argv[1:], "--home", place, "--record", str(record.absolute())]
            own = os.environ | paths | threads | {"TMPDIR": str(engine / "tmp")}
            code = subprocess.run(command, env=own, stdout=output, stderr=output, check=False).returncode
        if code:
            print((engine / "output").read_text()[-3000:])
        left = [file for file in _files_in(engine) if PLANTED.encode() in _content(file)]
        lines = record.read_text().splitlines()[before:] if record.exists() else []
    ends = Counter((run["kind"], run["end"]) for run in map(json.loads, lines))
    wrong = sum(number for (_, end), number in ends.items() if end.startswith("WRONG"))
    for (kind, end), number in sorted(ends.items()):
        print(f"{kind:36}{end:28}{number:5}")
    print(f"{options.engine}: {len(lines)} faults, {wrong} wrong ends, {len(left)} files with private text")
    return 1 if code or wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
