"""How many labels each accounting allows at one setting, how long it takes, and how tight the worst cases are.

Run ``python benchmarks/exact_accounting.py``.
"""

from __future__ import annotations

from math import pi
from time import perf_counter, process_time

from dpensemble import SubsampleAggregateClassifier, plan
from dpensemble.accounting import Change, price
from dpensemble.cost import Conversion
from dpensemble.cost.composition import AdaptiveComposition
from dpensemble.guarantee import Budget
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax

EPSILON, DELTA = 1.0, 1e-5


def labels() -> None:
    law = LaplaceNoisyMax(125)
    published = SubsampleAggregateClassifier(law=law, accounting="published").design()
    print(f"SAA, 250 teachers, scale 125 votes, epsilon {EPSILON:g}, delta {DELTA:g}")
    planned = plan(published, epsilon=EPSILON, delta=DELTA)
    print(f"  published moments                  {planned.labels:6,} labels")
    one = price(law, Change(ballots=250, classes=2)).label
    for conversion in (Conversion.CLASSICAL, Conversion.IMPROVED, Conversion.PLD, Conversion.EXACT):
        start = perf_counter()
        count = one.most(Budget(epsilon=EPSILON, delta=DELTA), conversion)
        print(f"  exact, {conversion.value:28s}{count:6,} labels  {perf_counter() - start:6.2f} s")


def tightness() -> None:
    print("Gaussian noisy-max: Renyi divergence as a share of the published order / sigma**2, at order 2")
    print(f"  small-shift limits: {2 / pi:.6f} (two classes), 0.639971 (three and more)")
    for n_classes in (2, 3, 10):
        for sigma in (2, 5, 20, 40, 100, 400):
            start = perf_counter()
            cost = price(GaussianNoisyMax(sigma), Change(ballots=250, classes=n_classes)).label
            share = cost.rdp[0] * sigma**2 / cost.orders[0]
            seconds = perf_counter() - start
            print(f"  classes={n_classes:2d} sigma={sigma:3d}  share={share:.6f}  {seconds:5.2f} s")


def speed() -> None:
    print("Exact composition: labels, CPU seconds and, with blocks of 64 answers only, share of those labels")
    for n_teachers, classes, epsilon in (
        (50, 2, 10), (250, 2, 0.5), (250, 2, 1), (250, 2, 3), (250, 2, 5), (250, 2, 10), (1000, 2, 1), (1000, 2, 10),
        (250, 3, 1), (250, 3, 3),
    ):  # fmt: skip
        start = process_time()
        one = price(LaplaceNoisyMax(n_teachers / 2), Change(ballots=n_teachers, classes=classes)).label
        count = one.most(Budget(epsilon=float(epsilon), delta=DELTA))
        seconds = process_time() - start
        coarse = AdaptiveComposition((one.parts or ())[0].pairs, 128, 1.0)
        coarse._followed, coarse._block = 128, 64
        share = coarse.largest(float(epsilon), DELTA) / count
        setting = f"{n_teachers:5d} teachers, {classes} classes, epsilon {epsilon:4}"
        print(f"  {setting}: {count:9,} {seconds:6.2f} s {share:.4f}")


if __name__ == "__main__":
    labels()
    speed()
    tightness()
