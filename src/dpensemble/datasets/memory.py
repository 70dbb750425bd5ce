"""Give back memory that pandas keeps after texts are deleted."""

import sys


def release_unused() -> None:
    """Return memory that Arrow keeps for later texts to the system. Does nothing without Arrow."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
