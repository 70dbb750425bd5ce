"""Choose the event to compare: half-lines of a score, or sets of categories."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble.audit.bounds import epsilon_lower_bound
from dpensemble.errors import InvalidParameterError

# A rarer outcome reveals more about chance than about the mechanism.
_SEEN_OFTEN = 5
_MOST_THRESHOLDS = 200


@dataclass(frozen=True, slots=True)
class Event:
    """A set of outcomes: its description in words, and which encoded outcomes it contains."""

    description: str
    contains: Callable[[NDArray[Any]], NDArray[np.bool_]]


def encode(
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


def best_event(
    outcomes: NDArray[Any],
    neighbour_outcomes: NDArray[Any],
    categories: Sequence[Hashable] | None,
    *,
    delta: float,
    confidence: float,
) -> Event:
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
        return Event(f"score >= {float(threshold)!r}", lambda scores: scores >= threshold)
    seen, seen_next_door = (np.bincount(x, minlength=len(categories)) for x in (outcomes, neighbour_outcomes))
    often = np.flatnonzero(seen + seen_next_door >= _SEEN_OFTEN)
    if not often.size:
        return Event("no outcome was seen often enough", lambda codes: np.zeros(len(codes), dtype=bool))
    ranked = often[np.argsort(-(seen[often] + 1) / (seen_next_door[often] + 1), kind="stable")]
    places = ranked[: most_telling(np.cumsum(seen[ranked]), np.cumsum(seen_next_door[ranked])) + 1]
    return Event(_in_words([categories[place] for place in places]), lambda codes: np.isin(codes, places))


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
