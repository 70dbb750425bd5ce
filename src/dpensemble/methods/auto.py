"""Selects a method from public information only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import validate_data

from dpensemble._checks import declared_classes
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._work import decided
from dpensemble.datasets import fit_encoder
from dpensemble.datasets.frames import takes_any_frame
from dpensemble.datasets.public_facts import warn_of_columns
from dpensemble.engine.classifier import TableClassifier
from dpensemble.engine.planned import store_params
from dpensemble.engine.result import Recommendation
from dpensemble.engine.run import guarded_fit
from dpensemble.guarantee import Budget
from dpensemble.methods.label_moments import LabelMomentsClassifier
from dpensemble.methods.private_majority import PrivateMajorityClassifier
from dpensemble.relations import Relation
from dpensemble.rows import arguments
from dpensemble.rows.arguments import Owners, PreparedRows, zeroes_bad
from dpensemble.rows.checked import TableForm
from dpensemble.student import marked, with_names


@dataclass(frozen=True, slots=True, kw_only=True)
class _PublicFacts:
    """Public information about a run, which determines the method."""

    # 0 if columns are declared instead.
    n_public: int
    # Number of private records, or units. None if the number is private, too.
    n_units: int | None
    n_columns: int
    n_classes: int
    has_units: bool
    has_blanks: bool
    epsilon: float
    # Whether each record has an epsilon of its own.
    has_budgets: bool = False


# Votes are more accurate, or as accurate, if private records times epsilon are fewer, and public rows are at least this
# many and fewer than that. Measured (docs/methods.md).
_FEWEST_RECORDS, _FEWEST_PUBLIC, _MANY_PUBLIC = 500.0, 100, 1000
_VOTES = "Methods that vote (pate, private-majority and others) accept any base learner, and publish labels."


def _recommend(facts: _PublicFacts) -> Recommendation:
    """Return the method that public information selects."""
    if facts.has_budgets:
        return Recommendation(
            "label-moments",
            "It takes an epsilon for each record, and a record with a smaller epsilon weighs less.",
            "Personalised PATE (weighting-pate and others) publishes labels under such budgets.",
        )
    plain = facts.n_classes == 2 and not facts.has_units and not facts.has_blanks
    few = facts.n_units is not None and facts.n_units * facts.epsilon < _FEWEST_RECORDS
    if few and plain and _FEWEST_PUBLIC <= facts.n_public < _MANY_PUBLIC:
        return Recommendation(
            "private-majority",
            f"{facts.n_units:,} private records at epsilon={facts.epsilon:g} are too few for sums of many entries, and "
            "a vote has only one entry.",
            f"With more records, a larger epsilon or {_MANY_PUBLIC:,} public rows label-moments is better.",
        )
    if facts.n_public == 0:
        return Recommendation(
            "label-moments", "It is the only method of this library that needs no public rows.", _VOTES
        )
    return Recommendation(
        "label-moments",
        "On nineteen tables that a rule chose, its accuracy was the best of the private methods compared, or at most "
        "0.005 behind, in 25 of 32 measurements. In the others it was at most 0.017 behind.",
        _VOTES,
    )


class AutoClassifier(TableClassifier):
    """Private classifier by a method that is selected from public information.

    The choice depends on the numbers of public rows, private records and classes, and on units and blanks. It never
    depends on the content of private records. The attribute `recommendation_` holds the method and the reason.

    Parameters
    ----------
    student : scikit-learn classifier, optional
        The published classifier, as for the selected method.
    classes : sequence
        All possible labels. They must be declared, because reading them from private labels would leak information.
    columns : dict of str to str or "as given", optional
        The kind of a column, and how tables with texts are read. See `LabelMomentsClassifier`.
    declared_columns : mapping, optional
        Declares columns in a run without public rows. See `LabelMomentsClassifier`.
    epsilon, delta
        As for `SubsampleAggregateClassifier`.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation.
    random_state : int, RandomState or None
        Public seed.
    on_bad_record : {"raise", "zero"}, default="raise"
        What happens if a record has an infinite entry, an undeclared label or an unreadable row. ``"raise"`` stops
        the run, so one person can cause an error. ``"zero"``: the record adds nothing, but still counts.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment and marks the guarantee "not for release".
    n_jobs : int, optional
        Number of workers, as in joblib, for a method that fits teachers.

    Attributes
    ----------
    recommendation_ : Recommendation
        The method, the reason, and when another method is better.
    fitted_ : estimator
        The fitted estimator of that method.
    student_ : scikit-learn classifier
        The classifier that may be published. Takes rows in the form of the training rows.
    guarantee_, labels_, design_, classes_
        Those of the fitted estimator.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 4)); y = (X[:, 0] > 0).astype(int)
    >>> model = AutoClassifier(classes=[0, 1], insecure_release_seed=0).fit(X, y, X_public=rng.normal(size=(500, 4)))
    >>> model.recommendation_.method, bool(model.score(X, y) > 0.9)
    ('label-moments', True)
    """

    name: ClassVar[str] = "auto"
    title: ClassVar[str] = "Chosen by public facts"

    def __init__(
        self,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        columns: Mapping[str, str] | str | None = None,
        declared_columns: Mapping[Any, Sequence[Any]] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        relation: str = "replace-one",
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store_params(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.student is None
        tags.input_tags.string = True
        return tags

    @takes_any_frame
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        public_units: ArrayLike | None = None,
        personal_epsilons: ArrayLike | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
        **others: Any,
    ) -> AutoClassifier:
        """Select a method from public information, and fit it.

        Parameters
        ----------
        X, y, X_public, units, public_units, ledger, fewest_units, **others
            As for `LabelMomentsClassifier.fit`. Private majorities check `public_units` only.
        personal_epsilons : array-like of shape (n_records,), optional
            Epsilon of each record in place of ``epsilon``, as for `LabelMomentsClassifier.fit`, which is then always
            the selected method. Replace-one only.

        Returns
        -------
        self
        """
        arguments.refuse_others(others)
        with guarded_fit(self, ledger, (X, y, X_public)):
            rows = PreparedRows(self, X_public)
            rows.warn(units)
            X, y, public = arguments.checked_tables(self, rows.private(X), arguments.required(y), rows.X_public)
            # A wrong argument raises whichever method is chosen.
            numbers = arguments.public_unit_numbers(public_units, len(public))
            # A text as epsilon would end the choice of a method by another error.
            Budget.of(self.epsilon, self.delta)
            owners = Owners.of(units, len(X), zeroes=zeroes_bad(self))
            facts = _PublicFacts(
                n_public=len(public),
                n_units=owners.n_units if self.relation == Relation.REPLACE_ONE else None,
                n_columns=public.shape[1],
                n_classes=len(declared_classes(self.classes)),
                has_units=units is not None,
                has_blanks=bool(public.isna().to_numpy().any()),
                has_budgets=personal_epsilons is not None,
                epsilon=self.epsilon,
            )
            recommendation = decided("method", lambda: _recommend(facts))
            if recommendation.method == LabelMomentsClassifier.name:
                moments = LabelMomentsClassifier(**self._settings_without("n_jobs", "columns"))
                # The names of the columns that the model reads.
                validate_data(moments, public, skip_check_array=True)
                self.fitted_ = moments._fit_checked(X, y, public, owners, numbers, personal_epsilons, fewest_units)
                student = self.fitted_.student_
            else:
                self.fitted_, student = self._fitted_majority(X, y, public, units, fewest_units)
            self.columns_ = public.iloc[:0]
            self.result_ = replace(self.fitted_.result_, student=student, recommendation=recommendation)
            rows.publish(self)
            return self

    def _settings_without(self, *dropped: str) -> dict[str, Any]:
        """Return the settings that differ from None, for another method."""
        settings = self.get_params(deep=False).items()
        return {name: value for name, value in settings if value is not None and name not in dropped}

    def _fitted_majority(
        self, X: Any, y: Any, public: Any, units: ArrayLike | None, fewest_units: int | None
    ) -> tuple[PrivateMajorityClassifier, Any]:
        """Return a fitted private majority behind an encoder, and its student as a reader of tables."""
        declared = self.declared_columns is not None
        table, good = TableForm(public.iloc[:0], declared).converted(X, zeroes=zeroes_bad(self), first=0)
        warn_of_columns(public, has_unit=units is not None)
        with on_public_rows():
            encoder = fit_encoder(public)
        rows = np.array(encoder.transform(table), dtype=np.float64)
        # A row of NaN counts as bad.
        rows[~good] = np.nan
        majority = PrivateMajorityClassifier(**self._settings_without("columns", "declared_columns"))
        majority.fit(rows, y, X_public=encoder.transform(public), units=units, fewest_units=fewest_units)
        pipeline = Pipeline([("encoder", encoder), ("student", majority.student_)])
        student = with_names(pipeline, n_columns=public.shape[1])
        return majority, marked(student, for_release=majority.guarantee_.for_release)
