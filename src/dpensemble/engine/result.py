"""The result of a run, and the method that is recommended from public information before any record is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from dpensemble.engine.records import ReleasedLabels
from dpensemble.guarantee import Guarantee
from dpensemble.moments.public_rows import Drift, ReadableShare
from dpensemble.releases import ReleasedSum


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFacts:
    """Public information about a run, which determines the method."""

    # 0 if columns are declared instead.
    n_public: int
    # Number of private records, or units. None if the number is private, too.
    n_units: int | None
    n_columns: int
    n_classes: int
    has_units: bool
    has_blanks: bool
    epsilon: float
    # Whether each record has an epsilon of its own.
    has_budgets: bool = False


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A method's short name, why it was selected, and when another one is better, one sentence each."""

    method: str
    why: str
    otherwise: str


# Votes are more accurate, or as accurate, if private records times epsilon are fewer, and public rows are at least this
# many and fewer than that. Measured (docs/methods.md).
_FEWEST_RECORDS, _FEWEST_PUBLIC, _MANY_PUBLIC = 500.0, 100, 1000
_VOTES = "Methods that vote (pate, private-majority and others) accept any base learner, and publish labels."


def recommend(facts: PublicFacts) -> Recommendation:
    """Return the method that public information selects."""
    if facts.has_budgets:
        return Recommendation(
            "label-moments",
            "It takes an epsilon for each record, and a record with a smaller epsilon weighs less.",
            "Personalised PATE (weighting-pate and others) publishes labels under such budgets.",
        )
    plain = facts.n_classes == 2 and not facts.has_units and not facts.has_blanks
    few = facts.n_units is not None and facts.n_units * facts.epsilon < _FEWEST_RECORDS
    if few and plain and _FEWEST_PUBLIC <= facts.n_public < _MANY_PUBLIC:
        return Recommendation(
            "private-majority",
            f"{facts.n_units:,} private records at epsilon={facts.epsilon:g} are too few for sums of many entries, and "
            "a vote has only one entry.",
            f"With more records, a larger epsilon or {_MANY_PUBLIC:,} public rows label-moments is better.",
        )
    if facts.n_public == 0:
        return Recommendation(
            "label-moments", "It is the only method of this library that needs no public rows.", _VOTES
        )
    return Recommendation(
        "label-moments",
        "On tables it was the most accurate of this library's methods in 53 of 56 measurements (fourteen tables, four "
        "budgets), and close to the most accurate one in the others.",
        _VOTES,
    )


#: Values of `Result.releases` if labels were voted on, and if models themselves were released.
LABELS, MODELS = (ReleasedSum("labels"),), (ReleasedSum("models"),)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Result:
    """The result of a run. Reports, certificates and comparisons read only this from an estimator."""

    #: Everything public about the run, including the computed noise. Each kind of design has its own attributes.
    design: Any
    #: Declared labels, sorted.
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

    @property
    def law(self) -> Any:
        """The law that answered, or the noise of the sums."""
        return self.design.law

    @property
    def voted(self) -> bool:
        """Whether labels were voted on."""
        return self.releases == LABELS
