"""``dpensemble doctor``: what is installed here, and what cannot work on this machine.

The report may be pasted into a public question. It holds versions and sizes. It holds no path, no name of a data set,
no address and no password, except those of a ledger that the user asks about.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

import typer
from packaging.requirements import Requirement

from dpensemble._files import state_home
from dpensemble.errors import DPEnsembleError

_NAME = "dpensemble"
# What each extra is for. The others are for developers.
_USES = {
    "dask": "training on a Dask cluster",
    "excel": "workbooks of Excel (.xlsx)",
    "ledger": "a ledger of what is spent",
    "mlflow": "logging of runs in MLflow",
    "onnx": "students as ONNX models",
    "opacus": "DPSGDClassifier",
    "pld": "bounds of dp-accounting",
    "reproduce": "the tables and figures of published papers",
    "service": "answers over HTTP",
    "spark": "training and predictions on Spark",
    "torch": "teachers and students that are neural networks",
}
# Packages that read tables in databases, by module.
_DATABASES = {
    "duckdb": "tables in DuckDB",
    "adbc_driver_sqlite": "tables in SQLite",
    "adbc_driver_postgresql": "tables in PostgreSQL",
}
# Spark 4 needs Java 17. Seconds until a Java that does not answer is given up.
_OLDEST_JAVA, _PATIENCE = 17, 20
# Bytes that a run, a ledger or a cache of data sets should have at least.
_LITTLE_SPACE = 2**30


@dataclass(frozen=True, slots=True)
class _Package:
    """A package, its version if it is installed, and the versions that this library works with."""

    name: str
    version: str | None
    needed: str

    @classmethod
    def of(cls, requirement: Requirement) -> _Package:
        """Look a requirement up."""
        try:
            there = version(requirement.name)
        except PackageNotFoundError:
            there = None
        return cls(requirement.name, there, str(requirement.specifier))

    @property
    def problem(self) -> str | None:
        """What is wrong with the package, or None."""
        if self.version is None:
            return f"{self.name} is not installed"
        if not Requirement(f"{self.name}{self.needed}").specifier.contains(self.version, prereleases=True):
            return f"{self.name} {self.version} does not fit {self.needed}"
        return None


@dataclass(frozen=True, slots=True)
class _Extra:
    """An optional part: what it is for, and why it does not work here, if it does not."""

    name: str
    use: str
    problems: list[str]
    install: str


@dataclass(frozen=True, slots=True)
class _Place:
    """Free bytes in a folder, and whether files can be written there."""

    name: str
    free_bytes: int | None
    writable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """What is here. `problems` are of the library itself. What is not installed is in `extras`."""

    version: str | None
    python: str
    system: str
    cores: int
    packages: list[_Package]
    extras: list[_Extra]
    java: str | None
    disk: list[_Place]
    ledger: str | None = None
    problems: list[str] = field(default_factory=list)

    def words(self) -> Iterator[str]:
        """Yield the lines for people, with problems first."""
        lines = [f"Problem: {problem}" for problem in self.problems]
        yield from lines or [f"{_NAME} {self.version} can work here."]
        yield f"Python {self.python} on {self.system}, {self.cores} cores"
        yield "Packages: " + ", ".join(f"{one.name} {one.version or 'missing'}" for one in self.packages)
        ready = [one.name for one in self.extras if not one.problems]
        yield f"Installed beside them, for {len(ready)} optional parts: {', '.join(ready) or 'none'}"
        for one in self.extras:
            if one.problems:
                yield f"Cannot work here: {one.use} ({'; '.join(one.problems)}). {one.install}"
        yield f"Java: {self.java or 'none'}"
        for place in self.disk:
            free = "unknown space" if place.free_bytes is None else f"{place.free_bytes / 2**30:,.1f} GiB"
            yield f"Disk: {free} free in {place.name}{'' if place.writable else ', which cannot be written'}"
        if self.ledger is not None:
            yield f"Ledger: {self.ledger}"


def run(*, ledger: str | None, as_json: bool) -> None:
    """Print what is here. Exit code 1 if the library itself, or the ledger that was named, cannot work."""
    report = _report(ledger)
    typer.echo(json.dumps(asdict(report), indent=2) if as_json else "\n".join(report.words()))
    if report.problems:
        raise typer.Exit(1)


def _report(ledger: str | None) -> _Report:
    own, needed = _installed()
    packages = [_Package.of(one) for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    disk = [
        _place("the current folder", Path(os.curdir)),
        _place("the folder for temporary files", Path(tempfile.gettempdir())),
        _place("the state folder of this user", state_home()),
    ]
    problems = [] if own is not None else [f"{_NAME} is not installed as a package: run pip install {_NAME}."]
    problems += [f"{one.problem}: run pip install {_NAME} again." for one in packages if one.problem]
    problems += list(_of_disk(disk))
    about_ledger = None
    if ledger is not None:
        try:
            about_ledger = _verified(ledger)
        except DPEnsembleError as error:
            problems.append(str(error))
    java = _java()
    return _Report(
        version=own,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()} ({platform.machine()})",
        cores=os.cpu_count() or 1,
        packages=packages,
        extras=[*_extras(needed, java), *_databases()],
        java=java,
        disk=disk,
        ledger=about_ledger,
        problems=problems,
    )


def _installed() -> tuple[str | None, list[Requirement]]:
    """Return the version of this library and what the package needs, or None if the package is not installed."""
    try:
        return version(_NAME), [Requirement(text) for text in requires(_NAME) or []]
    except PackageNotFoundError:
        return None, []


def _extras(needed: list[Requirement], java: str | None) -> Iterator[_Extra]:
    for extra, use in _USES.items():
        own = [one for one in needed if one.marker is not None and one.marker.evaluate({"extra": extra})]
        own = [one for one in own if not one.marker.evaluate({"extra": ""})]  # type: ignore[union-attr]
        problems = [problem for problem in (_Package.of(one).problem for one in own) if problem]
        install = f'Run pip install "{_NAME}[{extra}]".' if problems else ""
        if extra == "spark" and _number(java) < _OLDEST_JAVA:
            problems.append(f"Java {_OLDEST_JAVA} or newer is not there")
            install = f"{install} Install Java {_OLDEST_JAVA}, and set JAVA_HOME.".strip()
        yield _Extra(extra, use, problems, install)


def _databases() -> Iterator[_Extra]:
    for module, use in _DATABASES.items():
        package = module.replace("_", "-")
        there = find_spec(module) is not None
        problems = [] if there else [f"{package} is not installed"]
        yield _Extra(package, use, problems, "" if there else f"Run pip install {package}.")


def _java() -> str | None:
    """Return the version of Java that Spark would start, or None."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if program is None:
        return None
    try:
        # A program of the user's own settings, which Spark starts in the same way.
        shown = subprocess.run(  # noqa: S603
            [program, "-version"], capture_output=True, text=True, timeout=_PATIENCE, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    stated = re.search(r'version "([0-9._]+)', shown.stderr + shown.stdout)
    return None if stated is None else stated[1]


def _number(java: str | None) -> int:
    """Return the number by which a version of Java is known: 8 for 1.8.0_392, and 17 for 17.0.9."""
    if java is None:
        return 0
    parts = [int(part) for part in re.split(r"[._]", java) if part]
    return parts[1] if parts[0] == 1 and len(parts) > 1 else parts[0]


def _place(name: str, folder: Path) -> _Place:
    """Look at a folder, or at the nearest one above it if the folder is made on first use. Nothing is written."""
    try:
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        free: int | None = shutil.disk_usage(folder).free
    except OSError:
        # A folder above may be closed to this user.
        free = None
    return _Place(name, free, free is not None and folder.is_dir() and os.access(folder, os.W_OK | os.X_OK))


def _of_disk(places: list[_Place]) -> Iterator[str]:
    for place in places:
        if not place.writable:
            yield f"{place.name} cannot be written: allow it, or start from another folder."
        elif place.free_bytes is not None and place.free_bytes < _LITTLE_SPACE:
            yield f"{place.name} has {place.free_bytes / 2**20:,.0f} MiB left: make room before a run."


def _verified(where: str) -> str:
    """Verify a ledger, and return what its signed entries show."""
    from dpensemble.server import Ledger  # noqa: PLC0415  needs an extra

    ledger = Ledger(where)
    counts = ledger.verify()
    return " ".join([f"verified, {counts.entries:,} entries, {counts.accounts:,} accounts.", *ledger.check()])
