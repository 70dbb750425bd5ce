"""Bugs of `scripts/planted_bugs.py`: each line is there, and a bug that no test executed is not one that was missed."""

import dataclasses
import runpy
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = types.SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "planted_bugs.py"), run_name="planted_bugs"))


@pytest.mark.parametrize("bug", SCRIPT.BUGS, ids=lambda bug: bug.subject)
def test_every_line_is_there_once_and_its_tests_too(bug):
    SCRIPT.place(bug, ROOT)


def test_the_table_for_contributors_names_every_bug():
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = table.split("| subject | planted bug | caught by |\n")[1].split("\n\n")[0].splitlines()[1:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {bug.subject}" for bug in SCRIPT.BUGS]


BUG = SCRIPT.Bug("thing", "twice is thrice", "return 2 * number", "return 3 * number", ("tests",))
# The same text elsewhere, such as what stands in the place of the line, must not confuse what is planted.
SOURCE = """
def thrice(number):
    return 3 * number

def twice(number):
    return 2 * number
"""
HEAD = "import pytest\nfrom dpensemble.thing import thrice, twice\n"
TREES = {
    "test-fast": "def test_it(): assert twice(2) == 4",
    "test-nightly": "@pytest.mark.nightly\n@pytest.mark.slow\ndef test_it(): assert twice(2) == 4",
    "not caught": "def test_it(): assert twice(2)",
    "never reached": "def test_it(): assert thrice(2) == 6",
    "fails without the bug": "def test_it(): assert twice(2) == 5",
}


def tree(place, tests):
    """Write a library of one module and its tests."""
    for name, text in {
        "src/dpensemble/__init__.py": "",
        "src/dpensemble/thing.py": SOURCE,
        "tests/test_it.py": tests,
    }.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("end", "tests"),
    [*TREES.items(), ("fails without the bug", "def test_it(): assert thrice(2) == 5")],
    ids=[*TREES, "fails before the line"],
)
def test_ends_of_a_bug(tmp_path, end, tests):
    root, mark = tree(tmp_path / "tree", HEAD + tests), tmp_path / "reached"
    assert SCRIPT.outcome(BUG, root, mark, BUG.tests)[0] == end
    assert mark.exists() == ("twice(2)" in tests)


def test_a_planted_line_marks_that_it_was_executed(tmp_path):
    root, mark = tree(tmp_path / "tree", HEAD), tmp_path / "reached"
    uproot = SCRIPT.plant(BUG, root, mark)
    planted = runpy.run_path(str(root / "src" / "dpensemble" / "thing.py"))
    assert planted["thrice"](2) == 6
    assert not mark.exists()
    assert planted["twice"](2) == 6
    assert mark.exists()
    uproot()
    restored = runpy.run_path(str(root / "src" / "dpensemble" / "thing.py"))
    assert (restored["twice"](2), restored["thrice"](2)) == (4, 6)


def test_a_line_or_a_folder_of_tests_that_is_gone_ends_the_script(tmp_path):
    root = tree(tmp_path, HEAD)
    with pytest.raises(SystemExit, match="0 times instead of once"):
        SCRIPT.place(dataclasses.replace(BUG, line="return 4 * number"), root)
    with pytest.raises(SystemExit, match="there are no tests"):
        SCRIPT.place(dataclasses.replace(BUG, tests=("tests", "tests/gone")), root)
