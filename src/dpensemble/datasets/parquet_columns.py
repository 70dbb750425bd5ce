"""Columns of Parquet as columns of pandas, with types that depend only on the schema.

By default, one null entry turns a column of integers into floats, and integers above 2**53 lose digits. So one
record would change how all others are read.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import Rows
from dpensemble.datasets.odd_bytes import AS_WINDOWS

# Types of texts and bytes that are stored apart, and the usual types.
_VIEWS = {"string_view": "large_string", "binary_view": "large_binary"}
# Errors about single entries, which Python or pandas cannot hold.
_FROM_ENTRIES = (ArithmeticError, NotImplementedError, TypeError, ValueError)
# Seconds of the first and last day that Python holds in every time zone.
_CALENDAR = tuple(int(datetime(*day, tzinfo=UTC).timestamp()) for day in ((1, 1, 2), (9999, 12, 30)))
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000}


def exact_frame(data: Rows) -> pd.DataFrame:
    """Return a table or batch of pyarrow as a DataFrame, with every entry exactly as it is stored.

    Integers and truth values get pandas' nullable types, dictionaries are decoded, and lists, structs and maps are
    Python objects. An entry that Python cannot hold is missing, such as a date after the year 9999.
    """
    import pyarrow as pa  # noqa: PLC0415  takes long to import

    nested = {}
    for place, column in enumerate(data.schema):
        plain = _decoded(column.type)
        entries = stored = data.column(place)
        if plain.num_fields:
            nested[place] = _python_objects(entries)
            data = data.set_column(place, column.name, pa.nulls(len(entries)))
            continue
        if plain != column.type:
            entries = _decode(entries, plain)
        entries = _in_calendar(_as_utf8(entries))
        # Each new column takes time in proportion to the number of columns.
        if entries is not stored:
            data = data.set_column(place, column.name, entries)
    table = _frame(data)
    for place, objects in nested.items():
        table.isetitem(place, pd.arrays.NumpyExtensionArray(objects))
    return table


def _frame(data: Rows) -> pd.DataFrame:
    """Return columns without nested entries. If one entry cannot be converted, only this entry is missing."""
    mapper = _nullable().get
    with suppress(*_FROM_ENTRIES):
        return data.to_pandas(ignore_metadata=True, types_mapper=mapper)
    columns: list[Rows] = []
    for place, column in enumerate(data.schema):
        entries = data.column(place)
        try:
            columns.append(data.select([place]).to_pandas(ignore_metadata=True, types_mapper=mapper)[column.name])
        except _FROM_ENTRIES:
            columns.append(pd.Series(_python_objects(entries), dtype=object))
    return pd.concat(columns, axis=1).set_axis(data.schema.names, axis=1)


def _python_objects(entries: Rows) -> NDArray[np.object_]:
    """Return entries as Python objects, None for an entry that Python cannot hold."""
    import pyarrow as pa  # noqa: PLC0415  takes long to import

    objects = np.empty(len(entries), dtype=object)
    try:
        listed = entries.to_pylist()
    except (*_FROM_ENTRIES, pa.lib.ArrowException):
        half = len(entries) // 2
        if half:
            return np.concatenate([_python_objects(entries.slice(0, half)), _python_objects(entries.slice(half))])
    else:
        objects[:] = listed
    return objects


def _decode(entries: Rows, plain: Rows) -> Rows:
    """Return a dictionary or runs of equal entries as plain entries."""
    import pyarrow as pa  # noqa: PLC0415  takes long to import
    import pyarrow.compute as pc  # noqa: PLC0415  takes long to import

    if pa.types.is_run_end_encoded(entries.type):
        return pc.run_end_decode(entries)
    # There is no direct way from a dictionary of views.
    kind = pa.type_for_alias(_VIEWS[str(plain)]) if str(plain) in _VIEWS else plain
    chunks = entries.chunks if isinstance(entries, pa.ChunkedArray) else [entries]
    decoded = [pc.take(_as_utf8(chunk.dictionary).cast(kind), chunk.indices) for chunk in chunks]
    return pa.chunked_array(decoded, type=kind)


def _in_calendar(entries: Rows) -> Rows:
    """Return entries, where moments in a time zone are missing if Python's calendar does not hold them.

    Some versions of pandas write such a moment as a text, and others end the process.
    """
    import pyarrow as pa  # noqa: PLC0415  takes long to import
    import pyarrow.compute as pc  # noqa: PLC0415  takes long to import

    kind = entries.type
    if not pa.types.is_timestamp(kind) or kind.tz is None or kind.unit == "ns":
        return entries
    numbers, per_second = entries.cast(pa.int64()), _PER_SECOND[kind.unit]
    first, last = (moment * per_second for moment in _CALENDAR)
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return entries if pc.all(inside).as_py() in (True, None) else pc.if_else(inside, entries, pa.scalar(None, kind))


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
