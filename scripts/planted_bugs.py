"""Plant bugs, one after the other, in copies of the tree, and report which level of tests catches each.

A bug is one line of `src/` that a careless edit could break. The script copies the tree to a temporary folder, replaces
the line there, and runs tests of the bug's subject by level: the fast ones, then what `make test` adds, then what runs
at night. It stops at the first level that fails. A line that is no longer there, or there twice, ends the script before
any test runs: choose another line of the same meaning.

Before the planted line stands a statement that marks that the line is executed. A bug counts as caught only if a test
executed the line, and if the test that failed passes once the line is as before. Each other end is a failure of the
script: "not caught", "never reached", "fails without the bug". Examples::

    python scripts/planted_bugs.py                      # the tests of each bug's subject: about an hour on one core
    python scripts/planted_bugs.py --only laws --only cli
    python scripts/planted_bugs.py --whole              # all tests, so that another subject's tests may catch a bug
    python scripts/planted_bugs.py --check              # only whether every line is still there
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = Path("src") / "dpensemble"
#: The marks of the tests that each level adds to those before.
LEVELS = {"test-fast": "not slow", "test": "slow and not nightly", "test-nightly": "nightly"}
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", "build", "dist", "site", "demo", "reproduced", "*.egg-info"
)


# Ends of a bug that no test catches.
NOT_CAUGHT, NEVER_REACHED, FAILS_ANYWAY = "not caught", "never reached", "fails without the bug"
# The statement before the planted line. No fault that a test plants in `os` or `pathlib` stops the mark.
MARKER = (
    'with __import__("contextlib").suppress(OSError): '
    '__import__("posix").close(__import__("posix").open({mark!r}, {flags}))'
)
_NO_TESTS = 5


@dataclass(frozen=True)
class Bug:
    """A bug to plant: its subject, what goes wrong, the line, what stands there instead, and the tests to ask."""

    subject: str
    harm: str
    line: str
    instead: str
    tests: tuple[str, ...]


BUGS = (
    Bug(
        "accounting",
        "a pair of laws no longer lies above those that it stands for",
        "raised = np.maximum((high - line).max(axis=1), 0.0)",
        "raised = np.maximum((high - line).min(axis=1), 0.0)",
        ("tests/accounting/test_worst_case.py", "tests/oracle"),
    ),
    Bug(
        "cost",
        "a Renyi curve becomes too small an epsilon",
        "epsilons = rdp + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)",
        "epsilons = rdp + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / orders",
        ("tests/cost", "tests/oracle"),
    ),
    Bug(
        "laws",
        "a draw that hits a boundary gets the outcome below: wrong by 2**-63",
        "return np.count_nonzero(noise.uniform_bits(len(cumulative))[:, None] >= cumulative, axis=1)",
        "return np.count_nonzero(noise.uniform_bits(len(cumulative))[:, None] > cumulative, axis=1)",
        ("tests/laws", "tests/statistical", "tests/audit"),
    ),
    Bug(
        "moments",
        "the sensitivity of means of features is that of one vector, not of a difference",
        "return RecordsQuery.replacing if self.nonnegative else 2 * WHOLE",
        "return WHOLE if self.nonnegative else 2 * WHOLE",
        ("tests/moments", "tests/releases", "tests/oracle"),
    ),
    Bug(
        "ledger",
        "an account admits releases beyond its delta",
        "return self.loss <= limit.loss and self.delta <= limit.delta",
        "return self.loss <= limit.loss",
        ("tests/server",),
    ),
    Bug(
        "service",
        "two holders of keys share the names of their requests",
        'request = f"{holder}:{key}"',
        "request = key",
        ("tests/server",),
    ),
    Bug(
        "cli",
        "an option that is written with = swallows the argument behind it",
        "del arguments[position : position + (1 if equals else 2)]",
        "del arguments[position : position + 2]",
        ("tests/cli",),
    ),
    Bug(
        "quality",
        "a released histogram has the sensitivity of one vector, not of a difference",
        "return math.isqrt(2 * self.n_histograms * WHOLE_UNIT**2) + 1",
        "return math.isqrt(self.n_histograms * WHOLE_UNIT**2) + 1",
        ("tests/quality", "tests/workflow"),
    ),
    Bug(
        "quality",
        "the interval of the AUROC begins at a curve over the bins, not at the worst order within bins",
        "above, spread = _distance(positive, negative, sigma, 0.0)",
        "above, spread = _distance(positive, negative, sigma, 0.5)",
        ("tests/quality",),
    ),
    Bug(
        "report",
        "the page says less of an attack than delta allows",
        "bound = min(1.0, grow * false_alarms + delta, 1 - (1 - delta - false_alarms) / grow)",
        "bound = min(1.0, grow * false_alarms, 1 - (1 - delta - false_alarms) / grow)",
        ("tests/report",),
    ),
    Bug(
        "datasets",
        "an undeclared label counts as the first class",
        "return places.get(label, BAD)",
        "return places.get(label, 0)",
        ("tests/datasets", "tests/methods"),
    ),
    Bug(
        "teachers",
        "private coefficients get half of their noise",
        "sensitivity = 2 * (_LENGTH + _GRADIENT) / penalty",
        "sensitivity = (_LENGTH + _GRADIENT) / penalty",
        ("tests/teachers", "tests/oracle", "tests/statistical"),
    ),
    Bug(
        "landmarks",
        "landmarks and the rest of the map are made of private rows",
        "method, public = self.method, self.public",
        "method, public = self.method, self.records.blocks[0].rows",
        ("tests/moments", "tests/methods/test_label_moments.py", "tests/oracle"),
    ),
    Bug(
        "gate",
        "a private label decides how many rounds follow",
        "has_decoder = as_library_transformer(self.feature_map).decoder_ is not None",
        "has_decoder = bool(getattr(self.feature_map, 'decoder_', 0)) and not self.records.blocks[0].targets[0]",
        ("tests/moments", "tests/methods/test_label_moments.py", "tests/oracle"),
    ),
    Bug(
        "noise",
        "every round draws the noise of the first round again",
        "draws = DiscreteNoise(self.noise)",
        'draws = DiscreteNoise(__import__("dpensemble._random", fromlist=["_"]).SeededNoise(7))',
        ("tests/releases", "tests/moments", "tests/methods/test_label_moments.py"),
    ),
    Bug(
        "rows",
        "a unit's records are counted after bad records became zeros",
        "units.append(UnitCounts.of(part.units, part.ranks))",
        "units.append(UnitCounts.of(as_hashes(part.units)[(good := part.targets >= 0)], "
        "None if part.ranks is None else part.ranks[good]))",
        ("tests/rows",),
    ),
    Bug(
        "rows",
        "units are equal if their entries are written alike, and not if they are one id",
        'hashes, present = RowChecksums(self.key).ids(cast("Rows", ids))',
        "hashes, present = RowChecksums(self.key).texts(ids), np.ones(n_rows, dtype=bool)",
        ("tests/rows",),
    ),
    Bug(
        "rows",
        "rows that nobody states to be fixed have no checksums",
        "task = PartTask(check, key, {} if here else versions(), checksums=facts.may_change, here=here)",
        'task = PartTask(check, key, {} if here else versions(), hasattr(source, "may_change"), here)',
        ("tests/rows",),
    ),
    Bug(
        "rows",
        "rows are held back by their places although the places are not fixed",
        "if not Facts.of(source).fixed_places:",
        'if not hasattr(source, "without"):',
        ("tests/rows",),
    ),
    Bug(
        "rows",
        "votes do not compare passes",
        "self.same.require((n_rows, checksum % CHECKSUMS))",
        "self.same.require((n_rows, 0))",
        ("tests/engine/test_voting.py",),
    ),
)


def place(bug: Bug, root: Path) -> tuple[Path, int]:
    """Return the file and the number of a bug's line. End the script if there is not exactly one."""
    places = [
        (path.relative_to(root), number)
        for path in sorted((root / SOURCES).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines())
        if line.strip() == bug.line
    ]
    if len(places) != 1:
        raise SystemExit(
            f"bug {bug.subject!r}: the line {bug.line!r} is in {SOURCES} {len(places)} times instead of once: write "
            "another line of the same meaning into scripts/planted_bugs.py."
        )
    missing = [tests for tests in bug.tests if not (root / tests).exists()]
    if missing:
        raise SystemExit(f"bug {bug.subject!r}: there are no tests {missing}: name others in scripts/planted_bugs.py.")
    return places[0]


def plant(bug: Bug, root: Path, mark: Path) -> Callable[[], None]:
    """Replace a bug's line in a copy of the tree, behind a statement that makes the file `mark`.

    Return what writes the line as it was before, and leaves the statement there.
    """
    file, number = place(bug, root)
    marker = MARKER.format(mark=str(mark), flags=os.O_CREAT | os.O_WRONLY)
    _rewrite(root / file, number, lambda line: line.replace(bug.line, marker) + line.replace(bug.line, bug.instead))
    return lambda: _rewrite(root / file, number + 1, lambda line: line.replace(bug.instead, bug.line))


def _rewrite(path: Path, number: int, change: Callable[[str], str]) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[number] = change(lines[number])
    path.write_text("".join(lines), encoding="utf-8")
    # Bytecode counts as that of its source by size and second: a planted line may be as long as the one it replaces.
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def run_tests(root: Path, targets: Sequence[str], *more: str) -> list[str] | None:
    """Run tests, and return the names of those that failed, or None if there are no such tests."""
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *more, *targets]
    process = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if process.returncode == _NO_TESTS:
        return None
    failed = [line for line in process.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    # 2: several processes were stopped after the first failure.
    if process.returncode and (process.returncode not in (1, 2) or not failed):
        raise SystemExit(f"pytest ended with {process.returncode}:\n{process.stdout[-3000:]}{process.stderr[-1000:]}")
    return [line.split(" ", 1)[1].split(" - ")[0] for line in failed]


def outcome(bug: Bug, root: Path, mark: Path, targets: Sequence[str], jobs: int = 1) -> tuple[str, str]:
    """Plant a bug in `root`. Return which level of tests catches the bug, or why none does, and the first test."""
    uproot = plant(bug, root, mark)
    several = ("-n", str(jobs)) if jobs > 1 else ()
    for level, marks in LEVELS.items():
        failed = run_tests(root, targets, "-m", marks, *several)
        if failed:
            # A failure before the planted line was executed has another reason.
            reached = mark.exists()
            uproot()
            return (level if reached and run_tests(root, failed[:1]) == [] else FAILS_ANYWAY), failed[0]
    return (NOT_CAUGHT if mark.exists() else NEVER_REACHED), ""


def main() -> int:
    """Plant the bugs that were asked for, and print a row of a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[bug.subject for bug in BUGS], help="one subject: repeat")
    parser.add_argument("--whole", action="store_true", help="run all tests, not only those of the subject")
    parser.add_argument("--check", action="store_true", help="only look whether every line is there")
    parser.add_argument("--jobs", type=int, default=1, help="processes of pytest (default 1)")
    options = parser.parse_args()
    bugs = [bug for bug in BUGS if not options.only or bug.subject in options.only]
    places = [place(bug, ROOT) for bug in bugs]
    if options.check:
        return 0
    print(
        "| subject | bug | where | caught by | first test that fails | seconds |\n|---|---|---|---|---|---|", flush=True
    )
    missed = 0
    for bug, (file, number) in zip(bugs, places, strict=True):
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            copy, mark = Path(folder) / "tree", Path(folder) / "reached"
            shutil.copytree(ROOT, copy, ignore=_LEFT_OUT, symlinks=True)
            end, test = outcome(bug, copy, mark, ["tests"] if options.whole else bug.tests, options.jobs)
        missed += end not in LEVELS
        seconds = time.monotonic() - start
        where = f"`{file.relative_to(SOURCES)}:{number + 1}`"
        print(f"| {bug.subject} | {bug.harm} | {where} | {end} | `{test}` | {seconds:.0f} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
