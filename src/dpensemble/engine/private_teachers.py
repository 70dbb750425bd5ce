"""A vote of private teachers, and the default private teacher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpensemble._checks import shown
from dpensemble._random import NoiseSource, Stream, seed_integer
from dpensemble.allocation import Allocation
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.cost.privacy_cost import improved_epsilon
from dpensemble.design import PrivateWhat
from dpensemble.design.private_majority import touched_models
from dpensemble.engine.voting_steps import VotingSteps
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.teachers import (
    FreshTeachers,
    GradientPerturbedLogisticRegression,
    OutputPerturbedLogisticRegression,
    PrivateTeachers,
    RandomizedBallots,
)
from dpensemble.teachers.private import DrawnBallots, Voters, fit_private, spent_privacy
from dpensemble.teachers.private_linear import concentrated_for

_MOST_EPSILON = 100.0
# For the rounding of conversions in both directions.
_SLACK = 1 - 1e-12


def declared_pair(privacy: Any) -> tuple[Any, Any]:
    """Return the declared epsilon and delta, numbers or one for each teacher, or None if nothing was declared."""
    if privacy is None or np.ndim(privacy) == 0:
        return privacy, None
    table = np.asarray(privacy, dtype=object)
    if table.shape == (2,) and privacy[0] is not None:
        return privacy[0], privacy[1]
    if table.ndim == 2 and table.shape[1] == 2:
        return tuple(table[:, 0].tolist()), tuple(table[:, 1].tolist())
    raise InvalidParameterError(
        f"teacher_privacy must be an epsilon, a pair of epsilon and delta, or a sequence of such pairs; got "
        f"{shown(privacy)}."
    )


def default_teacher(
    private: PrivateWhat, budget: Budget, touched: int, declared: tuple[Any, Any]
) -> GradientPerturbedLogisticRegression | OutputPerturbedLogisticRegression:
    """Return the default private teacher, with Gaussian noise if its delta is above 0, otherwise with Laplace noise."""
    # It is as private as declared. By default, models that are trained once share the budget evenly: its
    # zero-concentrated privacy is divided by their number. Fresh teachers are pure, because answers then are.
    epsilon, delta = declared
    if np.ndim(epsilon) or np.ndim(delta):
        raise InvalidParameterError(
            "teacher=None cannot have one teacher_privacy for each teacher: give one value, or your own teacher."
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


class PrivateTeachersSteps(VotingSteps):
    """Teachers that are private, or whose ballots are."""

    design: Any

    @property
    def draws_to_teach(self) -> bool:
        """Whether the noise of the models is drawn when the models are fitted."""
        return not self.design.ordinary and self.design.private is PrivateWhat.MODELS

    @property
    def default_teacher(self) -> Any:
        """The default teacher: a classifier for ordinary teachers, otherwise a description."""
        return LogisticRegression() if self.design.ordinary else "private logistic regression"

    def teach(self) -> None:
        """Fit the teachers. Charge for models whose accountants report after the fit."""
        design = self.design
        if design.ordinary:
            super().teach()
            if design.private is PrivateWhat.BALLOTS:
                # The released labels' noise must not repeat that of the ballots.
                source = self.secret_source(Stream.PARTICIPATION)
                epsilon = max(epsilon for epsilon, _ in design.teachers or ())
                self.voters = _drawn(RandomizedBallots(self.voters, epsilon, source), design, source)
        elif design.private is PrivateWhat.FRESH_MODELS:
            fresh = FreshTeachers(self._models(), self.classes)
            self.voters = _drawn(fresh, design, self.secret_source(Stream.PARTICIPATION))
        else:
            self.voters = self._models()()
            if design.teachers is None:
                self.design = replace(design, teachers=_pay(self.meter, self.voters, self.allocation))

    def _models(self) -> Callable[[], PrivateTeachers]:
        """Return a function that fits all private teachers, each time with other noise."""
        seed, allocation, turns = self.method.insecure_release_seed, self.allocation, count()
        teacher, n_teachers = self.method._resolved_teacher(), self.allocation.n_teachers

        def fit() -> PrivateTeachers:
            first = next(turns) * n_teachers
            seeds = None
            if seed is not None:
                seeds = [seed_integer(seed, Stream.TEACHERS, first + t) for t in range(n_teachers)]
            return fit_private(
                teacher,
                self.records.X,
                # A private teacher needs a label from every record. A bad record gets the first class.
                np.maximum(self.records.targets, 0),
                allocation.shards,
                classes=self.classes,
                seeds=seeds,
                n_jobs=self.method.n_jobs,
                units=None if self.records.units is None else allocation.unit_of_record,
            )

        return fit


def _drawn(voters: Voters, design: Any, source: NoiseSource) -> Voters:
    """Return voters. If the design requires it, a few of their ballots are drawn for every query."""
    return voters if design.drawn in (None, design.n_teachers) else DrawnBallots(voters, design.drawn, source)


def _pay(meter: Any, fitted: PrivateTeachers, allocation: Allocation) -> tuple[tuple[float, float], ...]:
    """Charge for fitted models what their accountants report, before anything is computed from them. Return it."""
    touched = allocation.votes_per_unit
    share = meter.budget.delta / (2 * touched)
    spent = tuple(spent_privacy(model, share, allocation.relation) for model in fitted.models)
    meter.pay(touched_models(spent, touched))
    return spent
