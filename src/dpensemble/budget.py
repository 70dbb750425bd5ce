"""The privacy budget type."""

from dataclasses import dataclass

from dpensemble._checks import delta_of, epsilon_of
from dpensemble.errors import BudgetError


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
