"""The published, data-independent costs, which charge for noisy counts that are never published."""

from dpensemble.accounting.change import Change
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.errors import AccountingError
from dpensemble.laws import ByLaw, ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, ReleaseLaw


def laplace_moments(scale: float, squared_votes: int) -> PrivacyCost:
    """Return the published cost of Laplace noisy-max answers in which one unit can change some votes.

    If ``a`` ballots of an answer may change, the counts move by at most ``2 a`` in the L1 norm. So the answer is
    ``2 a / scale``-differentially private. An ``e``-differentially private answer has Renyi divergence at most ``e**2
    order / 2``. The moments are thus ``2 (a / scale)**2 l (l + 1)`` an answer, and ``squared_votes`` is the sum of
    ``a**2`` over the answers.

    Jordon et al. 2019, Theorem 1 (pure privacy) and section 4.3 (moments). M. Bun and T. Steinke, "Concentrated
    differential privacy", TCC 2016, Proposition 3.3.
    """
    return PrivacyCost(rdp=2.0 * float(squared_votes) / scale**2 * DEFAULT_ORDERS)


def published_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the published data-independent cost of one label of a law without a gate."""
    return published(law, change)[0]


def published_source(law: ReleaseLaw) -> str:
    """Return paper and theorem of the published cost of a law."""
    return published(law, Change(ballots=1, classes=2))[1]


def published_gate_cost(sigma: float, votes: float) -> PrivacyCost:
    """Return the published cost of one noisy threshold check (Papernot et al. 2018, section 4.2)."""
    return PrivacyCost(rdp=DEFAULT_ORDERS / 2 * (votes / sigma) ** 2)


@ByLaw
def published(law: ReleaseLaw, change: Change) -> tuple[PrivacyCost, str]:  # noqa: ARG001
    """Return the published cost of a label, and its paper and theorem. Register a law here if it has one."""
    raise AccountingError(f"no published accounting covers {type(law).__name__}: use accounting='exact'.")


@published.register(LaplaceNoisyMax)
def _(law: LaplaceNoisyMax, change: Change) -> tuple[PrivacyCost, str]:
    return laplace_moments(law.scale, change.moved**2), "Jordon et al. 2019, Theorems 1 and 3"


@published.register(GaussianNoisyMax)
def _(law: GaussianNoisyMax, change: Change) -> tuple[PrivacyCost, str]:
    cost = PrivacyCost(rdp=DEFAULT_ORDERS * (change.moved / law.sigma) ** 2)
    return cost, "Papernot et al. 2018, Proposition 8"


@published.register(ExponentialVote)
def _(law: ExponentialVote, change: Change) -> tuple[PrivacyCost, str]:
    # An answer whose losses lie in a range of that width is width**2 / 8 zero-concentrated.
    width = law.pure_epsilon(change.moved)
    return PrivacyCost(rdp=DEFAULT_ORDERS * width**2 / 8), "Cesar and Rogers 2021, bounded range"


def has_published(law: ReleaseLaw) -> bool:
    """Return whether a published price covers the law, or the answer of a gated law."""
    kind = type(law.answer) if law.gated else type(law)  # type: ignore[attr-defined]
    return published.covers(kind)
