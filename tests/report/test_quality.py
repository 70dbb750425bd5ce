"""The page of a released quality: pictures, tables, what noise hides, and what is withheld."""

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from dpensemble.quality.release import Layout, NoisyHistograms
from dpensemble.quality.result import Costs, ReleasedQuality
from dpensemble.report.page import render
from dpensemble.report.quality import (
    _calibration_picture,
    _precision_recall_picture,
    _roc_picture,
    _threshold_picture,
    _with_band,
    quality_lines,
)

_spec = importlib.util.spec_from_file_location("page_helpers", Path(__file__).with_name("test_page.py"))
helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(helpers)
RECORD = helpers.WORST
COSTS = Costs(false_negative=4, false_positive=1)


def released(classes=("no", "<b>yes</b>"), sigma=2.0, groups=None, scale=1.0):
    layout = Layout.planned(classes, 2000, 3.0, 1e-5, groups=groups, required=2)
    shares = np.linspace(0.02, 0.9, 200)
    public = np.column_stack([1 - shares, shares]) if len(classes) == 2 else np.full((9, len(classes)), 1 / 3)
    edges = layout.edges(public, [0.2])
    parts = []
    for one in layout.histograms:
        if "bins" in one.kind:
            rising = np.linspace(0.05, 0.9, one.shape[-1])
            cells = np.broadcast_to(np.stack([1 - rising, rising]), one.shape)
        else:
            cells = np.ones(one.shape) + 3 * np.eye(*one.shape[-2:])
        parts.append((cells * 1000 / cells.sum()).ravel())
    cells = scale * np.concatenate(parts)
    noisy = NoisyHistograms(layout=layout, edges=edges, cells=layout.split(cells), sigma=sigma, epsilon=3.0, delta=1e-5)
    return ReleasedQuality.of_histograms(noisy, COSTS if len(classes) == 2 else None)


def page_of(quality, **changes):
    data = RECORD.data | {"released_score": quality.to_dict()}
    if quality.decision is not None:
        data |= {"decision": quality.decision.to_dict()}
    return render(replace(RECORD, data=data, **changes))


def test_two_classes_have_four_pictures_a_decision_and_groups():
    page = page_of(released(groups={"s<e>x": ("f", "m")}))
    for head in ("ROC curve", "Precision and recall", "Calibration", "Alarms and missed cases"):
        assert f"<h3>{head}</h3>" in page
    assert "The threshold for &lt;b&gt;yes&lt;/b&gt;: 0.2" in page
    assert "What a threshold does to 1,000 people" in page
    assert "By s&lt;e&gt;x" in page
    assert "Always the most common class" in page
    assert "<b>yes</b>" not in page
    identifiers = re.findall(r' id="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))


@pytest.mark.parametrize("draw", [_roc_picture, _precision_recall_picture, _calibration_picture, _threshold_picture])
def test_pictures_stay_within_their_frame_and_say_in_words_what_they_show(draw):
    curves = released().to_dict()["one_against_rest"][0]
    drawing = ElementTree.fromstring(str(draw(curves, "one")))  # noqa: S314
    _, _, width, height = map(float, drawing.get("viewBox").split())
    for rect in drawing.iter("rect"):
        x, y, w, h = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
        assert min(w, h) >= 0
        assert -1 <= x <= x + w <= width + 1
        assert -1 <= y <= y + h <= height + 1
    assert len(drawing.find("desc").text) > 20


def test_noise_that_hides_everything_leaves_no_picture_and_a_page():
    quality = released(sigma=1e6)
    curves = quality.to_dict()["one_against_rest"][0]
    for draw in (_roc_picture, _precision_recall_picture, _calibration_picture, _threshold_picture):
        assert draw(curves, "one") is None
    page = page_of(quality)
    assert "unknown" in page
    assert "<h3>ROC curve</h3>" not in page


def test_more_classes_have_a_table_and_a_curve_each():
    page = page_of(released(("a", "b", "c"), groups={"sex": ("f",)}))
    assert "Area against the rest" in page
    assert page.count("against the rest</h3>") == 3
    assert "By sex" in page


def test_exact_figures_on_test_rows_are_shown_only_if_the_rows_are_public():
    exact = replace(RECORD, data=RECORD.data | {"test_quality": released(sigma=0.0).to_dict(), "test_is_public": False})
    assert "are computed on" not in render(exact)
    assert "test_quality" in exact.unprotected_data
    public = replace(exact, data=exact.data | {"test_is_public": True})
    page = render(public)
    assert "are computed on" in page
    assert "without noise" in page


def test_a_page_without_quality_explains_how_to_get_it():
    page = render(replace(RECORD, student=None, baseline=None))
    assert "A run with --holdout-score 0.2 holds a fifth of the records back" in page


def test_a_decision_without_units_has_a_threshold_and_no_table():
    decision = released().decision.to_dict() | {"per_1000": []}
    page = render(replace(RECORD, data=RECORD.data | {"decision": decision}))
    assert "A missed case costs 4" in page
    assert "What a threshold does to 1,000 people" not in page


def test_the_terminal_has_a_line_for_each_part():
    quality = released(groups={"sex": ("f", "m")})
    record = replace(
        RECORD, data=RECORD.data | {"released_score": quality.to_dict(), "decision": quality.decision.to_dict()}
    )
    lines = "\n".join(quality_lines(record))
    for text in ("Quality on 2,000 held-back", "Right by sex", "Threshold for", "Per 1,000 people at 0.2"):
        assert text in lines
    more = replace(RECORD, data=RECORD.data | {"released_score": released(("a", "b", "c")).to_dict()})
    assert "b against the rest: AUROC" in "\n".join(quality_lines(more))
    assert list(quality_lines(RECORD)) == []
    assert _with_band({"value": None, "low": 0, "high": 1}, None) == "unknown"


def test_no_line_ends_within_a_band_of_a_table():
    page = render(replace(RECORD, data=RECORD.data | {"released_score": released().to_dict()}))
    space = "\N{NO-BREAK SPACE}"
    cells = re.findall(rf"<td[^>]*>[^<]*{space}to{space}[^<]*</td>", page)
    assert len(cells) >= 4
    assert not re.search(r"<td[^>]*>[^<]* to [^<]*</td>", page)
