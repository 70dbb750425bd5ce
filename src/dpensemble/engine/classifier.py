"""The base of all private classifiers, for rows of numbers and for tables, and the texts of their guarantees."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._checks import names_checked
from dpensemble._entries import Floats, Rows, in_blocks, is_table, read_rows, require_rows
from dpensemble.accounting import Meter
from dpensemble.datasets.frames import ScoresGivenLabels, takes_any_frame
from dpensemble.engine.planned import Analysis
from dpensemble.engine.result import Result
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import GroupGuarantee, Guarantee
from dpensemble.moments.model import Explanation
from dpensemble.relations import Relation
from dpensemble.releases import SumsMeter
from dpensemble.rows import arguments
from dpensemble.student import class_probabilities

UNITS_TOGETHER = (
    "A unit is all records that share a value of the unit column, for example those of one person; "
    "they are protected together."
)
FIRST_EVENT = (
    "A unit is all records that share a value of the unit column, for example those of one person; the first event "
    "counts, or without events the last time."
)
_UNIT_ORDER = "Neighbouring data sets list their units in the same order, each by its first record."
_RELEASE = (
    "Only the released labels and what is computed from them (the student) are published; teachers and votes stay "
    "secret."
)
_RELEASE_TELLS_NUMBER = (
    "The number of labels is not protected: anybody who sees the released labels, or a student that reveals their "
    "number, sees it; teachers and votes stay secret."
)
_COMMON = (
    "Public rows, declared classes, settings and seeds do not depend on the private records.",
    "The guarantee covers what a run publishes. It does not cover whether the run finished or was refused.",
    "This covers one training run. The losses of further runs on the same records add to it.",
)
#: The public membership of groups.
MEMBERSHIP = {
    Relation.REPLACE_ONE: "Which group a record (or unit) belongs to is public, and so is the size of each group; "
    "neighbouring data sets differ within one group.",
    Relation.ADD_OR_REMOVE_ONE: "The groups and their declared shares are public, and so is which group a record "
    "(or unit) would belong to.",
}


def texts_of_voting(relation: Relation, has_units: bool, meter: Meter) -> tuple[str, ...]:
    """Return the assumptions of the guarantee of any method that votes, one sentence each."""
    assumptions = []
    if has_units:
        assumptions.append(UNITS_TOGETHER)
        if relation is Relation.REPLACE_ONE:
            assumptions.append(_UNIT_ORDER)
    return (*assumptions, _RELEASE if meter.fixed_number else _RELEASE_TELLS_NUMBER, *_COMMON)


def texts_of_numbers(relation: Relation, has_units: bool, by_group: bool) -> tuple[str, ...]:
    """Return the assumptions of the guarantee of moments of a number, one sentence each."""
    changes = {"declared classes": "the declared range", "its student and labels": "its predictions and intervals"}
    return _texts_with(changes, relation, has_units, by_group=by_group)


def texts_of_times(relation: Relation, has_units: bool) -> tuple[str, ...]:
    """Return the assumptions of the guarantee of moments of times until an event, one sentence each."""
    changes = {
        "declared classes": "declared bins and codes",
        "its student and labels": "its risks and curves",
        UNITS_TOGETHER: FIRST_EVENT,
    }
    return _texts_with(changes, relation, has_units)


def _texts_with(
    changes: Mapping[str, str], relation: Relation, has_units: bool, *, by_group: bool = False
) -> tuple[str, ...]:
    """Return the assumptions of label moments, with other words for what a method has in place of classes."""
    texts = texts_of_moments(relation, has_units, by_group)
    for old, new in changes.items():
        texts = tuple(text.replace(old, new) for text in texts)
    return texts


def texts_of_moments(relation: Relation, has_units: bool, by_group: bool) -> tuple[str, ...]:
    """Return the assumptions of the guarantee of label moments, one sentence each."""
    assumptions = [UNITS_TOGETHER] if has_units else []
    if by_group:
        assumptions.append(MEMBERSHIP[relation])
    return (
        *assumptions,
        "Only the noisy moments and what is computed from them (the model, its student and labels) are published.",
        "The feature map was made from public rows, declarations and earlier releases, and transforms each row "
        "independently of the others.",
        *_COMMON,
    )


def texts_of_answers(relation: Relation, has_units: bool, by_group: bool) -> tuple[str, ...]:
    """Return the assumptions of the guarantee of averages of teachers' answers, one sentence each."""
    assumptions = []
    if has_units:
        assumptions.append(UNITS_TOGETHER)
    if has_units and relation is Relation.REPLACE_ONE:
        assumptions.append(_UNIT_ORDER)
    if by_group:
        assumptions.append(MEMBERSHIP[relation])
    return (
        *assumptions,
        "Only the noisy average of the teachers' answers and what is computed from it (the student, its labels) are "
        "published; teachers and their own answers stay secret.",
        *_COMMON,
    )


def guarantee_of_sums(
    meter: SumsMeter, relation: Relation, assumptions: tuple[str, ...], *, has_units: bool, for_release: bool
) -> Guarantee:
    """Return the guarantee of noisy sums that a meter has charged."""
    groups = [
        GroupGuarantee(name=group.name, epsilon=epsilon, budget=group.budget.epsilon)
        for group, epsilon in zip(meter.groups, meter.group_epsilons, strict=True)
    ]
    return Guarantee(
        epsilon=meter.spent_epsilon,
        delta=meter.budget.delta,
        basis=meter.basis,
        relation=relation,
        unit="unit" if has_units else "record",
        accounting=meter.accounting,
        assumptions=assumptions,
        for_release=for_release,
        groups=tuple(groups) if len(groups) > 1 else (),
    )


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


# Methods that take rows.
_READERS = frozenset(
    {
        *("fit", "fit_blocks", "predict", "predict_proba", "score", "explain"),
        *("predict_median", "predict_quantile", "predict_interval"),
        *("predict_risk", "predict_survival_function", "predict_cumulative_hazard_function"),
    }
)


def _field_of_result(name: str) -> Any:
    """Return a read-only attribute that shows one field of `result_`."""
    return property(attrgetter(f"result_.{name}"), doc=f"`Result.{name}` of the run.")


class PrivateEstimator(BaseEstimator, metaclass=ABCMeta):
    """An estimator whose `fit` stores ``result_``. The run's other attributes are read-only views of its fields."""

    #: Whether `fit` takes tables with texts and blanks.
    takes_tables: ClassVar[bool] = False
    #: Whether `fit` compares public rows with private ones, and so takes the units of public rows.
    compares_public_rows: ClassVar[bool] = False
    #: Whether `fit` takes budgets of records.
    takes_budgets: ClassVar[bool] = False
    #: Whether teachers vote, so that `fit` takes diagnostics.
    votes: ClassVar[bool] = False

    #: Data sets that the guarantee covers, for methods that offer no other analysis.
    analysis: Any = Analysis.WORST_CASE

    result_: Result

    charges_ = _field_of_result("charges")
    design_ = _field_of_result("design")
    drift_ = _field_of_result("drift")
    guarantee_ = _field_of_result("guarantee")
    readable_share_ = _field_of_result("readable_share")
    seconds_ = _field_of_result("seconds")
    spend_ = _field_of_result("spend")
    student_ = _field_of_result("student")

    @property
    def column_names(self) -> Any:
        """Names of the columns that `fit` got, or None if they have no names."""
        return vars(self).get("feature_names_in_")

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Let every method that takes rows read frames of any library, also without the decorator `takes_any_frame`."""
        super().__init_subclass__(**kwargs)
        for name in _READERS & vars(cls).keys():
            setattr(cls, name, takes_any_frame(vars(cls)[name]))

    @abstractmethod
    def _new_rows(self, X: Any) -> Any:
        """Return checked rows in the form that the student takes."""

    @takes_any_frame
    def explain(self, X: ArrayLike, *, bands: bool = True) -> Explanation:
        """Return what each column adds to what the student computes for rows. This costs no privacy.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to explain.
        bands : bool, default=True
            Whether to compute standard deviations of contributions by the known noise, which takes longer.

        Returns
        -------
        Explanation
            Contributions relative to the public mean. They add up to the logits of each row. For a number they add up
            to the prediction before the range cuts it, or to a logarithm, as ``explanation.output`` states.

        Raises
        ------
        InvalidParameterError
            If the student cannot be explained exactly. The message names the methods whose students can.
        """
        check_is_fitted(self)
        return explained(self.student_, self._new_rows(X), bands=bands)

    def _in_blocks(self, X: Rows, read: Callable[[Rows], Rows]) -> Rows:
        """Return what `read` makes of checked rows, block by block. Errors name rows of the whole."""
        try:
            return in_blocks(X, lambda rows: read(self._new_rows(rows)))
        except DataError:
            if not is_table(X):
                self._new_rows(X)
            raise


class PrivateClassifier(ScoresGivenLabels, ClassifierMixin, PrivateEstimator):
    """A private estimator of classes."""

    classes_ = _field_of_result("classes")
    effects_ = _field_of_result("effects")
    labels_ = _field_of_result("labels")
    law_ = _field_of_result("law")
    recommendation_ = _field_of_result("recommendation")

    @takes_any_frame
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the student's label for each row. This costs no privacy.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels among ``classes_``.
        """
        check_is_fitted(self)
        labels: NDArray[Any] = self._in_blocks(X, self.student_.predict)
        return labels

    @takes_any_frame
    def predict_proba(self, X: Any) -> Floats:
        """Return the student's class probabilities for each row. This costs no privacy.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self._in_blocks(X, lambda rows: class_probabilities(self.student_, rows, self.classes_))


class ArrayClassifier(PrivateClassifier):
    """A classifier of rows of numbers."""

    teacher: Any
    student: Any

    def _takes_nan(self) -> bool:
        return _take_nan(self.teacher, self.student)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_nan()
        return tags

    def _new_rows(self, X: ArrayLike) -> NDArray[np.float64]:
        finite: Any = "allow-nan" if self._takes_nan() else True
        require_rows("X", X)
        with names_checked():
            return read_rows(
                "X", lambda: validate_data(self, X, dtype=np.float64, ensure_all_finite=finite, reset=False)
            )


class ReadsTables(PrivateEstimator):
    """An estimator whose student takes rows in the form of the training rows."""

    takes_tables: ClassVar[bool] = True
    compares_public_rows: ClassVar[bool] = True
    #: A table without rows, with the kinds of its columns.
    columns_: Any
    #: The step that reads entries as public rows write them, or None.
    preparation_: object = None

    def _new_rows(self, X: Any) -> Any:
        if self.preparation_ is not None:
            # The student begins with that step.
            return self.student_.in_order(X)
        return arguments.new_rows(self, X, self.columns_)


class TableClassifier(ReadsTables, PrivateClassifier):
    """A classifier of tables."""

    @takes_any_frame
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row. This costs no privacy."""
        # A student may know only some classes.
        places = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[places]
        return labels


def _take_nan(*learners: Any) -> bool:
    """Return whether all of these learners accept NaN for missing entries. None does not."""
    return all(one is not None and get_tags(one).input_tags.allow_nan for one in learners)
