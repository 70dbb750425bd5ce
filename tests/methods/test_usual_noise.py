"""Noise by name: usual, or less if the questions would leave some of the budget. An object never changes."""

import numpy as np
import pytest

from dpensemble import (
    BaggedPATEClassifier,
    DPBaggingClassifier,
    PATEClassifier,
    SubsampleAggregateClassifier,
    WeightingPATEClassifier,
)
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, LaplaceNoisyMax

COMMON = {"classes": [0, 1], "n_teachers": 20, "epsilon": 8.0, "random_state": 0}
FITTED = "fitted"


def chosen(model):
    return model.design_.settings()["noise_chosen"]


BY_USUAL_NOISE = [
    (SubsampleAggregateClassifier, {}),
    (SubsampleAggregateClassifier, {"accounting": "published"}),
    (DPBaggingClassifier, {"n_partitions": 3}),
    (PATEClassifier, {"law": "lnmax"}),
    (PATEClassifier, {}),
    (PATEClassifier, {"law": "optimal"}),
    (BaggedPATEClassifier, {}),
    (WeightingPATEClassifier, {"accounting": "published"}),
]


@pytest.mark.parametrize(("method", "settings"), BY_USUAL_NOISE)
def test_few_public_rows_spend_the_whole_budget(blobs, method, settings):
    X, y, public = blobs
    model = method(**COMMON | settings).fit(X, y, X_public=public[:4])
    assert len(model.labels_) == 4
    assert 0.995 * 8 <= model.guarantee_.epsilon <= 8
    assert chosen(model) == FITTED
    assert model.law_.noise < method(**COMMON | settings).design(n_records=len(X)).law.noise


@pytest.mark.parametrize(("method", "settings"), BY_USUAL_NOISE)
def test_a_number_that_is_asked_for_is_answered_with_more_noise_too(blobs, method, settings):
    X, y, public = blobs
    model = method(**COMMON | settings, max_labels=250).fit(X, y, X_public=public)
    assert len(model.labels_) == 250
    assert 0.995 * 8 <= model.guarantee_.epsilon <= 8
    assert chosen(model) == FITTED
    assert model.law_.noise > 1.0


def test_many_public_rows_leave_the_usual_noise(blobs):
    X, y, public = blobs
    model = PATEClassifier(**COMMON).fit(X, y, X_public=public)
    assert model.law_ == GaussianNoisyMax(3.2)
    assert len(model.labels_) < len(public)
    assert chosen(model) == "usual"


@pytest.mark.parametrize("law", [GaussianNoisyMax(3.2), LaplaceNoisyMax(10), ConfidentNoisyMax(12, 8, 3)])
@pytest.mark.parametrize("rows", [4, 300])
@pytest.mark.parametrize("max_labels", [None, 4])
def test_a_law_object_is_never_changed(blobs, law, rows, max_labels):
    X, y, public = blobs
    model = PATEClassifier(**COMMON, law=law, max_labels=max_labels).fit(X, y, X_public=public[:rows])
    assert model.law_ is law
    assert chosen(model) == "given"


def test_a_gate_never_gets_more_noise_than_is_usual(blobs):
    X, y, public = blobs
    settings = COMMON | {"law": "confident-gnmax", "epsilon": 20.0}
    usual = PATEClassifier(**settings).design().law
    asked = PATEClassifier(**settings, max_labels=300).fit(X, y, X_public=public)
    assert asked.law_ == usual
    few = PATEClassifier(**settings).fit(X, y, X_public=public[:3])
    assert few.law_.sigma < usual.sigma
    assert chosen(few) == FITTED


def test_a_data_dependent_run_has_the_usual_noise(blobs):
    X, y, public = blobs
    model = PATEClassifier(**COMMON, analysis="data-dependent", max_labels=3).fit(X, y, X_public=public)
    assert model.law_ == GaussianNoisyMax(3.2)
    assert chosen(model) == "usual"


def test_times_of_every_stage_are_kept(blobs):
    X, y, public = blobs
    model = PATEClassifier(**COMMON).fit(X, y, X_public=public)
    assert set(model.seconds_) >= {"accounting", "teachers", "labels", "student"}
    assert all(np.isfinite(value) and value >= 0 for value in model.seconds_.values())
