"""The page of a released quality: pictures, tables, what noise hides, and what is withheld.

The first screen states a promise in lay words, and a quality only if it may be shown.

What an attacker gains is what the guarantee allows, and no less than what an attack achieves.
"""

import importlib.util
import math
import re
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from xml.etree import ElementTree

import numpy as np
import pytest

from dpensemble.cost import gaussian_delta, gaussian_mu
from dpensemble.quality.release import Layout, NoisyHistograms
from dpensemble.quality.result import Costs, ReleasedQuality
from dpensemble.report.page import render
from dpensemble.report.quality import (
    _calibration_picture,
    _precision_recall_picture,
    _roc_picture,
    _summary_view,
    _threshold_picture,
    _with_band,
    quality_lines,
)
from dpensemble.report.record import _advantage, _most_hits

_spec = importlib.util.spec_from_file_location("page_helpers", Path(__file__).with_name("test_page.py"))
page_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page_helpers)
WORST = page_helpers.WORST
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
    data = WORST.data | {"released_score": quality.to_dict()}
    if quality.decision is not None:
        data |= {"decision": quality.decision.to_dict()}
    return render(replace(WORST, data=data, **changes))


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
    exact = replace(WORST, data=WORST.data | {"test_quality": released(sigma=0.0).to_dict(), "test_is_public": False})
    assert "are computed on" not in render(exact)
    assert "test_quality" in exact.unprotected_data
    public = replace(exact, data=exact.data | {"test_is_public": True})
    page = render(public)
    assert "are computed on" in page
    assert "without noise" in page


def test_a_page_without_quality_explains_how_to_get_it():
    page = render(replace(WORST, student=None, baseline=None))
    assert "A run with --holdout-score 0.2 holds a fifth of the records back" in page


def test_a_decision_without_units_has_a_threshold_and_no_table():
    decision = released().decision.to_dict() | {"per_1000": []}
    page = render(replace(WORST, data=WORST.data | {"decision": decision}))
    assert "A missed case costs 4" in page
    assert "What a threshold does to 1,000 people" not in page


def test_the_terminal_has_a_line_for_each_part():
    quality = released(groups={"sex": ("f", "m")})
    record = replace(
        WORST, data=WORST.data | {"released_score": quality.to_dict(), "decision": quality.decision.to_dict()}
    )
    lines = "\n".join(quality_lines(record))
    for text in ("Quality on 2,000 held-back", "Right by sex", "Threshold for", "Per 1,000 people at 0.2"):
        assert text in lines
    more = replace(WORST, data=WORST.data | {"released_score": released(("a", "b", "c")).to_dict()})
    assert "b against the rest: AUROC" in "\n".join(quality_lines(more))
    assert list(quality_lines(WORST)) == []
    assert _with_band({"value": None, "low": 0, "high": 1}, None) == "unknown"


def test_no_line_ends_within_a_band_of_a_table():
    page = render(replace(WORST, data=WORST.data | {"released_score": released().to_dict()}))
    space = "\N{NO-BREAK SPACE}"
    cells = re.findall(rf"<td[^>]*>[^<]*{space}to{space}[^<]*</td>", page)
    assert len(cells) >= 4
    assert not re.search(r"<td[^>]*>[^<]* to [^<]*</td>", page)


SCORE = {
    "units": 500, "accuracy": 0.81, "accuracy_low": 0.77, "accuracy_high": 0.85, "auroc": 0.9, "auroc_low": 0.85,
    "auroc_high": 0.95, "sigma": 6.46, "groups": {},
    "most_common": {"value": 0.7, "low": 0.65, "high": 0.75, "class": "no"},
}  # fmt: skip
FIGURES = Path(__file__).parents[2] / "docs" / "choosing-epsilon.md"


def view(*, is_private=False, guarantee=None, without=(), **data):
    kept = {name: value for name, value in (WORST.data | data).items() if name not in without}
    return _summary_view(
        replace(WORST, data=kept, guarantee=WORST.guarantee | (guarantee or {})), is_private=is_private
    )


def test_what_was_trained_on_whom():
    shown = view(
        target="sick", classes=["no", "yes"], private_units=1200, held_back=200, public_rows=300,
        unit_column="PatientID", columns=5, guarantee={"unit": "unit", "relation": "replace-one"},
    )  # fmt: skip
    text = " ".join(shown["trained"])
    assert "predicts “sick” (no or yes) from 5 columns" in text
    assert "from 1,000 private patients. Another 200 were held back" in text
    assert "300 public rows helped" in text
    assert "any one patient had been different" in shown["promise"][0]


def test_a_secret_number_of_units_is_not_stated():
    text = " ".join(view(private_units=7351, guarantee={"relation": "add-or-remove-one"})["trained"])
    assert "7,351" not in text
    assert "whose number is not published" in text


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_the_promise_is_the_bound_on_right_guesses(epsilon):
    text = " ".join(view(guarantee={"epsilon": epsilon, "delta": 1e-5})["promise"])
    (right,) = map(int, re.findall(r"right at most (\d+) times in 100", text))
    # With two equally likely candidates a guess is right with probability (1 + advantage) / 2.
    assert 50 * (1 + _advantage(epsilon, 1e-5)) <= right < 50 * (1 + _advantage(epsilon, 1e-5)) + 1.1
    assert ("hardly any protection" in text) is (right >= 90)


@pytest.mark.parametrize(
    ("score", "verdict"),
    [
        ({}, "Its labels are better than"),
        ({"accuracy_low": 0.74}, "may be chance"),
        ({"accuracy": 0.7}, "not better than"),
        ({"accuracy": None}, "Noise hides"),
    ],
)
def test_the_student_stands_beside_the_most_common_class(score, verdict):
    quality = view(released_score=SCORE | score)["quality"]
    assert [row.label for row in quality.rows] == ["this model", "always “no”"]
    assert verdict in quality.verdict
    assert quality.chart.count("<rect") >= 1


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ({"no": 1.0, "yes": 0.0}, "It gives every public row the label “no”."),
        ({"no": 0.0, "yes": 1.0}, "may be chance"),
        ({"no": 0.999, "yes": 0.001}, "may be chance"),
    ],
)
def test_a_student_with_one_answer_is_not_called_better_than_that_answer(answers, verdict):
    score = SCORE | {"accuracy_low": 0.74}
    assert verdict in view(released_score=score, answers=answers)["quality"].verdict


def test_mistakes_at_the_threshold_are_stated():
    chosen = {"threshold": 0.05, "missed": {"value": 16.0}, "false_alarms": {"value": 128.0}}
    usual = {"threshold": 0.5, "missed": {"value": 29.0}, "false_alarms": {"value": 0.0}}
    for row, stated in ((chosen, True), (chosen | {"missed": {"value": None}}, False)):
        limits = " ".join(view(released_score=SCORE, decision={"threshold": 0.05, "per_1000": [usual, row]})["not_for"])
        assert ("With the threshold 0.05 it is wrong about 14 times." in limits) is stated


def test_the_area_is_a_share_of_pairs():
    known = {"auroc": None, "auroc_low": 0.8512, "auroc_high": 0.9467, "auroc_if_spread_as_public_rows": 0.9}
    shown = view(released_score=SCORE | known, positive_class="yes")["quality"].order
    # Ends are rounded outwards.
    assert "higher probability between 85 and 95 times in 100 (95% interval, for any order within" in shown
    assert "These are 90 times if probabilities are spread within the bins as on public rows." in shown
    exact = view(released_score=SCORE | known | {"auroc": 0.9}, positive_class="yes")["quality"].order
    assert "higher probability 90 times in 100 (95% interval: 85 to 95)" in exact
    hidden = dict.fromkeys(("auroc", "auroc_low", "auroc_high"))
    assert view(released_score=SCORE | hidden, positive_class="yes")["quality"].order == ""


def test_the_area_of_an_earlier_version_is_that_of_bins():
    thresholds = {"thresholds": [{}], "auroc": {"value": 0.67, "low": 0.6, "high": 0.7}}
    for more, bins in (({}, "bins"), ({"one_against_rest": [thresholds]}, "2 bins")):
        order = view(released_score=SCORE | more, positive_class="yes")["quality"].order
        assert f"area of a curve over {bins}, not the AUROC of the student" in order
        assert "times in 100" not in order


def test_an_area_is_unknown_only_below_four_bins():
    for n_bins in (2, 3, 4, 16):
        wide = {"thresholds": [{}] * (n_bins - 1), "auroc": {"value": None, "low": 0.0, "high": 1.0}}
        wide["auroc_if_spread_as_public_rows"] = None
        order = view(released_score=SCORE | {"one_against_rest": [wide]}, positive_class="yes")["quality"].order
        assert ("between 0 and 100 times in 100" in order) is (n_bins >= 4)
        assert bool(order) is (n_bins >= 4)


def test_exact_quality_is_for_the_owner_unless_test_rows_are_public():
    assert view(test_is_public=False)["quality"] is None
    assert any("were not declared public" in text for text in view(test_is_public=False)["measure"])
    assert view(test_is_public=False, is_private=True)["quality"] is not None
    assert view(test_is_public=True)["measure"] is None


def test_what_it_must_not_be_used_for():
    limits = " ".join(view(released_score=SCORE)["not_for"])
    assert "It is wrong about 19 times in 100." in limits
    assert "Nobody measured that." in limits
    assert "do not prove it" in " ".join(view(released_score=SCORE | {"groups": {"sex": []}})["not_for"])


def test_the_page_on_choosing_epsilon_has_these_bounds():
    rows = re.findall(r"^\| ([\d.]+) \| (\d+) \| (\d+) \| ([\d.]+) % \|$", FIGURES.read_text(encoding="utf-8"), re.M)
    assert len(rows) == 7
    for epsilon, moments, every, alarms in [map(float, row) for row in rows]:
        mu = gaussian_mu(epsilon, 1e-5)
        assert moments == math.ceil(50 * (1 + _advantage(epsilon, 1e-5, mu)))
        assert every == math.ceil(50 * (1 + _advantage(epsilon, 1e-5)))
        assert 100 * _most_hits(0.01, epsilon, 1e-5, mu) <= alarms


ALARMS = np.linspace(1e-4, 1 - 1e-4, 400)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-5), (3.0, 1e-3), (20.0, 1e-9)])
def test_randomised_response_reaches_the_bound_and_nothing_exceeds_it(epsilon, delta):
    """With probability delta the secret is revealed. Otherwise a bit is right with odds exp(epsilon)."""
    right = 1 / (1 + np.exp(-epsilon))
    told = delta + (1 - delta) * right
    wrong = (1 - delta) * (1 - right)
    assert _most_hits(wrong, epsilon, delta) == pytest.approx(told)
    assert _advantage(epsilon, delta) == pytest.approx(told - wrong)
    assert max(_most_hits(alarm, epsilon, delta) - alarm for alarm in ALARMS) <= _advantage(epsilon, delta) + 1e-12


@pytest.mark.parametrize("mu", [0.05, 0.268, 2.0])
def test_the_gaussian_curve_is_that_of_the_best_test_between_two_normals(mu):
    normal, epsilon = NormalDist(), 1.0
    delta = gaussian_delta(mu, epsilon)
    for threshold in np.linspace(-2, 3, 30):
        alarm, hit = 1 - normal.cdf(threshold), 1 - normal.cdf(threshold - mu)
        assert _most_hits(alarm, epsilon, delta, mu) == pytest.approx(hit)
        assert hit <= _most_hits(alarm, epsilon, delta) + 1e-12
    assert (
        max(_most_hits(alarm, epsilon, delta, mu) - alarm for alarm in ALARMS) <= _advantage(epsilon, delta, mu) + 1e-12
    )
