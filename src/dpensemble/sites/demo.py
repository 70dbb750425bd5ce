"""A demonstration on one machine: a coordinator and sites, each a process that opens its own folder and the messages.

Python reports every file that a process opens to a hook, so each process lists the folders in which it opened files.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from dpensemble._checks import integer_between
from dpensemble._files import JSON, parse_json
from dpensemble.certificates import confirmed
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.persistence import load_classifier
from dpensemble.sites.messages import SitesError
from dpensemble.sites.run import CERTIFICATE, SUMMARY
from dpensemble.sites.tables import STUDENT
from dpensemble.sites.terms import COORDINATOR
from dpensemble.workflow.learners import scores
from dpensemble.workflow.tables import Tables, adult_tables

_MOST_SITES = 50
# What a process lists in its own folder.
_OPENED = "opened_folders.json"
_MESSAGES = "messages"
# Columns of Adult by its codebook and common knowledge, beside this module and in the coordinator's folder.
_COLUMNS = "adult-columns.json"
# A line after what each command prints.
_END = b"\0\n"


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A demonstration on a public data set.

    Parameters
    ----------
    dataset : {"adult"}
        Public data.
    n_sites : int, default=5
        Number of sites.
    epsilon : float, default=1.0
        Budget.
    seed : int, optional
        Public seed of the split into private, public and test rows, and of sites.
    without_public : bool, default=False
        Whether columns are declared in place of public rows.
    holdout_score : float, optional
        Share of the units of each site that are held back, to measure the model.
    unequal : bool, default=False
        Whether each site has about half as many records as the one before it.
    folder : path, optional
        Empty folder in which all folders stay. By default a folder that is removed at the end.
    """

    dataset: str = "adult"
    n_sites: int = 5
    epsilon: float = 1.0
    seed: int | None = None
    unequal: bool = False
    without_public: bool = False
    holdout_score: float | None = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.dataset != "adult":
            raise InvalidParameterError(f"dataset={self.dataset!r} is unknown here: use adult.", parameter="dataset")
        integer_between("sites", self.n_sites, 3, _MOST_SITES)

    def run(self, show: Callable[[str], None] = lambda _: None) -> dict[str, JSON]:
        """Run all processes, and return how good the model is and what each process opened."""
        with ExitStack() as stack:
            root = self.folder
            if root is None:
                root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            root.mkdir(parents=True, exist_ok=True)
            if any(root.iterdir()):
                raise FileError(f"out={str(root)!r} must be an empty folder.")
            return self._run(root.resolve(), show)

    def _run(self, root: Path, show: Callable[[str], None]) -> dict[str, JSON]:
        tables = adult_tables(self.seed)
        names = [f"site-{number}" for number in range(1, self.n_sites + 1)]
        sizes = self._write(root, names, tables)
        show("Coordinator: the terms.")
        options = [*self._public(root / COORDINATOR, tables), "--sites", ",".join(names)]
        options += ["--classes", ",".join(tables.classes), "--target", "income", "--epsilon", str(self.epsilon)]
        options += [] if self.holdout_score is None else ["--holdout-score", str(self.holdout_score)]
        with _Parties(root, (COORDINATOR, *names)) as parties:
            parties.begin(COORDINATOR, "new", options)
            parties.printed(COORDINATOR)
            show("Sites: join.")
            for name in names:
                parties.begin(name, "join", ["--name", name, *_private(root, name)])
            fingerprints = {name: json.loads(parties.printed(name))["fingerprint"] for name in names}
            show("All: run.")
            parties.begin(COORDINATOR, "run", [])
            for name in names:
                trusted = [f"--trust={other}={one}" for other, one in fingerprints.items() if other != name]
                parties.begin(name, "run", [*_private(root, name), *trusted])
            parties.end()
        return self._facts(root, names, sizes, tables)

    def _write(self, root: Path, names: list[str], tables: Tables) -> list[int]:
        """Write the folder of each party. Return the number of records of each site."""
        (root / _MESSAGES).mkdir()
        (root / COORDINATOR).mkdir()
        weights = 0.5 ** np.arange(len(names)) if self.unequal else np.ones(len(names))
        ends = np.rint(np.cumsum(weights) / weights.sum() * len(tables.X_private)).astype(int)
        places = np.random.default_rng(self.seed).permutation(len(tables.X_private))
        parts = np.split(places, ends[:-1])
        for name, rows in zip(names, parts, strict=True):
            (root / name).mkdir()
            table = tables.X_private.iloc[rows].assign(income=tables.y_private.iloc[rows])
            table.to_csv(root / name / "private.csv", index=False)
        return [len(rows) for rows in parts]

    def _public(self, folder: Path, tables: Tables) -> list[str]:
        """Write public rows, or declared columns in their place. Return the options that name the file."""
        if self.without_public:
            (folder / _COLUMNS).write_bytes((resources.files("dpensemble.sites") / _COLUMNS).read_bytes())
            return ["--declared-columns", str(folder / _COLUMNS)]
        tables.X_public.to_csv(folder / "rows.csv", index=False)
        return ["--public", str(folder / "rows.csv")]

    def _facts(self, root: Path, names: list[str], sizes: list[int], tables: Tables) -> dict[str, JSON]:
        student = load_classifier(root / COORDINATOR / STUDENT)
        rows, labels = tables.X_test, tables.y_test
        if rows is None or labels is None:
            raise SitesError("the data set has no test rows.")
        measured = scores(student.predict_proba(rows), labels.to_numpy(), student.classes_)
        yes, said = confirmed(root / COORDINATOR / CERTIFICATE)
        return {
            "dataset": self.dataset,
            "sites": self.n_sites,
            "records": sizes,
            "epsilon": self.epsilon,
            "public_rows": 0 if self.without_public else len(tables.X_public),
            "accuracy": measured["accuracy"],
            "auroc": measured["auroc"],
            "test_rows": len(rows),
            "quality": json.loads((root / COORDINATOR / SUMMARY).read_text(encoding="utf-8")).get("quality"),
            "opened_folders": {name: _opened_by(root, name) for name in (COORDINATOR, *names)},
            "message_bytes": sum(path.stat().st_size for path in (root / _MESSAGES).iterdir()),
            "cpu_seconds": _children_seconds(),
            "verified": said if yes else f"The certificate is not confirmed: {said}",
        }


def _private(root: Path, name: str) -> list[str]:
    return ["--private", str(root / name / "private.csv")]


class _Parties:
    """One process for each party, which runs one command after another and prints their results."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._root = root
        code = "import sys\nfrom dpensemble.sites.demo import watched\nwatched(sys.argv[1], sys.argv[2])"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._processes = {
            name: subprocess.Popen(  # noqa: S603 - this library's own commands
                [sys.executable, "-c", code, str(root), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=root / name,
                env=environment,
            )
            for name in names
        }

    def __enter__(self) -> _Parties:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
            process.communicate()

    def begin(self, name: str, action: str, options: list[str]) -> None:
        """Let a party run a command of its own folder."""
        command = ["sites", action, str(self._root / _MESSAGES), str(self._root / name), "--json", *options]
        pipe = self._processes[name].stdin
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.write(json.dumps(command).encode() + b"\n")
                pipe.flush()

    def printed(self, name: str) -> str:
        """Return what a party's command prints."""
        process, lines = self._processes[name], list[bytes]()
        for line in process.stdout or ():
            if line == _END:
                return b"".join(lines).decode()
            lines.append(line)
        raise self._failed(name)

    def end(self) -> None:
        """Wait for all last commands."""
        for name, process in self._processes.items():
            process.communicate()
            if process.returncode:
                raise self._failed(name)

    def _failed(self, name: str) -> SitesError:
        _, err = self._processes[name].communicate()
        return SitesError(f"a party of the demonstration failed: {err.decode(errors='replace').strip()[-500:]}")


def watched(root: str, name: str) -> None:
    """Run command lines in this process, and list the folders below `root` in which they opened files."""
    folders: set[str] = set()
    below = re.compile(re.escape(os.path.join(root, "")) + r"([^/\\]+)")

    def note(event: str, given: tuple[JSON, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir") and given and isinstance(given[0], str | bytes | os.PathLike):
            match = below.match(os.path.abspath(os.fsdecode(given[0])))
            if match:
                folders.add(match[1])

    sys.addaudithook(note)
    try:
        for line in sys.stdin:
            sys.argv = ["dpensemble", *parse_json(line)]
            try:
                runpy.run_module("dpensemble", run_name="__main__")
            except SystemExit as ended:
                if ended.code:
                    raise
            sys.stdout.write(_END.decode())
            sys.stdout.flush()
    finally:
        Path(root, name, _OPENED).write_text(json.dumps(sorted(folders)), encoding="utf-8")


def _opened_by(root: Path, name: str) -> list[str]:
    opened: list[str] = parse_json((root / name / _OPENED).read_bytes())
    return opened


def _children_seconds() -> float:
    """Return the CPU seconds of all processes that ended."""
    times = os.times()
    return times.children_user + times.children_system
