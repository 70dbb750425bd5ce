"""The published, data-independent costs: they charge for noisy counts that nobody sees."""

from functools import singledispatch

from dpensemble._checks import integer_between
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.errors import AccountingError
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax, ReleaseLaw


def laplace_moments(scale: float, squared_votes: int) -> PrivacyCost:
    """Return the published cost of Laplace noisy-max answers in which one unit can change some votes.

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
        A Renyi curve.

    References
    ----------
    Jordon et al. 2019, Theorem 1 (pure privacy) and section 4.3 (moments); M. Bun and T.
    Steinke, "Concentrated differential privacy", TCC 2016, Proposition 3.3.

    Examples
    --------
    Ten labels at 50 teachers and a scale of 25 votes, converted as published:

    >>> round(laplace_moments(25.0, 10).epsilon(1e-3, "classical Renyi conversion"), 4)
    0.9725
    """
    return PrivacyCost(rdp=2.0 * float(squared_votes) / scale**2 * DEFAULT_ORDERS)


def published_cost(law: ReleaseLaw, votes_per_unit: int, ballot_weight: int = 1) -> PrivacyCost:
    """Return the published data-independent cost of one answer.

    Parameters
    ----------
    law : LaplaceNoisyMax or GaussianNoisyMax
        The law that answers.
    votes_per_unit : int
        Most ballots that one unit can change.
    ballot_weight : int, default=1
        Weight of each of those ballots.

    Returns
    -------
    PrivacyCost
        Laplace: `laplace_moments`. Gaussian: ``order * votes**2 / sigma**2``
        (Papernot et al. 2018, Proposition 8), votes being the sum of the weights of the ballots that can change.

    Raises
    ------
    AccountingError
        If no published analysis covers the law.

    Examples
    --------
    >>> round(float(published_cost(GaussianNoisyMax(40), 1).rdp[0]), 6)
    0.00125
    """
    return _published(law, votes_per_unit * integer_between("ballot_weight", ballot_weight, 1))


@singledispatch
def _published(law: ReleaseLaw, votes: int) -> PrivacyCost:  # noqa: ARG001
    raise AccountingError(f"no published accounting covers {type(law).__name__}; use accounting='exact'.")


@_published.register
def _(law: LaplaceNoisyMax, votes: int) -> PrivacyCost:
    return laplace_moments(law.scale, votes**2)


@_published.register
def _(law: GaussianNoisyMax, votes: int) -> PrivacyCost:
    return PrivacyCost(rdp=DEFAULT_ORDERS * (votes / law.sigma) ** 2)
