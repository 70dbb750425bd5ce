"""English nouns in messages and reports."""

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
