"""Private rivals of the regressor: full-batch gradient descent (DP-GD), DP-EBM and diffprivlib.

`benchmarks/regression.py` calls `of_gradients` and `of_packages`. The second one starts this file again with the
interpreter of the arena's environment of rivals. ``python benchmarks/regression_rivals.py --tune`` prints the mean R2
of each setting of DP-GD on development tables, by which `LINEAR` and `NETWORK` were chosen.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from arena.relations import HALVED, spent
from arena.rival_side.tabular import bounds, described

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Settings:
    """Longest gradient, how far all steps lead together, and numbers of hidden units and of steps."""

    clip: float
    way: float
    hidden: int = 0
    steps: int = 60


#: Chosen by `--tune`.
LINEAR, NETWORK = Settings(1.0, 100.0), Settings(1.0, 10.0, hidden=16)
_CLIPS, _WAYS = (0.3, 1.0), (3.0, 10.0, 30.0, 100.0, 300.0)
GRID = tuple(Settings(clip, way, hidden) for hidden in (0, 16) for clip in _CLIPS for way in _WAYS)


def dp_gd(rows: np.ndarray, targets: np.ndarray, test: np.ndarray, mu: float, seed: int, how: Settings) -> np.ndarray:
    """Return predictions for test rows. Targets are about -1 to 1, and rows end with a constant.

    A replaced record moves a sum of clipped gradients by at most twice the clip. With Gaussian noise of deviation s,
    `steps` such sums are one Gaussian mechanism with mu = 2 clip sqrt(steps) / s. Source: Dong, Roth and Su 2022,
    "Gaussian differential privacy", Corollary 3.3. The number of rows is public.
    """
    noise = np.random.default_rng((seed, 1))
    parameters = _start(rows.shape[1], how.hidden, seed)
    deviation = 2 * np.sqrt(how.steps) / mu
    pace = how.way / how.steps / len(rows)
    for _ in range(how.steps):
        sums = _clipped_sum(parameters, rows, targets, how.clip)
        parameters = [
            held - pace * (part / how.clip + noise.normal(scale=deviation, size=part.shape))
            for held, part in zip(parameters, sums, strict=True)
        ]
    return _inner(parameters, test) @ parameters[-1]


def _start(columns: int, hidden: int, seed: int) -> Arrays:
    """Return the first parameters. They predict 0 for every row."""
    if not hidden:
        return [np.zeros(columns)]
    return [np.random.default_rng(seed).normal(size=(columns, hidden)), np.zeros(hidden + 1)]


def _inner(parameters: Arrays, rows: np.ndarray) -> np.ndarray:
    """Return what the last layer gets: the columns, or hidden units of tanh and a constant."""
    if len(parameters) == 1:
        return rows
    return np.column_stack([np.tanh(rows @ parameters[0]), np.ones(len(rows))])


def _clipped_sum(parameters: Arrays, rows: np.ndarray, targets: np.ndarray, clip: float) -> Arrays:
    """Return the sum of gradients of half the squared error, each scaled down to length `clip` where it is longer."""
    inner = _inner(parameters, rows)
    off = inner @ parameters[-1] - targets
    lengths = off**2 * np.einsum("ij,ij->i", inner, inner)
    below = None
    if len(parameters) == 2:
        below = off[:, None] * parameters[-1][:-1] * (1 - inner[:, :-1] ** 2)
        lengths += np.einsum("ij,ij->i", below, below) * np.einsum("ij,ij->i", rows, rows)
    scale = np.minimum(1.0, clip / np.sqrt(np.maximum(lengths, 1e-300)))
    outer = inner.T @ (off * scale)
    return [outer] if below is None else [rows.T @ (below * scale[:, None]), outer]


def scaled(public: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return rows divided by the median length of public rows, with a constant."""
    length = max(float(np.median(np.linalg.norm(public, axis=1))), 1e-12)
    return np.column_stack([rows / length, np.ones(len(rows))])


def of_gradients(
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray], y: np.ndarray, narrow: tuple[float, float], mu: float, seed: int
) -> Iterator[tuple[Settings, np.ndarray]]:
    """Yield settings and predictions for the test rows.

    `arrays` are encoded private, public and test rows, and `narrow` is the range of a released histogram, which is
    paid for by 4 % of the squared budget.
    """
    private, public, test = arrays
    low, high = narrow
    middle, half = (low + high) / 2, (high - low) / 2
    targets = (np.clip(y, low, high) - middle) / half
    rows, test_rows = scaled(public, private), scaled(public, test)
    for how in dict.fromkeys((LINEAR, NETWORK, *GRID)):
        found = dp_gd(rows, targets, test_rows, mu * np.sqrt(0.96), seed, how)
        yield how, middle + half * np.clip(found, -1, 1)


def of_packages(
    data: dict, arrays: tuple[np.ndarray, np.ndarray, np.ndarray], run: dict, python: Path
) -> dict[str, np.ndarray]:
    """Return predictions of DP-EBM and of diffprivlib's linear regression, by the interpreter of their environment.

    `run` has `range`, `narrow`, `epsilon`, `delta` and `seed`.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "given.pickle", Path(folder) / "answer.pickle"
        frames = {name: data[name].to_dict("list") for name in ("X", "public", "X_test")}
        given.write_bytes(pickle.dumps({"frames": frames, "y": data["y"], "arrays": arrays, **run}))
        command = [str(python), str(Path(__file__).resolve()), str(given), str(answer)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        return pickle.loads(answer.read_bytes())  # noqa: S301 - written above


def _answer(given: Path, answer: Path) -> None:
    """Fit the packages, in their own environment."""
    warnings.simplefilter("ignore")
    request = pickle.loads(given.read_bytes())  # noqa: S301 - written by `of_packages`
    fits = {"DP-EBM": _dp_ebm, "diffprivlib": _diffprivlib}
    answer.write_bytes(pickle.dumps({name: np.asarray(fit(request)) for name, fit in fits.items()}))


def _dp_ebm(request: dict) -> np.ndarray:
    """DP-EBM protects against adding or removing a record, so for replacing one it gets half of the budget."""
    from interpret.privacy import DPExplainableBoostingRegressor  # noqa: PLC0415  of another environment

    private, public, test = (pd.DataFrame(request["frames"][name]) for name in ("X", "public", "X_test"))
    kept, kinds, ranges = described(public)
    low, high = request["narrow"]
    epsilon, delta = spent(request["epsilon"], request["delta"], HALVED)
    for table in (private, public, test):
        for name, kind in zip(kept, kinds, strict=True):
            # DP-EBM reads no blanks.
            texts = table[name].astype(object).where(table[name].notna(), "blank").astype(str)
            table[name] = table[name].fillna(public[name].median()) if kind == "continuous" else texts
    model = DPExplainableBoostingRegressor(
        feature_names=kept,
        feature_types=kinds,
        privacy_bounds=ranges,
        privacy_target_min=low,
        privacy_target_max=high,
        epsilon=epsilon,
        delta=delta,
        n_jobs=1,
        random_state=request["seed"],
    )
    return model.fit(private[kept], np.clip(request["y"], low, high)).predict(test[kept])


def _diffprivlib(request: dict) -> np.ndarray:
    """Linear regression by the functional mechanism, whose guarantee is an epsilon without delta."""
    from diffprivlib.models import LinearRegression  # noqa: PLC0415  of another environment

    private, public, test = request["arrays"]
    low, high = request["narrow"]
    least, most = bounds(public)
    model = LinearRegression(
        epsilon=request["epsilon"], bounds_X=(least, most), bounds_y=(low, high), random_state=request["seed"]
    )
    return model.fit(np.clip(private, least, most), np.clip(request["y"], low, high)).predict(
        np.clip(test, least, most)
    )


def _tune() -> None:
    """Print the mean R2 of each setting on tables behind the ten that are reported."""
    import regression as measured  # noqa: PLC0415  it imports this module
    from dpensemble import LabelMomentsRegressor  # noqa: PLC0415  not there in the environment of rivals

    tables = measured.chosen(measured.N_TABLES + 5)[measured.N_TABLES :]
    scores: dict[tuple[float, Settings], list[float]] = {}
    for name, target in tables:
        data, (low, high) = measured.split_data(name, target, 0)
        for epsilon in (1.0, 3.0):
            model = LabelMomentsRegressor(low, high, epsilon=epsilon, insecure_release_seed=0)
            for how, predicted in measured.by_gradients(data, epsilon, 0, measured.narrowed(model, data)):
                found = measured.figures(data["y_test"], predicted)["r2"]
                scores.setdefault((epsilon, how), []).append(max(found, -1.0))
    print("development tables:", ", ".join(name for name, _ in tables))
    for (epsilon, how), found in sorted(scores.items(), key=lambda one: (one[0][0], -np.mean(one[1]))):
        print(f"{epsilon:g} {how} {np.mean(found):.3f}", *(f"{one:.2f}" for one in found))


if __name__ == "__main__":
    if sys.argv[1:] == ["--tune"]:
        warnings.simplefilter("ignore")
        _tune()
    else:
        _answer(*map(Path, sys.argv[1:]))
