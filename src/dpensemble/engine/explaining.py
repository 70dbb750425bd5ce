"""Explain rows by a published student, or refuse."""

from __future__ import annotations

from typing import Any

from dpensemble.errors import InvalidParameterError
from dpensemble.moments.explanation import Explanation


def explained(student: Any, rows: Any, *, bands: bool) -> Explanation:
    """Return what each column adds to a student's logits.

    Raises
    ------
    InvalidParameterError
        If the student has no such explanation.
    """
    if hasattr(student, "explain"):
        explanation: Explanation = student.explain(rows, bands=bands)
        return explanation
    last = student.steps[-1][1] if hasattr(student, "steps") else student
    raise InvalidParameterError(
        f"explain cannot divide the predictions of a {type(last).__name__} among columns; use the own student of "
        "LabelMomentsClassifier, of DiscriminantClassifier or, if it chose label moments, of AutoClassifier.",
        parameter="explain",
    )
