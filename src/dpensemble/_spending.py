"""Word of a budget that is about to be spent, for whoever keeps account of it, before any noise is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Told = Callable[[Sequence[dict[str, Any]]], None]

_TOLD: ContextVar[Told | None] = ContextVar("who is told what is about to be spent", default=None)


@contextmanager
def spending_told_to(told: Told) -> Iterator[None]:
    """Call `told` with ``name``, ``epsilon`` and ``delta`` of each group before what is fitted here draws any noise."""
    token = _TOLD.set(told)
    try:
        yield
    finally:
        _TOLD.reset(token)


def about_to_spend(groups: Sequence[Any]) -> None:
    """Tell of the budgets of groups of records; whoever is told may raise, and so forbid it."""
    told = _TOLD.get()
    if told is not None:
        told([{"name": one.name, "epsilon": one.budget.epsilon, "delta": one.budget.delta} for one in groups])
