"""What public facts show to be a mistake."""

import pandas as pd
import pytest

from dpensemble.datasets.public_facts import PublicFacts, judge
from dpensemble.errors import DataError, InvalidParameterError

FACTS = {"classes": ["no", "yes"], "target": "ill"}


def labels(*entries):
    column = pd.Series(entries, dtype=object)
    return {"public": (column, column)}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"purposes": {"unit": "ill"}}, "unit='ill' is also the target"),
        ({"purposes": {"budgets": "ill"}}, "budgets='ill' is also the target"),
        ({"purposes": {"unit": "who", "budgets": "who"}}, "budgets='who' is also the unit"),
        ({"groups": ["ill"]}, "groups='ill' is also the target"),
        ({"purposes": {"unit": "who"}, "groups": ["who"]}, "groups='who' is also the target, the unit"),
        ({"drop": ["age", "ill"]}, "drop='ill' is also the target, which every record needs"),
        ({"purposes": {"unit": "who"}, "drop": ["who"]}, "drop='who' is also the unit"),
        ({"labels": labels("Y", "N", None)}, "100 % of the labels in column 'ill' of the public table .* 'Y', 'N'"),
        ({"labels": labels("Y", "N", "no")}, "67 % of the labels"),
    ],
)
def test_mistakes_raise(facts, message):
    with pytest.raises((DataError, InvalidParameterError), match=message):
        judge(PublicFacts(**FACTS, **facts))


def test_what_is_right_or_unknown_is_silent():
    facts = PublicFacts(**FACTS, purposes={"unit": None, "budgets": None}, drop=["age"], labels=labels(None, None))
    assert judge(facts).notes == ()
    assert judge(PublicFacts(**FACTS, labels=labels("no", "yes"))).notes == ()


def test_a_few_undeclared_public_labels_are_a_note():
    (note,) = judge(PublicFacts(**FACTS, labels=labels("no", "yes", "yes", "perhaps"))).notes
    assert "25 % of the labels" in note.text
    assert note.is_doubtful


def test_how_columns_are_read_is_stated():
    judgement = judge(PublicFacts(**FACTS, rows=pd.DataFrame({"age": [1.0, 2.0], "sex": ["f", "m"]})))
    assert judgement.columns == {"age": "number", "sex": "category"}
