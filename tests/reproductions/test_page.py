"""The page of a table, and the page of results, which matches the committed results and leaves out no table."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from reproductions import TABLES, RunSettings, TableResult, read_results, reproduce, results_page, write_results
from reproductions.coverage import COVERAGE, TEXTS
from reproductions.page import as_html, as_markdown, blocks_of
from reproductions.store import Stored
from reproductions.summary import summary


def page(table, tmp_path, **settings):
    (result,) = reproduce([table], RunSettings(out=tmp_path, **settings), lambda _: None)
    return result, blocks_of(table, result)


def test_a_table_shows_published_reproduced_difference_and_what_is_beside(tiny, tmp_path):
    result, blocks = page(tiny(), tmp_path)
    shown = as_markdown(blocks)
    assert "| Mean | published | reproduced | difference | median |" in shown
    one, three = result.entries
    assert f"| one | 1.00 | {one.reproduced:.2f} ± {one.spread:.2f} |" in shown
    # In bold, since it is more than twice the spread.
    assert f"**{three.difference:+.2f}**" in shown
    assert "The printed 3.5 was made up." in " ".join(shown.split())
    assert "4 runs, first seed 0, full settings" in " ".join(shown.split())
    assert "`python -m reproductions tiny-1`" in " ".join(shown.split())


def test_quick_results_say_that_they_are(tiny, tmp_path):
    _, blocks = page(tiny(), tmp_path, quick=True)
    shown = " ".join(as_markdown(blocks).split())
    assert "1 run, first seed 0, quick settings, which are smaller than the paper's" in shown
    assert "`python -m reproductions tiny-1 --quick`" in shown
    assert "*Sentences on this table describe the full settings.*" in shown


def test_a_difference_that_rounds_to_zero_has_no_sign(tiny, tmp_path):
    result, _ = page(tiny(), tmp_path)
    equal = [replace(entry, published=entry.reproduced + 0.001) for entry in result.entries]
    shown = as_markdown(blocks_of(tiny(), replace(result, entries=equal)))
    assert shown.count("| 0.00 |") == len(equal)
    assert "-0.00" not in shown


def test_html_holds_the_same_and_loads_nothing(tiny, tmp_path):
    _, blocks = page(tiny(), tmp_path)
    html = as_html("<Results>", blocks)
    assert "&lt;Results&gt;" in html
    assert "<th>difference</th>" in html
    assert "<strong>" in html
    assert not re.search(r"(?:src|href)=\"?https?:|<script", html)
    assert re.findall(r"<td>(1\.00)</td>", html)


def test_a_result_survives_json(tiny, tmp_path):
    result, _ = page(tiny(), tmp_path)
    assert TableResult.from_dict(result.to_dict()) == result


ROOT = Path(__file__).parents[2]
RESULTS = read_results(ROOT / "docs" / "results")
# How many tables and figures have numbers or curves to reproduce, by what the texts call them.
EXPECTED = {
    TEXTS[0]: {"Table 1", "Table 2"},
    TEXTS[1]: {f"Table {number}" for number in range(1, 9)},
    TEXTS[2]: {f"Table {number}" for number in range(1, 7)} | {"Figure 1", "Figure 2"},
    TEXTS[3]: {"Figure 1", "Figure 2", "Table 1"},
    TEXTS[4]: {f"Table {number}" for number in range(1, 11)} | {f"Figure {number}" for number in range(1, 5)},
}


def test_the_page_agrees_with_the_results():
    found = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert found == as_markdown(results_page.page(RESULTS)), "run python -m reproductions.results_page"


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_committed_results_are_of_declared_tables_and_print_what_those_print(name):
    table = {table.name: table for table in TABLES}[name]
    for entry in RESULTS[name].entries:
        assert entry.published == table.published.get(entry.row, {}).get((entry.panel, entry.column))
        assert set(entry.beside) <= set(table.beside)


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_where_figures_differ_the_page_says_why(name):
    table = {table.name: table for table in TABLES}[name]
    assert not RESULTS[name].counts()["differ"] or len(table.why) > 40


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_was_not_run_or_run_too_few_times_has_a_reason_on_the_page(table):
    result = RESULTS.get(table.name)
    if result is None or not result.judged:
        assert len(table.few_runs) > 30
        shown = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
        assert " ".join(table.few_runs.split()) in shown


def test_every_table_and_figure_of_the_texts_is_covered_once():
    assert tuple(dict.fromkeys(one.text for one in COVERAGE)) == TEXTS
    for text, expected in EXPECTED.items():
        numbers = [one.number for one in COVERAGE if one.text == text]
        assert len(set(numbers)) == len(numbers)
        assert expected <= set(numbers)


def test_every_declared_table_is_in_the_coverage():
    shown = {one.how for one in COVERAGE}
    assert {f"`python -m reproductions {table.name}`" for table in TABLES} <= shown


def test_the_figures_of_the_page_are_drawn_from_the_results(tmp_path):
    results_page.draw(RESULTS, tmp_path)
    pictures = re.findall(r"\]\(images/(results-\S+\.svg)\)", (ROOT / "docs" / "results.md").read_text())
    assert len(pictures) == 4
    for picture in pictures:
        assert (tmp_path / picture).read_text() == (ROOT / "docs" / "images" / picture).read_text()


def test_a_published_run_is_continued_from_its_finished_parts(tiny, counter, tmp_path):
    first, published = RunSettings(out=tmp_path / "first", repeats=1), tmp_path / "published"
    published.mkdir()
    write_results(reproduce([tiny()], first, lambda _: None), first.out)
    results_page.take(first.out, published)
    assert read_results(published)["tiny-1"].runs == 1
    # As the documentation states: copy the cells, and ask for more repeats.
    later = RunSettings(out=tmp_path / "later", repeats=3)
    shutil.copytree(published / "cells", later.out / "cells")
    assert reproduce([tiny()], later, lambda _: None)[0].runs == 3
    assert sorted(counter.ran) == [(name, repeat) for name in ("one", "three") for repeat in range(3)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_published_parts_give_the_published_figures(table, monkeypatch):
    # Figures need no library that computed them.
    monkeypatch.setattr("reproductions.summary.versions", lambda more: {})
    folder, result = ROOT / "docs" / "results" / "cells" / "full" / table.experiment.name, RESULTS.get(table.name)
    parts = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    if result is None or not parts:
        pytest.skip("its parts, or its figures, are not published")
    settings = table.experiment.chosen(quick=False, repeats=result.runs)
    names = [cell.name for cell in table.experiment.cells(settings, result.seed)]
    if not set(names) <= parts.keys():
        pytest.skip("its parts are those of a run that is not finished")
    stored = {name: Stored(**{key: value for key, value in parts[name].items() if key != "stamp"}) for name in names}
    assert summary(table, stored, result.quick, result.seed).entries == result.entries
