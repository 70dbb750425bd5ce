"""Store the arguments of constructors."""

from __future__ import annotations

from typing import Any


def store_params(estimator: Any, arguments: dict[str, Any]) -> None:
    """Store a constructor's arguments unchanged, under their own names, as scikit-learn requires."""
    for name, value in arguments.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)
