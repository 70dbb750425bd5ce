"""scikit-learn's own conformance suite, on every method.

The suite calls ``fit(X, y)`` on plain data, so each method is wrapped to take
its public rows and classes from there, with a budget at which noise does not
hide mistakes. Everything else is the shipped class.
"""

import copy
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpensemble
from dpensemble import (
    AutoClassifier,
    BaggedPATEClassifier,
    BaggingPrivacyClassifier,
    DiscriminantClassifier,
    DPBaggingClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
    RandomSubspaceClassifier,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
    UpsamplingPATEClassifier,
    VanishingPATEClassifier,
    WeightingPATEClassifier,
    methods,
)
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.moments import TableMap

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

ROOT = Path(__file__).parents[2]


class _SelfPublic:
    def fit(self, X, y, **kwargs):
        if self.classes is not None or y is None:
            return super().fit(X, y, X_public=copy.deepcopy(X), **kwargs)
        try:
            self.classes = list(np.unique(np.asarray(y)))
            return super().fit(X, y, X_public=copy.deepcopy(X), **kwargs)
        finally:
            self.classes = None


class SelfPublicSAA(_SelfPublic, SubsampleAggregateClassifier):
    __init__ = SubsampleAggregateClassifier.__init__


class SelfPublicDPBag(_SelfPublic, DPBaggingClassifier):
    __init__ = DPBaggingClassifier.__init__


class SelfPublicPATE(_SelfPublic, PATEClassifier):
    __init__ = PATEClassifier.__init__


class SelfPublicSubspace(_SelfPublic, RandomSubspaceClassifier):
    __init__ = RandomSubspaceClassifier.__init__


class SelfPublicMoments(_SelfPublic, LabelMomentsClassifier):
    __init__ = LabelMomentsClassifier.__init__


class SelfPublicDiscriminant(_SelfPublic, DiscriminantClassifier):
    __init__ = DiscriminantClassifier.__init__


class SelfPublicSoftVotes(_SelfPublic, SoftVotesClassifier):
    __init__ = SoftVotesClassifier.__init__


class SelfPublicAuto(_SelfPublic, AutoClassifier):
    __init__ = AutoClassifier.__init__


class SelfPublicBaggedPATE(_SelfPublic, BaggedPATEClassifier):
    __init__ = BaggedPATEClassifier.__init__


class _TwoBudgets(_SelfPublic):
    """Gives every other record twice the budget of the rest."""

    def fit(self, X, y, **kwargs):
        n_records = 0 if y is None else np.asarray(y).size
        budgets = np.where(np.arange(n_records) % 2, 1.0, 2.0) * self.epsilon
        return super().fit(X, y, budgets=budgets if n_records > 1 else None, **kwargs)


class SelfPublicUpsampling(_TwoBudgets, UpsamplingPATEClassifier):
    __init__ = UpsamplingPATEClassifier.__init__


class SelfPublicVanishing(_TwoBudgets, VanishingPATEClassifier):
    __init__ = VanishingPATEClassifier.__init__


class SelfPublicWeighting(_TwoBudgets, WeightingPATEClassifier):
    __init__ = WeightingPATEClassifier.__init__


class SelfPublicMajority(_SelfPublic, PrivateMajorityClassifier):
    __init__ = PrivateMajorityClassifier.__init__


class SelfDeclaredBagging(BaggingPrivacyClassifier):
    """Takes its classes from the labels of the suite, and has no public rows."""

    __init__ = BaggingPrivacyClassifier.__init__

    def fit(self, X, y, **kwargs):
        if self.classes is not None or y is None:
            return super().fit(X, y, **kwargs)
        try:
            self.classes = list(np.unique(np.asarray(y)))
            return super().fit(X, y, **kwargs)
        finally:
            self.classes = None


SETTINGS = {
    "n_teachers": 3,
    "law": LaplaceNoisyMax(0.05),
    "epsilon": 1e6,
    "random_state": 0,
    "insecure_release_seed": 0,
}
PRIVATE = {name: value for name, value in SETTINGS.items() if name != "law"}
MOMENTS = {name: SETTINGS[name] for name in ("epsilon", "random_state", "insecure_release_seed")}
ESTIMATORS = [
    SelfPublicSAA(**SETTINGS),
    SelfPublicDPBag(**SETTINGS, n_partitions=2),
    SelfPublicDPBag(**SETTINGS, n_partitions=2, analysis="worst-case"),
    SelfPublicPATE(**SETTINGS),
    SelfPublicSubspace(**SETTINGS),
    SelfPublicMoments(**MOMENTS),
    SelfPublicMoments(TableMap(), LogisticRegression(), **MOMENTS),
    SelfPublicMoments(StandardScaler(), **MOMENTS),
    SelfPublicAuto(**MOMENTS),
    SelfPublicDiscriminant(**MOMENTS),
    SelfPublicSoftVotes(n_teachers=3, **MOMENTS),
    SelfPublicSoftVotes(answers="parameters", clip=20.0, n_teachers=3, **MOMENTS),
    SelfPublicBaggedPATE(**SETTINGS),
    SelfPublicUpsampling(**SETTINGS, rule="published"),
    SelfPublicVanishing(**SETTINGS, rule="published"),
    SelfPublicWeighting(**SETTINGS, rule="published"),
    SelfPublicMajority(**PRIVATE),
    SelfPublicMajority(**PRIVATE, private="ballots", teacher_privacy=30.0, max_labels=1000),
    SelfDeclaredBagging(subsample=40, random_state=0, insecure_release_seed=0),
    SelfDeclaredBagging(n_teachers=3, subsample=12, random_state=0, insecure_release_seed=0),
]

EXPECTED_FAILURES = {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda _: EXPECTED_FAILURES)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_every_estimator_is_in_the_list_and_in_the_documentation():
    listed = {parent for estimator in ESTIMATORS for parent in type(estimator).__mro__}
    docs = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    for name in methods.__all__:
        # A wrapper makes what any encoder and method make of rows.
        assert getattr(methods, name) in listed or name == "EncodedClassifier"
        assert name in docs
        assert name in dpensemble.__all__
