"""The one recipe of a run: check, design, meter, announce, teach, release, learn, state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from time import perf_counter
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpensemble._arrays import Integers
from dpensemble._checks import integer_between, member
from dpensemble._guard import guard_private_rows, on_public_rows
from dpensemble._progress import progress_bar
from dpensemble._random import NoiseSource, Stream, noise_source, public_entropy, seed_sequence
from dpensemble._spending import announce, listen
from dpensemble.engine.classifier import PrivateClassifier
from dpensemble.engine.repeats import counted
from dpensemble.engine.result import Result
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Basis, Relation
from dpensemble.student.fitting import default_student

# Settings of estimators that a record shows.
_SHOWN = ("analysis", "relation", "max_labels", "random_state", "insecure_release_seed", "teacher_privacy")
Estimator = TypeVar("Estimator", bound=PrivateClassifier)


class Steps(ABC):
    """What a method supplies to a run whose input was checked. `run` calls these methods in this order."""

    #: Name of the release among the seconds of a run, and title of its progress bar.
    stage: ClassVar[tuple[str, str]]
    #: Teacher and student in words, when the estimator names none.
    default_teacher: Any = LogisticRegression()
    design: Any
    meter: Any

    def __init__(self, method: Any) -> None:
        self.method, self.relation = method, member("relation", method.relation, Relation)
        self.entropy: int = public_entropy(method.random_state)
        self.noise: NoiseSource = noise_source(method.insecure_release_seed)

    def order(self, n_rows: int, max_labels: int | None) -> Integers:
        """Return the public rows to ask about, in a public order."""
        order = np.random.default_rng(seed_sequence(self.entropy, Stream.PUBLIC_ROWS)).permutation(n_rows)
        return order if max_labels is None else order[: integer_between("max_labels", max_labels, 1)]

    @abstractmethod
    def prepare(self) -> None:
        """Find `design` and `meter`, and refuse what cannot be run, before anything is fitted or drawn."""

    @property
    def draws_to_teach(self) -> bool:
        """Whether noise is drawn already when teachers are fitted."""
        return False

    def teach(self) -> None:  # noqa: B027
        """Fit the teachers. By default there are none."""

    def costs(self) -> Sequence[Any] | None:
        """Return the most that each group will pay as a Renyi curve, when that is known."""
        costs: Sequence[Any] | None = self.meter.renyi_costs()
        return costs

    @property
    def n_steps(self) -> float | None:
        """Public number of steps of the release, for a progress bar. None when that is secret or one."""
        return None

    @abstractmethod
    def release(self, advance: Callable[[float], None]) -> None:
        """Charge for what is released, and draw it. The student follows from that and from public rows."""

    @abstractmethod
    def learn(self) -> Any:
        """Return the student. It sees public rows and what was released."""

    @abstractmethod
    def state(self, student: Any) -> Result:
        """Return what the run gave; `run` adds the spend curve, settings and seconds."""

    def spend_curve(self) -> Any:
        """Return the epsilon of each group after a number of releases. None when that is secret."""
        return self.meter.spend_curve()

    def default_student(self) -> Any:
        """Return the student that is used when the estimator names none, or its description."""
        return default_student()


def run(
    estimator: Estimator,
    checked: Callable[[], Steps],
    *,
    ledger: Any = None,
    records: tuple[Any, Any] | None = None,
) -> Estimator:
    """Fit an estimator: check what it was given, run its steps, and store the result; as it was, if anything fails.

    `checked` checks what `fit` was given, and returns the steps; it is called inside the guard of private rows. The
    `ledger` is charged before noise is drawn, and may refuse. Repeated fits are counted by `records`, as they were
    given; None for records in blocks.
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
    # The one announcement of a release, before its noise is drawn.
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
    asked = {"analysis": steps.method.analysis} if steps.method.votes else {}
    asked |= steps.method.get_params(deep=False)
    return {name: asked[name] for name in _SHOWN if name in asked} | steps.design.settings()


def _named(steps: Steps, learners: dict[str, Any]) -> dict[str, str]:
    """Return teacher and student in words: those of the estimator, else the usual ones."""
    given = steps.method.get_params(deep=False)
    named = {role: usual if given.get(role) is None else given[role] for role, usual in learners.items()}
    return {role: " ".join(str(learner).split()) for role, learner in named.items()}


@contextmanager
def all_or_nothing(estimator: Any, ledger: Any = None, records: tuple[Any, Any] | None = None) -> Iterator[None]:
    """Guard a fit: restore the estimator if the block fails, let a ledger pay, count fits, and quote no private row."""
    if ledger is not None and not hasattr(ledger, "one_release"):
        raise InvalidParameterError(
            f"ledger is a {type(ledger).__name__}, not the account of a data set; pass Ledger(...).account('NAME').",
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
