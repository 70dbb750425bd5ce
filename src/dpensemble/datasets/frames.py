"""Frames and series of any library, and the names of their columns, as the engine reads them.

A frame of Arrow, of Polars or of another library becomes a table of pandas, so that columns are found by name. The type
of a column follows from the schema, never from entries. By default, one null entry turns a column of integers into
floats, and integers above 2**53 lose digits. So one record would change how all others are read.

narwhals, which knows the frames of other libraries, is used here and nowhere else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, wraps
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import config_context

from dpensemble._checks import is_missing, shown
from dpensemble._entries import Rows, require_labels, require_readable
from dpensemble._files import AS_WINDOWS
from dpensemble._hide_private_rows import guard_private_rows, on_public_rows
from dpensemble.errors import DataError

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


# Methods that `takes_any_frame` returned.
_READING_FRAMES: WeakSet[Callable[..., Any]] = WeakSet()
_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")

#: Settings of scikit-learn that would change results, at their usual values.
_USUAL_SETTINGS = MappingProxyType(
    {
        "assume_finite": False,
        "print_changed_only": True,
        "array_api_dispatch": False,
        "transform_output": "default",
        "enable_metadata_routing": False,
        "skip_parameter_validation": False,
    }
)
# Arguments that are never rows or one entry for each row.
_NOT_ROWS = frozenset({"read", "ledger"})
_PUBLIC = "X_public"
# How to bring the rows of a lazy frame into memory, by library.
_COLLECTED = {
    "dask": ".compute()",
    "dask_expr": ".compute()",
    "duckdb": ".to_arrow_table()",
    "ibis": ".to_pyarrow()",
    "narwhals": ".collect()",
    "polars": ".collect()",
    "pyspark": ".toArrow()",
    "sqlframe": ".toPandas()",
}
# Types of pandas that hold every number of a kind of type, and blanks.
_NULLABLE = {"b": "boolean", "i": "Int64", "u": "UInt64", "f": "Float64"}
_STREAM = "__arrow_c_stream__"
_OF_ARROW = frozenset({_STREAM, "__arrow_c_array__"})
_OF_FRAMES = _OF_ARROW | {"columns", "__len__"}
_MOST_QUOTED = 5


def takes_any_frame(method: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """Let a method take rows and series of any library, under the usual settings of scikit-learn.

    Every frame becomes a table of pandas, and every series an array or a series of pandas. Names of columns are
    checked. Settings of `sklearn.set_config` change nothing inside. A method that reads frames is returned unchanged.
    """
    if method in _READING_FRAMES:
        return method
    names = list(inspect.signature(method).parameters)

    @wraps(method)
    def read(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Answer:
        given = dict(zip(names, args, strict=False)) | kwargs
        # One object stays one object, so that the method notices public rows that are the private ones.
        known = {id(value): as_pandas(name, value) for name, value in _in_order(given) if name not in _NOT_ROWS}
        with config_context(**_USUAL_SETTINGS):
            return method(
                *(known.get(id(value), value) for value in args),
                **{name: known.get(id(value), value) for name, value in kwargs.items()},
            )

    _READING_FRAMES.add(read)
    return read


class ScoresGivenLabels:
    """A classifier whose `score` checks labels, because some messages of scikit-learn would print all labels."""

    @takes_any_frame
    def score(self, X: Rows, y: Rows, sample_weight: Rows = None) -> float:
        """Return the accuracy of the predicted labels. This costs no privacy.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Rows to classify.
        y : array-like of shape (n_rows,)
            True labels, none of them missing.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row.

        Returns
        -------
        float
        """
        require_labels(y)
        require_readable("sample_weight", sample_weight)
        accuracy: float = super().score(X, y, sample_weight)  # type: ignore[misc]
        return accuracy


def _in_order(given: dict[str, Rows]) -> list[tuple[str, Rows]]:
    """Return arguments with the public rows first, whose mistakes a message may quote."""
    return sorted(given.items(), key=lambda one: one[0] != _PUBLIC)


def as_pandas(name: str, value: Rows) -> Rows:
    """Return a frame of any library as a table of pandas, and a series as an array or a series of pandas.

    Anything else is returned unchanged.

    Parameters
    ----------
    name : str
        What errors call the value. Names of columns are quoted only for ``"X_public"``.
    value : object
        A frame or series of pandas, Polars, Arrow or anything else that narwhals knows or that has Arrow's PyCapsule
        interface. Or anything else.

    Raises
    ------
    DataError
        If rows are lazy, if a column is nested, or if names of columns repeat or have several types.
    """
    kind = type(value)
    if value is None or issubclass(kind, (np.ndarray, list, tuple, str, int, float)):
        return value
    with on_public_rows() if name == _PUBLIC else guard_private_rows():
        if issubclass(kind, (pd.Index, pd.api.extensions.ExtensionArray)):
            return _plain_series(name, pd.Series(value, dtype=value.dtype))
        if issubclass(kind, pd.Series):
            return _plain_series(name, value)
        table = value if issubclass(kind, pd.DataFrame) else _of_library(name, value)
        if isinstance(table, pd.DataFrame):
            require_names(name, table.columns, quoted=name == _PUBLIC)
        return table


def require_names(name: str, columns: Iterable[Hashable], *, quoted: bool) -> None:
    """Raise unless the names of a table's columns are distinct, and all texts or all of one other type.

    Parameters
    ----------
    name : str
        What the error calls the table.
    columns : iterable
        Names of the columns.
    quoted : bool
        Whether the error quotes names, as it may for public tables. In a private table without a header, names are a
        record.

    Raises
    ------
    DataError
    """
    names = list(columns)
    if set(map(type, names)) <= {str} and len(set(names)) == len(names):
        return
    nameless = [place for place, one in enumerate(names) if is_missing(one)]
    if nameless:
        raise DataError(
            f"{name} has a column without a name (column {nameless[0]}, counting from 0): name every column."
        )
    kinds = {_kind_of(one): one for one in reversed(names)}
    if len(kinds) > 1:
        examples = f", such as {_quoted(list(kinds.values()))}" if quoted else ""
        raise DataError(
            f"{name} has names of columns that are of several types{examples}: make every name a text, for example "
            f"{name}.columns = {name}.columns.astype(str)."
        )
    seen: set[Hashable] = set()
    repeated = list(dict.fromkeys(one for one in names if one in seen or seen.add(one)))  # type: ignore[func-returns-value]
    if repeated:
        examples = f" ({_quoted(repeated)})" if quoted else ""
        raise DataError(f"{name} names a column twice{examples}: give each column a name of its own.")


def _kind_of(name: Hashable) -> str:
    if isinstance(name, str):
        return "text"
    return "integer" if isinstance(name, int | np.integer) and not isinstance(name, bool) else type(name).__name__


def _quoted(names: Sequence[Hashable]) -> str:
    rest = len(names) - _MOST_QUOTED
    return ", ".join(map(shown, names[:_MOST_QUOTED])) + (f" and {rest:,} more" if rest > 0 else "")


def _of_library(name: str, value: Rows) -> Rows:
    """Return a frame or series of another library as one of pandas, and anything else unchanged."""
    kind = type(value)
    own = {attribute for attribute in _OF_FRAMES if hasattr(kind, attribute)}
    has_columns, has_arrow = "columns" in own, not own.isdisjoint(_OF_ARROW)
    if not (has_columns or has_arrow):
        return value
    if kind.__module__.startswith("pyarrow."):
        return _of_arrow(name, value, own, value.schema.names if has_columns else None)
    import narwhals as nw  # noqa: PLC0415  takes time to import

    if kind.__module__.startswith("narwhals."):
        return as_pandas(name, value.to_native())
    frame = nw.from_native(value, pass_through=True, allow_series=True)
    if isinstance(frame, nw.LazyFrame) or (has_columns and not has_arrow and "__len__" not in own):
        raise _lazy(name, kind)
    known = frame is not value
    if known and nw.Object in (frame.schema.dtypes() if has_columns else [frame.dtype]):
        # The stream of such a column holds addresses in memory.
        raise DataError(f"{name} has entries of the type Object: make them numbers or texts.")
    if has_arrow:
        names = list(frame.columns) if known and has_columns else None
        if names is not None and any("\0" in one for one in names):
            # Polars ends the process if it is to export such a name.
            value = frame.rename({one: str(place) for place, one in enumerate(names)}).to_native()
        return _of_arrow(name, value, own, names)
    return frame.to_pandas() if known else value


def _lazy(name: str, kind: type) -> DataError:
    library = kind.__module__.partition(".")[0]
    collected = _COLLECTED.get(library)
    how = f"give {name}{collected}" if collected else "give a table of pandas or Arrow that holds the rows"
    blocks = ", or read the records in blocks or parts with LabelMomentsClassifier.fit_blocks" if name == "X" else ""
    return DataError(f"{name} is a lazy {kind.__name__}, whose rows are not in memory: {how}{blocks}.")


def _of_arrow(name: str, value: Rows, own: set[str], names: list[str] | None = None) -> Rows:
    """Return an object with Arrow's PyCapsule interface as a table, or as an array or a series.

    `names` are those of the columns. The interface cuts a name at the character NUL.
    """
    import pyarrow as pa  # noqa: PLC0415  takes long to import

    try:
        entries = pa.chunked_array(value) if _STREAM in own else pa.chunked_array([pa.array(value)])
        if not pa.types.is_struct(entries.type):
            return _plain_series(name, exact_frame(pa.table([entries], names=["entries"]))["entries"])
        schema = pa.schema(list(entries.type))
        for place, field in enumerate(schema):
            _require_flat(name, place, field.type)
        # With numbers in place of names, which may repeat until they are checked.
        batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in entries.chunks]
        numbered = list(map(str, range(len(schema))))
        frame = exact_frame(pa.Table.from_batches(batches, schema=schema).rename_columns(numbered))[numbered]
    except DataError:
        raise
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        # Its text may quote an entry.
        kind = type(error).__name__
    else:
        frame.columns = pd.Index(schema.names if names is None else names, dtype=object)
        return frame
    raise DataError(
        f"{name} has a column of a type that Arrow or pandas cannot read ({kind}): make it numbers, texts or dates."
    )


def _require_flat(name: str, place: int, kind: Rows) -> None:
    """Raise for a column of lists, structs or maps, whose entries are neither numbers nor categories."""
    from pyarrow import types  # noqa: PLC0415  takes long to import

    plain = kind.value_type if types.is_dictionary(kind) or types.is_run_end_encoded(kind) else kind
    if types.is_nested(plain):
        raise DataError(
            f"{name} has a column of lists, structs or maps (column {place}, counting from 0): give each part a column "
            "of its own."
        )


def _plain_series(name: str, series: pd.Series) -> Rows:
    """Return a series as an array of its type if no entry is missing, and of a type of pandas with blanks otherwise.

    Integers never become floats, and the kind of the type is the same with and without blanks.
    """
    kind = series.dtype
    if isinstance(kind, np.dtype):
        return series
    if isinstance(kind, pd.CategoricalDtype):
        # By the type of the categories, since pandas makes floats of integers beside a blank.
        dtype = pd.api.types.pandas_dtype(_NULLABLE.get(kind.categories.dtype.kind, "object"))
        categories = pd.Series(kind.categories.to_numpy()).astype(dtype).array
        return _plain_series(name, pd.Series(categories.take(series.cat.codes.to_numpy(), allow_fill=True)))
    if isinstance(kind, pd.ArrowDtype):
        return _of_arrow(name, series.array.__arrow_array__(), {_STREAM})
    if kind.kind not in _NULLABLE or series.isna().any():
        return series
    return series.to_numpy(dtype=kind.numpy_dtype)  # type: ignore[attr-defined]
