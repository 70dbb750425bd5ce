"""Warnings in the terminal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from dpensemble.errors import ColumnWarning


@contextmanager
def warnings_as_lines(*, told_otherwise: tuple[type[Warning], ...] = (ColumnWarning,)) -> Iterator[None]:
    """Print each warning of the library once, as one line on stderr, except the listed kinds."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    messages = [str(warning.message) for warning in caught if not issubclass(warning.category, told_otherwise)]
    for text in dict.fromkeys(messages):
        typer.echo(f"dpensemble: {text}", err=True)
