"""Classifiers on the noisy marginals of dpmm's AIM and MST.

dpmm selects and measures marginals, which is all that touches private rows. The arena's own are the estimate of the
graphical model (`inference`), noise from numpy's generator instead of OpenDP's floating-point sampler, so that a seed
repeats a fit, and rejection instead of a list of all marginals that fit the size (`SeededAIM`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from time import process_time
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from dpmm.models import aim, mst
from dpmm.models.base.mbi import Domain
from dpmm.models.base.mechanisms import cdp_rho, mechanism
from sklearn.ensemble import HistGradientBoostingClassifier

from arena.rival_side import moments
from arena.rival_side.inference import QuickInference, QuickModel, megabytes
from arena.rival_side.split import Split, aligned

TARGET = "target"
#: Megabytes of AIM's model at most. dpmm's 80 take hours.
AIM_MEGABYTES = 0.25


class SeededAIM(aim.AIM):
    """AIM that looks at the size of a marginal's model only when the marginal is drawn.

    To draw from all candidates until one fits has the distribution of drawing from those that fit, since the size does
    not depend on private rows. Working the sizes out for a thousand pairs takes minutes.
    """

    def worst_approximated(
        self, candidates: dict, answers: dict, model: QuickModel, eps: float, sigma: float, public: bool = False
    ) -> tuple:
        """Return the marginal to measure next, by the exponential mechanism."""
        del public
        names = list(candidates.weights)
        worked = [self._worst_approximated(c, candidates.weights[c], answers[c], model, sigma) for c in names]
        errors, sensitivity = np.array([w[1] for w in worked]), max(w[2] for w in worked)
        logs = 0.5 * eps / sensitivity * errors
        while True:
            chances = np.exp(logs - logs.max())
            place = self.prng.choice(len(names), p=chances / chances.sum())
            if candidates.fits(names[place]):
                return names[place]
            logs[place] = -np.inf


class _Candidates:
    """Candidates and their weights, with the sizes not worked out."""

    def __init__(self, weights: dict, model: QuickModel, most: float) -> None:
        self.weights, self.model, self.most = weights, model, most

    def fits(self, clique: tuple) -> bool:
        """Return whether the model with a further marginal is small enough."""
        cliques = self.model.cliques
        if any(set(clique) <= set(other) for other in cliques):
            return True
        return megabytes(self.model.domain, [*cliques, clique]) <= self.most


def _domain(columns: list[str], sizes: np.ndarray) -> Domain:
    # With numpy's whole numbers, which dpmm takes, the size of a model of many columns overflows to a small one.
    return Domain(columns, [int(size) for size in sizes])


#: dpmm searches for the same number in each fit, for a second.
_rho = cache(cdp_rho)


@contextmanager
def _patched(generator: np.random.RandomState) -> Iterator[None]:
    """Have dpmm use the quick inference, and this generator's noise."""

    def noise(sigma: float, size: Any = None) -> np.ndarray:
        return generator.normal(0.0, sigma, size)

    modules = (aim, mst, mechanism)
    with mock.patch.object(aim, "filter_candidates", _Candidates):
        patches = [mock.patch.object(module, "cdp_rho", _rho) for module in (mst, mechanism)]
        patches += [mock.patch.object(mechanism, "Domain", _domain)]
        patches += [mock.patch.object(module, "FactoredInference", QuickInference) for module in modules]
        patches += [mock.patch.object(module, "gaussian_noise", noise) for module in modules]
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()


def _frame(split: Split) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return private rows in codes with the target, and the number of codes of each column, without the target's."""
    codes = split.codes()
    names = [f"column {number}" for number in range(codes["private"].shape[1])]
    frame = pd.DataFrame(codes["private"], columns=names).assign(**{TARGET: split.y.astype(int)})
    return frame, dict(zip(names, (int(size) for size in codes["sizes"]), strict=True))


def logistic_on_aim(split: Split, classes: int, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Fit logistic regression to the tables of pairs of AIM's model."""
    model, codes = _aim(split, classes, epsilon, delta, seed), split.codes()
    columns = moments.designs(codes["sizes"], codes["ordered"], codes["values"])
    names = model.domain.attrs

    def table(a: int, b: int) -> np.ndarray:
        return model.project((names[a], names[b])).values

    weights = moments.coefficients(table, columns, model.total)
    return moments.probabilities(codes["test"], columns, weights)


def boosting_on_aim(split: Split, classes: int, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Fit boosting to rows drawn from AIM's model."""
    model = _aim(split, classes, epsilon, delta, seed)
    model.set_random_state(np.random.RandomState(seed))
    return _boosting(split, model.synthetic_data(rows=round(model.total)).df, classes, seed)


def boosting_on_mst(split: Split, classes: int, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Fit boosting to rows drawn from MST's model."""
    return _boosting(split, _mst(split, classes, epsilon, delta, seed), classes, seed)


def _boosting(split: Split, rows: pd.DataFrame, classes: int, seed: int) -> np.ndarray:
    codes = split.codes()
    model = HistGradientBoostingClassifier(random_state=seed, categorical_features=~codes["ordered"])
    model.fit(rows.drop(columns=TARGET).to_numpy(), rows[TARGET].to_numpy())
    return aligned(model, codes["test"], classes)


#: The last AIM model, its settings and the CPU seconds of its fit.
_last: list[tuple[tuple, QuickModel, float]] = []


def _aim(split: Split, classes: int, epsilon: float, delta: float, seed: int) -> QuickModel:
    """Return AIM's model of all pairs of columns, which two contestants share; its seconds count for both."""
    settings = (split.folder, classes, epsilon, delta, seed)
    if _last and _last[0][0] == settings:
        split.shared_seconds = _last[0][2]
        return _last[0][1]
    start = process_time()
    frame, domain = _frame(split)
    generator = np.random.RandomState(seed)
    with _patched(generator):
        fitted = SeededAIM(
            epsilon=epsilon,
            delta=delta,
            prng=generator,
            max_model_size=AIM_MEGABYTES,
            domain=domain | {TARGET: classes},
            n_jobs=1,
        )
        fitted.fit(frame, W=[(pair, 1.0) for pair in _workload(list(domain))])
    _last[:] = [(settings, fitted.model, process_time() - start)]
    return fitted.model


def _workload(columns: list[str]) -> list[tuple[str, str]]:
    """Return all pairs of columns, and those with the target four times more, since classifiers need them most.

    AIM weights a marginal by what it shares with the workload. With every pair once, AIM spends a small budget on
    features alone, and classifiers on letters are no better than chance.
    """
    return [*combinations([*columns, TARGET], 2), *([(column, TARGET) for column in columns] * 4)]


def _mst(split: Split, classes: int, epsilon: float, delta: float, seed: int) -> pd.DataFrame:
    """Return rows drawn from MST's model, as many as its estimate of the number of private rows."""
    frame, domain = _frame(split)
    generator = np.random.RandomState(seed)
    with _patched(generator):
        fitted = mst.MST(epsilon=epsilon, delta=delta, prng=generator, domain=domain | {TARGET: classes}, n_jobs=1)
        fitted.fit(frame)
        return fitted.generate(round(fitted.model.total))
