"""Values that were drawn and stored, so that a failed run can be finished without a second draw.

A caller may store the values that a training draws. If a run is repeated with the same store, it gets the same
values in the same order, and draws only values that are not stored yet. So each value is drawn once, and is charged
once, however often the steps after the draw fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Store(Protocol):
    """Stores drawn values in their order."""

    def once(self, name: str, draw: Callable[[], Any]) -> Any:
        """Return the next stored value, or draw it and store it."""
        ...

    @contextmanager
    def together(self) -> Iterator[None]:
        """Store all values of the block, or none of them if the block does not end."""
        ...


_STORE: ContextVar[Store | None] = ContextVar("keeps what is drawn", default=None)


@contextmanager
def kept_in(store: Store | None) -> Iterator[None]:
    """Store in `store` what the block draws. None stores nothing."""
    token = _STORE.set(store)
    try:
        yield
    finally:
        _STORE.reset(token)


def drawn_once(name: str, draw: Callable[[], Any], *, seeded: bool = False) -> Any:
    """Return the result of `draw`, or its result in the failed run that is being finished. It may be published.

    A run that is repeated must draw the same names in the same order. With `seeded` noise, a run that is finished
    repeats stored draws, too. Otherwise its later draws would repeat the noise of the first ones.
    """
    store = _STORE.get()
    if store is None:
        return draw()
    if seeded:
        value = draw()
        return store.once(name, lambda: value)
    return store.once(name, draw)


@contextmanager
def drawn_together() -> Iterator[None]:
    """Store what the block draws only if all of it was drawn.

    For answers whose privacy depends on one secret choice, such as which records teach: answers from two such choices
    would be two releases.
    """
    store = _STORE.get()
    if store is None:
        yield
        return
    with store.together():
        yield
