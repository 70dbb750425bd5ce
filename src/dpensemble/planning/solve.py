"""Labels, epsilon and noise: any two of them give the third, before any record is touched."""

from __future__ import annotations

from typing import Unpack

from dpensemble._checks import delta_of, integer_between
from dpensemble._rounding import round_up
from dpensemble.budget import Budget
from dpensemble.errors import InvalidParameterError
from dpensemble.planning.calibrate import calibrated
from dpensemble.planning.ensemble import Ensemble, Settings
from dpensemble.planning.optimal import optimal_vote
from dpensemble.planning.plans import Plan, plan_of
from dpensemble.planning.settings import VotingMethod

_DIGITS = 6


def plan(
    *, delta: float, epsilon: float | None = None, labels: int | None = None, **settings: Unpack[Settings]
) -> Plan:
    """Find the third of epsilon, number of labels and noise from the other two.

    Parameters
    ----------
    delta : float
        Delta of the budget.
    epsilon : float, optional
        Epsilon of the budget.
    labels : int, optional
        Labels wanted.
    **settings
        As for `Ensemble`. Of `epsilon`, `labels` and the noise (`scale` or `sigma`) two decide; if only
        one of the first two is given, the noise is the method's default.

    Returns
    -------
    Plan

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, all three are given, or neither epsilon nor labels.
    BudgetError
        If the budget does not cover one label, or no noise is enough.

    Examples
    --------
    >>> round(plan(delta=1e-5, epsilon=1, labels=162, accounting="published").scale)
    125
    """
    if epsilon is None and labels is None:
        raise InvalidParameterError(
            "epsilon=None and labels=None leave nothing to plan for; give at least one of them."
        )
    if labels is None and epsilon is not None:
        return plan_labels(delta=delta, epsilon=epsilon, **settings)
    if epsilon is None and labels is not None:
        return plan_epsilon(delta=delta, labels=labels, **settings)
    return plan_noise(delta=delta, epsilon=epsilon, labels=labels, **settings)  # type: ignore[arg-type]


def plan_labels(*, epsilon: float, delta: float, **settings: Unpack[Settings]) -> Plan:
    """Count the labels that a method may release.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    **settings
        As for `Ensemble`.

    Returns
    -------
    Plan
        For ``"dpbag"`` that of DPBag-; the personalised analysis answers at least as many.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range.
    BudgetError
        If the budget does not cover one label; the message names the smallest that would.

    Examples
    --------
    >>> plan_labels(epsilon=1, delta=1e-3, n_teachers=50, accounting="published").labels
    10
    >>> plan_labels(epsilon=1, delta=1e-3, n_teachers=50).labels
    94
    """
    ensemble = Ensemble(**settings)
    meter = ensemble.meter(Budget(epsilon=epsilon, delta=delta))
    meter.require_one_query()
    return plan_of(ensemble, meter, meter.sure_queries)


def plan_epsilon(*, labels: int, delta: float, **settings: Unpack[Settings]) -> Plan:
    """Find the smallest epsilon, of six digits, that pays for a number of labels.

    Parameters
    ----------
    labels : int
        Labels wanted; for gated methods, if every query is answered.
    delta : float
        Delta of the budget.
    **settings
        As for `Ensemble`.

    Returns
    -------
    Plan
        A run with its budget answers at least as many; that was checked.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range.

    Examples
    --------
    >>> plan_epsilon(labels=10, delta=1e-3, n_teachers=50, accounting="published").epsilon
    0.972518
    """
    ensemble = Ensemble(**settings)
    labels, delta = integer_between("labels", labels, 1), delta_of(delta)
    needed = max(1e-9, (ensemble.one_query() * labels).epsilon(delta, ensemble.conversion))
    growth = 1e-6
    while True:
        meter = ensemble.meter(Budget(epsilon=round_up(needed, _DIGITS), delta=delta))
        if meter.sure_queries >= labels:
            return plan_of(ensemble, meter, labels)
        needed, growth = needed * (1 + growth), 2 * growth


def plan_noise(*, epsilon: float, labels: int, delta: float, **settings: Unpack[Settings]) -> Plan:
    """Find the smallest noise at which a number of labels fits a budget.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    labels : int
        Labels wanted; for gated methods, if every query is answered.
    **settings
        As for `Ensemble`, without `scale` and `sigma`. Noise on a threshold changes in
        proportion to the noise on the answer unless `threshold_sigma` is given. The shape of an optimal vote,
        unless given, is the one that errs least if all margins are equally likely.

    Returns
    -------
    Plan
        Its noise is at most 0.05 % above the smallest that would do, and a run with it answers
        at least as many; that was checked.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, or the noise is given.
    BudgetError
        If no noise up to a million votes is enough.

    Examples
    --------
    >>> found = plan_noise(epsilon=1, delta=1e-5, labels=100, method="gnmax", accounting="published")
    >>> round(found.sigma, 1)
    69.3
    """
    ensemble = Ensemble(**settings)
    labels = integer_between("labels", labels, 1)
    if ensemble.noise is not None:
        name = VotingMethod(ensemble.method).noise_name
        raise InvalidParameterError(
            f"epsilon={epsilon!r}, labels={labels} and {name}={ensemble.noise!r} cannot all be given; "
            "leave one out to have it found."
        )
    if ensemble.method == VotingMethod.OPTIMAL and ensemble.shape is None:
        return optimal_vote(
            epsilon=epsilon,
            delta=delta,
            labels=labels,
            n_teachers=ensemble.n_teachers,
            n_partitions=ensemble.n_partitions,
            n_classes=ensemble.n_classes,
        ).plan
    found, meter = calibrated(ensemble, labels, Budget(epsilon=epsilon, delta=delta))
    return plan_of(found, meter, labels)
