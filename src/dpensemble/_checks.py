"""Checks of scalars in the positive form: fail unless the value is known to be good, so NaN never passes."""

import math
from collections.abc import Sequence
from enum import StrEnum
from numbers import Integral, Real
from typing import Any, TypeVar

from dpensemble.errors import InvalidParameterError

Choice = TypeVar("Choice", bound=StrEnum)


def real_between(name: str, value: object, low: float, high: float) -> float:
    """Return `value` as a float if it is a number from `low` to `high`, both included."""
    number: Any = value
    if isinstance(value, Real) and not isinstance(value, bool) and low <= number <= high:
        return float(value)
    raise InvalidParameterError(f"{name}={_short(value)} is not a number from {low:g} to {high:g}.", parameter=name)


def epsilon_of(value: object) -> float:
    """Return `value` as an epsilon: above 0, and far below where doubles lose their meaning."""
    return real_between("epsilon", value, 1e-9, 1e12)


def delta_of(value: object) -> float:
    """Return `value` as a delta: strictly between 0 and 1, and large enough for its logarithm."""
    number: Any = value
    if isinstance(value, Real) and not isinstance(value, bool) and 1e-300 <= number < 1:
        return float(value)
    raise InvalidParameterError(f"delta={_short(value)} is not a number strictly between 0 and 1 (from 1e-300).")


def integer_between(name: str, value: object, minimum: int, maximum: int = 2**31 - 1) -> int:
    """Return `value` as an int if it is an integer from `minimum` to `maximum`, both included."""
    number: Any = value
    if isinstance(value, Integral) and not isinstance(value, bool) and minimum <= number <= maximum:
        return int(value)
    raise InvalidParameterError(
        f"{name}={_short(value)} is not an integer from {minimum} to {maximum}.", parameter=name
    )


def _short(value: object) -> str:
    """Return a value's text, cut where it would fill the screen."""
    text = repr(value) if not isinstance(value, Integral) or abs(int(value)) < 10**40 else "a huge integer"
    return text if len(text) <= 60 else f"{text[:57]}..."


def member(name: str, value: object, choices: type[Choice]) -> Choice:
    """Return `value` as a member of the enumeration `choices`."""
    try:
        return choices(str(value))
    except ValueError:
        allowed = " or ".join(repr(choice.value) for choice in choices)
        raise InvalidParameterError(f"{name}={value!r} is unknown; use {allowed}.", parameter=name) from None


def is_missing(value: object) -> bool:
    """Return whether a label or identity is None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def declared_classes(classes: Sequence[object] | None) -> list[object]:
    """Return the declared classes as a list, refusing fewer than two, repeats and missing values."""
    if classes is None:
        raise InvalidParameterError(
            "classes=None: the possible labels are public knowledge and must be declared, "
            "for example classes=[0, 1], because reading them off the private labels would leak."
        )
    declared = [item.item() if hasattr(item, "item") else item for item in classes]
    if len(declared) < 2 or len(set(declared)) != len(declared) or any(map(is_missing, declared)):
        raise InvalidParameterError(f"classes={declared!r} must name at least two distinct labels.")
    return declared
