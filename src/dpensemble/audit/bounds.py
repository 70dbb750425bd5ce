"""Lower bounds on epsilon from the frequencies of one event."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from dpensemble._arrays import Floats
from dpensemble._checks import integer_between, real_between
from dpensemble.errors import InvalidParameterError


@dataclass(frozen=True, slots=True)
class AuditResult:
    """A lower bound on epsilon from repeated runs, never a proof of privacy.

    Parameters
    ----------
    epsilon_lower : float
        Below the true epsilon at `delta` with `confidence`, if the runs were independent. 0 if the runs prove nothing.
    delta : float
        Delta at which the bound was computed. Compare the bound only with claims at the same delta.
    confidence : float
        Probability, over the runs, that the bound is valid.
    event : str
        The event whose frequencies were compared.
    hits, neighbour_hits : int
        Measured runs on each data set in which the event happened.
    n_measured : int
        Runs on each data set that measured the event.
    n_runs : int
        All runs on each data set, those that chose the event included.

    Notes
    -----
    Frequencies of a pipeline's outcomes on private records are private. Audit on made-up records instead. Then the
    result may be published.

    Examples
    --------
    >>> result = AuditResult(1.4, 1e-5, 0.99, "score >= 3", 431, 52, 500, 1000)
    >>> result.caught(1.0), result.caught(2.0)
    (True, False)
    """

    epsilon_lower: float
    delta: float
    confidence: float
    event: str
    hits: int
    neighbour_hits: int
    n_measured: int
    n_runs: int

    def caught(self, claimed_epsilon: float) -> bool:
        """Return whether the runs refute a claimed epsilon at the same delta.

        Parameters
        ----------
        claimed_epsilon : float
            From 0 to infinity.

        Returns
        -------
        bool
            True is wrong with probability at most ``1 - confidence``. False proves nothing.
        """
        return self.epsilon_lower > real_between("claimed_epsilon", claimed_epsilon, 0, np.inf)


def epsilon_lower_bound(
    hits: ArrayLike, neighbour_hits: ArrayLike, n_runs: int, *, delta: float, confidence: float
) -> Floats:
    """Return the epsilon that frequencies of one event prove, if the event was fixed before these runs were seen.

    If ``P(E) > exp(epsilon) P'(E) + delta``, the mechanism is not (epsilon, delta)-differentially private. Both
    probabilities get a two-sided Clopper-Pearson interval at ``1 - (1 - confidence) / 2``, so all four ends hold
    together with `confidence`. The event, its complement and both orders of the two data sets then all bound epsilon
    from below, and the largest bound is returned.

    C. Clopper and E. Pearson, Biometrika 1934; M. Jagielski, J. Ullman and A. Oprea,
    "Auditing differentially private machine learning", NeurIPS 2020, section 3.
    """
    n_runs = integer_between("n_runs", n_runs, 1)
    delta = real_between("delta", delta, 0, 1)
    tail = (1 - confidence_of(confidence)) / 4
    low, high = _clopper_pearson("hits", hits, n_runs, tail)
    other_low, other_high = _clopper_pearson("neighbour_hits", neighbour_hits, n_runs, tail)
    factors = [
        (low - delta) / other_high,
        (other_low - delta) / high,
        (1 - high - delta) / (1 - other_low),
        (1 - other_high - delta) / (1 - low),
    ]
    return np.log(np.maximum(np.max(np.stack(factors), axis=0), 1.0))


def _clopper_pearson(name: str, hits: ArrayLike, n_runs: int, tail: float) -> tuple[Floats, Floats]:
    """Return the ends of the interval that misses the probability by at most `tail` on each side."""
    hits = np.asarray(hits, dtype=np.float64)
    if not np.all((hits >= 0) & (hits <= n_runs)):
        raise InvalidParameterError(f"{name} must be from 0 to n_runs={n_runs}.")
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n_runs - hits + 1, tail), 0.0)
        high = np.where(hits < n_runs, betainccinv(hits + 1, np.maximum(n_runs - hits, 1), tail), 1.0)
    return low, high


def confidence_of(value: object) -> float:
    """Return `value` as a confidence, at least 0.5 and below certainty."""
    return real_between("confidence", value, 0.5, 1 - 1e-12)
