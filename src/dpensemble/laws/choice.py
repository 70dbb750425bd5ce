"""A choice of law: an object, or a short name with usual values for missing settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any

from dpensemble._checks import shown
from dpensemble.errors import InvalidParameterError
from dpensemble.laws.base import ReleaseLaw
from dpensemble.laws.majority import RandomizedResponseMajority
from dpensemble.laws.noisy_max import (
    AgainstStudent,
    ConfidentNoisyMax,
    ExponentialVote,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
)
from dpensemble.laws.optimal import OptimalVote
from dpensemble.laws.tables import RandomizedResponse, TableLaw

#: Laws by their short names.
LAWS: Mapping[str, type[ReleaseLaw]] = MappingProxyType(
    {
        law.name: law
        for law in (
            LaplaceNoisyMax,
            GaussianNoisyMax,
            ConfidentNoisyMax,
            InteractiveNoisyMax,
            OptimalVote,
            ExponentialVote,
            RandomizedResponse,
        )
    }
)
#: Types of laws whose declarations (symmetry, pure privacy) are proven here. Others are checked or not used.
LIBRARY_LAWS = frozenset({*LAWS.values(), TableLaw, RandomizedResponseMajority, AgainstStudent})


def is_proven(law: ReleaseLaw) -> bool:
    """Return whether a law's declarations are proven here. A subclass of such a law may answer otherwise."""
    return type(law) in LIBRARY_LAWS


@dataclass(frozen=True)
class LawChoice:
    """A law by its short name, with some of its settings, or a law as an object that stays unchanged.

    Parameters
    ----------
    kind : type of ReleaseLaw
        Class of the law.
    given : mapping
        Settings by name. The others are usual for the number of ballots.
    fixed : ReleaseLaw, optional
        The law itself, if an object was given.

    Examples
    --------
    >>> choice = LawChoice.of("confident-gnmax", threshold=150)
    >>> choice.law(250, 2), choice.noise_is_open
    (ConfidentNoisyMax(threshold=150.0, threshold_sigma=150.0, sigma=40.0), True)
    """

    kind: type[ReleaseLaw]
    given: Mapping[str, Any] = field(default_factory=dict)
    fixed: ReleaseLaw | None = None

    @classmethod
    def of(cls, law: ReleaseLaw | type[ReleaseLaw] | LawChoice | str, **given: Any) -> LawChoice:
        """Return the choice for an object, a class, a short name or a choice.

        Parameters
        ----------
        law : ReleaseLaw, type of ReleaseLaw, LawChoice or str
            The requested law. The noise of a class or a name is open.
        **given
            Further settings of a law by name. None counts as not given.

        Raises
        ------
        InvalidParameterError
            If the name is unknown, or the law does not have a setting.
        """
        given = {name: value for name, value in given.items() if value is not None}
        if isinstance(law, LawChoice):
            if law.fixed is not None:
                return cls.of(law.fixed, **given)
            return cls(law.kind, {**law.given, **_checked_settings(law.kind, given)})
        if isinstance(law, ReleaseLaw):
            given = _checked_settings(type(law), given)
            return cls(type(law), given, replace(law, **given) if given else law)  # type: ignore[type-var]
        if isinstance(law, type) and issubclass(law, ReleaseLaw) and is_dataclass(law):
            return cls(law, _checked_settings(law, given))
        if not isinstance(law, str) or law not in LAWS:
            raise InvalidParameterError(
                f"law={shown(law)} is unknown: use one of {', '.join(LAWS)}, or an object such as GaussianNoisyMax(40)."
            )
        return cls(LAWS[law], _checked_settings(LAWS[law], given))

    @property
    def noise_is_open(self) -> bool:
        """Whether the noise on the answer remains to be found."""
        return self.fixed is None and bool(self.kind.in_votes) and self.kind.in_votes[0] not in self.given

    def law(self, ballots: int, n_classes: int, noise: float | None = None) -> ReleaseLaw:
        """Return the law for a number of ballots.

        Parameters
        ----------
        ballots, n_classes : int
            Number of ballots, and of declared classes.
        noise : float, optional
            Noise on the answer, in votes, if the noise is open.
        """
        choice = self.fixed
        if choice is None:
            complete = set(self.given) >= {item.name for item in fields(self.kind)}  # type: ignore[arg-type]
            choice = self.kind(**self.given) if complete else self.kind.default(ballots, n_classes)
            if noise is not None and self.noise_is_open:
                choice = choice.with_noise(noise)
            choice = replace(choice, **self.given)  # type: ignore[type-var]
        choice.check_ballots(ballots, n_classes)
        choice.mixing_weight(n_classes)
        return choice


def _checked_settings(kind: type[ReleaseLaw], given: dict[str, Any]) -> dict[str, Any]:
    """Return the given settings, refusing those that the law does not have."""
    for name, value in given.items():
        if name not in {item.name for item in fields(kind)}:  # type: ignore[arg-type]
            raise InvalidParameterError(
                f"{name}={value!r} is not a setting of law={kind.name or kind.__name__!r}: drop it."
            )
    return given
