"""The private teacher that a majority uses unless it is given one."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpensemble._checks import shown
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.cost.conversion import improved_epsilon
from dpensemble.design import PrivateWhat
from dpensemble.errors import InvalidParameterError
from dpensemble.teachers import GradientPerturbedLogisticRegression, OutputPerturbedLogisticRegression
from dpensemble.teachers.perturbation import concentrated_for

_MOST_EPSILON = 100.0
# Of rounding in the conversions there and back.
_SLACK = 1 - 1e-12


def declared_pair(privacy: Any) -> tuple[Any, Any]:
    """Return epsilon and delta as declared, numbers or one for each teacher; None where nothing was."""
    if privacy is None or np.ndim(privacy) == 0:
        return privacy, None
    table = np.asarray(privacy, dtype=object)
    if table.shape == (2,) and privacy[0] is not None:
        return privacy[0], privacy[1]
    if table.ndim == 2 and table.shape[1] == 2:
        return tuple(table[:, 0].tolist()), tuple(table[:, 1].tolist())
    raise InvalidParameterError(
        f"teacher_privacy={shown(privacy)} is no epsilon, no pair of epsilon and delta, and no sequence of such pairs."
    )


def default_teacher(
    private: PrivateWhat, budget: Budget, touched: int, declared: tuple[Any, Any]
) -> GradientPerturbedLogisticRegression | OutputPerturbedLogisticRegression:
    """Return the default private teacher, with Gaussian noise where its delta is above 0, else with Laplace noise."""
    # It is as private as was declared. Where nothing was, models that are trained once share the budget evenly: its
    # zero-concentrated privacy is divided by their number. Teachers trained anew are pure, as answers then are.
    epsilon, delta = declared
    if np.ndim(epsilon) or np.ndim(delta):
        raise InvalidParameterError(
            "teacher=None with one teacher_privacy for each teacher; give one, or a teacher of your own."
        )
    if epsilon is None and private is PrivateWhat.MODELS:
        return GradientPerturbedLogisticRegression(epsilon=_shared(budget, touched), delta=budget.delta)
    if epsilon is None:
        return OutputPerturbedLogisticRegression(epsilon=min(budget.epsilon / touched, _MOST_EPSILON))
    if delta:
        return GradientPerturbedLogisticRegression(epsilon=epsilon, delta=delta)
    return OutputPerturbedLogisticRegression(epsilon=epsilon)


def _shared(budget: Budget, touched: int) -> float:
    """Return the epsilon, at the budget's delta, of each of several models that compose to the budget."""
    if touched == 1:
        return min(budget.epsilon, _MOST_EPSILON)
    rho = concentrated_for(budget.epsilon, budget.delta) / touched * _SLACK
    return min(improved_epsilon(rho * DEFAULT_ORDERS, DEFAULT_ORDERS, budget.delta), _MOST_EPSILON)
