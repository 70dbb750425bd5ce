"""A law that a user writes, in fifteen lines, works everywhere that the library's own laws do."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from dpensemble import (
    BaggedPATEClassifier,
    DPBaggingClassifier,
    PATEClassifier,
    SubsampleAggregateClassifier,
    UpsamplingPATEClassifier,
    VanishingPATEClassifier,
    WeightingPATEClassifier,
    plan,
)
from dpensemble.audit import audit_law
from dpensemble.laws import ReleaseLaw
from dpensemble.report.page import render
from dpensemble.workflow import TableFiles, file_tables, train


@dataclass(frozen=True)
class Share(ReleaseLaw):
    """A ballot drawn at random, after some for every class."""

    title: ClassVar[str] = "share of the votes"
    in_votes: ClassVar[tuple[str, ...]] = ("extra",)
    extra: float

    def probabilities(self, counts):
        raised = counts + self.extra
        return raised / raised.sum(axis=1, keepdims=True)


RELEASED_BY_OWN_LAW = [
    (SubsampleAggregateClassifier, {}),
    (DPBaggingClassifier, {"n_partitions": 2}),
    (DPBaggingClassifier, {"n_partitions": 2, "analysis": "until-spent"}),
    (PATEClassifier, {}),
    (PATEClassifier, {"analysis": "data-dependent", "max_labels": 3}),
    (BaggedPATEClassifier, {}),
    (UpsamplingPATEClassifier, {}),
    (VanishingPATEClassifier, {}),
    (WeightingPATEClassifier, {}),
]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("method", "settings"), RELEASED_BY_OWN_LAW)
def test_every_estimator_takes_it(blobs, method, settings, n_classes):
    X, _, public = blobs
    y = np.digitize(X[:, 0], [0.0] if n_classes == 2 else [-0.5, 0.5])
    settings = {"n_teachers": 6, "epsilon": 4.0, "delta": 1e-4, "random_state": 0} | settings
    model = method(classes=range(n_classes), law=Share(8.0), **settings)
    more = {"budgets": np.where(np.arange(len(X)) % 2, 2.0, 4.0)} if model.takes_budgets else {}
    model.fit(X, y, X_public=public[:15], **more)
    assert model.law_ == Share(8.0)
    assert 0 < len(model.labels_) <= 15
    assert 0 < model.guarantee_.epsilon <= 4
    assert model.design_.settings()["extra"] == 8.0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_is_planned_and_audited(n_classes):
    design = PATEClassifier(n_teachers=6, law=Share(8.0)).design(n_classes=n_classes)
    found = plan(design, epsilon=2.0)
    assert found.labels > 0
    assert found.to_dict()["law"] == "share of the votes"
    one = design.costs[0].epsilon(1e-5)
    assert audit_law(Share(8.0), 6, n_classes, delta=1e-5).epsilon <= one


def test_it_is_reported(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(20, 80, 400), "height": rng.normal(170, 10, 400)})
    table["sick"] = np.where(table["age"] > 50, "yes", "no")
    for name, rows in (("private", table[:300]), ("public", table[300:])):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    tables = file_tables(
        TableFiles(
            private=tmp_path / "private.csv", public=tmp_path / "public.csv", target="sick", classes=["no", "yes"]
        )
    )
    record = train(tables, PATEClassifier(n_teachers=10, law=Share(20.0), epsilon=2.0)).record
    assert record.settings["law"] == "share of the votes"
    assert record.settings["extra"] == 20.0
    assert "share of the votes" in render(record)
