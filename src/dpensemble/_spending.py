"""Word of a budget that is about to be spent, for whoever keeps account of it, before any noise is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What is about to be spent on the records of one group.

    Parameters
    ----------
    name : str
        Of the group.
    epsilon, delta : float
        Most that will be spent.
    find_cost : callable
        Returns the same as a Renyi curve, or None where it is not known; may take seconds.
    worst_case : bool
        Whether it holds for every data set.
    relation : Relation or None
        Neighbouring relation that it holds for; None where that was not said.
    """

    name: str
    epsilon: float
    delta: float
    find_cost: Callable[[], Any] = lambda: None
    worst_case: bool = True
    relation: Any = None

    @property
    def cost(self) -> Any:
        """Renyi curve of what is spent, or None."""
        return self.find_cost()

    def to_dict(self) -> dict[str, Any]:
        """Return the budget as plain values."""
        return {"name": self.name, "epsilon": self.epsilon, "delta": self.delta}


Told = Callable[[Sequence[Spending]], None]

_TOLD: ContextVar[tuple[Told, ...]] = ContextVar("who is told what is about to be spent", default=())


@contextmanager
def listen(told: Told | None) -> Iterator[None]:
    """Call `told` with what each group spends before what is fitted here draws any noise; inner ones are told first."""
    token = _TOLD.set(_TOLD.get() if told is None else (told, *_TOLD.get()))
    try:
        yield
    finally:
        _TOLD.reset(token)


def announce(
    groups: Sequence[Any],
    costs: Callable[[], Sequence[Any] | None] = lambda: None,
    *,
    worst_case: bool = True,
    relation: Any = None,
) -> None:
    """Tell of the budgets of groups of records, and how to find their costs; whoever is told may raise, and forbid."""
    listening = _TOLD.get()
    if not listening:
        return
    found = cache(costs)

    def cost_of(number: int) -> Any:
        known = found()
        return None if known is None else known[number]

    spendings = [
        Spending(
            name=one.name,
            epsilon=one.budget.epsilon,
            delta=one.budget.delta,
            find_cost=partial(cost_of, number),
            worst_case=worst_case,
            relation=relation,
        )
        for number, one in enumerate(groups)
    ]
    for told in listening:
        told(spendings)
