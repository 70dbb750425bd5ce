"""How often bands of a released quality hold the truth, and what 20 % of 7,000 rows show of a rare outcome.

Persons of a known population are drawn again and again, and their histogram is released with noise. Run it as
``python benchmarks/quality_bands.py``. It takes less than a minute.
"""

import sys
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score

from dpensemble.quality.figures import ABOVE_HALF, threshold_sums
from dpensemble.quality.release import WHOLE_UNIT, HeldRecords, Layout, NoisyHistograms
from dpensemble.quality.result import ReleasedQuality

SEXES = ("f", "m")


@dataclass(frozen=True, eq=False)
class Population:
    """Probabilities of a student, true classes and groups of many persons."""

    probable: np.ndarray
    truth: np.ndarray
    groups: np.ndarray

    @classmethod
    def of(cls, rate, *, flawed=False, n=100_000):
        """Draw persons with about this share of cases. A `flawed` student's probabilities are too high."""
        rng = np.random.default_rng(0)
        logits = np.log(rate / (1 - rate)) + 1.3 * rng.normal(size=n) - 0.6 * (rate < 0.2)
        truth = (rng.random(n) < 1 / (1 + np.exp(-logits))).astype(np.int64)
        shown = 1 / (1 + np.exp(-(logits + 1.5 * flawed)))
        return cls(shown, truth, rng.choice(3, size=n, p=[0.6, 0.3, 0.1]))

    def records(self, places, n_units=None, unit_of=None):
        """Return what is held back of these persons."""
        n = len(places)
        return HeldRecords(
            probabilities=np.column_stack([1 - self.probable[places], self.probable[places]]),
            truth=self.truth[places],
            groups={"sex": self.groups[places]},
            unit_of=np.arange(n) if unit_of is None else unit_of,
            n_units=n if n_units is None else n_units,
            usable=np.ones(n, dtype=bool),
        )


class Study:
    """Releases of samples of one population, with continuous Gaussian noise, which is drawn faster."""

    def __init__(self, rate, n_units, epsilon, *, groups=False, costs=None, flawed=False, records_per_unit=1):
        self.population, self.costs = Population.of(rate, flawed=flawed), costs
        self.records_per_unit = records_per_unit
        required = [0.5, 0.1 if costs is None else costs.threshold]
        layout = Layout.planned(
            ("no", "yes"), n_units, epsilon, 1e-5, groups={"sex": SEXES} if groups else None, required=len(required)
        )
        public = self.population.probable[:2000]
        layout = layout.for_shares([1 - public.mean(), public.mean()], len(required))
        self.edges = layout.edges(np.column_stack([1 - public, public]), required)
        self.layout: Layout = self.edges.fitted(layout)

    def release(self, seed):
        """Return the quality of one sample."""
        rng = np.random.default_rng(seed)
        n, k = self.layout.n_units, self.records_per_unit
        # Records of a unit are alike: the next persons by probability.
        first = rng.integers(len(self.population.probable) - k, size=n)
        order = np.argsort(self.population.probable) if k > 1 else np.arange(len(self.population.probable))
        places = order[(first[:, None] + np.arange(k)).ravel()]
        records = self.population.records(places, n, np.repeat(np.arange(n), k))
        exact = records.exact_total(self.layout, self.edges) / WHOLE_UNIT
        noisy = exact + rng.normal(0, self.layout.sigma, size=exact.shape)
        return ReleasedQuality.of_histograms(self.histograms(noisy, self.layout.sigma), self.costs)

    def histograms(self, cells, sigma):
        """Return cells as a release."""
        parts = self.layout.split(cells)
        return NoisyHistograms(
            layout=self.layout, edges=self.edges, cells=parts, sigma=sigma, epsilon=self.layout.epsilon, delta=1e-5
        )

    def truth(self):
        """Return the figures of the whole population by name, arrays over thresholds, bins and groups."""
        everyone = self.population.records(np.arange(len(self.population.truth)))
        exact = self.histograms(everyone.exact_total(self.layout, self.edges) / WHOLE_UNIT, 0.0)
        edges, cells = self.edges.of_class["yes"], exact.of("bins", "yes")
        negative, positive = cells
        figures = _shares(positive, negative)
        middles = np.clip(self.edges.middles["yes"], 1e-3, 1 - 1e-3)
        losses = cells[0] @ -np.log(1 - middles) + cells[1] @ -np.log(middles)
        at = int(np.searchsorted(edges, ABOVE_HALF)) + 1
        figures |= {
            "observed": np.divide(
                positive, cells.sum(axis=0), where=cells.sum(axis=0) > 0, out=np.full(len(edges) + 1, np.nan)
            ),
            "share": positive.sum() / cells.sum(),
            "accuracy": (positive[at:].sum() + negative[:at].sum()) / cells.sum(),
            # Of the student itself, not of its bins.
            "auroc": roc_auc_score(self.population.truth, self.population.probable),
            "log_loss": losses / cells.sum(),
        }
        if self.layout.groups:
            by_group = exact.of("bins by group", "sex")
            figures["groups"] = by_group.sum(axis=(1, 2)) / by_group.sum()
            for place, (rest, ill) in enumerate(by_group):
                figures |= {f"{name} {place}": share for name, share in _shares(ill, rest).items()}
        return figures

    def hits(self, n_releases):
        """Return how often all bands of the class, all of the groups, and each single interval hold the truth."""
        truth = self.truth()
        alone = ("accuracy", "auroc", "log_loss")
        held = dict.fromkeys(("together", "groups", *alone), 0)
        for seed in range(n_releases):
            quality = self.release(seed)
            (curves,) = quality.curves
            together = {**curves.at, "observed": [one[-1] for one in curves.calibration], "share": [curves.share]}
            held["together"] += all(holds(figures, truth[name]) for name, figures in together.items())
            for name in alone:
                held[name] += holds([getattr(curves, name)], truth[name])
            if self.layout.groups:
                groups = quality.groups["sex"]
                held["groups"] += holds([one.share for one in groups], truth["groups"]) and all(
                    holds(figures, truth[f"{name} {place}"])
                    for place, one in enumerate(groups)
                    for name, figures in one.at.items()
                )
        return held


def _shares(positive, negative):
    """Return true shares by name, NaN where nobody is in the denominator."""
    with np.errstate(invalid="ignore"):
        return {name: one.s / (one.s + one.f) for name, one in threshold_sums(positive, negative).items()}


def holds(figures, truth):
    """Return whether every band has its true figure, if there is one."""
    return all(
        one.low <= value <= one.high or np.isnan(value)
        for one, value in zip(figures, np.atleast_1d(truth), strict=True)
    )


CASES = (
    (
        ("3 % cases, 1,400 units, epsilon 1", Study(0.03, 1400, 1.0)),
        ("3 % cases, 1,400 units, epsilon 3", Study(0.03, 1400, 3.0)),
        ("30 % cases, 2,000 units, epsilon 1", Study(0.3, 2000, 1.0)),
        ("30 % cases, 2,000 units in three groups, epsilon 3", Study(0.3, 2000, 3.0, groups=True)),
    )
    if __name__ == "__main__"
    else ()
)
RARE = ("share", "sensitivity", "positive_predictive_value", "alarms", "missed", "auroc", "accuracy")


def show_rare(epsilon, n_releases):
    """Print the usual value and band of figures at the threshold 0.1, for 3 % of 7,000 rows and a held-back fifth."""
    study = Study(0.03, 1400, epsilon)
    place, truth = study.edges.of_class["yes"].tolist().index(0.1), study.truth()
    cells = f"{study.layout.bins} bins, noise {study.layout.sigma:.2f} a cell"
    print(f"\n3 % of 7,000 rows, a fifth held back, epsilon {epsilon:g} ({cells})")
    found = [study.release(seed).curves[0] for seed in range(n_releases)]
    for name in RARE:
        figures = [one.at[name][place] if name in one.at else getattr(one, name) for one in found]
        exact = np.atleast_1d(truth[name])
        exact = exact[place] if name in found[0].at else exact[0]
        low, high = (np.median([getattr(one, end) for one in figures]) for end in ("low", "high"))
        unknown = "" if name == "auroc" else f", unknown in {np.mean([one.value is None for one in figures]):.0%}"
        print(f"{name:28s} truth {exact:.3f}, usual band {low:.3f} to {high:.3f}{unknown}")


def main(n_releases=200):
    """Print coverage over as many releases, and the rare outcome."""
    for name, study in CASES:
        held = study.hits(n_releases)
        if not study.layout.groups:
            del held["groups"]
        print(name, {what: f"{count / n_releases:.1%}" for what, count in held.items()})
    for epsilon in (1.0, 3.0):
        show_rare(epsilon, n_releases)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
