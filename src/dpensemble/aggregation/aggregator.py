"""The aggregator, which turns votes into noisy answers and charges each answer before it is drawn.

Votes are checked as a whole before anything is charged. Fresh sampling draws the records of one answer, in secret.
Released answers are stored by their keys, so that a repeated request costs nothing.
"""

from __future__ import annotations

import json
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpensemble._checks import declared_classes, integer_between, member, of_type, shown
from dpensemble._entries import Integers, is_table, require_readable
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._random import NOISE_BITS, NoiseSource, noise_source
from dpensemble._spending import Original, announce
from dpensemble._units import unit_numbers
from dpensemble.allocation.bootstrap import integers_below
from dpensemble.design.given_votes import GivenVotes, Sampling
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Budget, Guarantee
from dpensemble.laws import ReleaseLaw, SparseNoisyMax
from dpensemble.laws.base import GaussianSum
from dpensemble.relations import Basis, Relation
from dpensemble.releases import NamedVotes, release_of

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


class PaidAnswers(ABC):
    """Answers to a promised number of queries, which were charged together: taken one by one, and stored by key.

    Every answer costs the same for all votes (`GivenVotes.cost`), so a count of answers suffices here.
    `dpensemble.server` has paid answers that last.
    """

    @property
    @abstractmethod
    def answered(self) -> int:
        """Number of answers taken so far."""

    @abstractmethod
    def take(self, key: str, request: bytes, answers: int) -> str | None:
        """Take answers to a request before anything is drawn, or return the text stored by this key."""

    @abstractmethod
    def store(self, key: str, text: str) -> str:
        """Store the text drawn for a key, and return the text to release by this key."""

    @staticmethod
    def require_left(answers: int, most: int, answered: int) -> None:
        """Refuse more answers than remain of the promised number."""
        left = most - answered
        if answers > left:
            raise BudgetError(
                f"{answers:,} answers were requested, and {left:,} are left: ask for at most that many.",
                figures={"unit": "answers", "requested": answers, "spent": answered, "remaining": left, "fits": left},
            )

    @staticmethod
    def other_votes(key: str) -> DataError:
        """Return the error for a key that was used with other votes before."""
        return DataError(f"key={key!r} was used with other votes: use a new key for a new request.", parameter="key")


class _PaidInMemory(PaidAnswers, Original, spends=("take", "store")):
    """Paid answers that last as long as their process."""

    def __init__(self, most: int) -> None:
        self._most, self._answered = most, 0
        self._lock = threading.Lock()
        # The votes are stored as a keyed hash only.
        self._secret = secrets.token_bytes(32)
        self._requests: dict[str, bytes] = {}
        self._texts: dict[str, str] = {}

    @property
    def answered(self) -> int:
        """Number of answers taken so far."""
        return self._answered

    def take(self, key: str, request: bytes, answers: int) -> str | None:
        """Take answers to a request, or return the text stored by this key."""
        digest = blake2b(request, key=self._secret, digest_size=32).digest()
        with self._lock:
            earlier = self._requests.get(key)
            if earlier is not None:
                if not secrets.compare_digest(earlier, digest):
                    raise self.other_votes(key)
                # None if an earlier attempt was charged and released nothing.
                return self._texts.get(key)
            self.require_left(answers, self._most, self._answered)
            self._answered += answers
            self._requests[key] = digest
        return None

    def store(self, key: str, text: str) -> str:
        """Store the text drawn for a key."""
        return self._texts.setdefault(key, text)


def check_key(key: object) -> str:
    """Return a request's key, or a new one."""
    if key is None:
        return secrets.token_hex(16)
    if isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY and key.isprintable():
        return key
    raise DataError(f"key={shown(key)} must be a printable text of 1 to {_LONGEST_KEY} characters.", parameter="key")


_NO_VOTES = np.zeros((1, 0), dtype=np.int64)


class _VoteReader:
    """Checks votes as a whole, and converts them into whole counts of the classes named by `labels`."""

    def __init__(self, design: GivenVotes, labels: Sequence[Any] | range) -> None:
        self._design, self._labels = design, labels
        self._place = None if isinstance(labels, range) else {label: i for i, label in enumerate(labels)}

    @guard_private_rows()
    def read(self, ballots: Any, counts: Any, log_probs: Any) -> tuple[Any, bytes]:
        """Return the votes of the one kind that was given, by query, and as bytes, equal for equal counts."""
        kinds = {"ballots": ballots, "counts": counts, "log_probs": log_probs}
        kinds_given = [name for name, value in kinds.items() if value is not None]
        accepted_kinds = self._design.release.takes
        if len(kinds_given) != 1 or kinds_given[0] not in accepted_kinds:
            raise DataError(f"this aggregator takes {' or '.join(accepted_kinds)}: give exactly one, by name.")
        if log_probs is not None:
            sums = self.soft(log_probs)
            return sums, json.dumps(sums.tolist(), separators=(",", ":")).encode()
        votes = self.ballots(ballots) if counts is None else self.counts(counts)
        listed = [[one.ids.tolist(), one.counts.tolist()] for one in votes]
        return votes, json.dumps(listed, separators=(",", ":")).encode()

    def ballots(self, ballots: Any) -> list[NamedVotes]:
        """Check one label a voter, shape (n_voters,) or (n_queries, n_voters)."""
        require_readable("ballots", ballots)
        rows = self._row_a_query("ballots", ballots, self._design.n_voters, "one a voter")
        ids = self._class_numbers(rows)
        return [NamedVotes(*np.unique(row, return_counts=True)) for row in ids]

    def _class_numbers(self, rows: Any) -> Integers:
        if self._place is None:
            if rows.dtype.kind not in "iu" or (rows.size and (rows.min() < 0 or rows.max() >= len(self._labels))):
                raise DataError(f"ballots must be whole numbers from 0 to {len(self._labels) - 1}, the classes.")
            return rows.astype(np.int64)
        try:
            places = [self._place[label] for label in rows.ravel().tolist()]
        except (KeyError, TypeError):
            raise DataError("ballots must hold declared classes only; one label is not among them.") from None
        return np.array(places, dtype=np.int64).reshape(rows.shape)

    def counts(self, counts: Any) -> list[NamedVotes]:
        """Check votes by class: a mapping from labels, or shape (n_classes,) or (n_queries, n_classes)."""
        require_readable("counts", list(counts.values()) if isinstance(counts, Mapping) else counts)
        if is_table(counts):
            queries = (dict(zip(counts.columns, row, strict=True)) for row in counts.to_numpy().tolist())
            return [one for query in queries for one in self.counts(query)]
        if hasattr(counts, "to_dict"):
            counts = counts.to_dict()
        if isinstance(counts, Mapping):
            ids = self._class_numbers(np.array(list(counts), dtype=None if self._place is None else object))
            votes = (
                self._row_a_query("counts", list(counts.values()), len(counts), "one a class") if counts else _NO_VOTES
            )
            rows, ids = self._whole_counts(votes), ids[None]
        else:
            rows = self._whole_counts(self._row_a_query("counts", counts, self._design.n_classes, "one a class"))
            ids = np.broadcast_to(np.arange(self._design.n_classes), rows.shape)
        if np.any(rows.sum(axis=1) != self._design.n_voters):
            raise DataError(
                f"counts must add up to n_voters={self._design.n_voters} in every query, one ballot a voter: declare a "
                "class for abstaining if voters may abstain."
            )
        votes_by_query = []
        for row, names in zip(rows, ids, strict=True):
            columns = np.flatnonzero(row)
            order = np.argsort(names[columns])
            votes_by_query.append(NamedVotes(names[columns][order], row[columns][order]))
        return votes_by_query

    def _whole_counts(self, rows: Any) -> Integers:
        if rows.dtype.kind == "f" and np.all(np.isfinite(rows)) and np.all(rows == np.floor(rows)):
            rows = rows.astype(np.int64) if np.all(np.abs(rows) < 2**53) else rows
        if rows.dtype.kind not in "iu" or np.any(rows < 0) or np.any(rows > self._design.n_voters):
            raise DataError(f"counts must be whole numbers from 0 to n_voters={self._design.n_voters}.")
        return rows.astype(np.int64)

    def soft(self, log_probs: Any) -> Integers:
        """Check log-probabilities, shape (n_voters, n_classes) or with queries first, and return their whole sums."""
        if is_table(log_probs):
            if set(log_probs.columns) != set(self._labels):
                raise DataError("log_probs must have the declared classes as columns: rename its columns.")
            log_probs = log_probs[list(self._labels)]
        require_readable("log_probs", log_probs)
        try:
            values = np.asarray(log_probs, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError("log_probs must be an array of numbers.") from None
        shape = (self._design.n_voters, self._design.n_classes)
        if values.ndim not in (2, 3) or values.shape[-2:] != shape or not values.size:
            raise DataError(f"log_probs must have the shape {shape}, or (n_queries, n_voters, n_classes).")
        # In the positive form, so that NaN fails too.
        if not np.all(values <= 1e-6) or np.any(np.isneginf(values).all(axis=-1)):
            raise DataError("log_probs must be logarithms of probabilities: no NaN, none above 0, one finite a voter.")
        values = values.reshape(-1, *shape)
        return self._design.release.whole(values).sum(axis=1)

    def _row_a_query(self, name: str, given: Any, width: int, what: str) -> Any:
        try:
            rows = np.asarray(given, dtype=object if self._place is not None and name == "ballots" else None)
        except ValueError:
            rows = np.empty(0)
        if rows.ndim == 1:
            rows = rows[None]
        if rows.ndim != 2 or rows.shape[1] != width or not rows.size:
            raise DataError(f"{name} must be {width:,} values, {what}, or a table with that many columns.")
        return rows


#: The protected unit when no other is named.
_RECORD = "record"
# Number of the voter of a unit that was not drawn.
_NOBODY = -1


@dataclass(frozen=True, eq=False, repr=False)
class DrawnRecords:
    """Which records each voter may look at for one answer. Secret, so the ``repr`` shows only the number of voters.

    Parameters
    ----------
    voters : tuple of ndarray
        Positions of the records of each voter, ascending. A voter may have no records, and still votes.
    n_records : int
        Number of records at the time of the draw.
    number : int
        Index of the draw within its aggregator.
    maker : object
        That aggregator's draws.
    """

    voters: tuple[Integers, ...]
    n_records: int
    number: int
    maker: object

    def __repr__(self) -> str:
        return f"DrawnRecords(n_voters={len(self.voters)})"


class _FreshRecords(Original, spends=("draw", "check", "use")):
    """Draws the records of one aggregator by fresh sampling. Each draw serves one answer only."""

    def __init__(self, n_voters: int, rate: float, noise: NoiseSource) -> None:
        self._n_voters, self._limit, self._noise = n_voters, np.uint64(int(rate * 2**NOISE_BITS)), noise
        self._numbers = count()
        self._made: set[int] = set()
        self._key_of: dict[int, str] = {}

    def draw(self, n_records: int, units: ArrayLike | None = None) -> DrawnRecords:
        """Draw each unit with a probability of at most the rate, and deal the drawn units to voters, from secret bits.

        A unit goes to one voter with all its records. Without `units` every record is a unit.
        """
        integer_between("n_records", n_records, 0)
        unit_of = np.arange(n_records) if units is None else unit_numbers(units, n_records)
        n_units = int(unit_of.max(initial=-1)) + 1
        drawn_units = np.flatnonzero(self._noise.uniform_bits(n_units) < self._limit)
        voter_of_unit = np.full(n_units, _NOBODY)
        voter_of_unit[drawn_units] = integers_below(self._n_voters, len(drawn_units), self._noise)
        positions = np.flatnonzero(voter_of_unit[unit_of] != _NOBODY)
        voter = voter_of_unit[unit_of[positions]]
        records = DrawnRecords(
            tuple(positions[voter == one] for one in range(self._n_voters)), n_records, next(self._numbers), self
        )
        self._made.add(records.number)
        return records

    def check(self, drawn: DrawnRecords | Sequence[DrawnRecords] | None, n_queries: int, key: str) -> list[int]:
        """Return the numbers of the draws behind a request, refusing draws behind another request."""
        draws = list(drawn) if isinstance(drawn, list | tuple) else [] if drawn is None else [drawn]
        own = [one for one in draws if isinstance(one, DrawnRecords) and one.maker is self]
        numbers = [one.number for one in own]
        others = len(own) < len(draws) or not self._made.issuperset(numbers)
        if len(set(numbers)) != n_queries or len(draws) != n_queries or others:
            raise DataError(f"drawn must be {n_queries} results of this aggregator's draw(), one for each query.")
        if any(self._key_of.get(number, key) != key for number in numbers):
            raise DataError("drawn was used for an earlier answer: call draw() again for every answer.")
        return numbers

    def use(self, numbers: Sequence[int], key: str) -> None:
        """Reserve the draws for one request."""
        self._key_of.update(dict.fromkeys(numbers, key))


def _number_to_draw(unit: str, n_records: int | None, units: ArrayLike | None) -> int:
    """Return the number of records to draw from, refusing a draw of units other than the protected ones."""
    if units is None:
        if unit != _RECORD:
            raise InvalidParameterError(
                f"unit={unit!r} needs units in draw(), the unit of each record: drawing the records of one {unit} "
                "independently would be charged too little; if each record is a unit, give units=range(n_records).",
                parameter="units",
            )
        return integer_between("n_records", n_records, 0)
    if unit == _RECORD:
        raise InvalidParameterError(
            "units in draw() require an aggregator that protects them, and this one protects records: name the "
            "unit when you make the aggregator, such as Aggregator(..., unit='patient').",
            parameter="units",
        )
    n_units = len(np.asarray(units, dtype=object).ravel())
    if n_records not in (None, n_units):
        raise DataError(
            f"n_records={shown(n_records)} must match units, which has {n_units} entries: leave n_records out."
        )
    return n_units


def _promises_of_draws(unit: str) -> tuple[str, str]:
    """Return the guarantee's assumptions when the records of every answer are drawn."""
    if unit == _RECORD:
        return (
            "Every answer's records were drawn by this aggregator, independently, and which were drawn is secret.",
            "Each drawn record was seen by its own voter only, and votes depend on no other private records.",
        )
    return (
        f"For every answer this aggregator drew each {unit} independently, with all its records as declared, and which "
        "were drawn is secret.",
        f"The records of each drawn {unit} were seen by one voter only, and votes depend on no other private records.",
    )


_SENT_BACK = "Only the answers are published. Votes stay secret, and so does which records are behind them."
_COMMON = (
    _SENT_BACK,
    "The number of answers, classes, voters and settings do not depend on the private records. Stopping earlier does "
    "not lower the epsilon.",
    "The guarantee covers the answers. It does not cover whether a request was refused.",
    "This covers the answers of one aggregator. The losses of further releases from the same records add to it.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """Cost of a number of answers, the same for all votes.

    Parameters
    ----------
    answers : int
        Number of answers, from the first.
    epsilon, delta : float
        Their total cost. Epsilon is infinite if they use up the delta.
    fits : bool
        Whether the budget allows them.
    """

    answers: int
    epsilon: float
    delta: float
    fits: bool


# `Original` guards the methods that `spends` names: they raise in a copy and after a fork.
class Aggregator(Original, spends=("answer", "answer_to", "draw")):
    """Answers from votes that you bring, under a budget.

    The aggregator trains nothing. You pass one ballot a voter (or counts, or log-probabilities), and get a noisy answer
    whose cost is known beforehand. The number of answers is settled when the aggregator is made, and the guarantee
    covers all of them.

    Parameters
    ----------
    law : str, ReleaseLaw, SparseNoisyMax or GaussianSum
        The law that answers, or its short name, which then has its usual noise for that many voters. For very many
        classes use `SparseNoisyMax`. `GaussianSum` releases the noisy mean of the voters' probabilities.
    classes : int or sequence
        Labels, or their number if they are numbered from 0. Public.
    n_voters : int
        Number of ballots in each answer. Public.
    relation : str
        ``"replace-one"`` or ``"add-or-remove-one"``: what happens to one unit. Either way it can change the ballots of
        the voters that saw it, from any classes to any others. The number of voters stays.
    budget : Budget
        Epsilon and delta of all answers together.
    ledger : LedgerAccount or LedgerGrant, optional
        Account of the data set in a `dpensemble.server.Ledger`, which charges all answers before the first and stores
        them by key. A named grant of the account (``account.grant("name")``) continues after a restart.
    sampling : str, default="fixed"
        ``"fixed"``: each unit stays with its voters. ``"fresh"``: `draw` draws the records again for every answer.
    rate : float, optional
        Probability that a record (or unit) is drawn for an answer, for fresh sampling.
    clip : float, optional
        Takes `log_probs` for the exponential mechanism. A class more than `clip` nats below a voter's largest counts
        as that far below, so each voter gives a class from 0 to 1 vote.
    answers : int, optional
        Number of answers. By default as many as the budget allows.
    votes_per_unit : int, default=1
        Most voters that one unit reaches.
    unit : str, default="record"
        What is protected, in the guarantee's words. If sampling is fresh and `unit` is not a record, `draw` requires
        the unit of each record.
    insecure_release_seed : int, optional
        For experiments. Anyone who knows the seed can undo the noise.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, or does not fit another.
    BudgetError
        If the budget does not cover the answers.
    AccountingError
        If the law has no price with these settings.

    References
    ----------
    Fixed sampling is PATE: N. Papernot, M. Abadi, U. Erlingsson, I. Goodfellow and K. Talwar, ICLR 2017. Aggregated
    votes and probabilities of prompted language models: T. Wu, A. Panda, J. T. Wang and P. Mittal, "Privacy-preserving
    in-context learning for large language models", ICLR 2024. Prices: `dpensemble.accounting.price`
    and `dpensemble.accounting.subsampling`.

    Examples
    --------
    >>> from dpensemble.laws import GaussianNoisyMax
    >>> votes = Aggregator(GaussianNoisyMax(8.0), ["no", "yes"], 50, relation="replace-one",
    ...                    budget=Budget(epsilon=2, delta=1e-6))
    >>> votes.remaining(), round(votes.quote(10).epsilon, 1)
    (8, 2.1)
    >>> first = votes.answer(counts=[2, 48], key="patient 7")
    >>> first.label, votes.answer(counts=[2, 48], key="patient 7").replayed, votes.remaining()
    ('yes', True, 7)
    """

    def __init__(
        self,
        law: str | ReleaseLaw | SparseNoisyMax | GaussianSum,
        classes: int | Sequence[Any],
        n_voters: int,
        *,
        relation: str,
        budget: Budget,
        ledger: Any = None,
        sampling: str = "fixed",
        rate: float | None = None,
        clip: float | None = None,
        answers: int | None = None,
        votes_per_unit: int = 1,
        unit: str = "record",
        insecure_release_seed: int | None = None,
    ) -> None:
        numbered = isinstance(classes, int) and not isinstance(classes, bool)
        self.classes: Any = (
            range(integer_between("classes", classes, 2)) if numbered else tuple(declared_classes(classes))  # type: ignore[arg-type]
        )
        budget = of_type("budget", budget, Budget, "a Budget: give Budget(epsilon=1, delta=1e-5)")
        self.design = GivenVotes(
            release=release_of(law, n_voters, len(self.classes), clip=clip),
            n_classes=len(self.classes),
            n_voters=n_voters,
            votes=votes_per_unit,
            relation=member("relation", relation, Relation),
            sampling=member("sampling", sampling, Sampling),
            rate=rate,
            answers=answers,
            budget=budget,
            labels=None if numbered else self.classes,
        )
        self.unit = unit
        self._noise = noise_source(insecure_release_seed)
        self._votes = _VoteReader(self.design, self.classes)
        self._lock, self._busy, self._ledger = threading.RLock(), False, ledger
        self._fresh = None if rate is None else _FreshRecords(n_voters, self.design.rate or 0.0, self._noise)
        # The design fixes the price of every answer, and so how many answers the budget pays for.
        self._most = self.design.promised_answers
        # A grant that was charged before continues. Otherwise the first answer charges for all answers.
        self._paid: PaidAnswers | None = None if ledger is None else ledger.resumed(self.design)

    def quote(self, n: int) -> Quote:
        """Return the total cost of the first `n` answers. A quote uses no votes, and charges nothing.

        Parameters
        ----------
        n : int
            Number of answers, from 1. May exceed what the budget allows.
        """
        n, budget = integer_between("n", n, 1), self.design.groups[0].budget
        epsilon = (self.design.cost * n).epsilon(budget.delta)
        return Quote(answers=n, epsilon=epsilon, delta=budget.delta, fits=n <= self._most)

    def remaining(self) -> int:
        """Return how many answers are left. Public."""
        return self._most - (0 if self._paid is None else self._paid.answered)

    def guarantee(self) -> Guarantee:
        """Return the guarantee of all answers together, whether or not you take them all."""
        budget, design = self.design.groups[0].budget, self.design
        release = design.release
        reach = (f"One {self.unit} reaches at most {design.votes} of the {design.n_voters} voters.",)
        return Guarantee(
            epsilon=design.spent,
            delta=budget.delta,
            basis=Basis.WORST_CASE,
            relation=design.relation,
            unit=self.unit,
            accounting=f"{release.analysis(design.voters)}, {self._most:,} answers of {release.description}",
            assumptions=((*_promises_of_draws(self.unit), *_COMMON) if design.rate is not None else (*reach, *_COMMON)),
            for_release=self._noise.for_release,
        )

    def draw(self, n_records: int | None = None, *, units: ArrayLike | None = None) -> DrawnRecords:
        """Draw records for one answer. The draw is secret, and for one use by `answer`.

        Parameters
        ----------
        n_records : int, optional
            Number of private records, each of which is drawn independently.
        units : array-like of shape (n_records,), optional
            The unit of each record, if the aggregator's `unit` is not a record: texts, whole numbers or bytes. Units
            are drawn independently, and all records of a unit go to the same voter.

        Returns
        -------
        DrawnRecords
            Positions of the records that each voter may see.

        Raises
        ------
        InvalidParameterError
            If the aggregator's sampling is fixed, or the draw is not of the aggregator's `unit`.
        DataError
            If a record has no unit.
        DuplicateError
            If this aggregator is a copy, or the process forked since it was made.

        Examples
        --------
        >>> votes = Aggregator("lnmax", 2, 10, relation="replace-one", budget=Budget(epsilon=9, delta=1e-6),
        ...                    unit="patient", sampling="fresh", rate=1.0)
        >>> drawn = votes.draw(units=["Ann", "Bob", "Ann"])
        >>> any({0, 2} <= set(positions.tolist()) for positions in drawn.voters)
        True
        """
        if self._fresh is None:
            raise InvalidParameterError("draw requires sampling='fresh'; with 'fixed' records stay with their voters.")
        n_records = _number_to_draw(self.unit, n_records, units)
        with self._alone():
            return self._fresh.draw(n_records, units)

    def answer(
        self,
        *,
        ballots: Any = None,
        counts: Any = None,
        log_probs: Any = None,
        key: str | None = None,
        drawn: DrawnRecords | Sequence[DrawnRecords] | None = None,
    ) -> Answer:
        """Charge for, draw and return answers. Repeating a key with the same votes returns the same answer at no cost.

        Parameters
        ----------
        ballots : array-like of shape (n_voters,) or (n_queries, n_voters), optional
            A label for each voter. Private, as all votes are. Give one of the three kinds.
        counts : array-like of shape (n_classes,) or (n_queries, n_classes), or mapping, optional
            Votes for each class, which add up to the number of voters. For one query, may be a mapping from labels.
        log_probs : array-like of shape (n_voters, n_classes) or (n_queries, n_voters, n_classes), optional
            Logarithms of each voter's probabilities, if the aggregator has a `clip` or its law is a `GaussianSum`.
        key : str, optional
            Name of the request, public. By default a new name.
        drawn : DrawnRecords or sequence, optional
            For fresh sampling: the result of `draw`, for each query.

        Returns
        -------
        Answer
            May be published.

        Raises
        ------
        DataError
            If votes are invalid, or the key was used with other votes. Then nothing is charged.
        BudgetError
            If fewer answers remain than you request. Then nothing is charged.
        DuplicateError
            If this aggregator is a copy, or the process forked since it was made.
        """
        key = check_key(key)
        votes, request = self._votes.read(ballots, counts, log_probs)
        n_queries = len(votes)
        if self._fresh is None:
            if drawn is not None:
                raise DataError("drawn requires sampling='fresh': leave it out.")
            text = self._paid_answers(n_queries).take(key, request, n_queries)
        else:
            with self._alone():
                numbers = self._fresh.check(drawn, n_queries, key)
                text = self._charge_once(n_queries).take(key, request, n_queries)
                self._fresh.use(numbers, key)
        return self._draw_and_store(key, votes) if text is None else self._stored(key, text, replayed=True)

    def answer_to(self, request: bytes, n_queries: int, *, ask: Callable[[], Any], key: str | None = None) -> Answer:
        """Charge for answers to a request, and only then ask the voters and draw.

        A request that was answered asks no voter again.

        Parameters
        ----------
        request : bytes
            The request to the voters, in any form that is the same for the same request.
        n_queries : int
            Number of queries in it.
        ask : callable
            Returns the ballots, shape (n_queries, n_voters). If it raises, the charge stays.
        key : str, optional
            As for `answer`.

        Returns
        -------
        Answer
            May be published.

        Raises
        ------
        InvalidParameterError
            If sampling is fresh, or voters answer with log-probabilities.
        DataError, BudgetError, DuplicateError
            As for `answer`.

        Examples
        --------
        >>> from dpensemble.laws import GaussianNoisyMax
        >>> votes = Aggregator(GaussianNoisyMax(4.0), 2, 50, relation="replace-one",
        ...                    budget=Budget(epsilon=9, delta=1e-6))
        >>> votes.answer_to(b"row 7", 1, ask=lambda: [[1] * 50], key="row 7").label
        1
        """
        if self._fresh is not None or "ballots" not in self.design.release.takes:
            raise InvalidParameterError("answer_to requires sampling='fixed' and ballots: use answer().")
        key, n_queries = check_key(key), integer_between("n_queries", n_queries, 1)
        text = self._paid_answers(n_queries).take(key, b"request " + request, n_queries)
        if text is not None:
            return self._stored(key, text, replayed=True)
        votes = self._votes.ballots(ask())
        if len(votes) != n_queries:
            raise DataError(f"ask must return ballots for the {n_queries} queries charged; got {len(votes)}.")
        return self._draw_and_store(key, votes)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one thread at a time charge. Raise if that thread asks again meanwhile, as a signal or a listener may."""
        with self._lock:
            # A lock that waited for its own thread would wait for ever.
            if self._busy:
                raise BudgetError(
                    "this aggregator is asked again by a thread that it is charging for, as a signal handler or a "
                    "listener may do: ask after the first request has returned."
                )
            self._busy = True
            try:
                yield
            finally:
                self._busy = False

    def _paid_answers(self, answers: int) -> PaidAnswers:
        """Return the paid answers, after the one charge for all of them if this is the first request."""
        with self._alone():
            return self._charge_once(answers)

    def _charge_once(self, answers: int) -> PaidAnswers:
        """Return the paid answers as `_paid_answers` does, for a thread that is alone."""
        if self._paid is None:
            # The charge is for all answers, so a request that can never fit is refused before.
            PaidAnswers.require_left(answers, self._most, 0)
            # Listeners learn of the whole budget before the first answer, and may still forbid it.
            announce(self.design.groups, lambda: [(self.design.cost * self._most).renyi], relation=self.design.relation)
            self._paid = _PaidInMemory(self._most) if self._ledger is None else self._ledger.book(self.design)
        return self._paid

    def _draw_and_store(self, key: str, votes: Any) -> Answer:
        """Draw answers that were taken, and store them. If several callers draw for one key, all get the first draw."""
        with guard_private_rows():
            outcomes = self.design.release.draw(votes, self.design.voters, self._noise)
            # Seeded noise leaves a mark.
            mark = {} if self._noise.for_release else {"for_release": False}
            content = {"outcomes": list(outcomes.numbers), "means": outcomes.means} | mark
            text = json.dumps(content, separators=(",", ":"))
        assert self._paid is not None  # noqa: S101 - the answers were taken from it
        return self._stored(key, self._paid.store(key, text), replayed=False)

    def _stored(self, key: str, text: str, *, replayed: bool) -> Answer:
        """Return the answer that a stored text holds."""
        content = json.loads(text)
        labels = tuple(None if one < 0 else self.classes[one] for one in content["outcomes"])
        means = None if content["means"] is None else tuple(tuple(row) for row in content["means"])
        return Answer(labels, means, key, replayed, for_release=content.get("for_release", True))
