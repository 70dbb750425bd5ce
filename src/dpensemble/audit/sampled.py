"""Lower bounds on epsilon from repeated runs: of a law, or of everything from data to student.

A bound comes from the frequencies of one event, which is a half-line of a score, or a set of categories.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from dpensemble._checks import integer_between, real_between
from dpensemble._entries import Floats
from dpensemble._random import noise_source
from dpensemble._work import progress_bar
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ReleaseLaw, sample


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
    tail = (1 - _confidence_of(confidence)) / 4
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


def _confidence_of(value: object) -> float:
    """Return `value` as a confidence, at least 0.5 and below certainty."""
    return real_between("confidence", value, 0.5, 1 - 1e-12)


# A rarer outcome reveals more about chance than about the mechanism.
_SEEN_OFTEN = 5
_MOST_THRESHOLDS = 200


@dataclass(frozen=True, slots=True)
class _Event:
    """A set of outcomes: its description in words, and which encoded outcomes it contains."""

    description: str
    contains: Callable[[NDArray[Any]], NDArray[np.bool_]]


def _encoded(
    outcomes: Sequence[Hashable], neighbour_outcomes: Sequence[Hashable]
) -> tuple[NDArray[Any], NDArray[Any], list[Hashable] | None]:
    """Return both sequences as arrays: scores unchanged, any other outcomes as places in a list of categories."""
    together = [*outcomes, *neighbour_outcomes]
    if all(isinstance(outcome, (float, np.floating)) for outcome in together):
        scores = np.array(together, dtype=np.float64)
        if np.isnan(scores).any():
            raise InvalidParameterError("run must not return NaN: return a number, or a category such as None.")
        return scores[: len(outcomes)], scores[len(outcomes) :], None
    try:
        places = {outcome: place for place, outcome in enumerate(dict.fromkeys(together))}
    except TypeError:
        raise InvalidParameterError(
            "run must return outcomes that are hashable: return a float, or a tuple instead of an array."
        ) from None
    codes = np.array([places[outcome] for outcome in together], dtype=np.int64)
    return codes[: len(outcomes)], codes[len(outcomes) :], list(places)


def _best_event(
    outcomes: NDArray[Any],
    neighbour_outcomes: NDArray[Any],
    categories: Sequence[Hashable] | None,
    *,
    delta: float,
    confidence: float,
) -> _Event:
    """Return the event that proves most on these runs, to be measured on other runs."""

    def most_telling(hits: NDArray[Any], neighbour_hits: NDArray[Any]) -> int:
        bounds = epsilon_lower_bound(hits, neighbour_hits, len(outcomes), delta=delta, confidence=confidence)
        return int(np.argmax(bounds))

    if categories is None:
        thresholds = _thresholds(np.concatenate([outcomes, neighbour_outcomes]))
        hits, neighbour_hits = (
            len(x) - np.searchsorted(np.sort(x), thresholds) for x in (outcomes, neighbour_outcomes)
        )
        threshold = thresholds[most_telling(hits, neighbour_hits)]
        return _Event(f"score >= {float(threshold)!r}", lambda scores: scores >= threshold)
    seen, seen_next_door = (np.bincount(x, minlength=len(categories)) for x in (outcomes, neighbour_outcomes))
    often = np.flatnonzero(seen + seen_next_door >= _SEEN_OFTEN)
    if not often.size:
        return _Event("no outcome was seen often enough", lambda codes: np.zeros(len(codes), dtype=bool))
    ranked = often[np.argsort(-(seen[often] + 1) / (seen_next_door[often] + 1), kind="stable")]
    places = ranked[: most_telling(np.cumsum(seen[ranked]), np.cumsum(seen_next_door[ranked])) + 1]
    return _Event(_in_words([categories[place] for place in places]), lambda codes: np.isin(codes, places))


def _thresholds(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    distinct = np.unique(scores)
    if len(distinct) <= _MOST_THRESHOLDS:
        return distinct
    # Scores that occurred, so that an infinite score is never interpolated.
    ranks = np.linspace(0, len(scores) - 1, _MOST_THRESHOLDS).astype(np.int64)
    return np.unique(np.sort(scores)[ranks])


def _in_words(outcomes: Sequence[Hashable]) -> str:
    text = ", ".join(repr(outcome) for outcome in outcomes[:6])
    return f"outcome in {{{text}{', ...' if len(outcomes) > 6 else ''}}}"


def audit_pipeline(
    run: Callable[[Any, int], Hashable],
    data: Any,
    neighbour: Any,
    *,
    delta: float,
    n_runs: int,
    confidence: float = 0.99,
    event: Callable[[Any], bool] | None = None,
    progress: bool = False,
) -> AuditResult:
    """Run a pipeline on two neighbouring data sets, and return the epsilon that the outcomes prove.

    The first half of the runs chooses an event, and the second half measures it. So the runs that made the choice never
    judge it.

    Parameters
    ----------
    run : callable
        ``run(dataset, i)`` releases once and returns the outcome, or a value that an attacker computes from the
        outcome. A float is a score, whose events are half-lines. Any other value must be hashable and is a category, so
        convert counts to float. Few categories, or one score that grows with the attacker's suspicion, prove most. The
        noise of different `i` must be independent. Draw it from the operating system, or seed it by `i`, which takes
        every value from 0 to ``2 * n_runs - 1`` once. A fixed or default seed repeats one draw and makes the result
        meaningless.
    data, neighbour : object
        Two made-up data sets that differ by one unit under the claimed relation. Choose them as bad for privacy as you
        can. Public seeds may stay fixed.
    delta : float
        Delta of the claim, from 0 to 1.
    n_runs : int
        Runs on each data set, at least 2, fixed beforehand. Stopping once an event is found voids the confidence.
    confidence : float, default=0.99
        From 0.5 to 1 - 1e-12.
    event : callable, optional
        Event fixed beforehand, as a function from an outcome to a bool. Every run then measures it.
    progress : bool, default=False
        Show a progress bar on stderr.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, or outcomes are neither hashable nor floats, or are NaN.

    References
    ----------
    M. Jagielski, J. Ullman and A. Oprea, "Auditing differentially private machine learning", NeurIPS 2020, section 3.

    Examples
    --------
    A random generator that answers truthfully in three of four runs has epsilon log 3, about 1.1:

    >>> def run(truth, i):
    ...     return truth if np.random.default_rng(i).random() < 0.75 else 1 - truth
    >>> result = audit_pipeline(run, 0, 1, delta=0.0, n_runs=2000)
    >>> result.caught(0.5), result.caught(1.1)
    (True, False)
    """
    n_runs = integer_between("n_runs", n_runs, 2)
    delta, confidence = real_between("delta", delta, 0, 1), _confidence_of(confidence)
    outcomes: list[Hashable] = []
    neighbour_outcomes: list[Hashable] = []
    with progress_bar("Auditing", 2 * n_runs, shown=progress) as advance:
        for i in range(n_runs):
            outcomes.append(run(data, 2 * i))
            neighbour_outcomes.append(run(neighbour, 2 * i + 1))
            advance(2)
    if event is None:
        return _judge(*_encoded(outcomes, neighbour_outcomes), delta, confidence)
    happened, happened_next_door = (
        np.array([bool(event(outcome)) for outcome in kind]) for kind in (outcomes, neighbour_outcomes)
    )
    return _measure("given beforehand", happened, happened_next_door, n_runs, delta, confidence)


def audit_sampler(
    law: ReleaseLaw,
    counts: ArrayLike,
    neighbour_counts: ArrayLike,
    n_draws: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.99,
    insecure_release_seed: int | None = None,
) -> AuditResult:
    """Draw one answer many times on two neighbouring histograms, and return the epsilon that the draws prove.

    Like `audit_pipeline` for one answer, with all draws at once through `dpensemble.laws.sample`.

    Parameters
    ----------
    law : ReleaseLaw
        Law to sample.
    counts, neighbour_counts : array-like of shape (n_classes,)
        Votes for each class. `audit_law` finds the worst pair. Use it with a delta of about 0.01, since at 0 the pair
        may differ only in an outcome too rare to be drawn.
    n_draws : int
        Draws from each histogram, from 2 to 10 million. A few 100,000 take well under a second.
    delta : float, default=0
        Delta of the claim, from 0 to 1.
    confidence : float, default=0.99
        From 0.5 to 1 - 1e-12.
    insecure_release_seed : int, optional
        Makes the audit repeatable. By default the operating system's generator draws.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, or the two histograms do not have the same number of classes.

    Examples
    --------
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> law = LaplaceNoisyMax(scale=1.0)
    >>> result = audit_sampler(law, [7, 1], [6, 2], 100_000, insecure_release_seed=0)
    >>> result.caught(2 / law.scale), result.caught(1 / law.scale)
    (False, True)
    """
    n_draws = integer_between("n_draws", n_draws, 2, 10**7)
    delta, confidence = real_between("delta", delta, 0, 1), _confidence_of(confidence)
    rows = np.asarray(counts), np.asarray(neighbour_counts)
    if rows[0].ndim != 1 or rows[0].shape != rows[1].shape:
        raise InvalidParameterError("counts and neighbour_counts must be one row of votes each, over the same classes.")
    noise = noise_source(insecure_release_seed)
    draws, neighbour_draws = (
        sample(_Fixed(law, row), np.broadcast_to(row, (n_draws, row.size)), noise) for row in rows
    )
    n_outcomes = int(max(draws.max(), neighbour_draws.max())) + 1
    return _judge(draws, neighbour_draws, range(n_outcomes), delta, confidence)


class _Fixed(ReleaseLaw):
    """A law on one row of counts, computed once for any number of draws."""

    def __init__(self, law: ReleaseLaw, row: NDArray[Any]) -> None:
        self._law = law
        self._row = law.probabilities(row[None, :])

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        return np.broadcast_to(self._row, (len(counts), self._row.shape[1]))

    def mixing_weight(self, n_classes: int) -> float:
        return self._law.mixing_weight(n_classes)

    def settings(self) -> dict[str, Any]:
        return self._law.settings()


def _judge(
    outcomes: NDArray[Any],
    neighbour_outcomes: NDArray[Any],
    categories: Sequence[Hashable] | None,
    delta: float,
    confidence: float,
) -> AuditResult:
    """Choose the event on the first half of the runs and measure it on the rest."""
    n_runs = len(outcomes)
    first, rest = slice(n_runs // 2), slice(n_runs // 2, None)
    event = _best_event(outcomes[first], neighbour_outcomes[first], categories, delta=delta, confidence=confidence)
    happened, happened_next_door = event.contains(outcomes[rest]), event.contains(neighbour_outcomes[rest])
    return _measure(event.description, happened, happened_next_door, n_runs, delta, confidence)


def _measure(
    description: str,
    happened: NDArray[np.bool_],
    happened_next_door: NDArray[np.bool_],
    n_runs: int,
    delta: float,
    confidence: float,
) -> AuditResult:
    hits, neighbour_hits = int(happened.sum()), int(happened_next_door.sum())
    bound = epsilon_lower_bound(hits, neighbour_hits, len(happened), delta=delta, confidence=confidence)
    return AuditResult(
        epsilon_lower=float(bound),
        delta=delta,
        confidence=confidence,
        event=description,
        hits=hits,
        neighbour_hits=neighbour_hits,
        n_measured=len(happened),
        n_runs=n_runs,
    )
