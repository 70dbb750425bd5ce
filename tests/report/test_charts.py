"""Charts survive every input, and give the same figures in words as in lines."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from dpensemble.report.charts import WIDTH, Bar, Limit, Series, Words, bar_chart, histogram, line_chart, nice_ticks
from dpensemble.report.page import _setting, date
from dpensemble.report.wording import number

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


@pytest.mark.parametrize(
    ("value", "text"),
    [(16281, "16,281"), (0.853, "0.853"), (1e-5, "1e-05"), (1234.5, "1,234.5"), (1000.0, "1,000"),
     (1e20, "1e+20"), (-math.inf, "-unlimited"), (math.inf, "unlimited"), (0, "0"), (True, "1")],
)  # fmt: skip
def test_number(value, text):
    assert number(value) == text


def test_settings_of_every_type():
    assert _setting("a", None) == "not set"
    assert _setting("a", False) == "no"
    assert _setting("random_seed", 12345) == "12345"
    assert _setting("a", {"b": [1, 2.5], "c": "x"}) == "b: 1, 2.5, c: x"


@pytest.mark.parametrize(
    ("created", "text"),
    [("2026-03-05T16:05:09+02:00", "5 March 2026, 14:05 UTC"),
     ("2026-03-05T14:05:09Z", "5 March 2026, 14:05 UTC"),
     ("2026-03-05T14:05:09", "5 March 2026, 14:05 UTC"), ("lately", "lately"), ("", "")],
)  # fmt: skip
def test_date(created, text):
    assert date(created) == text
