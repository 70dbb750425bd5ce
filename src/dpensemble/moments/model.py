"""The published model of label moments, a softmax of a public map's features, and its explanations.

An explanation states what each column adds to the logits of a row. Effects state how far a column pushes towards each
class. Coefficients and effects have standard deviations by the known noise of what was released.
"""

from __future__ import annotations

import json
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpensemble._checks import ShownAsSentences, integer_between
from dpensemble._entries import Floats, Rows, blocks_of, dense, in_blocks
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.tables import ColumnReading, LibraryTransformer, as_library_transformer, settled
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.maps.base import FeatureMap
from dpensemble.moments.whole import UNIT, bounded_features, logits, probabilities, rounded_coefficients
from dpensemble.report.sections import waterfall

Singles = NDArray[np.float32]

# Features above which the square matrix would make a published file large.
_MOST_FEATURES = 1000
# Precision, in units of the prior's, below which a direction keeps its coefficient at 0, for any released values.
_LEAST_PRECISION = 1e-4


@dataclass(frozen=True, eq=False)
class Information:
    """The precision of coefficients by what was released, and what the fit made of it. Public.

    Parameters
    ----------
    precision : ndarray of shape (n_features, n_features)
        Precision of one column of coefficients at the mean curvature of the classes, without the prior.
    deviations : ndarray of shape (n_features,)
        Prior standard deviations.
    curvatures : ndarray of shape (n_columns,)
        Factors of the precision for each column.
    factor : float
        Factor of the variances, which turns a column of coefficients into the logit that the model states.
    places : ndarray or None
        Places of these features among all that the model reads, when coefficients of the others are 0.
    n_all : int
        Number of all features, if there are `places`.
    """

    precision: Floats
    deviations: Floats
    curvatures: Floats
    factor: float
    places: NDArray[np.int64] | None = None
    n_all: int = 0


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How far the coefficients would move if noise and sample were drawn again, by their known size. Public.

    Coefficients are a ridge estimate: ``(J + D) b = J b*`` with the precision ``J`` of what was released, the precision
    ``D`` of the prior, and ``b*`` of covariance ``inv(J)``. So the covariance of ``b`` is ``inv(J + D) J inv(J + D)``
    (A. Hoerl and R. Kennard, "Ridge regression", Technometrics 1970). It holds the noise and the sample of people. It
    does not hold what the prior pulls towards 0: much noise makes contributions smaller than they would be without any.
    The prior scales are taken as they are.

    Parameters
    ----------
    basis : ndarray of shape (n_features, n_directions)
        Directions in which coefficients vary independently, each one prior standard deviation long.
    precisions : ndarray of shape (n_directions,)
        Precision by what was released along each direction, in units of the prior precision.
    curvatures : ndarray of shape (n_columns,)
        Factors of `precisions` for each column, squared.
    factor : ndarray of shape (1,)
        Factor of all variances.
    """

    basis: Singles
    precisions: Singles
    curvatures: Singles
    factor: Singles

    @classmethod
    def of(cls, information: Information) -> Uncertainty | None:
        """Return the uncertainty. Return None if there are too many features to publish the directions."""
        scales = information.deviations
        if len(scales) > _MOST_FEATURES:
            return None
        scaled = scales[:, None] * information.precision * scales
        precisions, directions = linalg.eigh((scaled + scaled.T) / 2, check_finite=False)
        precise = precisions > _LEAST_PRECISION
        basis, factor = scales[:, None] * directions[:, precise], np.array([information.factor])
        if information.places is not None:
            of_places, basis = basis, np.zeros((information.n_all, basis.shape[1]))
            basis[information.places] = of_places
        return cls(*(one.astype(np.float32) for one in (basis, precisions[precise], information.curvatures**2, factor)))

    def deviations(self, along: Floats) -> Floats:
        """Return standard deviations of sums of coefficients, shape (..., n_columns).

        `along` are the sums' weights times the basis, shape (..., n_directions).
        """
        precisions = self.curvatures.astype(np.float64) * self.precisions[:, None]
        variances = self.factor * (along**2 @ (precisions / (1 + precisions) ** 2))
        deviations: Floats = np.sqrt(variances)
        return deviations


# Columns of a row that a printed explanation lists.
_MOST_LINES = 12
#: One effect of `dpensemble.moments.model.column_effects`.
Effect = dict[str, Any]


class Part(NamedTuple):
    """What one column of one row adds to a logit, and the standard deviation of it by the known noise, if known."""

    column: str
    value: float | str | None
    contribution: float
    deviation: float | None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Explanation(ShownAsSentences):
    """What each column adds to the logits of rows, or to their expected numbers, relative to the public mean.

    ``base + contributions.sum(axis=1)`` equals ``logits``, up to rounding of doubles. With two classes there is one
    output, the logit of the second class (the logarithm of its odds). With more classes there is an output for each
    class: its logit less the mean logit of all classes. A model of a number has one output, as `output` states.

    A contribution shows what the model uses. It does not show what causes what. Nothing here reads private rows: the
    model, the mean and the bands follow from public rows and released sums, so an explanation of a row of your own
    costs no privacy. The explanation quotes that row.

    Attributes
    ----------
    columns : list of str
        Names of the columns, in the order of the rows.
    classes : list
        The class of each output, or ``["number"]``, or ``["event"]``.
    base : ndarray of shape (n_outputs,)
        Logits of the reference.
    contributions : ndarray of shape (n_rows, n_columns, n_outputs)
        What each column adds, in logits.
    deviations : ndarray of shape (n_rows, n_columns, n_outputs) or None
        Standard deviations of the contributions by the known noise. None if they were not asked for, or if the model
        does not hold them.
    values : DataFrame of shape (n_rows, n_columns)
        The entries of the rows.
    predicted : ndarray of shape (n_rows,)
        Predicted class or number of each row.
    output : str
        ``"logit"``, ``"mean"`` (the expected number, before the declared range cuts it), ``"logarithm"`` or ``"log
        hazard"``. The third is that of a typical number, counted from the declared `low` and with a released shift
        added. The last is that of the event's hazard, relative to the hazards that all rows share. So contributions
        ``c`` to the last two multiply by ``exp(c)``.
    attribution : str
        How contributions are made: ``"exact"``, ``"exact sum, scaled by the length of the row"`` or ``"approximate
        attribution, exact sum"``.
    reference : str
        What contributions are relative to.

    Examples
    --------
    >>> from dpensemble import LabelMomentsClassifier
    >>> rows = pd.DataFrame({"age": np.random.default_rng(0).integers(20, 90, 900)})
    >>> model = LabelMomentsClassifier(classes=[0, 1], epsilon=5, delta=1e-4, insecure_release_seed=0)
    >>> _ = model.fit(rows[:800], (rows["age"] > 60)[:800].astype(int), X_public=rows[800:])
    >>> explanation = model.explain(pd.DataFrame({"age": [85]}))
    >>> [(part.column, part.contribution > 0) for part in explanation.parts(row=0)]
    [('age', True)]
    """

    columns: list[str]
    classes: list[object]
    base: Floats
    contributions: Floats
    deviations: Floats | None
    values: pd.DataFrame
    predicted: NDArray[np.generic]
    attribution: str
    reference: str
    output: str = "logit"

    def __str__(self) -> str:
        """Return the explanation of the first row, column by column, the largest contributions first."""
        if not len(self.contributions):
            return "No row is explained."
        output, parts = self.output_of(0), self.parts(0)
        name = f"logit of {self.classes[output]}" if self.output == "logit" else f"explained {self.output}"
        lines = [
            f"Row 0 of {len(self.contributions):,}: the {name} is "
            f"{self.logits[0, output]:.3g}, and {self.base[output]:.3g} for {self.reference}.",
            *(_in_words(part) for part in parts[:_MOST_LINES]),
        ]
        if parts[_MOST_LINES:]:
            rest = sum(part.contribution for part in parts[_MOST_LINES:])
            lines.append(f"  {len(parts) - _MOST_LINES:,} more columns add {rest:+.3g}.")
        lines.append(f"Contributions: {self.attribution}. explanation.parts(row=...) has those of any row.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        n_rows, n_columns, _ = self.contributions.shape
        return f"<Explanation: {n_rows:,} rows, {n_columns:,} columns; print shows the first row>"

    def _repr_html_(self) -> str:
        # Two pictures of one page would share their marks.
        return super()._repr_html_() if not len(self.contributions) else f"{self.waterfall(0)}{super()._repr_html_()}"

    @property
    def logits(self) -> Floats:
        """Logits of rows, shape (n_rows, n_outputs)."""
        logits: Floats = self.base + self.contributions.sum(axis=1)
        return logits

    def output_of(self, row: int, label: object = None) -> int:
        """Return the place of the output that explains a row: that of a class, or of the predicted class.

        With two classes it is always the only output.
        """
        if label is not None and label not in self.classes:
            raise InvalidParameterError(
                f"label={label!r} has no logit of its own: use one of {self.classes}.", parameter="label"
            )
        if len(self.classes) == 1:
            return 0
        return self.classes.index(self.predicted[row] if label is None else label)

    def parts(self, row: int = 0, label: object = None) -> list[Part]:
        """Return the parts of one row, with the largest contributions first. `row` and `label` as for `waterfall`."""
        row = integer_between("row", row, 0, len(self.contributions) - 1)
        output = self.output_of(row, label)
        contributions = self.contributions[row, :, output]
        deviations = np.full(len(self.columns), np.nan) if self.deviations is None else self.deviations[row, :, output]
        return [
            Part(
                self.columns[place],
                _plain(self.values.iloc[row, place]),
                float(contributions[place]),
                None if np.isnan(deviations[place]) else float(deviations[place]),
            )
            for place in np.argsort(-np.abs(contributions), kind="stable").tolist()
        ]

    def of_row(self, row: int = 0, label: object = None) -> dict[str, object]:
        """Return one row's explanation as plain values, ready for JSON. `row` and `label` as for `waterfall`."""
        parts = [part._asdict() for part in self.parts(row, label)]
        output = self.output_of(row, label)
        value = float(self.logits[row, output])
        about = {"class": _plain(self.classes[output])} if self.output == "logit" else {}
        return {
            **about,
            self.output: value,
            "base": float(self.base[output]),
            "reference": self.reference,
            "attribution": self.attribution,
            "contributions": parts,
        }

    def waterfall(self, row: int = 0, label: object = None, *, most: int = 12) -> str:
        """Return a picture of one row as SVG: from the base to the logit, column by column, the largest first.

        Parameters
        ----------
        row : int, default=0
            Number of the row, from 0.
        label : optional
            Class to explain, for three and more classes. By default the predicted class.
        most : int, default=12
            Number of columns with a bar of their own. The others share one bar.
        """
        most, parts = integer_between("most", most, 1), self.parts(row, label)
        steps = [
            (f"{part.column} = {_written(part.value)}", part.contribution, part.deviation or 0.0)
            for part in parts[:most]
        ]
        if parts[most:]:
            rest = sum(part.contribution for part in parts[most:])
            steps.append((f"{len(parts[most:])} more columns", rest, 0.0))
        output = self.output_of(row, label)
        return waterfall(
            steps,
            float(self.base[output]),
            towards=str(self.classes[output]),
            output="odds" if self.output == "logit" and len(self.classes) == 1 else self.output,
            attribution=self.attribution,
            reference=self.reference,
        )


class Sources:
    """The user's columns behind some steps, and what each of them adds to the logits.

    Parameters
    ----------
    steps : sequence of transformers
        What the pipeline does before features are made.
    columns : sequence of str
        The user's columns.

    Attributes
    ----------
    columns : list of str
        Columns that the steps use.
    owners : ndarray of int
        The place in `columns` of the source of each column that comes out of the steps.
    """

    def __init__(self, steps: Sequence[TransformerMixin], columns: Sequence[str]) -> None:
        self._steps, sources = steps, list(columns)
        for step in map(as_library_transformer, steps):
            if step.source_columns is None:
                raise InvalidParameterError(
                    "explain cannot trace what an encoder of your own makes of columns: use the default encoder.",
                    parameter="explain",
                )
            sources = step.source_columns
        self.columns = [name for name in columns if name in set(sources)]
        places = {name: place for place, name in enumerate(self.columns)}
        self.owners = np.array([places[name] for name in sources])

    def transform(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows behind the steps."""
        for step in self._steps:
            rows = step.transform(rows)
        return rows

    def gathered(self, parts: Floats) -> Floats:
        """Return sums of the parts of each source column."""
        if len(self.columns) == parts.shape[1]:
            return parts
        return np.stack([parts[:, self.owners == place].sum(axis=1) for place in range(len(self.columns))], axis=1)

    @staticmethod
    def completed(parts: Floats, differences: Floats) -> Floats:
        """Return parts, shape (n_rows, n_columns, n_outputs), that add up to differences, shape (n_rows, n_outputs).

        The remainder comes from whole features, and from the integral along a path. Each part takes a share of the
        remainder in proportion to its size, so that a column without a part gets none.
        """
        sizes = np.abs(parts)
        totals = sizes.sum(axis=1)
        remainder = differences - parts.sum(axis=1)
        even = np.full(parts.shape, 1 / parts.shape[1])
        shares = np.divide(sizes, totals[:, None], out=even, where=totals[:, None] > 0)
        return parts + shares * remainder[:, None]


def _centred(logits: Floats) -> Floats:
    """Return logits less their mean over the classes. The only logit of two classes is the logarithm of the odds."""
    return logits if logits.shape[1] == 1 else logits - logits.mean(axis=1, keepdims=True)


def _plain(value: object) -> float | str | None:
    """Return an entry as a value of JSON: a number, truth value, text or None."""
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if isinstance(plain, bool | int | float | str) else str(plain)


def _written(value: object) -> str:
    """Write an entry for people."""
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _in_words(part: Part) -> str:
    """Return what one column adds, in a line."""
    error = "" if part.deviation is None else f", give or take {part.deviation:.2g}"
    return f"  {part.column} = {_written(part.value)} adds {part.contribution:+.3g}{error}."


_MISSING, _OTHER = "missing", "any other"
# An entry to evaluate, and its name.
_Entry = tuple[float | str | None, float | str]
#: The name of effects of a model whose columns act together.
_PARTIAL_DEPENDENCE = "partial dependence"
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
    known noise. ``rows`` has the number of public rows that have each entry, or whose number is nearest to it. Effects
    on something else than logits have ``output``, which is that of `Explanation`.

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
    own = coefficients.shape[1]
    both = coefficients if uncertainty is None else np.hstack([coefficients, uncertainty.basis])
    # The rows are read once for both.
    behind = as_library_transformer(feature_map).on_table(both, public)
    if behind is None:
        return _dependences(feature_map, coefficients, public, uncertainty)
    table_map, both = behind
    coefficients, basis = both[:, :own], both[:, own:]
    features = bounded_features(table_map.transform(public)) / UNIT
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
        of_entries = table_map.features_of_column(column, values)
        summary = _summary(
            column, entries, public.iloc[:, number], of_entries @ coefficients[part] - means[number], spreads[number]
        )
        if uncertainty is not None:
            along = (of_entries - middle[part]) @ basis[part]
            summary["deviations"] = uncertainty.deviations(along).tolist()
        summaries.append(summary)
    return sorted(summaries, key=lambda one: -one["importance"])


def _dependences(
    feature_map: LibraryTransformer, coefficients: Floats, public: pd.DataFrame, uncertainty: Uncertainty | None
) -> list[Effect]:
    """Return effects of columns that act together: mean logits of some public rows with other entries in a column."""
    columns = as_library_transformer(feature_map).table_columns
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
            dense(as_library_transformer(feature_map).transform(replaced))
            .reshape(len(entries), len(some), -1)
            .mean(axis=1)
        )
        counts = np.array(_rows_at(entries, public.iloc[:, number], column["kind"]))
        shares = counts / counts.sum()
        along = features - shares @ features
        effects = along @ coefficients
        summary = _summary(column, entries, public.iloc[:, number], effects, np.sqrt(shares @ effects**2))
        summary["approximation"] = _PARTIAL_DEPENDENCE
        if uncertainty is not None:
            summary["deviations"] = uncertainty.deviations(along @ uncertainty.basis).tolist()
        summaries.append(summary)
    return sorted(summaries, key=lambda one: -one["importance"])


def _rows_at(entries: list[_Entry], seen: pd.Series, kind: str) -> list[int]:
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


def _summary(column: ColumnReading, entries: list[_Entry], seen: pd.Series, effects: Floats, spreads: Floats) -> Effect:
    return {
        "column": column["name"],
        "kind": column["kind"],
        "importance": float(spreads.max()),
        "points": [[name, row] for (_, name), row in zip(entries, effects.tolist(), strict=True)],
        "rows": _rows_at(entries, seen, column["kind"]),
    }


def _entries(column: ColumnReading, seen: pd.Series) -> list[_Entry]:
    """Return pairs of an entry to evaluate and its name, for entries that public rows have."""
    missing = seen.isna()
    if column["kind"] == "number":
        pairs: list[_Entry] = [(float(knot), float(knot)) for knot in column["knots"][-1]]
        return [*pairs, (np.nan, _MISSING)] if missing.any() else pairs
    others = as_text(seen[~missing & ~as_text(seen).isin(column["categories"])])
    pairs = [(name, name) for name in column["categories"]]
    pairs += [(others.iloc[0], _OTHER)] if len(others) else []
    return [*pairs, (None, _MISSING)] if missing.any() else pairs


# Rows whose features stay in the cache of a processor.
_ROWS_IN_CACHE = 256
# Rows, and numbers about them, that are explained together.
_ROWS_AT_ONCE, _NUMBERS_AT_ONCE = 512, 2**22


class ExplainedModel(BaseEstimator, metaclass=ABCMeta):
    """A model whose outputs are linear in features of rows, and what it publishes of its columns.

    A subclass states the weights of its outputs.
    """

    #: Files of earlier versions have none of these.
    reference_: Floats | None = None
    uncertainty_: dict[str, Singles] | None = None
    effects_text_: str = "[]"
    reference_rows_: str = "public rows"

    #: What an output is: see `Explanation`.
    _kind = "logit"
    #: What outputs have beyond the sums of features.
    _start: float = 0.0

    @property
    @abstractmethod
    def _outputs(self) -> Rows:
        """Names of outputs. With one column of weights the last one is explained."""

    @property
    @abstractmethod
    def _weights(self) -> Floats:
        """Weights of features, shape (n_features, n_outputs), rounded as in predictions."""

    @abstractmethod
    def _sums(self, features: Rows) -> Floats:
        """Return outputs of rows less their start, shape (n_rows, n_outputs)."""

    @abstractmethod
    def predict(self, features: Rows) -> Rows:
        """Return what the model predicts for rows of features."""

    def describe(
        self, read_by: FeatureMap, information: Information | None, table: pd.DataFrame, *, synthetic: bool
    ) -> None:
        """Store what explanations need: released quantities, and means of public or `synthetic` rows of a table.

        `read_by` is the map that the model reads rows by. `information` is that of the fit, if it has any.
        """
        uncertainty = None if information is None else Uncertainty.of(information)
        effects = column_effects(read_by, self._weights, table, uncertainty)
        if self._kind != ExplainedModel._kind:
            effects = [effect | {"output": self._kind} for effect in effects]
        self.effects_text_ = json.dumps(effects)
        if as_library_transformer(read_by).attribution is None:
            return
        self.reference_ = read_by.reference(table)
        self.uncertainty_ = None if uncertainty is None else vars(uncertainty).copy()
        if synthetic:
            self.reference_rows_ = "synthetic rows, which were drawn from released sums"

    @property
    def effects_(self) -> list[Effect]:
        """How far each column pushes towards each class, or moves the only output."""
        effects: list[Effect] = json.loads(self.effects_text_)
        return effects

    def explanation(
        self,
        steps: Sequence[TransformerMixin],
        rows: pd.DataFrame | Floats,
        *,
        names: Sequence[str] | None = None,
        bands: bool = True,
    ) -> Explanation:
        """Return what each column of rows adds to the logits. The last of the `steps` makes the model's features."""
        check_is_fitted(self, "coefficients_")
        feature_map = as_library_transformer(steps[-1])
        if feature_map.attribution is None:
            raise InvalidParameterError(
                f"explain cannot divide the features of {type(steps[-1]).__name__} among columns: train with the "
                "default feature_map, or explain with a tool for any model.",
                parameter="explain",
            )
        if self.reference_ is None:
            raise InvalidParameterError("the student was saved before explanations existed: train again to explain it.")
        table = settled(rows)
        table = table.set_axis(list(map(str, names or table.columns)), axis=1)
        sources = Sources(steps[:-1], list(table.columns))
        weights, uncertainty = _centred(self._weights), self._uncertainty() if bands else None
        n_outputs = weights.shape[1]
        both = weights if uncertainty is None else np.hstack([weights, uncertainty.basis])
        parts = np.empty((len(table), len(sources.columns), n_outputs))
        deviations = None if uncertainty is None else np.empty_like(parts)
        base, predicted = self.reference_ @ weights, [np.asarray(self._outputs)[:0]]
        size = max(1, min(_ROWS_AT_ONCE, _NUMBERS_AT_ONCE // (len(sources.owners) * both.shape[1])))
        for part, block in blocks_of(table, size):
            prepared, count = sources.transform(block), part.stop - part.start
            raw = sources.gathered(feature_map.column_parts(prepared, both, self.reference_))[:count]
            features = feature_map.transform(prepared)[:count]
            predicted.append(self.predict(features))
            differences = _centred(self._sums(features)) - base
            parts[part] = sources.completed(raw[..., :n_outputs], differences)
            if uncertainty is not None and deviations is not None:
                deviations[part] = uncertainty.deviations(raw[..., n_outputs:])
        return Explanation(
            columns=sources.columns,
            classes=np.asarray(self._outputs)[-n_outputs:].tolist(),
            base=base + self._start,
            contributions=parts,
            deviations=deviations,
            values=table[sources.columns],
            predicted=np.concatenate(predicted[1:] or predicted),
            output=self._kind,
            attribution=feature_map.attribution,
            reference=f"the mean of the {self.reference_rows_}",
        )

    def _uncertainty(self) -> Uncertainty | None:
        return None if self.uncertainty_ is None else Uncertainty(**self.uncertainty_)


class MomentsModel(ClassifierMixin, ExplainedModel):
    """A softmax of features, with coefficients fitted to released moments. May be published.

    Attributes
    ----------
    coefficients_ : ndarray of shape (n_features, n_columns)
        One column for two classes (for the second class), otherwise one column a class.
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    reference_ : ndarray of shape (n_features,) or None
        Features that contributions are relative to: those of the mean of public rows, or of rows that were drawn from
        released sums. None in files of versions before 0.2.
    uncertainty_ : dict or None
        Arrays of an `Uncertainty`: how certain the coefficients are by the known noise.
    effects_text_ : str
        ``effects_`` as JSON.
    effects_ : list of dict
        How far each column pushes towards each class (`column_effects`). Empty if no column has an effect of its own.

    Examples
    --------
    >>> model = MomentsModel.of(np.array([[2.0]]), np.array(["no", "yes"]))
    >>> model.predict(np.array([[1.0], [-1.0]])).tolist()
    ['yes', 'no']
    """

    @classmethod
    def of(cls, coefficients: Floats, classes: NDArray[Any]) -> MomentsModel:
        """Return the model with these coefficients."""
        model = cls()
        model.coefficients_, model.classes_ = coefficients, classes
        return model

    @property
    def _outputs(self) -> Rows:
        return self.classes_

    @property
    def _weights(self) -> Floats:
        return rounded_coefficients(self.coefficients_)

    def _sums(self, features: Rows) -> Floats:
        return logits(features, self.coefficients_)

    def fit(self, X: Any, y: Any = None) -> MomentsModel:  # noqa: ARG002
        """Refuse: labels are for `LabelMomentsClassifier`, which releases their moments."""
        raise InvalidParameterError("a MomentsModel is made of released moments: fit a LabelMomentsClassifier.")

    def predict_proba(self, features: Any) -> Floats:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        check_is_fitted(self, "coefficients_")
        # Pieces that stay in the cache of a processor.
        size = _ROWS_IN_CACHE if isinstance(features, np.ndarray) else None
        chances = in_blocks(features, lambda rows: probabilities(rows, self.coefficients_), size=size)
        return np.hstack([1 - chances, chances]) if chances.shape[1] == 1 else chances

    def predict(self, features: Any) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_rows,)."""
        most_probable = self.predict_proba(features).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[most_probable]
        return labels
