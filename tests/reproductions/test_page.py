"""The page of a table."""

import re
from dataclasses import replace

from reproductions import RunSettings, TableResult, reproduce
from reproductions.page import as_html, as_markdown, blocks_of


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
