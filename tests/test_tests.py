"""Rules of the tests themselves: none reads a clock, and no command hides that one failed."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Files that may use `time`, and why.
WITH_A_CLOCK = {
    "tests/deadline.py": "ends tests that hang",
    "tests/sites/test_exchange.py": "sets a wrong clock, and reads none",
    "tests/sites/test_bad_input.py": "sets a wrong clock, and reads none",
    "tests/durations.py": "measures tests, and decides none",
    "tests/clusters/test_dask.py": "teachers that take a while, so that a worker can be killed in the middle",
    "tests/server/test_sign_in.py": "waits for what a lock prevents, and passes whatever comes first",
}
CLOCKS = {"now", "utcnow", "today"}
WAITING = {"wait", "join", "result", "communicate"}
# In programs that tests start.
IN_TEXT = re.compile(r"\bimport [\w, ]*\btime\b|\bfrom time import\b|\btime\.\w+\(")


@cache
def tree_of(path):
    """Return the syntax tree of a file of tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


def clock_reads(tree):
    """Return the lines of a module that read a clock, sleep, or end a wait after seconds of their own."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = any(alias.name.split(".")[0] == "time" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found = node.module == "time"
        elif isinstance(node, ast.Constant):
            found = isinstance(node.value, str) and bool(IN_TEXT.search(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            numbers = [one.value for one in node.keywords if one.arg == "timeout"]
            numbers += node.args if name in WAITING else []
            is_number = [isinstance(one, ast.Constant) and type(one.value) in (int, float) for one in numbers]
            of = ast.unparse(node.func).split(".")[-2:-1]
            found = any(is_number) or (name in CLOCKS and of in (["datetime"], ["date"], ["Timestamp"]))
        else:
            found = False
        if found:
            lines.append(node.lineno)
    return sorted(set(lines))


def test_no_test_reads_a_clock():
    """A busy machine makes such a test fail. Count calls, wait by `deadline.until`, or hand in a clock."""
    paths = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__)]
    found = {path.relative_to(ROOT).as_posix(): clock_reads(tree_of(path)) for path in paths}
    found = {name: lines for name, lines in found.items() if lines}
    assert {name: lines for name, lines in found.items() if name not in WITH_A_CLOCK} == {}
    # An exception that is not needed any more goes.
    assert found.keys() >= WITH_A_CLOCK.keys()


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import perf_counter",
        "datetime.datetime.now(datetime.UTC)",
        "event.wait(20)",
        "process.communicate(timeout=5)",
        "code = 'import sys, time'",
    ],
)
def test_a_clock_is_found(source):
    assert clock_reads(ast.parse(source)) == [1]
    assert clock_reads(ast.parse("process.communicate(timeout=GUARD)\n','.join(names)\nrow.wait()")) == []


# Names of tests that show that a fault is found.
FINDS = re.compile(
    r"_(is|are)_(caught|found|noticed|seen|detected)$|_shows?$|_would_(show|be_\w+)$|_(can|could)_fail$"
    r"|_are_rehearsed_before_it$|_fails_in_the_rehearsal$"
)
PATCHES = re.compile(r"\bmonkeypatch\b|\bpatched?\.setattr\b")


def missed_plants(tree):
    """Return the names of tests that find a fault which is not planted by `plant`."""
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and FINDS.search(node.name)]
    return [
        node.name
        for node in tests
        if node.name.startswith("test_")
        and "plant" not in {one.arg for one in node.args.args}
        and PATCHES.search(ast.unparse(node))
    ]


def test_faults_of_tests_by_these_names_are_planted_where_they_are_counted():
    """What is planted by `plant` states that a run reached it."""
    missed = {
        path.relative_to(ROOT).as_posix(): names
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if (names := missed_plants(tree_of(path)))
    }
    assert missed == {}
    assert missed_plants(ast.parse("def test_a_gate_would_show(monkeypatch): monkeypatch.setattr(gate, 'open', 1)"))
    assert not missed_plants(ast.parse("def test_a_gate_would_show(plant, monkeypatch): plant(gate, 'open', 1)"))


# What tests, and may fail for that reason.
TESTS = re.compile(r"\bpytest\b|\bmake (--\S+ )*(test|check|clusters|lint|types|docs|wheel|oldest|coverage)")


def commands():
    """Yield the lines of scripts of the tree: of continuous integration, the Makefile, and documentation."""
    paths = [*(ROOT / ".ci").iterdir(), ROOT / "Makefile", *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for path in paths:
        for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            yield path.name, line


def test_no_command_hides_that_a_test_failed():
    hidden = [
        (name, line)
        for name, line in commands()
        if TESTS.search(line) and (re.search(r"\|\|(?!`)|;\s*true\b", line) or line.startswith("\t-"))
    ]
    assert hidden == []


def test_what_has_to_pass_includes_the_tests_that_run_at_night():
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert "set -euo pipefail" in lines
    assert lines.index("make test") < lines.index("make test-nightly")


def test_all_files_that_need_clusters_or_databases_are_among_their_tests():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.search(r"^test-clusters:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE).group(1).split()
    needs = re.compile(r"importorskip\(\s*\"(distributed|dask|pyspark|duckdb|polars|adbc)")
    found = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if needs.search(path.read_text(encoding="utf-8"))
    ]
    assert [name for name in found if name not in named and not name.startswith("tests/clusters/")] == []
