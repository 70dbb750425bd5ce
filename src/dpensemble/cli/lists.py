"""Lists in one argument."""

from __future__ import annotations


def parts_of(text: str | None) -> list[str] | None:
    """Return the parts between commas, without spaces around them; None if the option was left out."""
    return None if text is None else [part.strip() for part in text.split(",")]
