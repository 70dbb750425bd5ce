"""The privacy budget type."""

from dataclasses import dataclass

from dpensemble._checks import delta_of, epsilon_of, integer_between
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.relations import Relation

# Largest delta of a guarantee if the number of units is private and no lower bound was declared.
_LARGEST_DELTA = 0.01


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


def require_small_delta(
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
