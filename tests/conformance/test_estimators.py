"""The requirements of every estimator: scikit-learn's suite, uses of the result, and settings that are odd numbers.

scikit-learn's suite calls ``fit(X, y)`` on plain data. So each method is wrapped to take its public rows and classes
from there, with a budget at which noise does not hide mistakes. Everything else is the shipped class.

Every fitted estimator serves certificate, ledger, files and students alike, also behind an encoder. A setting that is a
number of an odd kind is refused by a typed error, which names the parameter.
"""

import copy
import json
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpensemble
from dpensemble import (
    Aggregator,
    AutoClassifier,
    BaggedPATEClassifier,
    BaggingPrivacyClassifier,
    Budget,
    DiscriminantClassifier,
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
    plan,
    save_classifier,
)
from dpensemble.allocation.budget_groups import personal_budgets
from dpensemble.certificates import certificate_of_fit, confirmed
from dpensemble.errors import AccountingError, DataError, InvalidParameterError, NotForReleaseWarning
from dpensemble.laws import ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax
from dpensemble.moments import TableMap
from dpensemble.report import RunRecord
from dpensemble.report.page import card_as_markdown, model_card, render
from dpensemble.server import Ledger
from dpensemble.server.filters import Amount
from dpensemble.workflow import Tables, compare
from dpensemble.workflow.comparison import COMPARED
from dpensemble.workflow.comparison_data import ComparedDataset, comparison_data
from dpensemble.workflow.run_record import Measured, run_record
from dpensemble.workflow.train import RowConversion

from ..estimators import PERSONALISED, estimators

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
def test_a_result_prints_in_sentences_what_may_be_published(fitted, name):
    result = fitted(name).result_
    lines = str(result).splitlines()
    assert lines[0] == " ".join(result.guarantee.sentences())
    assert lines[1].startswith("Released: ")
    assert all(line.endswith(".") for line in lines)
    assert repr(result).startswith("<Result: Differential privacy with epsilon = ")
    assert "0x" not in str(result)
    assert result._repr_html_().count("<p>") == len(lines)


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


# Images have many columns for few records.
@pytest.mark.filterwarnings("ignore:noise hides about:dpensemble.errors.ColumnWarning")
@pytest.mark.parametrize("name", COMPARED)
def test_a_method_is_compared_by_its_result(name):
    data = comparison_data(ComparedDataset.DIGITS, classes=(3, 8))
    (row,) = compare(data, methods=[name], epsilon=12.0, delta=0.2, repeats=1, random_state=0).methods
    # An optional extra may be missing.
    assert row.error is None or "pip install" in row.error
    assert row.error or (row.bought and row.text and row.released and row.epsilon is not None)


ODD = {
    "complex": 1 + 0j,
    "numpy-complex": np.complex128(1),
    "huge": 10**400,
    "unwritable": 10**5000,
    "negative": -(10**400),
    "fraction": Fraction(10**5000, 3),
    "signaling": Decimal("sNaN"),
    "decimal-nan": Decimal("NaN"),
    "nan": float("nan"),
    "masked": np.ma.masked,
}
AGGREGATOR = {
    "law": GaussianNoisyMax(8.0),
    "classes": 2,
    "n_voters": 50,
    "relation": "replace-one",
    "budget": Budget(epsilon=2, delta=1e-6),
}
ODD_SETTINGS = (
    "law",
    "classes",
    "n_voters",
    "relation",
    "budget",
    "sampling",
    "rate",
    "clip",
    "answers",
    "votes_per_unit",
)


@pytest.mark.parametrize("odd", ODD)
class TestOddNumbers:
    def test_in_a_budget(self, odd):
        with pytest.raises(InvalidParameterError, match="epsilon="):
            Budget(epsilon=ODD[odd], delta=1e-6)
        with pytest.raises(InvalidParameterError, match="delta="):
            Budget(epsilon=1, delta=ODD[odd])

    @pytest.mark.parametrize("name", ["epsilon", "labels", "delta"])
    def test_in_a_plan(self, odd, name):
        given = {"labels": ODD[odd]} if name == "labels" else {"epsilon": 1} | {name: ODD[odd]}
        with pytest.raises(InvalidParameterError, match=f"{name}="):
            plan(PATEClassifier(n_teachers=100).design(n_classes=2), **given)

    @pytest.mark.parametrize("name", ODD_SETTINGS)
    def test_in_an_aggregator(self, odd, name):
        more = {"sampling": "fresh"} if name == "rate" else {"law": ExponentialVote(9.0)} if name == "clip" else {}
        with pytest.raises(InvalidParameterError, match=name):
            Aggregator(**AGGREGATOR | more | {name: ODD[odd]})

    def test_in_what_an_aggregator_is_asked(self, odd):
        with pytest.raises(InvalidParameterError, match="n="):
            Aggregator(**AGGREGATOR).quote(ODD[odd])
        with pytest.raises(DataError, match="key="):
            Aggregator(**AGGREGATOR).answer(counts=[20, 30], key=ODD[odd])
        fresh = Aggregator(**AGGREGATOR, sampling="fresh", rate=0.1)
        with pytest.raises(InvalidParameterError, match="n_records="):
            fresh.draw(ODD[odd])
        with pytest.raises(DataError, match="drawn must be"):
            fresh.answer(counts=[20, 30], drawn=ODD[odd])

    def test_in_classes(self, odd):
        for classes in ([0, ODD[odd]], np.array([0, ODD[odd]], dtype=object)):
            with pytest.raises(InvalidParameterError, match="classes="):
                Aggregator(**AGGREGATOR | {"classes": classes})

    @pytest.mark.parametrize("method", [PATEClassifier, LabelMomentsClassifier, SoftVotesClassifier])
    def test_in_the_budget_of_a_method(self, odd, method):
        for name in ("epsilon", "delta"):
            with pytest.raises(InvalidParameterError, match=f"{name}="):
                method(**{name: ODD[odd]}).design(n_classes=2).groups[0].budget  # noqa: B018
        with pytest.raises(InvalidParameterError, match="n_classes="):
            method().design(n_classes=ODD[odd])

    def test_in_the_privacy_of_a_teacher(self, odd):
        with pytest.raises(InvalidParameterError, match=r"epsilon|teacher_privacy"):
            PrivateMajorityClassifier(teacher_privacy=ODD[odd]).design(n_classes=2)


def test_masked_classes_are_refused():
    with pytest.raises(InvalidParameterError, match="classes="):
        Aggregator(**AGGREGATOR | {"classes": np.ma.masked_array([0, 1], mask=[False, True])})
