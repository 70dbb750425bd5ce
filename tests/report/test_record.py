"""A protected unit is called by what its column names, and never by a noun that promises more.

Warnings appear where they are due, and nowhere else.
"""

import math
from dataclasses import replace

import pytest

from dpensemble._checks import plural, with_article
from dpensemble.engine.classifier import MEMBERSHIP, UNITS_TOGETHER
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.public_rows import Drift, Undecided
from dpensemble.relations import Relation
from dpensemble.report.record import RunRecord, _with_unit_noun, declared_noun, unit_noun


@pytest.mark.parametrize(
    ("column", "noun"),
    [
        ("patient_id", "patient"),
        ("PatientID", "patient"),
        ("patientid", "patient"),
        ("Patient-No.", "patient"),
        ("study patient id", "patient"),
        ("household", "household"),
        ("families", "person"),
        ("customers", "customer"),
        ("visit_id", "visit"),
        ("turbine_id", "turbine"),
        ("pid", "person"),
        ("nhs_number", "person"),
        ("study_id", "person"),
        ("id", "person"),
        ("", "person"),
        ("1234", "person"),
        ("<script>", "person"),
    ],
)
def test_the_noun_follows_from_the_column(column, noun):
    assert unit_noun("unit", column) == noun
    assert unit_noun("unit", column, "tenant") == "tenant"
    # Without a unit column single records are protected, with or without a noun.
    assert unit_noun("record", column, "tenant") == "record"


@pytest.mark.parametrize(
    ("noun", "words"), [("Patient", "patient"), (" care  home ", "care home"), ("Bürger", "bürger")]
)
def test_a_declared_noun(noun, words):
    assert declared_noun(noun, "id") == words


@pytest.mark.parametrize("noun", ["", " ", "p" * 31, "a1", "<b>", "patient;", "x_y"])
def test_a_declared_noun_has_letters_only(noun):
    with pytest.raises(InvalidParameterError, match=r"unit_name=.* must be a noun in the singular"):
        declared_noun(noun, "id")


def test_a_noun_needs_a_unit_column():
    with pytest.raises(InvalidParameterError, match=r"single records are protected.*give --unit COLUMN"):
        declared_noun("patient", None)


@pytest.mark.parametrize(
    ("noun", "many"),
    [
        ("patient", "patients"), ("person", "people"), ("household", "households"), ("family", "families"),
        ("stay", "stays"), ("business", "businesses"), ("branch", "branches"), ("care home", "care homes"),
        ("record", "records"), ("unit", "units"), ("", "s"),
    ],
)  # fmt: skip
def test_plurals(noun, many):
    assert plural(noun) == many


def test_articles():
    assert [with_article(noun) for noun in ("employee", "patient")] == ["an employee", "a patient"]


@pytest.mark.parametrize(
    ("text", "noun", "words"),
    [
        (UNITS_TOGETHER, "patient", "All records with the same entry in the column “pid” belong to one patient and "
         "are protected together."),
        ("Which units (or records) are held back.", "person", "Which people are held back."),
        ("Which units (or records) are held back.", "record", "Which records are held back."),
        (MEMBERSHIP[Relation.REPLACE_ONE], "person", "Which group a person belongs to is public, and so is the size "
         "of each group; neighbouring data sets differ within one group."),
        ("Number of units", "household", "Number of households"),
        ("A unit adds one.", "employee", "An employee adds one."),
        ("Units of community units", "person", "People of community people"),
        ("the unit column, and opportunity", "person", "the unit column, and opportunity"),
        ("units in the same order, each by its first record.", "record", "records in the same order."),
    ],
)  # fmt: skip
def test_sentences_with_the_noun(text, noun, words):
    assert _with_unit_noun(text, noun, "pid") == words


def test_a_record_states_its_guarantee_with_the_noun(worst):
    guarantee = worst.guarantee | {"unit": "unit", "assumptions": [UNITS_TOGETHER], "n_units": 3}
    record = replace(worst, guarantee=guarantee, data=worst.data | {"unit_column": "family_id"})
    stated = record.statement()
    assert (record.unit, stated.unit) == ("family", "family")
    assert "Replacing any one family by any other" in stated.sentences()[1]
    assert "belong to one family" in stated.assumptions[0]
    # The stored guarantee stays as it is, so that programs read what they always did.
    assert (
        RunRecord.from_dict(record.to_dict() | {"settings": _settings(), "data": _data()}).guarantee["unit"] == "unit"
    )
    delta = replace(record, guarantee=guarantee | {"delta": 0.5}).statement().warning
    assert "the number of families" in delta


def _settings():
    names = ("n_teachers", "title", "law", "gated", "noise_chosen", "noise_in_words")
    return dict.fromkeys(names)


def _data():
    return dict.fromkeys(("private_units", "public_rows", "most_common_label", "kinds_of_columns"))


@pytest.fixture
def worst():
    return RunRecord(
        method="pate",
        guarantee={
            "epsilon": 1.0, "delta": 1e-5, "basis": "worst-case", "relation": "replace-one", "unit": "record",
            "accounting": "exact", "assumptions": [], "fixed_number": True,
        },
        budget={"epsilon": 1.0, "delta": 1e-5}, labels=1, asked=1, label_accuracy=None, student=None, baseline=None,
        worst_case_spend=[], data={}, settings={"gated": False}, versions={}, seconds={},
    )  # fmt: skip


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
    (with_data(readable_share=0.02, readable_share_error=0.01), "a number to predict needs its range", True),
    (with_data(private_units=1_900), "100 teachers for 1,900 records are about 19 records each", True),
]


def test_nothing_is_said_of_a_good_run():
    assert GOOD.remarks() == []
    assert with_data(public_alone={"rows": 100, "accuracy": 0.79}).remarks() == []
    assert len(with_data(private_units=2_600, held_back=200).remarks()) == 1
    assert with_data(private_units=2_600).remarks() == []


@pytest.mark.parametrize(("record", "text", "is_public"), CASES, ids=[case[1][:25] for case in CASES])
def test_what_speaks_against_a_run_is_said(record, text, is_public):
    (remark,) = record.remarks()
    assert text in remark.text
    assert remark.is_public == is_public


def test_a_student_of_rare_classes_may_still_rank_rows():
    """The labels of a student may all be alike while its probabilities have an AUROC of 0.75."""
    (two,) = with_data(answers={"no": 1.0, "yes": 0.0}).remarks()
    assert (
        "rank rows if the other class is rare: use 'dpensemble predict --probabilities' or '--threshold'." in two.text
    )
    (three,) = with_data(answers={"no": 1.0, "yes": 0.0, "perhaps": 0.0}).remarks()
    assert "if other classes are rare" in three.text
    assert "--threshold" not in three.text
    assert two.text.endswith("another run costs budget again.")


def test_what_rests_on_an_unprotected_number_of_labels_stays_inside():
    secret = GOOD.guarantee | {"basis": "data-dependent", "fixed_number": False}
    record = replace(with_data(answers={"no": 1.0, "yes": 0.0}), labels=13, guarantee=secret)
    assert [remark.is_public for remark in record.remarks()] == [False, False]
    assert record.unprotected_data >= {"answers", "released_labels", "public_truth"}


def test_small_teachers_of_a_secret_number_of_people_are_told_to_the_owner():
    record = replace(with_data(private_units=500), guarantee=GOOD.guarantee | {"relation": "add-or-remove-one"})
    (remark,) = record.remarks()
    assert "--teachers 12 would" in remark.text
    assert not remark.is_public
    everyone = replace(record, settings={"n_teachers": 100, "sharing": "everyone"})
    assert everyone.remarks() == []


def test_label_moments_have_neither_few_labels_nor_teachers():
    soft = replace(
        with_data(private_units=50),
        labels=13,
        settings={"n_teachers": None},
        releases=[{"description": "noisy sum", "table": None, "noise": None}],
    )
    assert soft.remarks() == []


def test_public_rows_that_are_unlike_the_private_ones_are_told_of_on_the_page():
    said = replace(GOOD, data={**GOOD.data, "unlike": "public rows do not look like the private ones."}).remarks()
    assert [(one.text, one.is_public) for one in said] == [("public rows do not look like the private ones.", True)]


def test_a_test_that_cannot_decide_is_reported_to_all():
    text = Drift(math.nan, math.nan, Undecided.UNKNOWN_UNITS).warning()
    said = replace(GOOD, data={**GOOD.data, "unlike": text}).remarks()
    assert [(one.text, one.is_public) for one in said] == [(text, True)]
    assert "public_units=" in text
    assert "--unit" in text


@pytest.mark.parametrize(
    ("share", "error", "is_said"), [(0.88, 0.01, True), (0.88, 0.05, False), (0.999, 0.001, False)]
)
def test_unreadable_records_are_said_when_they_are_sure(share, error, is_said):
    run = replace(GOOD, data=GOOD.data | {"readable_share": share, "readable_share_error": error})
    texts = [remark.text for remark in run.remarks()]
    assert any("12.0% of the private records could not be read" in text for text in texts) is is_said


def test_records_that_cannot_be_read_explain_why_public_rows_are_unlike():
    data = GOOD.data | {"unlike": "public rows do not look like the private ones."}
    run = replace(GOOD, data=data | {"readable_share": 0.2, "readable_share_error": 0.01})
    (text,) = [remark.text for remark in run.remarks()]
    assert text.startswith("about 80.0% of the private records could not be read")


def worded(**data):
    usual = {name: {} for name in ("guarantee", "budget", "settings", "versions", "seconds")}
    counts = dict.fromkeys(("labels", "asked"), 0)
    scores = dict.fromkeys(("label_accuracy", "student", "baseline"))
    return RunRecord(method="pate", worst_case_spend=[], data=data, **usual, **counts, **scores)


def test_areas_under_curves_say_of_which_class():
    assert "'yes'" in worded(classes=["no", "yes"], positive_class="yes").areas_in_words
    assert "means over 3 classes" in worded(classes=["a", "b", "c"]).areas_in_words


@pytest.mark.parametrize(
    ("share", "error", "words"),
    [
        (0.792, 0.1, "About 79.2% (95% interval by noise: 59.6% to 98.8%)"),
        # Nothing shows that a record could not be read.
        (1.0571, 0.0287, None),
        (0.792, 0.115, None),
        (0.01, 0.1, "About 1.0% (95% interval by noise: 0.0% to 20.6%)"),
        (0.5, None, None),
    ],
)
def test_the_share_of_readable_records_and_its_interval_stay_within_0_and_1(share, error, words):
    assert worded(readable_share=share, readable_share_error=error).readable_in_words == words
