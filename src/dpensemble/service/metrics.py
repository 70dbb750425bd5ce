"""What an operator sees: one line of JSON for each request, and counts. Public numbers only.

Neither contains how long a request took, because the time of a draw may depend on votes.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, Metric, generate_latest
from prometheus_client.registry import Collector

from dpensemble.ledger import Ledger
from dpensemble.service.grant_handler import GrantHandler

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: The media type of metrics.
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


# Seconds during which equal lines are counted, and most different lines that are counted at a time.
_PERIOD, _COUNTED = 10.0, 200


class JsonLog:
    """Lines of JSON, on standard error by default. `clock` returns seconds."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._lock = threading.Lock()
        self._repeats: Counter[tuple[str, tuple[tuple[str, object], ...]]] = Counter()
        self._since = 0.0

    def counted(self, event: str, **fields: object) -> None:
        """Write one line, or count the line if an equal line was written in this period.

        A period ends with the first of these lines after ten seconds. Then each line that was repeated is written with
        the number of its repetitions (`repeated`).
        """
        line = event, tuple(fields.items())
        with self._lock:
            is_over = self._clock() >= self._since + _PERIOD
            is_full = line not in self._repeats and len(self._repeats) >= _COUNTED
            if is_over or is_full:
                self._write_repeats()
            is_new = line not in self._repeats
            self._repeats[line] += 0 if is_new else 1
        if is_new:
            self.line(event, **fields)

    def flush(self) -> None:
        """Write the number of repetitions so far."""
        with self._lock:
            self._write_repeats()

    def _write_repeats(self) -> None:
        for (event, fields), number in self._repeats.items():
            if number:
                self.line(event, **dict(fields), repeated=number)
        self._repeats.clear()
        self._since = self._clock()

    def line(self, event: str, **fields: Any) -> None:
        """Write one line. Fields that are None are left out."""
        about = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event} | fields
        text = json.dumps({name: value for name, value in about.items() if value is not None}, default=str)
        stream = sys.stderr if self._stream is None else self._stream
        stream.write(text + "\n")
        stream.flush()


class LogHandler(logging.Handler):
    """Log messages of libraries without their texts, which may quote anything."""

    def __init__(self, log: JsonLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line with the name of the logger and the place."""
        self._log.counted("library", logger=record.name, level=record.levelname, at=f"{record.module}:{record.lineno}")


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
