"""Explain rows by a published student, or refuse."""

from __future__ import annotations

from numpy.typing import ArrayLike

from dpensemble.errors import InvalidParameterError
from dpensemble.moments.explanation import Explanation


def require_explainable(student: object) -> None:
    """Raise if a student has no explanation.

    Raises
    ------
    InvalidParameterError
        The message names methods whose students can be explained.
    """
    if hasattr(student, "explain"):
        return
    last = student.steps[-1][1] if hasattr(student, "steps") else student
    raise InvalidParameterError(
        f"explain cannot divide the predictions of a {type(last).__name__} among columns: use LabelMomentsClassifier "
        "or AutoClassifier without a student of your own, or DiscriminantClassifier.",
        parameter="explain",
    )


def explained(student: object, rows: ArrayLike, *, bands: bool) -> Explanation:
    """Return what each column adds to a student's logits."""
    require_explainable(student)
    explanation: Explanation = student.explain(rows, bands=bands)  # type: ignore[attr-defined]
    return explanation
