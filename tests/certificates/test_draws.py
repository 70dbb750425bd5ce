"""Certificates of votes of teachers that hold a record by chance."""

import copy
import json
from functools import cache

import pytest

from dpensemble import BaggedPATEClassifier, plan
from dpensemble.certificates import certificate_of
from dpensemble.errors import AccountingError
from dpensemble.laws import GaussianNoisyMax

from .independent import body_of, said


@cache
def text_of_draws(scheme="with-replacement"):
    model = BaggedPATEClassifier(law=GaussianNoisyMax(12.0), n_teachers=20, scheme=scheme, subsample=10)
    found = plan(model.design(n_classes=2, n_records=1000), epsilon=1.0, delta=1e-4)
    assert found.labels >= 5
    return json.dumps(certificate_of(found.design, found.labels))


@pytest.mark.parametrize("scheme", ["with-replacement", "subsets", "distinct"])
def test_every_label_of_drawn_records_is_confirmed_and_one_more_is_not(tmp_path, scheme):
    certificate = json.loads(text_of_draws(scheme))
    parts = body_of(certificate)["parts"]
    assert len(parts) == 1 if scheme == "distinct" else len(parts) > 2
    assert f"{len(parts)} numbers of holders" in said(tmp_path, certificate)
    for part in parts:
        part["body"]["answers"] += 1
        part["body"]["windows"].append(part["body"]["windows"][-1])
    assert said(tmp_path, certificate).startswith("no: ")


def first(body):
    return body["parts"][0]


CORRUPTIONS = {
    "more records a teacher": lambda body: body.update(subsample=11),
    "fewer records": lambda body: body.update(records=900),
    "other draws": lambda body: body.update(scheme="distinct"),
    "unknown draws": lambda body: body.update(scheme="some"),
    "more teachers": lambda body: body.update(models=21),
    "no parts": lambda body: body.update(parts=[]),
    "first part left out": lambda body: body["parts"].pop(0),
    "last part twice": lambda body: body["parts"].append(body["parts"][-1]),
    "a larger epsilon inside": lambda body: first(body).update(epsilon=repr(float(first(body)["epsilon"]) * 1.001)),
    "a smaller delta inside": lambda body: body["parts"][-1].update(delta="1e-9"),
    "fewer votes": lambda body: body["parts"][1]["body"].update(votes=1),
    "fewer ballots": lambda body: first(body)["body"].update(ballots=19),
    "a weight more": lambda body: first(body)["body"].update(weight=2),
    "an answer more": lambda body: first(body)["body"].update(answers=first(body)["body"]["answers"] + 1),
    "a part with fewer answers": lambda body: (
        first(body)["body"].update(answers=first(body)["body"]["answers"] - 1) or first(body)["body"]["windows"].pop(0)
    ),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_planted_corruptions_of_draws_are_rejected(tmp_path, name):
    certificate = json.loads(text_of_draws())
    before = copy.deepcopy(certificate)
    CORRUPTIONS[name](body_of(certificate))
    assert certificate != before
    assert said(tmp_path, certificate).startswith("no: ")


def test_several_votes_of_many_classes_are_not_certified():
    model = BaggedPATEClassifier(law=GaussianNoisyMax(12.0), n_teachers=20, scheme="subsets", subsample=10)
    found = plan(model.design(n_classes=3, n_records=1000), epsilon=1.0, delta=1e-4)
    with pytest.raises(AccountingError, match="records that change one vote; got 2 votes"):
        certificate_of(found.design, found.labels)
