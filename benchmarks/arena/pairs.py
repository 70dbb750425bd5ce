"""Two checkouts of the library beside each other: the same splits and seeds in turns, and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd

from arena.markdown import markdown
from arena.relations import NOMINAL
from arena.results import Results, Task
from arena.rivals import of_checkout
from arena.running import outcome_of
from arena.tables import Table

#: By metric, whether more is better, and the loss from which a table is flagged.
METRICS = {"accuracy": (True, 0.003), "auroc": (True, 0.003), "log_loss": (False, 0.005)}
_NAMES = ("accuracy", "AUROC", "log-loss")
_CONTESTANT = "label-moments"


@dataclass(frozen=True)
class Checkout:
    """A folder with a checkout, and a digest of the sources of its library, by which results are kept."""

    folder: Path
    digest: str


def checkout(folder: Path) -> Checkout:
    """Return the checkout in a folder."""
    sources = sorted((folder / "src").rglob("*.py"))
    if not sources:
        raise ValueError(f"--against {folder} has no folder src with Python files; give the folder of a checkout.")
    held = sha256()
    for path in sources:
        held.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return Checkout(folder.resolve(), held.hexdigest()[:12])


def two(earlier: Path, own: Path) -> tuple[Checkout, Checkout]:
    """Return both checkouts, which have to differ."""
    both = checkout(earlier), checkout(own)
    if both[0].digest == both[1].digest:
        raise ValueError(f"--against {earlier} has the same library as {own}; give a checkout that differs.")
    return both


@dataclass(frozen=True)
class Pairs:
    """Which fits are wanted of two checkouts, the earlier one first."""

    before: Checkout
    after: Checkout
    tables: Sequence[Table]
    epsilons: Sequence[float]
    splits: Sequence[int]
    draws: int

    def tasks(self) -> Iterator[Task]:
        """Return all fits, the two of a pair side by side. Which checkout is first changes from pair to pair."""
        turns = [self.before.digest, self.after.digest]
        for split in self.splits:
            for table in self.tables:
                for draw in range(self.draws):
                    for epsilon in table.epsilons or self.epsilons:
                        for version in turns:
                            yield Task(table.name, _CONTESTANT, version, epsilon, split, draw, NOMINAL)
                        turns.reverse()

    def run(self, task: Task, home: Path) -> dict:
        """Return the outcome of one fit by the checkout that the task names."""
        folder = {one.digest: one.folder for one in (self.before, self.after)}[task.version]
        return outcome_of(task, home, partial(of_checkout, folder, "label_moments"))

    def differences(self, known: Results) -> pd.DataFrame:
        """Return one row a pair that has both fits: table, epsilon, by how much each metric got better, seconds."""
        rows = []
        for task in self.tasks():
            if task.version == self.before.digest and task in known:
                pair = known[task], known.get(replace(task, version=self.after.digest), {"error": "not run"})
                if not any("error" in one for one in pair):
                    rows.append({"table": task.table, "epsilon": task.epsilon} | _difference(*pair))
        return pd.DataFrame(rows, columns=["table", "epsilon", *METRICS, "before", "after"])


def _difference(before: dict, after: dict) -> dict[str, float]:
    signs = {metric: 1 if more else -1 for metric, (more, _) in METRICS.items()}
    better = {metric: sign * (after[metric] - before[metric]) for metric, sign in signs.items()}
    return better | {"before": before["seconds"], "after": after["seconds"]}


def report(pairs: Pairs, known: Results) -> str:
    """Return mean differences by table and epsilon, with standard errors over pairs, and what got worse."""
    frame = pairs.differences(known)
    errors = sum("error" in known[task] for task in pairs.tasks() if task in known)
    lines, worse = [], []
    for (table, epsilon), part in frame.groupby(["table", "epsilon"], sort=False):
        cells = []
        for metric, (_, least) in METRICS.items():
            mean, error = part[metric].mean(), part[metric].std(ddof=1) / np.sqrt(len(part))
            flagged = bool(mean < -least and mean < -2 * error)
            cells.append(f"{mean:+.4f} ±{error:.4f}" + " **worse**" * flagged)
            worse += [f"{table} at epsilon {epsilon:g}: {metric} {mean:+.4f} ±{error:.4f}"] * flagged
        seconds = part["after"].sum() / max(part["before"].sum(), 1e-9)
        lines.append([str(table), f"{epsilon:g}", str(len(part)), *cells, f"{seconds:.2f}"])
    head = ("table", "epsilon", "pairs", *_NAMES, "CPU seconds, after to before")
    text = f"Before: {pairs.before.digest}, after: {pairs.after.digest}. {errors} fits ended in an error."
    text += " Differences above 0 are better, with standard errors over pairs."
    ends = "\n".join(f"- {line}" for line in worse) or "No table lost more than its limit and two standard errors."
    return f"{text}\n\n{markdown(head, lines)}\n{ends}\n"
