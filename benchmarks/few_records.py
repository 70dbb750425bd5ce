"""Label moments beside private majority with few private records: python benchmarks/few_records.py.

The rule of `auto` rests on these figures: accuracy and AUROC for test rows of the arena's tables of two classes, on
development splits, at delta 1e-5. Private records are a random part of the private third. Each cell is a mean over
splits, with one draw of noise each. The last table has the difference of accuracy, label moments less private majority,
and its standard error over splits and tables.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

# Opacus installs a package that is called benchmarks too, so the arena is found by its folder.
sys.path[0] = str(Path(__file__).resolve().parent)

from arena import ours  # noqa: E402
from arena.encoding import Encoded  # noqa: E402
from arena.environments import table_packages  # noqa: E402
from arena.sources import Rows, rows_of  # noqa: E402
from arena.tables import TABLES  # noqa: E402

_HOME = Path(__file__).parent / "results" / "arena"
_DELTA = 1e-5
_TABLES = ("adult", "magic", "spambase", "churn", "affairs", "retirement")


def reduced(rows: Rows, n_private: int, n_public: int | None) -> Rows:
    """Return a split with that many private and public rows, drawn from the seed of the split."""
    draw = np.random.default_rng(rows.split)
    kept = np.sort(draw.permutation(len(rows.X_private))[:n_private])
    public = np.sort(draw.permutation(len(rows.X_public))[:n_public])
    return replace(
        rows,
        X_private=rows.X_private.iloc[kept].reset_index(drop=True),
        y_private=rows.y_private[kept],
        X_public=rows.X_public.iloc[public].reset_index(drop=True),
    )


def scores(rows: Rows, epsilon: float) -> list[tuple[float, float]]:
    """Return accuracy and AUROC of label moments and of private majority."""
    encoded = Encoded(rows)
    both = []
    for fit in (ours.label_moments, ours.private_majority):
        probable = fit(encoded, epsilon=epsilon, delta=_DELTA, seed=rows.split)
        accuracy = float(np.mean(probable.argmax(axis=1) == rows.y_test))
        both.append((accuracy, float(roc_auc_score(rows.y_test, probable[:, 1]))))
    return both


def table_of(
    names: Sequence[str], sizes: Sequence[int], epsilon: float, *, splits: int, n_public: int | None, home: Path
) -> None:
    """Print a table of Markdown for one epsilon."""
    folder, tables = table_packages(home), {table.name: table for table in TABLES}
    gains = defaultdict(list)
    print(f"| table, epsilon {epsilon:g} | private records | label moments | private majority |\n|---|---|---|---|")
    for name in names:
        for n_private in sizes:
            split_rows = (rows_of(tables[name], split, folder) for split in range(splits))
            results = np.array([scores(reduced(rows, n_private, n_public), epsilon) for rows in split_rows])
            gains[n_private].extend(results[:, 0, 0] - results[:, 1, 0])
            cells = " | ".join(f"{accuracy:.3f} / {auroc:.3f}" for accuracy, auroc in results.mean(axis=0))
            print(f"| {name} | {n_private:,} | {cells} |", flush=True)
    print("\n| private records times epsilon | difference of accuracy |\n|---|---|")
    for n_private, each in gains.items():
        error = np.std(each, ddof=1) / np.sqrt(len(each))
        print(f"| {n_private * epsilon:,.0f} | {np.mean(each):+.3f} ± {error:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=_TABLES, default=_TABLES, metavar="TABLE")
    parser.add_argument("--records", nargs="+", type=int, default=(150, 300, 500, 1000), metavar="NUMBER")
    parser.add_argument("--public", type=int, metavar="NUMBER", help="public rows (default: the public third)")
    parser.add_argument("--epsilons", nargs="+", type=float, default=(1.0,), metavar="EPSILON")
    parser.add_argument("--splits", type=int, default=4, help="development splits (default: %(default)s)")
    parser.add_argument("--home", type=Path, default=_HOME, help="folder of the arena's packages")
    options = parser.parse_args()
    for epsilon in options.epsilons:
        settings = {"splits": options.splits, "n_public": options.public, "home": options.home}
        table_of(options.tables, options.records, epsilon, **settings)


if __name__ == "__main__":
    main()
