"""Columns of Parquet as columns of pandas, with types that depend only on the schema.

By default, one null entry turns a column of integers into floats, and integers above 2**53 lose digits. So one
record would change how all others are read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd


def exact_frame(data: Any) -> pd.DataFrame:
    """Return a table or batch of pyarrow as a DataFrame, with every entry exactly as it is stored.

    Integers and truth values get pandas' nullable types, dictionaries are decoded, and lists, structs and maps are
    Python objects.
    """
    kinds, nested = _nullable(), {}
    for place, column in enumerate(data.schema):
        plain = _decoded(column.type)
        if plain.num_fields:
            nested[place] = data.column(place).to_pylist()
        elif plain != column.type:
            data = data.set_column(place, column.name, data.column(place).cast(plain))
    table: pd.DataFrame = data.to_pandas(ignore_metadata=True, types_mapper=kinds.get)
    for place, entries in nested.items():
        objects = np.empty(len(entries), dtype=object)
        objects[:] = entries
        table.isetitem(place, objects)
    return table


@cache
def _nullable() -> dict[Any, Any]:
    import pyarrow as pa  # noqa: PLC0415  takes long to import

    integers = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    kinds = {pa.type_for_alias(name.lower()): pd.api.types.pandas_dtype(name) for name in integers}
    return kinds | {pa.bool_(): pd.BooleanDtype()}


def _decoded(kind: Any) -> Any:
    """Return the type of entries in a dictionary or in runs of equal entries."""
    from pyarrow import types  # noqa: PLC0415  takes long to import

    return kind.value_type if types.is_dictionary(kind) or types.is_run_end_encoded(kind) else kind
