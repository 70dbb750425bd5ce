"""Commands for `power_cuts.py` to interrupt, what is done before them, and what they leave in a folder."""

from __future__ import annotations

import hashlib
import os
import random
import shlex
import signal
import zipfile
from dataclasses import dataclass
from pathlib import Path

from dpensemble.cli import main as dpensemble
from dpensemble.errors import DPEnsembleError
from dpensemble.server import Ledger
from dpensemble.workflow import disk

METHODS = (
    *("pate", "bagged-pate", "dpbag", "saa", "random-subspace", "private-majority", "soft-votes", "label-moments"),
    *("discriminant", "upsampling-pate", "weighting-pate", "vanishing-pate"),
)
_GROUPED = ("upsampling", "weighting", "vanishing")
TABLES = "--private private.csv --public public.csv --target y --classes 0,1 --delta 1e-5 --quiet --json --out out"
CREATE = "ledger create books/ledger.db --json"
OPEN = "ledger open books/ledger.db people --epsilon 1000 --delta 1e-3 --json"
CHARGE = "ledger charge books/ledger.db people --epsilon 0.5 --delta 1e-9 --what table --json"
CHECKPOINT = "ledger checkpoint books/ledger.db --out october.json --json"
RESTORED = "ledger restored books/ledger.db --checkpoint october.json --nothing-released --json"
EXPORT = "ledger export books/ledger.db --out all.jsonl"
KEY = "keys create keys.json alice --scope read --json"


@dataclass(frozen=True)
class Scene:
    """A command, what is done before, the files that it writes, and what must work afterwards.

    A command before that begins with ``@STEP`` is killed at that step of the way to the disk.
    """

    name: str
    command: str
    before: tuple[str, ...] = (CREATE, OPEN, CHARGE)
    files: tuple[str, ...] = ()
    after: tuple[str, ...] = (CHARGE,)
    #: The training that the command does or finishes, and whether all noise is drawn before.
    training: str = ""
    is_drawn: bool = False
    #: Whether the command lets a ledger be used that is refused before.
    restores: bool = False


def training(method: str) -> str:
    """Return the command of a training."""
    budget = "--budgets g --levels 0=4,1=8" if method.startswith(_GROUPED) else "--epsilon 2 --drop g"
    if method == "private-majority":
        budget += " --teachers 11 --teacher-epsilon 0.1"
    elif method not in ("label-moments", "discriminant"):
        budget += " --teachers 20 --jobs 1"
    return f"train {method} {TABLES} {budget} --ledger books/ledger.db --data-set people"


def scenes() -> dict[str, Scene]:
    """Return all scenes by name."""
    train, opened = training("label-moments"), (CREATE, OPEN)
    done, stopped = (*opened, train), ("spent", "files written", "finished")
    recovering = {f"recover after {step!r}": (*opened, f"@{step}@{train}") for step in stopped}
    listed = [
        Scene("ledger create", CREATE, (), after=(OPEN, CHARGE)),
        Scene("ledger open", OPEN, (CREATE,)),
        Scene("ledger charge", CHARGE),
        Scene("ledger checkpoint", CHECKPOINT, files=("october.json",), after=(CHECKPOINT, CHARGE)),
        Scene("ledger restored", RESTORED, (CREATE, OPEN, CHARGE, CHECKPOINT, "@lost@"), restores=True),
        Scene("ledger export", EXPORT, files=("all.jsonl",), after=(EXPORT, CHARGE)),
        Scene("keys create", KEY, (KEY,), ("keys.json",), after=(KEY,)),
        Scene("predict", "predict out public.csv --out labels.csv", done, ("labels.csv",)),
        Scene("report", "report out --title again", done, ("out/report.html",)),
        *(
            Scene(name, "recover out --json", before, training=train, is_drawn="spent" not in name)
            for name, before in recovering.items()
        ),
        *(Scene(f"train {method}", training(method), opened, training=training(method)) for method in METHODS),
    ]
    return {scene.name: scene for scene in listed}


@dataclass(frozen=True)
class Facts:
    """What stands in a folder: kinds and hashes of a ledger's entries, a digest of the release, and files."""

    entries: list[tuple[str, str]] | None
    release: str | None
    files: dict[str, bytes | None]
    #: Whether the run that is judged is not the recorded one, so that its keys and times differ.
    is_other: bool = False

    @classmethod
    def read(cls, scene: Scene) -> Facts:
        """Read the facts of the current folder."""
        try:
            entries = [(entry.kind, entry.hash) for entry in Ledger("books/ledger.db").entries()]
        except DPEnsembleError:
            entries = None
        paths = [Path(name) for name in scene.files]
        return cls(entries, release(), {str(path): path.read_bytes() if path.exists() else None for path in paths})


def release() -> str | None:
    """Return a digest of the labels and the student of a run, without their times, or None."""
    if not Path("out/run.json").exists():
        return None
    with zipfile.ZipFile("out/student.skops") as student:
        # The schema and the names hold addresses of objects.
        parts = sorted(str(part.CRC) for part in student.infolist() if part.filename != "schema.json")
    labels = Path("out/labels.csv")
    parts += [labels.read_text()] if labels.exists() else []
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def alike(content: bytes | None, other: bytes | None) -> bool:
    """Return whether a file is as complete as that of another run: as many lines, and the same end."""
    return (
        content is not None
        and other is not None
        and content[-2:] == other[-2:]
        and content.count(b"\n") == other.count(b"\n")
    )


def run(command: str) -> int:
    """Run a command of dpensemble in this process."""
    return dpensemble(shlex.split(command))


def prepared(command: str) -> int:
    """Do one thing of those before a scene."""
    if command == "@lost@":
        next(Path("state").glob("*.witness")).unlink()
        return 0
    if command.startswith("@"):
        _, step, command = command.split("@")
        disk.step = lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == step else None
    return run(command)


def write_tables(folder: Path) -> None:
    """Write a private table with a column of groups, and a public table."""
    dice = random.Random(0)  # noqa: S311  no secrets here
    rows = [(dice.gauss(0, 1), dice.gauss(0, 1)) for _ in range(300)]
    private = [f"{a},{b},{int(a + b > 0)},{row % 2}" for row, (a, b) in enumerate(rows[:240])]
    # A folder of its own, so that what flushes the ledger's names flushes no other names.
    (folder / "books").mkdir()
    (folder / "private.csv").write_text("\n".join(["a,b,y,g", *private]) + "\n")
    (folder / "public.csv").write_text("\n".join(["a,b", *(f"{a},{b}" for a, b in rows[240:])]) + "\n")
