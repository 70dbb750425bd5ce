"""Values that were drawn once and are stored, so that a run which fails later is finished without a second draw.

The caller of a training may keep what it draws in a store. A run that is repeated with the same store gets the same
values in the same order, and draws only what the store does not hold yet. So each value is drawn once, and is charged
once, for any number of failures after the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Store(Protocol):
    """Keeps drawn values in their order."""

    def once(self, name: str, draw: Callable[[], Any]) -> Any:
        """Return the next kept value, or draw it and keep it."""
        ...

    @contextmanager
    def together(self) -> Iterator[None]:
        """Keep all values of the block, or none of them if it does not end."""
        ...


_STORE: ContextVar[Store | None] = ContextVar("keeps what is drawn", default=None)


@contextmanager
def kept_in(store: Store | None) -> Iterator[None]:
    """Keep in `store` what the block draws. None keeps nothing."""
    token = _STORE.set(store)
    try:
        yield
    finally:
        _STORE.reset(token)


def drawn_once(name: str, draw: Callable[[], Any], *, seeded: bool = False) -> Any:
    """Return what `draw` returns, or what it returned in the failed run that is being finished. It may be published.

    A run that is repeated must draw the same names in the same order. With `seeded` noise, a run that is finished also
    draws what is kept. Otherwise its later draws would repeat the noise of the first ones.
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
    """Keep what the block draws only if all of it was drawn.

    For answers whose privacy rests on one secret choice, such as which records teach: answers from two such choices
    would be two releases.
    """
    store = _STORE.get()
    if store is None:
        yield
        return
    with store.together():
        yield
