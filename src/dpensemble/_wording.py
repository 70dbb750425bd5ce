"""Nouns and rounded numbers in messages and reports. Rounding never makes a bound look better than it is."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

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


def round_up(value: float, digits: int) -> float:
    """Return the smallest number with `digits` significant digits that is not below a positive `value`."""
    # Uses the decimal as it was typed, not its binary neighbour, so that 0.1 stays 0.1.
    exact = Decimal(repr(float(value)))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=ROUND_CEILING))
