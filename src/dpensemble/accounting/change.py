"""What one unit can do to the votes on one query."""

from __future__ import annotations

from dataclasses import dataclass

from dpensemble._checks import integer_between

# Tables over all counts stay within seconds and a gigabyte.
MOST_BALLOTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Ballots of one weight that one unit can move from any classes to any others. Public.

    Parameters
    ----------
    ballots : int
        Sum of the weights of all ballots, at most a million. When each weighs 1, this is their number.
    classes : int
        Number of declared classes.
    votes : int, default=1
        Most ballots that one unit can change.
    weight : int, default=1
        Weight of each of those ballots. Other units' ballots may have other weights.

    Raises
    ------
    InvalidParameterError
        If a number is out of range.

    Examples
    --------
    >>> Change(ballots=250, classes=2, votes=3, weight=2).moved
    6
    """

    ballots: int
    classes: int
    votes: int = 1
    weight: int = 1

    def __post_init__(self) -> None:
        integer_between("ballots", self.ballots, 1, MOST_BALLOTS)
        integer_between("classes", self.classes, 2)
        integer_between("votes", self.votes, 1)
        integer_between("weight", self.weight, 1)
        # No more ballots of this weight fit into the sum of all.
        object.__setattr__(self, "votes", min(self.votes, max(1, self.ballots // self.weight)))

    @property
    def moved(self) -> int:
        """Weight of all ballots that can change."""
        return self.votes * self.weight
