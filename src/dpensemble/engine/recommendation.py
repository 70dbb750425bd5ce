"""Which method public facts speak for, before any record is looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFacts:
    """What is known of a run in public, and decides which method to take."""

    # 0 where columns are declared instead.
    n_public: int
    # Private records, or units; None where their number is private, too.
    n_units: int | None
    n_columns: int
    n_classes: int
    has_units: bool
    has_blanks: bool
    epsilon: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A method's short name, why it was chosen, and when another one is better, a sentence each."""

    method: str
    why: str
    otherwise: str


# Votes are ahead where private records times epsilon are fewer, if public rows are at least so many; measured, see
# docs/methods.md.
_FEWEST_RECORDS, _FEWEST_PUBLIC = 500.0, 100
_VOTES = (
    "Methods that vote (pate, private-majority and others) are for any base learner, or for labels that are published."
)


def recommend(facts: PublicFacts) -> Recommendation:
    """Return the method that public facts speak for."""
    plain = facts.n_classes == 2 and not facts.has_units and not facts.has_blanks
    few = facts.n_units is not None and facts.n_units * facts.epsilon < _FEWEST_RECORDS
    if few and plain and facts.n_public >= _FEWEST_PUBLIC:
        return Recommendation(
            "private-majority",
            f"{facts.n_units:,} private records at epsilon={facts.epsilon:g} are too few for sums of many entries, and "
            "a vote has one.",
            "With more records or a larger epsilon label-moments is better.",
        )
    if facts.n_public == 0:
        return Recommendation(
            "label-moments", "It is the only method of this library that needs no public rows.", _VOTES
        )
    return Recommendation(
        "label-moments",
        "On tables it was the most accurate of this library's methods in 53 of 56 measurements (fourteen tables, four "
        "budgets), and close to it in the others.",
        _VOTES,
    )
