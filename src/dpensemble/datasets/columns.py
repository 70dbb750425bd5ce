"""Columns of a table, many at a time, as numbers and as texts, and which rows are equal.

Which public rows equal private records depends on single records, so the count is for the owner only, and no run is
refused for it. That two tables are one memory is a fact of the program that passes them, so it may be refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._entries import Floats, Rows, is_table
from dpensemble._units import identity, require_id_type


def release_unused() -> None:
    """Return memory that Arrow keeps for later texts to the system. Does nothing without Arrow."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()


# Errors of other libraries about single entries. `UnicodeError` is a `ValueError`, and `OverflowError` arithmetic.
_FROM_ENTRIES = (ArithmeticError, AttributeError, NotImplementedError, TypeError, ValueError)
# Entries that are converted together. Many columns cost little each, and a tall table is not copied as objects.
_ENTRIES_AT_ONCE = 2**21
# Rows below which all columns of texts are read together, and columns above which they are.
_FEW_ROWS, _MANY_COLUMNS = 200, 500
# pandas' integers and truth values that may be missing. They become floats exactly as those of numpy do.
_MASKED = frozenset(f"{kind}{size}" for kind in ("Int", "UInt") for size in (8, 16, 32, 64)) | {
    "Float32",
    "Float64",
    "boolean",
}


def is_number(column: pd.Series) -> bool:
    """Return whether a column holds numbers. Truth values are categories."""
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def number_columns(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which columns hold numbers, shape (n_columns,)."""
    # By type instead of by column, because there may be many columns.
    is_numeric: dict[Any, bool] = {}
    kinds = list(table.dtypes)
    # Categories count as texts. To look such a type up takes as long as reading all of its categories.
    others = [kind for kind in kinds if not isinstance(kind, pd.CategoricalDtype)]
    for kind in others:
        if kind not in is_numeric:
            is_numeric[kind] = is_number(pd.Series(dtype=kind))
    return np.array([not isinstance(kind, pd.CategoricalDtype) and is_numeric[kind] for kind in kinds], dtype=bool)


def in_parts(
    table: pd.DataFrame, columns: NDArray[np.int64], read: Callable[[pd.DataFrame], Any]
) -> Iterator[tuple[NDArray[np.int64], Any]]:
    """Yield places of columns with the result of `read`: many columns at a time, without copying the whole table."""
    size = max(1, _ENTRIES_AT_ONCE // max(len(table), 1))
    for start in range(0, len(columns), size):
        part = columns[start : start + size]
        yield part, read(table.iloc[:, part])


def numbers_of(part: pd.DataFrame) -> tuple[Floats, NDArray[np.bool_]]:
    """Return columns as floats, with NaN for entries that are not numbers, and which columns have such entries.

    Each entry is read separately. Blanks are NaN, and do not count as entries that are not numbers.
    """
    if all(_is_plain(kind) for kind in part.dtypes):
        return part.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(part.shape[1], dtype=bool)
    entries = entries_of(part)
    values = _each_number(entries.ravel()).reshape(entries.shape)
    return values, np.asarray((np.isnan(values) & _present(part, entries)).any(axis=0))


def _present(part: pd.DataFrame, entries: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return which entries are not blank."""
    try:
        return part.notna().to_numpy()
    except _FROM_ENTRIES:
        # One entry can make pandas refuse all: a signaling NaN.
        return np.array([_is_present(entry) for entry in entries.ravel()], dtype=bool).reshape(entries.shape)


def _is_present(entry: object) -> bool:
    try:
        return bool(pd.Series([entry], dtype=object).notna().iloc[0])
    except _FROM_ENTRIES:
        return True


def _is_plain(kind: Any) -> bool:
    return kind.kind in "biuf" if isinstance(kind, np.dtype) else kind.name in _MASKED


def _each_number(entries: NDArray[np.generic]) -> Floats:
    # If one entry has a fraction, each entry is read as a float, regardless of the others.
    try:
        values = pd.to_numeric(np.append(entries, 0.5), errors="coerce")[:-1]
    except _FROM_ENTRIES:
        values = None
    if values is None or values.dtype.kind not in "biuf":
        # One entry can make pandas refuse all, or read all as complex: an integer of 400 digits, a signaling NaN, 1j.
        half = len(entries) // 2
        if not half:
            return np.array([np.nan])
        return np.concatenate([_each_number(entries[:half]), _each_number(entries[half:])])
    return np.asarray(values, dtype=np.float64)


def entries_of(part: pd.DataFrame) -> NDArray[np.generic]:
    """Return entries as objects, exactly as they are stored, shape (n_rows, n_columns)."""
    # `to_numpy` would round all integer categories if one entry is missing.
    with suppress(*_FROM_ENTRIES):
        return part.astype(object).to_numpy(dtype=object)
    columns = [_objects_of(part.iloc[:, place]) for place in range(part.shape[1])]
    return np.stack(columns, axis=1)


def texts_of(part: pd.DataFrame) -> pd.DataFrame:
    """Return columns as texts, each entry written by `as_text`. Missing entries are NaN."""
    # One sign for missing entries, because pandas would choose the sign by the other entries.
    if len(part) < _FEW_ROWS:
        # All columns at once, because there may be very many.
        written = _written(*distinct_texts(pd.Series(entries_of(part).ravel(), dtype=object))).reshape(part.shape)
    else:
        written = np.empty(part.shape[::-1], dtype=object).T
        for place in range(part.shape[1]):
            written[:, place] = _written(*distinct_texts(part.iloc[:, place]))
    return pd.DataFrame(written, index=part.index, columns=part.columns, dtype=object)


def encoded_texts_of(part: pd.DataFrame) -> pd.DataFrame:
    """Return columns as `texts_of` does, as categories of pandas, which hold each distinct text of a column once.

    More than 500 columns stay texts, because each category column takes time.
    """
    if part.shape[1] > _MANY_COLUMNS:
        return texts_of(part)
    columns = {place: _encoded(part.iloc[:, place]) for place in range(part.shape[1])}
    return pd.DataFrame(columns, index=part.index, copy=False).set_axis(part.columns, axis=1)


def _encoded(column: pd.Series) -> pd.Categorical:
    """Return a column as `encoded_texts_of` does."""
    if _is_encoded(column.dtype):
        return column.array
    places, texts = distinct_texts(column)
    kind = pd.CategoricalDtype(pd.Index(texts, dtype=object))
    return pd.Categorical.from_codes(places, dtype=kind, validate=False)


def filled_texts(texts: pd.DataFrame, blank: str) -> pd.DataFrame:
    """Return columns of texts, categories or not, with a text in place of missing entries."""
    if not any(isinstance(kind, pd.CategoricalDtype) for kind in texts.dtypes):
        return texts.fillna(blank)
    filled = texts.copy(deep=False)
    for place in range(texts.shape[1]):
        column = texts.iloc[:, place]
        # Parts of a table with very many columns are encoded, and other parts are not.
        if isinstance(column.dtype, pd.CategoricalDtype) and blank not in column.cat.categories:
            column = column.cat.add_categories(pd.Index([blank], dtype=object))
        filled.isetitem(place, column.fillna(blank).array)
    return filled


def plain_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns of `encoded_texts_of` as texts, as `texts_of` returns them."""
    places = [place for place, kind in enumerate(table.dtypes) if _is_encoded(kind)]
    if places:
        table = table.copy(deep=False)
    for place in places:
        column = table.iloc[:, place]
        # A column of objects, so that pandas infers no other type.
        texts = pd.Series(_written(*distinct_texts(column)), index=column.index, dtype=object)
        table.isetitem(place, texts)  # type: ignore[arg-type]
    return table


def _is_encoded(kind: object) -> bool:
    """Return whether a type is that of categories which are all texts."""
    return isinstance(kind, pd.CategoricalDtype) and kind.categories.dtype == object and _are_texts(kind.categories)


def as_text(column: pd.Series) -> pd.Series:
    """Return entries as they are written, each separately: 5 and 5.0 as "5". Missing entries stay missing."""
    places, texts = distinct_texts(column)
    written, missing = _written(places, texts), np.flatnonzero(places < 0)
    if len(missing):
        lost = _objects_of(column.iloc[missing])
        # An entry that cannot be written is missing, too.
        written[missing] = np.where(pd.isna(lost), lost, np.nan)
    return pd.Series(written, index=column.index, name=column.name, dtype=object)


def _written(places: NDArray[np.intp], texts: list[str]) -> NDArray[np.object_]:
    """Return the text at each place, NaN at the place -1."""
    written = np.empty(len(texts) + 1, dtype=object)
    written[:-1], written[-1] = texts, np.nan
    return written[places]


def _objects_of(column: pd.Series) -> NDArray[np.generic]:
    """Return the entries of a column as objects, exactly as they are stored. What pandas cannot return is missing."""
    with suppress(*_FROM_ENTRIES):
        return column.astype(object).to_numpy(dtype=object)
    half = len(column) // 2
    if not half:
        return np.array([None], dtype=object)
    return np.concatenate([_objects_of(column.iloc[:half]), _objects_of(column.iloc[half:])])


def labels_of(column: pd.Series) -> NDArray[np.generic]:
    """Return labels as they are stored: as an array of numbers if the type of the column is one of NumPy's."""
    plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"
    return column.to_numpy() if plain else _objects_of(column)


def unit_entries(column: pd.Series) -> NDArray[np.generic]:
    """Return the entries of a column of units as they are stored. Raise for a column whose type does not hold ids."""
    require_id_type(f"unit={column.name!r}", column.dtype)
    return _objects_of(column)


def text_of(entry: object) -> Any:
    """Return an entry as it is written, or NaN for an entry that cannot be written, such as a date far from today."""
    try:
        whole = isinstance(entry, float | np.floating) and entry.is_integer()
        return str(int(entry)) if whole else str(entry)  # type: ignore[call-overload]
    except _FROM_ENTRIES:
        return np.nan


def distinct_ids(column: pd.Series) -> tuple[NDArray[np.intp], list[bytes]]:
    """Return the place of each entry among the distinct ids, -1 for an entry that names nobody, and these ids.

    `dpensemble._units` states which ids are equal. Raise for a column of another type.
    """
    require_id_type("the column of units", column.dtype)
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype) or kind.kind not in "iub":
        return _numbered(map(identity, _objects_of(column).tolist()))
    # Entries of one type of whole numbers are one id only if they are the same.
    places, distinct = pd.factorize(column)
    own, ids = _numbered(map(identity, np.asarray(distinct, dtype=object).tolist()))
    return np.append(own, -1)[places], ids


def distinct_texts(column: pd.Series) -> tuple[NDArray[np.intp], list[str]]:
    """Return the place of each entry among the distinct texts of a column, -1 for a missing entry, and these texts."""
    places, entries = distinct_entries(column)
    if _are_texts(entries):
        return places, entries.tolist()
    missing = pd.isna(entries)
    written = (
        None if lost else _text_or_none(one) for one, lost in zip(entries.tolist(), missing.tolist(), strict=True)
    )
    own, texts = _numbered(written)
    return np.append(own, -1)[places], texts


def _text_or_none(entry: object) -> str | None:
    text = text_of(entry)
    # Of a subclass, whose texts may be equal to others, only the characters are taken.
    return str.__str__(text) if isinstance(text, str) else None


def places_among(column: pd.Series, names: list[str], *, other: int, missing: int) -> NDArray[np.intp]:
    """Return the place of each entry, as it is written, among names, and numbers for any other and a missing entry."""
    places, texts = distinct_texts(column)
    found = pd.Index(names, dtype=object).get_indexer(pd.Index(texts, dtype=object))
    return np.append(np.where(found < 0, other, found), missing)[places]


def distinct_entries(column: pd.Series) -> tuple[NDArray[np.intp], NDArray[np.generic]]:
    """Return the place of each entry among some entries, -1 for a missing entry, and these entries, one of each kind.

    Entries have one place only if they are of one type and written alike. So 1, 1.0, True and "1" have places of
    their own, and what is read of an entry can be read once for its place. Whether entries share a place changes no
    result. It follows from types and equality, which differ for ``Decimal("1.0")`` and ``Decimal("1.00")``. Entries of
    such types have a place each.
    """
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return _used(np.asarray(column.cat.codes), kind.categories)
    if isinstance(kind, np.dtype) and kind.kind in "biufmM" and kind.itemsize <= _LARGEST_NUMBER:
        places, distinct = pd.factorize(column.to_numpy())
        return places, _objects_of(pd.Series(distinct))
    if str(kind) in _MASKED or (isinstance(kind, pd.StringDtype) and kind.storage == "pyarrow"):
        places, distinct = pd.factorize(column.array)
        return places, _objects_of(pd.Series(distinct))
    entries = _objects_of(column)
    kinds = set(map(type, entries.tolist()))
    if kinds <= _EQUAL_IF_ALIKE:
        places, distinct = pd.factorize(entries)
        return places, np.asarray(distinct, dtype=object)
    return _by_type(entries)


# Bytes of the largest number that pandas does not round.
_LARGEST_NUMBER = 8
# Entries of these types are equal only if they are written alike, also across types.
_EQUAL_IF_ALIKE = frozenset({str, float, type(None), type(pd.NA), type(pd.NaT)})
# Two entries of one of these types are equal only if they are written alike. Both zeros are written as "0".
_ALIKE_BY_TYPE = frozenset({str, int, float, bool, np.float64, np.int64, np.bool_})


def _by_type(entries: NDArray[np.generic]) -> tuple[NDArray[np.intp], NDArray[np.generic]]:
    """Return places of entries and distinct entries, by type and value, or one by one for types without a cache."""
    missing, places, listed = pd.isna(entries).tolist(), np.empty(len(entries), dtype=np.intp), entries.tolist()
    known: dict[Rows, int] = {}
    distinct: list[Rows] = []
    for number, (entry, lost) in enumerate(zip(listed, missing, strict=True)):
        kind = type(entry)
        place = -1 if lost else known.get((kind, entry), -1) if kind in _ALIKE_BY_TYPE else -1
        if place < 0 and not lost:
            place = len(distinct)
            distinct.append(entry)
            if kind in _ALIKE_BY_TYPE:
                known[kind, entry] = place
        places[number] = place
    return places, _as_objects(distinct)


def _as_objects(listed: list[Rows]) -> NDArray[np.object_]:
    # NumPy would make further dimensions of entries that are sequences.
    return np.fromiter(listed, dtype=object, count=len(listed))


def _used(codes: NDArray[np.integer[Any]], categories: pd.Index) -> tuple[NDArray[np.intp], NDArray[np.generic]]:
    """Return places of categories, only among those that entries have if there are more categories than entries."""
    if len(categories) <= len(codes):
        return codes.astype(np.intp), _objects_of(pd.Series(categories))
    places, used = pd.factorize(codes)
    present = used >= 0
    own = np.where(present, np.cumsum(present) - 1, -1)
    return own[places], _objects_of(pd.Series(categories.take(used[present])))


def _are_texts(entries: Iterable[object]) -> bool:
    """Return whether all entries are texts of Python's own type."""
    return set(map(type, entries)) <= {str}


def _numbered(written: Iterable[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the place of each entry among the distinct ones, -1 for None, and the distinct ones."""
    distinct: dict[Any, int] = {}
    places = [-1 if one is None else distinct.setdefault(one, len(distinct)) for one in written]
    return np.array(places, dtype=np.intp), list(distinct)


def assembled(table: pd.DataFrame, places: NDArray[np.int64], numbers: Floats, others: pd.DataFrame) -> pd.DataFrame:
    """Return a table's columns in order: those at `places` are `numbers`, and the rest are `others`."""
    numeric = pd.DataFrame(numbers, index=table.index, columns=table.columns[places], copy=False)
    if others.shape[1] == 0:
        return numeric
    rest = np.setdiff1d(np.arange(table.shape[1]), places)
    order = np.argsort(np.concatenate([places, rest]))
    return pd.concat([numeric, others], axis=1).iloc[:, order]


def row_hashes(X: Any, y: Any) -> NDArray[np.uint64] | None:
    """Return a hash of each row and its label, or None if no hash is defined for rows of this type.

    Equal rows have equal hashes. The hashes distinguish rows, but they do not hide their content.
    """
    try:
        if not isinstance(X, pd.DataFrame):
            X = np.asarray(X)
            if X.ndim != 2 or X.dtype.kind not in "biufO":
                return None
        plain = not isinstance(X, pd.DataFrame) and X.dtype.kind != "O"
        rows = _hashed(X) if plain else _by_pandas(pd.DataFrame(X))
        labels = _by_pandas(pd.Series(np.asarray(y).ravel()))
    except (ArithmeticError, TypeError, ValueError):
        return None
    if len(labels) != len(rows):
        return None
    mixed: NDArray[np.uint64] = rows * np.uint64(31) + labels
    return mixed


def _by_pandas(entries: pd.DataFrame | pd.Series) -> NDArray[np.uint64]:
    return np.asarray(pd.util.hash_pandas_object(entries, index=False), dtype=np.uint64)


def _hashed(rows: NDArray[np.generic]) -> NDArray[np.uint64]:
    factors = _factors(rows.shape[1])
    hashes = np.empty(len(rows), dtype=np.uint64)
    size = max(1, _ENTRIES_AT_ONCE // max(rows.shape[1], 1))
    for start in range(0, len(rows), size):
        bits = np.ascontiguousarray(rows[start : start + size], dtype=np.float64).view(np.uint64)
        hashes[start : start + size] = (_mixed(bits) * factors).sum(axis=1, dtype=np.uint64)
    return hashes


ReadBlocks = Callable[[], Iterator[tuple[Rows, Rows]]]
_Hashes = NDArray[np.uint64]

# Below this share of public rows, equal ones may be chance, as in `dpensemble.engine.run`.
_MANY = 0.25
# Numbers of equal records that are looked at, and standard deviations of counts.
_MOST_ALIKE, _DEVIATIONS = 8, 3.0
# Columns that are compared by their memory, and steps that numpy may take for each.
_COLUMNS_COMPARED, _STEPS = 50, 10_000
# Errors of rows that are no table of entries.
_INCOMPARABLE = (ArithmeticError, LookupError, TypeError, ValueError)
_SHIFT = np.uint64(32)


class EqualRows:
    """Counts public rows that equal private records, which may come in blocks.

    Rows are equal if all entries of the public columns are: as numbers where the public column holds numbers, and as
    written elsewhere. Blanks are equal to each other. Columns are compared by name if both tables have names. Rows
    without any entry are not counted. Equality is that of hashes of 64 bits.
    """

    def __init__(self, public: Rows) -> None:
        self._public, self._has_names = _as_frame(public), is_table(public)
        self._factors = _factors(self._public.shape[1])
        self._numeric = number_columns(self._public)
        hashes = self._hashed(self._public)
        first = [np.unique(self._of_column(self._public, place)) for place in range(self._public.shape[1])]
        # The column that tells most rows apart spares the others of most private rows.
        self._telling = max(range(len(first)), key=lambda place: len(first[place]), default=0)
        self._telling_entries = first[self._telling] if first else np.empty(0, dtype=np.uint64)
        kept = ~self._public.isna().to_numpy().all(axis=1)
        self.n_rows = len(hashes)
        self._distinct, self._copies = np.unique(hashes[kept], return_counts=True)
        self._equal = np.zeros(len(self._distinct), dtype=np.int64)

    def add(self, private: Rows) -> None:
        """Compare a block of private rows. Rows without the public columns are not compared."""
        table, columns = _as_frame(private), self._public.columns
        if list(table.columns) != list(columns):
            if set(columns) <= set(table.columns):
                table = table[list(columns)]
            elif table.shape[1] == len(columns) and is_table(private) is not self._has_names:
                # Only one of both has names.
                table = table.set_axis(columns, axis=1)
            else:
                return
        if not len(self._distinct) or not len(table):
            return
        some = np.isin(self._of_column(table, self._telling), self._telling_entries)
        hashes = self._hashed(table[some])
        places = np.searchsorted(self._distinct, hashes)
        places[places == len(self._distinct)] = 0
        self._equal += np.bincount(places[self._distinct[places] == hashes], minlength=len(self._equal))

    @property
    def n_equal(self) -> int:
        """Number of public rows that equal a private record."""
        return int(self._copies[self._equal > 0].sum())

    @property
    def beyond_chance(self) -> bool:
        """Whether more than a quarter of public rows equal a private record, and more than chance explains.

        If records are drawn independently, a row's number of equal records is about Poisson with a mean L of its own.
        Let D(k) be the expected number of distinct public rows with k equal records. Then D(k)**2 is at most
        (k + 1) / k D(k - 1) D(k + 1) for any means, by the inequality of Cauchy and Schwarz for exp(-L) L**k. Copied
        records break this: each row has one equal record, few have none or two.
        """
        if self.n_equal <= _MANY * self.n_rows:
            return False
        counts = np.bincount(np.minimum(self._equal, _MOST_ALIKE + 1), minlength=_MOST_ALIKE + 2).astype(float)
        low = np.maximum(counts - _DEVIATIONS * np.sqrt(counts), 0)
        high = counts + _DEVIATIONS * np.sqrt(counts) + _DEVIATIONS
        return any(
            counts[k] > _MANY * len(self._equal) and low[k] ** 2 > (k + 1) / k * high[k - 1] * high[k + 1]
            for k in range(1, _MOST_ALIKE)
        )

    def _of_column(self, table: pd.DataFrame, place: int) -> _Hashes:
        """Return a hash of each entry of one column."""
        column = table.iloc[:, [place]]
        return _of_numbers(numbers_of(column)[0])[:, 0] if self._numeric[place] else _of_texts(column.iloc[:, 0])

    def _hashed(self, table: pd.DataFrame) -> _Hashes:
        hashes = np.zeros(len(table), dtype=np.uint64)
        for places, (values, _) in in_parts(table, np.flatnonzero(self._numeric), numbers_of):
            hashes += (_of_numbers(values) * self._factors[places]).sum(axis=1, dtype=np.uint64)
        for place in np.flatnonzero(~self._numeric).tolist():
            hashes += _of_texts(table.iloc[:, place]) * self._factors[place]
        return hashes


def _of_numbers(values: Floats) -> _Hashes:
    """Return a hash of each number, one for all forms of zero and one for all of NaN."""
    return _mixed(np.ascontiguousarray(np.where(np.isnan(values), np.nan, values + 0.0)).view(np.uint64))


def _mixed(words: _Hashes) -> _Hashes:
    # The low bits of most numbers are 0, and products keep them 0.
    return words ^ (words >> _SHIFT)


def _factors(n_columns: int) -> _Hashes:
    return np.random.default_rng(0).integers(0, 2**63, n_columns, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _of_texts(column: pd.Series) -> _Hashes:
    """Return a hash of each entry as it is written."""
    places, distinct = distinct_texts(column)
    hashes = np.asarray(pd.util.hash_array(np.array(distinct, dtype=object), categorize=False), dtype=np.uint64)
    # A missing entry has place -1, the last one.
    return np.append(hashes, np.uint64(1))[places]


def _as_frame(rows: Rows) -> pd.DataFrame:
    """Return rows as a table."""
    if isinstance(rows, pd.DataFrame):
        return rows
    return pd.DataFrame(np.asarray(rows))


def equal_rows(private: Rows, public: Rows) -> EqualRows | None:
    """Return how many public rows equal private records, or None if these rows cannot be compared."""
    with suppress(*_INCOMPARABLE):
        equal = EqualRows(public)
        equal.add(private)
        return equal
    return None


class ComparedOnce:
    """A reader of private blocks whose first whole pass compares them with public rows. `hear` gets the result."""

    def __init__(
        self, read: ReadBlocks, public: Rows, hear: Callable[[EqualRows], None] | None = None, units: Rows | None = None
    ) -> None:
        self._read, self._hear, self._done = read, hear, False
        #: None if these public rows cannot be compared.
        self.equal: EqualRows | None = None
        self.units = units
        with suppress(*_INCOMPARABLE):
            self.equal = EqualRows(public)

    def __call__(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield the blocks."""
        for X, y in self._read():
            if self.equal is not None and not self._done:
                with suppress(*_INCOMPARABLE):
                    self.equal.add(X)
            yield X, y
        if self.equal is not None and self._hear is not None and not self._done:
            self._hear(self.equal)
        self._done = True


def share_memory(X: Rows, X_public: Rows) -> bool:
    """Return whether a part of the public rows is the same memory as a part of the private rows.

    Different rows of one array share none, even if they take turns.
    """
    if X is X_public:
        return X is not None
    return any(_overlap(one, other) for one, other in islice(_columns_alike(X, X_public), _COLUMNS_COMPARED))


def _columns_alike(X: Rows, X_public: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yield memory that holds the same column of both."""
    if isinstance(X, pd.DataFrame) and isinstance(X_public, pd.DataFrame):
        for name in X.columns.intersection(X_public.columns):
            # Names may be repeated, which is refused later.
            if X[name].ndim == X_public[name].ndim == 1:
                yield from _arrays(X[name], X_public[name])
        return
    one, other = (rows.to_numpy() if isinstance(rows, pd.DataFrame) else rows for rows in (X, X_public))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        yield one, other


def _arrays(one: pd.Series, other: pd.Series) -> Iterator[tuple[Rows, Rows]]:
    if not any(map(pd.api.types.is_extension_array_dtype, (one, other))):
        yield one.to_numpy(), other.to_numpy()


def _overlap(one: Rows, other: Rows) -> bool:
    if not np.may_share_memory(one, other):
        return False
    try:
        return np.shares_memory(one, other, max_work=_STEPS)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return False
