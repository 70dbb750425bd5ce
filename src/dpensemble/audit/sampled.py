"""Lower bounds on epsilon from repeated runs: of a law, or of everything from data to student."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between, real_between
from dpensemble._progress import progress_bar
from dpensemble._random import noise_source
from dpensemble.audit.bounds import AuditResult, confidence_of, epsilon_lower_bound
from dpensemble.audit.events import best_event, encode
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ReleaseLaw, sample


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
    delta, confidence = real_between("delta", delta, 0, 1), confidence_of(confidence)
    outcomes: list[Hashable] = []
    neighbour_outcomes: list[Hashable] = []
    with progress_bar("Auditing", 2 * n_runs, shown=progress) as advance:
        for i in range(n_runs):
            outcomes.append(run(data, 2 * i))
            neighbour_outcomes.append(run(neighbour, 2 * i + 1))
            advance(2)
    if event is None:
        return _judge(*encode(outcomes, neighbour_outcomes), delta, confidence)
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
    delta, confidence = real_between("delta", delta, 0, 1), confidence_of(confidence)
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
    event = best_event(outcomes[first], neighbour_outcomes[first], categories, delta=delta, confidence=confidence)
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
