"""Every fitted estimator serves certificate, ledger, files and students alike, also behind an encoder."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dpensemble import EncodedClassifier, PATEClassifier, load_classifier, methods, save_classifier
from dpensemble.allocation.budget_groups import personal_budgets
from dpensemble.certificates import certificate_of_fit, confirmed
from dpensemble.errors import AccountingError, NotForReleaseWarning
from dpensemble.report import RunRecord
from dpensemble.report.card import card_as_markdown, model_card
from dpensemble.report.page import render
from dpensemble.server import Ledger
from dpensemble.server.filters import Amount
from dpensemble.workflow import Tables, compare
from dpensemble.workflow.comparison import COMPARED
from dpensemble.workflow.comparison_data import ComparedDataset, comparison_data
from dpensemble.workflow.run_record import Measured, run_record
from dpensemble.workflow.train import RowConversion

from ..estimators import PERSONALISED, estimators

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

N = 240
RNG = np.random.default_rng(0)
X, PUBLIC = RNG.normal(size=(N, 2)), RNG.normal(size=(150, 2))
LABELS = (X[:, 0] > 0).astype(int)
RUN = {"classes": [0, 1], "epsilon": 4.0, "delta": 1e-4, "random_state": 0, "insecure_release_seed": 0}
VOTES = RUN | {"n_teachers": 30}
BUDGETS = {"budgets": np.where(np.arange(N) % 2, 2.0, 4.0)}
OWN = {"bagged-pate": {"max_labels": 3}, "bagging": {"delta": 0.05}, "dpbag": {"n_partitions": 1}}
PLAIN = estimators(RUN, VOTES, OWN)
# Bagging publishes models instead of a student, and takes no public rows.
BAGGING = {"bagging": PLAIN.pop("bagging")}
del PLAIN["encoded"]
# A method that reads tables itself also encodes them itself.
ENCODED = {
    f"encoded {name}": EncodedClassifier(model)
    for name, model in PLAIN.items()
    if name not in ("auto", "label-moments")
}
STUDENTS = PLAIN | ENCODED
MODELS = STUDENTS | BAGGING
#: These have no certificate, as `certificate_of` reports.
NONE = {"private-majority"}
VIEWS = ("charges", "classes", "design", "drift", "effects", "guarantee", "labels", "law", "readable_share")
VIEWS += ("recommendation", "seconds", "spend", "student")


def fit(name, **given):
    public = {} if name == "bagging" else {"X_public": PUBLIC}
    budgets = BUDGETS if name.endswith(PERSONALISED) else {}
    return clone(MODELS[name]).fit(X, LABELS, **public, **budgets, **given)


@pytest.fixture(scope="module")
def fitted():
    """Fit each model once, when it is asked for."""
    models = {}

    def one(name):
        if name not in models:
            models[name] = fit(name)
        return models[name]

    return one


def test_every_method_is_here():
    listed = {type(model) for model in MODELS.values()}
    assert {getattr(methods, name) for name in methods.__all__} == listed


@pytest.mark.parametrize("name", MODELS)
def test_every_attribute_of_a_run_is_a_view_of_the_one_result(fitted, name):
    model = fitted(name)
    for attribute in VIEWS:
        shown, held = getattr(model, f"{attribute}_"), getattr(model.result_, attribute)
        # A design of sums makes its law whenever it is asked.
        assert shown is held or (attribute == "law" and shown == held)
        assert f"{attribute}_" not in vars(model)
        with pytest.raises(AttributeError):
            setattr(model, f"{attribute}_", None)
        assert not hasattr(clone(model), f"{attribute}_")
    result = model.result_
    assert result.guarantee.epsilon <= 4.0 + 1e-9
    assert result.design.groups
    assert result.voted == (result.charges is None and bool(len(result.labels)))
    json.dumps([result.guarantee.to_dict(), [asdict(one) for one in result.releases], result.learners])


@pytest.mark.parametrize("name", MODELS)
def test_a_certificate_is_written_and_confirmed_or_refused_in_a_sentence(fitted, name, tmp_path):
    if name.removeprefix("encoded ") in NONE:
        with pytest.raises(AccountingError, match=r"certificates (are for|need)"):
            certificate_of_fit(fitted(name))
        return
    found = certificate_of_fit(fitted(name))
    assert found["for_release"] is False
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(found))
    yes, said = confirmed(path)
    assert not yes
    assert "NOT FOR RELEASE" in said
    path.write_text(json.dumps(found | {"for_release": True}))
    assert confirmed(path)[0]


@pytest.mark.parametrize("name", STUDENTS)
def test_a_report_and_a_card_are_written_of_the_result(fitted, name):
    result = fitted(name).result_
    columns = ["a", "b"]
    tables = Tables(
        name="made up",
        classes=[0, 1],
        X_private=pd.DataFrame(X, columns=columns),
        y_private=pd.Series(LABELS),
        X_public=pd.DataFrame(PUBLIC, columns=columns),
    )
    reader = RowConversion(tables.X_public, PATEClassifier(), fill=False)
    personal = personal_budgets(BUDGETS["budgets"], delta=1e-4) if name.endswith(PERSONALISED) else None
    record = run_record(result, tables, reader, Measured(seconds=result.seconds), personal)
    record = RunRecord.from_dict(json.loads(json.dumps(record.to_dict())))
    page = render(record)
    assert result.design.title in page
    assert ("What was released" in page) == record.released_sums == (not result.voted)
    assert record.experiment == ["The noise came from a seed, so it can be removed."]
    assert result.design.title in card_as_markdown(model_card(record)).replace("\\", "")


@pytest.mark.parametrize("name", STUDENTS)
def test_a_student_is_saved_and_loaded(fitted, name, tmp_path):
    model = fitted(name)
    save_classifier(model.student_, tmp_path / "student.skops")
    with pytest.warns(NotForReleaseWarning):
        student = load_classifier(tmp_path / "student.skops")
    assert np.array_equal(student.predict_proba(PUBLIC), model.student_.predict_proba(PUBLIC))


@pytest.mark.parametrize("name", MODELS)
def test_a_ledger_is_charged_before_noise_is_drawn(name, tmp_path):
    # A tenth of delta is for releases without a Renyi curve, as bagging is.
    delta = 0.999 if name == "bagging" else 1e-3
    account = Ledger.create(tmp_path / "ledger.db").open_account("people", epsilon=20, delta=delta)
    fit(name, ledger=account)
    assert account.state().spent != Amount()


@pytest.mark.parametrize("name", COMPARED)
def test_a_method_is_compared_by_its_result(name):
    data = comparison_data(ComparedDataset.DIGITS, classes=(3, 8))
    (row,) = compare(data, methods=[name], epsilon=12.0, delta=0.2, repeats=1, random_state=0).methods
    # An optional extra may be missing.
    assert row.error is None or "pip install" in row.error
    assert row.error or (row.bought and row.text and row.released and row.epsilon is not None)
