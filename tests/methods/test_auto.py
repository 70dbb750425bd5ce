"""The method that public facts speak for."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from dpensemble import AutoClassifier, LabelMomentsClassifier, PrivateMajorityClassifier
from dpensemble.errors import InvalidParameterError
from dpensemble.methods.auto import _PublicFacts, _recommend
from dpensemble.rows import arguments, checked

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

PLAIN = {
    "n_public": 5000, "n_units": 16000, "n_columns": 14, "n_classes": 2, "has_units": False, "has_blanks": False,
    "epsilon": 1.0,
}  # fmt: skip
FEW = {"n_units": 499, "n_public": 999}


@pytest.mark.parametrize(
    ("facts", "method"),
    [
        ({}, "label-moments"),
        ({"n_public": 10}, "label-moments"),
        ({"n_public": 0}, "label-moments"),
        (FEW, "private-majority"),
        (FEW | {"n_units": 500}, "label-moments"),
        (FEW | {"n_units": 4000, "epsilon": 0.1}, "private-majority"),
        (FEW | {"n_public": 100}, "private-majority"),
        (FEW | {"n_public": 1000}, "label-moments"),
        (FEW | {"n_public": 99}, "label-moments"),
        (FEW | {"n_classes": 3}, "label-moments"),
        (FEW | {"has_units": True}, "label-moments"),
        (FEW | {"has_blanks": True}, "label-moments"),
        ({"n_units": None, "epsilon": 0.01}, "label-moments"),
        ({"n_classes": 26, "epsilon": 0.1}, "label-moments"),
    ],
)
def test_the_rule(facts, method):
    found = _recommend(_PublicFacts(**PLAIN | facts))
    assert found.method == method
    assert found.why.endswith(".")
    assert found.otherwise.endswith(".")


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=3200), "name": rng.choice(["u", "v"], size=3200)})
    labels = np.where(table["x"] + (table["name"] == "u") > 0.5, "yes", "no")
    return table, labels


@pytest.mark.parametrize(("n_private", "on_bad_record"), [(600, "raise"), (600, "zero"), (240, "raise"), (240, "zero")])
def test_a_private_record_is_checked_and_converted_once(tables, monkeypatch, n_private, on_bad_record):
    """Entries and labels are read by the function that is named so, for each method that may be chosen."""
    calls = Counter()

    def count(where, name):
        real = getattr(where, name)

        def counting(*given, **named):
            calls[name] += len(given[0]) == n_private if name == "checked_entries" else 1
            return real(*given, **named)

        monkeypatch.setattr(where, name, counting)

    count(arguments, "checked_entries")
    count(checked, "in_public_columns")
    count(checked, "class_ids")
    table, labels = tables
    model = AutoClassifier(
        classes=["no", "yes"], epsilon=2.0, random_state=0, insecure_release_seed=0, on_bad_record=on_bad_record
    )
    model.fit(table[:n_private], labels[:n_private], X_public=table[2800:])
    assert calls == {"checked_entries": 1, "in_public_columns": 1, "class_ids": 1}


@pytest.mark.parametrize(
    ("n_private", "kind"), [(2800, LabelMomentsClassifier), (240, PrivateMajorityClassifier)], ids=["many", "few"]
)
def test_tables_with_texts_go_through_whatever_is_chosen(tables, n_private, kind):
    table, labels = tables
    model = AutoClassifier(classes=["no", "yes"], epsilon=2.0, random_state=0, insecure_release_seed=0)
    model.fit(table[:n_private], labels[:n_private], X_public=table[2800:3100])
    assert type(model.fitted_) is kind
    assert model.design_.settings()["method"] == model.recommendation_.method
    assert model.score(table[2800:], labels[2800:]) > 0.75
    assert len(model.labels_) == 300
    assert model.guarantee_.epsilon <= 2.0
    assert np.array_equal(model.student_.predict(table[2800:2900]), model.predict(table[2800:2900]))


@pytest.mark.parametrize("epsilon", ["1", None, -1])
def test_a_budget_that_is_no_number_is_named(tables, epsilon):
    table, labels = tables
    with pytest.raises(InvalidParameterError, match=f"epsilon={epsilon!r} is not a number"):
        AutoClassifier(classes=["no", "yes"], epsilon=epsilon).fit(table[:500], labels[:500], X_public=table[500:])


def test_a_student_of_ones_own_learns_from_the_published_model(tables):
    table, labels = tables
    model = AutoClassifier(DecisionTreeClassifier(max_depth=3), classes=["no", "yes"], epsilon=2.0, random_state=0)
    model.fit(table[:2000], labels[:2000], X_public=table[2000:2600])
    assert isinstance(model.student_.named_steps["student"], DecisionTreeClassifier)
    assert model.score(table[2600:], labels[2600:]) > 0.75


def test_what_private_rows_hold_plays_no_part_in_the_choice(tables):
    table, labels = tables
    model = AutoClassifier(classes=["no", "yes"], delta=1e-4)
    chosen = {
        model.fit(table[n : n + 400], labels[n : n + 400], X_public=table[2800:3000]).recommendation_.method
        for n in (0, 400)
    }
    assert chosen == {"private-majority"}


def test_their_number_plays_none_where_it_is_private(tables):
    table, labels = tables
    model = AutoClassifier(classes=["no", "yes"], relation="add-or-remove-one", delta=1e-4)
    assert model.fit(table[:400], labels[:400], X_public=table[2800:3000]).recommendation_.method == "label-moments"


def test_declared_columns_in_place_of_public_rows(tables):
    table, labels = tables
    columns = {"x": (-3, 3), "name": ["u", "v"]}
    model = AutoClassifier(classes=["no", "yes"], declared_columns=columns, epsilon=2.0, insecure_release_seed=0)
    model.fit(table[:2800], labels[:2800])
    assert model.recommendation_.method == "label-moments"
    assert model.score(table[2800:], labels[2800:]) > 0.75
    assert len(model.labels_) == 0
