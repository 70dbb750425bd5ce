"""What a fitted estimator says of its run, which an estimator around it says too."""

from __future__ import annotations

from typing import Any

#: Attributes of a run that every estimator has.
_ALWAYS = ("classes_", "design_", "guarantee_", "labels_", "law_", "seconds_", "spend_")
#: Attributes of some, with what stands for them elsewhere.
_SOMETIMES: dict[str, Any] = {"charges_": None, "drift_": None, "effects_": [], "readable_share_": None}


def take_results(estimator: Any, fitted: Any) -> None:
    """Give an estimator the results of the estimator that it has fitted.

    Parameters
    ----------
    estimator : estimator
        A wrapper; certificates, reports and ledgers ask it as they ask any other.
    fitted : estimator
        The fitted one within.
    """
    for name in _ALWAYS:
        setattr(estimator, name, getattr(fitted, name))
    for name, default in _SOMETIMES.items():
        setattr(estimator, name, getattr(fitted, name, default))
