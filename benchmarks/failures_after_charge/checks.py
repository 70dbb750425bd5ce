"""One random run: undisturbed, and then with failures. After each failure `recover` has to finish the run."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import signal
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from injected import PRIVATE_TEXT, UNCAUGHT, Fault, as_json, in_child, run
from results import charges, differences, leftovers, names, release
from runs import DATA_SET, RandomRun, random_run
from tables import write_tables

from dpensemble._files import signature_of
from dpensemble.cli import main
from dpensemble.server import Ledger
from dpensemble.server.witness import Witness

_KILLED, _DONE, _REFUSED = -9, 0, 2
_WITHOUT_RELEASE = ("no query was answered", "the labels asked for cost more than")
# More attempts than this do not count as a recovery.
_ATTEMPTS = 3


class Problem(Exception):  # noqa: N818 - a finding
    """Something that must not happen after a failure."""


class TooLong(BaseException):
    """A run takes too much time. Not an `Exception`, so that no handler mistakes it for an error of its own."""


def _stop(_number: int, _frame: object) -> None:
    raise TooLong


class Scene:
    """A folder with tables and a ledger, in which one random run is repeated.

    Parameters
    ----------
    parent : path
        An empty folder.
    seed : sequence of int
        Of the run.
    """

    def __init__(self, parent: Path, seed: tuple[int, int]) -> None:
        self.rng = np.random.default_rng(seed)
        self.folder, self._kept, self._steps = parent / "scene", parent / "kept", parent / "steps"
        self._aside, self._drawn = parent / "aside", parent / "drawn"
        self.folder.mkdir()
        for name in ("state", "tmp"):
            (self.folder / name).mkdir()
        self._tables = write_tables(self.rng, self.folder)
        self.run: RandomRun = random_run(self.rng, self._tables)
        if self.run.has_ledger:
            self._succeed(in_child(self._open_ledger, self.folder).code == _DONE, "the ledger cannot be made")
        if self.run.has_earlier_run:
            earlier = f"train label-moments --private {self._tables.private} --public {self._tables.public} --target y"
            classes = ["--classes", ",".join(self._tables.classes), "--drop", "who,consent", "--quiet"]
            run([*earlier.split(), *classes, "--delta", "1e-3", "--out", "run"], self.folder)
        # Each run signs its journal by this key.
        in_child(lambda: int(not signature_of(b"")), self.folder)
        shutil.copytree(self.folder, self._kept)
        self._before = names(self.folder)
        self._earlier = self._release()
        self.steps: list[str] = []
        self.refusal, self._n_drawn = "", 0

    def here(self, seconds: float) -> bool:
        """Make the run in this process, so that children find imports and prices. Return False if it takes too long."""
        # A watch of a ledger would be a thread, which no fork has.
        without = [one for one in self.run.arguments if one not in ("--ledger", "ledger.db", "--data-set", DATA_SET)]
        silent = io.StringIO()
        signal.signal(signal.SIGVTALRM, _stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            with (
                contextlib.chdir(self.folder),
                contextlib.redirect_stdout(silent),
                contextlib.redirect_stderr(silent),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore")
                main(without)
            self._release()
        except TooLong:
            return False
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self._restore(self._kept)
        return True

    def _open_ledger(self) -> int:
        Ledger.create("ledger.db").open_account(DATA_SET, epsilon=60, delta=1e-2, relation=self._relation)
        return _DONE

    @property
    def _relation(self) -> str:
        arguments = self.run.arguments
        return arguments[arguments.index("--relation") + 1] if "--relation" in arguments else "replace-one"

    def undisturbed(self, *, calls: bool) -> bool:
        """Make the run and keep its release. Return False if the run is refused, which must leave nothing behind.

        With `calls` the calls of functions are steps, too, which takes longer.
        """
        ended = run(self.run.arguments, self.folder, record=self._steps, calls=calls, keep=self._drawn)
        if ended.code != _DONE:
            if any(words in ended.err for words in _WITHOUT_RELEASE):
                # What the answers themselves decide is known when they are drawn.
                self.refusal = ended.err.strip()
                return False
            self._succeed(ended.code == _REFUSED, f"an undisturbed run ends with {ended.code}: {ended.err.strip()}")
            self._nothing_happened(ended.err)
            self.refusal = ended.err.strip().splitlines()[-1]
            return False
        self.release, self.charges = self._release(), charges(self.folder)
        self._succeed(len(self.charges) == self.run.has_ledger, f"{len(self.charges)} charges of an undisturbed run")
        left = leftovers(self.folder, self._before, is_finished=True)
        self._succeed(not left, f"an undisturbed run leaves {left}")
        self.steps = self._steps.read_text(encoding="utf-8").splitlines()
        # A public seed is drawn before the first step that is counted.
        self._n_drawn = self._drawn.read_bytes().count(b"\n") if self._drawn.exists() else 0
        return True

    def faults(self, n: int, *, every: bool) -> Iterator[Fault]:
        """Yield random faults. With `every` also one at each step on the way to the disk or of the ledger.

        Faults are as often at a step of the disk or the ledger, at a function, and at a call. Without calls, at steps.
        """
        counts: Counter[str] = Counter()
        places = []
        for step in self.steps:
            counts[step] += 1
            places.append((step, counts[step]))
        disk = [place for place in places if not place[0].startswith("call")]
        for _ in range(n):
            kind = self.rng.integers(3)
            step, nth = _one(self.rng, disk if kind == 0 else places)
            if kind == 1:
                step = _one(self.rng, sorted({name for name, _ in places}))
                nth = int(self.rng.integers(1, counts[step] + 1))
            yield Fault(step, nth, self._what(step))
        for place in disk if every else []:
            yield Fault(*place, self._what(place[0]))

    def _what(self, step: str) -> str:
        return _one(self.rng, ["kill", "error", "full"] if step.startswith("disk") else ["kill", "error"])

    def check(self, fault: Fault) -> bool:
        """Make the run with a fault, let `recover` finish it, and return whether the fault was reached.

        Raises
        ------
        Problem
            If anything is not as it should be.
        """
        self._restore(self._kept)
        # A problem that ended an earlier check left it.
        shutil.rmtree(self._aside, ignore_errors=True)
        ended = run(self.run.arguments, self.folder, fault=fault)
        self._succeed(len(charges(self.folder)) <= len(self.charges), "it was charged more than once")
        self._succeed(PRIVATE_TEXT not in ended.err, f"a private text is on stderr: {ended.err.strip()}")
        if ended.code == _REFUSED or "nothing was written" in ended.err:
            self._succeed(ended.code in (1, _REFUSED), f"it says that nothing was written, and ends with {ended.code}")
            self._nothing_happened(ended.err)
            return ended.reached
        codes = {"kill": [_KILLED], "error": [_DONE, 1, UNCAUGHT], "full": [_DONE, 1]}[fault.what]
        # What is tidied away may not notice a failure, and another thread of events not reach it.
        self._succeed(ended.code in codes, f"it ends with {ended.code}: {ended.err.strip()}")
        self._finish()
        return ended.reached

    def _finish(self) -> None:
        beside = self.folder / ".dpensemble-run"
        if self._is_journal_there() and self.rng.random() < 0.2:
            again = run(self.run.arguments, self.folder)
            self._succeed(again.code == _REFUSED, f"a second run passes over the first one: {again.code} {again.err}")
        drawn = beside / "drawn.jsonl"
        before = drawn.read_bytes() if drawn.exists() else b""
        before = before[: before.rfind(b"\n") + 1]
        if not beside.exists():
            found = self._release()
            if differences(found, self._earlier):
                self._same_release()
            else:
                self._nothing_happened("")
            return
        twice = not self.run.repeats and before and self._is_drawn(before)
        if twice:
            shutil.copytree(self.folder, self._aside)
        self._recover(before)
        if twice:
            first = self._release()
            self._restore(self._aside)
            shutil.rmtree(self._aside)
            self._recover(before)
            differ = differences(first, self._release())
            self._succeed(not differ, f"what was drawn does not decide the release: {differ}")

    def _is_journal_there(self) -> bool:
        return (self.folder / ".dpensemble-run" / "journal.json").exists()

    def _is_drawn(self, before: bytes) -> bool:
        """Return whether all that an undisturbed run draws is drawn."""
        return before.count(b"\n") == self._n_drawn

    def _recover(self, drawn: bytes) -> None:
        """Let `recover` finish the run, perhaps after a failure of its own."""
        self._drawn.unlink(missing_ok=True)
        fault = None
        if self.rng.random() < 0.3:
            step = _one(self.rng, self.steps)
            fault = Fault(step, 1, self._what(step), at_once=True)
        before = fault
        for _ in range(_ATTEMPTS):
            ended = run(["recover", "run", "--json"], self.folder, fault=fault, keep=self._drawn)
            self._succeed(len(charges(self.folder)) <= len(self.charges), f"recover charged again, after {fault}")
            if ended.code == _DONE or not (self.folder / ".dpensemble-run").exists():
                break
            self._succeed(fault is not None, f"recover ends with {ended.code}, after {before}: {ended.err.strip()}")
            fault = None
        if ended.code == _DONE and not as_json(ended.out)["placed"]:
            self._nothing_happened(ended.out)
            return
        if ended.code != _DONE and not differences(self._release(), self._earlier):
            self._nothing_happened(ended.err)
            return
        self._same_release()
        if drawn and self._drawn.exists():
            self._succeed(self._drawn.read_bytes().startswith(drawn), "what was drawn was drawn again")

    def _same_release(self) -> None:
        found = self._release()
        self._succeed(found is not None, "there is no release")
        if self.run.repeats:
            differ = differences(found, self.release)
            self._succeed(not differ, f"the release is another one: {differ}")
        self._succeed(charges(self.folder) == self.charges, f"the charges are {charges(self.folder)}")
        self._nothing_left(is_finished=True)

    def _nothing_happened(self, said: str) -> None:
        """See that a run that is over without a release cost nothing and left nothing."""
        self._succeed(not charges(self.folder), f"it was charged for nothing: {said.strip()}")
        self._succeed(not differences(self._release(), self._earlier), f"the earlier release is gone: {said.strip()}")
        self._nothing_left(is_finished=False)

    def _nothing_left(self, *, is_finished: bool) -> None:
        left = leftovers(self.folder, self._before, is_finished=is_finished)
        self._succeed(not left, f"it leaves {left}")

    def _release(self) -> dict[str, object] | None:
        return release(self.folder / "run", self.folder / self._tables.public)

    def _restore(self, kept: Path) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(kept, self.folder)
        # A copied witness knows no ledger. Here the whole scene is as it was, so the files get marks of their own.
        for path in (self.folder / "state").glob("*.witness"):
            witness = Witness(path)
            number, digest = witness.seen() or (0, "")
            witness._replace(number, digest)

    @staticmethod
    def _succeed(holds: bool, otherwise: str) -> None:
        if not holds:
            raise Problem(otherwise)

    def command(self) -> str:
        """Return the command line."""
        return json.dumps(self.run.arguments)


def _one(rng: np.random.Generator, choices: list) -> object:  # type: ignore[type-arg]
    return choices[rng.integers(len(choices))]
