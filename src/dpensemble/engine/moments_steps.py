"""A run that releases noisy moments of labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from dpensemble._arrays import Floats, Integers
from dpensemble._random import Stream, seed_integer
from dpensemble.accounting import Group, SumsMeter
from dpensemble.datasets.bad_records import zeroes_bad
from dpensemble.datasets.notes import warn_of_persons
from dpensemble.design import NoisySums
from dpensemble.engine import guarantee_text
from dpensemble.engine.inputs import names_of
from dpensemble.engine.moments_run import MomentsRun
from dpensemble.engine.records import ReleasedLabels
from dpensemble.engine.result import Result
from dpensemble.engine.run import Steps
from dpensemble.errors import UnlikeRowsWarning
from dpensemble.moments import Learned, MomentsSource, PrivateBlocks, column_effects, distilled, require_no_blanks
from dpensemble.releases import SumReleaser
from dpensemble.student import marked, with_names


class MomentsSteps(Steps):
    """The steps of `LabelMomentsClassifier`.

    Parameters
    ----------
    method : LabelMomentsClassifier
        Whose settings are used.
    read : callable
        Returns an iterator over blocks of private rows, class ids and weights.
    public : DataFrame
        Public rows; none where columns are declared.
    classes : ndarray of shape (n_classes,)
        Declared labels, sorted.
    groups : tuple of Group, optional
        Groups of records, where budgets differ.
    total : float
        Sum of the units' weights, where that is public.
    has_units : bool
        Whether units were declared.
    """

    stage: ClassVar[tuple[str, str]] = ("moments", "Releasing moments")
    default_teacher: Any = "each unit answers by itself"
    design: NoisySums
    meter: SumsMeter
    _learned: Learned

    def __init__(
        self,
        method: Any,
        read: Callable[[], Iterator[tuple[Any, Integers, Floats]]],
        public: Any,
        classes: NDArray[Any],
        groups: tuple[Group, ...] | None,
        total: float,
        *,
        has_units: bool,
    ) -> None:
        super().__init__(method)
        self.read, self.public, self.classes, self.has_units = read, public, classes, has_units
        self.groups, self.total = groups, total

    def prepare(self) -> None:
        """Decide by public facts which map, rows and shares of the budget are used."""
        if not self.has_units:
            warn_of_persons(self.public)
        require_no_blanks(self.method.student, self.public)
        self._run = MomentsRun.of(self.method, self.public, self.classes, self.groups, self.total)
        self.design, self.meter = self._run.design, self._run.design.meter()

    @property
    def n_steps(self) -> float:
        """Number of rounds."""
        return self.design.rounds

    def release(self, advance: Callable[[float], None]) -> None:
        """Release all rounds; the model is fitted between them."""
        run, zeroes = self._run, zeroes_bad(self.method)
        source = MomentsSource(
            blocks=PrivateBlocks(
                self.read,
                run.transform,
                alone=run.reads_alone(self.has_units, zeroes_bad=zeroes),
                zeroes_bad=zeroes,
                n_features=0 if run.feature_map is None else len(run.feature_map.blocks_),
            ),
            nonnegative=run.nonnegative,
            sums=SumReleaser(relation=self.design.relation, meter=self.meter, noise=self.noise),
        )
        learned = self._learned = run.learn(source, advance)
        if learned.synthetic and run.after_alarm is not None:
            self.design = run.after_alarm
        if learned.drift is not None and learned.drift.alarm:
            warnings.warn(learned.drift.warning(replaced=learned.synthetic), UnlikeRowsWarning, stacklevel=5)

    def learn(self) -> Any:
        """Return the published model, or the student that is trained on its predictions."""
        learned = self._learned
        self._model = self._published(Pipeline([("encoder", learned.feature_map), ("student", learned.model)]))
        if self.method.student is None:
            return self._model
        # Synthetic rows may have blanks by chance of the noise.
        rows = learned.table.dropna() if learned.synthetic else learned.table
        seed = seed_integer(self.entropy, Stream.STUDENT)
        return self._published(distilled(self.method.student, self._model, rows, seed))

    def _published(self, student: Pipeline) -> Any:
        named = with_names(student, names_of(self.public), n_columns=self.public.shape[1])
        return marked(named, for_release=self.noise.for_release)

    def state(self, student: Any) -> Result:
        """Return what the run gave; the estimator keeps the model and the moments besides."""
        learned, method, public, classes = self._learned, self.method, self.public, self.classes
        # No rows, but what kinds of columns they have.
        method.model_, method.moments_, method.columns_ = self._model, learned.rounds, public.iloc[:0]
        answers = np.empty(0, dtype=classes.dtype)
        if len(public):
            answers = classes[np.asarray(self._model.predict_proba(public)).argmax(axis=1)]
        texts = guarantee_text.of_moments(self.relation, self.has_units, len(self.meter.groups) > 1)
        return Result(
            design=self.design,
            classes=classes,
            guarantee=guarantee_text.of_sums(
                self.meter, self.relation, texts, has_units=self.has_units, for_release=self.noise.for_release
            ),
            student=student,
            labels=ReleasedLabels(np.arange(len(public)), answers, len(public)),
            releases=learned.releases,
            n_features=len(student.named_steps["encoder"].get_feature_names_out()),
            charges=self.meter.charges,
            effects=column_effects(learned.feature_map, learned.model.coefficients_, learned.table),
            drift=learned.drift,
            readable_share=learned.readable,
        )

    def default_student(self) -> Any:
        """Return the student that is used when the estimator names none, in words."""
        return "softmax of the features, from released moments"
