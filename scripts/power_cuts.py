"""Kill commands, cut the power and fill the disk at random moments, and check what is left.

strace records what one run of a command writes. A kill keeps the writes before a random moment. A power cut keeps what
was flushed by then, and random parts of the rest: sectors of 512 bytes in files, and the first changes of each folder.
A full disk is a small one in memory, which only root can mount. Afterwards the ledger must open with every confirmed
charge. A run must end with one charge and one release. No file may be half written. Exit code 1 reports a violation.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from power_cut_scenes import Facts, Scene, alike, prepared, release, run, scenes, write_tables
from recorded_disk import CALLS, PAGE, Disk, operations

from dpensemble.server import Ledger, witness

KINDS = ("kills", "cuts", "full")
# Bytes of the small disk, and bytes that a program of another name fills.
ROOM = 48 << 20
PATIENCE = 300


class ViolationError(Exception):
    """Something that a kill, a power cut or a full disk must never leave."""


@dataclass(frozen=True)
class Check:
    """What must hold after an interrupted command, in the current folder.

    `start` and `final` are the facts before and after a whole run. `seen` is the release that somebody may have seen
    before the interruption, and `is_reported` is whether the command had reported its result.
    """

    scene: Scene
    start: Facts
    final: Facts
    seen: str | None
    is_reported: bool

    def run(self) -> int:
        """Raise `ViolationError` if something does not hold. Else return 0."""
        self.kept()
        if self.scene.training:
            self.one_release()
        else:
            self.goes_on()
        if Path("books/ledger.db").exists():
            Ledger("books/ledger.db").verify()
        return 0

    def kept(self) -> None:
        """Check that nothing of before is lost, no file is half written, and what was reported is there."""
        now, before = Facts.read(self.scene), self.start.entries or []
        entries = now.entries or []
        # A restore that was interrupted may have to be repeated before the ledger opens.
        is_closed = now.entries is None and self.scene.restores and not self.is_reported
        require(is_closed or entries[: len(before)] == before, "LOST: the ledger does not open, or lacks entries")
        wanted = self.final.entries or []
        require(len(entries) <= len(wanted), "MORE: the ledger holds more entries than a whole run adds")
        require(
            self.final.is_other or entries == wanted[: len(entries)], "OTHER: an entry differs from the recorded one"
        )
        for name, content in now.files.items():
            whole = content in (self.start.files[name], self.final.files[name])
            require(whole or (self.final.is_other and alike(content, self.final.files[name])), f"HALF: {name}")
            require(not self.is_reported or (content is not None), f"UNKEPT: {name} was reported")
        if self.is_reported:
            require(len(entries) == len(wanted), "UNKEPT: a confirmed charge is missing")
            require(now.release is not None or not self.scene.training, "UNKEPT: a reported release is missing")

    def one_release(self) -> None:
        """Recover or train again, and check that there is one charge and one release in the end."""
        if Path(".dpensemble-out").exists():
            require(run("recover out --json") == 0, "STUCK: recover fails")
        if release() is None:
            require(run(self.scene.training) == 0, "STUCK: training again fails")
        require(self.seen in (None, release()), "SECOND: another release under the same charge")
        kinds = [Counter(kind for kind, _ in facts.entries or []) for facts in (Facts.read(self.scene), self.final)]
        require(kinds[0] == kinds[1], f"CHARGES: {dict(kinds[0])} and not {dict(kinds[1])}")
        record, n_labels = (
            json.loads(Path("out/run.json").read_text()),
            Path("out/labels.csv").read_text().count("\n") - 1,
        )
        require(record.get("labels", n_labels) == n_labels, "HALF: labels.csv")
        require(run("predict out public.csv --out predicted.csv") == 0, "HALF: the student does not predict")
        require(not Path(".dpensemble-out").exists(), "LEFT OVER: the folder beside the run")

    def goes_on(self) -> None:
        """Check that the work goes on, if need be after the command is repeated."""
        first, *others = self.scene.after or (self.scene.command,)
        if run(first):
            require(run(self.scene.command) == 0, "STUCK: neither what follows works, nor the command again")
            require(run(first) == 0, f"STUCK: {first}")
        for command in others:
            require(run(command) == 0, f"STUCK: {command}")


def require(holds: bool, what: str) -> None:
    """Raise unless something holds."""
    if not holds:
        raise ViolationError(what)


class Trial:
    """One scene in one folder, which is recorded once and then interrupted again and again."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self.scene, self.folder, self.place = scene, folder, folder / "disk" / "place"
        self.output, self.log = folder / "output", folder / "log"
        self.place.mkdir()
        write_tables(self.place)
        for command in scene.before:
            self.require(self.child(lambda command=command: prepared(command)) in (0, -9), f"{command} fails")
        shutil.copytree(self.place, folder / "before", symlinks=True)
        self.before = self.facts()
        self.start = Disk(self.place)
        # The first run loads libraries, which later children then share.
        self.child(lambda: self.command(listed=True))
        for name in (folder / "modules").read_text().split():
            with suppress(Exception):
                import_module(name)
        self.back()
        self.operations = self.recorded()
        self.final = self.facts()
        self.back()

    def child(self, work: Callable[[], int], tracer: list[str] | None = None) -> int:
        """Run some work in a fork, with what it prints in a file. Return its exit code, or minus its signal."""
        process = os.fork()
        if not process:
            code = 99
            try:
                os.chdir(self.place)
                os.environ["DPENSEMBLE_STATE"] = str(self.place / "state")
                for stream, path in ((1, self.output), (2, self.log)):
                    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
                signal.alarm(PATIENCE)
                # A copy has another mark, but a power cut copies nothing.
                witness._is_same_mark = lambda *_: True
                while tracer and "TracerPid:\t0" in Path("/proc/self/status").read_text():
                    time.sleep(0.01)
                code = work()
            except ViolationError as violation:
                print(f"VIOLATION {violation}", file=sys.stderr)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        strace = subprocess.Popen([*tracer, "-p", str(process)], stderr=subprocess.DEVNULL) if tracer else None
        _, status = os.waitpid(process, 0)
        if strace is not None:
            strace.wait()
        return os.waitstatus_to_exitcode(status)

    def command(self, *, listed: bool = False) -> int:
        """Run the command of the scene. With `listed`, note which modules it loads."""
        code = run(self.scene.command)
        if listed:
            (self.folder / "modules").write_text("\n".join(sorted(sys.modules)))
        return code

    def recorded(self) -> list[tuple]:
        """Record what the command writes."""
        trace = self.folder / "trace"
        tracer = ["strace", "-f", "-y", "-xx", "-s", "99999999", "-e", f"trace={','.join(CALLS)}", "-o", str(trace)]
        self.require(self.child(self.command, tracer) == 0, "the command fails")
        found = operations(trace.read_text(), self.place, self.output)
        trace.unlink()
        return found

    def require(self, holds: bool, what: str) -> None:
        """End everything if the scene itself does not work."""
        if not holds:
            sys.exit(f"{self.scene.name}: {what}\n{self.log.read_text()[-2000:]}")

    def back(self) -> None:
        """Put back what there was before the command."""
        shutil.rmtree(self.place)
        shutil.copytree(self.folder / "before", self.place, symlinks=True)

    def facts(self) -> Facts:
        """Return what stands in the place now."""
        report = self.folder / "facts"
        self.child(lambda: report.write_bytes(pickle.dumps(Facts.read(self.scene))) and 0)
        return pickle.loads(report.read_bytes())  # noqa: S301  written by the child

    def interrupted(self, dice: random.Random, *, is_cut: bool) -> str:
        """Kill the command, or cut the power, at one moment. Return an empty text, or the violation."""
        disk, count = deepcopy(self.start), dice.randint(0, len(self.operations))
        for operation in self.operations[:count]:
            disk.apply(operation)
        was_placed = disk.node(f"{self.place}/out/run.json") is not None
        if is_cut:
            disk.cut(dice)
        shutil.rmtree(self.place)
        disk.write_to(self.place)
        is_reported, seen = disk.is_reported, self.final.release if was_placed or self.scene.is_drawn else None
        return self.judged(is_reported, seen, self.final, f"after {count} of {len(self.operations)} changes")

    def filled(self, dice: random.Random) -> str:
        """Let the disk be full from one moment on. Return an empty text, or the violation."""
        disk, used = deepcopy(self.start), [self.start.used()]
        for operation in self.operations[: dice.randint(0, len(self.operations))]:
            disk.apply(operation)
            used.append(disk.used())
        free = max(0, max(used) - used[0] - dice.choice((0, 0, PAGE)))
        self.back()
        status = os.statvfs(self.place)
        with (self.place.parent / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, max(1, status.f_bavail * status.f_bsize - free))
        code = self.child(self.command)
        printed = self.log.read_text()
        (self.place.parent / "filler").unlink()
        where = f"with {free:,} bytes free, exit code {code}"
        if code not in (0, 1, 2) or "Traceback" in printed:
            return f"{where}: UNFORESEEN {printed[-500:]}"
        now = self.facts()
        return self.judged(code == 0, now.release, replace(self.final, is_other=True), where)

    def judged(self, is_reported: bool, seen: str | None, final: Facts, where: str) -> str:
        """Check what is left, in a fork. Return an empty text, or the violation."""
        code = self.child(lambda: Check(self.scene, self.before, final, seen, is_reported).run())
        return "" if code == 0 else f"{where}: {self.log.read_text()[-700:] or code}"


@contextmanager
def workplace(*, is_small: bool) -> Iterator[Path]:
    """Make a folder to work in, on a small disk in memory if it has to be filled."""
    with tempfile.TemporaryDirectory(prefix="cuts-") as folder:
        disk = Path(folder, "disk")
        disk.mkdir()
        if is_small:
            subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={ROOM}", "cuts", str(disk)], check=True)
        try:
            yield Path(folder)
        finally:
            if is_small:
                subprocess.run(["/bin/umount", "-l", str(disk)], check=True)


def main(arguments: list[str] | None = None) -> int:
    """Run all tries, and print a table of what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind, what in zip(KINDS, ("kills", "power cuts", "full disks"), strict=True):
        parser.add_argument(f"--{kind}", type=int, default=20, help=f"{what} for each scene [20]")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments [0]")
    parser.add_argument("--scenes", default=",".join(scenes()), help="scenes, or beginnings of their names [all]")
    parser.add_argument("--minutes", type=float, default=600, help="no try begins after that [600]")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = parser.parse_args(arguments)
    end = time.monotonic() + 60 * asked.minutes
    chosen = [one for name, one in scenes().items() if name.startswith(tuple(asked.scenes.split(",")))]
    figures: dict[str, dict[str, int]] = {}
    violations: list[str] = []
    for scene in chosen:
        with workplace(is_small=asked.full > 0) as folder:
            trial, tried = Trial(scene, folder), figures.setdefault(scene.name, dict.fromkeys(KINDS, 0))
            for kind in KINDS:
                for number in range(getattr(asked, kind)):
                    if time.monotonic() > end:
                        break
                    dice = random.Random(f"{asked.seed} {scene.name} {kind} {number}")  # noqa: S311
                    problem = trial.filled(dice) if kind == "full" else trial.interrupted(dice, is_cut=kind == "cuts")
                    tried[kind] += 1
                    if problem:
                        violations.append(f"{scene.name}, {kind} {number}, {problem}")
                        print(violations[-1], file=sys.stderr, flush=True)
        if not asked.json:
            print(f"{scene.name:28s}", *(f"{tried[kind]:4d} {kind}" for kind in KINDS), len(violations), flush=True)
    total = {kind: sum(tried[kind] for tried in figures.values()) for kind in KINDS}
    if asked.json:
        print(json.dumps({"tries": figures, "total": total, "violations": violations}, indent=1))
    else:
        print(f"{total}, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
