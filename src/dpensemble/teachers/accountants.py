"""The privacy of private teachers: declared, announced, or reported by their own accountant after the fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dpensemble._checks import delta_of, epsilon_of, integer_between, member, real_between
from dpensemble.errors import InvalidParameterError, TeacherError
from dpensemble.relations import Relation

Privacy = tuple[float, float]

_MOST_TRIES = 200


class PrivacyEngine(Protocol):
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

    def __init__(self, engine: PrivacyEngine) -> None:
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
    epsilons, deltas = _each(epsilon, n_teachers), _each(delta, n_teachers)
    return tuple(
        (real_between("teacher_privacy", e, 1e-6, 100), real_between("delta of teacher_privacy", d, 0.0, 1 - 1e-9))
        for e, d in zip(epsilons, deltas, strict=True)
    )


def announced_privacy(teacher: object, relation: Relation) -> Privacy | None:
    """Return the privacy that an unfitted teacher announces for each of its fits, or None without an announcement."""
    announced = _claimed(teacher, "announced_privacy")
    if not callable(announced):
        return None
    epsilon, delta = announced()
    epsilon, delta = epsilon_of(epsilon), real_between("delta", delta, 0.0, 1 - 1e-9)
    return _twice(epsilon, delta) if _is_doubled(teacher, relation) else (epsilon, delta)


def announced_zcdp(teacher: object, relation: Relation) -> float | None:
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


def _twice(epsilon: float, delta: float) -> Privacy:
    return 2 * epsilon, min((1 + math.exp(min(epsilon, 700.0))) * delta, 1 - 1e-9)


def spent_privacy(model: Any, delta: float, relation: Relation) -> Privacy:
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
        return _of_replacing(lambda d: _sound(spent(d)), delta) if twice else (_sound(spent(delta)), delta)
    assert guarantee is not None  # noqa: S101
    epsilon, own = _sound(guarantee.epsilon), real_between("delta", guarantee.delta, 0.0, 1 - 1e-9)
    return _twice(epsilon, own) if _is_doubled(guarantee, relation) else (epsilon, own)


def _of_replacing(spent: Callable[[float], float], delta: float) -> Privacy:
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


def _sound(epsilon: Any) -> float:
    """Return an accountant's epsilon, refusing NaN, infinity and negative numbers."""
    number = float(epsilon)
    if not 0 <= number < math.inf:
        raise TeacherError("a private teacher's accountant must report an epsilon that is a number from 0.")
    return max(number, 1e-9)


def _each(value: Any, n_teachers: int) -> list[Any]:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Sequence):
        values = list(value)
        if len(values) != n_teachers:
            raise InvalidParameterError(
                f"teacher_privacy must have one entry for all teachers or one each; got {len(values)} for {n_teachers}."
            )
        return values
    return [value] * n_teachers
