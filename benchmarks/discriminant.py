"""Discriminant analysis beside label moments on tables of numbers: python benchmarks/discriminant.py.

Accuracy and log-loss of labels and probabilities for test rows, at the defaults of both methods. Splits are those of
the arena (a third private, a third public, a third for testing). Splits 8 and above were not used while the method
was designed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

# Opacus installs a package that is called benchmarks too, so the arena is found by its folder.
sys.path[0] = str(Path(__file__).resolve().parent)

from arena.encoding import Encoded  # noqa: E402
from arena.environments import table_packages  # noqa: E402
from arena.sources import rows_of  # noqa: E402
from arena.tables import TABLES  # noqa: E402
from dpensemble import DiscriminantClassifier, LabelMomentsClassifier  # noqa: E402

_HOME = Path(__file__).parent / "results" / "arena"
_NAMES = ("letter", "penbased", "satimage", "magic")
_DELTA = 1e-5


def probabilities(method: str, encoded: Encoded, epsilon: float, seed: int) -> np.ndarray:
    """Return class probabilities of test rows, shape (n_rows, n_classes), in the order of the table's classes."""
    rows = encoded.rows
    settings = {"epsilon": epsilon, "delta": _DELTA, "random_state": seed, "insecure_release_seed": seed}
    order = list(range(len(rows.classes)))
    if method == "discriminant":
        private, public, test = encoded.matrices
        model = DiscriminantClassifier(classes=order, **settings)
    else:
        private, public, test = rows.X_private, rows.X_public, rows.X_test
        model = LabelMomentsClassifier(classes=order, **settings)
    return model.fit(private, rows.y_private, X_public=public).predict_proba(test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=[table.name for table in TABLES], default=_NAMES)
    parser.add_argument("--epsilons", nargs="+", type=float, default=(1.0, 3.0), metavar="EPSILON")
    parser.add_argument("--splits", nargs="+", type=int, default=(8, 9, 10), metavar="SPLIT")
    parser.add_argument("--draws", type=int, default=3, help="noise seeds of each split (default: %(default)s)")
    parser.add_argument("--home", type=Path, default=_HOME, help="folder of the packages that ship tables")
    options = parser.parse_args()
    columns = ["table", "epsilon", "method", "accuracy", "log-loss", "worst log-loss", "log-loss of class shares"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for table in [table for table in TABLES if table.name in options.tables]:
        splits = [Encoded(rows_of(table, split, table_packages(options.home))) for split in options.splits]
        for epsilon in options.epsilons:
            for method in ("label moments", "discriminant"):
                _line(method, splits, epsilon, options.draws)


def _log_loss(probable: np.ndarray, truth: np.ndarray) -> float:
    # As scikit-learn does, so that a probability of 0 costs much and not everything.
    return float(-np.log(np.maximum(probable[np.arange(len(truth)), truth], np.finfo(np.float64).eps)).mean())


def _line(method: str, splits: list[Encoded], epsilon: float, draws: int) -> None:
    accuracies, losses, of_shares = [], [], []
    for encoded in splits:
        truth, classes = encoded.rows.y_test, np.arange(len(encoded.rows.classes))
        shares = np.bincount(encoded.rows.y_private, minlength=len(classes)) / len(encoded.rows.y_private)
        of_shares.append(_log_loss(np.tile(shares, (len(truth), 1)), truth))
        for draw in range(draws):
            probable = probabilities(method, encoded, epsilon, 100 * encoded.rows.split + draw)
            accuracies.append(float(np.mean(probable.argmax(axis=1) == truth)))
            losses.append(_log_loss(probable, truth))
    cells = [
        splits[0].rows.table,
        f"{epsilon:g}",
        method,
        f"{np.mean(accuracies):.3f} ±{np.std(accuracies):.3f}",
        f"{np.mean(losses):.3f}",
        f"{np.max(losses):.3f}",
        f"{np.mean(of_shares):.3f}",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
