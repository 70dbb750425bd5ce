"""Processor time and peak memory where users wait, as multiples of fixed work that is measured in the same run.

Each route runs in a fresh process with one thread of BLAS. Seconds are processor seconds, of the user and the system,
and the least of `--repeats` runs. A route in Python counts neither imports nor its input, a command counts everything.
Peak is the largest memory of the process, and above is the part of the peak that exceeds the memory before the route.

The fixed work has the shape of the route's table of numbers (rows, features):

- sgemm: the product of the table's transpose with the table, in single precision.
- read: one pass over the table in memory, in double precision.
- DP-GD: 100 steps of logistic regression by full-batch gradient descent, with clipped gradients and Gaussian noise.
- logistic: scikit-learn's logistic regression, or its probabilities if the route predicts.
- NumPy: a process that imports NumPy.

``--against CHECKOUT`` runs every route with the library of another checkout too, in turns with this one.
``--profile ROUTE`` prints where a route spends its time. Examples:

    python benchmarks/speed.py --quick
    python benchmarks/speed.py --routes fit,plan --against ../older --repeats 3 --json speed.json
    python benchmarks/speed.py --profile "fit on Adult, epsilon 3"
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Work = Callable[[], object]
SOURCES = Path(__file__).resolve().parents[1] / "src"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
#: Fixed work, in the order of columns.
_REFERENCES = ("sgemm", "read", "DP-GD", "logistic", "NumPy")
# Public rows of mixed tables.
_PUBLIC = 900
# Short work is repeated for as long, in seconds, and divided.
_SHORTEST = 0.2


@dataclass(frozen=True)
class Route:
    """One thing that users wait for: a command, or a function of `WORK` with arguments."""

    name: str
    work: str = "command"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    #: Rows and features of the fixed work, or nothing if only the import of NumPy compares.
    shape: tuple[int, int] | None = None
    predicts: bool = False
    #: Names of the preparation that the route needs once for each version.
    needs: tuple[str, ...] = ()

    def references(self) -> dict[str, dict[str, Any]]:
        """Return the arguments of each piece of fixed work that the route is compared with."""
        if self.shape is None:
            return {"NumPy": {}}
        rows, features = self.shape
        size = {"rows": rows, "features": features}
        names = ("read", "logistic") if self.predicts else ("sgemm", "read", "DP-GD", "logistic")
        return {name: size | ({"predicts": self.predicts} if name == "logistic" else {}) for name in names}


@dataclass(frozen=True)
class Growth:
    """A route at several sizes, which show the exponent of its growth."""

    name: str
    sizes: tuple[int, ...]
    routes: tuple[Route, ...]


def command(name: str, *words: str, shape: tuple[int, int] | None = None, needs: tuple[str, ...] = ()) -> Route:
    """Return the route of a command of dpensemble. ``{folder}`` stands for the folder of data."""
    return Route(name, "command", {"words": ["-m", "dpensemble", *words]}, shape, needs=needs)


def routes(quick: bool) -> list[Route]:
    """Return the routes of the table."""
    adult, records = (16_281, 108), (3_000 if quick else 16_281, 108)
    many, explained = (20_000, 2_000) if quick else (1_000_000, 100_000)
    files = 20_000 if quick else 1_000_000
    mixed, parquet = (2_000, 5_000) if quick else (40_000, 200_000)
    wide = {"rows": 1_000, "columns": 200} if quick else {"rows": 5_000, "columns": 1_000}
    wider = {"rows": 1_000, "columns": 400} if quick else {"rows": 5_000, "columns": 3_000}
    small = {"rows": 203, "columns": 80, "public": 81} if quick else {"rows": 407, "columns": 160, "public": 162}
    plan = ("plan", "{method}", "--teachers=250", "--epsilon=1", "--delta=1e-5")
    laplace, gaussian = (
        [word.format(method=method) for word in plan] + law for method, law in (("saa", []), ("pate", ["--law=gnmax"]))
    )
    trained = ("adult run",)
    private, public = (f"{{folder}}/mixed-{parquet}-{part}.parquet" for part in ("private", "public"))
    out, run = "--out={folder}/out-{version}", "{folder}/run-{version}"
    table = ["--private=" + private, "--public=" + public, "--target=label", "--classes=no,yes", "--delta=1e-6"]
    return [
        command("--version", "--version"),
        command("--help", "--help"),
        Route("import dpensemble", "command", {"words": ["-c", "import dpensemble"]}),
        command("plan, two classes", *laplace),
        command("plan, three classes, Laplace", *laplace, "--classes=3"),
        command("plan, three classes, Gaussian", *gaussian, "--classes=3"),
        command(
            "train --dataset adult", "train", "--dataset=adult", "--epsilon=1", "--out=" + run, "--overwrite",
            "--quiet", shape=adult,
        ),
        *(
            Route(f"fit on Adult, epsilon {epsilon}", "fit Adult", {"epsilon": epsilon, "rows": records[0]}, records)
            for epsilon in (1, 3, 5)
        ),
        *(
            Route(f"{method} of {rows:,} rows", "predict", {"method": method, "rows": rows}, (rows, 108), True, trained)
            for method, rows in (("predict", many), ("predict_proba", many), ("explain", explained))
        ),
        Route(f"reading {files:,} rows of CSV", "read", {"rows": files}, (files, 14), True, (f"CSV {files}",)),
        command(
            f"predict {files:,} rows of CSV", "predict", run, f"{{folder}}/adult-{files}.csv",
            out + ".csv", shape=None, needs=("command run", f"CSV {files}"),
        ),
        Route(f"mixed table {mixed:,} x 60", "fit mixed", {"rows": mixed}, (mixed, 60)),
        Route("wide {rows:,} x {columns:,}".format(**wide), "fit numbers", wide, (wide["rows"], wide["columns"])),
        Route("wide {rows:,} x {columns:,}".format(**wider), "fit numbers", wider, (wider["rows"], wider["columns"])),
        Route(
            "small {rows} x {columns}, {public} public".format(**small), "fit numbers", small,
            (small["rows"], small["columns"]),
        ),
        command(
            f"train, Parquet {parquet:,} x 60", "train", "label-moments", *table, out, "--overwrite", "--quiet",
            shape=(parquet, 60), needs=(f"Parquet {parquet}",),
        ),
    ]  # fmt: skip


def growths(quick: bool) -> list[Growth]:
    """Return the routes whose growth is measured."""
    whole: dict[str, Any] = {"rows": 10_000, "columns": 40, "classes": 2, "public": 2_000}
    base = whole | ({"rows": 4_000, "columns": 20} if quick else {})
    sizes = {
        "rows": (2_000, 4_000, 8_000) if quick else (10_000, 20_000, 40_000, 80_000),
        "columns": (10, 20, 40) if quick else (20, 40, 80, 160),
        "classes": (2, 3, 4) if quick else (2, 4, 8),
        "public": (1_200, 2_000, 4_000) if quick else (2_000, 4_000, 8_000, 16_000),
    }
    names = {"public": "public rows"}
    found = [
        Growth(
            f"growth of fit in {names.get(what, what)}",
            values,
            tuple(Route(f"{what} {value}", "fit numbers", base | {what: value}) for value in values),
        )
        for what, values in sizes.items()
    ]
    rows = (5_000, 10_000, 20_000) if quick else (50_000, 100_000, 200_000)
    predictions = (
        Route(f"predict {value}", "predict", {"method": "predict", "rows": value}, None, True, ("adult run",))
        for value in rows
    )
    return [*found, Growth("growth of predict in rows", rows, tuple(predictions))]


# What a route does, in its own process. The function prepares, and the function that it returns is measured.


def _adult() -> tuple[Any, Any, Any]:
    from dpensemble import load_adult, three_way_split  # noqa: PLC0415  the version that is measured

    adult = load_adult()
    return adult.X, adult.y, three_way_split(len(adult.X), 0)


def _model(classes: Sequence[object], epsilon: float = 1.0, delta: float = 1e-5) -> Any:
    from dpensemble.methods import AutoClassifier  # noqa: PLC0415

    return AutoClassifier(classes=list(classes), epsilon=epsilon, delta=delta, insecure_release_seed=0)


def fit_adult(place: Place, epsilon: float, rows: int | None = None) -> Work:  # noqa: ARG001
    """Fit the default method to Adult, or to some of its records, in memory."""
    X, y, split = _adult()
    private, public = split.private[:rows], X.iloc[split.public[:rows]]
    return lambda: _model(sorted(set(y)), epsilon).fit(X.iloc[private], y[private], X_public=public)


def fit_numbers(place: Place, rows: int, columns: int, public: int = 1_000, classes: int = 2) -> Work:  # noqa: ARG001
    """Fit the default method to a table of normal numbers."""
    import numpy as np  # noqa: PLC0415

    _model([0, 1])
    rng = np.random.default_rng([rows, columns])
    X, more = rng.normal(size=(rows, columns)), rng.normal(size=(public, columns))
    slopes = rng.normal(size=(columns, classes)) / np.sqrt(columns)
    y = (2 * X @ slopes + rng.gumbel(size=(rows, classes))).argmax(axis=1)
    return lambda: _model(range(classes), delta=min(1e-5, 0.1 / rows)).fit(X, y, X_public=more)


def fit_mixed(place: Place, rows: int) -> Work:  # noqa: ARG001
    """Fit the default method to a table of numbers, dates, texts and blanks."""
    _model([0, 1])
    table, public = mixed_table(rows, 0), mixed_table(_PUBLIC, 1)
    X, y = table.drop(columns="label"), table["label"].to_numpy()
    return lambda: _model(["no", "yes"]).fit(X, y, X_public=public.drop(columns="label"))


def predict(place: Place, method: str, rows: int) -> Work:
    """Ask a fitted model for rows of Adult in memory."""
    import joblib  # noqa: PLC0415

    model = joblib.load(place.model)
    table = adult_rows(rows)
    getattr(model, method)(table.iloc[:10])
    return lambda: getattr(model, method)(table)


def read(place: Place, rows: int) -> Work:
    """Read a table as the commands read it."""
    from dpensemble.datasets import read_table  # noqa: PLC0415

    return lambda: read_table(place.folder / f"adult-{rows}.csv")


def run_command(place: Place, words: list[str]) -> Work:
    """Run a command in this process, which only profiles do."""

    def run() -> None:
        if words[0] == "-c":
            exec(words[1])  # noqa: S102
            return
        from dpensemble.cli import main  # noqa: PLC0415

        sys.argv = place.filled(words[1:])
        with redirect_stdout(io.StringIO()):
            try:
                main()
            except SystemExit as end:
                if end.code:
                    raise

    return run


def sgemm(place: Place, rows: int, features: int) -> Work:  # noqa: ARG001
    """Multiply."""
    X = _numbers(rows, features).astype("float32")
    return lambda: X.T @ X


def read_memory(place: Place, rows: int, features: int) -> Work:  # noqa: ARG001
    """Read every entry once."""
    return _numbers(rows, features).max


def gradient_descent(place: Place, rows: int, features: int) -> Work:  # noqa: ARG001
    """Take 100 private steps: clip each record's gradient to 1, add them up, and add noise."""
    import numpy as np  # noqa: PLC0415

    X, rng = _numbers(rows, features), np.random.default_rng(1)
    y = np.where(X[:, 0] > 0, 1.0, 0.0)

    def descend() -> object:
        lengths, weights = np.sqrt(np.einsum("ij,ij->i", X, X)), np.zeros(features)
        for _ in range(100):
            residuals = 1 / (1 + np.exp(-X @ weights)) - y
            residuals /= np.maximum(1.0, np.abs(residuals) * lengths)
            weights -= (residuals @ X + rng.normal(size=features)) / rows
        return weights

    return descend


def logistic(place: Place, rows: int, features: int, predicts: bool) -> Work:  # noqa: ARG001
    """Fit scikit-learn's logistic regression, or ask it for probabilities."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    X = _numbers(rows, features)
    y = X[:, : min(features, 5)].sum(axis=1) + _numbers(rows, 1)[:, 0] > 0
    model = LogisticRegression(max_iter=200)
    if not predicts:
        return lambda: model.fit(X, y)
    model.fit(X[:1000], y[:1000])
    return lambda: model.predict_proba(X)


def import_numpy(place: Place) -> Work:  # noqa: ARG001
    """Import NumPy."""
    return lambda: __import__("numpy")


def _numbers(rows: int, features: int) -> Any:
    import numpy as np  # noqa: PLC0415

    return np.random.default_rng(0).normal(size=(rows, features))


def adult_rows(rows: int) -> Any:
    """Return rows of Adult, drawn with replacement, always the same."""
    import numpy as np  # noqa: PLC0415

    X = _adult()[0]
    return X.iloc[np.random.default_rng(0).integers(0, len(X), rows)].reset_index(drop=True)


def mixed_table(rows: int, seed: int) -> Any:
    """Return 60 columns: numbers, numbers and dates as texts, categories, with blanks in every third, and a label."""
    import numpy as np  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415

    rng, columns = np.random.default_rng(seed), {}
    hidden = rng.normal(size=(rows, 4))
    for i in range(60):
        value = hidden[:, i % 4] + rng.normal(size=rows)
        if i < 30:
            entries = value * 10.0 ** (i % 5)
        elif i < 38:
            entries = np.char.mod("%.2f", value).astype(object)
        elif i < 45:
            days = np.datetime64("2020-01-01") + (200 * value).astype("int64")
            entries = days.astype(str).astype(object)
        else:
            levels = (2, 3, 5, 12, 40)[i % 5]
            entries = np.char.add("level ", np.digitize(value, np.linspace(-2, 2, levels - 1)).astype(str)).astype(
                object
            )
        if i % 3 == 0:
            blank = rng.random(rows) < 0.05
            entries[blank] = np.nan if i < 30 else None
        columns[f"column {i}"] = entries
    score = hidden @ np.array([2.0, -1.0, 1.0, 0.5]) + rng.logistic(size=rows)
    return pd.DataFrame(columns | {"label": np.where(score > 0, "yes", "no")})


WORK: dict[str, Callable[..., Work]] = {
    "fit Adult": fit_adult,
    "fit numbers": fit_numbers,
    "fit mixed": fit_mixed,
    "predict": predict,
    "read": read,
    "command": run_command,
    "sgemm": sgemm,
    "read memory": read_memory,
    "DP-GD": gradient_descent,
    "logistic": logistic,
    "NumPy": import_numpy,
}


@dataclass(frozen=True)
class Place:
    """The folder of data, and one version of the library."""

    folder: Path
    version: str
    sources: Path

    @property
    def model(self) -> Path:
        """The model that predictions ask."""
        return self.folder / f"model-{self.version}.joblib"

    def filled(self, words: Sequence[str]) -> list[str]:
        """Return the words of a command with this folder and version."""
        return [word.format(folder=self.folder, version=self.version) for word in words]

    def environment(self) -> dict[str, str]:
        """Return the environment of a process: this version, and one thread."""
        return dict(os.environ) | _ONE_THREAD | {"PYTHONPATH": str(self.sources), "PYTHONHASHSEED": "0"}

    def prepare(self, needs: Sequence[str]) -> None:
        """Make what a route needs, once."""
        for need in needs:
            what, _, size = need.partition(" ")
            if what == "CSV":
                target = self.folder / f"adult-{size}.csv"
            elif what == "Parquet":
                target = self.folder / f"mixed-{size}-private.parquet"
            else:
                target = self.model if what == "adult" else self.folder / f"run-{self.version}"
            if not target.exists():
                self._call("--prepare", need)

    def measured(self, route: Route) -> dict[str, float]:
        """Run a route in a process of its own. Return processor seconds, and peaks of memory in megabytes."""
        if route.work != "command":
            output: dict[str, float] = json.loads(self._call("--child", route.work, json.dumps(dict(route.arguments))))
            return output
        words = [sys.executable, *self.filled(route.arguments["words"])]
        with tempfile.TemporaryFile() as complaints:
            process = subprocess.Popen(  # noqa: S603
                words, stdout=subprocess.DEVNULL, stderr=complaints, env=self.environment()
            )
            _, status, used = os.wait4(process.pid, 0)
            if status:
                complaints.seek(0)
                raise SystemExit(f"{' '.join(words)} failed: {complaints.read().decode()}")
        return {"seconds": used.ru_utime + used.ru_stime, "peak": used.ru_maxrss / 1024}

    def profile(self, route: Route) -> str:
        """Return where a route spends its time."""
        return self._call("--profile-child", route.work, json.dumps(dict(route.arguments)))

    def _call(self, *words: str) -> str:
        itself = [sys.executable, __file__, "--place", str(self.folder), self.version, str(self.sources)]
        ended = subprocess.run(  # noqa: S603
            [*itself, *words], capture_output=True, text=True, env=self.environment(), check=False
        )
        if ended.returncode:
            raise SystemExit(f"{' '.join(words)} with {self.sources} failed:\n{ended.stderr}")
        return ended.stdout


# The processes of routes.


def child(place: Place, work: str, arguments: dict[str, Any]) -> dict[str, float]:
    """Measure a route in this process."""
    warnings.simplefilter("ignore")
    ready = WORK[work](place, **arguments)
    _forget_peak()
    before, start, times = _memory("VmRSS"), _processor(), 1
    ready()
    while work in _REFERENCES and _processor() - start < _SHORTEST:
        ready()
        times += 1
    seconds, peak = (_processor() - start) / times, _memory("VmHWM")
    return {"seconds": seconds, "peak": peak, "above": peak - before}


def _processor() -> float:
    """Return the processor seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4]) if os.times()[2] else time.process_time()


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def _forget_peak() -> None:
    """Let the peak of memory start from here, where Linux allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print("the peak includes the preparation, since the system does not reset it", file=sys.stderr)


def prepare(place: Place, need: str) -> None:
    """Write a model, a run or a table."""
    what, _, size = need.partition(" ")
    if what == "CSV":
        adult_rows(int(size)).to_csv(place.folder / f"adult-{size}.csv", index=False)
    elif what == "Parquet":
        mixed_table(_PUBLIC, 1).drop(columns="label").to_parquet(place.folder / f"mixed-{size}-public.parquet")
        mixed_table(int(size), 0).to_parquet(place.folder / f"mixed-{size}-private.parquet")
    elif what == "adult":
        import joblib  # noqa: PLC0415

        joblib.dump(fit_adult(place, 1.0, 3_000)(), place.model)
    else:
        words = ["-m", "dpensemble", "train", "--dataset=adult", "--out={folder}/run-{version}"]
        run_command(place, words)()


def profile(place: Place, work: str, arguments: dict[str, Any], lines: int = 15) -> str:
    """Return the functions with most time of their own, and those of the library with most time altogether."""
    warnings.simplefilter("ignore")
    ready, profiler = WORK[work](place, **arguments), cProfile.Profile(time.process_time)
    profiler.runcall(ready)
    stats: Any = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in stats.values())
    rows = [(own, whole, _function(*key)) for key, (_, _, own, whole, _) in stats.items()]
    text = [f"{total:.2f} s with the profiler; most time of their own:"]
    text += [f"{own / total:6.1%}  {name}" for own, _, name in sorted(rows, reverse=True)[:lines]]
    ours = [row for row in sorted(rows, key=lambda row: -row[1]) if row[2].startswith("dpensemble")]
    text += ["functions of the library, with all that they call:"]
    text += [f"{whole / total:6.1%}  {name}" for _, whole, name in ours[: 2 * lines]]
    return "\n".join(text)


def _function(file: str, line: int, name: str) -> str:
    parts = Path(file).parts
    here = next((i for i, part in enumerate(parts) if part in ("dpensemble", "site-packages")), len(parts) - 1)
    return f"{'/'.join(parts[here:]).removeprefix('site-packages/')}:{line} {name}" if line else name


# The parent, which compares.


class Bench:
    """Runs routes with one or two versions, and fixed work."""

    def __init__(self, places: list[Place], repeats: int) -> None:
        self.places, self._repeats = places, repeats
        self._references: dict[str, float] = {}

    def figures(self, route: Route) -> list[dict[str, float]]:
        """Return the least of each figure, for each version. Versions take turns, and turns change their order."""
        for place in self.places:
            place.prepare(route.needs)
        runs: list[list[dict[str, float]]] = [[] for _ in self.places]
        for repeat in range(self._repeats):
            order = range(len(self.places))
            for i in order if repeat % 2 == 0 else reversed(order):
                runs[i].append(self.places[i].measured(route))
        return [{name: min(run[name] for run in mine) for name in mine[0]} for mine in runs]

    def reference(self, name: str, arguments: Mapping[str, Any]) -> float:
        """Return the processor seconds of fixed work, measured once for each shape."""
        key = json.dumps([name, dict(arguments)])
        if key not in self._references:
            work = "read memory" if name == "read" else name
            if name == "NumPy":
                self._references[key] = min(_bare_numpy() for _ in range(self._repeats))
            else:
                self._references[key] = self.places[-1].measured(Route(name, work, arguments))["seconds"]
        return self._references[key]

    def row(self, route: Route) -> dict[str, Any]:
        """Return a row of the table."""
        figures = self.figures(route)
        seconds = figures[-1]["seconds"]
        multiples = {name: seconds / self.reference(name, sizes) for name, sizes in route.references().items()}
        return {"route": route.name, "versions": figures, "multiples": multiples}

    def growth(self, growth: Growth) -> dict[str, Any]:
        """Return figures at every size, and the exponent for each version."""
        import numpy as np  # noqa: PLC0415

        measured = [self.figures(route) for route in growth.routes]
        sizes = np.log(growth.sizes)
        exponents = {
            what: [
                float(np.polyfit(sizes, np.log([m[i][what] for m in measured]), 1)[0]) for i in range(len(self.places))
            ]
            for what in ("seconds", "peak")
        }
        return {"growth": growth.name, "sizes": growth.sizes, "versions": measured, "exponents": exponents}


def _bare_numpy() -> float:
    process = subprocess.Popen([sys.executable, "-c", "import numpy"], env=dict(os.environ) | _ONE_THREAD)
    used = os.wait4(process.pid, 0)[2]
    return used.ru_utime + used.ru_stime


def header(versions: int) -> str:
    """Return the names of columns."""
    seconds = "CPU s    peak MB   above" if versions == 1 else "CPU s: before    after  ratio   peak MB: before  after"
    return f"{'route':36s} {seconds}   multiples of fixed work"


def line(row: dict[str, Any]) -> str:
    """Return a row of the table as text."""
    figures = row["versions"]
    after = figures[-1]
    multiples = "  ".join(f"{value:,.3g} {name}" for name, value in row["multiples"].items())
    if len(figures) == 1:
        above = f"{after['above']:7.0f}" if "above" in after else f"{'':7s}"
        return f"{row['route']:36s} {after['seconds']:5.2f} {after['peak']:9.0f} {above}   {multiples}"
    before = figures[0]
    return (
        f"{row['route']:36s} {before['seconds']:13.2f} {after['seconds']:8.2f} "
        f"{after['seconds'] / before['seconds']:6.2f} {before['peak']:17.0f} {after['peak']:6.0f}   {multiples}"
    )


def growth_line(row: dict[str, Any]) -> str:
    """Return a growth as text."""
    parts = []
    for i, version in enumerate(["before", "after"] if len(row["versions"][0]) > 1 else [""]):
        seconds = ", ".join(f"{sizes[i]['seconds']:.2f}" for sizes in row["versions"])
        time_, peak = (row["exponents"][what][i] for what in ("seconds", "peak"))
        parts.append(f"{version + ' ' if version else ''}{seconds} s, exponent {time_:.2f} (peak memory {peak:.2f})")
    return f"{row['growth']}, {', '.join(f'{size:,}' for size in row['sizes'])}: {'; '.join(parts)}"


def _selected(everything: Sequence[Any], names: str | None) -> list[Any]:
    if names is None:
        return list(everything)
    wanted = [name.strip().lower() for name in names.split(";" if ";" in names else ",")]
    return [one for one in everything if any(want in one.name.lower() for want in wanted)]


def sources_of(checkout: Path) -> Path:
    """Return the folder that Python imports from, of a checkout or of its sources."""
    for folder in (checkout / "src", checkout):
        if (folder / "dpensemble" / "__init__.py").is_file():
            return folder.resolve()
    raise SystemExit(f"--against {checkout} has no dpensemble: give another checkout, or its folder src.")


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--routes", help="parts of the names of routes, separated by commas, or by ; if names have some"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, in less than two minutes")
    parser.add_argument("--against", type=Path, help="another checkout, to measure beside this one")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write all figures here")
    parser.add_argument("--profile", metavar="ROUTE", help="print where these routes spend their time instead")
    parser.add_argument("--list", action="store_true", help="print the names of routes")
    parser.add_argument("--place", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", help=argparse.SUPPRESS)
    parser.add_argument("--profile-child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def in_child(options: argparse.Namespace) -> None:
    """Do what the parent asks of this process."""
    folder, version, sources = options.place
    place = Place(Path(folder), version, Path(sources))
    if options.prepare:
        prepare(place, options.prepare)
    elif options.child:
        print(json.dumps(child(place, options.child[0], json.loads(options.child[1]))))
    else:
        print(profile(place, options.profile_child[0], json.loads(options.profile_child[1])))


def main() -> None:
    options = arguments()
    if options.place:
        in_child(options)
        return
    table, growing = routes(options.quick), growths(options.quick)
    if options.list:
        print("\n".join([route.name for route in table] + [growth.name for growth in growing]))
        return
    versions = {"this": SOURCES}
    if options.against is not None:
        versions = {"other": sources_of(options.against), **versions}
    with tempfile.TemporaryDirectory() as folder:
        places = [Place(Path(folder), version, sources) for version, sources in versions.items()]
        if options.profile is not None:
            for route in _selected(table, options.profile):
                places[-1].prepare(route.needs)
                print(f"{route.name}: {places[-1].profile(route)}", flush=True)
            return
        bench, results = Bench(places, options.repeats), []
        print(header(len(places)), flush=True)
        for route in _selected(table, options.routes):
            results.append(bench.row(route))
            print(line(results[-1]), flush=True)
        for growth in _selected(growing, options.routes):
            results.append(bench.growth(growth))
            print(growth_line(results[-1]), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
