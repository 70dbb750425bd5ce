"""Teachers whose votes are already private: private models, and ordinary teachers with noisy ballots.

In an ordinary ensemble a shard of one class votes for it, a teacher whose fit fails votes for its shard's majority, and
seeds of fits are public. Each of these would undo a private teacher's privacy. So private teachers are fitted here:
on any records, with declared classes, and with randomness of the operating system only. A failure ends the run.
"""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from dpensemble._checks import epsilon_of
from dpensemble._random import NoiseSource
from dpensemble._workers import private_workers
from dpensemble.clusters.base import refuse_cluster
from dpensemble.errors import InvalidParameterError, TeacherError
from dpensemble.laws import RandomizedResponse, sample
from dpensemble.releases.sums import DiscreteNoise
from dpensemble.votes import Votes, ballot_dtype

SEED = "insecure_release_seed"
# Words in the name of a setting, and types of values, that fix a teacher's random draws.
_SEEDLIKE = frozenset({"seed", "rng", "generator", "gen"})
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


_RESEEDING = threading.Lock()


class Voters(Protocol):
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

    def vote(self, X: NDArray[np.float64]) -> Votes:
        """Return every teacher's vote on each row."""
        ballots = np.stack([_ids(model, X, self.classes) for model in self.models], axis=1)
        return Votes(ballots, n_classes=len(self.classes))


@dataclass(frozen=True, eq=False, repr=False)
class FreshTeachers:
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

    voters: Voters

    @property
    def n_constant(self) -> int:
        return self.voters.n_constant

    @property
    def n_failed(self) -> int:
        return self.voters.n_failed


@dataclass(frozen=True, eq=False, repr=False)
class RandomizedBallots(_ByOthers):
    """Randomized response on every ballot of any teachers, with new randomness for every query.

    A ballot is private for every kind of teacher: it costs an epsilon for each query and teacher, also if a row
    repeats.

    Parameters
    ----------
    voters : Voters
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


def require_classes(estimator: object, n_classes: int) -> None:
    """Refuse a private estimator of two classes when there are more."""
    if n_classes > 2 and not get_tags(estimator).classifier_tags.multi_class:
        raise InvalidParameterError(
            f"teacher={type(estimator).__name__} is for two classes, not {n_classes}: use private='models' with "
            "GradientPerturbedLogisticRegression, private='ballots', or a teacher of your own."
        )


def protects_units(estimator: object) -> bool:
    """Return whether a private estimator's own claim holds for all records of a unit together."""
    # An estimator whose `fit` takes units receives them. Another estimator may declare that it does not need them.
    return has_fit_parameter(estimator, "units") or getattr(estimator, "privacy_unit", "record") == "unit"


@dataclass(frozen=True, eq=False, repr=False)
class DrawnBallots(_ByOthers):
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


def fit_private(
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
    refuse_seeds(estimator)
    refuse_cluster("the noise of private teachers is drawn on this machine only")

    def tasks() -> Iterator[Any]:
        # Records are copied for one teacher at a time, since each of the models needs all of them.
        for t, shard in enumerate(shards):
            model = clone(estimator)
            settings = model.get_params()
            if settings.get("classes", 0) is None:
                model.set_params(classes=classes.tolist())
            if seeds is not None and SEED in settings:
                model.set_params(**{SEED: int(seeds[t])})
            own_units = {"units": units[shard]} if units is not None and has_fit_parameter(model, "units") else {}
            yield delayed(_fit)(model, X[shard], classes[y[shard]], own_units)

    models = Parallel(n_jobs=n_jobs, pre_dispatch="n_jobs", **private_workers())(tasks())
    failed = next((model for model in models if isinstance(model, str)), None)
    if failed is not None:
        raise TeacherError(
            f"a private teacher could not be fitted: {type(estimator).__name__}.fit raised {failed}; it must "
            "accept any records, also of one class."
        )
    return PrivateTeachers(models, classes)


def refuse_seeds(estimator: Any) -> None:
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
