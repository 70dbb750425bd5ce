r"""A simple private teacher: logistic regression with noise on its coefficients.

Why it is private
-----------------
A row is scaled by the public `clip`, shortened to length 1 and given a constant entry 1, so that its length is
at most ``sqrt(2)``. The fit minimises ``F(w) = sum_i log(1 + exp(-y_i w.x_i)) + (penalty / 2) |w|**2`` (the
intercept is penalised too). Each term's gradient is at most ``sqrt(2)`` long and ``F`` is ``penalty``-strongly
convex. So replacing a record moves the minimiser by at most ``2 sqrt(2) / penalty``, and adding or removing one
by at most half of that, for any number of records, none included. If a unit has ``k`` records, each of their losses
counts ``1 / k``, so that a unit's gradient is as short as a record's, and the same holds for units. The minimiser is
found up to a gradient of length `_GRADIENT`, and therefore within ``_GRADIENT / penalty`` of the true one. (K.
Chaudhuri, C. Monteleoni and A. Sarwate, "Differentially private empirical risk minimization", JMLR 2011, Lemma 8, argue
the same way for the mean loss.)

The coefficients are rounded to multiples of a public power of two, which moves each by at most half a step. Then whole
steps of discrete noise are added (`dpensemble.releases.sums`). If delta is 0, this is Laplace noise at an L1
sensitivity of ``sqrt(d)`` times that in L2. Otherwise it is Gaussian noise, whose zero-concentrated privacy
is ``sensitivity**2 / (2 variance)`` (Canonne, Kamath and Steinke 2020, Theorem 4), converted to (epsilon,
delta). The release is an exact function of integers drawn exactly, so floating-point noise plays no part.

Not covered: the time that a fit takes, and whether it failed to converge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import delta_of, real_between
from dpensemble.errors import TeacherError
from dpensemble.teachers.perturbation import concentrated_for, released
from dpensemble.teachers.private_linear import PrivateLinearClassifier, shortened

_LENGTH = math.sqrt(2.0)
# Far above the rounding of a gradient, and far below the change that a record can make.
_GRADIENT = 1e-5
_MOST_STEPS = 200


@dataclass(repr=False, eq=False, kw_only=True)
class OutputPerturbedLogisticRegression(PrivateLinearClassifier):
    """Logistic regression of two classes with noise on its coefficients, so that you may publish the model.

    Every fit is (epsilon, delta)-private for one record, replaced, added or removed. Settings are public.

    Parameters
    ----------
    classes : sequence of two labels
        All possible labels. You must declare them, because taking them from private labels would leak.
    epsilon : float, default=1.0
        From 1e-6 to 100.
    delta : float, default=0.0
        0 adds Laplace noise. A delta above 0 adds Gaussian noise, which is smaller when there are many columns.
    clip : float, default=1.0
        Longer rows are shortened to this length. Choose it from public rows.
    penalty : float, default=10.0
        Weight of ``|w|**2 / 2`` against the sum of losses. The noise is inversely proportional to it.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment. The model is then not private.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Released coefficients of the clipped rows.
    intercept_ : ndarray of shape (1,)
        Released intercept.
    classes_ : ndarray of shape (2,)
        Declared labels, sorted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = OutputPerturbedLogisticRegression(classes=[0, 1], epsilon=1.0, delta=1e-5, penalty=100)
    >>> bool(model.fit(X, y).score(X, y) > 0.8), model.privacy_spent_(1e-5) <= 1.0
    (True, True)
    """

    classes: Sequence[Any] | None = None
    epsilon: float = 1.0
    delta: float = 0.0
    clip: float = 1.0
    penalty: float = 10.0
    insecure_release_seed: int | None = None

    def announced_privacy(self) -> tuple[float, float]:
        """Return the epsilon and delta of every fit, known before it."""
        epsilon = real_between("epsilon", self.epsilon, 1e-6, 100)
        return epsilon, 0.0 if self.delta == 0 else delta_of(self.delta)

    def announced_zcdp(self) -> float | None:
        """Return the zero-concentrated privacy of every fit, or None with a delta of 0."""
        epsilon, delta = self.announced_privacy()
        return concentrated_for(epsilon, delta) if delta else None

    def _release(
        self,
        rows: Floats,
        ids: Integers,
        n_classes: int,  # noqa: ARG002
        clip: float,
        units: Integers | None,
    ) -> tuple[Floats, Floats, float | None]:
        penalty = real_between("penalty", self.penalty, 1e-6, 1e9)
        rows = np.hstack([shortened(rows, clip), np.ones((len(rows), 1))])
        sensitivity = 2 * (_LENGTH + _GRADIENT) / penalty
        shares = np.ones(len(rows)) if units is None else 1 / np.bincount(units)[units]
        weights = _minimiser(rows, np.where(ids == 1, 1.0, -1.0), penalty, shares)
        noisy, rho = released(weights, sensitivity, *self.announced_privacy(), self.insecure_release_seed)
        return noisy[None, :-1], noisy[-1:], rho


def _minimiser(rows: Floats, signs: Floats, penalty: float, shares: Floats) -> Floats:
    """Return a point where the objective's gradient is shorter than half of `_GRADIENT`, by Newton's method."""
    signed = rows * signs[:, None]
    weights = np.zeros(rows.shape[1])

    def objective(w: Floats) -> float:
        return float(shares @ np.logaddexp(0, -(signed @ w)) + penalty / 2 * w @ w)

    for _ in range(_MOST_STEPS):
        # The chance of being wrong about each record.
        wrong = 0.5 * (1 - np.tanh(signed @ weights / 2))
        gradient = penalty * weights - signed.T @ (shares * wrong)
        if np.linalg.norm(gradient) <= _GRADIENT / 2:
            return weights
        curvature = (signed * (shares * wrong * (1 - wrong))[:, None]).T @ signed + penalty * np.eye(len(weights))
        step, before, share = np.linalg.solve(curvature, gradient), objective(weights), 1.0
        while objective(weights - share * step) > before - 0.1 * share * (gradient @ step) and share > 1e-6:
            share /= 2
        weights = weights - share * step
    raise TeacherError("the fit of a private teacher must converge: use a larger penalty.")
