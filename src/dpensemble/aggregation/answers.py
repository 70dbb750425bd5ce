"""Released answers, and the book that stores them by their keys."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

from dpensemble._checks import shown
from dpensemble._spending import Original
from dpensemble.errors import BudgetError, DataError

_LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """Released answers to one request.

    Parameters
    ----------
    labels : tuple
        A label for each query, or None where the law gave no answer.
    means : tuple of tuple of float or None
        Noisy mean of the voters' probabilities for each query, if the law releases it.
    key : str
        Name of the request. Repeating the request with this key returns the same answer at no cost.
    replayed : bool
        Whether the answer was already stored.
    for_release : bool
        False when the noise came from a seed.
    """

    labels: tuple[Any, ...]
    means: tuple[tuple[float, ...], ...] | None
    key: str
    replayed: bool
    for_release: bool = True

    @property
    def label(self) -> Any:
        """The label of the only query."""
        if len(self.labels) != 1:
            raise DataError(f"label is for answers to one query; this answer has {len(self.labels)}, so use .labels.")
        return self.labels[0]


class Book(Protocol):
    """Charges and stores answers. `dpensemble.server` has a book that lasts."""

    @property
    def answered(self) -> int:
        """Number of answers charged so far."""

    def charge(self, key: str, payload: bytes, answers: int) -> str | None:
        """Charge for answers to a payload before anything is drawn, or return the text stored by this key."""

    def store(self, key: str, text: str) -> str:
        """Store the text drawn for a key, and return the text to release by this key."""


class MemoryBook(Original, spends=("charge", "store")):
    """A book that lasts as long as its process, for a number of answers."""

    def __init__(self, most: int) -> None:
        self._most, self.answered = most, 0
        self._lock = threading.Lock()
        # The votes are stored as a keyed hash only.
        self._secret = secrets.token_bytes(32)
        self._payloads: dict[str, bytes] = {}
        self._texts: dict[str, str] = {}

    def charge(self, key: str, payload: bytes, answers: int) -> str | None:
        """Charge for answers to a payload, or return the text stored by this key."""
        digest = blake2b(payload, key=self._secret, digest_size=32).digest()
        with self._lock:
            earlier = self._payloads.get(key)
            if earlier is not None:
                if not secrets.compare_digest(earlier, digest):
                    raise other_payload(key)
                # None if an earlier attempt was charged and released nothing.
                return self._texts.get(key)
            require_left(answers, self._most, self.answered)
            self.answered += answers
            self._payloads[key] = digest
        return None

    def store(self, key: str, text: str) -> str:
        """Store the text drawn for a key."""
        return self._texts.setdefault(key, text)


def require_left(answers: int, most: int, answered: int) -> None:
    """Refuse more answers than remain of the promised number."""
    left = most - answered
    if answers > left:
        raise BudgetError(
            f"{answers:,} answers were requested, and {left:,} are left: ask for at most that many.",
            figures={"unit": "answers", "requested": answers, "spent": answered, "remaining": left, "fits": left},
        )


def other_payload(key: str) -> DataError:
    """Return the error for a key that was used with other votes before."""
    return DataError(f"key={key!r} was used with other votes: use a new key for a new request.", parameter="key")


def check_key(key: object) -> str:
    """Return a request's key, or a new one."""
    if key is None:
        return secrets.token_hex(16)
    if isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY and key.isprintable():
        return key
    raise DataError(f"key={shown(key)} must be a printable text of 1 to {_LONGEST_KEY} characters.", parameter="key")


def as_text(outcomes: Sequence[int], means: Sequence[Sequence[float]] | None, *, for_release: bool) -> str:
    """Return drawn outcomes as text, byte for byte the same on every call. Seeded noise leaves a mark."""
    mark = {} if for_release else {"for_release": False}
    return json.dumps({"outcomes": list(outcomes), "means": means} | mark, separators=(",", ":"))


def from_text(text: str, labels: Sequence[Any] | range, key: str, *, replayed: bool) -> Answer:
    """Return the answer that a stored text holds."""
    stored = json.loads(text)
    names = tuple(None if one < 0 else labels[one] for one in stored["outcomes"])
    means = None if stored["means"] is None else tuple(tuple(row) for row in stored["means"])
    return Answer(names, means, key, replayed, for_release=stored.get("for_release", True))
