"""One thread for libraries of linear algebra, where more threads would only wait for each other."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


def one_thread(user_api: str | None = "blas") -> AbstractContextManager[object]:
    """Return a context in which such libraries, by default those of linear algebra, use one thread.

    Parameters
    ----------
    user_api : {"blas", "openmp"} or None
        Kind of libraries, or None for all kinds.
    """
    return _controller(len(sys.modules)).limit(limits=1, user_api=user_api)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:  # noqa: ARG001
    """Return the libraries' threads. Looking them up takes milliseconds, and only an import loads another library."""
    return ThreadpoolController()
