"""A page on personal budgets shows every group's promise, and under a data-dependent basis no group's spend.

A run without votes reports its releases, and shows what pushes its model which way, for all rows and for one.
"""

import importlib.util
import json
import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dpensemble.errors import FileError
from dpensemble.report.charts import WIDTH
from dpensemble.report.page import render
from dpensemble.report.record import PrivateRecord, RunRecord
from dpensemble.report.sections import (
    _FEW,
    _effects_view,
    _factor,
    _importances,
    _picture,
    _Pushes,
    _pushes,
    _Support,
    waterfall,
)

# The helpers of the other tests of the page.
_spec = importlib.util.spec_from_file_location("page_helpers", Path(__file__).with_name("test_page.py"))
page_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page_helpers)
GUARANTEE, HOSTILE, OWN = page_helpers.GUARANTEE, page_helpers.HOSTILE, page_helpers.OWN
WORST, read, words = page_helpers.WORST, page_helpers.read, page_helpers.words

NOISE = 0.05


def personal(epsilons, names=None, *, method="weighting-pate", labels=400, dependent=False, **guarantee):
    """Return the record of a run whose groups have spent nine tenths of their budgets."""
    names = names or [f"level {number}" for number in range(len(epsilons))]
    share = 1.0 if dependent else 0.9
    groups = [
        {
            "name": name,
            "budget": epsilon,
            "epsilon": share * epsilon,
            "records": 4001 + number,
            "teachers": None if method == "upsampling-pate" else 61 + number,
            "copies": 31 + number,
            "weight": 0.517 + number,
            "frequency": 0.237 + number / 100,
        }
        for number, (name, epsilon) in enumerate(zip(names, epsilons, strict=True))
    ]
    stated = {
        **{"epsilon": max(epsilons), "basis": "data-dependent" if dependent else "worst-case"},
        **{"fixed_number": not dependent, "relation": "replace-one"},
        "groups": [{key: group[key] for key in ("name", "epsilon", "budget")} for group in groups],
    }
    counts = range(1, labels + 1, 20)
    plain = {"minimum": min(epsilons), "average": sum(epsilons) / len(epsilons), "maximum": max(epsilons)}
    return replace(
        WORST,
        method=method,
        guarantee=GUARANTEE | stated | guarantee,
        budget={"epsilon": max(epsilons), "delta": 1e-5},
        labels=labels,
        asked=labels,
        worst_case_spend=[],
        groups=groups,
        group_spend=[]
        if dependent
        else [[n, [share * epsilon * (n / labels) ** 0.5 for epsilon in epsilons]] for n in counts],
        plain_spend=[[n, NOISE * n**0.5] for n in range(1, int((max(epsilons) / NOISE) ** 2) + 40, 20)],
        plain_labels=[
            {"name": name, "epsilon": epsilon, "labels": int((epsilon / NOISE) ** 2)} for name, epsilon in plain.items()
        ],
    )


THREE_GROUPS = personal([0.5, 1.0, 2.0], ["high", "medium", "low"])
DEPENDENT_GROUPS = personal([0.5, 1.0, 2.0], ["high", "medium", "low"], dependent=True, labels=7351)
OWN_GROUPS = replace(OWN, group_spent=[0.4321, 0.8765, 1.2345])


def labels_of(page):
    """Return position and text of each label of the cost history."""
    chart = re.search(r"<svg(?:(?!<svg).)*?Privacy spent by each group.*?</svg>", page, re.DOTALL).group()
    found = re.findall(r'<text class="([a-z0-9-]+-label)" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', chart)
    return [(css, float(x), float(y), text) for css, x, y, text in found]


def test_each_group_is_promised_its_own_epsilon_and_factor():
    text = words(render(THREE_GROUPS))
    for epsilon, name, factor in (("0.45", "high", "1.57"), ("0.9", "medium", "2.46"), ("1.8", "low", "6.05")):
        assert f"ε = {epsilon} {name}: a factor of {factor} at most" in text
    assert all(sentence in text for sentence in THREE_GROUPS.statement().sentences())
    assert "ε = 2 " not in text
    assert "by a factor that depends on its group" in text
    assert "each group at most twice its epsilon" in text


@pytest.mark.parametrize(
    ("method", "shown", "hidden"),
    [
        ("weighting-pate", ["61", "0.517"], ["31", "23.7%"]),
        ("upsampling-pate", ["31"], ["61", "0.517", "23.7%"]),
        ("vanishing-pate", ["61", "23.7% of queries"], ["31", "0.517"]),
    ],
)
def test_the_table_has_what_the_method_varies(method, shown, hidden):
    record = personal([0.5, 2.0], ["high", "low"], method=method)
    table = re.search(r'<table class="numbers wide">.*?</table>', render(record), re.DOTALL).group()
    for cell in (*shown, "4,001", "0.5", "0.45"):
        assert f"<td>{cell}</td>" in table
    for cell in hidden:
        assert cell not in table


def test_baselines_stand_beside_the_chart_and_on_it():
    page = render(THREE_GROUPS)
    text = words(page)
    assert "Labels that one budget for all would have bought" in text
    for row in ("The smallest 0.5 100", "The largest 2 1,600", "Each group its own: this run as above 400"):
        assert row in text
    assert {"min", "avg", "max"} <= {label for _, _, _, label in labels_of(page)}
    assert page.count('<line class="limit group-') == 3
    assert page.count('<path class="line group-') == 3
    assert page.count('<path class="line other"') == 1


@pytest.mark.parametrize("epsilons", [[1.0, 1.01], [0.5, 1, 2], [1, 1.01, 1.02, 1.03, 1.04, 1.05], [0.1, 90.0]])
@pytest.mark.parametrize("labels", [30, 400])
def test_no_two_labels_overlap(epsilons, labels):
    found = labels_of(render(personal(epsilons, labels=labels)))
    for i, (_, x, y, text) in enumerate(found):
        for _, other_x, other_y, other in found[:i]:
            aside = x + 7 * len(text) <= other_x or other_x + 7 * len(other) <= x
            assert aside or abs(y - other_y) >= 14, (text, other)


def test_no_label_hides_where_a_budget_for_all_ends():
    # The average of these is the budget of the middle group, whose label would start at the mark.
    page = render(personal([0.5, 1.0, 1.5], labels=390))
    chart = re.search(r"<svg(?:(?!<svg).)*?Privacy spent by each group.*?</svg>", page, re.DOTALL).group()
    dots = re.findall(r'<circle class="dot other" cx="([\d.]+)" cy="([\d.]+)"', chart)
    assert len(dots) == 4
    for x, y in dots:
        for _, left, baseline, text in labels_of(page):
            covered = left < float(x) < left + 7 * len(text) and baseline - 11 < float(y) < baseline
            assert not covered, text


def test_of_many_groups_the_outer_two_are_drawn_and_all_are_in_the_table():
    page = render(personal([0.5 + 0.25 * number for number in range(9)]))
    assert page.count('<path class="line group-') == 2
    assert "The chart shows only the strictest and the most generous group" in words(page)
    assert "the table below has the 7 between them" in words(page)
    assert all(f"level {number}</th>" in page for number in range(9))


@pytest.mark.parametrize("secret", ["7351", "7,351", "0.4321", "0.8765", "1.2345", "1.235", "0.9899"])
def test_shareable_page_of_a_data_dependent_run_shows_budgets_and_no_spend(secret):
    page = render(DEPENDENT_GROUPS)
    assert secret not in page
    assert page.count('<line class="limit group-') == 3
    assert '<path class="line group-' not in page
    assert "at most 0.5" in words(page)
    assert "what the groups actually spent is secret and not shown" in words(page)


@pytest.mark.parametrize("labels", [1, 10, 9000])
def test_shareable_page_of_groups_is_the_same_whatever_the_votes(labels):
    assert render(replace(DEPENDENT_GROUPS, labels=labels, asked=labels)) == render(DEPENDENT_GROUPS)


def test_the_owner_sees_what_each_group_spent():
    text = words(render(DEPENDENT_GROUPS, OWN_GROUPS))
    assert all(figure in text for figure in ("0.4321", "0.8765", "1.235", "largest spent", "7,351 (secret)"))
    assert "largest of all groups" in text


@pytest.mark.parametrize(
    ("change", "is_shown"), [({}, True), ({"unit": "unit"}, False), ({"relation": "add-or-remove-one"}, False)]
)
def test_sizes_of_groups_stay_inside_where_neighbours_differ_in_them(change, is_shown):
    record = personal([0.5, 1.0], **change)
    assert ("4,001" in render(record)) == is_shown
    assert ("withheld" in words(render(record))) != is_shown
    assert "4,001" in render(record, OWN_GROUPS)


def test_a_gated_run_counts_questions():
    text = words(render(replace(THREE_GROUPS, settings=THREE_GROUPS.settings | {"gated": True})))
    assert "Queries that one budget for all would have bought" in text
    assert "queries asked" in text
    # The promise of a gated run is the budget up to which asking may go on.
    assert "at most 0.45" in text


def test_both_themes_have_the_colours_and_pages_without_groups_have_none():
    page = render(THREE_GROUPS)
    assert page.count("--group-6:") == 2
    assert "--group-" not in render(WORST)


def test_hostile_names_are_escaped():
    page = render(personal([0.5, 1.0], ["<script>alert(1)</script>", '"><img src=x>']))
    assert "<script" not in page
    assert "<img" not in page
    page_helpers.read(page)


def full(record):
    """Return the record with all that `from_dict` asks for."""
    data = {"private_units": 1, "public_rows": 1, "most_common_label": None, "kinds_of_columns": ""}
    return replace(record, data=data, settings=page_helpers.SHOWN)


def test_a_record_with_groups_comes_back_the_same():
    record = full(THREE_GROUPS)
    assert record.schema == 5
    assert RunRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record
    assert PrivateRecord.from_dict(json.loads(json.dumps(OWN_GROUPS.to_dict()))) == OWN_GROUPS


def test_older_and_broken_records_are_refused():
    values = full(THREE_GROUPS).to_dict()
    new = ("groups", "group_spend", "plain_spend", "plain_labels", "effects")
    old = {name: value for name, value in values.items() if name not in new} | {"schema": 3}
    with pytest.raises(FileError, match="must have schema 5"):
        RunRecord.from_dict(old)
    with pytest.raises(FileError, match="groups lack entries"):
        RunRecord.from_dict(values | {"groups": [{"name": "high"}]})
    with pytest.raises(FileError, match="must have schema 5"):
        PrivateRecord.from_dict(OWN_GROUPS.to_dict() | {"schema": 3})


pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

# The helpers of the other tests of the page.


LONG = "a very long name " * 20
AGE = {
    "column": "age",
    "kind": "number",
    "importance": 0.9,
    "points": [[90.0, [-1.0]], [17.0, [-2.3]], [30.5, [0.2]], [1490400.0, [0.7]], ["missing", [0.1]]],
}
STATUS = {
    "column": "marital status",
    "kind": "category",
    "importance": math.log(2),
    "points": [[f"kind {n}", [0.3 * n - 1.4]] for n in range(12)],
}
SMALL = [AGE | {"column": f"column {n}", "importance": 0.01} for n in range(20)]
SOFT = replace(
    WORST,
    method="label-moments",
    guarantee=WORST.guarantee | {"assumptions": ["Only the noisy moments are published."]},
    student=WORST.student | {"brier": 0.09964},
    baseline=None,
    labels=16281,
    asked=16281,
    worst_case_spend=[],
    effects=[STATUS, AGE, *SMALL],
    data=WORST.data | {"private_units": 16281, "public_rows": 16281, "kinds_of_columns": "age (number)"},
    settings={
        "title": "Label moments",
        "law": "GaussianSum(sigma=6.8)",
        "gated": False,
        "n_teachers": None,
        "teacher": "each unit answers by itself",
        "noise_chosen": "from the budget",
        "noise_in_words": "Gaussian noise of 6.8 sensitivities on a sum of vectors",
        "rounds": 3,
    },
    releases=[{"description": "noisy sum", "table": None, "noise": None}] * 3,
)


def of_classes(effects, n):
    """Return effects on each of n classes, more on the later ones."""
    return [
        one | {"points": [[entry, [value * k for k in range(n)]] for entry, (value,) in one["points"]]}
        for one in effects
    ]


THREE = replace(
    SOFT, effects=of_classes(SOFT.effects, 3), data=SOFT.data | {"classes": ["setosa", "versicolor", "virginica"]}
)
RECORDS = {
    "two classes": SOFT,
    "three classes": THREE,
    "nothing known of columns": replace(SOFT, effects=[]),
    "no points": replace(SOFT, effects=[AGE | {"points": []}]),
    "no classes": replace(SOFT, data={}, versions={}, seconds={}, student=None),
    "one number": replace(SOFT, effects=[AGE | {"points": [[1.0, [0.0]]], "importance": 0.0}]),
    "only missing": replace(SOFT, effects=[AGE | {"points": [["missing", [0.5]]]}]),
    "enormous": replace(SOFT, effects=[AGE | {"points": [[-1e300, [-1e308]], [1e300, [1e5]]], "importance": 1e200}]),
    "one round": replace(SOFT, settings=SOFT.settings | {"rounds": 1}, releases=SOFT.releases[:1]),
}


def drawings(page):
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", str(page), re.DOTALL)]  # noqa: S314


@pytest.mark.parametrize("name", RECORDS)
def test_pages_without_votes_are_well_formed_and_load_nothing(name):
    page = render(RECORDS[name])
    reader = read(page)
    assert not {tag for tag, _ in reader.tags} & {"script", "link", "img", "iframe"}
    idents = [value for attribute, value in reader.attributes if attribute == "id"]
    assert len(idents) == len(set(idents))
    assert all("scope" in attrs for tag, attrs in reader.tags if tag == "th")
    assert ("What pushes which way" in page) == (name not in {"nothing known of columns", "no points"})
    assert "nan" not in re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL).lower()


@pytest.mark.parametrize("name", RECORDS)
def test_drawings_stay_inside_and_say_in_words_what_they_show(name):
    for root in drawings(render(RECORDS[name])):
        assert root.get("role") == "img"
        assert root.find("title").text
        assert root.find("desc").text
        assert root.get("aria-labelledby").split() == [root.find(part).get("id") for part in ("title", "desc")]
        width, height = (float(part) for part in root.get("viewBox").split()[2:])
        for element in root.iter():
            for attribute, bound in (("x", width), ("x1", width), ("x2", width), ("cx", width),
                                     ("y", height), ("y1", height), ("y2", height), ("cy", height)):  # fmt: skip
                assert 0 <= float(element.get(attribute, 0)) <= bound, (element.tag, element.attrib)
            for attribute in ("width", "height"):
                assert float(element.get(attribute, 0)) >= 0


@pytest.mark.parametrize("name", RECORDS)
def test_nothing_is_said_of_teachers_and_votes_where_there_are_none(name):
    page = re.sub(r"<style.*?</style>", "", render(RECORDS[name]), flags=re.DOTALL)
    for word in ("teacher", "vote", "Each released label", "answered", "student learned from", "noisy labels", "curve"):
        assert word not in page


def test_the_page_says_what_was_released():
    text = words(render(SOFT))
    assert "What was released No single record is released." in text
    assert "one vector of bounded length to each of 3 sums, and only the sums, with random noise" in text
    assert "Released 3 noisy sums" in text
    assert "all of epsilon 1 at delta 1e-05" in text
    assert "Label moments, 3 noisy sums" in text
    assert "Labels that the model gives the public rows Public rows labelled by the model 16,281" in text
    assert "the noisy sums, and the model and the predictions that were made from them" in text
    assert "The private records and their sums before noise was added" in text
    assert "How many records there are" not in text
    one = words(render(RECORDS["one round"]))
    assert "bounded length to one sum, and only the sum, with" in one
    assert "Released 1 noisy sum Noise Gaussian" in one


def test_the_page_says_what_else_was_released_and_how_much_of_the_budget_was_used():
    guarantee = SOFT.guarantee | {"relation": "add-or-remove-one", "unit": "unit", "epsilon": 0.5}
    text = words(render(replace(SOFT, guarantee=guarantee)))
    assert "Every person added one vector" in text
    assert "The number of people was released with noise, too." in text
    assert "50.0% of epsilon 1 at delta" in text


def test_pages_of_votes_say_nothing_of_sums_and_pushes():
    page = render(WORST)
    for word in ("What was released", "What pushes", "noisy sum", "Brier", ".pictures"):
        assert word not in page


def test_the_brier_score_is_told_but_not_drawn():
    page = render(SOFT)
    assert "Brier score 0.100" in words(page)
    assert "Lower is better, and 0 is best" in words(page)
    quality = next(root for root in drawings(page) if root.find("title").get("id") == "quality-title")
    assert "rier" not in ElementTree.tostring(quality, encoding="unicode")


def test_two_classes_get_pictures_of_the_most_important_columns():
    page = render(SOFT)
    pictures = [root for root in drawings(page) if root.find("title").get("id").startswith("effect-")]
    assert len(pictures) == 6
    bars, line = pictures[:2]
    assert bars.find("title").text == "marital status: more likely >50K, or less likely"
    assert len(bars.findall("rect")) == 8
    names = [text.text for text in bars.iter("text") if text.get("class") == "plain"]
    assert names == ["kind 11", "kind 10", "kind 9", "kind 8", "kind 7", "kind 2", "kind 1", "kind 0"]
    assert "more likely >50K →" in [text.text for text in bars.iter("text")]
    assert "kind 11 ×6.7" in bars.find("desc").text
    assert "and 4 more that push less" in bars.find("desc").text
    assert line.find("desc").text == "Odds ÷10 at 17, ×2 at 1,490,400, ×1.11 where missing."
    text = words(page)
    assert "the odds of >50K" in text
    assert "the higher, the more likely >50K" in text
    assert "to the right, more likely >50K" in text
    assert "7 more columns push less" in text


def test_numbers_stand_in_order_at_equal_distances():
    root = drawings(_picture(AGE, 2.3, YES, "one"))[0]
    at = [float(pair.split()[0]) for pair in root.find("path").get("d")[1:].split("L")]
    steps = [b - a for a, b in pairwise(at)]
    assert len(at) == 4
    assert max(steps) - min(steps) < 0.2
    ticks = [text.text for text in root.iter("text")]
    assert "17" in ticks
    assert "1,490,400" in ticks
    assert "missing" in ticks


def test_more_classes_get_tables_of_the_furthest_pushes():
    text = words(render(THREE))
    assert "effect-1" not in render(THREE)
    assert "Class More likely at Less likely at" in text
    assert text.count("More likely at") == 4
    view = _effects_view(THREE)
    assert [name for name, _ in view["tables"]] == ["marital status", "age", "column 0", "column 1"]
    # Added to all classes alike, a push changes nothing: the middle one of 0, v and 2 v is not moved.
    assert sorted(view["tables"][0][1]) == [
        ("setosa", "kind 0 (×4.1)", "kind 11 (÷6.7)"),
        ("virginica", "kind 11 (×6.7)", "kind 0 (÷4.1)"),
    ]
    assert len(_pushes(of_classes([AGE], 9)[0], [str(n) for n in range(9)])) == 5
    still = AGE | {"points": [[1.0, [0.25, 0.25, 0.25]]]}
    assert _pushes(still, ["a", "b", "c"]) == [(name, "1 (×1)", "1 (×1)") for name in "abc"]


YES = _Pushes.of_record(SOFT, "yes")
OF_ONE_OUTPUT = {
    "mean": ("Expected number for kind 11 +1,900, kind 10 +1,600", "larger", "A push is shown by what it adds"),
    "logarithm": ("Number for kind 11 ×6.7, kind 10 ×5", "larger", "what it does to the number"),
    "log hazard": ("Hazard for kind 11 ×6.7, kind 10 ×5", "sooner", "what it does to the hazard"),
}


@pytest.mark.parametrize("output", OF_ONE_OUTPUT)
def test_pushes_of_a_number_and_of_a_hazard_are_written_in_their_own_way(output):
    scale = 1000 if output == "mean" else 1

    def of_output(one):
        points = [[entry, [scale * value]] for entry, (value,) in one["points"]]
        return one | {"output": output, "importance": scale * one["importance"], "points": points}

    record = replace(SOFT, effects=list(map(of_output, SOFT.effects)), data=SOFT.data | {"classes": [], "number": None})
    assert RunRecord.from_dict(record.to_dict()).effects == record.effects
    record = replace(record, data={name: value for name, value in record.data.items() if name != "number"})
    view = _effects_view(record)
    bars, line = (drawings(drawing)[0] for _, drawing in view["pictures"][:2])
    pushes, more, meaning = OF_ONE_OUTPUT[output]
    assert bars.find("desc").text.startswith(pushes)
    assert bars.find("title").text.startswith(f"marital status: {more}")
    assert f"↑ {more}" in [text.text for text in line.iter("text")]
    assert meaning in view["pushes"].meaning
    with pytest.raises(FileError, match="effects"):
        RunRecord.from_dict(record.to_dict() | {"effects": [STATUS | {"output": "height"}]})


def test_importances_are_cut_to_what_fits():
    root = drawings(_importances(SOFT.effects[:15], _Pushes.of_record(SOFT, ">50K")))[0]
    assert float(root.get("viewBox").split()[2]) == WIDTH
    assert len(root.findall("rect")) == 15
    assert "marital status ×2" in root.find("desc").text


@pytest.mark.parametrize("n_classes", [2, 3])
def test_hostile_and_long_names_are_escaped_and_cut(n_classes):
    def hostile(name):
        found = [
            one | {"column": name, "points": [[name if isinstance(e, str) else e, v] for e, v in one["points"]]}
            for one in SOFT.effects
        ]
        return found if n_classes == 2 else of_classes(found, n_classes)

    for name in (HOSTILE, LONG):
        record = replace(SOFT, effects=hostile(name), data={"classes": [name] * n_classes})
        page = render(record)
        read(page)
        assert "<script" not in page
        assert "<img" not in page
        for root in drawings(page):
            assert max(len(text.text) for text in root.iter("text")) <= 40
        shown = re.findall(r"<section>\s*<h2>What pushes.*?</section>", page, re.DOTALL)
        assert LONG[:70] not in shown[0]


@pytest.mark.parametrize(
    ("effect", "text"),
    [(0.0, "×1"), (math.log(2), "×2"), (-math.log(2), "÷2"), (0.3, "×1.35"), (-1e-6, "×1"), (math.log(12.4), "×12"),
     (math.log(4321), "×4,300"), (20.0, "×5e+08"), (-1e308, "÷1e+304")],
)  # fmt: skip
def test_pushes_are_written_as_factors(effect, text):
    assert _factor(effect) == text


@pytest.mark.parametrize("record", [SOFT, THREE, RECORDS["nothing known of columns"]])
def test_records_come_back_the_same(record):
    assert record.released_sums
    assert record.schema == 5
    assert RunRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record
    assert "effects" not in PrivateRecord.__dataclass_fields__


VOTES = {name: value for name, value in SOFT.settings.items() if name != "rounds"}


@pytest.mark.parametrize(
    "record",
    [SOFT, THREE, replace(SOFT, settings=VOTES, releases=[{"description": "labels", "table": None, "noise": None}])],
)
def test_a_record_that_does_not_state_its_releases_opens_and_shows_the_same(record):
    older = record.to_dict()
    del older["releases"]
    opened = RunRecord.from_dict(json.loads(json.dumps(older)))
    assert opened.released_sums == record.released_sums
    assert render(opened) == render(record)


BROKEN = {
    "no list": {"age": 1},
    "no object": [1],
    "an entry is missing": [{"column": "age"}],
    "an entry too many": [AGE | {"more": 1}],
    "another kind": [AGE | {"kind": "text"}],
    "a kind that is no text": [AGE | {"kind": ["number"]}],
    "a column without a name": [AGE | {"column": None}],
    "importance that is no number": [AGE | {"importance": "much"}],
    "importance below zero": [AGE | {"importance": -1.0}],
    "importance that is not finite": [AGE | {"importance": math.nan}],
    "points that are no list": [AGE | {"points": {}}],
    "a point that is no pair": [AGE | {"points": [[1.0]]}],
    "a point that is a number": [AGE | {"points": [1.0]}],
    "an entry that is a list": [AGE | {"points": [[[1.0], [1.0]]]}],
    "an entry that is not finite": [AGE | {"points": [[math.inf, [1.0]]]}],
    "an effect that is a number": [AGE | {"points": [[1.0, 1.0]]}],
    "an effect that is a text": [AGE | {"points": [[1.0, ["1"]]]}],
    "an effect that is not finite": [AGE | {"points": [[1.0, [math.nan]]]}],
    "no effect": [AGE | {"points": [[1.0, []]]}],
    "one for each of two classes": [AGE | {"points": [[1.0, [0.5, -0.5]]]}],
    "more classes than there are": [AGE | {"points": [[1.0, [0.5, -0.5, 1.0]]]}],
    "different numbers of classes": [AGE | {"points": [[1.0, [0.5]], [2.0, [0.5, -0.5, 1.0]]]}],
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("data", [SOFT.data, {k: v for k, v in SOFT.data.items() if k != "classes"}])
def test_effects_of_unknown_shapes_are_refused(name, data):
    values = replace(SOFT, data=data).to_dict() | {"effects": BROKEN[name]}
    if name == "more classes than there are" and "classes" not in data:
        assert RunRecord.from_dict(values).effects == BROKEN[name]
        return
    with pytest.raises(FileError, match=r"^the run record's effects do not have the format of this version: [^.]*\.$"):
        RunRecord.from_dict(values)


def test_bands_are_drawn_and_named_and_effects_of_curved_models_are_called_approximate():
    banded = [one | {"deviations": [[0.1] * len(values) for _, values in one["points"]]} for one in SOFT.effects]
    record = replace(SOFT, effects=banded)
    assert RunRecord.from_dict(record.to_dict()).effects == banded
    with_bands, without = _effects_view(record), _effects_view(SOFT)
    assert (with_bands["banded"], without["banded"], with_bands["approximate"]) == (True, False, False)
    for (_, drawn), (_, plain) in zip(with_bands["pictures"], without["pictures"], strict=True):
        assert drawn.count("<line") > plain.count("<line")
    curved = replace(SOFT, effects=[one | {"approximation": "partial dependence"} for one in banded])
    page = render(RunRecord.from_dict(curved.to_dict()))
    assert "push is approximated by its partial dependence" in page
    assert "Thin lines are 95 % bands by the known noise." in page
    assert "The model weighs each column separately" in render(SOFT)


@pytest.mark.parametrize(("deviation", "is_cut"), [(0.01, False), (0.25, False), (9.0, True)])
def test_a_scale_has_room_for_bands_up_to_a_limit(deviation, is_cut):
    points = [[float(place), [0.5 if place % 2 else -0.5]] for place in range(9)]
    effect = {"column": "age", "kind": "number", "importance": 0.5, "points": points}
    banded = replace(SOFT, effects=[effect | {"deviations": [[deviation]] * 9}])
    view = _effects_view(banded)
    assert view["cut"] is is_cut
    assert ("the longest ones are cut at the edge" in render(banded)) is is_cut
    # The middle is at 95, and the end of the scale 63 above.
    height = float(re.findall(r"L[\d.]+ ([\d.]+)", str(view["pictures"][0][1]))[0])
    assert 95 - height == pytest.approx(63 * 0.5 / min(0.5 + 1.96 * deviation, 1.0), abs=0.06)


@pytest.mark.parametrize("deviations", [[], [[0.1]], "none", [[-0.1]] * 9, [0.1] * 9, [[math.nan]] * 9])
def test_broken_bands_are_refused(deviations):
    points = [[float(place), [0.5]] for place in range(9)]
    effect = {"column": "age", "kind": "number", "importance": 0.5, "points": points, "deviations": deviations}
    with pytest.raises(FileError, match=r"^the run record's effects do not have the format of this version"):
        RunRecord.from_dict(SOFT.to_dict() | {"effects": [effect]})


def test_years_have_no_comma_and_other_numbers_do():
    born = {"column": "born", "kind": "number", "importance": 1.0, "points": [[1935.0, [0.5]], [25_000.0, [-0.5]]]}
    drawn = str(_picture(born, 1.0, YES, "born"))
    assert ">1935<" in drawn
    assert ">25,000<" in drawn


def test_a_record_from_before_sums_stated_their_noise_opens():
    described = [{"description": "the mean of the features of each class", "table": None}] * 3
    values = SOFT.to_dict() | {"releases": described}
    record = RunRecord.from_dict(values)
    assert (record.n_sums, record.described_sums) == (3, [])
    assert "Released 3 noisy sums" in words(render(record))
    with pytest.raises(FileError, match="releases do not have the format"):
        RunRecord.from_dict(values | {"releases": [{"table": None}]})


WARD = {
    "column": "ward", "kind": "category", "importance": 0.4, "points": [["surgery", [0.3]], ["burns", [-0.6]]],
    "rows": [99, 1],
}  # fmt: skip
AGE_OF_FEW = {
    "column": "age", "kind": "number", "importance": 0.4, "points": [[20.0, [0.3]], [30.0, [0.1]], ["missing", [0.1]]],
    "rows": [50, 45, 5],
}  # fmt: skip


def record_of(units, *effects, relation="replace-one", **more):
    data = SOFT.data | {"private_units": units, "classes": ["no", "yes"]} | more
    return replace(SOFT, data=data, effects=list(effects), guarantee=SOFT.guarantee | {"relation": relation})


def test_an_entry_is_marked_if_few_private_units_are_expected_to_have_it():
    assert _Support.of(record_of(2000)).few(WARD) == [False, True]
    assert _Support.of(record_of(100 * _FEW)).few(WARD) == [False, False]
    # Units that were held back taught nothing.
    assert _Support.of(record_of(100 * _FEW, held_back=100)).few(WARD) == [False, True]
    assert _Support.of(record_of(200)).few(AGE_OF_FEW) == [False, False, True]


def test_a_secret_number_of_units_does_not_decide():
    secret = _Support.of(record_of(100_000, relation="add-or-remove-one"))
    assert secret.units is None
    assert secret.few(WARD) == _Support.of(record_of(5, relation="add-or-remove-one")).few(WARD) == [False, True]
    assert "fewer than 25 public rows have such an entry" in secret.sentence()


def test_effects_of_earlier_versions_have_no_marks():
    earlier = {name: value for name, value in WARD.items() if name != "rows"}
    assert _Support.of(record_of(10)).few(earlier) == [False, False]
    assert _effects_view(record_of(10, earlier))["few"] is None


def test_pictures_have_marks_and_the_page_explains_them():
    page = render(record_of(2000, WARD, AGE_OF_FEW))
    assert ">burns*</text>" in page
    assert "surgery*" not in page
    assert "fewer than 25 of the 2,000 records are expected to have such an entry" in page
    assert 'class="dot few"' in render(record_of(200, AGE_OF_FEW))
    assert "hollow dot" not in render(record_of(100_000, AGE_OF_FEW))


def test_tables_of_more_classes_have_marks():
    three = WARD | {"points": [[name, [value, 0.0, -value]] for name, (value,) in WARD["points"]]}
    view = _effects_view(record_of(2000, three, classes=[*"abc"]))
    assert any("burns*" in cell for _, rows in view["tables"] for row in rows for cell in row)
    assert view["few"].startswith("*: fewer than 25")
    # A marked entry that no table lists needs no explanation.
    middle = {"points": [["surgery", [1.0, 0.0, -1.0]], ["burns", [0.0, 0.0, 0.0]], ["eyes", [-1.0, 0.0, 1.0]]]}
    assert _effects_view(record_of(2000, WARD | middle | {"rows": [500, 1, 500]}, classes=[*"abc"]))["few"] is None


@pytest.mark.parametrize("rows", [[], [1], [1, -1], [1, 0.5], [1, True], "12"])
def test_a_record_with_other_rows_is_refused(rows):
    values = record_of(2000, WARD | {"rows": rows}).to_dict()
    with pytest.raises(FileError, match="effects do not have the format"):
        RunRecord.from_dict(values)


STEPS = [("age = 71", 1.25, 0.3), ("ward = a", -0.5, 0.0), ("3 more columns", 0.125, 0.0)]
SVG = "{http://www.w3.org/2000/svg}"


def waterfall_of(steps=STEPS, base=-1.0, **more):
    words = {"towards": "sick", "output": "odds", "attribution": "exact", "reference": "the mean of the public rows"}
    return waterfall(steps, base, **{**words, **more})


def root_of(svg):
    return ET.fromstring(svg)  # noqa: S314


def letters_of(svg):
    return list(root_of(svg).iter(f"{SVG}text"))


def test_it_states_base_contributions_and_the_logit():
    words = {node.text for node in letters_of(waterfall_of())}
    assert {"Public mean: −1.00 (probability 27 %)", "This row: −0.12 (probability 47 %)"} <= words
    assert {"age = 71", "+1.25", "ward = a", "−0.50", "+0.12", "What makes sick more and less likely"} <= words
    assert {"Whiskers: 95 % bands by the known noise.", "Attribution: exact."} <= words
    described = root_of(waterfall_of()).find(f"{SVG}desc").text
    assert described.startswith("Public mean −1.00 (probability 27 %). age = 71: +1.25. ward = a: -0.50.")


def test_logits_of_several_classes_have_no_probability_and_no_whiskers_without_bands():
    svg = waterfall_of([("age = 71", 1.0, 0.0)], output="logit")
    words = {node.text for node in letters_of(svg)}
    assert "Public mean: −1.00" in words
    assert not any("Whiskers" in word for word in words)
    assert "logit, less the mean logit of all classes" in words
    assert "logit: the logarithm of the odds" in {node.text for node in letters_of(waterfall_of())}


def test_a_contribution_that_rounds_to_0_has_no_sign():
    svg = waterfall_of([("age = 55", -0.003, 0.1), ("ward = a", -0.006, 0.1)])
    words = {node.text for node in letters_of(svg)}
    assert {"0.00", "−0.01"} <= words
    assert "age = 55: 0.00. ward = a: -0.01." in root_of(svg).find(f"{SVG}desc").text


def test_letters_have_no_outline_and_a_copy_in_the_colour_of_the_page_lies_below():
    """A viewer that draws an outline over its letter would hide the letter."""
    seen = Counter()
    for node in letters_of(waterfall_of()):
        place = node.text, node.get("x"), node.get("y")
        if node.get("stroke") is None:
            assert node.get("fill") != "#ffffff"
            seen[place] -= 1
        else:
            assert (node.get("fill"), node.get("stroke"), node.get("aria-hidden")) == ("#ffffff", "#ffffff", "true")
            assert seen[place] == 0
            seen[place] += 1
    assert set(seen.values()) == {0}
    assert "paint-order" not in waterfall_of()
    assert "<style" not in waterfall_of()
    assert "style=" not in waterfall_of()


def test_every_label_is_within_the_picture():
    steps = [("relationship = " + "long " * 30, size, 2.0) for size in (5.0, -9.0, 0.0, 1e-9)]
    root = root_of(waterfall_of(steps))
    width, height = float(root.get("width")), float(root.get("height"))
    for node in letters_of(waterfall_of(steps)):
        wide = 7.2 * len(node.text)
        left = float(node.get("x")) - {"start": 0, "middle": wide / 2}[node.get("text-anchor")]
        assert -20 <= left <= left + wide <= width + 20
        assert 0 < float(node.get("y")) < height


@pytest.mark.parametrize("base", [0.0, 800.0, -800.0])
def test_extreme_logits_are_drawn(base):
    assert "NaN" not in waterfall_of([("x = 1", 0.0, 0.0)], base)


def test_names_cannot_inject_markup():
    svg = waterfall_of([("<script>alert(1)</script>", 1.0, 0.0)], towards='"><script>')
    assert "<script" not in svg
    assert "<script>alert(1)</script>" in {node.text for node in letters_of(svg)}
