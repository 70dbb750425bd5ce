"""Functions with a body for each kind of law."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, TypeVar

from dpensemble.laws.base import ReleaseLaw

Result = TypeVar("Result")
Body = TypeVar("Body", bound=Callable[..., Any])


class ByLaw(Generic[Result]):
    """A function of a law that runs the body registered for the law's very type, or else its default body.

    Subclasses inherit no body, as they would under `functools.singledispatch`. A subclass may answer otherwise than its
    parent, and the parent's price would then be false.
    """

    def __init__(self, default: Callable[..., Result]) -> None:
        self._default, self._bodies = default, dict[type[ReleaseLaw], Callable[..., Result]]()
        update_wrapper(self, default)

    def __call__(self, law: ReleaseLaw, *arguments: Any, **named: Any) -> Result:
        """Run the body of the law's type."""
        return self._bodies.get(type(law), self._default)(law, *arguments, **named)

    def covers(self, kind: type[ReleaseLaw]) -> bool:
        """Return whether a type of law has a body of its own."""
        return kind in self._bodies

    def register(self, kind: type[ReleaseLaw]) -> Callable[[Body], Body]:
        """Return a decorator that makes a function the body of a type of law."""

        def keep(body: Body) -> Body:
            self._bodies[kind] = body
            return body

        return keep
