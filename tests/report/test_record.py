"""A protected unit is called by what its column names, and never by a noun that promises more."""

from dataclasses import replace

import pytest

from dpensemble._checks import plural, with_article
from dpensemble.engine.classifier import MEMBERSHIP, UNITS_TOGETHER
from dpensemble.errors import InvalidParameterError
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
