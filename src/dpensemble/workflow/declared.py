"""Declared columns, for runs without public rows, from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.moments import declared_grid

_FORM = 'an object such as {"age": [17, 90], "sex": ["f", "m"]}'


def read_columns(path: Path) -> dict[str, Any]:
    """Return what a JSON file declares of each column: two numbers are a range, and texts are categories."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_each_once)
    except InvalidParameterError:
        raise
    except OSError as error:
        raise FileError(f"declared_columns={str(path)!r} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError):
        raise FileError(f"declared_columns={str(path)!r} is not JSON; write {_FORM}.") from None
    if not isinstance(found, dict):
        raise InvalidParameterError(
            f"declared_columns={str(path)!r} declares nothing; write {_FORM}.", parameter="declared_columns"
        )
    declared_grid(found)
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidParameterError(
            f"declared_columns names {twice[0]!r} twice; name each once.", parameter="declared_columns"
        )
    return dict(pairs)
