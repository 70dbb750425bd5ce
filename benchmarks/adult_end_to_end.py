"""Time DPBag on Adult: the straightforward way against this library, in one run.

The straightforward way fits one scikit-learn estimator a teacher, asks every
teacher about every public row, and keeps the moments of every record and every
order in dense arrays, query by query, as the paper's Algorithm 1 is written. Both ways
start from the same encoded rows and end with a trained student.

Run ``python benchmarks/adult_end_to_end.py`` (``--quick`` skips the largest size).
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from dpensemble import DPBaggingClassifier
from dpensemble.datasets import fit_encoder
from dpensemble.student import default_student
from dpensemble.workflow.tables import adult_tables

DELTA = 1e-5
MOMENTS = np.arange(1, 101)


def encoded():
    tables = adult_tables(0)
    encoder = fit_encoder(tables.X_public)
    X = encoder.transform(tables.X_private)
    y = (tables.y_private == ">50K").to_numpy().astype(int)
    truth = (tables.y_test == ">50K").to_numpy().astype(int)
    return X, y, encoder.transform(tables.X_public), encoder.transform(tables.X_test), truth


def straightforward(X, y, public, n, k, epsilon):
    """One fit a teacher, every vote, dense moments. Returns the student and the number of labels."""
    rng = np.random.default_rng(0)
    stages = {}
    start = perf_counter()
    teachers, membership = [], np.empty((len(X), k), dtype=int)
    for p in range(k):
        for rows in np.array_split(rng.permutation(len(X)), n):
            membership[rows, p] = len(teachers)
            teachers.append(LogisticRegression().fit(X[rows], y[rows]) if len(set(y[rows])) > 1 else y[rows][0])
    stages["teachers"] = perf_counter() - start
    start = perf_counter()
    votes = np.array([t.predict(public) if hasattr(t, "predict") else np.full(len(public), t) for t in teachers])
    stages["votes"] = perf_counter() - start
    start = perf_counter()
    lam, labels, moments = 2 / n, [], np.zeros((len(X), len(MOMENTS)))
    for query in range(len(public)):
        shares = np.stack([(votes[membership, query] == c).mean(axis=1) for c in (0, 1)], axis=1)
        m = (1 - shares).max(axis=1)
        moments += 2 * lam**2 * np.outer(m**2, MOMENTS * (MOMENTS + 1))
        if np.min((moments.max(axis=0) + np.log(1 / DELTA)) / MOMENTS) > epsilon:
            break
        counts = np.bincount(votes[:, query], minlength=2)
        labels.append(int(np.argmax(counts + rng.laplace(scale=k / lam, size=2))))
    stages["labels"] = perf_counter() - start
    start = perf_counter()
    student = default_student().fit(public[: len(labels)], labels)
    stages["student"] = perf_counter() - start
    return student, len(labels), stages


def library(X, y, public, n, k, epsilon):
    model = DPBaggingClassifier(
        classes=[0, 1],
        n_teachers=n,
        n_partitions=k,
        epsilon=epsilon,
        delta=DELTA,
        random_state=0,
        n_jobs=-1,
        # The same analysis as the straightforward way, so that both do the same work.
        analysis="until-spent",
        accounting="published",
    )
    model.fit(X, y, X_public=public)
    return model, len(model.labels_), model.seconds_


def measure(way, data, n, k, epsilon):
    X, y, public, test, truth = data
    start = perf_counter()
    student, labels, stages = way(X, y, public, n, k, epsilon)
    seconds = perf_counter() - start
    row = {
        "way": way.__name__,
        "n": n,
        "k": k,
        "epsilon": epsilon,
        "seconds": round(seconds, 2),
        "labels": labels,
        "accuracy": round(float(np.mean(student.predict(test) == truth)), 4),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    } | {f"s_{stage}": round(value, 2) for stage, value in stages.items()}
    print("  ".join(f"{name}={value}" for name, value in row.items()), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="skip the largest size")
    parser.add_argument("--repeats", type=int, default=3, help="runs of the compared size (median is quoted)")
    options = parser.parse_args()
    data = encoded()
    library(*data[:3], 100, 2, 1.0)  # warm up imports and thread pools
    rows = []
    for epsilon in (1.0, 5.0):
        # Many small fits are fastest on one BLAS thread, which the straightforward way also gets.
        with threadpool_limits(1):
            slow = [measure(straightforward, data, 100, 10, epsilon) for _ in range(options.repeats)]
        fast = [measure(library, data, 100, 10, epsilon) for _ in range(options.repeats)]
        ratio = np.median([r["seconds"] for r in slow]) / np.median([r["seconds"] for r in fast])
        print(f"(100, 10) at epsilon {epsilon:g}: {ratio:.1f} times as fast as the straightforward way\n")
        rows += slow + fast
    for n, k in [(100, 50)] if options.quick else [(100, 50), (250, 100)]:
        for epsilon in (1.0, 5.0):
            rows.append(measure(library, data, n, k, epsilon))
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "adult_end_to_end.json").write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
