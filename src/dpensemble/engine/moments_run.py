"""How a run of label moments goes about it, by public facts alone: which map, which rows, which shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble._guard import on_public_rows
from dpensemble.accounting import Group
from dpensemble.design import NoisySums
from dpensemble.errors import InvalidParameterError
from dpensemble.moments import (
    MANY_COLUMNS,
    VERY_FEW_ROWS,
    Grid,
    ImageMap,
    Learned,
    MomentsSource,
    bounded_map,
    declared_grid,
    learn,
    learn_by_synthetic_rows,
    observed_grid,
)
from dpensemble.relations import Relation


@dataclass(frozen=True, eq=False)
class MomentsRun:
    """What is decided before any record is read.

    Parameters
    ----------
    design : NoisySums
        Groups, rounds, shares.
    public : DataFrame
        Public rows; none where columns are declared.
    classes : ndarray of shape (n_classes,)
        Declared labels.
    total : float
        Sum of the units' weights, where that is public.
    grid : Grid or None
        Cells of columns, where synthetic rows are drawn.
    feature_map : fitted map or None
        Made from public rows; None where synthetic rows are drawn.
    after_alarm : NoisySums or None
        How the run goes on where public rows turn out to be unlike the private ones.
    """

    design: NoisySums
    public: Any
    classes: NDArray[Any]
    total: float
    grid: Grid | None = None
    feature_map: Any = None
    after_alarm: NoisySums | None = None

    @classmethod
    def of(
        cls,
        estimator: Any,
        public: Any,
        classes: NDArray[Any],
        groups: tuple[Group, ...] | None,
        total: float,
    ) -> MomentsRun:
        """Return how a fit of a `LabelMomentsClassifier` goes about it."""
        if estimator.declared_columns is not None and estimator.feature_map is not None:
            raise InvalidParameterError(
                "feature_map has to be fitted on public rows, and declared_columns are for runs without; give one.",
                parameter="feature_map",
            )
        asked: dict[str, Any] = {"n_classes": len(classes), "groups": groups}
        synthetic = estimator.design(**asked, synthetic_rows=True)
        if estimator.declared_columns is not None:
            integer_between("number of declared_columns", public.shape[1], 1, MANY_COLUMNS)
            return cls(synthetic, public, classes, total, grid=declared_grid(estimator.declared_columns))
        if estimator.feature_map is None and len(public) < VERY_FEW_ROWS and public.shape[1] <= MANY_COLUMNS:
            return cls(synthetic, public, classes, total, grid=observed_grid(public))
        design = estimator.design(**asked)
        with on_public_rows():
            feature_map = bounded_map(
                estimator.feature_map,
                n_public=len(public),
                n_columns=public.shape[1],
                n_rows=int(total) if design.relation is Relation.REPLACE_ONE else len(public),
                n_classes=len(classes),
                epsilon=estimator.epsilon,
            ).fit(public)
        # Class sums tell the mean of features, too.
        compares = not (feature_map.nonnegative_ and design.relation is Relation.REPLACE_ONE)
        after = replace(synthetic, compares_rows=True) if compares and estimator.feature_map is None else None
        design = replace(design, compares_rows=compares)
        return cls(design, public, classes, total, feature_map=feature_map, after_alarm=after)

    @property
    def transform(self) -> Callable[[Any], Any]:
        """What private rows are first read by."""
        if self.grid is not None:
            return self.grid.one_hot
        found: Callable[[Any], Any] = self.feature_map.transform
        return found

    @property
    def nonnegative(self) -> bool:
        """Whether no feature is below 0."""
        return True if self.feature_map is None else bool(self.feature_map.nonnegative_)

    def reads_alone(self, has_units: bool, *, zeroes_bad: bool) -> bool:
        """Return whether each row is given to the map by itself."""
        if self.grid is not None or getattr(self.feature_map, "reads_rows_alone", False):
            return False
        if not isinstance(self.feature_map, ImageMap):
            # A map of others may read rows together, and only its author knows.
            return True
        # Where a unit can have more or fewer records, the others are at other places without it. An image with a pixel
        # that cannot be used is bad by itself, and must not end the reading of others.
        return zeroes_bad or has_units or self.design.relation is not Relation.REPLACE_ONE

    def learn(self, source: MomentsSource, on_done: Callable[[int], None]) -> Learned:
        """Release all rounds and fit the model."""
        if self.grid is not None:
            few = self.public if len(self.public) else None
            return learn_by_synthetic_rows(
                source, self.grid, few, self.classes, self.design, self.total, on_done=on_done
            )
        return learn(
            source,
            self.feature_map,
            self.public,
            self.classes,
            self.design,
            self.total,
            after_alarm=self.after_alarm,
            on_done=on_done,
        )
