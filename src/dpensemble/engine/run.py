"""The order of every run, and the joint cost of private fits on the same records in this process.

`run_steps` holds the order of the steps: prepare, announce, teach, charge and release, make the student and the result.
The caller may rehearse the later steps as soon as the run is prepared.

No single guarantee states the joint cost. Records are identified by hashes of their contents, in memory only. Losses
add up by basic composition: epsilons and deltas of all fits that used a record (C. Dwork and A. Roth, "The Algorithmic
Foundations of Differential Privacy", 2014, Theorem 3.16). This holds for methods of any kind. Fits with seeded noise
are not releases, and are not counted.

Rows are compared exactly, so the sums and the warning can depend on a single row, and no guarantee covers them. They
are for the owner of the records only.
"""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from time import perf_counter
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from dpensemble._checks import integer_between, member
from dpensemble._entries import Floats, Integers, Rows
from dpensemble._hide_private_rows import guard_private_rows, on_public_rows
from dpensemble._random import NoiseSource, Stream, noise_source, public_entropy, seed_sequence
from dpensemble._spending import Spending, announce, listen
from dpensemble._work import decisions_kept, passes_counted, progress_bar, require_memory
from dpensemble.datasets.columns import ComparedOnce, EqualRows, ReadBlocks, equal_rows, row_hashes, share_memory
from dpensemble.engine.classifier import PrivateClassifier
from dpensemble.engine.planned import Analysis
from dpensemble.engine.result import Result
from dpensemble.errors import EqualRowsWarning, InvalidParameterError, RepeatedReleaseWarning
from dpensemble.guarantee import Budget, budget_of_run
from dpensemble.relations import Basis, Relation
from dpensemble.rows.arguments import zeroes_bad
from dpensemble.student import default_student

# Below this share of known records, equal ones may be chance.
_ALIKE = 0.25
# At most this many records are remembered.
_MOST_RECORDS = 20_000_000
_INSIDE: ContextVar[bool] = ContextVar("inside a fit that is counted", default=False)
# What is warned of when the outermost fit has its result: a warning may be an error, which would lose the result.
_LATER: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("warnings after a fit", default=None)


class _Seen:
    """For each known record, the number of fits that used it, and their cost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self._hashes: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        # Of each record: fits, epsilon, delta, and the number of fits in the last warning.
        self._sums: Floats = np.empty((0, 4))

    def add(self, hashes: NDArray[np.uint64], epsilon: float, delta: float) -> tuple[int, Budget] | None:
        """Count one more fit. Return fits and cost of the most used record if a warning is due."""
        with self._lock:
            if len(self._hashes) > _MOST_RECORDS:
                self.forget()
            own = np.unique(hashes)
            places = np.searchsorted(self._hashes, own)
            repeated = np.zeros(len(own), dtype=bool)
            inside = places < len(self._hashes)
            repeated[inside] = self._hashes[places[inside]] == own[inside]
            self._sums[places[repeated]] += (1, epsilon, delta, 0)
            most = self._sums[places[repeated]].max(axis=0, initial=0)
            # Only at every doubling, because a search makes hundreds of fits.
            telling = bool(repeated.mean() >= _ALIKE and most[0] >= 2 * most[3])
            if telling:
                self._sums[places[repeated], 3] = most[0]
            new = own[~repeated]
            merged = np.concatenate([self._hashes, new])
            order = np.argsort(merged, kind="stable")
            first = (1.0, epsilon, delta, most[0] if telling else 1.0)
            sums = np.concatenate([self._sums, np.tile(first, (len(new), 1))])
            self._hashes, self._sums = merged[order], sums[order]
        cost = _budget(most)
        return (int(most[0]), cost) if telling and cost is not None else None

    def total(self) -> Budget | None:
        """Return the loss of the record that was in the costliest fits."""
        with self._lock:
            return _budget(self._sums.max(axis=0, initial=0)) if len(self._sums) else None


def _budget(sums: Floats) -> Budget | None:
    return Budget(epsilon=float(sums[1]), delta=min(float(sums[2]), 1 - 1e-9)) if sums[1] > 0 else None


_SEEN = _Seen()


def total_spent() -> Budget | None:
    """Return the joint cost of all private fits of this process, for the record that was in the costliest fits.

    Searches and cross-validation in one process are counted, but not in separate worker processes. Fits with seeded
    noise, `fit_blocks` and other processes are not counted. A `Ledger` keeps account of all of them.

    For the owner of the records only: the sums depend exactly on which private rows fits shared, and no guarantee
    covers them.

    Returns
    -------
    Budget or None
        The sum of epsilons and of deltas, or None if nothing was spent.

    Examples
    --------
    >>> from dpensemble import total_spent
    >>> total_spent() is None or total_spent().epsilon > 0
    True
    """
    return _SEEN.total()


@contextmanager
def _owner_warned(estimator: Any, X: Any, y: Any, X_public: Any = None) -> Iterator[None]:
    """Warn the owner if public rows are private records, and of the joint cost of fits on the same records.

    A fit that fails after its budget was announced counts as well.
    """
    if _INSIDE.get():
        yield
        return
    if X_public is not None and not share_memory(X, X_public):
        _warn_of_equal_rows(equal_rows(_dense(X), _dense(X_public)))
    # Hashed before anything is spent, so that counting a failed fit cannot fail.
    seeded = getattr(estimator, "insecure_release_seed", None) is not None
    announced: list[Spending] = []
    token, failed = _INSIDE.set(True), True
    try:
        with listen(announced.extend):
            yield
        failed = False
    finally:
        _INSIDE.reset(token)
        if announced:
            _count_if_released(estimator, X, y, announced, seeded=seeded, failed=failed)


def _dense(rows: Rows) -> Rows:
    return rows.toarray() if hasattr(rows, "tocsr") else rows


def _warn_of_equal_rows(equal: EqualRows | None) -> None:
    """Warn the owner if more public rows equal private records than chance explains."""
    if equal is None or not equal.beyond_chance:
        return
    warnings.warn(
        f"{equal.n_equal:,} of {equal.n_rows:,} public rows equal a private record in every column, which is more than "
        "chance. Public rows are published with the student and are not protected, so give rows of other people. "
        "This is for the owner of the records only, because it depends on them exactly.",
        EqualRowsWarning,
        stacklevel=8,
    )


def compared_once(read: ReadBlocks, public: Rows) -> ReadBlocks:
    """Return a reader of private blocks whose first pass compares them with public rows, and then warns the owner."""
    if public is None or _INSIDE.get():
        return read
    return ComparedOnce(read, public, _warn_of_equal_rows, getattr(read, "units", None))


@contextmanager
def uncounted() -> Iterator[None]:
    """Count no fits in the block, for example fits on public data."""
    token = _INSIDE.set(True)
    try:
        yield
    finally:
        _INSIDE.reset(token)


def _count_if_released(
    estimator: Any, X: Any, y: Any, announced: list[Spending], *, seeded: bool, failed: bool
) -> None:
    if failed:
        # A fit that failed after its announcement counts as having spent its whole budget.
        epsilon = max(one.epsilon for one in announced)
    else:
        seeded, epsilon = not estimator.guarantee_.for_release, estimator.guarantee_.epsilon
    if not seeded:
        _count(X, y, epsilon, max(one.delta for one in announced))


def _count(X: Any, y: Any, epsilon: float, delta: float) -> None:
    hashes = row_hashes(X, y)
    if hashes is None:
        return
    repeats = _SEEN.add(hashes, epsilon, delta)
    if repeats is not None:
        fits, cost = repeats
        warnings.warn(
            f"{fits} private fits in this process used the same records. Together they cost epsilon {cost.epsilon:.4g} "
            f"and delta {cost.delta:.4g} (the sums), not the figures of a single guarantee. Choose settings on public "
            "data instead; dpensemble.total_spent() returns the cost of all fits so far. This is for the owner of the "
            "records only, because it depends on them exactly.",
            RepeatedReleaseWarning,
            stacklevel=8,
        )


# Settings of estimators in a record.
_SHOWN = ("analysis", "relation", "max_labels", "random_state", "insecure_release_seed", "teacher_privacy")
_Estimator = TypeVar("_Estimator", bound=PrivateClassifier)


class Steps(ABC):
    """The steps of a run that a method supplies, after its input was checked. `run_steps` calls them in this order."""

    #: Name of the release in the seconds of a run, and title of its progress bar.
    stage: ClassVar[tuple[str, str]]
    #: Descriptions of teacher and student if the estimator names none.
    default_teacher: Any = LogisticRegression()
    design: Any
    meter: Any
    #: Epsilon and delta of the run, found once in `prepare` or before, and the rule that gave delta, if there is one.
    budget: Budget
    delta_rule: str | None = None
    #: The design of the rest of the run if a released sum raises an alarm, or None.
    after_alarm: Any = None
    #: What the run does if a released sum shows that one class has few cases, or None.
    if_rare: object = None
    #: What makes a run need less memory.
    less_memory: ClassVar[str] = "give fewer public rows or fewer columns"

    def __init__(self, method: Any) -> None:
        self.method, self.relation = method, member("relation", method.relation, Relation)
        self.entropy: int = public_entropy(method.random_state)
        self.noise: NoiseSource = noise_source(method.insecure_release_seed)

    def order(self, n_rows: int, max_labels: int | None) -> Integers:
        """Return the public rows to query, in a public order."""
        order = np.random.default_rng(seed_sequence(self.entropy, Stream.PUBLIC_ROWS)).permutation(n_rows)
        return order if max_labels is None else order[: integer_between("max_labels", max_labels, 1)]

    @staticmethod
    def budget_of(method: Any, n_units: int, fewest_units: int | None, *, has_units: bool) -> tuple[Budget, str]:
        """Return the budget of a method's run and the rule that gave delta. See `budget_of_run`."""
        return budget_of_run(
            method.epsilon,
            method.delta,
            member("relation", method.relation, Relation),
            n_units,
            fewest_units,
            has_units=has_units,
            zeroes_bad=zeroes_bad(method),
        )

    def find_budget(self, n_units: int, fewest_units: int | None, *, has_units: bool) -> None:
        """Find the budget of the run, or raise if delta would allow publishing one unit. See `budget_of_run`."""
        self.budget, self.delta_rule = self.budget_of(self.method, n_units, fewest_units, has_units=has_units)

    def warn_after_fit(self, message: str, category: type[Warning]) -> None:
        """Warn when the fit has its result, or at once outside of a fit."""
        later = _LATER.get()
        if later is None:
            warnings.warn(message, category, stacklevel=2)
        else:
            later.append((message, category))

    @abstractmethod
    def prepare(self) -> None:
        """Find `design` and `meter`, and raise if the run is impossible, before anything is fitted or drawn."""

    def memory(self) -> int | None:
        """Return about how many bytes the later steps need beside what is in memory now, from public facts.

        None if it is not known, and then nothing is refused.
        """
        return None

    @property
    def draws_to_teach(self) -> bool:
        """Whether fitting teachers already draws noise."""
        return False

    def teach(self) -> None:  # noqa: B027
        """Fit the teachers. By default there are none."""

    def costs(self) -> Sequence[Any] | None:
        """Return the most that each group will pay, as a Renyi curve, or None if the curve is not known."""
        costs: Sequence[Any] | None = self.meter.renyi_costs()
        return costs

    @property
    def n_steps(self) -> float | None:
        """Public number of steps of the release, for a progress bar. None if it is secret or one."""
        return None

    @abstractmethod
    def charge_and_release(self, advance: Callable[[float], None]) -> None:
        """Charge for the release, and draw it. The student is computed from the release and from public rows."""

    @abstractmethod
    def make_student(self) -> Any:
        """Return the student. It uses public rows and what was released."""

    @abstractmethod
    def make_result(self, student: Any) -> Result:
        """Return the result of the run. `run_steps` adds the spend curve, settings and seconds."""

    def spend_curve(self) -> Any:
        """Return the epsilon of each group by number of releases, or None if that is secret."""
        return self.meter.spend_curve()

    def default_student(self) -> Any:
        """Return the default student, or its description, if the estimator names none."""
        return default_student()


_PREPARED: ContextVar[Callable[[Steps], None] | None] = ContextVar("who waits for a prepared run", default=None)


@contextmanager
def once_prepared(act: Callable[[Steps], None] | None) -> Iterator[None]:
    """Call `act` with the steps of the first fit in the block that is prepared, before anything is drawn or charged."""
    token = _PREPARED.set(act)
    try:
        with decisions_kept():
            yield
    finally:
        _PREPARED.reset(token)


def run(
    estimator: _Estimator,
    checked: Callable[[], Steps],
    *,
    ledger: Any = None,
    records: tuple[Any, ...] | None = None,
) -> _Estimator:
    """Fit an estimator: check its input, run its steps, and store the result. A failure leaves it unchanged.

    `checked` checks the arguments of `fit`, and returns the steps. It runs inside the guard of private rows. The
    `ledger` is charged before noise is drawn, and may refuse. Repeated fits are counted by `records`, the unchanged
    input of `fit` with public rows if there are any, or None for records in blocks.
    """
    with guarded_fit(estimator, ledger, records):
        estimator.result_ = run_steps(checked())
    return estimator


def run_steps(steps: Steps) -> Result:
    """Run the steps in their order, and return the result. `guarded_fit` stands around it."""
    seconds: dict[str, float] = {}
    with _timed(seconds, "accounting"), progress_bar("Preparing the release", None):
        steps.prepare()
    needed = steps.memory()
    if needed is not None:
        # A run that ends for lack of memory has spent its budget.
        require_memory(needed, steps.less_memory)
    act = _PREPARED.get()
    if act is not None:
        _PREPARED.set(None)
        act(steps)
    if steps.draws_to_teach:
        announce(steps.design.groups, relation=steps.relation, delta_rule=steps.delta_rule)
    with _timed(seconds, "teachers"):
        steps.teach()
    # The only announcement of a release, before its noise is drawn.
    worst_case = steps.meter is None or steps.meter.basis is Basis.WORST_CASE
    groups, rule = steps.design.groups, steps.delta_rule
    announce(groups, steps.costs, worst_case=worst_case, relation=steps.relation, delta_rule=rule)
    stage, title = steps.stage
    with _timed(seconds, stage), progress_bar(title, steps.n_steps) as advance:
        steps.charge_and_release(advance)
    with _timed(seconds, "student"), progress_bar("Making the student", None), on_public_rows():
        student = steps.make_student()
    result = steps.make_result(student)
    with _timed(seconds, "accounting of the spend"):
        spend = steps.spend_curve()
    learners = {"teacher": steps.default_teacher, "student": steps.default_student()}
    result = replace(result, guarantee=replace(result.guarantee, delta_rule=steps.delta_rule), spend=spend)
    return replace(result, settings=_settings(steps), learners=_named(steps, learners), seconds=seconds)


def _settings(steps: Steps) -> dict[str, Any]:
    """Return the public settings of the estimator and of the design."""
    settings = {"analysis": steps.method.analysis} if steps.method.votes else {}
    settings |= steps.method.get_params(deep=False)
    return {name: settings[name] for name in _SHOWN if name in settings} | steps.design.settings()


def _named(steps: Steps, learners: dict[str, Any]) -> dict[str, str]:
    """Return descriptions of teacher and student: those of the estimator, or the defaults."""
    params = steps.method.get_params(deep=False)
    named = {role: usual if params.get(role) is None else params[role] for role, usual in learners.items()}
    return {role: " ".join(str(learner).split()) for role, learner in named.items()}


def require_account(ledger: object) -> None:
    """Raise if a ledger is given that is not the account of a data set."""
    if ledger is not None and not hasattr(ledger, "one_release"):
        raise InvalidParameterError(
            f"ledger must be a data set's account, e.g. Ledger(...).account('NAME'); got a {type(ledger).__name__}.",
            parameter="ledger",
        )


@contextmanager
def _warned_after() -> Iterator[None]:
    if _LATER.get() is not None:
        yield
        return
    later: list[tuple[str, type[Warning]]] = []
    token = _LATER.set(later)
    try:
        yield
    finally:
        _LATER.reset(token)
    for message, category in later:
        warnings.warn(message, category, stacklevel=7)


@contextmanager
def guarded_fit(estimator: Any, ledger: Any = None, records: tuple[Any, ...] | None = None) -> Iterator[None]:
    """Guard a fit: restore the estimator if the block fails, charge a ledger, count fits, and quote no private row."""
    require_account(ledger)
    # What an unknown setting states is not public.
    counted = getattr(estimator, "relation", None) == Relation.REPLACE_ONE.value
    counted = counted and getattr(estimator, "analysis", None) != Analysis.UNTIL_SPENT.value
    counting = nullcontext() if records is None else _owner_warned(estimator, *records)
    with _warned_after(), guard_private_rows(), counting, passes_counted(counted):
        before = dict(vars(estimator))
        try:
            with listen(None if ledger is None else ledger.one_release(type(estimator).__name__)):
                yield
        except BaseException:
            vars(estimator).clear()
            vars(estimator).update(before)
            raise


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    start = perf_counter()
    yield
    seconds[stage] = perf_counter() - start
