"""Columns of Parquet as columns of pandas, with types that depend only on the schema.

By default, one null entry turns a column of integers into floats, and integers above 2**53 lose digits. So one
record would change how all others are read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from dpensemble._arrays import Rows
from dpensemble.datasets.odd_bytes import AS_WINDOWS

# Types of texts and bytes that are stored apart, and the usual types.
_VIEWS = {"string_view": "large_string", "binary_view": "large_binary"}


def exact_frame(data: Any) -> pd.DataFrame:
    """Return a table or batch of pyarrow as a DataFrame, with every entry exactly as it is stored.

    Integers and truth values get pandas' nullable types, dictionaries are decoded, and lists, structs and maps are
    Python objects.
    """
    kinds, nested = _nullable(), {}
    for place, column in enumerate(data.schema):
        plain = _decoded(column.type)
        entries = data.column(place)
        if plain.num_fields:
            nested[place] = entries.to_pylist()
        elif plain != column.type:
            entries = _decode(entries, plain)
            data = data.set_column(place, column.name, entries)
        texts = _as_utf8(entries)
        if texts is not entries:
            data = data.set_column(place, column.name, texts)
    table: pd.DataFrame = data.to_pandas(ignore_metadata=True, types_mapper=kinds.get)
    for place, entries in nested.items():
        objects = np.empty(len(entries), dtype=object)
        objects[:] = entries
        table.isetitem(place, objects)
    return table


def _decode(entries: Rows, plain: Rows) -> Rows:
    """Return a dictionary or runs of equal entries as plain entries."""
    import pyarrow as pa  # noqa: PLC0415  takes long to import
    import pyarrow.compute as pc  # noqa: PLC0415  takes long to import

    if pa.types.is_run_end_encoded(entries.type):
        return pc.run_end_decode(entries)
    if str(plain) in _VIEWS:
        # There is no direct way from a dictionary of views.
        entries = entries.cast(pa.dictionary(pa.int64(), pa.type_for_alias(_VIEWS[str(plain)])))
        return entries.cast(entries.type.value_type)
    return entries.cast(plain)


def _as_utf8(entries: Rows) -> Rows:
    """Return entries, or texts that are read as those of a CSV file if some are not UTF-8.

    pandas decodes later, and its error would end the run and quote an entry.
    """
    import pyarrow as pa  # noqa: PLC0415  takes long to import

    kinds = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}
    if str(entries.type) not in kinds:
        return entries
    try:
        entries.validate(full=True)
    except pa.ArrowInvalid:
        written = entries.cast(pa.type_for_alias(kinds[str(entries.type)])).to_pylist()
        return pa.array([None if one is None else one.decode("utf-8", AS_WINDOWS) for one in written])
    return entries


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
