"""One grant in service: its guarantee, what is left of it, and its answers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpensemble._checks import integer_between
from dpensemble.aggregation import Aggregator, Answer
from dpensemble.errors import DataError
from dpensemble.server.ledger import Ledger
from dpensemble.server.settings import GrantSettings, ServiceSettings

if TYPE_CHECKING:
    from dpensemble.server.hosted_teachers import HostedEnsemble

#: Possible contents of a prediction request.
KINDS = ("counts", "ballots", "log_probs", "rows")
# Number of cached quotes, and how many times the grant's answers a quote may cover.
_QUOTES, _FARTHEST = 4096, 10


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A response to an analyst, as JSON and as an `Answer`. Repeated requests return identical bytes."""

    body: bytes
    answer: Answer


class GrantHandler:
    """Answers requests for one grant, which an account in the ledger pays for."""

    def __init__(self, settings: ServiceSettings, grant: GrantSettings, ledger: Ledger) -> None:
        self.grant, self._most_queries = grant, settings.most_queries
        self.account = ledger.account(grant.data_set)
        taught = {} if grant.ensemble is None else {"ensemble": grant.ensemble.digest}
        self._asked = Aggregator(
            grant.law_object(),
            grant.classes,
            grant.voters,
            relation=grant.relation,
            budget=grant.budget,
            ledger=self.account.grant(grant.name, taught),
            clip=grant.clip,
            answers=grant.answers,
            votes_per_unit=grant.votes_per_unit,
            unit=grant.unit,
        )
        self.house = None if grant.ensemble is None else _house(settings, grant)
        self._promise = self._asked.guarantee()
        self._quote = lru_cache(_QUOTES)(self._asked.quote)

    @property
    def most(self) -> int:
        """Number of answers of the grant. Public."""
        return self._asked.design.promised_answers

    @property
    def kinds(self) -> tuple[str, ...]:
        """Possible contents of a prediction request."""
        if self.house is not None:
            return ("rows",)
        return self._asked.design.release.takes[::-1]

    @property
    def classes(self) -> list[Any]:
        """Labels, or their numbers."""
        return list(self._asked.classes)

    def remaining(self) -> int:
        """Return how many answers are left. Public."""
        return self._asked.remaining()

    def to_dict(self) -> dict[str, Any]:
        """Return everything public about the grant as plain values."""
        left, grant, design = self.remaining(), self.grant, self._asked.design
        return {
            "name": grant.name,
            "data_set": grant.data_set,
            "about": grant.about,
            "law": design.release.description,
            "takes": list(self.kinds),
            "columns": {} if self.house is None else self.house.columns,
            "classes": self.classes if len(self.classes) <= 1000 else [],
            "n_classes": design.n_classes,
            "voters": design.n_voters,
            "epsilon": self._promise.epsilon,
            "delta": self._promise.delta,
            "answers": self.most,
            "answered": self.most - left,
            "remaining": left,
            "guarantee": str(self._promise),
        }

    @property
    def promise(self) -> list[str]:
        """The guarantee in sentences, then its accounting and its assumptions."""
        return [*self._promise.sentences(), f"Accounting: {self._promise.accounting}.", *self._promise.assumptions]

    def quote(self, answers: object) -> dict[str, Any]:
        """Return the joint cost of a number of answers, up to ten times those of the grant. Reads no data."""
        quote = self._quote(integer_between("answers", answers, 1, self.farthest))
        epsilon = quote.epsilon if math.isfinite(quote.epsilon) else None
        return {"answers": quote.answers, "epsilon": epsilon, "delta": quote.delta, "fits": quote.fits}

    @property
    def farthest(self) -> int:
        """Largest number of answers in a quote."""
        return _FARTHEST * self.most

    def predict(self, holder: str, key: str, queries: Mapping[str, Any]) -> StoredAnswer:
        """Charge for a request, draw, store and return its answers.

        Request keys of one `holder` are separate from those of other holders. `queries` holds one of `KINDS`, with its
        votes or rows.
        """
        kinds = [kind for kind in KINDS if queries.get(kind) is not None]
        if len(kinds) != 1 or kinds[0] not in self.kinds:
            raise DataError(f"grant {self.grant.name!r} takes {' or '.join(self.kinds)}: give exactly one of them.")
        value: Sequence[Any] = queries[kinds[0]]
        if not 1 <= len(value) <= self._most_queries:
            raise DataError(f"{kinds[0]} must hold from 1 to {self._most_queries:,} queries in one request.")
        request = f"{holder}:{key}"
        if self.house is None:
            answer = self._asked.answer(**{kinds[0]: value}, key=request)
        else:
            house, rows = self.house, self.house.rows(value)
            payload = json.dumps(value, sort_keys=True).encode()
            answer = self._asked.answer_to(payload, len(rows), ask=lambda: house.vote(rows), key=request)
        labels = list(answer.labels)
        means = None if answer.means is None else [list(row) for row in answer.means]
        body = {"grant": self.grant.name, "key": key, "labels": labels, "means": means}
        return StoredAnswer(json.dumps(body, separators=(",", ":")).encode(), answer)


def _house(settings: ServiceSettings, grant: GrantSettings) -> HostedEnsemble:
    from dpensemble.server.hosted_teachers import HostedEnsemble  # noqa: PLC0415 - slow, and needed only for hosted teachers

    return HostedEnsemble(settings, grant)


def grant_handlers(settings: ServiceSettings, ledger: Ledger) -> dict[str, GrantHandler]:
    """Return a handler for each grant, by name."""
    return {grant.name: GrantHandler(settings, grant, ledger) for grant in settings.grants}
