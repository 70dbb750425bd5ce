"""Charts survive every input, and give the same figures in words as in lines.

No text of a picture has an outline, because programs that do not know ``paint-order`` draw it over the letters.
"""

import math
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import dpensemble
from dpensemble.cli.output import write_charts
from dpensemble.report.charts import (
    _LETTER,
    WIDTH,
    Bar,
    Drawing,
    Limit,
    Series,
    Words,
    bar_chart,
    histogram,
    line_chart,
    nice_ticks,
)

WORDS = Words("chart", "A title", "labels", "epsilon")
LONG = "a very long name " * 20


def parsed(svg):
    root = ElementTree.fromstring(str(svg))  # noqa: S314
    assert root.get("role") == "img"
    names = root.get("aria-labelledby").split()
    assert [root.find("title").get("id"), root.find("desc").get("id")] == names
    assert root.find("desc").text
    width, height = (float(part) for part in root.get("viewBox").split()[2:])
    assert width == WIDTH
    for element in root.iter():
        for name, bound in (("x", width), ("x1", width), ("x2", width), ("cx", width),
                            ("y", height), ("y1", height), ("y2", height), ("cy", height)):  # fmt: skip
            assert 0 <= float(element.get(name, 0)) <= bound, (element.tag, element.attrib)
        assert float(element.get("width", 0)) >= 0
        assert float(element.get("height", 0)) >= 0
    return root


def texts(root):
    return [element.text for element in root.iter("text")]


@pytest.mark.parametrize(
    "points",
    [
        [],
        [[1, 0.5]],
        [[0, 0.0]],
        [[5, 0.0], [5, 0.0]],
        [[1, 1.0], [2, 1.0], [3, 1.0]],
        [[1, math.inf], [2, math.nan]],
        [[1, 0.1], [2, math.inf]],
        [[1, 1e-9], [10**9, 1e9]],
        [[1, 0.1], [2, 40.0]],
    ],
)
def test_line_chart_survives(points):
    root = parsed(line_chart([Series("worst case", points, "main")], [Limit("budget 1", 1.0)], WORDS))
    assert "nan" not in ElementTree.tostring(root, encoding="unicode")
    finite = [point for point in points if all(map(math.isfinite, point))]
    assert len(root.findall("path")) == (1 if finite else 0)
    assert ("No points were recorded." in root.find("desc").text) == (not finite)
    assert "budget 1" in texts(root)


def test_line_chart_draws_up_to_the_last_of_many_points():
    root = parsed(line_chart([Series("a", [[n, n] for n in range(1, 7351)], "main")], [Limit("b", 1.0)], WORDS))
    path, dot = root.find("path").get("d"), root.find("circle")
    assert path.endswith(f"{dot.get('cx')} {dot.get('cy')}")
    assert path.count("L") <= 301
    assert "7,350 at 7,350" in root.find("desc").text


def test_labels_that_end_together_are_moved_apart():
    lines = [Series(name, [[1, 0.1], [9, 1.0]], "main") for name in ("first", "second", "third")]
    root = parsed(line_chart(lines, [Limit("budget", 1.0)], WORDS))
    heights = sorted(float(t.get("y")) for t in root.iter("text") if t.text in {"first", "second", "third", "budget"})
    assert len(heights) == 4
    assert all(b - a >= 17 for a, b in pairwise(heights))


def test_labels_at_the_bottom_stay_inside():
    lines = [Series(f"line {n}", [[9, 0.0]], "main") for n in range(5)]
    parsed(line_chart(lines, [Limit("budget", 1.0)], WORDS))


@pytest.mark.parametrize("value", [0.0, 1.0, 0.853, math.nan, math.inf, -0.2, 1.7])
def test_bar_chart_survives(value):
    root = parsed(bar_chart([("Accuracy", [Bar("student", value, "main")])], WORDS))
    shown = f"{value:.3f}" if math.isfinite(value) else "not available"
    assert f"{shown} student" in texts(root)
    assert root.find("desc").text == f"Accuracy, student: {shown}."


def test_bar_chart_without_groups():
    root = parsed(bar_chart([("Accuracy", [])], WORDS))
    assert root.findall("rect") == []


@pytest.mark.parametrize("values", [[], [0.5], [0.0, 1.0], [0.3] * 50, [math.nan, -1.0, 2.0]])
def test_histogram_survives(values):
    root = parsed(histogram(values, WORDS))
    finite = [value for value in values if math.isfinite(value)]
    assert root.find("desc").text.startswith(f"{len(finite)} epsilon;")
    assert sum(float(bar.get("height")) > 0 for bar in root.iter("rect")) == len(set(finite))


def test_histogram_opens_bins_on_the_left():
    root = parsed(histogram([n * 0.05 for n in range(20)], WORDS))
    assert len({bar.get("height") for bar in root.iter("rect")}) == 1


def test_long_and_hostile_names_are_cut_and_escaped():
    for svg in (
        line_chart([Series(LONG, [[1, 1]], "main")], [Limit("<script>", 1.0)], WORDS),
        bar_chart([(LONG, [Bar("<script>" + LONG, 0.5, "main")])], WORDS),
        histogram([0.5], Words("h", "<script>", "<script>", "<script>")),
    ):
        root = parsed(svg)
        assert "<script>" not in str(svg)
        assert max(len(text) for text in texts(root)) <= 40


@pytest.mark.parametrize("highest", [1e-9, 0.087, 0.2, 1, 3, 7.3, 10, 999, 8140, 1e12])
def test_ticks_are_round_few_and_reach_the_highest(highest):
    ticks = nice_ticks(highest)
    assert ticks[0] == 0
    assert ticks[-1] >= highest * (1 - 1e-9)
    assert ticks[-2] < highest
    assert len(ticks) <= 6
    assert re.fullmatch(r"[125]e[+-]\d+", f"{ticks[1]:.0e}")


@pytest.mark.parametrize("highest", [0, -1, math.nan, math.inf])
def test_ticks_of_nothing(highest):
    assert nice_ticks(highest) == nice_ticks(1)


def test_whole_ticks():
    assert nice_ticks(1, whole=True) == [0, 1]
    assert nice_ticks(3, whole=True) == [0, 1, 2, 3]


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
    def drawn(*label):
        drawing = Drawing(Words("one", "One label"))
        drawing.label("tick", *label)
        return ElementTree.fromstring(drawing.svg("one"))[2:]  # noqa: S314

    ground, words = drawn(100, 50, "abc", anchor)
    assert (ground.tag, words.tag, words.text) == ("rect", "text", "abc")
    assert float(ground.get("x")) == pytest.approx(left, abs=0.06)
    assert float(ground.get("y")) < 50 < float(ground.get("y")) + float(ground.get("height"))
    assert [one.tag for one in drawn(1, 1, "", "start")] == ["text"]
