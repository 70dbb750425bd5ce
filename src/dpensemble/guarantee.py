"""The privacy budget that a run may spend, and the one type in which every method states its guarantee.

`budget_of_run` is the only place that chooses a delta. The choice depends on public numbers only. So two neighbouring
data sets have the same delta, and a delta costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from dpensemble._checks import (
    ShownAsSentences,
    delta_of,
    epsilon_of,
    integer_between,
    member,
    plural,
    real_between,
    round_up,
)
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.relations import Basis, Relation

# Largest delta of a guarantee if the number of units is private and no lower bound was declared.
_LARGEST_DELTA = 0.01
# A delta that is not given is at most this, and at most one in this many of the units.
_USUAL_DELTA, _ONE_IN = 1e-5, 5
_GIVEN = "given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """An allowance of (epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon : float
        Largest privacy loss allowed, from 1e-9 to 1e12.
    delta : float
        Most probability that an event may have beyond the limit of `epsilon`, from 1e-300 to just below 1.

    Raises
    ------
    InvalidParameterError
        If either is out of range.

    Examples
    --------
    >>> Budget(epsilon=1, delta=1e-5)
    Budget(epsilon=1.0, delta=1e-05)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", epsilon_of(self.epsilon))
        object.__setattr__(self, "delta", delta_of(self.delta))

    @classmethod
    def of(cls, epsilon: float, delta: float | None = None, n_units: int | None = None) -> Budget:
        """Return a budget with a given delta, or with the usual delta.

        Parameters
        ----------
        epsilon : float
            Largest privacy loss allowed.
        delta : float, optional
            Used unchanged. By default the smaller of 1e-5 and 0.2 / `n_units`, rounded down to one digit.
        n_units : int, optional
            Public number of records (or units). Without it the usual delta is 1e-5.

        Returns
        -------
        Budget

        Raises
        ------
        InvalidParameterError
            If one of them is out of range.

        Examples
        --------
        >>> Budget.of(1), Budget.of(1, n_units=100_000).delta
        (Budget(epsilon=1.0, delta=1e-05), 2e-06)
        """
        return cls(epsilon=epsilon, delta=_usual_delta(n_units) if delta is None else delta)

    def check_delta_for(self, n_units: int, noun: str = "records") -> None:
        """Raise if delta would allow publishing one unit outright.

        Parameters
        ----------
        n_units : int
            Number of private records (or units) in the data set.
        noun : str
            Their name in the message.

        Raises
        ------
        BudgetError
            If ``delta >= 1 / n_units``.
        """
        if self.delta >= 1 / n_units:
            raise BudgetError(
                f"delta={self.delta:g} is not below 1/N = {1 / n_units:.3g} for N={n_units} private {noun}, "
                f"so it would allow exposing one of them outright: use one well below 1/N, "
                f"such as {0.1 / n_units:.1g}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGuarantee:
    """The guarantee for the records of one group. Its epsilon is 0 if nothing was computed from them."""

    name: str
    epsilon: float
    budget: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", epsilon_of(self.budget))
        object.__setattr__(self, "epsilon", real_between("epsilon", self.epsilon, 0.0, self.budget))


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee(ShownAsSentences):
    """A differential-privacy guarantee that a data-protection officer can read.

    ``str(guarantee)`` is the text for people, and `to_dict` is the form for programs.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. Epsilon may be 0: then delta bounds every difference of probabilities. Under a data-dependent
        basis, `epsilon` is the public budget, an upper bound on the private spend, and never the spend itself.
    basis : Basis or str
        ``"worst-case"`` or ``"data-dependent"``.
    relation : Relation or str
        ``"replace-one"`` or ``"add-or-remove-one"``.
    unit : str
        What is replaced, added or removed: ``"record"``, or ``"unit"`` if
        all rows of one person are protected together.
    accounting : str
        Name and source of the analysis.
    assumptions : tuple of str
        What must hold for the guarantee, one sentence for each assumption.
    for_release : bool
        False if the release was seeded, because anybody with the seed can remove the noise.
    fixed_number : bool
        Whether the number of queries was public from the start. If False, the spend determined it. Only a
        data-dependent basis depends on this.
    groups : tuple of GroupGuarantee
        The guarantee of each group, if groups of records have their own budgets. Then `epsilon` is
        the largest of theirs.
    n_units : int, optional
        Number of private records (or units), if it is public. If delta is not below 1 / `n_units`, the text
        contains a warning about what such a delta permits.
    delta_rule : str, optional
        Which rule gave delta: ``"given"``, or the rule for a delta that was not given. Public.

    Examples
    --------
    >>> g = Guarantee(epsilon=1, delta=1e-5, basis="worst-case", relation="replace-one",
    ...               unit="record", accounting="moments")
    >>> print(g)
    Differential privacy with epsilon = 1 and delta = 1e-05. Replacing any one record by any other
    multiplies the probability of every published result by at most 2.72, and adds at most 1e-05 to it.
    This holds for every possible private data set. ...
    """

    epsilon: float
    delta: float
    basis: Basis
    relation: Relation
    unit: str
    accounting: str
    assumptions: tuple[str, ...] = ()
    for_release: bool = True
    fixed_number: bool = True
    groups: tuple[GroupGuarantee, ...] = ()
    n_units: int | None = None
    delta_rule: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real_between("epsilon", self.epsilon, 0.0, 1e12))
        object.__setattr__(self, "delta", delta_of(self.delta))
        if self.n_units is not None:
            object.__setattr__(self, "n_units", integer_between("n_units", self.n_units, 1))
        object.__setattr__(self, "basis", member("basis", self.basis, Basis))
        object.__setattr__(self, "relation", member("relation", self.relation, Relation))
        object.__setattr__(self, "assumptions", tuple(self.assumptions))
        object.__setattr__(self, "groups", tuple(self.groups))
        largest = max((group.epsilon for group in self.groups), default=self.epsilon)
        if largest > self.epsilon:
            raise InvalidParameterError(
                f"epsilon must be at least the largest of the groups' epsilons, {largest:g}; got {self.epsilon:g}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, ready for JSON."""
        fields = asdict(self)
        fields["basis"] = self.basis.value
        fields["relation"] = self.relation.value
        fields["assumptions"] = list(self.assumptions)
        fields["groups"] = [asdict(group) for group in self.groups]
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Guarantee:
        """Rebuild a guarantee from `to_dict`. Raise if a field is unknown, or a required one is missing."""
        groups = tuple(GroupGuarantee(**group) for group in fields.get("groups", ()))
        return cls(**fields | {"groups": groups})

    def sentences(self) -> list[str]:
        """Return the guarantee in plain English, one statement for each entry."""
        same = " of the same group" if self.groups else ""
        change = {
            Relation.REPLACE_ONE: f"Replacing any one {self.unit} by any other{same}",
            Relation.ADD_OR_REMOVE_ONE: f"Adding or removing any one {self.unit}",
        }[self.relation]
        # A data-dependent guarantee does not cover the time at which the loop stops.
        subject = "every published result"
        if self.basis is Basis.DATA_DEPENDENT and not self.fixed_number:
            subject = "the released labels, for a given number of them,"
        delta, joined = f"{round_up(self.delta, 4):g}", ";" if self.groups else " and"
        effect = f"changes the probability of {subject} by at most {delta}"
        if self.epsilon:
            more = f", and adds at most {delta} to it" if self.delta else ""
            effect = f"multiplies the probability of {subject} by at most {self._each(_factor)}{more}"
        lines = [
            f"Differential privacy with epsilon = {self._each(_epsilon)}{joined} delta = {delta}.",
            f"{change} {effect}.",
            _WORST_CASE if self.basis is Basis.WORST_CASE else _DATA_DEPENDENT[self.fixed_number],
        ]
        if self.warning is not None:
            lines.append(self.warning)
        if self.groups:
            lines.append(f"This assumes that it is public which group a {self.unit} belongs to.")
        if not self.for_release:
            lines.append(
                "NOT FOR RELEASE: the randomness came from a seed, so anybody who knows the seed can remove the noise; "
                "this run is an experiment."
            )
        return lines

    @property
    def warning(self) -> str | None:
        """What delta permits, in plain English, if delta is not below one over a known number of units."""
        if self.n_units is None or self.delta < 1 / self.n_units:
            return None
        share, noun = f"{math.floor(round(self.n_units * self.delta, 6)):,}", plural(self.unit)
        return (
            f"WARNING: delta is not below 1 / {self.n_units:,}, one over the number of {noun}. This guarantee would "
            f"also allow a program that publishes about {share} of the {self.n_units:,} {noun} in full, chosen at "
            "random: the others are protected, but those may be exposed completely."
        )

    def _each(self, text: Callable[[float], str]) -> str:
        """Return the text of the one epsilon, or the texts of the groups' epsilons."""
        if not self.groups:
            return text(self.epsilon)
        # In a long list, readers look for the strictest and the most generous group.
        shown = self.groups if len(self.groups) <= _MOST_SPELT_OUT else (self.groups[0], self.groups[-1])
        parts = [f"{text(group.epsilon)} for group {group.name}" for group in shown]
        between = len(self.groups) - len(shown)
        if between:
            most = max(group.epsilon for group in self.groups)
            parts.insert(1, f"at most {text(most)} for {between} more groups")
        return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]

    def __str__(self) -> str:
        lines = [" ".join(self.sentences()), f"Accounting: {self.accounting}."]
        if self.delta_rule is not None:
            lines.append(f"Delta: {self.delta_rule}.")
        if self.assumptions:
            lines.append("Assumptions: " + " ".join(self.assumptions))
        return "\n".join(lines)


def _epsilon(epsilon: float) -> str:
    return f"{round_up(epsilon, 4):g}" if epsilon else "0"


def _factor(epsilon: float) -> str:
    return f"{round_up(math.exp(epsilon), 3):g}" if epsilon < 700 else "an unlimited factor"


_MOST_SPELT_OUT = 6

_WORST_CASE = "This holds for every possible private data set."
_HERE_ONLY = (
    "This is computed from the teachers' secret votes and holds only for this private data set, not for every "
    "possible data set. "
)
# Keyed by whether the number of queries was fixed.
_DATA_DEPENDENT = {
    True: _HERE_ONLY + "The privacy actually spent depends on private records and is not protected: do not publish it.",
    False: _HERE_ONLY
    + "The privacy actually spent and the number of labels answered depend on private records and are not "
    "protected: publish neither.",
}


def budget_of_run(
    epsilon: float,
    delta: float | None,
    relation: Relation,
    n_units: int,
    fewest_units: int | None = None,
    *,
    has_units: bool = False,
    zeroes_bad: bool = False,
) -> tuple[Budget, str]:
    """Return the budget of a run and the rule that gave delta, or raise if delta would allow publishing one unit.

    `n_units` is the number of records or, with `has_units`, of units. `zeroes_bad` is whether bad records add zeros.
    """
    rule, noun = _GIVEN, "units" if has_units else "records"
    if delta is None:
        # A record without a unit is bad. If it does not stop the run, a replaced unit may change the number of units.
        delta, rule = _chosen_delta(relation, n_units, noun, fewest_units, follows_entries=has_units and zeroes_bad)
    budget = Budget(epsilon=epsilon, delta=delta)
    try:
        _require_small_delta(budget, relation, n_units, noun, fewest_units)
    except BudgetError as error:
        if rule == _GIVEN:
            raise
        raise BudgetError(f"no delta was given, and it is {rule}. But {error}", parameter="delta") from None
    return budget, rule


def _usual_delta(n_units: int | None = None) -> float:
    """Return the delta of a run to which none was given. `n_units` is None if their number is not public."""
    if n_units is None:
        return _USUAL_DELTA
    # In whole numbers, because a quotient of floats may lie above the true one: the largest digit / 10**places.
    whole = _ONE_IN * integer_between("n_units", n_units, 1, 2**40)
    places = len(str(whole - 1))
    return min(_USUAL_DELTA, float(f"{10**places // whole}e-{places}"))


def _chosen_delta(
    relation: Relation, n_units: int, noun: str, fewest_units: int | None, *, follows_entries: bool
) -> tuple[float, str]:
    """Return the usual delta by what is public, and its rule in words. It never reads a private number."""
    usual = f"{_USUAL_DELTA:g}"
    smaller = f"the smaller of {usual} and {1 / _ONE_IN:g}/n, rounded down to one digit, where n = "
    if relation is Relation.ADD_OR_REMOVE_ONE:
        if fewest_units is None:
            return _usual_delta(), f"{usual}, because the number of {noun} is private"
        fewest_units = integer_between("fewest_units", fewest_units, 1)
        return _usual_delta(fewest_units), f"{smaller}{fewest_units:,} is the declared lower bound on {noun}"
    if follows_entries:
        return _usual_delta(), f"{usual}, because records without a unit are left out of the number of {noun}"
    return _usual_delta(n_units), f"{smaller}{n_units:,} is the number of {noun} in the fit"


def _require_small_delta(
    budget: Budget, relation: Relation, n_units: int, noun: str, fewest_units: int | None = None
) -> None:
    """Raise for a delta that would allow publishing one unit outright."""
    if relation is Relation.ADD_OR_REMOVE_ONE and fewest_units is None and budget.delta > _LARGEST_DELTA:
        raise BudgetError(
            f"delta={budget.delta:g} is above {_LARGEST_DELTA:g}, the largest allowed if the number of {noun} is "
            "private (relation='add-or-remove-one'): use a smaller delta, or declare a lower bound by fewest_units=.",
            parameter="delta",
        )
    if relation is not Relation.ADD_OR_REMOVE_ONE:
        if fewest_units is not None:
            raise InvalidParameterError(
                f"fewest_units={fewest_units!r} is for relation='add-or-remove-one'; under {relation.value!r} the "
                "number of units is public, so leave fewest_units out.",
                parameter="fewest_units",
            )
        budget.check_delta_for(n_units, noun)
    elif fewest_units is not None:
        budget.check_delta_for(integer_between("fewest_units", fewest_units, 1), f"{noun} at least")
