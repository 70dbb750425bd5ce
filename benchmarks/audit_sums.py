"""Audit whole fits of label moments by the best test there is: python benchmarks/audit_sums.py [--runs 3000].

Two tables differ in one record. An attacker knows both, the public rows and everything that the library publishes. So
the attacker can compute, for each released sum, its exact value under both tables, given what was released before. The
log-likelihood ratio of all sums is then the best test of all (Neyman and Pearson 1933). If noise is Gaussian and as
large as charged, the test's errors are those of a shift by mu (Dong, Roth and Su 2022). Half of the runs use each
table. The threshold is 0, fixed in advance. Clopper-Pearson intervals of both error rates give a lower bound on mu that
holds with 99 %.

The audit passes if the bound is at most the mu that was charged and at least 90 % of it. With `--planted` the noise of
each sum has half of the charged standard deviation, and the audit has to fail.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from scipy.special import ndtri
from scipy.stats import beta

from dpensemble import LabelMomentsClassifier
from dpensemble.errors import HiddenError
from dpensemble.moments.learning import MomentsSource
from dpensemble.releases import sums as sums_module
from dpensemble.releases.sums import SumReleaser

_EPSILON, _DELTA, _CONFIDENCE = 20.0, 1e-5, 0.99
_RECORDS, _PUBLIC, _COLUMNS = 600, 240, 3


class _SeenEnoughError(Exception):
    """Ends a fit when its checked records are known, or when its last sum was released."""


@dataclass
class Attacker:
    """The log-likelihood ratio of all sums of one fit.

    `other` are the records of the neighbouring table. `budget` is the squared mu of a whole fit.
    """

    other: Any
    budget: float
    ratio: float = 0.0
    mu_squared: float = 0.0
    charged: float = 0.0

    def look(self, noisy: np.ndarray, own: np.ndarray, other: np.ndarray, variance: float, sigma: float) -> None:
        """Add a sum, whose expectations under the table of the fit and under the neighbour are known."""
        shift = (other - own).astype(float)
        length = float((shift**2).sum())
        self.ratio += float(((noisy - own).astype(float) * shift).sum() / variance - length / (2 * variance))
        self.mu_squared += length / variance
        self.charged += sigma**-2


class _Seen:
    """A query that passes what it reads on to an attacker."""

    def __init__(self, query: Any, look: Callable[..., None], weight: float) -> None:
        self._query, self._look, self._weight = query, look, weight

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def read(self, values: np.ndarray, spread: float) -> Any:
        scale = self._query.unit * self._weight
        self._look(noisy=values * scale, variance=(spread * scale) ** 2)
        return self._query.read(values, spread)


@contextmanager
def watched(attacker: Attacker | None) -> Iterator[list[Any]]:
    """Let an attacker look at every sum of a fit, or end the fit at its first sum and return its records."""
    records: list[Any] = []
    charge_and_draw = SumReleaser.charge_and_draw

    def noisy_sum(
        self: MomentsSource, query: Any, share: float, total_weight: float = 1.0, *, title: str = ""
    ) -> object:
        del title
        if attacker is None:
            records.append(self.blocks.records)  # type: ignore[attr-defined]
            raise _SeenEnoughError
        number = len(self.sums.released)
        own = self.blocks.sums(query, number).total
        # Features are kept with the records that they belong to.
        neighbour = replace(self.blocks, records=attacker.other, features=replace(self.blocks.features))
        other = neighbour.sums(query, number).total
        look = partial(attacker.look, own=own, other=other, sigma=self.sums.meter.sigma(share))
        seen: Any = _Seen(query, look, total_weight)
        outcome = charge_and_draw(self.sums, seen, own, share, weight=total_weight)
        # An alarm changes which sums follow, but not what they cost together.
        if attacker.charged > attacker.budget * (1 - 1e-6):
            raise _SeenEnoughError
        return outcome

    with mock.patch.object(MomentsSource, "noisy_sum", noisy_sum):
        yield records


@dataclass(frozen=True)
class Case:
    """Neighbouring tables: in the second one a record of the first class has the last class."""

    name: str
    n_classes: int
    settings: dict[str, Any]

    def tables(self) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, pd.DataFrame]:
        """Return rows, labels of both tables, and public rows. Each row has every label once, so centres stay even."""
        rng = np.random.default_rng(7)
        distinct = rng.normal(size=(_RECORDS // self.n_classes, _COLUMNS))
        rows = pd.DataFrame(distinct.repeat(self.n_classes, axis=0), columns=[f"c{i}" for i in range(_COLUMNS)])
        public = pd.DataFrame(rng.normal(size=(_PUBLIC, _COLUMNS)), columns=rows.columns)
        labels = np.arange(_RECORDS) % self.n_classes
        neighbour = labels.copy()
        neighbour[0] = self.n_classes - 1
        return rows, labels, neighbour, public

    def fit(self, rows: pd.DataFrame, labels: np.ndarray, public: pd.DataFrame, seed: int) -> LabelMomentsClassifier:
        """Fit with noise of the seed."""
        model = LabelMomentsClassifier(
            classes=list(range(self.n_classes)),
            epsilon=_EPSILON,
            delta=_DELTA,
            random_state=0,
            insecure_release_seed=seed,
            **self.settings,
        )
        return model.fit(rows, labels, X_public=public)

    def records_of(self, rows: pd.DataFrame, labels: np.ndarray, public: pd.DataFrame) -> Any:
        """Return the checked records of a table, as a fit holds them."""
        # The library hides what ends a pass over private rows.
        with watched(None) as records, suppress(HiddenError):
            self.fit(rows, labels, public, 0)
        return records[0]


CASES = (
    Case("two classes", 2, {}),
    Case("four classes", 4, {}),
    Case("two classes, adding or removing", 2, {"relation": "add-or-remove-one"}),
)


def audit(case: Case, runs: int) -> tuple[float, float, float, float]:
    """Return the mu charged, that of the attacked pair, its estimate and its lower bound."""
    rows, labels, neighbour, public = case.tables()
    tables = [(rows, labels), (rows, neighbour)]
    if case.settings.get("relation") == "add-or-remove-one":
        tables[1] = (rows.iloc[1:], labels[1:])
    records = [case.records_of(*table, public) for table in tables]
    budget = sum(one.noise**-2 for one in case.fit(*tables[0], public, 0).result_.releases)
    said, pairs = np.zeros(2), []
    for side, table in enumerate(tables):
        for run in range(runs):
            attacker = Attacker(records[1 - side], budget)
            with watched(attacker), suppress(HiddenError):
                case.fit(*table, public, 1 + run + side * runs)
            # The attacker names the neighbour of the table of the fit, wrongly.
            said[side] += attacker.ratio > 0
            pairs.append((attacker.charged, attacker.mu_squared))
    charged, attacked = np.sqrt(np.mean(pairs, axis=0))
    tail = (1 - _CONFIDENCE) / 2
    highest = beta.ppf(1 - tail, said + 1, runs - said)
    return float(charged), float(attacked), float(-ndtri(said / runs).sum()), float(-ndtri(highest).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3_000, help="fits to each of two tables (default: %(default)s)")
    parser.add_argument("--planted", action="store_true", help="halve the noise, which the audit has to notice")
    parser.add_argument("--cases", nargs="+", type=int, default=range(len(CASES)), help="numbers from 0")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    variance = sums_module.noise_variance
    if arguments.planted:
        mock.patch.object(sums_module, "noise_variance", lambda *given: max(1, math.ceil(variance(*given) / 4))).start()
    print("| case | mu charged | mu of the pair | mu measured | 99 % lower bound | of the charged mu |")
    print("|---|---|---|---|---|---|")
    failed = False
    for case in (CASES[number] for number in arguments.cases):
        charged, attacked, measured, lower = audit(case, arguments.runs)
        figures = " | ".join(f"{figure:.3f}" for figure in (charged, attacked, measured, lower))
        print(f"| {case.name} | {figures} | {lower / charged:.1%} |", flush=True)
        failed |= not 0.9 * charged <= lower <= charged
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
