"""Processor time and peak memory of the main commands on Adult, beside the straightforward way without privacy.

Each command runs in a process of its own, as a user would run it, so imports count. The straightforward way reads the
same files with pandas and fits or asks scikit-learn's logistic regression on one-hot columns. For plans it is the
import of the libraries that a plan does without: scikit-learn, pandas and SciPy's statistics. Figures are the best of
`--runs` runs. With ``--beside FOLDER`` plans and help of this copy and of the sources in another folder run in turns,
and nothing else does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dpensemble.datasets import load_adult, three_way_split

_FIT = """
import sys, joblib, pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
folder = sys.argv[1]
rows = pd.read_csv(folder + "/private.csv")
texts = make_column_selector(dtype_include=[object, "string"])
one_hot = OneHotEncoder(handle_unknown="ignore")
encoder = make_column_transformer((one_hot, texts), remainder=StandardScaler())
model = make_pipeline(encoder, LogisticRegression(max_iter=1000))
joblib.dump(model.fit(rows.drop(columns="income"), rows["income"]), folder + "/plain.joblib")
"""
_PREDICT = """
import sys, joblib, pandas as pd
folder = sys.argv[1]
print("\\n".join(joblib.load(folder + "/plain.joblib").predict(pd.read_csv(folder + "/test.csv"))))
"""
_IMPORTS = "import sklearn.linear_model, pandas, scipy.stats"
_DPENSEMBLE = [sys.executable, "-m", "dpensemble"]
_PLAN = [*_DPENSEMBLE, "plan", "saa", "--teachers=250", "--epsilon=3"]
_LIGHT = {
    "plan as JSON": [*_PLAN, "--json"],
    "plan in tables": _PLAN,
    "plan --help": [*_DPENSEMBLE, "plan", "--help"],
    "--help": [*_DPENSEMBLE, "--help"],
}


def measured(command: list[str], sources: Path | None = None) -> tuple[float, float]:
    """Run a command, and return the processor seconds and the peak megabytes of it and its own children."""
    environment = os.environ if sources is None else os.environ | {"PYTHONPATH": str(sources)}
    process = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed: {process.stderr.read().decode()}")  # type: ignore[union-attr]
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def best(command: list[str], runs: int) -> tuple[float, float]:
    """Return the least of each figure."""
    measurements = [measured(command) for _ in range(runs)]
    return min(seconds for seconds, _ in measurements), min(peak for _, peak in measurements)


def write_tables(folder: Path) -> None:
    """Write Adult in three parts."""
    adult = load_adult()
    split = three_way_split(len(adult.X), 0)
    whole = adult.X.assign(income=adult.y)
    whole.iloc[split.private].to_csv(folder / "private.csv", index=False)
    for name, rows in (("public", split.public), ("test", split.test)):
        adult.X.iloc[rows].to_csv(folder / f"{name}.csv", index=False)


def beside(other: Path, runs: int) -> None:
    """Print the processor seconds of light commands of another copy and of this one, which run in turns."""
    ours = Path(__file__).parents[1] / "src"
    print(f"{'command':16s} {'there':>8s} {'here':>8s}   ratio")
    for name, command in _LIGHT.items():
        measurements = [[measured(command, sources)[0] for sources in (other, ours)] for _ in range(runs)]
        there, here = (min(column) for column in zip(*measurements, strict=True))
        print(f"{name:16s} {there:6.2f} s {here:6.2f} s   {here / there:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--beside", type=Path, help="folder of other sources, such as ../older/src")
    options = parser.parse_args()
    runs = options.runs
    if options.beside is not None:
        beside(options.beside.absolute(), runs)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_tables(folder)
        plain_fit, plain_predict = [sys.executable, "-c", _FIT, place], [sys.executable, "-c", _PREDICT, place]
        tables = [f"--{name}={folder / name}.csv" for name in ("private", "public")]
        classes = ",".join(sorted(set(load_adult().y)))
        train = [*_DPENSEMBLE, "train", *tables, "--target=income", f"--classes={classes}", f"--out={folder / 'run'}"]
        train += ["--overwrite", "--quiet", "--jobs=1"]
        compared = {
            "train (auto)": (train, plain_fit),
            "train saa": ([*train[:4], "saa", *train[4:]], plain_fit),
            "train pate": ([*train[:4], "pate", *train[4:]], plain_fit),
            "train private-majority": ([*train[:4], "private-majority", *train[4:]], plain_fit),
            **{name: (command, [sys.executable, "-c", _IMPORTS]) for name, command in _LIGHT.items()},
            "predict": ([*_DPENSEMBLE, "predict", str(folder / "run"), str(folder / "test.csv")], plain_predict),
        }
        print(f"{'command':24s} {'processor s':>12s} {'peak MB':>9s}   {'the straightforward way':>24s}   ratio")
        times: dict[str, tuple[float, float]] = {}
        for name, (ours, plain) in compared.items():
            seconds, peak = best(ours, runs)
            key = " ".join(plain)
            if key not in times:
                times[key] = best(plain, runs)
            plain_seconds, plain_peak = times[key]
            print(
                f"{name:24s} {seconds:12.1f} {peak:9.0f}   {plain_seconds:13.1f} s {plain_peak:6.0f} MB   "
                f"{seconds / plain_seconds:.1f} x time, {peak / plain_peak:.1f} x memory"
            )


if __name__ == "__main__":
    main()
