"""One guard around every pass over private rows: no message that quotes or counts them reaches a screen or a log.

Warnings of numpy, scikit-learn and other libraries depend on the rows, and their errors quote entries.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from dpensemble.errors import DataError, DPEnsembleError, HiddenError, LibraryWarning

Given = ParamSpec("Given")
Read = TypeVar("Read")
_Filters = list[tuple[Any, ...]]

#: Texts of scikit-learn and Python about rows, up to where they begin to quote rows.
_PUBLIC_BEGINNINGS = re.compile(
    r"Complex data not supported"
    r"|Input (X|y|X_public) contains (NaN|infinity)"
    r"|Expected \dD array, got (scalar|\dD) array instead"
    r"|Found array with [01] (sample|feature)\(s\) \(shape=\([01]?\d*, ?[01]?\)\) while a minimum of \d is required"
    r"|Found array with [01] sample\(s\)"
    r"|Found array with dim \d"
    r"|(float|int)\(\) argument must be a string[a-z ,-]* number"
    r"|could not convert string to float"
    r"|Unknown label type(: (continuous|multilabel|unknown)[a-z-]*)?"
    r"|X has \d+ features, but \w+ is expecting \d+ features as input"
    r"|The feature names should match those that were passed during fit"
    r"|(This )?\w+( estimator)? requires y to be passed, but the target y is None"
    r"|y should be a 1d array"
    r"|Sparse data was passed"
    r"|Found input variables with inconsistent numbers of samples"
    r"|[\w.]+\(\) got an unexpected keyword argument '\w+'"
)
# A warning of scikit-learn that depends only on the shape.
_COLUMN_VECTOR = re.compile("A column-vector y was passed")
_OUTER: ContextVar[tuple[_Filters, Any] | None] = ContextVar("settings before the guard", default=None)
_IS_PUBLIC = ContextVar("whether the block sees public rows alone", default=False)
_MARK = "_is_about_public_rows"


@contextmanager
def guard_private_rows() -> Iterator[None]:
    """Let the block read private rows without showing any of them in a message.

    Warnings are dropped, except for those of this library, whose texts state only public or released facts. An error of
    this library passes. Any other error becomes a `DataError` with its type and the public part of its
    text. Set ``DPENSEMBLE_TRACEBACK=1`` to see the error itself. The screen may then show private rows.
    """
    if _IS_PUBLIC.get() or _OUTER.get() is not None:
        yield
        return
    token = _OUTER.set((list(warnings.filters), np.geterr()))
    try:
        with _filters(_own_only(list(warnings.filters))), np.errstate(all="ignore"), _no_quotes():
            yield
    finally:
        _OUTER.reset(token)


def guarded_rows(read: Callable[Given, Iterator[Read]]) -> Callable[Given, Generator[Read]]:
    """Return a reader of private rows each of whose steps is guarded. What the caller does between steps is not."""

    @wraps(read)
    def guarded(*given: Given.args, **named: Given.kwargs) -> Generator[Read]:
        rows = read(*given, **named)
        while True:
            with guard_private_rows():
                try:
                    block = next(rows)
                except StopIteration:
                    return
            yield block

    return guarded


@contextmanager
def on_public_rows() -> Iterator[None]:
    """Let the block, which reads only public rows and released values, warn and raise as it would outside the guard."""
    outer, token = _OUTER.get(), _IS_PUBLIC.set(True)
    try:
        if outer is None:
            yield
        else:
            with _filters(outer[0]), np.errstate(**outer[1]):
                yield
    except Exception as error:
        setattr(error, _MARK, True)
        raise
    finally:
        _IS_PUBLIC.reset(token)


@contextmanager
def _filters(filters: _Filters) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filters[:] = filters  # type: ignore[index]
        # Resets the record of which warnings the changed filters have dropped or shown.
        warnings.simplefilter("default", LibraryWarning, append=True)
        yield


def _own_only(filters: _Filters) -> _Filters:
    """Return the filters for warnings of this library, and drop all other warnings."""
    own: _Filters = []
    for action, message, category, module, line in filters:
        if issubclass(LibraryWarning, category):
            own.append((action, message, LibraryWarning, module, line))
        elif issubclass(category, LibraryWarning):
            own.append((action, message, category, module, line))
    own.append(("default", _COLUMN_VECTOR, UserWarning, None, 0))
    return [*own, ("default", None, LibraryWarning, None, 0), ("ignore", None, Warning, None, 0)]


@contextmanager
def _no_quotes() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if getattr(error, _MARK, False):
            raise
        quiet, shown = _without_quotes(error), bool(os.environ.get("DPENSEMBLE_TRACEBACK"))
        if shown and quiet is error:
            raise
        try:
            raise quiet from error if shown else None
        finally:
            # A log that follows contexts would reach the other error, and the rows in its text.
            quiet.__context__ = error if shown else None


def _without_quotes(error: Exception) -> Exception:
    """Return an error with the public part of another error. It may be the same object."""
    # A filter may have turned a warning into this error.
    if isinstance(error, DPEnsembleError | ImportError | LibraryWarning):
        return error
    if isinstance(error, MemoryError):
        return MemoryError("there is not enough memory for these private rows.")
    name, public = type(error).__name__, _PUBLIC_BEGINNINGS.match(str(error))
    if public:
        text = f"{public.group()}; correct the private rows (the rest of this {name} may quote them)."
        return _TypedDataError(text) if isinstance(error, TypeError) else DataError(text)
    text = (
        f"{name} was raised by a pass over private rows, and its text may quote them, so it is not shown: set "
        "DPENSEMBLE_TRACEBACK=1 to see it on your own screen."
    )
    return (_HiddenTypeError if isinstance(error, TypeError) else HiddenError)(text, kind=name)


class _TypedDataError(DataError, TypeError):
    """Private rows of a type that cannot be used."""


class _HiddenTypeError(HiddenError, TypeError):
    """A hidden error that was a TypeError."""
