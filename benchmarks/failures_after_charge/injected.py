"""Command lines that run in a forked child, which records its steps, or fails at one of them.

A step is a step on the way to the disk, a step of the ledger, or a call of a function of the library.
"""

from __future__ import annotations

import errno
import inspect
import json
import os
import re
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import dpensemble
from dpensemble.cli import main
from dpensemble.server import store
from dpensemble.workflow import disk

_NUMBER = re.compile(r"\.\d+$")
_PACKAGE = str(Path(dpensemble.__file__).parent) + os.sep
#: Before this step nothing is spent.
FIRST = "disk spend"
# Steps that need room on the disk.
_NEEDS_ROOM = ("disk write", "disk replace", "disk keep", "disk reserve", "disk spend")
#: Text that no error may show.
PRIVATE_TEXT = "Zaphod"
#: Exit code of a child with an uncaught error.
UNCAUGHT = 99


class Injected(Exception):  # noqa: N818 - no error of the library
    """The failure that is played."""


@dataclass(frozen=True)
class Fault:
    """What happens at the n-th time (from 1) that a step is reached: kill, error, or full from then on."""

    step: str
    nth: int
    what: str
    #: Whether steps are counted from the start. By default from the first step that spends.
    at_once: bool = False

    def __str__(self) -> str:
        return f"{self.what} at {self.step} ({self.nth})"


class Steps:
    """Counts steps, and lets the fault happen."""

    def __init__(self, fault: Fault | None, record: Path | None, mark: Path) -> None:
        self._fault, self._mark = fault, mark
        self._counting = fault is not None and fault.at_once
        self._seen: Counter[str] = Counter()
        self._record, self._all = record, list[str]()
        self._full = False

    def reach(self, name: str) -> None:
        """Count a step."""
        # The number of the process is another one each time.
        name = _NUMBER.sub("", name)
        self._counting = self._counting or name == FIRST
        if not self._counting:
            return
        if self._full and name.startswith(_NEEDS_ROOM):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._seen[name] += 1
        if self._record is not None:
            self._all.append(name)
        fault = self._fault
        if fault is not None and (name, self._seen[name]) == (fault.step, fault.nth):
            self._happen(fault.what)

    def _happen(self, what: str) -> None:
        self._mark.touch()
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "full":
            self._full = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        else:
            raise Injected(PRIVATE_TEXT)

    def write(self) -> None:
        """Write the steps that were recorded."""
        if self._record is not None:
            self._record.write_text("".join(f"{name}\n" for name in self._all), encoding="utf-8")

    def called(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Count the call of a function of the library, as the trace function of the interpreter."""
        code = frame.f_code
        # A generator that goes on would lose its finally, which only a kill can do.
        if event != "call" or not code.co_filename.startswith(_PACKAGE) or code.co_flags & inspect.CO_GENERATOR:
            return
        if self._counting:
            self.reach(f"call {code.co_filename.removeprefix(_PACKAGE)}:{code.co_qualname}")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str
    #: Whether the step of the fault was reached.
    reached: bool = False


def run(
    arguments: Sequence[str],
    scene: Path,
    *,
    fault: Fault | None = None,
    record: Path | None = None,
    calls: bool = True,
    keep: Path | None = None,
) -> Ended:
    """Run a command line in a child process.

    Parameters
    ----------
    arguments : sequence of str
        Of `dpensemble`.
    scene : path
        Folder in which it runs. Ledgers are remembered in ``state``, temporary files are made in ``tmp``.
    fault : Fault, optional
        What goes wrong.
    record : path, optional
        File for the steps.
    calls : bool, default=True
        Whether the calls of functions are recorded, too.
    keep : path, optional
        File that gets a copy of what the run has drawn when its files are put in place.
    """
    mark = scene.parent / "reached"
    mark.unlink(missing_ok=True)

    def work() -> int:
        steps = Steps(fault, record, mark)
        disk.step = _watched(steps, scene, keep)
        store.step = lambda name: steps.reach(f"ledger {name}")
        if (record is not None and calls) or (fault is not None and fault.step.startswith("call")):
            sys.settrace(steps.called)
        try:
            return main(list(arguments))
        finally:
            sys.settrace(None)
            steps.write()

    return replace(in_child(work, scene), reached=mark.exists())


def _watched(steps: Steps, scene: Path, keep: Path | None) -> Callable[[str], None]:
    drawn = scene / ".dpensemble-run" / "drawn.jsonl"

    def step(name: str) -> None:
        if name == "place" and keep is not None and drawn.exists():
            keep.write_bytes(drawn.read_bytes())
        steps.reach(f"disk {name}")

    return step


def in_child(work: Callable[[], int], scene: Path) -> Ended:
    """Call a function in a forked child, in the folder of a scene, and return how it ended."""
    texts = [scene.parent / "stdout", scene.parent / "stderr"]
    child = os.fork()
    if child == 0:
        code = UNCAUGHT
        try:
            for stream, path in zip((1, 2), texts, strict=True):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), stream)
            os.chdir(scene)
            os.environ |= {"DPENSEMBLE_STATE": str(scene / "state"), "TMPDIR": str(scene / "tmp")}
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    out, err = (path.read_text(encoding="utf-8") for path in texts)
    return Ended(os.waitstatus_to_exitcode(status), out, err)


def as_json(text: str) -> dict[str, Any]:
    """Return the JSON that a command printed."""
    values: dict[str, Any] = json.loads(text)
    return values
