"""The published, data-independent moments accountant of subsample-and-aggregate and DPBag-."""

from dpensemble.accounting.base import Meter, largest_affordable
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.relations import Basis
from dpensemble.votes import Votes


def laplace_moments(scale: float, squared_votes: int) -> PrivacyCost:
    """Return the cost of Laplace noisy-max answers in which one unit can change some votes.

    An answer in which ``a`` ballots may change moves the counts by at most
    ``2 a`` in the L1 norm, so it is ``2 a / scale``-differentially private, and
    an ``e``-differentially private answer has Renyi divergence at most
    ``e**2 order / 2``. The moments are thus ``2 (a / scale)**2 l (l + 1)`` an
    answer, and ``squared_votes`` is the sum of ``a**2`` over the answers.

    Parameters
    ----------
    scale : float
        Scale of the Laplace noise in votes.
    squared_votes : int
        Sum over the answers of the square of the number of votes that may change.

    Returns
    -------
    PrivacyCost

    References
    ----------
    Jordon et al. 2019, Theorem 1 (pure privacy) and section 4.3 (moments); M. Bun and T.
    Steinke, "Concentrated differential privacy", TCC 2016, Proposition 3.3.

    Examples
    --------
    Ten labels at 50 teachers and a scale of 25 votes:

    >>> round(laplace_moments(25.0, 10).epsilon(1e-3), 4)
    0.9725
    """
    return PrivacyCost(rdp=2.0 * float(squared_votes) / scale**2 * DEFAULT_ORDERS)


class WorstCaseMeter(Meter):
    """Charges every query as if one unit could change all the votes it touches.

    Parameters
    ----------
    law : LaplaceNoisyMax
        The law that answers.
    votes_per_unit : int
        Most votes that one unit can change (`Allocation.votes_per_unit`).
    budget : Budget
        What may be spent.

    Examples
    --------
    >>> WorstCaseMeter(LaplaceNoisyMax(125), 1, Budget(epsilon=1, delta=1e-5)).sure_queries
    162
    """

    basis = Basis.WORST_CASE
    accounting = "moments accountant, data-independent (Jordon et al. 2019, Theorems 1 and 3)"

    def __init__(self, law: LaplaceNoisyMax, votes_per_unit: int, budget: Budget) -> None:
        super().__init__(budget)
        self._scale = law.scale
        self._votes_per_unit = votes_per_unit
        self._admitted = 0
        self._affordable = largest_affordable(self._cost_of, budget)

    def _cost_of(self, n_queries: int) -> PrivacyCost:
        return laplace_moments(self._scale, n_queries * self._votes_per_unit**2)

    @property
    def sure_queries(self) -> int:
        """Number of queries that fit the budget."""
        return self._affordable

    @property
    def most_queries(self) -> int:
        """The same number: the votes play no part."""
        return self._affordable

    def admit(self, votes: Votes) -> int:
        """Charge for the leading queries that fit."""
        admitted = min(votes.n_queries, self._affordable - self._admitted)
        self._admitted += admitted
        return admitted

    @property
    def cost(self) -> PrivacyCost:
        """Cost of all admitted queries; public."""
        return self._cost_of(self._admitted)

    @property
    def one_query(self) -> PrivacyCost:
        """Cost of one query."""
        return self._cost_of(1)
