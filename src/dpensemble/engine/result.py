"""What a run gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from dpensemble.engine.labelling import PrivateDiagnostics
from dpensemble.engine.records import ReleasedLabels
from dpensemble.guarantee import Guarantee
from dpensemble.releases import ReleasedSum

#: What `Result.releases` holds when labels were voted on, and when models themselves were released.
LABELS, MODELS = (ReleasedSum("labels"),), (ReleasedSum("models"),)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Result:
    """What a run gave. Reports, certificates and comparisons read this and nothing else of an estimator.

    Parameters
    ----------
    design : Design
        Everything public about the run, with the noise that was found.
    classes : ndarray of shape (n_classes,)
        Declared labels, sorted.
    guarantee : Guarantee
        What is promised.
    student : fitted scikit-learn classifier
        What may be published. A list of models when models themselves were released.
    labels : ReleasedLabels
        Labels that were voted on, or those of the released model on public rows.
    releases : tuple of ReleasedSum
        What left the private records: ``LABELS``, ``MODELS``, or a description of each noisy sum.
    n_features : int
        Number of columns that the student learned from.
    charges : tuple of dict, optional
        Charge for each noisy sum. None when labels or models were released.
    spend : list of (int, tuple of float), optional
        Epsilon of each group after a number of releases. None when that is secret.
    effects : list of dict
        How far each column of a table pushes towards each class.
    drift : Drift, optional
        Whether public rows look like the private ones.
    readable_share : ReadableShare, optional
        Estimated share of private records that could be read.
    recommendation : Recommendation, optional
        Why this method was chosen.
    settings : dict
        Public settings of the run: those of the estimator and of the design.
    learners : dict
        Teacher and student in words.
    seconds : dict
        Wall-clock seconds of each stage. For the owner.
    diagnostics : PrivateDiagnostics, optional
        Statistics of secret votes, when `fit` was given an object to fill. Never publish them.
    """

    # Each kind of design has attributes of its own.
    design: Any
    classes: NDArray[Any]
    guarantee: Guarantee
    student: Any
    labels: ReleasedLabels
    releases: tuple[ReleasedSum, ...]
    n_features: int
    charges: tuple[dict[str, Any], ...] | None = None
    spend: Sequence[tuple[int, Sequence[float]]] | None = None
    effects: list[dict[str, Any]] = field(default_factory=list)
    drift: Any = None
    readable_share: Any = None
    recommendation: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    learners: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    diagnostics: PrivateDiagnostics | None = None

    @property
    def law(self) -> Any:
        """The law that answered, or the noise of the sums."""
        return self.design.law

    @property
    def voted(self) -> bool:
        """Whether labels were voted on."""
        return self.releases == LABELS
