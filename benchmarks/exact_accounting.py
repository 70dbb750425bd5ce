"""How many labels each accounting allows at one setting, how long it takes, and how tight the worst cases are.

Run ``python benchmarks/exact_accounting.py``.
"""

from __future__ import annotations

from math import pi
from time import perf_counter

from dpensemble import SubsampleAggregateClassifier, plan
from dpensemble.accounting import Change, price
from dpensemble.cost import Conversion, largest_count
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax

EPSILON, DELTA = 1.0, 1e-5


def labels() -> None:
    law = LaplaceNoisyMax(125)
    published = SubsampleAggregateClassifier(law=law, accounting="published").design()
    print(f"SAA, 250 teachers, scale 125 votes, epsilon {EPSILON:g}, delta {DELTA:g}")
    found = plan(published, epsilon=EPSILON, delta=DELTA)
    print(f"  published moments                  {found.labels:6,} labels")
    one = price(law, Change(ballots=250, classes=2)).label
    for conversion in (Conversion.CLASSICAL, Conversion.IMPROVED, Conversion.PLD, Conversion.EXACT):
        start = perf_counter()
        count = largest_count(one, EPSILON, DELTA, conversion)
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


if __name__ == "__main__":
    labels()
    tightness()
