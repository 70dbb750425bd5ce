"""Tables with texts are read in Python as the command line reads them, and tables of numbers stay as they are."""

import numpy as np
import pandas as pd
import pytest

from dpensemble import AutoClassifier, DiscriminantClassifier, LabelMomentsClassifier, PATEClassifier
from dpensemble.datasets import TablePreparation
from dpensemble.errors import ColumnWarning, DataError, InvalidParameterError

N, PUBLIC = 700, 200
DRAW = np.random.default_rng(0)
VALUES = DRAW.integers(10, 80, N)
PLAIN = pd.DataFrame({"age": VALUES.astype(float), "ward": DRAW.choice(["a", "b"], N)})
UGLY = pd.DataFrame(
    {
        "pay": [f"${number},200.50" for number in VALUES],
        "born": [f"{number % 28 + 1:02}.03.{2030 - number}" for number in VALUES],
        "patient_id": DRAW.permutation(N),
        "note": [f"seen on day {number} by {number % 7}" for number in range(N)],
        "ward": DRAW.choice(["a", "b"], N),
    }
)
Y = np.where(VALUES > 45, "yes", "no")
SETTINGS = {"classes": ["no", "yes"], "insecure_release_seed": 0, "delta": 1e-5}


def fitted(table, kind=LabelMomentsClassifier, **settings):
    rows = table[PUBLIC:].reset_index(drop=True)
    return kind(**SETTINGS, **settings).fit(rows, Y[PUBLIC:], X_public=table[:PUBLIC])


def test_texts_are_read_as_on_the_command_line():
    with pytest.warns(ColumnWarning) as caught:
        model = fitted(UGLY)
    texts = [str(one.message) for one in caught]
    assert texts[0].startswith("column 'patient_id' looks like whose record it is: give the private column as units=")
    assert texts[1] == (
        "column 'patient_id' (ids) names people or numbers records, and is left out; "
        "columns={'patient_id': 'category'} keeps it."
    )
    assert model.preparation_.words() == TablePreparation().fit(UGLY[:PUBLIC]).words()
    assert model.feature_names_in_.tolist() == list(UGLY)
    assert model.score(UGLY, Y) > 0.9
    prepared = model.preparation_.transform(UGLY)
    by_hand = fitted(prepared, columns="as given")
    assert (by_hand.predict_proba(prepared) == model.predict_proba(UGLY)).all()


def test_a_declared_column_is_kept():
    with pytest.warns(ColumnWarning, match="looks like whose record it is") as caught:
        model = fitted(UGLY, columns={"patient_id": "number"})
    assert len(caught) == 1
    assert model.preparation_.identifiers_ == {}
    assert "patient_id" in model.preparation_.output_columns


@pytest.mark.parametrize("table", [PLAIN, PLAIN[["age"]].assign(b=DRAW.random(N)), PLAIN.to_numpy(dtype=object)])
def test_what_needs_no_preparation_stays_equal_to_the_bit(table):
    rows = pd.DataFrame(table) if isinstance(table, np.ndarray) else table
    model = fitted(rows if rows is table else rows.set_axis([0, 1], axis=1).infer_objects())
    assert model.preparation_ is None
    as_given = fitted(rows if rows is table else rows.set_axis([0, 1], axis=1).infer_objects(), columns="as given")
    assert (as_given.predict_proba(rows) == model.predict_proba(rows)).all()


def test_texts_stay_categories_on_request():
    with pytest.warns(ColumnWarning):
        model = fitted(UGLY, columns="as given")
    assert model.preparation_ is None


def test_the_selected_method_reads_them_too():
    with pytest.warns(ColumnWarning) as caught:
        model = fitted(UGLY, AutoClassifier)
    assert len(caught) == 2
    assert model.preparation_.output_columns == ["pay", "ward", "born: year", "born: weekday"]


def test_two_readings_are_refused_before_the_charge():
    table = PLAIN.assign(size=[f"{number},234" for number in VALUES])
    with pytest.raises(DataError, match=r"column 'size' .* may be .*: give columns=\{'size': 'number:1,234.5'\}"):
        fitted(table)


@pytest.mark.parametrize("columns", ["given", 5, ["age"]])
def test_other_declarations_are_refused(columns):
    with pytest.raises(InvalidParameterError, match=r"columns=.* must be a dict such as .*, None, or 'as given'"):
        fitted(PLAIN, columns=columns)


@pytest.mark.filterwarnings("ignore::dpensemble.errors.ColumnWarning")
@pytest.mark.parametrize("kind", [DiscriminantClassifier, PATEClassifier])
def test_methods_of_numbers_refuse_texts(kind):
    with pytest.raises(DataError, match="has entries that are not numbers: encode text columns first"):
        fitted(UGLY, kind)


@pytest.mark.parametrize("odd", [None, "", "x", "$1", "99.99.9999", "\x00", "a@b.org", "1e999"])
def test_one_odd_record_changes_no_other_row(odd):
    """One private record replaced by anything: the same columns are read, and all other rows are equal to the bit."""
    from dpensemble.rows.arguments import PreparedRows

    model = LabelMomentsClassifier(**SETTINGS, on_bad_record="zero")
    rows = PreparedRows(model, UGLY[:PUBLIC])
    private = UGLY[PUBLIC : PUBLIC + 30].reset_index(drop=True).astype(object)
    mutated = private.copy()
    mutated.iloc[7] = [odd] * private.shape[1]
    before, after = rows.private(private), rows.private(mutated)
    assert list(before) == list(after) == rows.preparation.output_columns
    for name in before:
        others = [one[name].drop(index=7) for one in (before, after)]
        if others[0].dtype == float:
            assert others[0].to_numpy().tobytes() == others[1].to_numpy().tobytes()
        else:
            assert others[0].astype(object).tolist() == others[1].astype(object).tolist()
