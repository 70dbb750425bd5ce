"""A classifier from noisy moments of labels: every unit is its own teacher, and answers with a vector."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import integer_between, member
from dpensemble._progress import progress_bar
from dpensemble._random import Stream, noise_source, public_entropy, seed_integer
from dpensemble._spending import announce
from dpensemble.accounting import WeightedGroup, weighted_groups
from dpensemble.allocation.partition import number_units
from dpensemble.allocation.units import declared_units
from dpensemble.budget import Budget
from dpensemble.budget_groups import personal_budgets
from dpensemble.datasets.bad_records import zeroes_bad
from dpensemble.datasets.notes import warn_of_persons
from dpensemble.design import SoftVotes, soft_votes
from dpensemble.engine import guarantee_text, inputs
from dpensemble.engine.moments_run import MomentsRun
from dpensemble.engine.on_tables import TableClassifier
from dpensemble.engine.params import store_params
from dpensemble.engine.records import ReleasedLabels, require_small_delta
from dpensemble.engine.voting import all_or_nothing
from dpensemble.errors import DataError, InvalidParameterError, UnlikeRowsWarning
from dpensemble.moments import MomentsSource, PrivateBlocks, blocks_of, column_effects, distilled, require_no_blanks
from dpensemble.relations import Relation
from dpensemble.student import marked, with_names

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
        public rows are taken (`DirectionsMap`) where those are at least 1,000. Where there are fewer than 200, or none,
        or they do not look like the private ones, a part of the budget buys how common each entry is and which go
        together, and synthetic rows are drawn by that.
    student : scikit-learn classifier, optional
        Trained on the published model's predictions for public rows. By default the model itself is the student.
    classes : sequence
        All possible labels. Must be declared: reading them off private labels would leak.
    declared_columns : mapping, optional
        Declares columns where there are no public rows: the range ``(low, high)`` of each column of numbers (entries
        outside are taken for its ends), and a list of categories for any other. Must not depend on private rows.
    rounds : int, optional
        Number of noisy sums of labels; by default 3 for two classes (4 with synthetic rows), and 2 for more.
    epsilon, delta
        As for `SubsampleAggregateClassifier`. All of the budget is used.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. Under the second the number of units is released with noise, too.
    random_state : int, RandomState or None
        Public seed of the distilled student; nothing else is drawn by chance but the noise.
    on_bad_record : {"raise", "zero"}, default="raise"
        What a record with an infinite entry, an undeclared label or a row that the map cannot read does. ``"raise"``
        refuses the run, which one person can then cause. ``"zero"``: the record adds nothing, and still counts.
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
    charges_ : tuple of dict
        ``sigma`` (noise in sensitivities), ``variance`` and ``entries`` of each released sum. Public.
    labels_ : ReleasedLabels
        The published model's label of every public row.
    drift_ : Drift
        Whether public rows look like the private ones, as far as what was released tells. May be published.
    readable_share_ : ReadableShare or None
        Estimated share of private records that could be read, with the standard deviation of its noise, where bad
        records add zeros and a mean of features was released. May be published.
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
        declared_columns: Mapping[Any, Sequence[Any]] | None = None,
        rounds: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
    ) -> None:
        store_params(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        plain = self.feature_map is None or hasattr(self.feature_map, "numeric_columns")
        tags.input_tags.allow_nan = plain and self.student is None
        tags.input_tags.string = True
        return tags

    def design(
        self,
        *,
        n_classes: int | None = None,
        groups: tuple[WeightedGroup, ...] | None = None,
        synthetic_rows: bool | None = None,
    ) -> SoftVotes:
        """Return everything public about a run with these settings, before any record is touched."""
        synthetic = self.declared_columns is not None if synthetic_rows is None else synthetic_rows
        if n_classes is None:
            n_classes = 2 if self.classes is None else len(self.classes)
        n_classes = integer_between("n_classes", n_classes, 2)
        everyone = (WeightedGroup(_EVERYONE, Budget(epsilon=self.epsilon, delta=self.delta)),)
        return soft_votes(
            name=self.name,
            title=self.title,
            groups=everyone if groups is None else groups,
            n_classes=n_classes,
            rounds=((4 if synthetic else 3) if n_classes == 2 else 2) if self.rounds is None else self.rounds,
            relation=self.relation,
            synthetic_rows=synthetic,
        )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        personal_epsilons: ArrayLike | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
        **others: Any,
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
            Public, unlabelled rows with the same columns; needed unless columns are declared.
        units : array-like of shape (n_records,), optional
            Whom each record belongs to; all records of one unit are protected together, and share one weight.
        personal_epsilons : array-like of shape (n_records,), optional
            Epsilon of each record (and of all of its unit's) in place of ``epsilon``: records with a smaller one weigh
            less. Which record has which is taken to be public. Replace-one only.
        ledger : LedgerAccount, optional
            Account of the records in a `dpensemble.ledger.Ledger`, which is charged before noise is drawn, and refuses.
        fewest_units : int, optional
            Public lower bound on the number of units (of records, without `units`), with which delta is compared under
            add-or-remove-one, where the number itself is private. By default delta is at most 0.01 then.
        **others
            Nothing: ``sample_weight`` is refused, and the reason given.

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
        inputs.refuse_others(others)
        with all_or_nothing(self, ledger, (X, y)):
            X, y, public = inputs.tables(self, X, inputs.required(y), X_public)
            X, classes, targets = inputs.table_targets(self, X, y)
            units, present = inputs.whose(self, units, len(targets))
            X, targets = inputs.having_unit(present, X, targets)
            personal_epsilons = inputs.values_having_unit("personal_epsilons", personal_epsilons, present)
            units_of = _numbered(units, len(targets))
            weights, groups, total = self._weights(units_of, personal_epsilons)
            self._check_delta(int(units_of.max()) + 1, "records" if units is None else "units", fewest_units)
            self._learn(blocks_of(X, targets, weights), public, classes, groups, total, has_units=units is not None)
            return self

    def fit_blocks(
        self,
        read: Callable[[], Iterator[tuple[Any, Any]]],
        *,
        X_public: Any = None,
        n_records: int | None = None,
        units: ArrayLike | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
    ) -> LabelMomentsClassifier:
        """Fit to private records that come in blocks, and need not be in memory together.

        With the same seed of the noise the release is that of `fit` on all records together, to the last bit: sums
        are of whole numbers.

        Parameters
        ----------
        read : callable
            Returns an iterator over blocks ``(X, y)``, called once a round: the same records in the same order.
        X_public : DataFrame or array-like of shape (n_public, n_columns)
            Public, unlabelled rows with the same columns; needed unless columns are declared.
        n_records : int, optional
            Number of private records; by default they are counted, in one more pass, which also checks them before
            anything is spent. Not used under add-or-remove-one, where it is private.
        units : array-like of shape (n_records,), optional
            Whom each record belongs to, in the order of `read`; a unit's records may lie in any blocks.
        ledger : LedgerAccount, optional
            As for `fit`.
        fewest_units : int, optional
            As for `fit`.

        Returns
        -------
        self
        """
        with all_or_nothing(self, ledger):
            public = inputs.public_table(self, X_public)
            validate_data(self, public, skip_check_array=True)
            classes = inputs.class_ids(self, np.asarray(self.classes))[0]

            n_of_units = 0 if units is None else len(np.asarray(units))
            units, present = inputs.whose(self, units, n_of_units)
            units_of = None if units is None else _numbered(units, int(present.sum()))
            weights = None if units_of is None else _weights_of_records(units_of, present)

            def blocks() -> Iterator[tuple[Any, Integers, Floats]]:
                done = 0
                for X, y in read():
                    if len(X) != len(y):
                        raise DataError(f"a block has {len(X)} rows and {len(y)} labels; give one for each.")
                    if not len(X):
                        continue
                    table = inputs.block(self, X, public, first=done)
                    table, _, targets = inputs.table_targets(self, table, y, first=done)
                    done += len(targets)
                    own = np.ones(len(targets)) if weights is None else weights[done - len(targets) : done]
                    if len(own) != len(targets):
                        raise DataError("units has fewer entries than blocks have records; give one for each.")
                    if weights is not None:
                        table, targets, own = inputs.having_unit(present[done - len(own) : done], table, targets, own)
                    yield from blocks_of(table, targets, own)()
                if weights is not None and done != len(weights):
                    raise DataError("units has more entries than blocks have records; give one for each.")

            n = sum(len(targets) for _, targets, _ in blocks()) if n_records is None else n_records
            n = integer_between("n_records", n if units_of is None else int(units_of.max(initial=-1)) + 1, 1, 2**40)
            self._check_delta(n, "records" if units is None else "units", fewest_units)
            self._learn(blocks, public, classes, None, float(n), has_units=units is not None)
            return self

    def _check_delta(self, n_units: int, noun: str, fewest_units: int | None) -> None:
        budget, relation = Budget(epsilon=self.epsilon, delta=self.delta), member("relation", self.relation, Relation)
        require_small_delta(budget, relation, n_units, noun, fewest_units)

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
        values = inputs.one_per_record("personal_epsilons", epsilons, len(units_of))
        personal = personal_budgets(values, delta=self.delta)
        units = np.bincount(personal.group_of_unit(units_of), minlength=personal.n_groups)
        groups = weighted_groups(personal.names, personal.budgets)
        parts = [group.weight for group in groups]
        return weights * np.asarray(parts)[personal.group_of_record], groups, float(units @ np.asarray(parts))

    def _learn(
        self,
        read: Callable[[], Iterator[tuple[Any, Integers, Floats]]],
        public: Any,
        classes: NDArray[Any],
        groups: tuple[WeightedGroup, ...] | None,
        total: float,
        *,
        has_units: bool,
    ) -> None:
        """Release the rounds, fit the model, train the student and state the guarantee."""
        start = perf_counter()
        if not has_units:
            warn_of_persons(public)
        require_no_blanks(self.student, public)
        run = MomentsRun.of(self, public, classes, groups, total)
        noise, meter = noise_source(self.insecure_release_seed), run.design.meter()
        source = MomentsSource(
            blocks=PrivateBlocks(
                read,
                run.transform,
                alone=run.reads_alone(has_units, zeroes_bad=zeroes_bad(self)),
                zeroes_bad=zeroes_bad(self),
                n_features=0 if run.feature_map is None else len(run.feature_map.blocks_),
            ),
            n_classes=len(classes),
            nonnegative=run.nonnegative,
            relation=run.design.relation,
            meter=meter,
            noise=noise,
        )
        announce(run.design.groups, meter.renyi_costs, relation=run.design.relation)
        with progress_bar("Releasing moments", run.design.rounds) as advance:
            learned = run.learn(source, advance)
        design = run.after_alarm if learned.synthetic and run.after_alarm is not None else run.design
        self.drift_, self.readable_share_ = learned.drift, learned.readable
        if learned.drift is not None and learned.drift.alarm:
            warnings.warn(learned.drift.warning(replaced=learned.synthetic), UnlikeRowsWarning, stacklevel=4)
        seconds = {"moments": perf_counter() - start}
        start = perf_counter()
        model = Pipeline([("encoder", learned.feature_map), ("student", learned.model)])
        self.model_ = marked(
            with_names(model, inputs.names_of(public), n_columns=public.shape[1]), for_release=noise.for_release
        )
        entropy = public_entropy(self.random_state)
        self.student_ = self.model_
        if self.student is not None:
            # Synthetic rows may have blanks by chance of the noise.
            rows = learned.table.dropna() if learned.synthetic else learned.table
            student = distilled(self.student, self.model_, rows, seed_integer(entropy, Stream.STUDENT))
            self.student_ = marked(
                with_names(student, inputs.names_of(public), n_columns=public.shape[1]), for_release=noise.for_release
            )
        seconds["student"] = perf_counter() - start
        self.effects_ = column_effects(learned.feature_map, learned.model.coefficients_, learned.table)
        found = np.empty(0, dtype=classes.dtype)
        if len(public):
            found = classes[np.asarray(self.model_.predict_proba(public)).argmax(axis=1)]
        self.classes_, self.moments_ = classes, learned.rounds
        self.labels_ = ReleasedLabels(np.arange(len(public)), found, len(public))
        self.design_, self.law_, self.seconds_ = design, design.law, seconds
        # No rows, but what kinds of columns they have.
        self.columns_ = public.iloc[:0]
        self.spend_, self.charges_ = meter.spend_curve(), meter.charges
        told = guarantee_text.of_moments(design.relation, has_units, len(meter.groups) > 1)
        self.guarantee_ = guarantee_text.of_sums(
            meter, design.relation, told, has_units=has_units, for_release=noise.for_release
        )


def _weights_of_records(units_of: Integers, present: NDArray[np.bool_]) -> Floats:
    """Return each record's share of its unit; 0 for records without a unit, which are left out of every sum."""
    weights = np.zeros(len(present))
    weights[present] = 1 / np.bincount(units_of)[units_of]
    return weights


def _numbered(units: ArrayLike | None, n_records: int) -> Integers:
    if units is None:
        return np.arange(n_records)
    known = np.asarray(units)
    if known.dtype.kind in "iu" and known.shape == (n_records,) and n_records:
        return np.unique(known, return_inverse=True)[1]
    return number_units(declared_units(units, n_records))[1]
