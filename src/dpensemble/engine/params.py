"""How constructors keep their arguments."""

from __future__ import annotations

from typing import Any


def store_params(estimator: Any, arguments: dict[str, Any]) -> None:
    """Keep a constructor's arguments as they are, under their own names, as scikit-learn asks for."""
    for name, value in arguments.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)
