"""A fingerprint of an object's state, to detect whether foreign code changes it."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np


def fingerprint(thing: object) -> str:
    """Return a hash of an object's whole content: attributes, arrays, containers, and states of random generators."""
    digest = hashlib.sha256()
    _add(thing, digest, [])
    return digest.hexdigest()


def _add(thing: Any, digest: Any, above: list[Any]) -> None:
    digest.update(f"<{type(thing).__module__}.{type(thing).__qualname__}>".encode())
    if any(thing is one for one in above):
        return
    if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, np.generic)):
        digest.update(repr(thing).encode())
    elif isinstance(thing, np.ndarray) and thing.dtype != object:
        digest.update(f"{thing.shape}{thing.dtype}".encode() + np.ascontiguousarray(thing).tobytes())
    elif hasattr(thing, "tocoo"):
        entries = thing.tocoo()
        _add_all([thing.shape, entries.row, entries.col, entries.data], digest, [*above, thing])
    elif isinstance(thing, np.ndarray):
        _add_all([thing.shape, *thing.ravel().tolist()], digest, [*above, thing])
    elif isinstance(thing, dict):
        _add_all([part for item in thing.items() for part in item], digest, [*above, thing])
    elif isinstance(thing, (list, tuple)):
        _add_all(thing, digest, [*above, thing])
    elif isinstance(thing, (set, frozenset)):
        digest.update("".join(sorted(fingerprint(one) for one in thing)).encode())
    elif hasattr(thing, "__dict__") and not isinstance(thing, type) and not callable(getattr(thing, "__code__", None)):
        _add_all([part for item in sorted(vars(thing).items()) for part in item], digest, [*above, thing])
    else:
        _add_foreign(thing, digest)


def _add_all(parts: Any, digest: Any, above: list[Any]) -> None:
    for part in parts:
        _add(part, digest, above)


def _add_foreign(thing: Any, digest: Any) -> None:
    """Add an object without attributes: a function, a class, or an object of compiled code."""
    try:
        digest.update(pickle.dumps(thing))
    except Exception:
        digest.update(getattr(thing, "__qualname__", type(thing).__qualname__).encode())
