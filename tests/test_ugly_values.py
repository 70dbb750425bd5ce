"""Generated ugly tables are read as what they mean. `scripts/ugly_values.py` tries five hundred."""

import runpy
from pathlib import Path

import numpy as np
import pytest

UGLY = runpy.run_path(str(Path(__file__).parent.parent / "scripts" / "ugly_values.py"))


# Warnings are lines on the screen there, as they are for people.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("tables", "seed"), [(2, 0), (1, 21), *((100, 1000 + 100 * part) for part in range(5))])
def test_no_ugly_table_is_read_as_something_else(tables, seed, capsys):
    """By day two tables, and one of which a typed 1,383 stood beside stored numbers."""
    outcome = UGLY["run"](tables, seed)
    assert not outcome.wrong, capsys.readouterr().out
    ways = {way for _, way in outcome.columns}
    assert "refused with both options" in ways
    assert outcome.entries["number"] + outcome.entries["day"] > 100 * tables


@pytest.mark.filterwarnings("ignore")
def test_a_reader_with_other_marks_is_caught(tmp_path):
    """The truth does not come from the reader: points and commas the other way round are found."""
    table = UGLY["table_of"](8)
    for column in table.columns.values():
        column.meanings = [value * 10 if isinstance(value, float) else value for value in column.meanings]
    outcome = UGLY["judged"](table, tmp_path)
    numbers = [column for column in table.columns.values() if any(isinstance(one, float) for one in column.meanings)]
    assert numbers
    assert outcome.wrong


@pytest.mark.parametrize(
    ("value", "marks", "text"),
    [(1234.5, (".", ","), "1.234,50"), (1234567.25, ("'", "."), "1'234'567.25"), (0.5, (",", "."), "0.50")],
)
def test_numbers_are_written_by_the_marks_of_a_locale(value, marks, text):
    assert UGLY["number_text"](value, 2, *marks) == text


def test_every_other_table_has_a_column_of_two_formats():
    tables = [UGLY["table_of"](seed) for seed in range(20)]
    doubtful = [any(one.options and not one.may_be_read for one in table.columns.values()) for table in tables]
    assert np.mean(doubtful[1::2]) > 0.7
    assert not any(doubtful[::2])
    assert len({table.locale.name for table in tables}) >= 6
