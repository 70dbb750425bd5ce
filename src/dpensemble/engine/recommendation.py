"""Select a method from public information, before any record is read."""

from __future__ import annotations

from dataclasses import dataclass


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
