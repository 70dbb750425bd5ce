"""What all estimators of private classifiers have in common."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, ClassVar

from sklearn.base import BaseEstimator, ClassifierMixin

from dpensemble._given import ScoresGivenLabels
from dpensemble.engine.facts import Analysis
from dpensemble.engine.result import Result


def _view(name: str) -> Any:
    """Return a read-only attribute that shows one field of `result_`."""
    return property(attrgetter(f"result_.{name}"), doc=f"`Result.{name}` of the run.")


class PrivateClassifier(ScoresGivenLabels, ClassifierMixin, BaseEstimator):
    """A classifier whose `fit` stores ``result_``; the other attributes of the run are read-only views of that."""

    #: Whether `fit` takes tables, with texts and blanks as they are.
    takes_tables: ClassVar[bool] = False
    #: Whether `fit` takes budgets of records.
    takes_budgets: ClassVar[bool] = False
    #: Whether teachers vote, so that `fit` takes diagnostics.
    votes: ClassVar[bool] = False

    #: For what the guarantee holds, for methods that offer no other analysis.
    analysis: Any = Analysis.WORST_CASE

    result_: Result

    charges_ = _view("charges")
    classes_ = _view("classes")
    design_ = _view("design")
    drift_ = _view("drift")
    effects_ = _view("effects")
    guarantee_ = _view("guarantee")
    labels_ = _view("labels")
    law_ = _view("law")
    readable_share_ = _view("readable_share")
    recommendation_ = _view("recommendation")
    seconds_ = _view("seconds")
    spend_ = _view("spend")
    student_ = _view("student")

    @property
    def column_names(self) -> Any:
        """Names of the columns that `fit` saw. None when they have no names."""
        return vars(self).get("feature_names_in_")
