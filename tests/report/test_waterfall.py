"""The waterfall: its numbers and words, and letters that every viewer draws."""

import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from dpensemble.report.waterfall import Step, waterfall

STEPS = [Step("age = 71", 1.25, 0.3), Step("ward = a", -0.5, 0.0), Step("3 more columns", 0.125, 0.0)]
NAME = "{http://www.w3.org/2000/svg}"


def picture(steps=STEPS, base=-1.0, **more):
    words = {"towards": "sick", "chances": True, "attribution": "exact", "reference": "the mean of the public rows"}
    return waterfall(steps, base, **{**words, **more})


def root_of(svg):
    return ET.fromstring(svg)  # noqa: S314


def texts(svg):
    return list(root_of(svg).iter(f"{NAME}text"))


def test_it_states_base_contributions_and_the_logit():
    words = {node.text for node in texts(picture())}
    assert {"Public mean: −1.00 (probability 27 %)", "This row: −0.12 (probability 47 %)"} <= words
    assert {"age = 71", "+1.25", "ward = a", "−0.50", "+0.12", "What speaks for and against sick"} <= words
    assert {"Whiskers: 95 % bands by the known noise.", "Attribution: exact."} <= words
    described = root_of(picture()).find(f"{NAME}desc").text
    assert described.startswith("Public mean −1.00 (probability 27 %). age = 71: +1.25. ward = a: -0.50.")


def test_logits_of_several_classes_have_no_probability_and_no_whiskers_without_bands():
    svg = picture([Step("age = 71", 1.0, 0.0)], chances=False)
    words = {node.text for node in texts(svg)}
    assert "Public mean: −1.00" in words
    assert not any("Whiskers" in word for word in words)
    assert "logit, less the mean logit of all classes" in words
    assert "logit: the logarithm of the odds" in {node.text for node in texts(picture())}


def test_a_contribution_that_rounds_to_0_has_no_sign():
    svg = picture([Step("age = 55", -0.003, 0.1), Step("ward = a", -0.006, 0.1)])
    words = {node.text for node in texts(svg)}
    assert {"0.00", "−0.01"} <= words
    assert "age = 55: 0.00. ward = a: -0.01." in root_of(svg).find(f"{NAME}desc").text


def test_letters_have_no_outline_and_a_copy_in_the_colour_of_the_page_lies_below():
    """A viewer that draws an outline over its letter would hide the letter."""
    seen = Counter()
    for node in texts(picture()):
        place = node.text, node.get("x"), node.get("y")
        if node.get("stroke") is None:
            assert node.get("fill") != "#ffffff"
            seen[place] -= 1
        else:
            assert (node.get("fill"), node.get("stroke"), node.get("aria-hidden")) == ("#ffffff", "#ffffff", "true")
            assert seen[place] == 0
            seen[place] += 1
    assert set(seen.values()) == {0}
    assert "paint-order" not in picture()
    assert "<style" not in picture()
    assert "style=" not in picture()


def test_every_label_is_within_the_picture():
    steps = [Step("relationship = " + "long " * 30, size, 2.0) for size in (5.0, -9.0, 0.0, 1e-9)]
    root = root_of(picture(steps))
    width, height = float(root.get("width")), float(root.get("height"))
    for node in texts(picture(steps)):
        wide = 7.2 * len(node.text)
        left = float(node.get("x")) - {"start": 0, "middle": wide / 2}[node.get("text-anchor")]
        assert -20 <= left <= left + wide <= width + 20
        assert 0 < float(node.get("y")) < height


@pytest.mark.parametrize("base", [0.0, 800.0, -800.0])
def test_extreme_logits_are_drawn(base):
    assert "NaN" not in picture([Step("x = 1", 0.0, 0.0)], base)


def test_names_cannot_inject_markup():
    svg = picture([Step("<script>alert(1)</script>", 1.0, 0.0)], towards='"><script>')
    assert "<script" not in svg
    assert "<script>alert(1)</script>" in {node.text for node in texts(svg)}
