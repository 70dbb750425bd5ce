"""Who takes part: each contestant a declaration, from a split and a budget to class probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np

from arena import ours
from arena.dp_gd import LINEAR, LINEAR_GRID, NETWORK, NETWORK_GRID, Settings, dp_gd
from arena.dp_sgd import dp_sgd
from arena.encoding import Encoded
from arena.environments import BANDED, RIVALS, SYNTHETIC, Environment
from arena.metrics import merit
from arena.relations import ADD, REPLACE, UNNAMED
from arena.rivals import rival


@dataclass(frozen=True)
class Contestant:
    """One classifier.

    `fit` takes the encoded split, the folder of environments, epsilon, delta and seed, and returns the class
    probabilities of test rows and the CPU seconds it took. A change of settings or of the method needs a new `version`:
    results of earlier versions stay in the file, and the report can show them beside new ones. `relation` is None
    without privacy; `most_classes` is what the method can do. `by_test` marks settings that are chosen by test rows,
    which favours the contestant.
    """

    name: str
    title: str
    fit: Callable[..., tuple[np.ndarray, float]]
    relation: str | None
    guarantee: str = "(epsilon, delta)"
    version: int = 1
    fewest_classes: int = 2
    most_classes: int = 1000
    by_test: bool = False

    @property
    def environment(self) -> Environment | None:
        """The environment of a rival, which has to be there before several processes want it."""
        held = (part for part in getattr(self.fit, "args", ()) if isinstance(part, Environment))
        return next(held, None)

    def takes(self, classes: int) -> bool:
        """Return whether the method is for so many classes."""
        return self.fewest_classes <= classes <= self.most_classes


def _here(function: Callable[..., np.ndarray]) -> Callable[..., tuple[np.ndarray, float]]:
    """Run in this process, and take the time."""

    def fit(encoded: Encoded, home: Path, **settings: float) -> tuple[np.ndarray, float]:
        del home
        encoded.matrices  # noqa: B018 - encoding is done beforehand, as for rivals
        start = process_time()
        return function(encoded, **settings), process_time() - start

    return fit


def _there(name: str, environment: Environment = RIVALS) -> Callable[..., tuple[np.ndarray, float]]:
    """Run in an environment of rivals."""
    return partial(rival, name, environment)


def _gradients(hidden: int, many: float, few: float) -> Callable[..., tuple[np.ndarray, float]]:
    """DP-SGD with a learning rate for many private rows, and one for few."""

    def fit(encoded: Encoded, **settings: float) -> np.ndarray:
        private, _, test = encoded.matrices
        rows = encoded.rows
        rate = many if len(private) >= _MANY else few
        return dp_sgd(private, rows.y_private, test, classes=len(rows.classes), hidden=hidden, rate=rate, **settings)

    return _here(fit)


def _descent(*grid: Settings) -> Callable[..., tuple[np.ndarray, float]]:
    """DP-GD with the settings given, or with those of several that are best by test rows."""

    def fit(encoded: Encoded, **budget: float) -> np.ndarray:
        rows, (private, public, test) = encoded.rows, encoded.matrices
        count = len(rows.classes)
        each = [dp_gd(private, rows.y_private, public, test, classes=count, settings=one, **budget) for one in grid]
        return max(each, key=lambda found: merit(found, rows.y_test)) if len(each) > 1 else each[0]

    return _here(fit)


_MANY = 3_000

CONTESTANTS = (
    Contestant("label-moments", "label moments (ours)", _here(ours.label_moments), REPLACE, version=4),
    Contestant("private-majority", "private majority (ours)", _here(ours.private_majority), REPLACE, most_classes=2),
    Contestant("pate", "PATE (ours)", _here(ours.pate), REPLACE, fewest_classes=3),
    Contestant("dp-ebm", "DP-EBM (interpret)", _there("dp_ebm"), ADD, most_classes=2),
    Contestant("dp-sgd-linear", "DP-SGD, logistic regression (Opacus)", _gradients(0, 1.0, 0.5), ADD),
    Contestant("dp-sgd-network", "DP-SGD, network (Opacus)", _gradients(64, 0.5, 0.25), ADD),
    Contestant("dp-gd-linear", "DP-GD, logistic regression", _descent(LINEAR), REPLACE),
    Contestant("dp-gd-linear-best", "DP-GD, logistic regression", _descent(*LINEAR_GRID), REPLACE, by_test=True),
    Contestant("dp-gd-network", "DP-GD, network", _descent(NETWORK), REPLACE),
    Contestant("dp-gd-network-best", "DP-GD, network", _descent(*NETWORK_GRID), REPLACE, by_test=True),
    Contestant("dp-bandmf", "DP-BandMF, logistic regression (jax-privacy)", _there("banded_linear", BANDED), REPLACE),
    Contestant(
        "dpl-logistic", "logistic regression (diffprivlib)", _there("logistic_regression"), REPLACE, "pure epsilon"
    ),
    Contestant("dpl-bayes", "naive Bayes (diffprivlib)", _there("naive_bayes"), UNNAMED, "pure epsilon"),
    Contestant("dpl-forest", "random forest (diffprivlib)", _there("random_forest"), UNNAMED, "pure epsilon"),
    Contestant(
        "aim-moments",
        "logistic regression on AIM's marginals (dpmm)",
        _there("logistic_on_aim", SYNTHETIC),
        ADD,
    ),
    Contestant("aim-boosting", "boosting on AIM's rows (dpmm)", _there("boosting_on_aim", SYNTHETIC), ADD),
    Contestant("mst-boosting", "boosting on MST's rows (dpmm)", _there("boosting_on_mst", SYNTHETIC), ADD),
    Contestant("commonest", "shares of classes, no privacy", _here(ours.commonest), None, "none"),
    Contestant("logistic", "logistic regression, no privacy", _here(ours.logistic_regression), None, "none"),
    Contestant("boosting", "gradient boosting, no privacy", _here(ours.gradient_boosting), None, "none"),
)
