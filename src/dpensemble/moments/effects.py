"""Effects of each column in a published model, for people to read."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import sparse

from dpensemble._arrays import Floats, dense
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.preparation import ColumnReading, LibraryTransformer, statements_of
from dpensemble.moments.explanation import Effect
from dpensemble.moments.maps.tables import feature_values
from dpensemble.moments.uncertainty import Uncertainty
from dpensemble.moments.whole import UNIT, whole_features

_MISSING, _OTHER = "missing", "any other"
# An entry to evaluate, and its name.
Entry = tuple[float | str | None, float | str]
#: The name of effects of a model whose columns act together.
PARTIAL_DEPENDENCE = "partial dependence"
# Of partial dependences: most columns, most entries of a column, rows in all, and rows of one entry.
_MOST_COLUMNS, _ENTRIES, _EVALUATIONS, _ROWS = 100, 9, 15_000, (10, 100)


def column_effects(
    feature_map: LibraryTransformer,
    coefficients: Floats,
    public: pd.DataFrame,
    uncertainty: Uncertainty | None = None,
) -> list[Effect]:
    """Return how far each column pushes towards each class, the most important column first. Effects are public.

    Each dict has ``column``, ``kind`` (``"number"`` or ``"category"``), ``importance`` and ``points``. The importance
    is the standard deviation of the effect over public rows, in logits, of the class with the largest one. The points
    are entries (knots, or categories) with the effect on the logit of each class, public mean 0. For two classes they
    hold the effect on the second class only. If rows were made equally long, effects are those of rows of average
    length. With an `uncertainty` there are ``deviations``, the standard deviations of the effects of each point by the
    known noise. ``rows`` has the number of public rows that have each entry, or whose number is nearest to it.

    When columns act together, ``approximation`` is ``"partial dependence"``: the effect is the mean logit of some
    public rows whose entries in the column are replaced (J. Friedman, "Greedy function approximation", Annals of
    Statistics 2001). Other maps that do not read column by column have no effects.

    Examples
    --------
    >>> from dpensemble.moments import TableMap
    >>> public = pd.DataFrame({"sex": ["f", "m", "f", "m"]})
    >>> effects = column_effects(TableMap(fewest=1).fit(public), np.array([[1.0], [3.0], [0], [0], [0]]), public)
    >>> effects[0]["column"], [[name, round(values[0], 2)] for name, values in effects[0]["points"]][:2]
    ('sex', [['f', -0.71], ['m', 0.71]])
    """
    behind = statements_of(feature_map).on_table(coefficients, public)
    if behind is None:
        return _dependences(feature_map, coefficients, public, uncertainty)
    table_map, coefficients = behind
    basis = None
    if uncertainty is not None:
        _, basis = statements_of(feature_map).on_table(uncertainty.basis.astype(np.float64), public)
    features = whole_features(table_map.transform(public)) / UNIT
    middle = np.asarray(features.mean(axis=0)).ravel()
    columns = table_map.columns_
    lengths = [sum(column["sizes"]) + 1 for column in columns]
    owners = np.append(np.repeat(np.arange(len(columns)), lengths), len(columns))
    belongs = sparse.csr_matrix((np.ones(len(owners)), (np.arange(len(owners)), owners)))
    means, spreads = np.empty((2, len(columns), coefficients.shape[1]))
    for number, of_class in enumerate(coefficients.T):
        over_rows = (features @ belongs.multiply(of_class[:, None]).tocsr()).toarray()[:, :-1]
        means[:, number], spreads[:, number] = over_rows.mean(axis=0), over_rows.std(axis=0)
    summaries = []
    for number, column in enumerate(columns):
        part = slice(column["start"], column["start"] + lengths[number])
        entries = _entries(column, public.iloc[:, number])
        values = pd.Series([entry for entry, _ in entries], dtype=float if column["kind"] == "number" else object)
        of_entries = feature_values(table_map, column, values)
        summary = _summary(
            column, entries, public.iloc[:, number], of_entries @ coefficients[part] - means[number], spreads[number]
        )
        if uncertainty is not None and basis is not None:
            along = (of_entries - middle[part]) @ basis[part]
            summary["deviations"] = uncertainty.deviations(along).tolist()
        summaries.append(summary)
    return sorted(summaries, key=lambda one: -one["importance"])


def _dependences(
    feature_map: LibraryTransformer, coefficients: Floats, public: pd.DataFrame, uncertainty: Uncertainty | None
) -> list[Effect]:
    """Return effects of columns that act together: mean logits of some public rows with other entries in a column."""
    columns = statements_of(feature_map).table_columns
    if columns is None or len(columns) > _MOST_COLUMNS:
        return []
    size = int(np.clip(_EVALUATIONS // (_ENTRIES * len(columns)), *_ROWS))
    some = public.iloc[np.sort(np.random.default_rng(0).permutation(len(public))[:size])]
    summaries = []
    for number, column in enumerate(columns):
        entries = _entries(column, public.iloc[:, number])
        if len(entries) > _ENTRIES:
            entries = [entries[place] for place in np.linspace(0, len(entries) - 1, _ENTRIES).round().astype(int)]
        replaced = pd.concat([some] * len(entries), ignore_index=True)
        name = replaced.columns[number]
        replaced[name] = np.repeat([entry for entry, _ in entries], len(some))
        features = (
            dense(statements_of(feature_map).transform(replaced)).reshape(len(entries), len(some), -1).mean(axis=1)
        )
        counts = np.array(_rows_at(entries, public.iloc[:, number], column["kind"]))
        shares = counts / counts.sum()
        along = features - shares @ features
        effects = along @ coefficients
        summary = _summary(column, entries, public.iloc[:, number], effects, np.sqrt(shares @ effects**2))
        summary["approximation"] = PARTIAL_DEPENDENCE
        if uncertainty is not None:
            summary["deviations"] = uncertainty.deviations(along @ uncertainty.basis).tolist()
        summaries.append(summary)
    return sorted(summaries, key=lambda one: -one["importance"])


def _rows_at(entries: list[Entry], seen: pd.Series, kind: str) -> list[int]:
    """Return how many public rows each entry stands for: those with the nearest number, or with the category."""
    if kind != "number":
        missing = seen.isna()
        counted = as_text(seen[~missing]).value_counts()
        rest = counted.drop([name for entry, name in entries if entry == name], errors="ignore")
        return [
            int(missing.sum() if entry is None else counted.get(entry, 0) if entry == name else rest.sum())
            for entry, name in entries
        ]
    numbers = np.array([entry for entry, _ in entries], dtype=np.float64)
    values = seen.to_numpy(dtype=np.float64, na_value=np.nan)
    knots = np.sort(numbers[~np.isnan(numbers)])
    places = np.searchsorted((knots[1:] + knots[:-1]) / 2, values[~np.isnan(values)])
    counts: list[int] = np.bincount(places, minlength=len(knots)).tolist()
    return [*counts, int(np.isnan(values).sum())] if len(knots) < len(numbers) else counts


def _summary(column: ColumnReading, entries: list[Entry], seen: pd.Series, effects: Floats, spreads: Floats) -> Effect:
    return {
        "column": column["name"],
        "kind": column["kind"],
        "importance": float(spreads.max()),
        "points": [[name, row] for (_, name), row in zip(entries, effects.tolist(), strict=True)],
        "rows": _rows_at(entries, seen, column["kind"]),
    }


def _entries(column: ColumnReading, seen: pd.Series) -> list[Entry]:
    """Return pairs of an entry to evaluate and its name, for entries that public rows have."""
    missing = seen.isna()
    if column["kind"] == "number":
        pairs: list[Entry] = [(float(knot), float(knot)) for knot in column["knots"][-1]]
        return [*pairs, (np.nan, _MISSING)] if missing.any() else pairs
    others = as_text(seen[~missing & ~as_text(seen).isin(column["categories"])])
    pairs = [(name, name) for name in column["categories"]]
    pairs += [(others.iloc[0], _OTHER)] if len(others) else []
    return [*pairs, (None, _MISSING)] if missing.any() else pairs
