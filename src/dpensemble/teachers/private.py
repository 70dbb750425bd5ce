"""Teachers whose votes are already private: private models, and ordinary teachers with noisy ballots.

Their privacy is declared, announced, or reported by their own accountant after the fit.

In an ordinary ensemble a shard of one class votes for it, a teacher whose fit fails votes for its shard's majority, and
seeds of fits are public. Each of these would undo a private teacher's privacy. So private teachers are fitted here:
on any records, with declared classes, and with randomness of the operating system only. A failure ends the run.
"""

from __future__ import annotations

import math
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from dpensemble._checks import delta_of, epsilon_of, integer_between, member, real_between
from dpensemble._random import NoiseSource
from dpensemble._work import private_workers
from dpensemble.clusters.cluster import refuse_cluster
from dpensemble.errors import InvalidParameterError, TeacherError
from dpensemble.laws import RandomizedResponse, sample
from dpensemble.relations import Relation
from dpensemble.releases.sums import DiscreteNoise
from dpensemble.votes import Votes, ballot_dtype

Privacy = tuple[float, float]

_MOST_TRIES = 200


class _PrivacyEngine(Protocol):
    """The part of Opacus' ``PrivacyEngine`` that is used."""

    def get_epsilon(self, delta: float) -> float:
        """Return the epsilon spent so far at a delta."""


def _claimed(claimant: Any, name: str, default: Any = None) -> Any:
    """Return an object's claim about its privacy. The object may be of any type."""
    return getattr(claimant, name, default)


class OpacusPrivacy:
    """The privacy of a model trained by DP-SGD, as Opacus accounts for it.

    Opacus accounts for one record added or removed, with batches drawn by Poisson sampling. Replacing a record is
    one removal and one addition, so (epsilon, delta) becomes ``(2 epsilon, (1 + exp(epsilon)) delta)``.

    Parameters
    ----------
    engine : opacus.PrivacyEngine
        Or any other object with ``get_epsilon(delta)``. It must have accounted for the whole training, and only for it.

    Examples
    --------
    >>> class Engine:
    ...     def get_epsilon(self, delta):
    ...         return 0.1 - 0.01 * math.log10(delta)
    >>> OpacusPrivacy(Engine()).privacy_spent_(1e-5)
    0.15000000000000002
    """

    relation = Relation.ADD_OR_REMOVE_ONE

    def __init__(self, engine: _PrivacyEngine) -> None:
        if not callable(_claimed(engine, "get_epsilon")):
            raise InvalidParameterError(
                f"engine={type(engine).__name__} must have get_epsilon(delta): give an Opacus PrivacyEngine."
            )
        self._engine = engine

    def privacy_spent_(self, delta: float) -> float:
        """Return the epsilon spent at a delta, for one record added or removed."""
        return float(self._engine.get_epsilon(delta_of(delta)))


def declared_privacy(epsilon: Any, delta: Any, n_teachers: int) -> tuple[Privacy, ...]:
    """Return the declared (epsilon, delta) of each teacher, given as one number for all or one per teacher."""
    n_teachers = integer_between("n_teachers", n_teachers, 1)
    epsilons, deltas = _one_per_teacher(epsilon, n_teachers), _one_per_teacher(delta, n_teachers)
    return tuple(
        (real_between("teacher_privacy", e, 1e-6, 100), real_between("delta of teacher_privacy", d, 0.0, 1 - 1e-9))
        for e, d in zip(epsilons, deltas, strict=True)
    )


def _announced_privacy(teacher: object, relation: Relation) -> Privacy | None:
    """Return the privacy that an unfitted teacher announces for each of its fits, or None without an announcement."""
    announced = _claimed(teacher, "announced_privacy")
    if not callable(announced):
        return None
    epsilon, delta = announced()
    epsilon, delta = epsilon_of(epsilon), real_between("delta", delta, 0.0, 1 - 1e-9)
    return _for_replacing(epsilon, delta) if _is_doubled(teacher, relation) else (epsilon, delta)


def _announced_zcdp(teacher: object, relation: Relation) -> float | None:
    """Return the zero-concentrated privacy that an unfitted teacher announces for each of its fits, or None."""
    announced = _claimed(teacher, "announced_zcdp")
    rho = announced() if callable(announced) else None
    if rho is None:
        return None
    # Replacing is a group of two (Bun and Steinke, "Concentrated differential privacy", 2016, Proposition 1.9).
    return real_between("zcdp", rho, 1e-30, 1e6) * (4 if _is_doubled(teacher, relation) else 1)


def _is_doubled(claimant: object, relation: Relation) -> bool:
    """Return whether a claim about adding or removing a record must hold for replacing one, and so counts twice."""
    own = _claimed(claimant, "relation")
    if own is None:
        return False
    own = member("relation of the teacher", own, Relation)
    if own is Relation.REPLACE_ONE and relation is Relation.ADD_OR_REMOVE_ONE:
        raise InvalidParameterError(
            f"relation={own.value!r} of the teacher does not cover adding or removing a record: use "
            "relation='replace-one'."
        )
    return own is not relation


def _for_replacing(epsilon: float, delta: float) -> Privacy:
    return 2 * epsilon, min((1 + math.exp(min(epsilon, 700.0))) * delta, 1 - 1e-9)


def privacy_before_fit(
    teacher: object,
    declared: tuple[object, object],
    n_teachers: int,
    has_units: bool,
    relation: Relation,
    n_classes: int,
    is_fresh: bool,
) -> tuple[tuple[Privacy, ...] | None, tuple[float, ...] | None, str]:
    """Return the privacy of each private teacher, and its basis, or None if only fitted models know the privacy.

    With `is_fresh`, every query has models of its own, whose privacy must be known before.
    """
    epsilon, delta = declared
    _refuse_seeds(teacher)
    _require_classes(teacher, n_classes)
    announced = _announced_privacy(teacher, relation)
    rho = None if announced is None else _announced_zcdp(teacher, relation)
    zcdp = None if rho is None else (rho,) * n_teachers
    name = type(teacher).__name__
    if has_units and announced is not None and not _protects_units(teacher):
        raise InvalidParameterError(
            f"units are given, and teacher={name} protects single records only: use private='ballots' (with "
            "max_labels and teacher_privacy), or a teacher of your own that holds for whole units: if each unit "
            "has one record, give no units."
        )
    if epsilon is not None:
        privacy = declared_privacy(epsilon, 0.0 if delta is None else delta, n_teachers)
        if announced is not None and any(announced[0] > e or announced[1] > d for e, d in privacy):
            raise InvalidParameterError(
                f"teacher={name} announces epsilon={announced[0]:g} and delta={announced[1]:g}, above what "
                "teacher_privacy declares: make them agree."
            )
        also = "" if rho is None else f", and {name}'s promise of zero-concentrated rho={rho:g}"
        return privacy, zcdp, f"what was declared (epsilon up to {max(e for e, _ in privacy):g}{also})"
    if has_units and announced is None:
        raise InvalidParameterError(
            f"units are given, and the accountant of teacher={name} covers single records only: declare a "
            "teacher_privacy that holds for whole units."
        )
    if announced is not None:
        also = "" if rho is None else f" at delta {announced[1]:g}, zero-concentrated at rho={rho:g}"
        return (announced,) * n_teachers, zcdp, f"what {name} promises (epsilon {announced[0]:g}{also})"
    if is_fresh:
        raise InvalidParameterError(
            f"teacher={name} announces no privacy before its fit: declare teacher_privacy=(epsilon, delta)."
        )
    if relation is Relation.ADD_OR_REMOVE_ONE:
        raise InvalidParameterError(
            f"teacher={name} reports its epsilon only after the fit, which may reveal the number of records, which "
            "relation='add-or-remove-one' keeps private: declare teacher_privacy=(epsilon, delta)."
        )
    return None, None, f"what the accountant of {name} reports after the fit"


def _spent_privacy(model: Any, delta: float, relation: Relation) -> Privacy:
    """Return the privacy of a fitted model: from its own accountant, its guarantee, or Opacus' engine."""
    guarantee = _claimed(model, "guarantee_")
    source = model if callable(_claimed(model, "privacy_spent_")) else None
    if source is None and guarantee is None and hasattr(model, "privacy_engine_"):
        source = OpacusPrivacy(model.privacy_engine_)
    if source is None and guarantee is None:
        raise InvalidParameterError(
            f"teacher={type(model).__name__} reports no privacy: declare "
            "teacher_privacy=(epsilon, delta), or give it privacy_spent_(delta), guarantee_ or privacy_engine_."
        )
    if guarantee is not None and not _claimed(guarantee, "for_release", True):
        raise TeacherError("a private teacher's own guarantee must be for release: train it without a seed.")
    if source is not None:
        twice, spent = _is_doubled(source, relation), source.privacy_spent_
        return (
            _spent_for_replacing(lambda d: _checked_epsilon(spent(d)), delta)
            if twice
            else (_checked_epsilon(spent(delta)), delta)
        )
    assert guarantee is not None  # noqa: S101
    epsilon, own = _checked_epsilon(guarantee.epsilon), real_between("delta", guarantee.delta, 0.0, 1 - 1e-9)
    return _for_replacing(epsilon, own) if _is_doubled(guarantee, relation) else (epsilon, own)


def _spent_for_replacing(spent: Callable[[float], float], delta: float) -> Privacy:
    """Return (2 epsilon, delta) of a removal and an addition. ``(1 + exp(epsilon))`` deltas of one must fit."""
    one = delta / 2
    for _ in range(_MOST_TRIES):
        epsilon = spent(one)
        if one * (1 + math.exp(epsilon)) <= delta:
            return 2 * epsilon, delta
        one = min(one / 2, delta / (1 + math.exp(epsilon)))
        if one < 1e-300:
            break
    raise TeacherError("a private teacher's epsilon is too large for replacing records: train it with a smaller one.")


def _checked_epsilon(epsilon: Any) -> float:
    """Return an accountant's epsilon, refusing NaN, infinity and negative numbers."""
    number = float(epsilon)
    if not 0 <= number < math.inf:
        raise TeacherError("a private teacher's accountant must report an epsilon that is a number from 0.")
    return max(number, 1e-9)


def _one_per_teacher(value: Any, n_teachers: int) -> list[Any]:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Sequence):
        values = list(value)
        if len(values) != n_teachers:
            raise InvalidParameterError(
                f"teacher_privacy must have one entry for all teachers or one each; got {len(values)} for {n_teachers}."
            )
        return values
    return [value] * n_teachers


_SEED = "insecure_release_seed"
# Words in the name of a setting, and types of values, that fix a teacher's random draws.
_SEEDLIKE = frozenset({"seed", "rng", "generator", "gen"})
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


_RESEEDING = threading.Lock()


class _Voters(Protocol):
    """Any object that votes on public rows."""

    @property
    def n_constant(self) -> int:
        """Number of teachers that vote a constant. Private."""

    @property
    def n_failed(self) -> int:
        """Number of teachers whose fit raised. Private."""

    def vote(self, X: NDArray[np.float64]) -> Votes:
        """Return every teacher's vote on each row."""


@dataclass(frozen=True, eq=False, repr=False)
class PrivateTeachers:
    """Private models, fitted once. All their votes are computed from them.

    Parameters
    ----------
    models : list of fitted classifiers
        One for each teacher.
    classes : ndarray of shape (n_classes,)
        Declared labels, sorted.
    """

    models: list[Any]
    classes: NDArray[Any]
    n_constant = n_failed = 0

    @classmethod
    def fit(
        cls,
        estimator: object,
        X: NDArray[np.float64],
        y: NDArray[np.int64],
        shards: Sequence[NDArray[np.int64]],
        *,
        classes: NDArray[Any],
        seeds: Sequence[int] | None,
        n_jobs: int | None,
        units: NDArray[np.int64] | None = None,
    ) -> PrivateTeachers:
        """Fit one clone of a private estimator on each shard. `seeds`, for experiments, are those of its noise.

        Estimators whose `fit` takes `units` receive the unit of each record, if units have several records.
        """
        _refuse_seeds(estimator)
        refuse_cluster("the noise of private teachers is drawn on this machine only")

        def tasks() -> Iterator[Any]:
            # Records are copied for one teacher at a time, since each of the models needs all of them.
            for t, shard in enumerate(shards):
                model = clone(estimator)
                settings = model.get_params()
                if settings.get("classes", 0) is None:
                    model.set_params(classes=classes.tolist())
                if seeds is not None and _SEED in settings:
                    model.set_params(**{_SEED: int(seeds[t])})
                own_units = {"units": units[shard]} if units is not None and has_fit_parameter(model, "units") else {}
                yield delayed(_fit)(model, X[shard], classes[y[shard]], own_units)

        models = Parallel(n_jobs=n_jobs, pre_dispatch="n_jobs", **private_workers())(tasks())
        failed = next((model for model in models if isinstance(model, str)), None)
        if failed is not None:
            raise TeacherError(
                f"a private teacher could not be fitted: {type(estimator).__name__}.fit raised {failed}; it must "
                "accept any records, also of one class."
            )
        return cls(models, classes)

    def spent_privacy(self, delta: float, relation: Relation) -> tuple[Privacy, ...]:
        """Return the privacy of each fitted model, as its own accountant reports it at a delta."""
        return tuple(_spent_privacy(model, delta, relation) for model in self.models)

    def vote(self, X: NDArray[np.float64]) -> Votes:
        """Return every teacher's vote on each row."""
        ballots = np.stack([_ids(model, X, self.classes) for model in self.models], axis=1)
        return Votes(ballots, n_classes=len(self.classes))


class _FreshBallots:
    """Voters whose ballots share no randomness between queries."""

    def drawing(self, drawn: int, noise: NoiseSource) -> _DrawnBallots:
        """Return a few of the ballots on every query."""
        return _DrawnBallots(cast("_Voters", self), drawn, noise)


@dataclass(frozen=True, eq=False, repr=False)
class FreshTeachers(_FreshBallots):
    """Private teachers that are fitted again for every query, so that queries share no randomness.

    Parameters
    ----------
    fit : callable
        Fits all teachers with randomness of their own.
    classes : ndarray of shape (n_classes,)
        Declared labels, sorted.
    """

    fit: Callable[[], PrivateTeachers]
    classes: NDArray[Any]
    n_constant = n_failed = 0

    def vote(self, X: NDArray[np.float64]) -> Votes:
        """Return every teacher's vote on each row. Each row gets new models."""
        ballots = [self.fit().vote(X[row : row + 1]).ballots for row in range(len(X))]
        empty = np.empty((0, 1), dtype=ballot_dtype(len(self.classes)))
        return Votes(np.concatenate(ballots) if ballots else empty, n_classes=len(self.classes))


@dataclass(frozen=True, eq=False, repr=False)
class _ByOthers:
    """Ballots made from those of other voters. The counts of constant and failed teachers are passed on."""

    voters: _Voters

    @property
    def n_constant(self) -> int:
        return self.voters.n_constant

    @property
    def n_failed(self) -> int:
        return self.voters.n_failed


@dataclass(frozen=True, eq=False, repr=False)
class RandomizedBallots(_ByOthers, _FreshBallots):
    """Randomized response on every ballot of any teachers, with new randomness for every query.

    A ballot is private for every kind of teacher: it costs an epsilon for each query and teacher, also if a row
    repeats.

    Parameters
    ----------
    voters : object with ``vote``, ``n_constant`` and ``n_failed``
        Ordinary teachers.
    epsilon : float
        Privacy of each ballot: the odds of the true one against each other class are ``exp(epsilon)``.
    noise : NoiseSource
        Source of the random bits.

    Examples
    --------
    >>> from dpensemble._random import SystemNoise
    >>> class Unanimous:
    ...     def vote(self, X):
    ...         return Votes(np.ones((len(X), 1000), dtype=int), n_classes=2)
    >>> ballots = RandomizedBallots(Unanimous(), 1.0, SystemNoise()).vote(np.zeros((1, 1)))
    >>> bool(600 < ballots.counts[0, 1] < 850)
    True
    """

    epsilon: float
    noise: NoiseSource

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", epsilon_of(self.epsilon))

    def vote(self, X: NDArray[np.float64]) -> Votes:
        """Return every teacher's randomised vote on each row."""
        votes = self.voters.vote(X)
        own = np.eye(votes.n_classes, dtype=np.int64)[votes.ballots.reshape(-1, order="C").astype(np.int64)]
        drawn = sample(RandomizedResponse(self.epsilon), own, self.noise)
        return Votes(drawn.reshape(votes.ballots.shape).astype(votes.ballots.dtype), n_classes=votes.n_classes)


def _require_classes(estimator: object, n_classes: int) -> None:
    """Refuse a private estimator of two classes when there are more."""
    if n_classes > 2 and not get_tags(estimator).classifier_tags.multi_class:
        raise InvalidParameterError(
            f"teacher={type(estimator).__name__} is for two classes, not {n_classes}: use private='models' with "
            "GradientPerturbedLogisticRegression, private='ballots', or a teacher of your own."
        )


def _protects_units(estimator: object) -> bool:
    """Return whether a private estimator's own claim holds for all records of a unit together."""
    # An estimator whose `fit` takes units receives them. Another estimator may declare that it does not need them.
    return has_fit_parameter(estimator, "units") or _claimed(estimator, "privacy_unit", "record") == "unit"


@dataclass(frozen=True, eq=False, repr=False)
class _DrawnBallots(_ByOthers):
    """A few ballots of `voters` on every query, drawn for each query from secret bits, each choice equally likely."""

    drawn: int
    noise: NoiseSource

    def vote(self, X: NDArray[np.float64]) -> Votes:
        """Return the ballots that count on each row, the same number on each."""
        votes = self.voters.vote(X)
        draws, (n_rows, n_ballots) = DiscreteNoise(self.noise), votes.ballots.shape
        drawn = np.empty((n_rows, self.drawn), dtype=votes.ballots.dtype)
        for row in range(n_rows):
            places = list(range(n_ballots))
            for k in range(self.drawn):
                # Fisher and Yates: each remaining ballot is equally likely.
                other = k + draws.below(n_ballots - k)
                places[k], places[other] = places[other], places[k]
            drawn[row] = votes.ballots[row, places[: self.drawn]]
        return Votes(drawn, n_classes=votes.n_classes)


def _refuse_seeds(estimator: Any) -> None:
    """Refuse a private estimator with a seed, since its clones would draw one noise, which others could repeat."""
    for name, value in estimator.get_params().items():
        own = name.split("__")[-1]
        seedlike = own == "random_state" or any(part in _SEEDLIKE for part in own.split("_"))
        if (seedlike and value is not None) or isinstance(value, _GENERATORS):
            raise InvalidParameterError(
                f"teacher has {name}={value!r}, with which the noise could be undone: leave it None."
            )


def _fit(model: Any, X: NDArray[np.float64], y: NDArray[Any], units: dict[str, Any]) -> Any:
    """Return the fitted model, or the name of the exception, whose text may quote records."""
    with warnings.catch_warnings(), parallel_config(max_nbytes=None), _fresh_global_randomness():
        warnings.simplefilter("ignore")
        try:
            return model.fit(X, y, **units)
        except Exception as error:
            return type(error).__name__


@contextmanager
def _fresh_global_randomness() -> Iterator[None]:
    """Reseed the global generators from the operating system. A script's seed must not reach a teacher's noise."""
    # Not restored, since a script's state would then reach teachers that other threads are fitting.
    with _RESEEDING:
        np.random.seed()  # noqa: NPY002
        random.seed()
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.seed()
    yield


def _ids(model: Any, X: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[np.unsignedinteger]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A copy for each, since a model that transforms rows in place must not affect the next ones.
        labels = np.asarray(model.predict(X.copy()))
    ids = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    if np.any(classes[ids] != labels):
        raise TeacherError("a private teacher must vote for declared classes only; one voted for another label.")
    return ids.astype(ballot_dtype(len(classes)))
