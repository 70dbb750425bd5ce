"""A classifier from noisy moments of labels: every unit is its own teacher, and answers with a vector."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import integer_between, member
from dpensemble._progress import progress_bar
from dpensemble._random import Stream, noise_source, public_entropy, seed_integer
from dpensemble._spending import about_to_spend
from dpensemble.accounting import WeightedGroup, gaussian_mu
from dpensemble.allocation.partition import number_units
from dpensemble.budget import Budget
from dpensemble.consent import personal_budgets
from dpensemble.datasets import same_columns
from dpensemble.design import SoftVotes, soft_votes
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import GroupGuarantee, Guarantee
from dpensemble.methods import inputs, promises
from dpensemble.methods.base import all_or_nothing
from dpensemble.methods.on_tables import TableClassifier
from dpensemble.methods.records import ReleasedLabels
from dpensemble.methods.settings import keep
from dpensemble.moments import (
    MEAN_SHARE,
    Learned,
    MomentsSource,
    PrivateBlocks,
    blocks_of,
    bounded_map,
    column_effects,
    distilled,
    learn,
)
from dpensemble.relations import Relation

_EVERYONE = "everyone"


class LabelMomentsClassifier(TableClassifier):
    """Private classifier by noisy moments of labels: no teachers are trained, and public rows need no labels.

    The logistic loss of a linear student needs of the labels only their *moments*, the sums of features over the
    records of each class. Every unit adds one bounded vector to such a sum, and the sum is released with Gaussian
    noise; public rows say the rest. Further rounds release what the labels add to what the student so far expects,
    which a public map's features weigh less and less. All rounds are fitted together, with prior scales by
    evidence, so nothing is tuned.

    Parameters
    ----------
    feature_map : scikit-learn transformer, optional
        Turns rows into features; cloned and fitted on public rows. By default tables are read column by column:
        numbers at several scales, categories, and missing entries (`TableMap`), of which the principal directions over
        public rows are taken (`DirectionsMap`) where those are at least 1,000.
    student : scikit-learn classifier, optional
        Trained on the published model's predictions for public rows. By default the model itself is the student.
    classes : sequence
        All possible labels. Must be declared: reading them off private labels would leak.
    rounds : int, optional
        Number of noisy sums; by default 3 for two classes, and 2 for more.
    epsilon, delta
        As for `SubsampleAggregateClassifier`. All of the budget is used.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. Under the second the number of units is released with noise, too.
    random_state : int, RandomState or None
        Public seed of the distilled student; nothing else is drawn by chance but the noise.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment and marks the guarantee "not for release".

    Attributes
    ----------
    student_ : scikit-learn classifier
        The published model, or the student that was trained on its predictions; takes rows as they were given.
    model_ : Pipeline
        Feature map and published model. May be published.
    moments_ : tuple of Moments
        What was released in each round. May be published.
    guarantee_ : Guarantee
        What is promised.
    design_ : SoftVotes
        Groups, rounds, noise. Public.
    labels_ : ReleasedLabels
        The published model's label of every public row.
    drift_ : Drift
        Whether public rows look like the private ones, as far as what was released tells. May be published.
    effects_ : list of dict
        How far each column of a table pushes towards each class, the most important column first. May be published.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    Method and proof are this library's (`dpensemble.moments`); exact trade-off: B. Balle and Y.-X. Wang, ICML 2018,
    and J. Dong, A. Roth and W. Su, JRSS B 2022.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 4)); y = (X[:, 0] > 0).astype(int)
    >>> model = LabelMomentsClassifier(classes=[0, 1], epsilon=1.0, insecure_release_seed=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 4)))
    >>> bool(model.score(X, y) > 0.9), model.guarantee_.epsilon <= 1.0
    (True, True)
    """

    name: ClassVar[str] = "label-moments"
    title: ClassVar[str] = "Label moments"

    def __init__(
        self,
        feature_map: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        rounds: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        random_state: Any = None,
        insecure_release_seed: int | None = None,
    ) -> None:
        keep(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        plain = self.feature_map is None or hasattr(self.feature_map, "numeric_columns")
        tags.input_tags.allow_nan = plain and self.student is None
        tags.input_tags.string = True
        return tags

    def design(self, *, n_classes: int | None = None, groups: tuple[WeightedGroup, ...] | None = None) -> SoftVotes:
        """Return everything public about a run with these settings, before any record is touched."""
        if n_classes is None:
            n_classes = 2 if self.classes is None else len(self.classes)
        everyone = (WeightedGroup(_EVERYONE, Budget(epsilon=self.epsilon, delta=self.delta)),)
        return soft_votes(
            name=self.name,
            title=self.title,
            groups=everyone if groups is None else groups,
            n_classes=n_classes,
            rounds=(3 if n_classes == 2 else 2) if self.rounds is None else self.rounds,
            relation=self.relation,
        )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        personal_epsilons: ArrayLike | None = None,
    ) -> LabelMomentsClassifier:
        """Release noisy moments of the private labels, and fit the student to them.

        Every call is a release of its own: the losses of several fits on the same records add up.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_records, n_columns)
            Private records: numbers, truth values or texts; NaN or None where an entry is missing.
        y : array-like of shape (n_records,)
            Private labels, all among ``classes``.
        X_public : DataFrame or array-like of shape (n_public, n_columns)
            Public, unlabelled rows with the same columns.
        units : array-like of shape (n_records,), optional
            Whom each record belongs to; all records of one unit are protected together, and share one weight.
        personal_epsilons : array-like of shape (n_records,), optional
            Epsilon of each record (and of all of its unit's) in place of ``epsilon``: records with a smaller one weigh
            less. Which record has which is taken to be public. Replace-one only.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If a setting is out of range.
        DataError
            If rows or labels cannot be used, or there are no public rows.
        BudgetError
            If delta is not below 1 / n_units.
        """
        with all_or_nothing(self):
            X, y, public = inputs.tables(self, X, inputs.required(y), X_public)
            classes, targets = inputs.class_ids(self, y)
            units_of = _numbered(units, len(targets))
            weights, groups, total = self._weights(units_of, personal_epsilons)
            Budget(epsilon=self.epsilon, delta=self.delta).check_delta_for(
                int(units_of.max()) + 1, "records" if units is None else "units"
            )
            design = self.design(n_classes=len(classes), groups=groups)
            self._learn(blocks_of(X, targets, weights), public, classes, design, total, has_units=units is not None)
            return self

    def fit_blocks(
        self, read: Callable[[], Iterator[tuple[Any, Any]]], *, X_public: Any, n_records: int | None = None
    ) -> LabelMomentsClassifier:
        """Fit to private records that come in blocks, and need not be in memory together; every record is a unit.

        Parameters
        ----------
        read : callable
            Returns an iterator over blocks ``(X, y)``, called once a round: the same records in the same order.
        X_public : DataFrame or array-like of shape (n_public, n_columns)
            Public, unlabelled rows with the same columns.
        n_records : int, optional
            Number of private records; by default they are counted, in one more pass. Not used under
            add-or-remove-one, where it is private.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            _, _, public = inputs.tables(self, X_public, None, X_public)
            classes = inputs.class_ids(self, np.asarray(self.classes))[0]

            def blocks() -> Iterator[tuple[Any, Integers, Floats]]:
                for X, y in read():
                    table = same_columns("private", X, public)
                    targets = inputs.class_ids(self, np.asarray(y))[1]
                    if len(table) != len(targets):
                        raise DataError(f"a block has {len(table)} rows and {len(targets)} labels; give one for each.")
                    yield table, targets, np.ones(len(targets))

            n = sum(len(targets) for _, targets, _ in blocks()) if n_records is None else n_records
            Budget(epsilon=self.epsilon, delta=self.delta).check_delta_for(integer_between("n_records", n, 1, 2**40))
            self._learn(blocks, public, classes, self.design(n_classes=len(classes)), float(n), has_units=False)
            return self

    def _weights(
        self, units_of: Integers, epsilons: ArrayLike | None
    ) -> tuple[Floats, tuple[WeightedGroup, ...] | None, float]:
        """Return records' weights, groups where budgets differ, and the sum of units' weights from public counts."""
        weights = 1 / np.bincount(units_of)[units_of]
        n_units = int(units_of.max()) + 1
        if epsilons is None:
            return weights, None, float(n_units)
        if self.relation != Relation.REPLACE_ONE:
            raise InvalidParameterError(
                f"personal_epsilons need relation='replace-one', not {self.relation!r}, under which the number of "
                "records in each group would be private."
            )
        values = np.asarray(epsilons)
        inputs.require_one_per_record("personal_epsilons", values, len(units_of))
        personal = personal_budgets(values, delta=self.delta)
        units = np.bincount(personal.group_of_unit(units_of), minlength=personal.n_groups)
        allowed = [gaussian_mu(budget.epsilon, budget.delta) for budget in personal.budgets]
        parts = [one / max(allowed) for one in allowed]
        groups = tuple(map(WeightedGroup, personal.names, personal.budgets, parts))
        return weights * np.asarray(parts)[personal.group_of_record], groups, float(units @ np.asarray(parts))

    def _learn(
        self,
        read: Callable[[], Iterator[tuple[Any, Integers, Floats]]],
        public: Any,
        classes: NDArray[Any],
        design: SoftVotes,
        total: float,
        *,
        has_units: bool,
    ) -> None:
        """Release the rounds, fit the model, train the student and state the guarantee."""
        start = perf_counter()
        feature_map = bounded_map(
            self.feature_map,
            n_public=len(public),
            n_rows=int(total) if design.relation is Relation.REPLACE_ONE else len(public),
            n_classes=len(classes),
            epsilon=self.epsilon,
        ).fit(public)
        if not (feature_map.nonnegative_ and design.relation is Relation.REPLACE_ONE):
            # Elsewhere the mean of features comes with the first round.
            design = replace(design, before=MEAN_SHARE)
        noise, meter = noise_source(self.insecure_release_seed), design.meter()
        source = MomentsSource(
            blocks=PrivateBlocks(
                read,
                feature_map.transform,
                # Where a unit can have more or fewer records, the others are at other places without it.
                alone=(has_units or design.relation is not Relation.REPLACE_ONE)
                and not getattr(feature_map, "reads_rows_alone", False),
            ),
            n_classes=len(classes),
            nonnegative=feature_map.nonnegative_,
            relation=member("relation", self.relation, Relation),
            meter=meter,
            noise=noise,
        )
        about_to_spend(design.groups)
        with progress_bar("Releasing moments", design.rounds) as advance:
            learned: Learned = learn(source, feature_map, public, classes, design, total, advance)
        self.drift_ = learned.drift
        if learned.drift is not None and learned.drift.alarm:
            warnings.warn(learned.drift.warning(), UserWarning, stacklevel=4)
        seconds = {"moments": perf_counter() - start}
        start = perf_counter()
        self.model_ = Pipeline([("encoder", feature_map), ("student", learned.model)])
        entropy = public_entropy(self.random_state)
        self.student_ = self.model_
        if self.student is not None:
            self.student_ = distilled(self.student, self.model_, public, seed_integer(entropy, Stream.STUDENT))
        seconds["student"] = perf_counter() - start
        self.effects_ = column_effects(feature_map, learned.model.coefficients_, public)
        found = classes[np.asarray(self.model_.predict_proba(public)).argmax(axis=1)]
        self.classes_, self.moments_ = classes, learned.rounds
        self.labels_ = ReleasedLabels(np.arange(len(public)), found, len(public))
        self.design_, self.law_, self.seconds_ = design, design.law, seconds
        # No rows, but what kinds of columns they have.
        self.columns_ = public.iloc[:0]
        self.spend_ = meter.spend_curve()
        self.guarantee_ = self._state(design, meter, noise.for_release, has_units)

    def _state(self, design: SoftVotes, meter: Any, for_release: bool, has_units: bool) -> Guarantee:
        groups = [
            GroupGuarantee(name=group.name, epsilon=epsilon, budget=group.budget.epsilon)
            for group, epsilon in zip(meter.groups, meter.group_epsilons, strict=True)
        ]
        return Guarantee(
            epsilon=meter.spent_epsilon,
            delta=meter.budget.delta,
            basis=meter.basis,
            relation=design.relation,
            unit="unit" if has_units else "record",
            accounting=meter.accounting,
            assumptions=promises.of_moments(design.relation, has_units, len(groups) > 1),
            for_release=for_release,
            groups=tuple(groups) if len(groups) > 1 else (),
        )


def _numbered(units: ArrayLike | None, n_records: int) -> Integers:
    if units is None:
        return np.arange(n_records)
    return number_units(inputs.declared_units(units, n_records))[1]
