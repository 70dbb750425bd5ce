"""A private teacher by gradient perturbation, the default teacher of private majorities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import delta_of, integer_between, real_between
from dpensemble._random import noise_source
from dpensemble.releases.sums import DiscreteNoise
from dpensemble.teachers.noisy_descent import CONSTANT, noisy_descent
from dpensemble.teachers.noisy_softmax import noisy_softmax_descent
from dpensemble.teachers.perturbation import concentrated_for
from dpensemble.teachers.private_linear import PrivateLinearClassifier


@dataclass(repr=False, eq=False, kw_only=True)
class GradientPerturbedLogisticRegression(PrivateLinearClassifier):
    """Logistic regression of any number of classes by gradient descent with noise on every gradient.

    Every fit is (epsilon, delta)-private for one record, or all records of one unit, replaced, added or removed. So you
    may publish the model. `dpensemble.teachers.noisy_descent` holds the proof. Settings are public.

    Parameters
    ----------
    classes : sequence of labels
        All possible labels. You must declare them, because taking them from private labels would leak.
    epsilon : float, default=1.0
        From 1e-6 to 100.
    delta : float, default=1e-5
        Above 0, since the noise is Gaussian.
    clip : float, default=1.0
        Longer rows are shortened to this length, which then counts as 1. Choose it from public rows, at or below the
        usual length, since the noise suits rows of length 1.
    n_steps : int, default=50
        Number of gradients, from 1 to 10,000. The noise on each grows with the root of this number.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment. The model is then not private.

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features)
        Released coefficients of the clipped rows. One output for two classes, otherwise one for each class.
    intercept_ : ndarray of shape (n_outputs,)
        Released intercepts.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    R. Bassily, A. Smith and A. Thakurta, "Private empirical risk minimization: efficient algorithms and tight
    error bounds", FOCS 2014. Here with all records in every step, momentum, and discrete noise.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = GradientPerturbedLogisticRegression(classes=[0, 1], epsilon=1.0, delta=1e-5)
    >>> bool(model.fit(X, y).score(X, y) > 0.9), model.privacy_spent_(1e-5) <= 1.0
    (True, True)
    """

    many_classes: ClassVar[bool] = True

    classes: Sequence[Any] | None = None
    epsilon: float = 1.0
    delta: float = 1e-5
    clip: float = 1.0
    n_steps: int = 50
    insecure_release_seed: int | None = None

    def announced_privacy(self) -> tuple[float, float]:
        """Return the epsilon and delta of every fit, known before it."""
        return real_between("epsilon", self.epsilon, 1e-6, 100), delta_of(self.delta)

    def announced_zcdp(self) -> float:
        """Return the zero-concentrated privacy of every fit."""
        return concentrated_for(*self.announced_privacy())

    def _release(
        self, rows: Floats, ids: Integers, n_classes: int, clip: float, units: Integers | None
    ) -> tuple[Floats, Floats, float]:
        rho, n_steps = self.announced_zcdp(), integer_between("n_steps", self.n_steps, 1, 10_000)
        noise = DiscreteNoise(noise_source(self.insecure_release_seed))
        settings: dict[str, Any] = {"clip": clip, "rho": rho, "n_steps": n_steps, "noise": noise, "units": units}
        if n_classes == 2:
            weights = noisy_descent(rows, np.where(ids == 1, 1.0, -1.0), **settings)[:, None]
        else:
            weights = noisy_softmax_descent(rows, ids, n_classes, **settings)
        return weights[:-1].T, CONSTANT * weights[-1], rho
