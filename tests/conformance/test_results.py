"""Every fitted estimator serves certificate, ledger, files and students alike, also behind an encoder."""

import json

import numpy as np
import pytest
from sklearn.base import clone

from dpensemble import (
    AutoClassifier,
    BaggedPATEClassifier,
    DPBaggingClassifier,
    EncodedClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
    RandomSubspaceClassifier,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
    UpsamplingPATEClassifier,
    VanishingPATEClassifier,
    WeightingPATEClassifier,
    load_classifier,
    methods,
    save_classifier,
)
from dpensemble.certificates import certificate_of_fit, confirmed
from dpensemble.errors import AccountingError, NotForReleaseWarning
from dpensemble.ledger import Ledger
from dpensemble.ledger.filters import Amount

N = 240
RNG = np.random.default_rng(0)
X, PUBLIC = RNG.normal(size=(N, 2)), RNG.normal(size=(150, 2))
LABELS = (X[:, 0] > 0).astype(int)
RUN = {"classes": [0, 1], "epsilon": 4.0, "delta": 1e-4, "random_state": 0, "insecure_release_seed": 0}
VOTES = RUN | {"n_teachers": 30}
BUDGETS = {"budgets": np.where(np.arange(N) % 2, 2.0, 4.0)}
PLAIN = {
    "auto": (AutoClassifier(**RUN), {}),
    "bagged pate": (BaggedPATEClassifier(**VOTES, max_labels=3), {}),
    "dpbag": (DPBaggingClassifier(**VOTES, n_partitions=1), {}),
    "label moments": (LabelMomentsClassifier(**RUN), {}),
    "pate": (PATEClassifier(**VOTES), {}),
    "private majority": (PrivateMajorityClassifier(**RUN), {}),
    "random subspace": (RandomSubspaceClassifier(**VOTES), {}),
    "saa": (SubsampleAggregateClassifier(**VOTES), {}),
    "soft votes": (SoftVotesClassifier(**VOTES), {}),
    "upsampling": (UpsamplingPATEClassifier(**VOTES), BUDGETS),
    "vanishing": (VanishingPATEClassifier(**VOTES), BUDGETS),
    "weighting": (WeightingPATEClassifier(**VOTES), BUDGETS),
}
# A method that reads tables by itself encodes them by itself.
ENCODED = {
    f"encoded {name}": (EncodedClassifier(model), more)
    for name, (model, more) in PLAIN.items()
    if name not in ("auto", "label moments")
}
MODELS = PLAIN | ENCODED
#: For these there is no certificate, which `certificate_of` says.
NONE = {"private majority"}


@pytest.fixture(scope="module")
def fitted():
    """Fit each model once, when it is asked for."""
    models = {}

    def one(name):
        if name not in models:
            model, more = MODELS[name]
            models[name] = clone(model).fit(X, LABELS, X_public=PUBLIC, **more)
        return models[name]

    return one


def test_every_method_that_trains_a_student_is_here():
    listed = {type(model) for model, _ in MODELS.values()}
    assert {getattr(methods, name) for name in methods.__all__} - listed == {methods.BaggingPrivacyClassifier}


@pytest.mark.parametrize("name", MODELS)
def test_every_run_states_the_same_results(fitted, name):
    model = fitted(name)
    for attribute in ("charges_", "classes_", "design_", "guarantee_", "labels_", "law_", "seconds_", "spend_"):
        # Votes have no charges of sums; a wrapper says so.
        assert hasattr(model, attribute) or attribute == "charges_"
    assert model.guarantee_.epsilon <= 4.0 + 1e-9
    assert model.design_.groups
    assert model.design_.settings() is not None
    json.dumps(model.guarantee_.to_dict())


@pytest.mark.parametrize("name", MODELS)
def test_a_certificate_is_written_and_confirmed_or_refused_in_a_sentence(fitted, name, tmp_path):
    if name.removeprefix("encoded ") in NONE:
        with pytest.raises(AccountingError, match="certificates are for"):
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


@pytest.mark.parametrize("name", MODELS)
def test_a_student_is_saved_and_loaded(fitted, name, tmp_path):
    model = fitted(name)
    save_classifier(model.student_, tmp_path / "student.skops")
    with pytest.warns(NotForReleaseWarning):
        student = load_classifier(tmp_path / "student.skops")
    assert np.array_equal(student.predict_proba(PUBLIC), model.student_.predict_proba(PUBLIC))


@pytest.mark.parametrize("name", MODELS)
def test_a_ledger_is_charged_before_noise_is_drawn(name, tmp_path):
    model, more = MODELS[name]
    account = Ledger.create(tmp_path / "ledger.db").open_account("people", epsilon=20, delta=1e-3)
    clone(model).fit(X, LABELS, X_public=PUBLIC, ledger=account, **more)
    assert account.state().spent != Amount()
