"""The interface of every release law, functions with a body for each kind of law, and the law of a noisy sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import update_wrapper
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import real_between
from dpensemble.errors import InvalidParameterError

# Enough to pay for rounding whenever accounting prices the mixture that is sampled.
_LEAST_MIX = 1e-6


def _own_settings(law: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are."""
    return {field.name: getattr(law, field.name) for field in fields(law)}


class ReleaseLaw(ABC):
    """A randomised answer to one query, as a probability vector.

    A law is a frozen dataclass. Its settings are public, and the counts are arguments. The same probabilities are
    sampled (`dpensemble.laws.sample`) and accounted (`dpensemble.accounting.price`), so the two cannot drift apart.

    Your own law needs `probabilities` only. For two classes the law is then priced exactly. For more classes it is
    priced exactly if all histograms can be listed, and otherwise by its `pure_epsilon`. If you pass a class that has
    `in_votes` and `usual`, its noise is searched like that of a law given by name.

    Attributes
    ----------
    name : str
        Short name, for ``law=`` and the command line. Empty for laws that are given as objects only.
    title : str
        Common name of the law.
    in_votes : tuple of str
        Settings in votes, the noise on the answer first. Empty if the law has none.
    usual : tuple of float
        Usual values of those settings, as shares of the number of ballots.
    variants : dict
        Values of further settings, by name, that the search for the noise tries.
    symmetric : bool
        Whether answers are permuted with the classes. Then few histograms stand for all. False is always safe.
    gated : bool
        Whether a query may go unanswered, as the outcome after the last class. Such a law has a `gate` and an `answer`.
    needs_student : bool
        Whether answers also depend on a student's predictions.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Proportional(ReleaseLaw):
    ...     title = "share of the votes, and a few more for everybody"
    ...     in_votes = ("extra",)
    ...     extra: float
    ...     def probabilities(self, counts):
    ...         raised = counts + self.extra
    ...         return raised / raised.sum(axis=1, keepdims=True)
    >>> Proportional(extra=5.0).probabilities(np.array([[9, 1]]))
    array([[0.7, 0.3]])
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = "law of one's own"
    in_votes: ClassVar[tuple[str, ...]] = ()
    usual: ClassVar[tuple[float, ...]] = ()
    variants: ClassVar[dict[str, tuple[Any, ...]]] = {}
    symmetric: ClassVar[bool] = False
    gated: ClassVar[bool] = False
    needs_student: ClassVar[bool] = False

    __slots__ = ()

    @abstractmethod
    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each outcome.

        Parameters
        ----------
        counts : ndarray of shape (n_queries, n_classes)
            Votes for each class. Weighted counts may be real, if one ballot never weighs less than 1. Private.

        Returns
        -------
        ndarray of shape (n_queries, n_outcomes)
            Rows sum to 1 up to rounding. The absolute error is at most 1e-14 an entry.
        """

    @classmethod
    def default(cls, ballots: int, n_classes: int) -> Self:  # noqa: ARG003
        """Return the law with its usual settings for a number of ballots.

        Raises
        ------
        InvalidParameterError
            If the law has no usual settings.
        """
        if not cls.usual:
            settings = " and ".join(item.name for item in fields(cls)) if is_dataclass(cls) else "its settings"
            raise InvalidParameterError(
                f"law={cls.name or cls.__name__!r} has no usual settings: give {settings} "
                f"(--law-NAME on the command line), or a {cls.__name__} object.",
                parameter="law",
            )
        return cls(**{name: share * ballots for name, share in zip(cls.in_votes, cls.usual, strict=True)})

    @property
    def noise(self) -> float:
        """Noise on the answer, in votes: the scale, sigma or reach. Larger is more private.

        Raises
        ------
        InvalidParameterError
            If the law has no noise.
        """
        return float(getattr(self, self._noise_name("noise")))

    def with_noise(self, noise: float) -> Self:
        """Return the law with other noise on the answer, in votes. Noise on a gate changes in proportion."""
        return replace(self, **{self._noise_name("with_noise"): noise})  # type: ignore[type-var]

    def scaled(self, factor: float) -> Self:
        """Return the law that answers counts `factor` times as large in the same way.

        Parameters
        ----------
        factor : float
            Counts in new units per count in old units, from 1e-12 to 1e12.

        Returns
        -------
        ReleaseLaw
            A law of the same type. ``law.scaled(f).probabilities(f * counts)`` is ``law.probabilities(counts)``.

        Raises
        ------
        InvalidParameterError
            If `factor` is out of range, or the law has no noise and no threshold on counts.

        Examples
        --------
        >>> from dpensemble.laws import ConfidentNoisyMax
        >>> ConfidentNoisyMax(threshold=200, threshold_sigma=150, sigma=40).scaled(0.5)
        ConfidentNoisyMax(threshold=100.0, threshold_sigma=75.0, sigma=20.0)
        """
        factor = real_between("factor", factor, 1e-12, 1e12)
        self._noise_name("scaled")
        return replace(self, **{name: getattr(self, name) * factor for name in self.in_votes})  # type: ignore[type-var]

    def pure_epsilon(self, votes: int) -> float | None:  # noqa: ARG002
        """Return the largest privacy loss of one answer when `votes` votes of a class change, or None if unknown.

        `votes` is how many votes of one class the change can take away, and give to others. The law declares the
        result. It is trusted when histograms are too many to list, and compared with the listed pairs otherwise. If the
        result is small, `mixing_weight` must return `dpensemble.laws.least_mixing_weight` of it.
        """
        return None

    def mixing_weight(self, n_classes: int) -> float:  # noqa: ARG002
        """Return the weight of the uniform law that the sampler mixes in.

        The weight must be large enough to pay for the rounding of `probabilities`. See `dpensemble.laws.sampling`.
        """
        return _LEAST_MIX

    def check_ballots(self, ballots: int, n_classes: int) -> None:  # noqa: B027
        """Refuse a number of ballots or classes that the law does not support, or warn about it."""

    def settings(self) -> dict[str, Any]:
        """Return the law's title and public settings as plain values."""
        return {"law": self.title} | (_own_settings(self) if is_dataclass(self) else {})

    def words(self) -> str:
        """Return the law's title and its numeric settings in words."""
        parts = [
            f"{name.replace('_', ' ')} {value:.6g}{' votes' if name in self.in_votes else ''}"
            for name, value in self.settings().items()
            if isinstance(value, int | float)
        ]
        return ", ".join([self.title, *parts])

    @classmethod
    def _noise_name(cls, asked: str) -> str:
        if not cls.in_votes:
            raise InvalidParameterError(
                f"law={cls.__name__} has no settings in votes, which {asked} needs: use a law that names them "
                "(in_votes), such as GaussianNoisyMax."
            )
        return cls.in_votes[0]


_Result = TypeVar("_Result")
_Body = TypeVar("_Body", bound=Callable[..., Any])


class ByLaw(Generic[_Result]):
    """A function of a law that runs the body registered for the law's very type, or else its default body.

    Subclasses inherit no body, as they would under `functools.singledispatch`. A subclass may answer otherwise than its
    parent, and the parent's price would then be false.
    """

    def __init__(self, default: Callable[..., _Result]) -> None:
        self._default, self._bodies = default, dict[type[ReleaseLaw], Callable[..., _Result]]()
        update_wrapper(self, default)

    def __call__(self, law: ReleaseLaw, *arguments: Any, **named: Any) -> _Result:
        """Run the body of the law's type."""
        return self._bodies.get(type(law), self._default)(law, *arguments, **named)

    def covers(self, kind: type[ReleaseLaw]) -> bool:
        """Return whether a type of law has a body of its own."""
        return kind in self._bodies

    def register(self, kind: type[ReleaseLaw]) -> Callable[[_Body], _Body]:
        """Return a decorator that makes a function the body of a type of law."""

        def keep(body: _Body) -> _Body:
            self._bodies[kind] = body
            return body

        return keep


@dataclass(frozen=True, slots=True)
class GaussianSum:
    """Gaussian noise on a sum of vectors that one unit can move by at most a fixed length, the sensitivity.

    A GaussianSum differs from a `dpensemble.laws.ReleaseLaw`: teachers answer with vectors instead of ballots, and the
    sum is released.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on every entry, in units of the sensitivity. The sensitivity is the length by
        which one unit can move the sum.

    Examples
    --------
    >>> GaussianSum(sigma=4.0).words()
    'Gaussian noise of 4 sensitivities on a sum of vectors'
    """

    name: ClassVar[str] = "gaussian-sum"
    title: ClassVar[str] = "Gaussian sum of soft votes"

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", real_between("sigma", self.sigma, 1e-9, 1e12))

    def words(self) -> str:
        """Return the noise in words, for reports."""
        return f"Gaussian noise of {self.sigma:.4g} sensitivities on a sum of vectors"

    def settings(self) -> dict[str, Any]:
        """Return the law as plain values."""
        return {"law": repr(self), "sigma": self.sigma}
