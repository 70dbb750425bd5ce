"""The aggregator, which turns votes into noisy answers and charges each answer before it is drawn.

Votes are checked as a whole before anything is charged. Fresh sampling draws the records of one answer, in secret.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpensemble._checks import integer_between, member, of_type, shown
from dpensemble._class_names import declared_classes
from dpensemble._entries import Integers, is_table, require_readable
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._random import NOISE_BITS, NoiseSource, noise_source
from dpensemble._spending import Original, announce
from dpensemble.accounting.price import GaussianSum
from dpensemble.aggregation.answers import Answer, Book, MemoryBook, as_text, check_key, from_text, require_left
from dpensemble.allocation.bootstrap import integers_below
from dpensemble.allocation.partition import unit_numbers
from dpensemble.budget import Budget
from dpensemble.design.given_votes import GivenVotes, Sampling
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.laws import ReleaseLaw, SparseNoisyMax
from dpensemble.relations import Basis, Relation
from dpensemble.releases import NamedVotes, release_of

_NO_VOTES = np.zeros((1, 0), dtype=np.int64)


class _Payloads:
    """Converts votes into whole counts of the classes named by `labels`."""

    def __init__(self, design: GivenVotes, labels: Sequence[Any] | range) -> None:
        self._design, self._labels = design, labels
        self._place = None if isinstance(labels, range) else {label: i for i, label in enumerate(labels)}

    def ballots(self, ballots: Any) -> list[NamedVotes]:
        """Check one label a voter, shape (n_voters,) or (n_queries, n_voters)."""
        require_readable("ballots", ballots)
        rows = self._rows("ballots", ballots, self._design.n_voters, "one a voter")
        ids = self._ids(rows)
        return [NamedVotes(*np.unique(row, return_counts=True)) for row in ids]

    def _ids(self, rows: Any) -> Integers:
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
            ids = self._ids(np.array(list(counts), dtype=None if self._place is None else object))
            votes = self._rows("counts", list(counts.values()), len(counts), "one a class") if counts else _NO_VOTES
            rows, ids = self._whole(votes), ids[None]
        else:
            rows = self._whole(self._rows("counts", counts, self._design.n_classes, "one a class"))
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

    def _whole(self, rows: Any) -> Integers:
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

    def _rows(self, name: str, given: Any, width: int, what: str) -> Any:
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


class _Draws(Original, spends=("draw", "check", "use")):
    """The draws of one aggregator. Each draw serves one answer only."""

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
    in-context learning for large language models", ICLR 2024. Prices: `dpensemble.accounting.price`,
    `dpensemble.accounting.subsampling` and `dpensemble.accounting.price`.

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
        self._read = _Payloads(self.design, self.classes)
        self._lock, self._ledger = threading.Lock(), ledger
        self._draws = None if rate is None else _Draws(n_voters, self.design.rate or 0.0, self._noise)
        self._most = self.design.most_answers
        # A grant that was charged before continues. Otherwise the first answer charges it.
        self._book: Book | None = None if ledger is None else ledger.resumed(self.design)

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
        return self._most - (0 if self._book is None else self._book.answered)

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

        Examples
        --------
        >>> votes = Aggregator("lnmax", 2, 10, relation="replace-one", budget=Budget(epsilon=9, delta=1e-6),
        ...                    unit="patient", sampling="fresh", rate=1.0)
        >>> drawn = votes.draw(units=["Ann", "Bob", "Ann"])
        >>> any({0, 2} <= set(positions.tolist()) for positions in drawn.voters)
        True
        """
        if self._draws is None:
            raise InvalidParameterError("draw requires sampling='fresh'; with 'fixed' records stay with their voters.")
        n_records = _number_to_draw(self.unit, n_records, units)
        with self._lock:
            return self._draws.draw(n_records, units)

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
        """
        key, votes = check_key(key), self._votes(ballots, counts, log_probs)
        payload = _payload(votes)
        if self._draws is None:
            if drawn is not None:
                raise DataError("drawn requires sampling='fresh': leave it out.")
            text = self._open_book(len(votes)).charge(key, payload, len(votes))
        else:
            with self._lock:
                numbers = self._draws.check(drawn, len(votes), key)
                text = self._opened(len(votes)).charge(key, payload, len(votes))
                self._draws.use(numbers, key)
        return self._stored_or_drawn(key, text, lambda: votes)

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
        DataError, BudgetError
            As for `answer`.

        Examples
        --------
        >>> from dpensemble.laws import GaussianNoisyMax
        >>> votes = Aggregator(GaussianNoisyMax(4.0), 2, 50, relation="replace-one",
        ...                    budget=Budget(epsilon=9, delta=1e-6))
        >>> votes.answer_to(b"row 7", 1, ask=lambda: [[1] * 50], key="row 7").label
        1
        """
        if self._draws is not None or "ballots" not in self.design.release.takes:
            raise InvalidParameterError("answer_to requires sampling='fixed' and ballots: use answer().")
        key, n_queries = check_key(key), integer_between("n_queries", n_queries, 1)
        text = self._open_book(n_queries).charge(key, b"request " + request, n_queries)

        def votes() -> Any:
            ballots = self._read.ballots(ask())
            if len(ballots) != n_queries:
                raise DataError(f"ask must return ballots for the {n_queries} queries charged; got {len(ballots)}.")
            return ballots

        return self._stored_or_drawn(key, text, votes)

    def _stored_or_drawn(self, key: str, text: str | None, votes: Callable[[], Any]) -> Answer:
        """Return the stored answer, or draw one. If several callers draw for one key, all get the first draw."""
        if text is not None:
            return from_text(text, self.classes, key, replayed=True)
        text, book = self._drawn_text(votes()), self._book
        assert book is not None  # noqa: S101 - the answer was charged in the book
        return from_text(book.store(key, text), self.classes, key, replayed=False)

    def _open_book(self, answers: int) -> Book:
        with self._lock:
            return self._opened(answers)

    def _opened(self, answers: int) -> Book:
        if self._book is None:
            # Opening charges the whole grant, so a request that can never fit is refused before.
            require_left(answers, self._most, 0)
            # Listeners learn of the whole budget before the first answer, and may still forbid it.
            announce(self.design.groups, lambda: [(self.design.cost * self._most).renyi], relation=self.design.relation)
            self._book = MemoryBook(self._most) if self._ledger is None else self._ledger.book(self.design)
        return self._book

    @guard_private_rows()
    def _votes(self, ballots: Any, counts: Any, log_probs: Any) -> Any:
        kinds = {"ballots": ballots, "counts": counts, "log_probs": log_probs}
        kinds_given = [name for name, value in kinds.items() if value is not None]
        accepted_kinds = self.design.release.takes
        if len(kinds_given) != 1 or kinds_given[0] not in accepted_kinds:
            raise DataError(f"this aggregator takes {' or '.join(accepted_kinds)}: give exactly one, by name.")
        if log_probs is not None:
            return self._read.soft(log_probs)
        return self._read.ballots(ballots) if counts is None else self._read.counts(counts)

    @guard_private_rows()
    def _drawn_text(self, votes: Any) -> str:
        """Draw the noise of answers that are paid for."""
        outcomes = self.design.release.draw(votes, self.design.voters, self._noise)
        return as_text(outcomes.numbers, outcomes.means, for_release=self._noise.for_release)


def _payload(votes: Any) -> bytes:
    """Return votes as bytes, the same for the same counts in every input form."""
    if isinstance(votes, np.ndarray):
        return json.dumps(votes.tolist(), separators=(",", ":")).encode()
    return json.dumps([[one.ids.tolist(), one.counts.tolist()] for one in votes], separators=(",", ":")).encode()
