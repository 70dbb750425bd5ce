"""A page on personal budgets shows every group's promise, and under a data-dependent basis no group's spend."""

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dpensemble.errors import FileError
from dpensemble.report import RunRecord
from dpensemble.report.page import render
from dpensemble.report.record import PrivateRecord

# The helpers of the other tests of the page.
_spec = importlib.util.spec_from_file_location("page_helpers", Path(__file__).with_name("test_page.py"))
page_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page_helpers)
GUARANTEE, OWN, WORST, words = page_helpers.GUARANTEE, page_helpers.OWN, page_helpers.WORST, page_helpers.words

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


THREE = personal([0.5, 1.0, 2.0], ["high", "medium", "low"])
DEPENDENT = personal([0.5, 1.0, 2.0], ["high", "medium", "low"], dependent=True, labels=7351)
OWN_GROUPS = replace(OWN, group_spent=[0.4321, 0.8765, 1.2345])


def labels_of(page):
    """Return position and text of each label of the cost history."""
    chart = re.search(r"<svg(?:(?!<svg).)*?Privacy spent by each group.*?</svg>", page, re.DOTALL).group()
    found = re.findall(r'<text class="([a-z0-9-]+-label)" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', chart)
    return [(css, float(x), float(y), text) for css, x, y, text in found]


def test_each_group_is_promised_its_own_epsilon_and_factor():
    text = words(render(THREE))
    for epsilon, name, factor in (("0.45", "high", "1.57"), ("0.9", "medium", "2.46"), ("1.8", "low", "6.05")):
        assert f"ε = {epsilon} {name}: a factor of {factor} at most" in text
    assert all(sentence in text for sentence in THREE.statement().sentences())
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
    page = render(THREE)
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
    page = render(DEPENDENT)
    assert secret not in page
    assert page.count('<line class="limit group-') == 3
    assert '<path class="line group-' not in page
    assert "at most 0.5" in words(page)
    assert "what the groups actually spent is secret and not shown" in words(page)


@pytest.mark.parametrize("labels", [1, 10, 9000])
def test_shareable_page_of_groups_is_the_same_whatever_the_votes(labels):
    assert render(replace(DEPENDENT, labels=labels, asked=labels)) == render(DEPENDENT)


def test_the_owner_sees_what_each_group_spent():
    text = words(render(DEPENDENT, OWN_GROUPS))
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
    text = words(render(replace(THREE, settings=THREE.settings | {"gated": True})))
    assert "Queries that one budget for all would have bought" in text
    assert "queries asked" in text
    # The promise of a gated run is the budget up to which asking may go on.
    assert "at most 0.45" in text


def test_both_themes_have_the_colours_and_pages_without_groups_have_none():
    page = render(THREE)
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
    record = full(THREE)
    assert record.schema == 5
    assert RunRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record
    assert PrivateRecord.from_dict(json.loads(json.dumps(OWN_GROUPS.to_dict()))) == OWN_GROUPS


def test_older_and_broken_records_are_refused():
    values = full(THREE).to_dict()
    new = ("groups", "group_spend", "plain_spend", "plain_labels", "effects")
    old = {name: value for name, value in values.items() if name not in new} | {"schema": 3}
    with pytest.raises(FileError, match="must have schema 5"):
        RunRecord.from_dict(old)
    with pytest.raises(FileError, match="groups lack entries"):
        RunRecord.from_dict(values | {"groups": [{"name": "high"}]})
    with pytest.raises(FileError, match="must have schema 5"):
        PrivateRecord.from_dict(OWN_GROUPS.to_dict() | {"schema": 3})
