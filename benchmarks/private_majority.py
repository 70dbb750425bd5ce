"""Private majorities of private teachers at equal total loss, by aggregator, agreement and number of answers.

Run ``python benchmarks/private_majority.py`` (some minutes, and ``--adult`` prints the last part only). The settings
are like those of the text's experiments (11 teachers, m = 3, 20 to 100 answers), once with records that touch all
teachers and once with a partition, where a record touches one: its private majority then needs no noise at all.
Then students are trained on simulated records, and at last on Adult, with the private teachers that are shipped.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

import numpy as np

from dpensemble import Budget, PrivateMajorityClassifier, load_adult, three_way_split
from dpensemble.datasets import fit_encoder
from dpensemble.design import PrivateWhat, compare_aggregators
from dpensemble.teachers import OutputPerturbedLogisticRegression
from dpensemble.teachers.private_logistic import default_teacher

DELTA = 1e-5
AGREEMENTS = (0.6, 0.7, 0.8, 0.9, 0.95)


def tables() -> None:
    for touched in (11, 1):
        for epsilon, Delta in ((0.1, 0.0), (0.0892, 1e-4)):
            for queries in (20, 50, 100):
                start = perf_counter()
                comparison = compare_aggregators(
                    11,
                    epsilon=epsilon,
                    Delta=Delta,
                    m=3,
                    delta=1e-2,
                    queries=queries,
                    agreements=AGREEMENTS,
                    touched=touched,
                    prior=0.75,
                )
                print(f"{comparison}\n  ({perf_counter() - start:.1f} s)\n")


def students() -> None:
    """Total epsilon 4 at delta 1e-5, 4,000 records, 5 columns, 11 teachers, 100 labels, as the mean of three runs."""
    print("Students: accuracy of released labels, accuracy on fresh rows, epsilon spent, labels, seconds")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 5))
    y = (X @ np.array([2.0, -1.0, 0.5, 0.0, 0.0]) + rng.normal(size=len(X)) > 0).astype(int)
    private, public, test = slice(0, 4_000), slice(4_000, 6_000), slice(6_000, None)
    # As private as a model each of eleven may be, of one of a partition, and of every answer's teachers.
    shared, alone, quick = (
        OutputPerturbedLogisticRegression(epsilon=e, clip=3.0, penalty=100.0) for e in (4 / 11, 4.0, 0.2)
    )
    fresh = {"teacher": quick, "private": "fresh-models", "max_labels": 100}
    ballots = {"private": "ballots", "teacher_privacy": 0.2, "max_labels": 100}
    settings: dict[str, dict[str, Any]] = {
        "models, everyone": {},
        "models, partition": {"sharing": "partition"},
        "output, everyone": {"teacher": shared},
        "output, partition": {"teacher": alone, "sharing": "partition"},
        **{f"fresh models, {a}": fresh | {"law": a} for a in ("darrm", "dsub", "sub", "rr")},
        **{f"ballots, {a}": ballots | {"law": a} for a in ("darrm", "dsub", "sub", "rr")},
        "gnmax, everyone": {"law": "gnmax", "max_labels": 100},
        "gnmax, partition": {"law": "gnmax", "max_labels": 100, "sharing": "partition"},
    }
    for name, chosen in settings.items():
        labels, scores, spent, seconds = [], [], [], []
        for run in range(3):
            start = perf_counter()
            model = PrivateMajorityClassifier(
                classes=[0, 1], n_teachers=11, epsilon=4.0, delta=1e-5, random_state=run, **chosen
            ).fit(X[private], y[private], X_public=X[public])
            seconds.append(perf_counter() - start)
            labels.append(np.mean(y[public][model.labels_.indices] == model.labels_.labels))
            scores.append(model.score(X[test], y[test]))
            spent.append(model.guarantee_.epsilon)
        print(
            f"  {name:22s} {np.mean(labels):6.3f} {np.mean(scores):6.3f} {np.mean(spent):7.3f} "
            f"{len(model.labels_):5d} {np.mean(seconds):6.1f}"
        )


def adult() -> None:
    """Train on 16,281 private records of 107 columns and as many public rows, in five splits."""
    print("Adult, delta 1e-5, 11 teachers: accuracy of released labels and of the student on test rows")
    data = load_adult()
    output = {
        "output, Gaussian": {"delta": DELTA, "penalty": 30.0},
        "output, Laplace": {"penalty": 10.0},
    }
    rows: list[tuple[str, float, dict[str, Any]]] = [("gradients, everyone", e, {}) for e in (0.5, 1.0, 2.0, 4.0)]
    rows.append(("gradients, partition", 1.0, {"sharing": "partition"}))
    # Of the same zero-concentrated privacy as the default teachers, then pure ones, the former default.
    shared = default_teacher(PrivateWhat.MODELS, Budget(epsilon=1.0, delta=DELTA), 11, (None, None)).epsilon
    for (name, chosen), epsilon in zip(output.items(), (shared, 1 / 11), strict=True):
        rows.append((name, 1.0, {"teacher": OutputPerturbedLogisticRegression(epsilon=epsilon, **chosen)}))
    for name, epsilon, chosen in rows:
        labels, scores, start = [], [], perf_counter()
        for seed in range(5):
            split = three_way_split(len(data.X), seed)
            encoder = fit_encoder(data.X.iloc[split.public])
            model = PrivateMajorityClassifier(
                classes=data.classes, epsilon=epsilon, delta=DELTA, random_state=seed, n_jobs=2, **chosen
            ).fit(
                encoder.transform(data.X.iloc[split.private]),
                data.y.iloc[split.private].to_numpy(),
                X_public=encoder.transform(data.X.iloc[split.public]),
            )
            truth = data.y.iloc[split.public].to_numpy()[model.labels_.indices]
            labels.append(np.mean(truth == model.labels_.labels))
            test = encoder.transform(data.X.iloc[split.test])
            scores.append(model.score(test, data.y.iloc[split.test].to_numpy()))
        print(
            f"  {name:22s} epsilon {epsilon:3g}: labels {np.mean(labels):.4f}, student {np.mean(scores):.4f} "
            f"(sd {np.std(scores, ddof=1):.4f}, {min(scores):.4f} to {max(scores):.4f}); "
            f"{(perf_counter() - start) / 5:.1f} s a run",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adult", action="store_true", help="only the students of Adult")
    if not parser.parse_args().adult:
        tables()
        students()
    adult()


if __name__ == "__main__":
    main()
