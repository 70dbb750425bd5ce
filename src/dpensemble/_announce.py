"""Notifies listeners, such as a ledger, before a budget is spent and any noise is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """The loss that is about to be spent on the records of one group.

    `find_cost` returns it as a Renyi curve, or None if the curve is not known, and may take seconds. `worst_case` is
    whether it holds for every data set.
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


Listener = Callable[[Sequence[Spending]], None]

# A context variable, because estimators nest (a search, AutoClassifier, EncodedClassifier) and scikit-learn's `fit` has
# no argument for listeners: a run's journal and the count of repeated fits listen from outside.
_LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("listeners of spending", default=())


@contextmanager
def listen(listener: Listener | None) -> Iterator[None]:
    """Call `listener` before anything that runs in the block draws noise. Inner listeners are called first."""
    token = _LISTENERS.set(_LISTENERS.get() if listener is None else (listener, *_LISTENERS.get()))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


def announce(
    groups: Sequence[Any],
    costs: Callable[[], Sequence[Any] | None] = lambda: None,
    *,
    worst_case: bool = True,
    relation: object = None,
) -> None:
    """Notify listeners of the budgets of groups of records, and of their costs. A listener may raise to forbid them."""
    listeners = _LISTENERS.get()
    if not listeners:
        return
    curves = cache(costs)

    def cost_of(number: int) -> Any:
        every = curves()
        return None if every is None else every[number]

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
    for listener in listeners:
        listener(spendings)
