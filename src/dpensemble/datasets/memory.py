"""Giving back what pandas keeps of texts that nobody holds any more."""

import sys


def release_unused() -> None:
    """Give memory that Arrow holds for later texts back to the system; does nothing where there is no Arrow."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
