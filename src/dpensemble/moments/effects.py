"""Effects of each column in a published model, for people to read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from dpensemble._arrays import Floats
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.encoding import LibraryTransformer, statements_of
from dpensemble.moments.maps.tables import feature_values
from dpensemble.moments.whole import UNIT, whole_features

_MISSING, _OTHER = "missing", "any other"


def column_effects(feature_map: LibraryTransformer, coefficients: Floats, public: pd.DataFrame) -> list[dict[str, Any]]:
    """Return how far each column pushes towards each class, the most important column first. Effects are public.

    Each dict has ``column``, ``kind`` (``"number"`` or ``"category"``), ``importance`` and ``points``. The importance
    is the standard deviation of the effect over public rows, in logits, of the class with the largest one. The points
    are entries (knots, or categories) with the effect on the logit of each class, public mean 0. For two classes they
    hold the effect on the second class only. If rows were made equally long, effects are those of rows of average
    length. Maps that do not read column by column have no effects.

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
        return []
    table_map, coefficients = behind
    features = whole_features(table_map.transform(public)) / UNIT
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
        effects = feature_values(table_map, column, values) @ coefficients[part] - means[number]
        summaries.append(
            {
                "column": column["name"],
                "kind": column["kind"],
                "importance": float(spreads[number].max()),
                "points": [
                    [name, [float(value) for value in row]] for (_, name), row in zip(entries, effects, strict=True)
                ],
            }
        )
    return sorted(summaries, key=lambda one: -one["importance"])


def _entries(column: dict[str, Any], seen: pd.Series) -> list[tuple[Any, Any]]:
    """Return pairs of an entry to evaluate and its name, for entries that public rows have."""
    missing = seen.isna()
    if column["kind"] == "number":
        pairs: list[tuple[Any, Any]] = [(float(knot), float(knot)) for knot in column["knots"][-1]]
        return [*pairs, (np.nan, _MISSING)] if missing.any() else pairs
    others = as_text(seen[~missing & ~as_text(seen).isin(column["categories"])])
    pairs = [(name, name) for name in column["categories"]]
    pairs += [(others.iloc[0], _OTHER)] if len(others) else []
    return [*pairs, (None, _MISSING)] if missing.any() else pairs
