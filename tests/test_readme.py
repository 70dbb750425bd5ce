"""The README is short, its commands run, its chart is up to date, and its links work on a package index."""

import re
import runpy
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from dpensemble.cli import main
from scripts import readme_chart

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = "".join(re.findall(r"^```sh\n(.*?)^```", README, re.DOTALL | re.MULTILINE))
#: Sentences that the README quotes from its example.
PRINTED = [" ".join(quote.replace("> ", "").split()) for quote in re.findall(r"(?:^> .*\n)+", README, re.MULTILINE)]
COMMANDS = re.findall(r"^dpensemble (.+?) *(?:#.*)?$", SHELL, re.MULTILINE)


@pytest.fixture
def standalone(monkeypatch):
    """Return the function that the build applies to the README, with a stand-in for hatchling."""
    name = "hatchling.metadata.plugin.interface"
    module = ModuleType(name)
    module.MetadataHookInterface = object
    monkeypatch.setitem(sys.modules, name, module)
    for end in (1, 2, 3):
        parent = ".".join(name.split(".")[:end])
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    return runpy.run_path(str(ROOT / "scripts" / "package_readme.py"))["standalone"]


def test_it_has_at_most_550_words():
    assert len(README.split()) <= 550


def test_set_up_commands_stay():
    assert "\nmake demo " in README
    assert "\nmake test " in README


def test_it_has_two_commands():
    assert [command.split()[0] for command in COMMANDS] == ["train", "plan"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 0
    out = capsys.readouterr().out
    assert out
    if command.startswith("train"):
        printed = " ".join(out.split())
        assert len(PRINTED) == 2
        assert [sentence for sentence in PRINTED if sentence not in printed] == []
    assert (tmp_path / "adult" / "report.html").exists() == command.startswith("train")


def test_the_chart_shows_the_arena_as_measured():
    assert readme_chart.PICTURE.read_text(encoding="utf-8") == readme_chart.picture(), "run scripts/readme_chart.py"


def test_rivals_are_shown_at_the_budget_that_promises_the_same():
    row = {"table": "adult", "version": 1, "epsilon": 1.0, "budget": "nominal"}
    fits = [row | {"contestant": name, "accuracy": 0.8} for name in readme_chart.TITLES]
    halved = row | {"contestant": "dp-ebm", "accuracy": 0.6, "budget": "halved"}
    assert {by["adult"] for by in readme_chart.accuracies(fits).values()} == {0.8}
    assert readme_chart.accuracies([*fits, halved])["dp-ebm"] == {"adult": 0.6}
    newer = row | {"contestant": "dp-ebm", "accuracy": 0.7, "version": 2}
    assert readme_chart.accuracies([*fits, newer])["dp-ebm"] == {"adult": 0.7}
    with pytest.raises(ValueError, match="dp-ebm failed on adult"):
        readme_chart.accuracies([*fits, newer | {"error": "no time"}])


def test_the_chart_is_drawn_alike_everywhere():
    """Other renderers have shown text with a stroke as white shapes, and know no fonts, styles or scripts of ours."""
    shapes = list(ElementTree.fromstring(readme_chart.picture()).iter())  # noqa: S314
    assert {shape.tag.split("}")[1] for shape in shapes} == {"svg", "title", "rect", "circle", "text"}
    assert not any({"stroke", "style", "class"} & set(shape.attrib) for shape in shapes)


def test_links_lead_to_the_repository_when_its_address_is_known(standalone):
    page = standalone(README, "https://example.org/owner/name/")
    assert re.findall(r"\]\((?!https://)", page) == []
    assert "](https://example.org/owner/name/blob/main/docs/tutorial.md)" in page
    assert "](https://example.org/owner/name/raw/main/docs/images/readme.svg)" in page
    assert "](https://example.org/owner/name/raw/main/docs/images/report.png)" in page


def test_links_are_plain_text_when_no_address_is_known(standalone):
    page = standalone(README, None)
    assert re.findall(r"\]\(", page) == []
    assert "**Publish a classifier →** From your own table" in page
    assert "\n*Accuracy at epsilon 1: dpensemble beside" in page
    assert "\n*First screen of the report*\n" in page


def test_code_and_absolute_links_are_left_alone(standalone):
    page = "`f[0](x)` [a](https://example.org) [b](#here)\n```\nf[0](x)\n```\n"
    assert standalone(page, None) == page


def test_the_arena_at_the_epsilon_that_rivals_name_is_as_measured():
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    part = page[page.index("### At the epsilon that rivals name") :].split("\n### ")[0]
    fits = readme_chart.all_results()
    # At half of epsilon 1, for replacing a record, a rival runs at an epsilon of 0.5 of its own.
    rivals = [(name, "halved", 1.0) for name in ("dp-ebm", "dp-sgd-linear", "dp-sgd-network")]
    columns = [("label-moments", "nominal", 0.5), *rivals]
    rows = re.findall(r"^\| (\w+) \| (0\..*) \|$", part, re.MULTILINE)
    assert len(rows) == 14
    for table, cells in rows:
        for cell, (name, budget, epsilon) in zip(cells.split("|"), columns, strict=True):
            wanted = (name, budget, epsilon, table)
            mine = [f for f in fits if (f["contestant"], f["budget"], f["epsilon"], f["table"]) == wanted]
            expected = f"{sum(f['accuracy'] for f in mine) / len(mine):.3f}" if mine else ""
            assert cell.strip() == expected, (table, name)
