"""A running service: its ledger, grants, keys, sessions, log and counts, and the threads that do its work.

A grant in service has a guarantee, a rest, and answers. Each kind of request has a pool of threads with a bounded queue
and a deadline, so that it never waits for another kind. A deadline ends the wait of a client, and never the work. A
request that still waits for a thread is forgotten. Work that has begun goes on, so a charge is always followed by its
stored answer, and a retry returns that answer. Counts do not contain how long a request took.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, Metric, generate_latest
from prometheus_client.registry import Collector

from dpensemble._checks import integer_between
from dpensemble.aggregation import Aggregator, Answer
from dpensemble.errors import DataError
from dpensemble.server.account import LedgerAccount
from dpensemble.server.http import JsonLog, PredictionReader, Problem
from dpensemble.server.ledger import Ledger
from dpensemble.server.settings import GrantSettings, ServiceSettings
from dpensemble.server.sign_in import ApiKey, SignIn

if TYPE_CHECKING:
    from dpensemble.server.hosted_teachers import HostedEnsemble

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

        Request keys of one `holder` are separate from those of other holders. `queries` holds votes or rows by kind.
        """
        kinds = [kind for kind, value in queries.items() if value is not None]
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


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """Counts for Prometheus: those of the served grants and of the ledger's accounts."""

    def __init__(self, handlers: Mapping[str, GrantHandler], ledger: Ledger) -> None:
        self._handlers, self._ledger = handlers, ledger
        self._registry = CollectorRegistry()
        self._requests = self._counter(
            prometheus_client.Counter, "requests", "Requests.", ("method", "route", "status")
        )
        self._answers = self._counter(
            prometheus_client.Counter, "answers", "Answers sent for the first time.", ("grant",)
        )
        self._replays = self._counter(prometheus_client.Counter, "replays", "Repeated requests.", ("grant",))
        self._refusals = self._counter(prometheus_client.Counter, "refusals", "Requests beyond a budget.", ("grant",))
        self._remaining = self._counter(Gauge, "answers_remaining", "Answers left of a grant.", ("grant",))
        self._share = self._counter(Gauge, "budget_share_left", "Share of a lifetime budget left.", ("data_set",))
        self._entries = self._counter(Gauge, "ledger_entries", "Entries of the ledger.", ())

    def _counter(self, kind: Any, name: str, text: str, labels: Iterable[str]) -> Any:
        return kind(f"dpensemble_{name}", text, tuple(labels), registry=self._registry)

    def request(self, method: str, route: str, status: int) -> None:
        """Count a request."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()

    def answered(self, grant: str, answers: int, *, replayed: bool) -> None:
        """Count new answers, or one repeated request."""
        if replayed:
            self._replays.labels(grant).inc()
        else:
            self._answers.labels(grant).inc(answers)

    def refused(self, grant: str) -> None:
        """Count a refusal because a budget does not suffice."""
        self._refusals.labels(grant).inc()

    def text(self, grants: Sequence[str] = ()) -> bytes:
        """Return all counts and what is left now. With `grants`, only those of these grants and their data sets."""
        for name, handler in self._handlers.items():
            self._remaining.labels(name).set(handler.remaining())
        for name in sorted({handler.grant.data_set for handler in self._handlers.values()}):
            self._share.labels(name).set(self._ledger.account(name).state().share_left)
        self._entries.set(self._ledger.head().number)
        if not grants:
            return generate_latest(self._registry)
        shown = CollectorRegistry()
        shown.register(
            _Of(self._registry, grants, {self._handlers[one].grant.data_set for one in grants if one in self._handlers})
        )
        return generate_latest(shown)


class _Of(Collector):
    """The part of a registry that concerns some grants and data sets."""

    def __init__(self, registry: CollectorRegistry, grants: Container[str], data_sets: Container[str]) -> None:
        self._registry, self._grants, self._data_sets = registry, grants, data_sets

    def collect(self) -> Iterator[Metric]:
        """Yield the samples that name one of them. Totals name none."""
        for metric in self._registry.collect():
            shown = Metric(metric.name, metric.documentation, metric.type)
            shown.samples = [one for one in metric.samples if self._is_shown(one.labels)]
            if shown.samples:
                yield shown

    def _is_shown(self, labels: Mapping[str, str]) -> bool:
        return labels.get("grant") in self._grants or labels.get("data_set") in self._data_sets


_Result = TypeVar("_Result")


class _Pool:
    """A few threads for one kind of request.

    `queued` requests may wait for a thread, and each gets an answer or a refusal within `seconds`.
    """

    def __init__(self, kind: str, *, threads: int, queued: int, seconds: float) -> None:
        self._kind, self._queued, self._seconds = kind, queued, seconds
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"dpensemble {kind}")
        self._free = asyncio.Semaphore(threads)
        self._waiting = 0

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Return the result of `work`, or raise its error.

        Raises
        ------
        Problem
            If the queue is full, or the work takes longer than the deadline. The status is 503.
        """
        if self._waiting >= self._queued:
            raise self._busy()
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        self._waiting += 1
        try:
            async with asyncio.timeout_at(end):
                await self._free.acquire()
        except TimeoutError:
            raise self._busy() from None
        finally:
            self._waiting -= 1
        # Not more work than threads is handed over, so no work waits within the executor.
        running = loop.run_in_executor(self._threads, contextvars.copy_context().run, work)
        running.add_done_callback(self._ended)
        # A client that goes away cancels this wait only.
        done, _ = await asyncio.wait([running], timeout=max(0.0, end - loop.time()))
        if not done:
            raise self._busy()
        return running.result()

    def _ended(self, running: asyncio.Future[_Result]) -> None:
        self._free.release()
        if not running.cancelled():
            # After the deadline nobody else asks for the error.
            running.exception()

    def _busy(self) -> Problem:
        return Problem(
            503,
            "busy",
            "The service is busy.",
            f"Too many {self._kind} wait, or one of them takes too long. Send the same request later. A request with "
            "an Idempotency-Key is charged once.",
            headers={"Retry-After": "1"},
        )


class _SharedCheck:
    """One check at a time. Those who ask while the check is under way share its result."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self._running: asyncio.Task[None] | None = None

    async def run(self, work: Callable[[], object]) -> None:
        """Return when the check has passed, or raise its error."""
        if self._running is None or self._running.done():

            async def check() -> None:
                await self._pool.run(work)

            self._running = asyncio.create_task(check())
        # One client that goes away ends no check.
        await asyncio.shield(self._running)


@dataclass(frozen=True, slots=True)
class _Pools:
    """The pools of a service: checks of health, reads with a valid key, writes, quotes, and unknown senders."""

    health: _SharedCheck
    reads: _Pool
    writes: _Pool
    quotes: _Pool
    strangers: _Pool

    @classmethod
    def of(cls, settings: ServiceSettings) -> _Pools:
        """Return the pools of a service with its deadlines."""
        waits = settings.waits
        return cls(
            # Two threads, so that a check after one that hangs still runs.
            health=_SharedCheck(_Pool("checks of health", threads=2, queued=2, seconds=waits.read)),
            reads=_Pool("reads", threads=8, queued=200, seconds=waits.read),
            # Many, because simultaneous charges share a transaction.
            writes=_Pool("requests for answers", threads=32, queued=200, seconds=waits.write),
            # One thread, because a quote is all computation, and computing threads delay each other and everybody.
            quotes=_Pool("quotes", threads=1, queued=32, seconds=waits.quote),
            strangers=_Pool("checks of senders", threads=2, queued=64, seconds=waits.token),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """What the routes of a service share, such as its ledger, grants by name, keys and counts."""

    settings: ServiceSettings
    ledger: Ledger
    handlers: dict[str, GrantHandler]
    sign_in: SignIn
    log: JsonLog
    metrics: Metrics
    predictions: PredictionReader
    pools: _Pools

    @classmethod
    def of(cls, settings: ServiceSettings, stream: TextIO | None = None) -> ServiceState:
        """Open everything, and fit teachers. Nothing is charged, even if this raises."""
        ledger = Ledger(
            settings.ledger_place,
            signing_key=None if settings.signing_key is None else settings.path(settings.signing_key),
            witness=None if settings.witness is None else settings.path(settings.witness),
        )
        pools = _Pools.of(settings)
        sign_in = SignIn(settings.path(settings.keys), ledger.key.session_secret, settings.oidc, pools.strangers.run)
        # A restored ledger is refused at the start, and not only by the first request.
        ledger.require_known()
        handlers = {grant.name: GrantHandler(settings, grant, ledger) for grant in settings.grants}
        return cls(
            settings=settings,
            ledger=ledger,
            handlers=handlers,
            sign_in=sign_in,
            log=JsonLog(stream),
            metrics=Metrics(handlers, ledger),
            predictions=PredictionReader(settings.most_queries, settings.most_bytes),
            pools=pools,
        )

    def accounts(self, key: ApiKey) -> list[LedgerAccount]:
        """Return the accounts that a key may see: all accounts for an owner of all, else those of its grants."""
        shown = {handler.grant.data_set for name, handler in self.handlers.items() if key.covers(name)}
        if key.may_see_all:
            return self.ledger.accounts()
        return [self.ledger.account(name) for name in sorted(shown)]
