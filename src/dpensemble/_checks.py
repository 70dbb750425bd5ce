"""Checks of scalars in the positive form: a value passes only if it is good, so NaN never passes."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from numbers import Integral, Real
from typing import Any, TypeVar

from dpensemble.errors import DataError, InvalidParameterError

Choice = TypeVar("Choice", bound=StrEnum)
Kind = TypeVar("Kind")
_MOST_NAMED = 20
# Compared by name, because neither library is imported here.
_MISSING_OF_PANDAS = frozenset({"NAType", "NaTType"})
_DATES_OF_NUMPY = frozenset({"datetime64", "timedelta64"})


def real_between(name: str, value: object, low: float, high: float) -> float:
    """Return `value` as a float if it is a number from `low` to `high`, both included."""
    number: Any = value
    if isinstance(value, Real) and not isinstance(value, bool) and low <= number <= high:
        return float(value)
    raise InvalidParameterError(f"{name}={shown(value)} is not a number from {low:g} to {high:g}.", parameter=name)


def epsilon_of(value: object) -> float:
    """Return `value` as an epsilon: above 0, and below where floating-point numbers lose precision."""
    return real_between("epsilon", value, 1e-9, 1e12)


def delta_of(value: object) -> float:
    """Return `value` as a delta: strictly between 0 and 1, and large enough for its logarithm."""
    number: Any = value
    if isinstance(value, Real) and not isinstance(value, bool) and 1e-300 <= number < 1:
        return float(value)
    raise InvalidParameterError(f"delta={shown(value)} is not a number strictly between 0 and 1 (from 1e-300).")


def integer_between(name: str, value: object, minimum: int, maximum: int = 2**31 - 1) -> int:
    """Return `value` as an int if it is an integer from `minimum` to `maximum`, both included."""
    number: Any = value
    if isinstance(value, Integral) and not isinstance(value, bool) and minimum <= number <= maximum:
        return int(value)
    raise InvalidParameterError(f"{name}={shown(value)} is not an integer from {minimum} to {maximum}.", parameter=name)


def number_of_workers(name: str, value: object) -> int:
    """Return `value` as an int if it is a number of workers as in joblib: -1 for all cores, -2 for all but one."""
    number = integer_between(name, value, -1024, 1024)
    if number == 0:
        raise InvalidParameterError(
            f"{name}=0 is not a number of workers: use 1 or more, or -1 for all cores.", parameter=name
        )
    return number


def of_type(name: str, value: object, kind: type[Kind], what: str) -> Kind:
    """Return `value` if it is an object of this type. Otherwise raise that it must be `what`."""
    if not isinstance(value, kind):
        raise InvalidParameterError(f"{name}={shown(value)} must be {what}.", parameter=name)
    return value


def shown(value: object) -> str:
    """Return a setting's text, cut if it would fill the screen. For public values only."""
    if isinstance(value, Integral) and abs(int(value)) >= 10**40:
        return "a huge integer"
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to write numbers with very many digits.
        return f"a {type(value).__name__} of very many digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def printable(text: str) -> str:
    """Return a text without characters that could change what a terminal shows."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def member(name: str, value: object, choices: type[Choice]) -> Choice:
    """Return `value` as a member of the enumeration `choices`."""
    try:
        return choices(str(value))
    except ValueError:
        allowed = " or ".join(repr(choice.value) for choice in choices)
        raise InvalidParameterError(f"{name}={shown(value)} is unknown: use {allowed}.", parameter=name) from None


def is_missing(value: object) -> bool:
    """Return whether a label or identity is None or NaN, of any type of number or date."""
    if value is None or type(value).__name__ in _MISSING_OF_PANDAS:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    # Only NaN and NumPy's missing dates differ from themselves.
    comparable = isinstance(value, Real) or type(value).__name__ in _DATES_OF_NUMPY
    return comparable and bool(value != value)  # noqa: PLR0124


def by_name(X: Any, names: Sequence[str], *, needed: Sequence[str] | None = None) -> Any:
    """Return a table with the columns `names` in this order, without others. Raise if a needed column is missing."""
    columns, names = list(X.columns), list(names)
    if columns == names:
        return X
    own = set(columns)
    if len(own) < len(columns):
        raise DataError("X names a column twice: give each column once.")
    missing = [str(name) for name in (names if needed is None else needed) if name not in own]
    if missing:
        rest = len(missing) - _MOST_NAMED
        lacks = ", ".join(map(shown, missing[:_MOST_NAMED])) + (f" and {rest:,} more" if rest > 0 else "")
        raise DataError(
            f"X must have the columns that the student was trained on: it lacks {lacks}; rename or add columns."
        )
    return X[[name for name in names if name in own]]


def in_words(extra: Sequence[str], columns: Collection[Any]) -> str:
    """Quote only names that look like names: without a header, or in a transposed table, names are records."""
    names = [name for name in extra if re.fullmatch(r"[A-Za-z_][\w.-]*", name)]
    numbered = any(str(column).strip()[:1].isdigit() for column in columns)
    if numbered or not names or len(extra) == len(columns):
        return f"{len(extra)} of {len(columns)}"
    rest = len(extra) - len(names[:_MOST_NAMED])
    return ", ".join(map(repr, names[:_MOST_NAMED])) + (f" and {rest:,} more" if rest else "")


@contextmanager
def names_checked() -> Iterator[None]:
    """Raise scikit-learn's error about column names as a `DataError` with the same text."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("The feature names should match those"):
            raise
        raise DataError(str(error)) from None
