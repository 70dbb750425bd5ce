"""What spends a budget: it is announced before noise is drawn, drawn once, and never copied.

Before a budget is spent and any noise is drawn, `announce` notifies listeners, such as a ledger.

A caller may store the values that a training draws, so that a failed run can be finished without a second draw. If a
run is repeated with the same store, it gets the same values in the same order, and draws only values that are not
stored yet. So each value is drawn once, and is charged once, however often the steps after the draw fail.

Objects that spend a budget or hold secret bits work in one process only, and only as the original.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import Any, ClassVar, NoReturn, Protocol, Self

from dpensemble.errors import DuplicateError


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """The loss that is about to be spent on the records of one group.

    `find_cost` returns it as a Renyi curve, or None if the curve is not known, and may take seconds. `worst_case` is
    whether it holds for every data set. `delta_rule` is the rule that gave delta, in words.
    """

    name: str
    epsilon: float
    delta: float
    find_cost: Callable[[], Any] = lambda: None
    worst_case: bool = True
    relation: Any = None
    delta_rule: str | None = None

    @property
    def cost(self) -> Any:
        """Renyi curve of what is spent, or None."""
        return self.find_cost()

    def to_dict(self) -> dict[str, Any]:
        """Return the budget as plain values, with the rule that gave delta if it is known."""
        budget = {"name": self.name, "epsilon": self.epsilon, "delta": self.delta}
        return budget if self.delta_rule is None else budget | {"delta_rule": self.delta_rule}


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


@contextmanager
def unheard() -> Iterator[None]:
    """Let no listener from outside the block hear what the block announces, because it spends nothing."""
    token = _LISTENERS.set(())
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
    delta_rule: str | None = None,
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
            delta_rule=delta_rule,
        )
        for number, one in enumerate(groups)
    ]
    for listener in listeners:
        listener(spendings)


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


class _Process:
    """One process. A fork is another one."""

    def __init__(self) -> None:
        self.number = os.getpid()


_PROCESS = _Process()


def _forked() -> None:
    global _PROCESS  # noqa: PLW0603 - one for each process
    _PROCESS = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _Mark:
    """Remembers which object is the original, and the process that made it."""

    __slots__ = ("_object", "_process")

    def __init__(self, object_: object) -> None:
        self._object, self._process = weakref.ref(object_), _PROCESS

    def require(self, object_: object) -> None:
        name = type(object_).__name__
        if self._object() is not object_:
            raise _refusal(name)
        # A fork in C runs no hook, so the number of the process is compared as well.
        if self._process is not _PROCESS or self._process.number != os.getpid():
            raise DuplicateError(
                f"this {name} was made before the process forked, so both processes would spend the same budget: make "
                f"one {name} in one process, or use a ledger with the same grant in each process."
            )


class Original:
    """Base class of objects that spend a budget or hold secret bits.

    Such an object cannot be copied or pickled. Its spending methods raise in a forked process. Otherwise two processes
    would each spend the whole budget, or draw the same noise twice.

    A subclass names its spending methods in the class statement. Overrides in further subclasses are protected too.
    """

    _spends: ClassVar[tuple[str, ...]] = ()
    _mark: _Mark

    def __init_subclass__(cls, spends: tuple[str, ...] = (), **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls._spends = (*cls._spends, *spends)
        for name in cls._spends:
            if name in vars(cls):
                setattr(cls, name, _only_on_the_original(vars(cls)[name]))

    def __new__(cls, *_args: Any, **_rest: Any) -> Self:
        """Make an object that remembers that it is the original."""
        new = super().__new__(cls)
        new._mark = _Mark(new)
        return new

    def __copy__(self) -> NoReturn:
        raise _refusal(type(self).__name__)

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise _refusal(type(self).__name__)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise _refusal(type(self).__name__)


def _refusal(name: str) -> DuplicateError:
    return DuplicateError(f"{name} spends a budget, and a copy would spend it twice: use the original.")


def _only_on_the_original(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that raises in a forked process, or if its object is not the original."""

    @wraps(method)
    def guarded(self: Original, *args: Any, **kwargs: Any) -> Any:
        self._mark.require(self)
        return method(self, *args, **kwargs)

    guarded.is_guarded = True  # type: ignore[attr-defined]
    return guarded
