"""Bagged PATE: certified delta by subsample size, the noise that a budget needs, where it beats one partition.

Run ``python benchmarks/bagged_pate.py`` (about 5 minutes on two cores, or two minutes with ``--tables`` for the first
two parts). Sizes are those of UCI Adult's private third: 16,281 records and 250 teachers. A partition gives 65 records
to each.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpensemble import BaggedPATEClassifier, PATEClassifier, load_adult, plan, three_way_split
from dpensemble.accounting.subsampling import bagging_delta
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.datasets import fit_encoder
from dpensemble.design import wrong_label_rate
from dpensemble.design.voting import _subsampled_cost
from dpensemble.errors import DPEnsembleError
from dpensemble.laws import GaussianNoisyMax

RECORDS, TEACHERS, DELTA = 16_281, 250, 1e-5
SUBSAMPLES = (2, 4, 8, 16, 32, 48, 65, 130, 260)
# Votes of 250 by which a clear and an unclear row lead.
MARGINS = (50, 100)


def delta_table(epsilon: float = 1.0, labels: int = 100, sigma: float = 40.0) -> None:
    """Print the certified delta of a number of labels, by subsample size and scheme."""
    print(
        f"Delta at epsilon {epsilon:g} of {labels} labels, Gaussian noise of {sigma:g} votes, {TEACHERS} "
        f"teachers, {RECORDS:,} records; the models alone (bagging without noise) in brackets"
    )
    law = GaussianNoisyMax(sigma)
    whole = _subsampled_cost(law, np.eye(1, TEACHERS + 1, 1)[0], n_teachers=TEACHERS, n_classes=2)
    whole = whole * labels
    whole.refine(epsilon, DELTA)
    print(f"one partition of all records (65 each): {whole.delta(epsilon):.2e}")
    print(f"{'records each':>12}" + "".join(f"{scheme.value:>26}" for scheme in Bootstrap))
    for subsample in SUBSAMPLES:
        cells = []
        for kind in Bootstrap:
            scheme = BootstrapScheme(kind, TEACHERS, subsample)
            try:
                cost = _subsampled_cost(law, scheme.holders(RECORDS), n_teachers=TEACHERS, n_classes=2)
                cost = cost * labels
                cost.refine(epsilon, DELTA)
                cells.append(f"{cost.delta(epsilon):.2e} [{bagging_delta(scheme, RECORDS):.2g}]")
            except DPEnsembleError:
                cells.append("more than there are")
        print(f"{subsample:>12}" + "".join(f"{cell:>26}" for cell in cells))


def noise_table(epsilon: float = 1.0, labels: int = 300) -> None:
    """Print the noise that the budget needs, and how often a label is then wrong."""
    print(
        f"\nGaussian noise in votes for {labels} labels at ({epsilon:g}, {DELTA:g}), and the wrong-label "
        f"rates at margins of {' and '.join(map(str, MARGINS))} votes of {TEACHERS}"
    )

    def shown(sigma: float) -> str:
        wrong = wrong_label_rate(GaussianNoisyMax(sigma), TEACHERS, MARGINS)
        return f"{sigma:6.1f} ({wrong[0]:5.1%}, {wrong[1]:5.1%})"

    def found(model: PATEClassifier | BaggedPATEClassifier) -> str:
        design = model.design(n_classes=2, n_records=RECORDS)
        return shown(plan(design, epsilon=epsilon, delta=DELTA, labels=labels).design.law.noise)

    print(f"one partition of all records (65 each): {found(PATEClassifier(n_teachers=TEACHERS))}")
    print(f"{'records each':>12}" + "".join(f"{scheme.value:>26}" for scheme in Bootstrap))
    for subsample in SUBSAMPLES[:-2]:
        cells = []
        for kind in Bootstrap:
            cells.append(found(BaggedPATEClassifier(n_teachers=TEACHERS, subsample=subsample, scheme=kind.value)))
        print(f"{subsample:>12}" + "".join(f"{cell:>26}" for cell in cells))


def on_adult(seeds: int = 2) -> None:
    """Print label and student accuracy at equal epsilon, delta and number of labels."""
    adult = load_adult()
    y = (adult.y == ">50K").to_numpy().astype(int)
    print(
        "\nUCI Adult, logistic regression: accuracy of released labels / of the student, mean over "
        f"{seeds} splits; noise as small as the budget allows"
    )
    cases = {
        "partition, 65 each": None,
        **{f"distinct, {k} each": ("distinct", k) for k in (48, 32, 16)},
        "with replacement, 16 each": ("with-replacement", 16),
    }
    settings = ((0.1, 30), (0.3, 100), (1.0, 100), (1.0, 300))
    print(f"{'epsilon, labels':>30}" + "".join(f"{f'{e:g}, {n}':>17}" for e, n in settings))
    scores = {(case, setting): [] for case in cases for setting in settings}
    for seed in range(seeds):
        split = three_way_split(len(y), seed)
        encoder = fit_encoder(adult.X.iloc[split.public])
        private, public, test = (
            encoder.transform(adult.X.iloc[rows]) for rows in (split.private, split.public, split.test)
        )
        for case, draws in cases.items():
            for epsilon, labels in settings:
                common = {
                    "teacher": LogisticRegression(),
                    "classes": [0, 1],
                    "epsilon": epsilon,
                    "max_labels": labels,
                    "random_state": seed,
                }
                if draws is None:
                    # By name, the noise is fitted to the number of labels.
                    model = PATEClassifier(**common)
                else:
                    model = BaggedPATEClassifier(**common, scheme=draws[0], subsample=draws[1])
                model.fit(private, y[split.private], X_public=public)
                right = np.mean(model.labels_.labels == y[split.public][model.labels_.indices])
                scores[case, (epsilon, labels)].append((right, model.score(test, y[split.test])))
    for case in cases:
        cells = [np.mean(scores[case, setting], axis=0) for setting in settings]
        print(f"{case:>30}" + "".join(f"{f'{right:.3f} / {student:.3f}':>17}" for right, student in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", action="store_true", help="leave out the training on Adult")
    start = perf_counter()
    arguments = parser.parse_args()
    delta_table()
    noise_table()
    if not arguments.tables:
        on_adult()
    print(f"\n{perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
