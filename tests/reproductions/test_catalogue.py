"""The declared tables are complete: each printed figure has a place, and every experiment can list its runs."""

import re

import pytest

from dpensemble.errors import FileError, InvalidParameterError
from reproductions import TABLES, Panel, chosen, rows_of
from reproductions.catalogue import read_tables


def test_names_are_unique_and_fit_for_a_command_line():
    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in names)
    experiments = {table.experiment.name: table.experiment for table in TABLES}
    assert all(table.experiment is experiments[table.experiment.name] for table in TABLES)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_printed_number_has_a_column(table):
    places = {(panel.title, column) for panel in table.panels for column in panel.columns}
    for row, printed in table.published.items():
        assert set(printed) <= places, row


@pytest.mark.parametrize("table", [t for t in TABLES if t.experiment.missing() is None], ids=lambda table: table.name)
def test_quick_runs_are_smaller_than_full_ones(table):
    def seconds(quick):
        cells = list(table.experiment.cells(table.experiment.chosen(quick=quick), 0))
        assert len({cell.name for cell in cells}) == len(cells)
        return sum(cell.seconds for cell in cells)

    assert 0 < seconds(True) <= seconds(False)


def test_all_quick_runs_together_are_meant_to_take_minutes():
    experiments = {table.experiment.name: table.experiment for table in TABLES}
    ready = [experiment for experiment in experiments.values() if experiment.missing() is None]
    cells = [cell for one in ready for cell in one.cells(one.chosen(quick=True), 0)]
    # Two cores for 10 minutes.
    assert sum(cell.seconds for cell in cells) < 2 * 10 * 60


def test_tables_are_chosen_by_name_by_beginning_or_all():
    assert [table.name for table in chosen(["dpbag-5", "dpbag-6"])[0]] == ["dpbag-5", "dpbag-6"]
    assert len(chosen(["dpbag"])[0]) == 8
    assert chosen(["all"]) == (list(TABLES), True)
    with pytest.raises(
        InvalidParameterError, match=r"table='dpbag-9' is unknown: use all, or some of dpbag-1, dpbag-2"
    ):
        chosen(["dpbag-9"])


def test_rows_as_printed_must_be_whole():
    panels = (Panel(title="A", columns=("x", "y")), Panel(title="B", columns=("x", "y")))
    assert rows_of(panels, {"r": "1 - .5 2,000"})["r"] == {("A", "x"): 1.0, ("B", "x"): 0.5, ("B", "y"): 2000.0}
    with pytest.raises(InvalidParameterError, match="has 3 entries and not 4"):
        rows_of(panels, {"r": "1 2 3"})
    assert rows_of(panels, {"r": ""}) == {"r": {}}


DECLARED = """
paper = "Nobody,"
[notes]
shared = "A shared sentence."
[experiments.tiny]
run = "dpbag"
[experiments.tiny.settings]
[[tables]]
name = "nobody-1"
where = "table 1"
title = "Nothing"
experiment = "tiny"
about = ["shared", "And one of its own."]
panels = [{ title = "A", columns = ["x"] }]
[tables.published]
row = "1"
"""


def test_a_file_declares_tables_and_shares_notes(tmp_path):
    path = tmp_path / "nobody.toml"
    path.write_text(DECLARED)
    (table,) = read_tables(path)
    assert (table.where, table.about) == ("Nobody, table 1", "A shared sentence. And one of its own.")
    assert table.published == {"row": {("A", "x"): 1.0}}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('title = "Nothing"', 'titel = "Nothing"', "table 'nobody-1' has an unknown key 'titel'"),
        ('run = "dpbag"', 'run = "magic"', "lacks or does not know 'magic'"),
        ('where = "table 1"', "", "lacks or does not know 'where'"),
        ('row = "1"', 'row = "1 2"', "has 2 entries and not 1"),
        ("[notes]", "[notes", "cannot be read as TOML"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_place(tmp_path, before, after, message):
    path = tmp_path / "nobody.toml"
    path.write_text(DECLARED.replace(before, after))
    with pytest.raises(FileError, match=re.escape(message)) as error:
        read_tables(path)
    assert "nobody.toml" in str(error.value)
