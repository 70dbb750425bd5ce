"""Fits of label moments by this checkout beside those of another one: python benchmarks/paired_fits.py OTHER.

OTHER is the folder of another checkout. Both get the same splits and the same noise, in turns, each in a process of its
own with one thread. Splits are those of the arena (a third private, a third public, a third for testing). In tables
whose name ends with a share, rows of the last class were left out until this is the share of the class. Printed are
accuracy and log-loss for test rows, and CPU seconds of a fit, as means over splits and values of epsilon.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.metrics import log_loss

# Opacus installs a package that is called benchmarks too, so the arena is found by its folder.
_HERE = Path(__file__).resolve()
sys.path[0] = str(_HERE.parent)

from arena.environments import table_packages  # noqa: E402
from arena.sources import rows_of  # noqa: E402
from arena.tables import TABLES  # noqa: E402
from dpensemble import LabelMomentsClassifier  # noqa: E402

_HOME = _HERE.parent / "results" / "arena"
_NAMES = (
    "adult",
    "adult 0.015",
    "spambase",
    "churn",
    "credit",
    "affairs",
    "retirement",
    "happiness",
    "penbased",
    "satimage",
    "satimage 0.01",
    "marketing",
    "diamonds",
)
#: What has to hold: the mean difference of a table at most, and the mean over all tables at most.
_OF_ANY_TABLE, _OF_ALL = 0.004, {"accuracy": 0.001, "log_loss": 0.002}


def thinned(y: np.ndarray, last: int, share: str, draw: np.random.Generator) -> np.ndarray:
    """Return places of rows, with members of the last class left out at random until their share is reached."""
    others, members = np.flatnonzero(y != last), np.flatnonzero(y == last)
    most = len(members) if not share else round(float(share) / (1 - float(share)) * len(others))
    return np.sort(np.append(others, draw.permutation(members)[:most]))


def measured(name: str, epsilons: list[float], splits: list[int]) -> Iterator[dict[str, float | str]]:
    """Yield what fits by the installed package lead to, each after a small fit that imports what is needed."""

    def fitted(epsilon, split, X, y, public):
        method = LabelMomentsClassifier(classes=[*range(len(classes))], epsilon=epsilon, insecure_release_seed=split)
        start = process_time()
        return method.fit(X, y, X_public=public), process_time() - start

    title, _, share = name.partition(" ")
    table = next(table for table in TABLES if table.name == title)
    for split in splits:
        rows = rows_of(table, split, table_packages(_HOME))
        classes, draw = rows.classes, np.random.default_rng(split)

        own, held = (thinned(y, len(classes) - 1, share, draw) for y in (rows.y_private, rows.y_test))
        X, y = rows.X_private.iloc[own].reset_index(drop=True), rows.y_private[own]
        fitted(1.0, 0, X[:200], y[:200], rows.X_public[:200])
        for epsilon in epsilons:
            model, seconds = fitted(epsilon, split, X, y, rows.X_public)
            p = model.predict_proba(rows.X_test.iloc[held])
            truth = rows.y_test[held]
            yield {
                "table": name,
                "epsilon": epsilon,
                "split": split,
                "n_classes": len(classes),
                "accuracy": float(np.mean(p.argmax(axis=1) == truth)),
                "log_loss": float(log_loss(truth, p, labels=range(len(classes)))),
                "seconds": seconds,
            }


def in_turns(checkouts: list[Path], name: str, words: list[str]) -> list[list[dict[str, float]]]:
    """Return what each checkout measured for a table."""
    results = []
    for checkout in checkouts:
        one_thread = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
        environment = {**os.environ, **one_thread, "PYTHONPATH": str(checkout / "src"), "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, str(_HERE), str(checkout), "--measure", "--tables", name, *words]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603
        results.append([json.loads(line) for line in done.stdout.splitlines()])
    return results


def compared(other: list[dict[str, float]], own: list[dict[str, float]]) -> dict[str, float]:
    """Return mean differences, and the mean ratio of seconds."""
    differences = {key: sum(b[key] - a[key] for a, b in zip(other, own, strict=True)) / len(own) for key in _OF_ALL}
    return {**differences, "ratio": sum(b["seconds"] for b in own) / sum(a["seconds"] for a in other)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="folder of another checkout")
    parser.add_argument("--tables", nargs="+", default=list(_NAMES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--measure", action="store_true", help="only measure the checkout given, as lines of JSON")
    arguments = parser.parse_args()
    if arguments.measure:
        for name in arguments.tables:
            for line in measured(name, arguments.epsilons, arguments.splits):
                print(json.dumps(line), flush=True)
        return
    table_packages(_HOME)
    words = ["--epsilons", *map(str, arguments.epsilons), "--splits", *map(str, arguments.splits)]
    print("| table | classes | accuracy | log-loss | d accuracy | d log-loss | seconds | ratio by epsilon |")
    print("|---|---|---|---|---|---|---|---|")
    of_tables = []
    for name in arguments.tables:
        other, own = in_turns([arguments.other.resolve(), _HERE.parents[1]], name, words)
        mean = {key: sum(one[key] for one in other) / len(other) for key in ("accuracy", "log_loss", "seconds")}
        of_tables.append(of_table := compared(other, own))
        ratios = (
            compared(*([one for one in part if one["epsilon"] == epsilon] for part in (other, own)))["ratio"]
            for epsilon in arguments.epsilons
        )
        print(
            f"| {name} | {own[0]['n_classes']} | {mean['accuracy']:.4f} | {mean['log_loss']:.4f} | "
            f"{of_table['accuracy']:+.4f} | {of_table['log_loss']:+.4f} | {mean['seconds']:.2f} | "
            f"{', '.join(f'{ratio:.2f}' for ratio in ratios)} |",
            flush=True,
        )
    for key, most in _OF_ALL.items():
        each = [one[key] for one in of_tables]
        # A higher accuracy and a lower log-loss are better.
        worst = max(-value if key == "accuracy" else value for value in each)
        mean_of_all = sum(each) / len(each)
        print(f"{key}: mean {mean_of_all:+.5f} (at most {most}), worst {worst:+.5f} (at most {_OF_ANY_TABLE})")


if __name__ == "__main__":
    main()
