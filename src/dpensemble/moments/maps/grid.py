"""Cells of a table's columns, a table map that reads only the cell of every entry, and rows drawn from noisy cells.

Cells are public before any record is read, so that their counts can be released with noise.

Synthetic rows replace public rows if there are none, if there are few, or if they do not look like the private ones.
Noisy shares of cells describe how common each entry is. A normal copula describes which entries go together, by noisy
second moments of columns' scores. Each column's cells are put in the order of their effects in a first published model.
Then rows are drawn. Their normal scores have the correlations that were released. A model that adds up the effects of
columns depends little on other interactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dpensemble._checks import is_missing
from dpensemble._entries import Floats
from dpensemble.datasets.columns import as_text, is_number, places_among
from dpensemble.datasets.tables import LibraryTransformer, as_fitted_table, as_library_transformer, as_table, named_by
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.maps.base import FeatureMap
from dpensemble.moments.maps.tables import quantiles

#: Name of all entries outside the known categories, unless a category has that name.
_OTHER = "any other"
# Day, month and year in any order, with or without a time.
_DATE = r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ].*)?"
# Cells of a declared range, and how often cells at its ends (and beside 0) are halved, for columns of many magnitudes.
_EVEN_CELLS, _HALVINGS = 64, 10
# Knots of a column of public rows, cells beyond each end, and the share of the range that the first of these covers.
_KNOTS, _BEYOND, _FIRST_BEYOND = 32, 5, 0.05


class Grid:
    """Cells of each column: of numbers between edges, or of categories and all others. The last cell is for blanks.

    A column has a ``name``, a ``kind`` (``"number"`` or ``"category"``), ``values`` that stand for its cells without
    the last, and the inner ``edges`` of numbers.
    """

    def __init__(self, columns: Sequence[dict[str, Any]]) -> None:
        self.columns = list(columns)
        self.sizes = np.array([len(column["values"]) + 1 for column in self.columns])

    @property
    def empty(self) -> pd.DataFrame:
        """A table without rows whose columns have the declared kinds."""
        kinds = {column["name"]: float if column["kind"] == "number" else object for column in self.columns}
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})

    def cells(self, X: Any) -> NDArray[np.int64]:
        """Return the number of the cell that each entry lies in, shape (n_rows, n_columns)."""
        table = as_table(X)
        numbers = np.empty(table.shape, dtype=np.int64)
        for number, column in enumerate(self.columns):
            numbers[:, number] = _cells(column, table.iloc[:, number])
        return numbers

    def rows(self, cells: NDArray[np.int64]) -> pd.DataFrame:
        """Return a table whose entries stand for cells."""
        entries = {}
        for number, column in enumerate(self.columns):
            missing = np.nan if column["kind"] == "number" else None
            values = np.array([*column["values"], missing], dtype=float if missing is not None else object)
            entries[column["name"]] = values[cells[:, number]]
        return pd.DataFrame(entries)

    def one_hot(self, X: Any) -> sparse.csr_matrix:
        """Return a one at each entry's cell, shape (n_rows, n_cells), scaled so that every row has length 1."""
        cells = self.cells(X)
        n_rows, n_columns = cells.shape
        starts = np.append(0, np.cumsum(self.sizes))
        shape = (n_rows, int(starts[-1]))
        values = np.full(cells.size, 1 / np.sqrt(n_columns))
        return sparse.csr_matrix(
            (values, (cells + starts[:-1]).ravel(), np.arange(n_rows + 1) * n_columns), shape=shape
        )

    def shares(self, released: Floats, spread: float) -> Shares:
        """Return shares from the released mean of `one_hot`, with cells joined that hold little but noise."""
        factor = np.sqrt(len(self.columns))
        parts = np.split(released * factor, np.cumsum(self.sizes)[:-1])
        coarse, held = self.joined(parts, _LEAST * spread * factor)
        return Shares(coarse, [_on_simplex(one) for one in held])

    def joined(self, shares: Sequence[Floats], least: float) -> tuple[Grid, list[Floats]]:
        """Return a coarser grid whose cells each hold `least` by their noisy shares, and the shares of its cells.

        Neighbouring cells of numbers are joined, and rare categories become *any other*. A cell that joins ``k`` cells
        has ``sqrt(k)`` times the noise of one cell, so it must hold ``sqrt(k)`` times as much.
        """
        columns, coarse = [], []
        for column, share in zip(self.columns, shares, strict=True):
            join = _joined_numbers if column["kind"] == "number" else _joined_categories
            coarse_column, held = join(column, share, least)
            columns.append(coarse_column)
            coarse.append(held)
        return Grid(columns), coarse


def declared_grid(columns: Any) -> Grid:
    """Return the grid of declared columns. Two numbers are a range, ends included. Anything else lists categories."""
    if not isinstance(columns, Mapping) or not columns:
        raise InvalidParameterError(
            f"declared_columns={columns!r} declares nothing: give a mapping from each column to its range "
            "(low, high) or to a list of its categories.",
            parameter="declared_columns",
        )
    described = []
    for name, declared in columns.items():
        if isinstance(declared, str) or not isinstance(declared, Sequence) or not len(declared):
            raise InvalidParameterError(
                f"declared_columns[{name!r}]={declared!r} must be a range or a list of categories: give (low, high), "
                "or the categories.",
                parameter="declared_columns",
            )
        plain = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in declared)
        about: dict[str, Any] = _range(name, declared) if plain else _listed(name, declared)
        described.append({"name": name} | about)
    return Grid(described)


def _range(name: Any, declared: Sequence[float]) -> dict[str, Any]:
    try:
        low, high = float(declared[0]), float(declared[-1])
    except OverflowError:
        # A whole number of JSON may be larger than any double.
        low = high = np.inf
    if len(declared) != 2 or not (low < high and np.isfinite(high - low)):
        raise InvalidParameterError(
            f"declared_columns[{name!r}]={declared!r} must be a range (low, high): give two finite numbers, the "
            "smaller one first, or categories as texts.",
            parameter="declared_columns",
        )
    even = np.linspace(low, high, _EVEN_CELLS + 1)
    halves = (high - low) / _EVEN_CELLS * 0.5 ** np.arange(1, _HALVINGS + 1)
    points = [even, low + halves, high - halves]
    if low < 0 < high:
        points += [halves, -halves, np.zeros(1)]
    ends = np.unique(np.concatenate(points).clip(low, high))
    return {"kind": "number", "edges": ends[1:-1], "values": (ends[:-1] + ends[1:]) / 2}


def _listed(name: Any, declared: Sequence[Any]) -> dict[str, Any]:
    texts = as_text(pd.Series(list(declared), dtype=object))
    if any(map(is_missing, declared)) or texts.duplicated().any():
        raise InvalidParameterError(
            f"declared_columns[{name!r}] lists a category twice or a missing one: list each category once, "
            "and leave blanks out.",
            parameter="declared_columns",
        )
    if texts.str.fullmatch(_DATE).all():
        raise InvalidParameterError(
            f"declared_columns[{name!r}] lists dates, which cannot be declared: make a column of years, and "
            "declare its range.",
            parameter="declared_columns",
        )
    return {"kind": "category", "values": _with_other(texts)}


def _with_other(categories: Iterable[str]) -> list[str]:
    """Return sorted categories, and after them a name for all others. No category has this name."""
    names, other = sorted(categories), _OTHER
    while other in names:
        other = f"({other})"
    return [*names, other]


def with_texts(X: Any, declared: pd.DataFrame) -> pd.DataFrame:
    """Return rows as a table in which declared categories are texts, even if they are written as numbers."""
    table = named_by(declared, X)
    codes = [name for name in table if name in declared and not is_number(declared[name]) and is_number(table[name])]
    written = table.copy() if codes else table
    for name in codes:
        written[name] = as_text(table[name])
    return written


def observed_grid(public: pd.DataFrame) -> Grid:
    """Return a grid by public rows, which may be few or unlike private rows. The grid reaches beyond their range."""
    described = []
    for name in public.columns:
        values = public[name]
        if is_number(values):
            described.append(_around(name, values.to_numpy(dtype=np.float64, na_value=np.nan)))
        else:
            described.append(
                {"name": name, "kind": "category", "values": _with_other(as_text(values).dropna().unique())}
            )
    return Grid(described)


def _around(name: Any, values: Floats) -> dict[str, Any]:
    knots = quantiles(values[np.isfinite(values)], _KNOTS)
    span = (knots[-1] - knots[0]) or max(abs(knots[0]), 1.0)
    beyond = span * _FIRST_BEYOND * (2.0 ** np.arange(_BEYOND + 1) - 1)[1:]
    values = np.concatenate([knots[0] - beyond[::-1], knots, knots[-1] + beyond])
    return {"name": name, "kind": "number", "edges": (values[:-1] + values[1:]) / 2, "values": values}


def _cells(column: dict[str, Any], values: pd.Series) -> NDArray[np.int64]:
    missing = len(column["values"])
    if column["kind"] == "number":
        numbers = pd.to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
        place_of_number = np.searchsorted(column["edges"], numbers, side="right")
        return np.where(np.isnan(numbers), missing, place_of_number)
    return places_among(values, column["values"], other=missing - 1, missing=missing)


def _joined_numbers(column: dict[str, Any], shares: Floats, least: float) -> tuple[dict[str, Any], Floats]:
    ends, held, taken, mass = [], [], 0, 0.0
    for number, share in enumerate(shares[:-1]):
        taken, mass = taken + 1, mass + share
        if mass >= least * np.sqrt(taken):
            ends.append(number)
            held.append(mass)
            taken, mass = 0, 0.0
        elif mass <= 0:
            # Empty so far, so the next cells need not hold more because of these.
            taken, mass = 0, 0.0
    if not ends:
        ends, held, mass = [len(shares) - 2], [mass], 0.0
    # The rest at the end joins the last cell.
    ends[-1], held[-1] = len(shares) - 2, held[-1] + mass
    values, start = [], 0
    for end in ends:
        weights = np.maximum(shares[start : end + 1], 0.0) + 1e-12
        values.append(float(np.average(column["values"][start : end + 1], weights=weights)))
        start = end + 1
    edges = np.asarray(column["edges"])[np.array(ends[:-1], dtype=np.int64)]
    return {**column, "edges": edges, "values": np.array(values)}, np.array([*held, shares[-1]])


def _joined_categories(column: dict[str, Any], shares: Floats, least: float) -> tuple[dict[str, Any], Floats]:
    named_shares = shares[:-2]
    is_common = named_shares >= least
    if not is_common.any() and len(named_shares):
        is_common[named_shares.argmax()] = True
    values = [name for name, keep in zip(column["values"], is_common, strict=False) if keep]
    held = [*named_shares[is_common], named_shares[~is_common].sum() + shares[-2], shares[-1]]
    return {**column, "values": [*values, column["values"][-1]]}, np.array(held)


class SnappedMap(FeatureMap):
    """Another map's features of rows whose entries are replaced by the values of their cells.

    Synthetic rows have no other entries, so private rows and new rows must not have any either. Otherwise the model
    could predict anything between two cells, where it was never fitted. `base` is cloned and fitted on such rows, and
    `columns` are those of a `dpensemble.moments.maps.grid.Grid`.
    """

    #: The grid has a cell for missing entries.
    takes_blanks = True

    def __init__(self, base: Any = None, columns: Sequence[dict[str, Any]] = ()) -> None:
        self.base = base
        self.columns = columns

    def fit(self, X: pd.DataFrame, y: Any = None) -> SnappedMap:  # noqa: ARG002
        """Fit the base map on synthetic rows. Never pass private rows."""
        self.base_ = clone(self.base).fit(X)
        self.n_features_in_ = X.shape[1]
        if all(isinstance(name, str) for name in X.columns):
            self.feature_names_in_ = X.columns.to_numpy(dtype=object)
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of rows, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        grid = Grid(self.columns)
        return self.base_.transform(grid.rows(grid.cells(as_fitted_table(self, X))))

    def effects_of_cells(self, coefficients: Floats) -> list[Floats]:
        """Return a model's effect of each cell of each column, shape (n_cells, n_model_columns) each."""
        effects = []
        for number, column in enumerate(self.base_.columns_):
            alone = Grid([self.columns[number]])
            values = alone.rows(np.arange(alone.sizes[0])[:, None]).iloc[:, 0]
            part = slice(column["start"], column["start"] + sum(column["sizes"]) + 1)
            effects.append(self.base_.features_of_column(column, values) @ coefficients[part])
        return effects

    @property
    def blocks_(self) -> Any:
        """Number of the block that each feature is in."""
        return self.base_.blocks_

    @property
    def nonnegative_(self) -> bool:
        """Whether no feature is below 0."""
        return bool(self.base_.nonnegative_)

    @property
    def numeric_columns(self) -> list[str]:
        """Columns that are taken as numbers."""
        return [column["name"] for column in self.columns if column["kind"] == "number"]

    @property
    def known_categories(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Categories that have a cell of their own, by column."""
        return {one["name"]: set(map(str, one["values"])) for one in self.columns if one["kind"] == "category"}

    def as_declared(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table in which codes that were declared as categories are texts."""
        return with_texts(table, Grid(self.columns).empty)

    @property
    def attribution(self) -> str | None:  # type: ignore[override]
        """How the base map divides a row among its columns."""
        return as_library_transformer(self.base_).attribution

    def reference(self, public: pd.DataFrame) -> Floats:
        """Return the base map's mean features of synthetic rows."""
        return self.base_.reference(public)

    def column_parts(self, X: pd.DataFrame | Floats, weights: Floats, reference: Floats) -> Floats:
        """Return what the cell of each column adds beyond the reference."""
        grid = Grid(self.columns)
        return self.base_.column_parts(grid.rows(grid.cells(as_fitted_table(self, X))), weights, reference)

    def on_table(self, coefficients: Floats, public: pd.DataFrame) -> tuple[LibraryTransformer, Floats] | None:
        """Return the table map that reads the cells, and its coefficients."""
        return as_library_transformer(self.base_).on_table(coefficients, public)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return what each feature stands for."""
        names: NDArray[Any] = self.base_.get_feature_names_out(input_features)
        return names


# Standard deviations of the noise that a cell must hold.
_LEAST = 2.0
#: Most columns whose correlations are released. These columns have the largest effects.
_MOST_COLUMNS = 40
# Strongest correlation, and the tail in which a normal score stays the same.
_CLOSEST, _RAREST = 0.95, 1e-4


@dataclass(frozen=True, eq=False)
class Shares:
    """Noisy shares of a grid's cells, one array a column, from 0 and with sum 1. Public."""

    grid: Grid
    shares: list[Floats]

    def draw(self, n_rows: int, seed: int = 0) -> NDArray[np.int64]:
        """Return cells of rows whose columns are independent, each with its shares as exactly as can be."""
        order = np.random.default_rng(seed)
        ranks = np.stack([order.permutation(n_rows) for _ in self.shares], axis=1)
        return self.at(ranks, [np.arange(len(one)) for one in self.shares])

    def scores(self, effects: Sequence[Floats]) -> Scores:
        """Return the scores by effects, shape (n_cells, n_classes or 1) for each column."""
        along = [_main_effect(effect, share) for effect, share in zip(effects, self.shares, strict=True)]
        spreads = [share @ one**2 for one, share in zip(along, self.shares, strict=True)]
        chosen = np.sort(np.argsort(spreads, kind="stable")[::-1][:_MOST_COLUMNS])
        return Scores(self, chosen, [_scores(along[number], self.shares[number]) for number in chosen])

    def at(self, ranks: NDArray[np.int64], orders: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the cells at ranks from 0 of rows in each column, whose cells lie in an order."""
        cells = np.empty_like(ranks)
        for number, (share, order) in enumerate(zip(self.shares, orders, strict=True)):
            ends = np.cumsum(share[order])
            cells[:, number] = order[np.searchsorted(ends / ends[-1], (ranks[:, number] + 0.5) / len(ranks))]
        return cells


def _on_simplex(values: Floats) -> Floats:
    """Return the shares (from 0, with sum 1) that are closest to some numbers."""
    falling = np.sort(values)[::-1]
    above = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(falling > above)[-1])
    shares: Floats = np.maximum(values - above[last], 0.0)
    return shares / shares.sum()


@dataclass(frozen=True, eq=False)
class Scores:
    """Normal scores of the cells of some columns: quantiles in the order of the cells' effects in a published model."""

    shares: Shares
    columns: NDArray[np.int64]
    values: list[Floats]

    def of_rows(self, X: Any) -> Floats:
        """Return rows' scores over the root of the number of columns, so that they are hardly ever longer than 1."""
        cells = self.shares.grid.cells(X)[:, self.columns]
        scores = np.stack([score[cells[:, number]] for number, score in enumerate(self.values)], axis=1)
        return scores / np.sqrt(len(self.values))

    def correlation(self, products: Floats, spread: float) -> Floats:
        """Return correlations by noisy mean products of `of_rows`, shrunk by their noise."""
        held = [self.shares.shares[number] for number in self.columns]
        variances = np.array([share @ score**2 for share, score in zip(held, self.values, strict=True)]).clip(min=1e-3)
        scale = np.sqrt(np.outer(variances, variances)) / len(self.values)
        correlations = products / scale
        # Subtracts the correlation that pure noise would show.
        correlations *= np.maximum(0.0, 1 - (spread / scale) ** 2 / np.maximum(correlations**2, 1e-12))
        correlations = correlations.clip(-_CLOSEST, _CLOSEST)
        np.fill_diagonal(correlations, 1.0)
        values, vectors = np.linalg.eigh(correlations)
        positive = (vectors * values.clip(min=1e-3)) @ vectors.T
        size = np.sqrt(np.diag(positive))
        result: Floats = positive / np.outer(size, size)
        return result

    def draw(self, correlation: Floats, n_rows: int, seed: int = 0) -> NDArray[np.int64]:
        """Return cells of rows drawn by a normal copula of these columns. All other columns are independent."""
        draws = np.random.default_rng(seed)
        latent = draws.normal(size=(n_rows, len(self.shares.shares)))
        latent[:, self.columns] @= np.linalg.cholesky(correlation).T
        orders = [np.arange(len(one)) for one in self.shares.shares]
        for number, score in zip(self.columns, self.values, strict=True):
            orders[number] = np.argsort(score, kind="stable")
        return self.shares.at(latent.argsort(axis=0).argsort(axis=0), orders)


def _main_effect(effect: Floats, share: Floats) -> Floats:
    """Return effects along the direction of classes in which they differ most."""
    centred = effect - share @ effect
    _, vectors = np.linalg.eigh((centred * share[:, None]).T @ centred)
    main_effect: Floats = centred @ vectors[:, -1]
    return main_effect


def _scores(effect: Floats, share: Floats) -> Floats:
    order = np.argsort(effect, kind="stable")
    score = np.empty(len(share))
    score[order] = stats.norm.ppf((np.cumsum(share[order]) - share[order] / 2).clip(_RAREST, 1 - _RAREST))
    centred: Floats = score - share @ score
    return centred
