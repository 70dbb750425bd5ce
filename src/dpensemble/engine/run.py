"""The order of every run: check, design, meter, announce, teach, release, learn, state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from time import perf_counter
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpensemble._announce import announce, listen
from dpensemble._arrays import Integers
from dpensemble._checks import integer_between, member
from dpensemble._hide_private_rows import guard_private_rows, on_public_rows
from dpensemble._progress import progress_bar
from dpensemble._random import NoiseSource, Stream, noise_source, public_entropy, seed_sequence
from dpensemble.engine.classifier import PrivateClassifier
from dpensemble.engine.repeats import counted
from dpensemble.engine.result import Result
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Basis, Relation
from dpensemble.student.fitting import default_student

# Settings of estimators in a record.
_SHOWN = ("analysis", "relation", "max_labels", "random_state", "insecure_release_seed", "teacher_privacy")
Estimator = TypeVar("Estimator", bound=PrivateClassifier)


class Steps(ABC):
    """The steps of a run that a method supplies, after its input was checked. `run` calls them in this order."""

    #: Name of the release in the seconds of a run, and title of its progress bar.
    stage: ClassVar[tuple[str, str]]
    #: Descriptions of teacher and student if the estimator names none.
    default_teacher: Any = LogisticRegression()
    design: Any
    meter: Any

    def __init__(self, method: Any) -> None:
        self.method, self.relation = method, member("relation", method.relation, Relation)
        self.entropy: int = public_entropy(method.random_state)
        self.noise: NoiseSource = noise_source(method.insecure_release_seed)

    def order(self, n_rows: int, max_labels: int | None) -> Integers:
        """Return the public rows to query, in a public order."""
        order = np.random.default_rng(seed_sequence(self.entropy, Stream.PUBLIC_ROWS)).permutation(n_rows)
        return order if max_labels is None else order[: integer_between("max_labels", max_labels, 1)]

    @abstractmethod
    def prepare(self) -> None:
        """Find `design` and `meter`, and raise if the run is impossible, before anything is fitted or drawn."""

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
    def release(self, advance: Callable[[float], None]) -> None:
        """Charge for the release, and draw it. The student is computed from the release and from public rows."""

    @abstractmethod
    def learn(self) -> Any:
        """Return the student. It uses public rows and what was released."""

    @abstractmethod
    def state(self, student: Any) -> Result:
        """Return the result of the run. `run` adds the spend curve, settings and seconds."""

    def spend_curve(self) -> Any:
        """Return the epsilon of each group by number of releases, or None if that is secret."""
        return self.meter.spend_curve()

    def default_student(self) -> Any:
        """Return the default student, or its description, if the estimator names none."""
        return default_student()


def run(
    estimator: Estimator,
    checked: Callable[[], Steps],
    *,
    ledger: Any = None,
    records: tuple[Any, ...] | None = None,
) -> Estimator:
    """Fit an estimator: check its input, run its steps, and store the result. A failure leaves it unchanged.

    `checked` checks the arguments of `fit`, and returns the steps. It runs inside the guard of private rows. The
    `ledger` is charged before noise is drawn, and may refuse. Repeated fits are counted by `records`, the unchanged
    input of `fit` with public rows if there are any, or None for records in blocks.
    """
    with all_or_nothing(estimator, ledger, records):
        estimator.result_ = _run(checked())
    return estimator


def _run(steps: Steps) -> Result:
    seconds: dict[str, float] = {}
    with _timed(seconds, "accounting"):
        steps.prepare()
    if steps.draws_to_teach:
        announce(steps.design.groups, relation=steps.relation)
    with _timed(seconds, "teachers"):
        steps.teach()
    # The only announcement of a release, before its noise is drawn.
    worst_case = steps.meter is None or steps.meter.basis is Basis.WORST_CASE
    announce(steps.design.groups, steps.costs, worst_case=worst_case, relation=steps.relation)
    stage, title = steps.stage
    with _timed(seconds, stage), progress_bar(title, steps.n_steps) as advance:
        steps.release(advance)
    with _timed(seconds, "student"), on_public_rows():
        student = steps.learn()
    result = steps.state(student)
    with _timed(seconds, "accounting of the spend"):
        spend = steps.spend_curve()
    learners = {"teacher": steps.default_teacher, "student": steps.default_student()}
    return replace(result, spend=spend, settings=_settings(steps), learners=_named(steps, learners), seconds=seconds)


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


@contextmanager
def all_or_nothing(estimator: Any, ledger: Any = None, records: tuple[Any, ...] | None = None) -> Iterator[None]:
    """Guard a fit: restore the estimator if the block fails, charge a ledger, count fits, and quote no private row."""
    if ledger is not None and not hasattr(ledger, "one_release"):
        raise InvalidParameterError(
            f"ledger must be a data set's account, e.g. Ledger(...).account('NAME'); got a {type(ledger).__name__}.",
            parameter="ledger",
        )
    with guard_private_rows(), nullcontext() if records is None else counted(estimator, *records):
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
