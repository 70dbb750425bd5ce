"""Checks of settings and names of classes, and the words in which messages show values. No private label is needed.

Scalars are checked in the positive form: a value passes only if it is good, so NaN never passes. Rounding never makes
a bound look better than it is.

A name of a class passes a shell, a settings file or a notebook before the comparison with a label. Marks that these
leave around a name are taken off where the tables are files, because labels in such marks are read as the same names.
An estimator compares labels exactly, so there such marks raise an error.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from numbers import Integral, Number, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpensemble.errors import DataError, InvalidParameterError

_IRREGULAR = {"person": "people", "child": "children", "man": "men", "woman": "women"}
_VOWELS = "aeiou"


def plural(noun: str) -> str:
    """Return the plural of a noun. Of several words, only the last one changes.

    Examples
    --------
    >>> [plural(noun) for noun in ("patient", "family", "person", "business")]
    ['patients', 'families', 'people', 'businesses']
    """
    *before, last = noun.split(" ")
    if last.lower() in _IRREGULAR:
        last = _IRREGULAR[last.lower()]
    elif last[-1:] == "y" and last[-2:-1] not in _VOWELS:
        last = f"{last[:-1]}ies"
    else:
        last = f"{last}es" if last.endswith(("s", "x", "z", "ch", "sh")) else f"{last}s"
    return " ".join([*before, last])


def with_article(noun: str) -> str:
    """Return a noun with *a* or *an*, by its first letter."""
    return f"{'an' if noun[:1].lower() in _VOWELS else 'a'} {noun}"


class ShownAsSentences:
    """Shows an object as the plain sentences of its ``str`` in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(line)}</p>" for line in str(self).splitlines())


def round_up(value: float, digits: int) -> float:
    """Return the smallest number with `digits` significant digits that is not below a positive `value`."""
    # Uses the decimal as it was typed, not its binary neighbour, so that 0.1 stays 0.1.
    exact = Decimal(repr(float(value)))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=ROUND_CEILING))


Choice = TypeVar("Choice", bound=StrEnum)
Kind = TypeVar("Kind")
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


@contextmanager
def names_checked() -> Iterator[None]:
    """Raise scikit-learn's error about column names as a `DataError` with the same text."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("The feature names should match those"):
            raise
        raise DataError(str(error)) from None


#: A declared class of tables in files.
Label = str | int | float

_MISSING = (
    "the possible labels must be declared as public knowledge, for example {example}, because reading them from the "
    "private labels would leak information."
)
_QUOTES = "'\"`´‘’‚‛“”„‟«»‹›「」＂＇′″"
_PARTNERS = {"[": "]", "(": ")", "{": "}"}
# What a list looks like in R, Python and others: c("no","yes"), array(['no', 'yes']).
_LIST = re.compile(r"(?:[A-Za-z_][\w.]*\s*)?([\[({])")
# A comma within belongs to an interval, such as (0, 10].
_IN_BRACKETS = re.compile(r"[\[({]\s*([^,;()\[\]{}]+?)\s*[\])}]")
# Characters that nobody sees: marks of byte order, of direction and of width, and soft hyphens.
_UNSEEN = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_ALIKE = str.maketrans(
    dict.fromkeys("‐‑‒–—−﹣－", "-")
    | dict.fromkeys("‘’‛′´`＇", "'")
    | dict.fromkeys("“”„‟″＂", '"')
    | {"≤": "<=", "≥": ">="}
)
_VARIABLE = re.compile(r"\$\{?(env:)?[A-Za-z_]\w*\}?|%[A-Za-z_]\w*%|![A-Za-z_]\w*!")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)[ T]00:00(:00(\.0+)?)?")
# Above, floats do not distinguish neighbouring integers.
_EXACT = 2**53


def declared_classes(classes: Sequence[object] | None) -> list[object]:
    """Return the declared classes of an estimator as a list. Raise for what no label can be equal to.

    There are at least two distinct labels, and none is missing. Texts have no quotation marks around them, and are not
    the parts of one list that was cut at its commas.
    """
    if classes is None:
        raise InvalidParameterError(f"classes=None: {_MISSING.format(example='classes=[0, 1]')}")
    _refuse_one_text(classes)
    entries = list(classes) if isinstance(classes, Iterable) and getattr(classes, "shape", None) != () else []
    declared = list(map(_plain, entries))
    if not all(map(_is_label, declared)) or len(declared) < 2 or len(set(declared)) != len(declared):
        raise _wrong(classes, "must name at least two distinct labels, texts or real numbers")
    texts = [label for label in declared if isinstance(label, str)]
    if texts:
        _refuse_damage(texts, classes)
        if (bare := _without_marks(texts)) != texts:
            raise _wrong(classes, f"have marks that belong to a list, not to a label: write {shown(bare)}")
    return declared


def sorted_array(classes: Sequence[object] | None) -> NDArray[Any]:
    """Return the declared classes as a sorted array. Raise if one array cannot hold all of them as they are."""
    declared = declared_classes(classes)
    if any(isinstance(label, bytes) for label in declared):
        raise _wrong(classes, "are bytes, which no text is equal to: decode them, for example label.decode()")
    converted = np.asarray(declared)
    if converted.dtype.kind in "SU" and not all(isinstance(label, str) for label in declared):
        raise _wrong(classes, "mix texts and numbers: write all labels as texts, or all as numbers")
    if converted.dtype.kind in "iuf" and any(
        one != other for one, other in zip(converted.tolist(), declared, strict=True)
    ):
        raise _wrong(classes, "are numbers that no single type holds exactly: write all labels as texts")
    return np.unique(converted)


def split_names(text: str) -> list[str]:
    """Return the names in a text, separated by commas. A comma between double quotes belongs to a name."""
    parts = re.findall(r'\s*("(?:[^"]|"")*"(?=\s*(?:,|$))|[^,]*)(?:,|$)', text)
    # At the end of a text that does not end with a comma, the pattern also matches an empty name.
    names = parts if text.endswith(",") else parts[:-1]
    return [name.strip() for name in names] or [""]


def declared_labels(classes: Sequence[object] | None) -> list[Label]:
    """Return the classes that are declared for files: numbers if all names are numbers that floats hold exactly.

    Quotation marks and brackets around names, and characters that nobody sees, are taken off.
    """
    if classes is None:
        example = '--classes "no,yes" (a number has --range LOW,HIGH instead)'
        raise InvalidParameterError(f"classes is missing: {_MISSING.format(example=example)}")
    _refuse_one_text(classes)
    if any(map(is_missing, classes)):
        raise _wrong(list(classes), 'name a missing value: write the text, such as "None"')
    names = _without_marks([_tidy(_as_read(str(label))) for label in classes])
    joined = ",".join(map(str, classes))
    if "" in names:
        raise InvalidParameterError(
            f"classes={shown(joined)} names an empty label: remove a comma.", parameter="classes"
        )
    _refuse_damage(names, joined)
    if len({folded(name) for name in names}) < len(names):
        raise InvalidParameterError(
            f"classes={shown(joined)} names a label twice, or two that differ only in capitals, spaces or how a number "
            "is written: name each once.",
            parameter="classes",
        )
    if len(names) < 2:
        parts = re.split(r"[;|/\s]+", names[0]) if names else []
        example = ",".join(parts) if len(parts) > 1 and all(parts) else "no,yes"
        raise _wrong(joined, f"must name at least two distinct labels, separated by commas, such as {example!r}")
    return _as_numbers(names) or list(names)


def folded(name: str) -> str:
    """Return what labels have in common that differ only in capitals, spaces, Unicode form or the form of a number."""
    if name.isascii() and name.isalpha():
        return name.casefold()
    text = unicodedata.normalize("NFKC", _tidy(name).translate(_ALIKE)).casefold()
    if _NUMBER.fullmatch(text):
        return _number_as_text(text)
    return _MIDNIGHT.sub(r"\1", text) if _MIDNIGHT.fullmatch(text) else text


def _number_as_text(text: str) -> str:
    """Return one text for all ways to write a number. Whole numbers keep all of their digits."""
    whole = re.sub(r"\.0*$", "", text)
    if re.fullmatch(r"[+-]?\d{16,}", whole):
        return whole.lstrip("+")
    number = float(text)
    return str(int(number)) if abs(number) < _EXACT and number.is_integer() else repr(number)


def bare(name: str) -> str:
    """Return a name without quotation marks or brackets around it."""
    text = _unquoted(_tidy(name))
    return match[1] if (match := _IN_BRACKETS.fullmatch(text)) else text


def _as_numbers(names: list[str]) -> list[Label] | None:
    """Return the numbers that all names write, or None if a name is a text or a number that a float would change."""
    if not all(map(_NUMBER.fullmatch, names)):
        return None
    numbers = [float(name) for name in names]
    if not all(math.isfinite(number) and abs(number) < _EXACT for number in numbers):
        return None
    return [int(number) if number.is_integer() else number for number in numbers]


def _as_read(name: str) -> str:
    """Decode bytes that are not UTF-8, which a shell passes on, as the readers of files decode them."""
    if not any("\udc80" <= character <= "\udcff" for character in name):
        return name
    odd = range(0xDC80, 0xDD00)
    return "".join(bytes([ord(one) - 0xDC00]).decode("cp1252", "replace") if ord(one) in odd else one for one in name)


def _tidy(name: str) -> str:
    """Return a name in normal form C, without characters that nobody sees, and with plain spaces between words."""
    if name.isascii():
        return " ".join(name.split()) if not name.isalnum() else name
    return " ".join(_UNSEEN.sub("", unicodedata.normalize("NFC", name)).split())


def _without_marks(names: list[str]) -> list[str]:
    """Return names without the marks of a list: quotation marks around each, and brackets around all of them."""
    while (shorter := _without_one_mark(names)) != names:
        names = shorter
    return names


def _without_one_mark(names: list[str]) -> list[str]:
    if len(names) < 2:
        return list(map(_unquoted, names))
    first, *middle, last = names
    opens = _LIST.match(first)
    if opens and last.endswith(_PARTNERS[opens[1]]) and _depth(first) > 0 > _depth(last):
        return [first[opens.end() :].strip(), *middle, last[:-1].strip()]
    lone = [name for name in names if _is_half_quoted(name)]
    if lone == [first, last] and first[0] in _QUOTES and last[-1] in _QUOTES:
        return [first[1:].strip(), *middle, last[:-1].strip()]
    inner = [_IN_BRACKETS.fullmatch(name) for name in names]
    if all(inner) and len({name[0] for name in names}) == 1:
        return [str(match[1]) for match in inner if match]
    return list(map(_unquoted, names))


def _unquoted(name: str) -> str:
    """Return a name without one pair of quotation marks around it, with or without backslashes before them."""
    if len(name) > 4 and name[0] == "\\" == name[-2] and name[1] in _QUOTES and name[-1] in _QUOTES:
        return name[2:-2].strip()
    if len(name) > 1 and name[0] in _QUOTES and name[-1] in _QUOTES:
        return name[1:-1].strip()
    return name


def _is_half_quoted(name: str) -> bool:
    return len(name) > 1 and (name[0] in _QUOTES) is not (name[-1] in _QUOTES)


def _depth(name: str) -> int:
    """Return how many more brackets open than close."""
    return sum(map(name.count, _PARTNERS)) - sum(map(name.count, _PARTNERS.values()))


def _refuse_damage(names: list[str], classes: object) -> None:
    """Raise for names of which a shell left a part, or which no table can hold."""
    depths = list(map(_depth, _without_marks(names)))
    halves = [name for name in _without_marks(names) if _is_half_quoted(name)]
    cut = any(name[0] in _QUOTES for name in halves) and any(name[-1] in _QUOTES for name in halves)
    if cut or (any(depth > 0 for depth in depths) and any(depth < 0 for depth in depths)):
        raise _wrong(
            classes,
            "open a quotation mark or bracket in one label and close it in another: write a label that contains a "
            "comma between double quotes, such as --classes '\"a, b\",c', or give a list in Python",
        )
    for name in names:
        if "\0" in name:
            raise _wrong(classes, "contain a NUL character, which no label can contain: remove it")
        if _VARIABLE.fullmatch(name):
            raise _wrong(classes, f"name {name!r}, which looks like a variable that the shell left: write its content")
        if len(name) > 1 and name[-1] in "\\^":
            raise _wrong(classes, f"name {name!r}, which ends with a mark of the shell: remove {name[-1]!r}")


def _refuse_one_text(classes: object) -> None:
    if isinstance(classes, (str, bytes)):
        raise InvalidParameterError(
            f'classes={shown(classes)} must be a list of labels, for example ["no", "yes"].', parameter="classes"
        )


def _plain(label: Any) -> Any:
    """Return a NumPy number as a Python number, and anything else unchanged."""
    scalar = hasattr(label, "item") and not getattr(label, "shape", ()) and not _is_masked(label)
    return label.item() if scalar else label


def _is_masked(value: object) -> bool:
    # NumPy would turn it into 0.
    return type(value).__name__ == "MaskedConstant"


def _is_label(value: object) -> bool:
    """Return whether a value can name a class: hashable, and not missing, masked, complex or too large."""
    if is_missing(value) or _is_masked(value) or not isinstance(value, Hashable):
        return False
    try:
        hash(value)
        if isinstance(value, Number):
            float(value)  # type: ignore[arg-type]
    except (ArithmeticError, TypeError, ValueError):
        return False
    return True


def _wrong(classes: object, why: str) -> InvalidParameterError:
    return InvalidParameterError(f"classes={shown(classes)} {why}.", parameter="classes")
