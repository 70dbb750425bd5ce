"""A public feature map of tables, by bins at several scales and categories, and the map that a run takes by default.

Numbers lie between public knots, and many columns and rows are read at a time. Columns come first and rows last, so
that each step works on rows that lie side by side in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dpensemble._entries import Floats, Integers, Rows
from dpensemble.datasets.columns import as_text, in_parts, is_number, numbers_of, places_among
from dpensemble.datasets.tables import ColumnReading, as_fitted_table, as_library_transformer, as_table
from dpensemble.errors import DataError
from dpensemble.moments.maps.base import ADDITIVE, BoundedMap, FeatureMap
from dpensemble.moments.maps.curved import CurvedMap, beside
from dpensemble.moments.maps.directions import DENSE, ColumnDirectionsMap, DirectionsMap, effective_directions

#: Places of features within a column, or one number if all entries have the same place.
_Places = NDArray[np.integer] | int
# Scales of up to this number of knots have all of their weights written, which is faster than to look for two of them.
_FEW_KNOTS = 5
# Up to this number, knots are compared one after another for all columns. More are searched by halving.
_MOST_COMPARED = 24
# Entries of a step, which should stay in the cache of a processor.
_ENTRIES_AT_ONCE = 2**15


def _row_slices(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices of rows that are small enough for fast steps."""
    size = max(1, _ENTRIES_AT_ONCE // max(n_columns, 1))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def _stacked_weights(knots: list[list[Floats]]) -> list[Floats]:
    """Return the knots of columns by scale, shape (n_columns, n_knots) each."""
    return [np.stack(of_scale) for of_scale in zip(*knots, strict=True)]


class _Weights(NamedTuple):
    """Weights of some entries at places of their columns, shape (n_columns, n_rows)."""

    places: _Places
    weights: Floats


def _weights_of_numbers(
    knots: list[Floats], numbers: Floats, length: float, *, all_knots: bool = False
) -> Iterator[_Weights]:
    """Yield places within columns and weights, whose squares sum to ``length**2`` an entry.

    The place of missing entries comes last, and only if an entry is missing. `knots` are those of each scale, as
    `_stacked_weights` returns them. `numbers` have the shape (n_columns, n_rows). With `all_knots` the knots of a scale
    that has few are yielded one after another, also those with the weight 0. By default the two knots beside a number
    are.
    """
    missing = np.isnan(numbers)
    share, start = length / np.sqrt(len(knots)), 0
    present: Floats | float = share
    any_missing = bool(missing.any())
    if any_missing:
        numbers, present = np.where(missing, 0.0, numbers), np.where(missing, 0.0, share)
    for of_scale in knots:
        size = of_scale.shape[1]
        if size == 1:
            yield _Weights(start, np.broadcast_to(present, numbers.shape))
        elif size == 2 or (all_knots and size <= _FEW_KNOTS):
            for place, own in enumerate(_of_all_knots(of_scale, numbers)):
                yield _Weights(start + place, own * present)
        else:
            low, below, above = _neighbours(of_scale, numbers)
            part = _part(numbers, below, above - below)
            yield _Weights(start + low, np.sqrt(1 - part) * present)
            yield _Weights(start + low + 1, np.sqrt(part, out=part) * present)
        start += size
    if any_missing:
        yield _Weights(start, missing * length)


def _of_all_knots(knots: Floats, numbers: Floats) -> Iterator[Floats]:
    """Yield the weight of each knot: the root of the part of the way to it less the part of the way to the next one.

    A number between two knots is all of the way to each knot before it, and nothing of the way to each knot behind it.
    """
    widths = np.diff(knots, axis=1)
    before: Floats | float = 1.0
    for place in range(knots.shape[1] - 1):
        part = _part(numbers, knots[:, place : place + 1], widths[:, place : place + 1])
        difference = before - part
        yield np.sqrt(difference, out=difference)
        before = part
    yield np.sqrt(part, out=part)


def _part(numbers: Floats, below: Floats, width: Floats) -> Floats:
    part: Floats = numbers - below
    part /= width
    return np.clip(part, 0.0, 1.0, out=part)


def _write_weights(features: Floats, starts: NDArray[np.int64], rows: slice, entries: _Weights) -> None:
    """Write the weights of some columns and rows into an array of zeros, shape (n_features, n_rows).

    `starts` are the first features of the columns.
    """
    if isinstance(entries.places, int):
        features[starts + entries.places, rows] = entries.weights
        return
    # Places in the flat array, which numpy finds faster than pairs of places.
    places = entries.places + starts[:, None]
    places *= features.shape[1]
    places += np.arange(rows.start, rows.stop)
    features.reshape(-1)[places] = entries.weights


def _neighbours(knots: Floats, numbers: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the place of the last knot that is at most a number, this knot and the next one.

    The first knot also takes smaller numbers, and the last but one takes larger numbers.
    """
    inner = knots[:, 1:-1]
    if inner.shape[1] <= _MOST_COMPARED:
        # Choosing by a mask takes several times as long as adding it.
        counts = np.zeros(numbers.shape, dtype=np.int8)
        for place in range(inner.shape[1]):
            counts += (numbers >= inner[:, place : place + 1]).view(np.int8)
        low = counts.astype(np.int64)
    else:
        low = np.empty(numbers.shape, dtype=np.int64)
        for column, own in enumerate(inner):
            low[column] = np.searchsorted(own, numbers[column], side="right")
    flat = low + (np.arange(len(knots)) * knots.shape[1])[:, None]
    return low, knots.take(flat), knots.take(flat + 1)


# Finer knots need more public rows, which show where knots lie and how common each one is.
_ROWS_PER_KNOT = 15
#: Largest number of features that finer knots may lead to.
MOST_FEATURES = 800
# Power of the number of knots by which a scale counts less where coarse scales come first.
_SMOOTHNESS = 2.0
# Deviations at which linear functions of numbers are cut, and the penalty of their weights.
_MOST_LINEAR, _PENALTY = 3.0, 1e-3
# Features in multiples of those that may differ from 0, up to which an array is faster than a sparse matrix.
_DENSE = 2


# Rows from which distinct entries are looked for, rows that share an entry on average, and rows looked at first.
_FEWEST_SHARED, _ROWS_PER_ENTRY, _SOME_ROWS = 512, 4, 128


class SharedColumn(NamedTuple):
    """The features of distinct entries of a column, and which of them each row has.

    `span` are the places of the column's features among those of all columns. `features` have the shape (n_entries,
    n_features of the column), and `places` the shape (n_rows,).
    """

    column: int
    span: slice
    features: Floats
    places: NDArray[np.intp]


class SharedFeatures(NamedTuple):
    """Features of rows: of `columns` that share entries, and the `rest` of all features, at the places `own`."""

    columns: list[SharedColumn]
    own: NDArray[np.int64] | slice
    rest: Rows


class TableMap(FeatureMap):
    """Numbers at several scales, categories and missing entries, as features of constant length 1.

    Everything is learned from public rows. A number lies between two knots, which are public quantiles, and has a part
    in both. This holds at several scales, from two knots to many. A category has a coordinate of its own. Every column
    has one for missing entries, and categories have one for all *others*, whether or not a public row needs them.

    Parameters
    ----------
    knots : sequence of int, default=(2, 3, 5, 9, 17, 33)
        Numbers of knots, at least 2 each. A number is left out if it needs more public rows than there are (15 a knot).
        The finest are left out if there would be more than `most_features` features.
    number_weight : float, default=1.5
        Length of a number's part. A category's part has length 1.
    fewest : int, default=5
        Categories that fewer public rows have are *other*.
    most_features : int, default=800
        Largest number of features that finer knots may lead to.

    Attributes
    ----------
    columns_ : list of dict
        How each column is read: ``name``, ``kind``, ``knots`` or ``categories``, ``start`` of its coordinates, and the
        ``sizes`` of its scales.
    blocks_ : ndarray of shape (n_features_out,)
        Number of the block that each feature is in: one a column and scale, and the constant's last.
    squares_ : ndarray of shape (n_blocks,)
        Squared length of each block. The sum is 1.
    columns_of_blocks_ : ndarray of shape (n_blocks,)
        Number of the column that each block belongs to, or -1 for the constant.
    missing_ : ndarray of shape (n_columns,)
        Feature that marks a missing entry of a column.
    nonnegative_ : bool
        True: no feature is below 0.

    Examples
    --------
    >>> public = pd.DataFrame({"age": [20.0, 30.0, 40.0, 60.0], "sex": ["f", "m", "f", "m"]})
    >>> features = TableMap(knots=(2,), fewest=1).fit(public).transform(public)
    >>> features.shape, np.round(np.asarray(features.power(2).sum(axis=1)).ravel(), 6).tolist()
    ((4, 8), [1.0, 1.0, 1.0, 1.0])
    """

    reads_rows_alone = True
    reads_columns_apart = True
    takes_blanks = True
    attribution = ADDITIVE

    def __init__(
        self,
        knots: Sequence[int] = (2, 3, 5, 9, 17, 33),
        number_weight: float = 1.5,
        fewest: int = 5,
        most_features: int = MOST_FEATURES,
    ) -> None:
        self.knots = knots
        self.number_weight = number_weight
        self.fewest = fewest
        self.most_features = most_features

    def fit(self, X: Any, y: Any = None) -> TableMap:  # noqa: ARG002
        """Learn knots and categories from public rows. Never pass private rows.

        Parameters
        ----------
        X : DataFrame or array of shape (n_rows, n_columns)
            Public rows: numbers, truth values or texts, with NaN or None for missing entries.
        y : ignored
        """
        table = as_table(X)
        if not len(table):
            raise DataError("X must have rows: give public rows.")
        self.n_features_in_ = table.shape[1]
        if all(isinstance(name, str) for name in table.columns):
            self.feature_names_in_ = np.asarray(table.columns, dtype=object)
        scales = [n for n in self.knots if n <= 3 or n * _ROWS_PER_KNOT <= len(table)]
        # From coarse to fine, so that the finest scales of many columns are not computed only to be left out.
        knots_of_columns: dict[tuple[int, int], Floats] = {}
        for count in range(1, len(scales) + 1):
            self._read(table, scales[:count], knots_of_columns)
            if self.n_features_out_ > self.most_features:
                if count > 1:
                    self._read(table, scales[: count - 1], knots_of_columns)
                break
        return self

    def _read(self, table: pd.DataFrame, scales: Sequence[int], known: dict[tuple[int, int], Floats]) -> None:
        self.columns_, start = [], 0
        for place, name in enumerate(table.columns):
            values = table[name]
            described = self._number(values, scales, known, place) if is_number(values) else self._category(values)
            self.columns_.append({"name": str(name), "start": start, **described})
            start += sum(described["sizes"]) + 1
        self.n_features_out_ = start + 1
        sizes = [size for column in self.columns_ for size in column["sizes"]]
        owners = [number for number, column in enumerate(self.columns_) for _ in column["sizes"]]
        shares = [column["square"] / len(column["sizes"]) for column in self.columns_ for _ in column["sizes"]]
        self.columns_of_blocks_ = np.asarray([*owners, -1])
        self.squares_ = np.asarray([*shares, 1.0])
        self.length_ = float(np.sqrt(self.squares_.sum()))
        self.squares_ /= self.length_**2
        self.missing_ = np.asarray([column["start"] + sum(column["sizes"]) for column in self.columns_])
        self.blocks_ = np.empty(self.n_features_out_, dtype=np.int64)
        rest = np.setdiff1d(np.arange(self.n_features_out_), self.missing_)
        self.blocks_[rest] = np.repeat(np.arange(len(sizes) + 1), [*sizes, 1])
        # A missing entry is judged together with the coarsest scale of its column.
        self.blocks_[self.missing_] = np.cumsum([0, *(len(column["sizes"]) for column in self.columns_)])[:-1]
        self.nonnegative_ = True

    def _number(
        self, values: pd.Series, scales: Sequence[int], known: dict[tuple[int, int], Floats], place: int
    ) -> dict[str, Any]:
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        for n in scales:
            if (place, n) not in known:
                known[place, n] = quantiles(numbers[np.isfinite(numbers)], n)
        of_scales = [known[place, n] for n in scales]
        # A scale must be finer than the one before.
        knots = [one for i, one in enumerate(of_scales) if i == 0 or len(one) > len(of_scales[i - 1])]
        return {"kind": "number", "knots": knots, "sizes": [len(one) for one in knots], "square": self.number_weight**2}

    def _category(self, values: pd.Series) -> dict[str, Any]:
        counts = as_text(values).value_counts()
        categories = sorted(counts.index[counts >= min(self.fewest, counts.max())]) if len(counts) else []
        return {"kind": "category", "categories": categories, "sizes": [len(categories) + 1], "square": 1.0}

    def transform(self, X: Any) -> sparse.csr_matrix:
        """Return the features of rows, shape (n_rows, n_features_out). Every row has length 1."""
        check_is_fitted(self)
        table = as_fitted_table(self, X)
        slots = np.cumsum([0, *(_slots(column) for column in self.columns_)])
        per_row, n_rows = int(slots[-1]) + 1, len(table)
        # Numbers of features and entries fit into these, or indices would be copied.
        kind = np.int32 if max(per_row * n_rows, self.n_features_out_) < 2**31 else np.int64
        # Slots of missing entries are left out if all entries of a column are present.
        where, data = np.zeros((per_row, n_rows), dtype=kind), np.zeros((per_row, n_rows))
        for part, rows, entries in self._places_and_weights(table):
            starts = self._starts[part][:, None]
            for at, (places, weights) in enumerate(entries):
                where[slots[part] + at, rows] = starts + places
                data[slots[part] + at, rows] = weights
        where[-1], data[-1] = self.n_features_out_ - 1, 1.0 / self.length_
        indptr = np.arange(0, per_row * n_rows + 1, per_row, dtype=kind)
        features = sparse.csr_matrix((data.T.ravel(), where.T.ravel(), indptr), shape=(n_rows, self.n_features_out_))
        features.eliminate_zeros()
        return features

    def for_sums(self, X: Rows) -> sparse.csr_matrix | Floats:
        """Return the same features, as an array if that is faster to sum up, because few features are 0."""
        return self._dense_features(X) if self.n_features_out_ <= _DENSE * self._most_nonzero else self.transform(X)

    def for_products(self, X: Rows) -> sparse.csr_matrix | Floats:
        """Return the same features, as an array if that is faster to multiply by an array with many columns."""
        return self._dense_features(X) if self.n_features_out_ <= DENSE * self._most_nonzero else self.transform(X)

    def for_shared_products(self, X: Rows) -> SharedFeatures:
        """Return the same features, those of columns with few distinct entries apart, once for each distinct entry."""
        check_is_fitted(self)
        table = as_fitted_table(self, X)
        self._require_width(table)
        parts = list(self._shared(table)) if len(table) >= _FEWEST_SHARED else []
        if not parts:
            return SharedFeatures([], slice(None), self.for_products(table))
        shared = {part.column for part in parts}
        rest = [number for number in range(len(self.columns_)) if number not in shared]
        spans = [range(*_span(self.columns_[number]).indices(self.n_features_out_)) for number in rest]
        own = np.array([place for span in spans for place in span] + [self.n_features_out_ - 1])
        return SharedFeatures(parts, own, self._of_columns(rest).for_products(table.iloc[:, rest]))

    def _shared(self, table: pd.DataFrame) -> Iterator[SharedColumn]:
        """Yield the columns of which rows share entries, so that a product for each distinct entry is less work."""
        most, members = len(table) // _ROWS_PER_ENTRY, []
        for number, column in enumerate(self.columns_):
            if column["kind"] == "number":
                members.append(number)
            elif sum(column["sizes"]) < most:
                places = _of_category(column, table.iloc[:, number], self._length_of(column)).places
                features = np.eye(sum(column["sizes"]) + 1) * self._length_of(column)
                yield SharedColumn(number, _span(column), features, np.ravel(places))
        for part, numbers in self._numbers(table, members):
            some = np.sort(numbers[:: len(numbers) // _SOME_ROWS], axis=0)
            distinct = 1 + np.count_nonzero(some[1:] > some[:-1], axis=0)
            for place in np.flatnonzero(distinct * _ROWS_PER_ENTRY < 2 * len(some)):
                places, entries = pd.factorize(numbers[:, place], use_na_sentinel=False)
                if len(entries) <= most:
                    column = self.columns_[int(part[place])]
                    features = self.features_of_column(column, pd.Series(entries))
                    yield SharedColumn(int(part[place]), _span(column), features, places)

    def _of_columns(self, numbers: list[int]) -> TableMap:
        """Return the map of some columns and the constant."""
        some, start = TableMap(), 0
        some.__dict__.update({name: value for name, value in vars(self).items() if name != "feature_names_in_"})
        some.columns_ = []
        for number in numbers:
            some.columns_.append(self.columns_[number] | {"start": start})
            start += sum(self.columns_[number]["sizes"]) + 1
        some.n_features_in_, some.n_features_out_ = len(numbers), start + 1
        return some

    @property
    def _most_nonzero(self) -> int:
        return 1 + sum(_slots(column) for column in self.columns_)

    def _dense_features(self, X: Rows) -> Floats:
        check_is_fitted(self)
        table = as_fitted_table(self, X)
        features = np.zeros((self.n_features_out_, len(table)))
        starts = self._starts
        for part, rows, entries in self._places_and_weights(table, all_knots=True):
            for some in entries:
                _write_weights(features, starts[part], rows, some)
        features[-1] = 1.0 / self.length_
        return features.T

    @property
    def _starts(self) -> NDArray[np.int64]:
        return np.array([column["start"] for column in self.columns_], dtype=np.int64)

    def _places_and_weights(
        self, table: pd.DataFrame, *, all_knots: bool = False
    ) -> Iterator[tuple[NDArray[np.int64], slice, Iterator[_Weights]]]:
        """Yield similar columns and some rows, with places within columns and weights of their entries."""
        self._require_width(table)
        alike: dict[tuple[int, ...], list[int]] = {}
        for number, column in enumerate(self.columns_):
            if column["kind"] == "number":
                alike.setdefault(tuple(column["sizes"]), []).append(number)
            else:
                entries = _of_category(column, table.iloc[:, number], self._length_of(column))
                yield np.array([number]), slice(0, len(table)), iter([entries])
        for members in alike.values():
            length = self._length_of(self.columns_[members[0]])
            for part, numbers in self._numbers(table, members):
                knots = _stacked_weights([self.columns_[number]["knots"] for number in part.tolist()])
                for rows in _row_slices(len(table), len(part)):
                    own = np.ascontiguousarray(numbers[rows].T)
                    yield part, rows, _weights_of_numbers(knots, own, length, all_knots=all_knots)

    def _require_width(self, table: pd.DataFrame) -> None:
        if table.shape[1] != self.n_features_in_:
            raise DataError(
                f"X has {table.shape[1]} columns but the map was fitted on {self.n_features_in_}: use the same."
            )

    def _numbers(self, table: pd.DataFrame, members: list[int]) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Yield some columns of numbers and their entries, shape (n_rows, n_columns)."""
        for part, (numbers, odd) in in_parts(table, np.array(members, dtype=np.int64), numbers_of):
            if odd.any():
                name = self.columns_[int(part[np.argmax(odd)])]["name"]
                raise DataError(
                    f"column {name!r} of X must hold numbers, as it does in public rows; got other entries."
                )
            yield part, numbers

    def _length_of(self, column: ColumnReading) -> float:
        return float(np.sqrt(column["square"]) / self.length_)

    def reference(self, public: pd.DataFrame) -> Floats:
        """Return the mean features of public rows, shape (n_features_out,)."""
        return np.asarray(self.transform(public).mean(axis=0)).ravel()

    def column_parts(self, X: pd.DataFrame | Floats, weights: Floats, reference: Floats) -> Floats:
        """Return what each column adds to ``features @ weights`` beyond the reference."""
        features = self.transform(X).tocsc()
        parts = np.empty((features.shape[0], len(self.columns_), weights.shape[1]))
        for number, column in enumerate(self.columns_):
            own = _span(column)
            parts[:, number] = features[:, own] @ weights[own] - reference[own] @ weights[own]
        return parts

    def features_of_column(self, column: ColumnReading, values: pd.Series) -> Floats:
        """Return the features of a single column, shape (n_values, n_features_of_the_column)."""
        length = self._length_of(column)
        if column["kind"] == "category":
            entries = iter([_of_category(column, values, length)])
        else:
            numbers = pd.to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
            entries = _weights_of_numbers(_stacked_weights([column["knots"]]), numbers[None], length)
        features = np.zeros((sum(column["sizes"]) + 1, len(values)))
        for some in entries:
            _write_weights(features, np.zeros(1, dtype=np.int64), slice(0, len(values)), some)
        return features.T

    def linear_weights(self, public: pd.DataFrame) -> Floats:
        """Return weights of features whose sums are the numbers of public rows, cut at 3 deviations, with variance 1.

        Shape (n_features_out, n_numbers), without numbers that do not vary. Features are roots of parts of the way from
        knot to knot. Sums over all scales are nearly straight lines, by least squares with a small penalty.
        """
        table, columns = as_table(public), [np.zeros((self.n_features_out_, 0))]
        for column, place in zip(self.columns_, range(table.shape[1]), strict=True):
            if column["kind"] != "number":
                continue
            numbers = pd.to_numeric(table.iloc[:, place]).to_numpy(dtype=np.float64, na_value=np.nan)
            known = np.isfinite(numbers)
            spread = float(numbers[known].std()) if known.any() else 0.0
            # Rounding of the mean gives equal numbers a small deviation.
            if not 0 < spread < np.inf or numbers[known].min() == numbers[known].max():
                continue
            standard = np.zeros(len(numbers))
            standard[known] = np.clip((numbers[known] - numbers[known].mean()) / spread, -_MOST_LINEAR, _MOST_LINEAR)
            standard /= standard[known].std()
            features = self.features_of_column(column, table.iloc[:, place])
            products = features.T @ features
            products[np.diag_indices_from(products)] += _PENALTY * float(np.trace(products)) / len(products)
            weights = np.zeros((self.n_features_out_, 1))
            weights[_span(column), 0] = np.linalg.solve(products, features.T @ standard)
            columns.append(weights)
        return np.hstack(columns)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with columns in two pieces, since many columns saved one by one would take an hour."""
        state = dict(super().__getstate__())
        columns = state.pop("columns_", None)
        if columns is not None:
            knots = [one for column in columns for one in column.get("knots", ())]
            state["knots_"] = np.concatenate([np.zeros(0), *knots])
            state["columns_without_knots_"] = json.dumps([column | {"knots": None} for column in columns])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take a state, also one of earlier versions, which held the columns as they are."""
        state = dict(state)
        if "columns_without_knots_" in state:
            knots, done = state.pop("knots_"), 0
            state["columns_"] = json.loads(state.pop("columns_without_knots_"))
            for column in state["columns_"]:
                del column["knots"]
                if column["kind"] == "number":
                    ends = done + np.cumsum([0, *column["sizes"]])
                    column["knots"] = [knots[start:end] for start, end in pairwise(ends.tolist())]
                    done = int(ends[-1])
        super().__setstate__(state)

    def as_fresh(self, public: pd.DataFrame, units: Integers | None) -> pd.DataFrame:
        """Return public rows in which some entries of rare categories are *other*, as more of them are in other rows.

        Categories have features of their own if enough public rows have them, so that these rows have more of them than
        others do. The expected excess is the number of rows whose category would be *other* if their unit was left out.
        Rare categories lose as many entries, each about the same share. The argument is that of I. J. Good, "The
        population frequencies of species and the estimation of population parameters", Biometrika 1953.
        """
        fresh = public
        for place, column in enumerate(self.columns_):
            if column["kind"] == "number" or not column["categories"]:
                continue
            texts = as_text(public.iloc[:, place])
            replaced = _excess(texts, column["categories"], self.fewest, units)
            if replaced.any():
                fresh = public.copy() if fresh is public else fresh
                # A text that is longer than all categories is none of them.
                other = "".join(column["categories"]) + " "
                fresh.isetitem(place, np.where(replaced, other, texts.to_numpy(dtype=object)))
        return fresh

    @property
    def coarseness(self) -> Floats:
        """Factor of the squared length of each feature by which smooth functions of numbers come first.

        Within a column of numbers the factor of a scale falls with the square of its number of knots, and has the mean
        1 over scales. Other features have the factor 1.
        """
        factors = np.ones(self.n_features_out_)
        for column in self.columns_:
            if column["kind"] == "number":
                of_scales = np.asarray(column["sizes"], dtype=np.float64) ** -_SMOOTHNESS
                factors[_span(column)][:-1] = np.repeat(of_scales / of_scales.mean(), column["sizes"])
        return factors

    @property
    def table_columns(self) -> list[ColumnReading]:  # type: ignore[override]
        """How each column is read."""
        return self.columns_

    @property
    def numeric_columns(self) -> list[str]:
        """Columns that are taken as numbers."""
        return [column["name"] for column in self.columns_ if column["kind"] == "number"]

    @property
    def known_categories(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Categories that have a feature of their own, by column."""
        return {one["name"]: set(map(str, one["categories"])) for one in self.columns_ if one["kind"] == "category"}

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return what each feature stands for, in words."""
        check_is_fitted(self)
        return np.asarray([*(text for column in self.columns_ for text in _words(column)), "constant"], dtype=object)


# Categories count as rare up to this multiple of the fewest rows that a category needs.
_RARE = 4


def _excess(entries: pd.Series, categories: list[str], fewest: int, units: Integers | None) -> NDArray[np.bool_]:
    """Return which entries of rare categories make up what public rows have of them beyond other rows."""
    numbers = places_among(entries, categories, other=len(categories), missing=len(categories))
    counts = np.append(np.bincount(numbers, minlength=len(categories))[: len(categories)], 0)
    own: Integers = np.ones(len(numbers), dtype=np.int64)
    if units is not None:
        _, pairs, sizes = np.unique(np.stack([numbers, units]), axis=1, return_inverse=True, return_counts=True)
        own = sizes[pairs.ravel()]
    known = numbers < len(categories)
    alone = known & (counts[numbers] - own < fewest)
    pool = np.flatnonzero(alone | (known & (counts[numbers] < _RARE * fewest)))
    pool = pool[np.argsort(numbers[pool], kind="stable")]
    replaced = np.zeros(len(numbers), dtype=bool)
    if alone.any():
        replaced[pool[np.linspace(0, len(pool) - 1, int(alone.sum())).round().astype(np.int64)]] = True
    return replaced


def quantiles(values: Floats, n: int) -> Floats:
    """Return up to `n` increasing values at even public quantiles. A value that many rows have counts once."""
    if not len(values):
        return np.zeros(1)
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= n:
        return distinct
    # A value with more than its share is a knot. The other values divide the rest evenly.
    heavy = counts > len(values) / n
    while True:
        left = n - heavy.sum()
        share = counts[~heavy].sum() / max(left, 1)
        more = ~heavy & (counts > share)
        if not more.any() or left <= 1:
            break
        heavy |= more
    light, mass = distinct[~heavy], counts[~heavy]
    if left > 1:
        ranks = (np.cumsum(mass) - mass / 2) / mass.sum()
        chosen = light[np.searchsorted(ranks, np.linspace(0, 1, left)).clip(max=len(light) - 1)]
    else:
        chosen = light[:0]
    return np.unique(np.concatenate([distinct[heavy], chosen, distinct[[0, -1]]]))


def _slots(column: dict[str, Any]) -> int:
    """Return how many features of a column a row may have."""
    return 1 if column["kind"] == "category" else 1 + sum(1 if size == 1 else 2 for size in column["sizes"])


def _span(column: ColumnReading) -> slice:
    """Return the places of a column's features."""
    return slice(column["start"], column["start"] + sum(column["sizes"]) + 1)


def _of_category(column: ColumnReading, values: pd.Series, length: float) -> _Weights:
    last = sum(column["sizes"])
    places = places_among(values, column["categories"], other=last - 1, missing=last)
    return _Weights(places[None], np.full((1, len(values)), length))


def _words(column: dict[str, Any]) -> Iterator[str]:
    name = column["name"]
    if column["kind"] == "category":
        yield from (f"{name} = {category}" for category in column["categories"])
        yield f"{name} = any other"
    else:
        for knots in column["knots"]:
            yield from (f"{name} near {knot:g} ({len(knots)} knots)" for knot in knots)
    yield f"{name} is missing"


# Directions of a table's features, in multiples of the root of records times epsilon: two classes, more classes.
_DIRECTIONS, _FEWEST_DIRECTIONS, _MOST_DIRECTIONS, _MOST_EPSILON = (2.0, 1.2), 60, 500, 10.0
# Length of the constant of two classes, over records times epsilon. Its noise is the error of the base rate, which
# matters most if one class is rare.
_CONSTANT, _SHORTEST_CONSTANT, _LONGEST_CONSTANT = 1400.0, 0.1, 0.2
# Landmarks among public rows, as multiples of the same root, and their part of the squared length.
_LANDMARKS, _FEWEST_LANDMARKS, _MOST_LANDMARKS, _PARTS = (5.0, 3.0), 100, 800, (0.5, 0.75)
# Records times epsilon below which nearness beside a table costs more than interactions can give.
_LEAST_PAY = 5000.0
# Directions of nearness beside those of a table, in multiples of the same root: one.
_FEWEST_NEAR, _MOST_NEAR = 30, 250
#: Public rows below which no landmarks are chosen, and directions are fewer and smooth. So are those of two classes
#: below a number of records times epsilon.
_FEW_ROWS, _FEW_RECORDS = 1000, 3000
# The same for several classes, where all columns are numbers and get this many directions each. Landmarks stay.
_FEW_OF_SEVERAL, _DIRECTIONS_A_COLUMN = 4000, 2
# Directions where rows are few, in multiples of the same root, and at least. Later ones are mostly noise.
_OF_FEW_ROWS, _FEWEST_OF_FEW_ROWS = 0.8, 10
# Records times epsilon above which several classes take a table's features as they are where public rows are few and
# some columns are categories. Leading directions would be of categories, and leave out fine scales of numbers.
_MOST_OF_SEVERAL = 1100
# Directions and knots where one of two classes is rare: fewer and smoother than in any other run, since few cases show
# no more. It is rare with fewer cases than these, times epsilon.
_DIRECTIONS_OF_RARE, _KNOTS_OF_RARE, _CASES = 30, (2, 3), 500.0
#: Columns above which directions are always taken, since a fit cannot use that many features.
MANY_COLUMNS = 2000
#: Public rows below which the shares of entries are released with noise, since public rows do not show them well.
VERY_FEW_ROWS = 200


def fitted_map(feature_map: Any, public: Any, *, n_rows: int, n_classes: int, epsilon: float) -> Any:
    """Return a map of rows to features, fitted on public rows: the default map of tables, or the given map, bounded."""
    if feature_map is not None:
        bounded = clone(feature_map) if hasattr(feature_map, "is_bounded") else BoundedMap(feature_map)
        return bounded.fit(public)
    n_public, n_columns = public.shape
    # Noise falls with the number of records and the budget, and more classes leave less of the budget to each.
    root = np.sqrt(n_rows * min(epsilon, _MOST_EPSILON))
    n_directions = int(np.clip(_DIRECTIONS[n_classes > 2] * root, _FEWEST_DIRECTIONS, _MOST_DIRECTIONS))
    n_landmarks = int(np.clip(_LANDMARKS[n_classes > 2] * root, _FEWEST_LANDMARKS, _MOST_LANDMARKS))
    longest = _LONGEST_CONSTANT if n_classes == 2 else _SHORTEST_CONSTANT
    constant = float(np.clip(_CONSTANT / root**2, _SHORTEST_CONSTANT, longest))
    if n_classes == 2 and n_columns > n_directions:
        # Leading directions would leave out much of what columns show that have little to do with each other.
        apart = ColumnDirectionsMap(TableMap(), constant=constant).fit(public)
        if effective_directions(apart, public) > n_directions / 2:
            return apart
    table = as_table(public)
    only_numbers = all(is_number(table[name]) for name in table)
    few_records = n_classes == 2 and root**2 < _FEW_RECORDS
    few_rows = n_columns <= MANY_COLUMNS and (n_public < _FEW_ROWS or few_records)
    if few_rows and n_classes > 2 and root**2 > _MOST_OF_SEVERAL and not only_numbers:
        return TableMap().fit(public)
    n_smooth = int(np.clip(_OF_FEW_ROWS * root, _FEWEST_OF_FEW_ROWS, _MOST_DIRECTIONS))
    several = n_classes > 2 and only_numbers and n_smooth >= _DIRECTIONS_A_COLUMN * n_columns
    smooth = few_rows or (several and root**2 < _FEW_OF_SEVERAL)
    if smooth:
        n_directions = n_smooth
    if few_rows:
        n_landmarks = 0
    directions = DirectionsMap(TableMap(), n_directions=n_directions, constant=constant, coarse_first=smooth)
    curved = CurvedMap(directions, n_landmarks=n_landmarks, part=_PARTS[n_classes > 2]).fit(public)
    # Without landmarks, rounds of residuals serve two classes better than one round of class sums.
    if n_classes > 2 or curved.landmarks_ is not None:
        return curved
    if root**2 < _LEAST_PAY:
        return curved.base_
    n_near = int(np.clip(root, _FEWEST_NEAR, _MOST_NEAR))
    return beside(curved.base_, as_table(public), n_landmarks, n_near)


def map_of_rare_cases(
    public: Rows, usual: FeatureMap, *, n_rows: int, epsilon: float
) -> tuple[FeatureMap, float] | None:
    """Return a map for two classes of which one is rare, fitted on public rows, and the cases below which one is.

    None where the `usual` map must read every column, and where it takes few smooth directions for any share.
    """
    if as_library_transformer(usual).screens_features or n_rows * min(epsilon, _MOST_EPSILON) < _FEW_RECORDS:
        return None
    base = TableMap(knots=_KNOTS_OF_RARE)
    few = DirectionsMap(base, _DIRECTIONS_OF_RARE, constant=_LONGEST_CONSTANT, coarse_first=True).fit(public)
    return few, _CASES / min(epsilon, _MOST_EPSILON)
