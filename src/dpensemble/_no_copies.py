"""Objects that spend a budget or hold secret bits. They work in one process only, and only as the original."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, NoReturn, Self

from dpensemble.errors import DuplicateError


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
                setattr(cls, name, _guarded(vars(cls)[name]))

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


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that raises in a forked process, or if its object is not the original."""

    @wraps(method)
    def guarded(self: Original, *args: Any, **kwargs: Any) -> Any:
        self._mark.require(self)
        return method(self, *args, **kwargs)

    guarded.is_guarded = True  # type: ignore[attr-defined]
    return guarded
