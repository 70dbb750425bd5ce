"""Wrong labels of the optimal vote beside Gaussian and Laplace noise, all at one budget and number of labels.

Run: ``python benchmarks/optimal_vote.py`` (two or three minutes), or with ``--full`` for larger ensembles and
other numbers of labels (half an hour or more). All laws but the published ones are certified by exact adaptive
composition. The last line of a table of two classes holds for every law that treats both classes alike. A class
that is not listed has no votes.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.stats import binom

from dpensemble import PATEClassifier, SubsampleAggregateClassifier, plan
from dpensemble.laws import LawChoice, ReleaseLaw, decisive_law, mixed_probabilities

DELTA = 1e-5
PAIRS = (0.505, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)
TRIPLES = ((0.505, 0.495, 0.0), (0.6, 0.4, 0.0), (0.7, 0.3, 0.0), (0.8, 0.2, 0.0), (0.9, 0.1, 0.0))
TRIPLES += ((0.4, 0.35, 0.25), (0.5, 0.25, 0.25), (0.6, 0.2, 0.2), (0.7, 0.15, 0.15))
# Teachers, epsilon, labels and classes. More classes are priced by listing their histograms.
FEW = ((250, 1.0, 300, 2), (60, 2.0, 300, 3), (24, 4.0, 40, 4))
MORE = tuple((250, 1.0, labels, 2) for labels in (30, 100, 1000))
MORE += ((60, 2.0, 40, 3), (250, 1.0, 300, 3), (250, 1.0, 30, 3), (60, 2.0, 40, 4))


class NotAdaptive:
    """What even the same query, asked again and again, allows: no law can do better under the budget."""

    def __init__(self, epsilon: float, labels: int) -> None:
        self._epsilon, self._labels = epsilon, labels
        self._hits = np.arange(labels + 1)

    def least(self, p: np.ndarray) -> np.ndarray:
        """Return the smallest chance that may stand beside each."""
        return np.array([self._beside(min(max(float(one), 1e-12), 1 - 1e-12)) for one in p])

    def _beside(self, p: float) -> float:
        low, high = np.log(1e-13), np.log(p)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if self._fits(float(np.exp(middle)), p) else (middle, high)
        return float(np.exp(low))

    def _fits(self, a: float, b: float) -> bool:
        for one, other in ((a, b), (b, a)):
            loss = self._hits * np.log(one / other)
            loss += (self._labels - self._hits) * (np.log1p(-one) - np.log1p(-other))
            beyond = self._hits[loss > self._epsilon]
            delta = binom.pmf(beyond, self._labels, one).sum()
            delta -= np.exp(self._epsilon) * binom.pmf(beyond, self._labels, other).sum()
            if delta > DELTA:
                return False
        return True


def row(name: str, law: ReleaseLaw, counts: np.ndarray, note: str) -> None:
    wrong = 1 - mixed_probabilities(law, counts)[:, 0]
    print(f"{name:28s}" + "".join(f"{rate:11.2%}" for rate in wrong) + f"   {note}")


def table(n_teachers: int, epsilon: float, labels: int, n_classes: int) -> None:
    shares = np.array([(share, 1 - share) for share in PAIRS] if n_classes == 2 else TRIPLES)
    # Further classes have no votes.
    counts = np.pad(np.round(n_teachers * shares), ((0, 0), (0, n_classes - shares.shape[1])))
    counts[:, 0] += n_teachers - counts.sum(axis=1)
    print(f"\n{n_teachers} teachers, {n_classes} classes, epsilon {epsilon:g}, delta {DELTA:g}, {labels} labels")
    print(f"{'votes':28s}" + "".join("/".join(f"{n:.0f}" for n in line[:3]).rjust(11) for line in counts))
    # The shape is sought where a price takes less than seconds, else it is what was found once.
    shapes = ({"shape": 0.4} if n_classes > 2 and n_teachers > 100 else {}, {"shape": 0.25})
    cases: list[tuple[str, type, Any, str]] = []
    cases += [("optimal", PATEClassifier, LawChoice.of("optimal", **shape), "exact") for shape in shapes]
    for method, name in ((PATEClassifier, "Gaussian"), (SubsampleAggregateClassifier, "Laplace")):
        cases += [(f"{name}, {kind}", method, method().law, kind) for kind in ("exact", "published")]
    for name, method, asked, accounting in cases:
        start = time.perf_counter()
        design = method(law=asked, n_teachers=n_teachers, accounting=accounting).design(n_classes=n_classes)
        planned = plan(design, epsilon=epsilon, delta=DELTA, labels=labels)
        law, seconds = planned.design.law, time.perf_counter() - start
        full = f"{name}, shape {law.shape:g}" if name == "optimal" else name
        row(full, law, counts, f"{law.noise:.1f} votes, epsilon {planned.epsilon_spent:.4f}, {seconds:.0f} s")
    if n_classes == 2:
        row(
            "no law is below",
            decisive_law(NotAdaptive(epsilon, labels), n_teachers),
            counts,
            "one query repeated",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="larger ensembles and other numbers of labels too")
    for asked in (*FEW, *(MORE if parser.parse_args().full else ())):
        table(*asked)


if __name__ == "__main__":
    main()
