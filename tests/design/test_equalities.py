"""Routes that are the same run under other names: same labels, same guarantee."""

import numpy as np
import pytest

from dpensemble import (
    DPBaggingClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
    SubsampleAggregateClassifier,
    UpsamplingPATEClassifier,
    VanishingPATEClassifier,
    WeightingPATEClassifier,
    plan,
)
from dpensemble.design.plan import with_least_noise
from dpensemble.design.private_answers import fitted_answer
from dpensemble.guarantee import Budget
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax

SETTINGS = {"classes": [0, 1], "n_teachers": 40, "epsilon": 3.0, "random_state": 0, "insecure_release_seed": 1}
BY_GROUP = [UpsamplingPATEClassifier, VanishingPATEClassifier, WeightingPATEClassifier]
RELATIONS = ["replace-one", "add-or-remove-one"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(1200, 3)), rng.normal(size=(150, 3))
    return X, (X[:, 0] > 0).astype(int), public


def released(model, rows, **given):
    X, y, public = rows
    model.fit(X, y, X_public=public, **given)
    return model.labels_.labels.tolist(), model.labels_.indices.tolist(), model.guarantee_


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("accounting", ["exact", "published"])
def test_four_methods_are_one_with_one_partition_and_the_same_noise(rows, relation, accounting):
    """SAA, DPBag with one partition, and PATE (personalised or not) with Laplace noise of half the teachers."""
    settings = SETTINGS | {"relation": relation, "accounting": accounting}
    found = [
        released(model, rows)
        for model in (
            SubsampleAggregateClassifier(**settings, law=LaplaceNoisyMax(20.0)),
            DPBaggingClassifier(**settings, law=LaplaceNoisyMax(20.0), n_partitions=1),
            PATEClassifier(**settings, law=LaplaceNoisyMax(20.0)),
            *(kind(**settings, law=LaplaceNoisyMax(20.0)) for kind in BY_GROUP),
        )
    ]
    assert all(other == found[0] for other in found[1:])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", BY_GROUP)
@pytest.mark.parametrize("analysis", ["worst-case", "data-dependent"])
def test_groups_of_one_budget_are_plain_pate_label_for_label(rows, relation, kind, analysis):
    settings = SETTINGS | {"relation": relation, "analysis": analysis, "max_labels": 20, "law": GaussianNoisyMax(7.0)}
    plain = released(PATEClassifier(**settings), rows)
    shares = {3.0: 1.0} if relation == "add-or-remove-one" else None
    labels, indices, guarantee = released(kind(**settings), rows, budgets=np.full(1200, 3.0), group_shares=shares)
    assert (labels, indices) == plain[:2]
    for name in ("epsilon", "delta", "accounting"):
        assert getattr(guarantee, name) == getattr(plain[2], name)
    assert [group.epsilon for group in guarantee.groups] == [plain[2].epsilon]


def test_the_data_dependent_analysis_of_bagging_and_of_pate_are_one(rows):
    settings = SETTINGS | {"analysis": "data-dependent", "max_labels": 20, "law": LaplaceNoisyMax(20.0)}
    assert released(DPBaggingClassifier(**settings, n_partitions=1), rows) == released(PATEClassifier(**settings), rows)


def test_gaussian_noise_on_ordinary_majorities_is_planned_like_any_other():
    budget = Budget(epsilon=1.0, delta=1e-5)
    law = fitted_answer("gnmax", 21, touched=1, teacher=(0, 0), queries=30, budget=budget).law
    design = PATEClassifier(n_teachers=21, law="gnmax", epsilon=1.0).design(n_classes=2)
    assert law == with_least_noise(design, 30).law == plan(design, epsilon=1.0, labels=30).design.law
    shared = fitted_answer("gnmax", 21, touched=21, teacher=(0, 0), queries=30, budget=budget).law
    bagged = DPBaggingClassifier(n_teachers=1, n_partitions=21, law="gnmax", epsilon=1.0).design(n_classes=2)
    assert shared == with_least_noise(bagged, 30).law


def test_private_majorities_with_gaussian_noise_are_pate(rows):
    settings = SETTINGS | {"max_labels": 10, "law": "gnmax"}
    majority = released(PrivateMajorityClassifier(**settings, sharing="partition"), rows)
    law = with_least_noise(PATEClassifier(**SETTINGS).design(), 10).law
    plain = released(PATEClassifier(**SETTINGS | {"max_labels": 10, "law": law}), rows)
    assert majority[:2] == plain[:2]
    assert majority[2].epsilon == plain[2].epsilon
