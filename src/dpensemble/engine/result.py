"""The result of a run, which reports, certificates and comparisons read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from dpensemble._checks import ShownAsSentences
from dpensemble.engine.records import ReleasedLabels
from dpensemble.guarantee import Guarantee
from dpensemble.moments.public_rows import Drift, ReadableShare
from dpensemble.relations import Basis
from dpensemble.releases import ReleasedSum


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A method's short name, why it was selected, and when another one is better, one sentence each."""

    method: str
    why: str
    otherwise: str


#: Values of `Result.releases` if labels were voted on, and if models themselves were released.
LABELS, MODELS = (ReleasedSum("labels"),), (ReleasedSum("models"),)

# Classes whose names a sentence holds.
_MOST_NAMED = 10


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Result(ShownAsSentences):
    """The result of a run. Reports, certificates and comparisons read only this from an estimator.

    ``str(result)`` is a few sentences about what may be published.
    """

    #: Everything public about the run, including the computed noise. Each kind of design has its own attributes.
    design: Any
    #: Declared labels, sorted. None of them if a number is predicted.
    classes: NDArray[Any]
    guarantee: Guarantee
    #: The publishable classifier, or a list of models if models themselves were released.
    student: Any
    #: Labels that were voted on, or those of the released model on public rows.
    labels: ReleasedLabels
    #: What was released: `LABELS`, `MODELS`, or each noisy sum.
    releases: tuple[ReleasedSum, ...]
    #: Number of columns that the student learned from.
    n_features: int
    #: Charge for each noisy sum. None if labels or models were released.
    charges: tuple[dict[str, Any], ...] | None = None
    #: Epsilon of each group by number of releases. None if that is secret.
    spend: Sequence[tuple[int, Sequence[float]]] | None = None
    #: How strongly each column of a table pushes towards each class.
    effects: list[dict[str, Any]] = field(default_factory=list)
    #: Whether public rows look like the private ones, and an estimate of the share of readable private records.
    drift: Drift | None = None
    readable_share: ReadableShare | None = None
    #: Why this method was selected.
    recommendation: Recommendation | None = None
    #: Public settings of estimator and design, and teacher and student in words.
    settings: dict[str, Any] = field(default_factory=dict)
    learners: dict[str, str] = field(default_factory=dict)
    #: Wall-clock seconds of each stage. For the owner.
    seconds: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [" ".join(self.guarantee.sentences()), self._released()]
        if self.recommendation is not None:
            lines.append(f"Method: {self.recommendation.method}. {self.recommendation.why}")
        lines.append(self.about_student)
        return "\n".join(lines)

    @property
    def about_student(self) -> str:
        """What the student reads and knows, in a sentence."""
        if not len(self.classes):
            return f"The student reads {self.n_features:,} features and predicts a number."
        names = ", ".join(map(str, self.classes[:_MOST_NAMED]))
        more = f" and {len(self.classes) - _MOST_NAMED} more" if len(self.classes) > _MOST_NAMED else ""
        return f"The student reads {self.n_features:,} features and knows {len(self.classes)} classes: {names}{more}."

    def __repr__(self) -> str:
        return f"<Result: {str(self).splitlines()[0]}>"

    def _released(self) -> str:
        """Return in a sentence what was released."""
        if self.releases == MODELS:
            return "Released: the models themselves."
        if not self.voted:
            if len(self.releases) == 1:
                return "Released: 1 noisy sum, and what was computed from it."
            return f"Released: {len(self.releases)} noisy sums, and what was computed from the sums."
        # The number of labels depends on the votes, and nothing protects the number.
        if self.guarantee.basis is Basis.DATA_DEPENDENT and not self.guarantee.fixed_number:
            return "Released: labels of public rows. Their number is not protected, and is not stated here."
        return f"Released: labels of {len(self.labels):,} public rows."

    @property
    def law(self) -> Any:
        """The law that answered, or the noise of the sums."""
        return self.design.law

    @property
    def voted(self) -> bool:
        """Whether labels were voted on."""
        return self.releases == LABELS
