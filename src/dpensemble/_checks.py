"""Checks of scalars in the positive form: fail unless the value is known to be good, so NaN never passes."""

import math
from collections.abc import Sequence
from enum import StrEnum
from numbers import Integral, Real
from typing import TypeVar

from dpensemble.errors import InvalidParameterError

Choice = TypeVar("Choice", bound=StrEnum)


def positive_real(name: str, value: object) -> float:
    """Return `value` as a float if it is a finite number above zero."""
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and number > 0:
            return number
    raise InvalidParameterError(f"{name}={value!r} is not a finite number above 0.")


def open_unit_interval(name: str, value: object) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1."""
    if isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < 1:
        return float(value)
    raise InvalidParameterError(f"{name}={value!r} is not strictly between 0 and 1.")


def integer_at_least(name: str, value: object, minimum: int) -> int:
    """Return `value` as an int if it is an integer of at least `minimum`."""
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= minimum:
        return int(value)
    raise InvalidParameterError(f"{name}={value!r} is not an integer of at least {minimum}.")


def member(name: str, value: object, choices: type[Choice]) -> Choice:
    """Return `value` as a member of the enumeration `choices`."""
    try:
        return choices(str(value))
    except ValueError:
        allowed = " or ".join(repr(choice.value) for choice in choices)
        raise InvalidParameterError(f"{name}={value!r} is unknown; use {allowed}.") from None


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
