"""Warnings appear where they are due, and nowhere else."""

import math
from dataclasses import replace

import pytest

from dpensemble.moments.public_rows import Drift, Undecided
from dpensemble.report import RunRecord
from dpensemble.report.usefulness import remarks

GOOD = RunRecord(
    method="pate",
    guarantee={
        "epsilon": 1.0,
        "delta": 1e-5,
        "basis": "worst-case",
        "relation": "replace-one",
        "unit": "record",
        "accounting": "exact",
        "assumptions": [],
        "for_release": True,
        "fixed_number": True,
    },
    budget={"epsilon": 1.0, "delta": 1e-5},
    labels=400,
    asked=400,
    label_accuracy=0.9,
    student={"accuracy": 0.8, "auroc": 0.9, "auprc": 0.7},
    baseline=None,
    worst_case_spend=[],
    data={
        "private_units": 10_000,
        "public_rows": 500,
        "most_common_label": 0.7,
        "test_is_public": False,
        "answers": {"no": 0.7, "yes": 0.3},
        "released_labels": {"most_common": 0.6, "student": 0.9},
        "public_truth": {"most_common": 0.6, "student": 0.8},
    },
    settings={"n_teachers": 100},
    versions={},
    seconds={},
)


def with_data(**changes):
    return replace(GOOD, data=GOOD.data | changes)


CASES = [
    (
        with_data(answers={"no": 1.0, "yes": 0.0}),
        "every public row, so these labels carry no information. But the probabilities may still rank",
        True,
    ),
    (
        with_data(answers={"no": 1.0, "yes": 0.0}, decision={"threshold": 0.05}),
        "carry no information. Use the threshold for the costs instead: 'dpensemble predict --threshold 0.05'.",
        True,
    ),
    (with_data(answers={"no": 0.004, "yes": 0.996}), "answers 'yes' for 99.6% of the public rows", True),
    (replace(GOOD, labels=13), "13 labels are few to learn from; 'dpensemble plan'", True),
    (replace(GOOD, labels=1), "1 label is few", True),
    (with_data(most_common_label=0.8), "on the test rows, the student is no better than", False),
    (with_data(most_common_label=0.8, test_is_public=True), "80.0% against 80.0%", True),
    (with_data(public_truth={"most_common": 0.6, "student": 0.55}), "on the public rows, whose labels are known", True),
    (with_data(released_labels={"most_common": 0.6, "student": 0.6}), "as far as the released labels show", True),
    (
        with_data(public_alone={"rows": 100, "accuracy": 0.81}),
        "a model of only the 100 public labels is right for 81.0% of public rows that it did not learn from, the "
        "student for 80.0%: you may not need private records",
        True,
    ),
    (with_data(readable_share=0.02, readable_share_error=0.01), "a number to predict has to be cut into ranges", True),
    (with_data(private_units=1_900), "100 teachers for 1,900 records are about 19 records each", True),
]


def test_nothing_is_said_of_a_good_run():
    assert remarks(GOOD) == []
    assert remarks(with_data(public_alone={"rows": 100, "accuracy": 0.79})) == []
    assert len(remarks(with_data(private_units=2_600, held_back=200))) == 1
    assert remarks(with_data(private_units=2_600)) == []


@pytest.mark.parametrize(("record", "text", "is_public"), CASES, ids=[case[1][:25] for case in CASES])
def test_what_speaks_against_a_run_is_said(record, text, is_public):
    (remark,) = remarks(record)
    assert text in remark.text
    assert remark.is_public == is_public


def test_a_student_of_rare_classes_may_still_rank_rows():
    """The labels of a student may all be alike while its probabilities have an AUROC of 0.75."""
    (two,) = remarks(with_data(answers={"no": 1.0, "yes": 0.0}))
    assert (
        "rank rows if the other class is rare: use 'dpensemble predict --probabilities' or '--threshold'." in two.text
    )
    (three,) = remarks(with_data(answers={"no": 1.0, "yes": 0.0, "perhaps": 0.0}))
    assert "if other classes are rare" in three.text
    assert "--threshold" not in three.text
    assert two.text.endswith("another run costs budget again.")


def test_what_rests_on_an_unprotected_number_of_labels_stays_inside():
    secret = GOOD.guarantee | {"basis": "data-dependent", "fixed_number": False}
    record = replace(with_data(answers={"no": 1.0, "yes": 0.0}), labels=13, guarantee=secret)
    assert [remark.is_public for remark in remarks(record)] == [False, False]
    assert record.unprotected_data >= {"answers", "released_labels", "public_truth"}


def test_small_teachers_of_a_secret_number_of_people_are_told_to_the_owner():
    record = replace(with_data(private_units=500), guarantee=GOOD.guarantee | {"relation": "add-or-remove-one"})
    (remark,) = remarks(record)
    assert "--teachers 12 would" in remark.text
    assert not remark.is_public
    everyone = replace(record, settings={"n_teachers": 100, "sharing": "everyone"})
    assert remarks(everyone) == []


def test_label_moments_have_neither_few_labels_nor_teachers():
    soft = replace(
        with_data(private_units=50),
        labels=13,
        settings={"n_teachers": None},
        releases=[{"description": "noisy sum", "table": None, "noise": None}],
    )
    assert remarks(soft) == []


def test_public_rows_that_are_unlike_the_private_ones_are_told_of_on_the_page():
    said = remarks(replace(GOOD, data={**GOOD.data, "unlike": "public rows do not look like the private ones."}))
    assert [(one.text, one.is_public) for one in said] == [("public rows do not look like the private ones.", True)]


def test_a_test_that_cannot_decide_is_reported_to_all():
    text = Drift(math.nan, math.nan, Undecided.UNKNOWN_UNITS).warning()
    said = remarks(replace(GOOD, data={**GOOD.data, "unlike": text}))
    assert [(one.text, one.is_public) for one in said] == [(text, True)]
    assert "public_units=" in text
    assert "--unit" in text


@pytest.mark.parametrize(
    ("share", "error", "is_said"), [(0.88, 0.01, True), (0.88, 0.05, False), (0.999, 0.001, False)]
)
def test_unreadable_records_are_said_when_they_are_sure(share, error, is_said):
    run = replace(GOOD, data=GOOD.data | {"readable_share": share, "readable_share_error": error})
    texts = [remark.text for remark in remarks(run)]
    assert any("12.0% of the private records could not be read" in text for text in texts) is is_said
