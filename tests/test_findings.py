"""The page of findings names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (?P<part>[^|]+) \| (?P<finding>[^|]+) \| (?P<tests>[^|]+) \|$")
PAGE = ROOT / "docs" / "findings.md"
ROWS = [row for row in map(ROW.match, PAGE.read_text().splitlines()) if row and "`" in row["tests"]]


def test_every_line_of_the_table_is_read():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    assert len(lines) == len(ROWS) + 2


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["finding"][:40])
def test_the_tests_of_a_finding_exist(row):
    names = re.findall(r"`(tests/\S+\.py)::(\w+)`", row["tests"])
    assert names, f"{row['finding']} names no test as `tests/FILE.py::test_name`"
    for path, name in names:
        tree = ast.parse((ROOT / path).read_text())
        functions = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        assert name in functions, f"{path} has no {name}"
