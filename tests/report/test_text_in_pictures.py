"""No text of a picture has an outline, because programs that do not know ``paint-order`` draw it over the letters."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import dpensemble
from dpensemble.cli.output import write_charts
from dpensemble.report.charts import _LETTER, Limit, Series, Words, _label, line_chart

PICTURES = sorted((Path(__file__).parents[2] / "docs" / "images").glob("*.svg"))
PACKAGE = Path(dpensemble.__file__).parent
STYLES = [PACKAGE / "report" / "template.html", PACKAGE / "server" / "static" / "page.css"]
RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")


def outlines(css):
    """Return the last part of each selector that draws a stroke."""
    found = []
    for selectors, declarations in RULE.findall(css):
        stroke = re.search(r"(?:^|[;\s])stroke:\s*([^;]+)", declarations)
        if stroke and stroke[1].strip() != "none":
            found += [one.split()[-1] for one in selectors.split(",") if one.split()]
    return found


def outlined(svg):
    """Return the texts of a picture that have an outline, by a rule, an attribute or a parent's attribute."""
    root = ElementTree.fromstring(svg)  # noqa: S314 - of our own
    tag = "{http://www.w3.org/2000/svg}" if root.tag.startswith("{") else ""
    rules = [rule for style in root.iter(f"{tag}style") for rule in outlines(style.text)]
    wrong = []

    def walk(element, stroke):
        stroke = element.get("stroke", stroke)
        # A hidden copy below a text, in one colour, is only the ground of the text.
        is_ground = element.get("aria-hidden") == "true" and stroke == element.get("fill")
        if element.tag == f"{tag}text" and not is_ground:
            classes = {f".{name}" for name in element.get("class", "").split()}
            by_rule = any(rule in {"text", "*"} or set(re.findall(r"\.[\w-]+", rule)) <= classes for rule in rules)
            if by_rule or stroke != "none" or "stroke" in element.get("style", ""):
                wrong.append(element.text)
        for child in element:
            walk(child, stroke)

    walk(root, "none")
    return wrong


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_pictures_of_the_docs(picture):
    assert outlined(picture.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("style", STYLES, ids=lambda path: path.name)
def test_styles_of_pages(style):
    rules = outlines(style.read_text(encoding="utf-8"))
    assert rules
    assert not [rule for rule in rules if rule == "text" or rule.endswith("-label") or rule in {".tick", ".name"}]


def test_pictures_of_plans(tmp_path):
    chart = line_chart(
        [Series("a line", [(0, 0), (1, 1)], "main")], [Limit("a limit", 1.0)], Words("id", "title", "x", "y")
    )
    write_charts("a plan", [("A chart", chart)], tmp_path / "plan.svg")
    assert outlined((tmp_path / "plan.svg").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "svg",
    [
        "<svg><style>text { fill: #000; stroke: #fff; paint-order: stroke; }</style><text>a</text></svg>",
        '<svg><style>.name { stroke: #fff }</style><text class="name">a</text></svg>',
        '<svg><g stroke="#fff"><text>a</text></g></svg>',
    ],
)
def test_the_check_finds_an_outline(svg):
    assert outlined(svg) == ["a"]


@pytest.mark.parametrize(
    ("anchor", "left"), [("start", 97.0), ("end", 97 - 3 * _LETTER), ("middle", 97 - 1.5 * _LETTER)]
)
def test_a_label_lies_on_a_ground_of_its_own(anchor, left):
    ground, words = ElementTree.fromstring(f"<svg>{_label('tick', 100, 50, 'abc', anchor)}</svg>")  # noqa: S314
    assert (ground.tag, words.tag, words.text) == ("rect", "text", "abc")
    assert float(ground.get("x")) == pytest.approx(left, abs=0.06)
    assert float(ground.get("y")) < 50 < float(ground.get("y")) + float(ground.get("height"))
    assert _label("tick", 1, 1, "", "start").count("<rect") == 0
