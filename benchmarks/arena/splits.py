"""Which splits count: those that nobody looked at while methods were designed, and those of development."""

from __future__ import annotations

import re
from collections.abc import Sequence

DEVELOPMENT, EVALUATION = range(8), range(8, 13)


def parsed(words: Sequence[str]) -> list[int]:
    """Return splits from numbers and ranges, e.g. ``["8-12"]`` or ``["0", "3-4"]``.

    Examples
    --------
    >>> parsed(["0", "3-5"])
    [0, 3, 4, 5]
    """
    splits: list[int] = []
    for word in words:
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if match is None:
            raise ValueError(f"--splits {word} is neither a number nor a range; give e.g. 8 or 8-12.")
        first = int(match[1])
        splits += range(first, int(match[2] or first) + 1)
    return list(dict.fromkeys(splits))


def described(splits: Sequence[int]) -> str:
    """Return a sentence that names splits and what they are for.

    Examples
    --------
    >>> described([8, 9])
    'Evaluation splits 8, 9.'
    >>> described([0, 8])
    'Development splits 0. Evaluation splits 8.'
    """
    parts = {
        "Development": [split for split in splits if split in DEVELOPMENT],
        "Evaluation": [split for split in splits if split in EVALUATION],
        "Other": [split for split in splits if split not in DEVELOPMENT and split not in EVALUATION],
    }
    return " ".join(f"{name} splits {', '.join(map(str, held))}." for name, held in parts.items() if held)
