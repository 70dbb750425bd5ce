"""How accurate a student is by epsilon and by number of private records, for docs/choosing-epsilon.md.

Adult, split at random with a fixed seed: 2,000 public rows, 10,000 test rows, and private records from the rest. Each
figure is a mean over runs with fresh noise and other private records. Run ``python
benchmarks/choosing_epsilon.py``, which takes some minutes on one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from dpensemble import LabelMomentsClassifier
from dpensemble.datasets import load_adult

SIZES = {500: 4, 3_000: 2, 30_000: 1}
EPSILONS = (0.3, 1.0, 3.0, 10.0)
PUBLIC, TEST = 2_000, 10_000


def measured() -> list[dict[str, float]]:
    """Return accuracy and area under the ROC curve for each size and epsilon."""
    adult = load_adult()
    rows, labels = adult.X.reset_index(drop=True), np.asarray(adult.y)
    found = []
    for size, runs in SIZES.items():
        for epsilon in EPSILONS:
            scores = []
            for run in range(runs):
                order = np.random.default_rng(run).permutation(len(rows))
                public, test, private = np.split(order[: PUBLIC + TEST + size], [PUBLIC, PUBLIC + TEST])
                model = LabelMomentsClassifier(
                    classes=adult.classes, epsilon=epsilon, delta=1e-5, insecure_release_seed=run
                )
                model.fit(rows.iloc[private], labels[private], X_public=rows.iloc[public])
                probability = model.predict_proba(rows.iloc[test])
                right = float((model.classes_[probability.argmax(axis=1)] == labels[test]).mean())
                scores.append((right, roc_auc_score(labels[test] == model.classes_[1], probability[:, 1])))
            accuracy, area = np.mean(scores, axis=0)
            found.append({"records": size, "epsilon": epsilon, "accuracy": float(accuracy), "auroc": float(area)})
            print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("choosing_epsilon.json"))
    out: Path = parser.parse_args().out
    out.write_text(json.dumps(measured(), indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
