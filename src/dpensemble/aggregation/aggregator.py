"""The aggregator, which turns votes into noisy answers and charges each answer before it is drawn."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpensemble._checks import integer_between, member, shown
from dpensemble._class_names import declared_classes
from dpensemble._guard import guard_private_rows
from dpensemble._original import Original
from dpensemble._random import noise_source
from dpensemble._spending import announce
from dpensemble.accounting.price import GaussianSum
from dpensemble.aggregation.answers import Answer, Book, MemoryBook, as_text, check_key, from_text, require_left
from dpensemble.aggregation.drawn import DrawnRecords, Draws, number_to_draw, promises_of_draws
from dpensemble.aggregation.payloads import Payloads
from dpensemble.budget import Budget
from dpensemble.design.given_votes import GivenVotes, Sampling
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.laws import ReleaseLaw, SparseNoisyMax
from dpensemble.relations import Basis, Relation
from dpensemble.releases import release_of

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
        if not isinstance(budget, Budget):
            raise InvalidParameterError(f"budget={shown(budget)} must be a Budget: give Budget(epsilon=1, delta=1e-5).")
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
        self._read = Payloads(self.design, self.classes)
        self._lock, self._ledger = threading.Lock(), ledger
        self._draws = None if rate is None else Draws(n_voters, self.design.rate or 0.0, self._noise)
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
            assumptions=((*promises_of_draws(self.unit), *_COMMON) if design.rate is not None else (*reach, *_COMMON)),
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
        n_records = number_to_draw(self.unit, n_records, units)
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
