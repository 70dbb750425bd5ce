"""How useful a run is: shares of released labels, and warnings about teachers for their owner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from dpensemble.engine.result import Result
from dpensemble.engine.voting_steps import PrivateDiagnostics
from dpensemble.workflow.reader import Reader
from dpensemble.workflow.tables import Tables

# Shares of teachers above which a warning is given.
_MANY_FAILED, _MOST_CONSTANT = 0.1, 0.5
# A baseline is accurate enough with this many rows.
_MOST_ROWS, _FOLDS = 5_000, 3


def label_shares(result: Result, answers: Any, truth: pd.Series | None) -> dict[str, Any]:
    """Return shares computed from released labels, the student and public rows. They cost no privacy."""
    shares: dict[str, Any] = {"answers": {str(label): float(np.mean(answers == label)) for label in result.classes}}
    labels = result.labels
    if result.voted:
        shares["released_labels"] = _shares(labels.labels, answers[labels.indices])
    if truth is not None:
        shares["public_truth"] = _shares(truth.to_numpy(), answers)
    return shares


def _shares(labels: Any, answers: Any) -> dict[str, float]:
    commonest = float(pd.Series(labels).value_counts(normalize=True).max())
    return {"most_common": commonest, "student": float(np.mean(labels == answers))}


def public_alone(reader: Reader, tables: Tables) -> dict[str, Any]:
    """Return how good a model of only the public labels is, if there are labels. It uses no private record."""
    if tables.y_public is None or tables.data_is_public:
        return {}
    X, y = tables.X_public, tables.y_public.to_numpy()
    if len(y) > _MOST_ROWS:
        chosen = np.random.default_rng(0).choice(len(y), _MOST_ROWS, replace=False)
        X, y = X.iloc[chosen], y[chosen]
    if len(set(y)) < 2 or min(np.unique(y, return_counts=True)[1]) < _FOLDS:
        return {}
    rows = reader.encoded(X)
    # Numbers may be too large to be squared.
    if not np.isfinite(rows).all():
        return {}
    accuracies = cross_val_score(LogisticRegression(C=0.1, max_iter=1000), rows, y, cv=_FOLDS)
    return {"public_alone": {"rows": len(y), "accuracy": float(accuracies.mean())}}


def about_teachers(diagnostics: PrivateDiagnostics, n_teachers: int | None) -> tuple[str, ...]:
    """Return warnings about the teachers. They are for the owner of the private records only."""
    if not n_teachers:
        return ()
    warnings = []
    if diagnostics.n_failed > _MANY_FAILED * n_teachers:
        warnings.append(
            f"{diagnostics.n_failed:,} of {n_teachers:,} teachers could not be fitted, and vote for the most common "
            "label of their own records; check the teacher's settings, or use fewer teachers."
        )
    if diagnostics.n_constant > _MOST_CONSTANT * n_teachers:
        warnings.append(
            f"{diagnostics.n_constant:,} of {n_teachers:,} teachers saw records of only one label, and always vote for "
            "it: use fewer teachers."
        )
    return tuple(warnings)
