"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def markdown(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return a table."""
    head = list(head)
    written = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in written) + "\n"
