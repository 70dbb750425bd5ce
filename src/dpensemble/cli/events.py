"""Events of a run (stages, steps, budgets) as lines of JSON, for programs. Events hold nothing private but times."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpensemble._progress import Hear, progress_heard_by
from dpensemble.errors import file_errors, known_text
from dpensemble.workflow.durable import OWN_FILE


@contextmanager
def logged(path: Path | None, **facts: Any) -> Iterator[Hear]:
    """Append events to a file during the block, and yield the writing function. Times are not protected: owner only."""
    if path is None:
        yield _silent
        return
    with file_errors(lambda reason: f"log_json={str(path)!r} cannot be written ({reason}): choose another file."):
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, OWN_FILE), "a", encoding="utf-8")
    with file:

        def write(event: str, about: dict[str, Any]) -> None:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                file.write(json.dumps({"time": now, "event": event, **about}) + "\n")
                file.flush()
            except OSError:
                # A full disk must not lose a release because of a log.
                return

        write("run begins", facts)
        try:
            with progress_heard_by(write):
                yield write
        except BaseException as error:
            # Errors about tables may name columns, and errors of other libraries may quote records.
            is_safe = known_text(error) is not None or not isinstance(error, Exception)
            write("run failed", {"error": type(error).__name__ if is_safe else "unexpected"})
            raise
        write("run ends", {})


def _silent(_event: str, _about: dict[str, Any]) -> None:
    return
