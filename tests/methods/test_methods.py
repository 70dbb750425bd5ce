"""What methods of votes have in common.

Constructors stay short, and docstrings name every setting. What the library cannot do raises an error that names what
to use instead. A law that a user writes works everywhere that the library's own laws do. Noise by name is the usual
noise, or less if the questions would leave some of the budget, and an object never changes.
"""

import inspect
import pickle
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import dpensemble
from dpensemble import (
    AutoClassifier,
    BaggedPATEClassifier,
    Basis,
    DiscriminantClassifier,
    DPBaggingClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    SubsampleAggregateClassifier,
    UpsamplingPATEClassifier,
    VanishingPATEClassifier,
    WeightingPATEClassifier,
    plan,
)
from dpensemble._entries import require_labels
from dpensemble.audit import audit_law
from dpensemble.engine.voting import PrivateDiagnostics
from dpensemble.errors import BudgetError, DataError, InvalidParameterError, TeacherError
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, LaplaceNoisyMax, ReleaseLaw
from dpensemble.report.page import render
from dpensemble.rows.arguments import sorted_classes
from dpensemble.rows.checked import class_ids
from dpensemble.workflow import TableFiles, file_tables, train

METHODS = [
    SubsampleAggregateClassifier,
    lambda **s: SubsampleAggregateClassifier(accounting="published", **s),
    lambda **s: DPBaggingClassifier(n_partitions=3, **s),
    lambda **s: DPBaggingClassifier(n_partitions=3, analysis="until-spent", **s),
    lambda **s: DPBaggingClassifier(n_partitions=3, analysis="until-spent", accounting="published", **s),
]
COMMON = {"classes": [0, 1], "n_teachers": 20, "epsilon": 8.0, "random_state": 0}
each_method = pytest.mark.parametrize(
    "make", METHODS, ids=["saa", "saa, published", "dpbag-", "dpbag", "dpbag, published"]
)


@each_method
def test_the_student_learns_from_answered_rows_only(make, blobs):
    X, y, public = blobs
    model = make(**COMMON).fit(X, y, X_public=public)
    assert 0 < len(model.labels_) <= len(public)
    assert len(set(model.labels_.indices.tolist())) == len(model.labels_)
    again = LogisticRegression(C=0.1, max_iter=1000, random_state=0).fit(
        public[model.labels_.indices], model.labels_.labels
    )
    assert np.array_equal(model.predict(X), again.predict(X))
    assert model.predict_proba(X).shape == (len(X), 2)


@each_method
def test_the_guarantee_states_budget_basis_and_relation(make, blobs):
    X, y, public = blobs
    for relation in ("replace-one", "add-or-remove-one"):
        model = make(**COMMON, relation=relation).fit(X, y, X_public=public)
        guarantee = model.guarantee_
        assert guarantee.relation == relation
        assert 0 < guarantee.epsilon <= 8
        assert guarantee.delta == 1e-5
        assert guarantee.for_release
        dependent = model.analysis == "until-spent"
        assert guarantee.basis is (Basis.DATA_DEPENDENT if dependent else Basis.WORST_CASE)
        # A data-dependent spend is private: only the budget is stated.
        assert (guarantee.epsilon == 8) == dependent


@each_method
def test_labels_are_mostly_right_when_noise_is_small(make, blobs):
    X, y, public = blobs
    model = make(**COMMON | {"epsilon": 1e7}, law=LaplaceNoisyMax(0.1)).fit(X, y, X_public=public)
    assert len(model.labels_) == len(public)
    truth = (public[model.labels_.indices, 0] > 0).astype(int)
    assert np.mean(truth == model.labels_.labels) > 0.9


def test_answered_rows_do_not_depend_on_private_records_in_the_worst_case(blobs):
    X, y, public = blobs
    one = SubsampleAggregateClassifier(**COMMON).fit(X, y, X_public=public)
    other = SubsampleAggregateClassifier(**COMMON).fit(-X, 1 - y[::-1], X_public=public)
    assert np.array_equal(one.labels_.indices, other.labels_.indices)


def test_release_noise_is_not_seeded_unless_asked_for(blobs):
    X, y, public = blobs
    fits = [SubsampleAggregateClassifier(**COMMON).fit(X, y, X_public=public).labels_.labels for _ in range(3)]
    assert len({tuple(labels) for labels in fits}) > 1
    seeded = [
        SubsampleAggregateClassifier(**COMMON, insecure_release_seed=1).fit(X, y, X_public=public) for _ in range(2)
    ]
    assert np.array_equal(seeded[0].labels_.labels, seeded[1].labels_.labels)
    assert not seeded[0].guarantee_.for_release
    assert "NOT FOR RELEASE" in str(seeded[0].guarantee_)


def test_max_labels_caps_the_spend(blobs):
    X, y, public = blobs
    settings = COMMON | {"law": LaplaceNoisyMax(10)}
    model = SubsampleAggregateClassifier(**settings, max_labels=5).fit(X, y, X_public=public)
    full = SubsampleAggregateClassifier(**settings).fit(X, y, X_public=public)
    assert len(model.labels_) == 5
    assert model.guarantee_.epsilon < full.guarantee_.epsilon


def test_dpbag_answers_at_least_as_many_as_its_worst_case(blobs):
    X, y, public = blobs
    worst = DPBaggingClassifier(**COMMON, n_partitions=5, analysis="worst-case").fit(X, y, X_public=public)
    personal = DPBaggingClassifier(**COMMON, n_partitions=5).fit(X, y, X_public=public)
    assert len(personal.labels_) >= len(worst.labels_)


@pytest.mark.parametrize(
    "teacher",
    [GaussianNB(), DecisionTreeClassifier(max_depth=3), RandomForestClassifier(5), LogisticRegression(C=0.5)],
)
def test_any_classifier_teaches_and_studies(teacher, blobs):
    X, y, public = blobs
    names = np.array(["no", "yes"])[y]
    settings = COMMON | {"classes": ["no", "yes"], "n_teachers": 10, "epsilon": 20.0}
    model = SubsampleAggregateClassifier(teacher, clone(teacher), **settings).fit(X, names, X_public=public)
    assert set(model.predict(public)) <= {"no", "yes"}


def test_three_classes_and_labels_nobody_names(blobs):
    X, _, public = blobs
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = DPBaggingClassifier(
        classes=[0, 1, 2, 3], n_teachers=10, n_partitions=3, epsilon=1e5, law=LaplaceNoisyMax(0.5), random_state=0
    ).fit(X, y, X_public=public)
    assert model.predict_proba(public).shape == (len(public), 4)
    assert np.allclose(model.predict_proba(public).sum(axis=1), 1)
    assert np.mean(model.predict(X) == y) > 0.8


def test_one_class_and_empty_teachers_vote_without_raising(blobs):
    X, _, public = blobs
    one_class = SubsampleAggregateClassifier(**COMMON).fit(X, np.zeros(len(X), dtype=int), X_public=public)
    assert one_class.labels_.labels.mean() < 0.5
    sparse = SubsampleAggregateClassifier(**COMMON | {"n_teachers": 25, "delta": 1e-3}, relation="add-or-remove-one")
    few = sparse.fit(X[:25], (X[:25, 0] > 0).astype(int), X_public=public)
    assert len(few.labels_) > 0


def test_units_are_protected_together(blobs):
    X, y, public = blobs
    who = np.repeat(np.arange(200), 3)
    model = SubsampleAggregateClassifier(**COMMON | {"n_teachers": 20}).fit(X, y, X_public=public, units=who)
    assert model.guarantee_.unit == "unit"
    assert "protected together" in model.guarantee_.assumptions[0]
    with pytest.raises(InvalidParameterError, match="more than the 3 private records"):
        SubsampleAggregateClassifier(**COMMON | {"delta": 1e-3}).fit(X, y, X_public=public, units=who % 3)
    with pytest.raises(DataError, match="units must have one entry for each of"):
        SubsampleAggregateClassifier(**COMMON).fit(X, y, X_public=public, units=who[:5])
    with pytest.raises(DataError, match="units must have no missing value"):
        SubsampleAggregateClassifier(**COMMON).fit(X, y, X_public=public, units=[None] * len(X))


def test_private_diagnostics_fill_what_is_given(blobs):
    X, y, public = blobs
    found = PrivateDiagnostics()
    model = DPBaggingClassifier(**COMMON).fit(X, y, X_public=public, diagnostics=found)
    assert len(found.margins) == len(model.labels_) == found.spend[-1][0]
    assert found.spend[-1][1] <= 8
    assert "margins" not in repr(found)
    # Nothing of it stays with the model, and another fit starts from the beginning.
    assert all(value is not found for value in vars(model).values())
    again = SubsampleAggregateClassifier(**COMMON).fit(X, y, X_public=public[:50], diagnostics=found)
    assert len(found.margins) == len(again.labels_) == 50


def test_diagnostics_do_not_change_the_answers(blobs):
    X, y, public = blobs
    settings = COMMON | {"insecure_release_seed": 3}
    plain, noted = (
        DPBaggingClassifier(**settings).fit(X, y, X_public=public, diagnostics=diagnostics)
        for diagnostics in (None, PrivateDiagnostics())
    )
    assert np.array_equal(plain.labels_.indices, noted.labels_.indices)


BAD_FITS = [
    ({}, {"X_public": None}, DataError, "X_public is missing"),
    ({}, {"X_public": np.empty((0, 3))}, DataError, "X_public has no rows"),
    ({}, {"X_public": np.zeros((4, 2))}, DataError, "X_public has 2 columns but X has 3"),
    (
        {},
        {"X_public": np.array([[0, np.nan, 0]])},
        DataError,
        "X_public contains NaN or infinity .the first in row 0, column 1, counting from 0",
    ),
    ({"classes": None}, {}, InvalidParameterError, "must be declared"),
    ({"classes": [0]}, {}, InvalidParameterError, "at least two"),
    ({"classes": [0, 2]}, {}, DataError, "not among classes"),
    ({"classes": ["0", "1"]}, {}, DataError, "different types"),
    ({"n_teachers": 601}, {}, InvalidParameterError, "use at most 600"),
    ({"n_teachers": 0}, {}, InvalidParameterError, "n_teachers=0"),
    ({"epsilon": 0}, {}, InvalidParameterError, "epsilon=0"),
    ({"epsilon": float("nan")}, {}, InvalidParameterError, "epsilon=nan"),
    ({"delta": 0}, {}, InvalidParameterError, "delta=0"),
    ({"delta": 1 / 600}, {}, BudgetError, "not below 1/N"),
    ({"epsilon": 1e-3}, {}, BudgetError, "the smallest epsilon that would do"),
    ({"law": LaplaceNoisyMax(1e12)}, {}, InvalidParameterError, "use a smaller scale"),
    ({"law": "loudest"}, {}, InvalidParameterError, "law='loudest' is unknown"),
    ({"law": None}, {}, InvalidParameterError, "law=None is unknown"),
    ({"relation": "swap"}, {}, InvalidParameterError, "relation='swap'"),
    ({"max_labels": 0}, {}, InvalidParameterError, "max_labels=0"),
    ({"random_state": -1}, {}, InvalidParameterError, "random_state=-1"),
    ({"insecure_release_seed": -1}, {}, InvalidParameterError, "insecure_release_seed=-1"),
    (
        {"teacher": LogisticRegression(solver="nonsense")},
        {},
        TeacherError,
        "no teacher could be fitted",
    ),
]


@pytest.mark.parametrize(("settings", "arguments", "error", "message"), BAD_FITS)
@each_method
def test_bad_input_is_refused_in_one_sentence(make, settings, arguments, error, message, blobs):
    X, y, public = blobs
    model = make(**COMMON | settings)
    with pytest.raises(error, match=message) as caught:
        model.fit(X, y, **({"X_public": public} | arguments))
    assert "\n" not in str(caught.value)
    assert not hasattr(model, "guarantee_")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_private_rows_must_be_finite(value, blobs):
    X, y, public = blobs
    X = X.copy()
    X[17, 2] = value
    with pytest.raises(DataError, match=r"X contains NaN or infinity .the first in row 17, column 2, counting from 0"):
        SubsampleAggregateClassifier(**COMMON).fit(X, y, X_public=public)


def test_messages_do_not_quote_private_labels(blobs):
    X, y, public = blobs
    names = np.array(["no", "yes"])[y].astype(object)
    names[3] = "patient 4711 has HIV"
    with pytest.raises(DataError, match="the first in row 3") as caught:
        SubsampleAggregateClassifier(**COMMON | {"classes": ["no", "yes"]}).fit(X, names, X_public=public)
    assert "4711" not in str(caught.value)


def test_frames_must_have_the_same_columns(blobs):
    X, y, public = blobs
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    other = pd.DataFrame(public, columns=["a", "b", "d"])
    with pytest.raises(DataError, match=r"X_public lacks 1 of X and also has \['d'\]"):
        SubsampleAggregateClassifier(**COMMON).fit(frame, y, X_public=other)
    shuffled = pd.DataFrame(public, columns=["a", "b", "c"])[["c", "a", "b"]]
    settings = COMMON | {"insecure_release_seed": 0}
    one = SubsampleAggregateClassifier(**settings).fit(frame, y, X_public=shuffled)
    two = SubsampleAggregateClassifier(**settings).fit(frame, y, X_public=shuffled[["a", "b", "c"]])
    assert np.array_equal(one.labels_.labels, two.labels_.labels)


def test_fit_never_writes_a_setting(blobs):
    X, y, public = blobs
    model = DPBaggingClassifier(**COMMON)
    before = dict(model.get_params())
    model.fit(X, y, X_public=public)
    assert model.get_params() == before


def test_unknown_analysis_is_refused(blobs):
    X, y, public = blobs
    with pytest.raises(InvalidParameterError, match="analysis='hope'"):
        DPBaggingClassifier(**COMMON, analysis="hope").fit(X, y, X_public=public)


def test_a_failed_refit_leaves_the_earlier_release_whole(blobs):
    X, y, public = blobs
    model = SubsampleAggregateClassifier(**COMMON).fit(X, y, X_public=public)
    before = {name: getattr(model, name) for name in ("labels_", "student_", "guarantee_", "law_")}
    model.set_params(student=LogisticRegression(C=-1.0), epsilon=20.0)
    with pytest.raises(ValueError, match="C"):
        model.fit(X, y, X_public=public)
    assert all(getattr(model, name) is value for name, value in before.items())


def test_a_fitted_estimator_holds_neither_teachers_nor_votes_nor_records(blobs):
    import pickle

    X, y, public = blobs
    X = X.copy()
    X[:, 2] = 1234.5678
    model = DPBaggingClassifier(DecisionTreeClassifier(), **COMMON).fit(X, y, X_public=public)
    assert X[:1, 2].tobytes() not in pickle.dumps(model)
    assert {name for name in vars(model) if name.endswith("_")} == {
        *("result_", "n_features_in_"),
    }


def test_content_identities_do_not_depend_on_how_other_labels_are_written(blobs):
    from dpensemble.relations import Relation
    from dpensemble.rows.arguments import identities
    from dpensemble.rows.checked import class_ids

    X, y, _ = blobs
    names = []
    for labels in (y.astype(int), y.astype(float), y.astype(bool)):
        names.append(identities(X, class_ids(np.array([0, 1]), labels), None, Relation.ADD_OR_REMOVE_ONE))
    assert names[0] == names[1] == names[2]
    assert len(set(names[0])) == len(X)


def test_repeated_contents_do_not_loosen_the_limit_on_delta(blobs):
    X, y, public = blobs
    few = np.repeat(X[:30], 20, axis=0)
    settings = COMMON | {"delta": 1 / 500}
    with pytest.raises(BudgetError, match="N=600"):
        SubsampleAggregateClassifier(**settings).fit(few, np.repeat(y[:30], 20), X_public=public)


def test_text_in_a_table_is_not_quoted(blobs):
    _, y, public = blobs
    rows = np.full((len(y), 3), "1", dtype=object)
    rows[4, 1] = "Mr Secret"
    with pytest.raises(DataError, match="X has entries that are not numbers") as caught:
        SubsampleAggregateClassifier(**COMMON).fit(rows, y, X_public=public)
    assert "Secret" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_teachers": 10**400},
        {"epsilon": 10**400},
        {"delta": 1e-309},
        {"epsilon": 1e308},
    ],
    ids=str,
)
def test_settings_beyond_double_precision_are_refused(settings, blobs):
    X, y, public = blobs
    with pytest.raises(InvalidParameterError, match="is not a"):
        SubsampleAggregateClassifier(**COMMON | settings).fit(X, y, X_public=public)


@pytest.mark.parametrize("scale", [0, 1e-320, 1e160])
def test_noise_beyond_double_precision_is_refused(scale):
    with pytest.raises(InvalidParameterError, match=r"scale=.* is not a"):
        LaplaceNoisyMax(scale)


def test_data_dependent_guarantees_do_not_speak_of_every_published_result(blobs):
    X, y, public = blobs
    dependent = DPBaggingClassifier(**COMMON, analysis="until-spent")
    text = str(dependent.fit(X, y, X_public=public).guarantee_)
    assert "every published result" not in text
    assert "the released labels, for a given number of them" in text
    assert "a student that reveals their number" in text
    # With a number that was public from the start, only the spend is unprotected.
    fixed = DPBaggingClassifier(**COMMON, analysis="data-dependent", max_labels=5).fit(X, y, X_public=public)
    assert len(fixed.labels_) == 5
    text = str(fixed.guarantee_)
    assert not fixed.guarantee_.to_dict()["epsilon"] < COMMON["epsilon"]
    assert "do not publish it" in text
    assert "can be read" not in text


@pytest.mark.parametrize("accounting", ["exact", "published"])
def test_a_data_dependent_number_of_labels_is_asked_for_by_name(blobs, accounting):
    X, y, public = blobs
    settings = COMMON | {"analysis": "data-dependent", "accounting": accounting}
    with pytest.raises(InvalidParameterError, match="analysis='until-spent'"):
        DPBaggingClassifier(**settings).fit(X, y, X_public=public)
    with pytest.raises(BudgetError, match="nothing was released"):
        DPBaggingClassifier(**settings | {"epsilon": 0.9, "law": LaplaceNoisyMax(300)}, max_labels=len(public)).fit(
            X, y, X_public=public
        )


def test_a_refit_refused_for_its_columns_leaves_the_estimator_usable(blobs):
    X, y, public = blobs
    model = SubsampleAggregateClassifier(**COMMON).fit(X, y, X_public=public)
    before = model.predict(public)
    with pytest.raises(DataError, match="X_public has 3 columns but X has 2"):
        model.fit(X[:, :2], y, X_public=public)
    assert np.array_equal(model.predict(public), before)


def test_the_private_records_may_not_be_the_public_rows(blobs):
    X, y, _ = blobs
    with pytest.raises(DataError, match="X_public is X itself"):
        SubsampleAggregateClassifier(**COMMON).fit(X, y, X_public=X)


def test_columns_without_names_do_not_pass_for_named_ones(blobs):
    X, y, public = blobs
    with pytest.raises(DataError, match="a Pipeline around this estimator would only transform X"):
        SubsampleAggregateClassifier(**COMMON).fit(X, y, X_public=pd.DataFrame(public, columns=["a", "b", "c"]))


def test_a_pipeline_teaches(blobs):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, public = blobs
    model = SubsampleAggregateClassifier(make_pipeline(StandardScaler(), GaussianNB()), **COMMON)
    assert len(model.fit(X, y, X_public=public).labels_) > 0


@pytest.mark.parametrize("method", [SubsampleAggregateClassifier, LabelMomentsClassifier])
@pytest.mark.parametrize("place", ["X", "X_public"])
def test_sparse_matrices_are_refused_in_one_sentence(method, place):
    rng = np.random.default_rng(0)
    rows = {"X": rng.normal(size=(60, 3)), "X_public": rng.normal(size=(9, 3))}
    rows[place] = sparse.csr_array(rows[place])
    with pytest.raises(DataError, match=rf"^{place} is a sparse matrix.*pass a table or {place}.toarray\(\), .*\.$"):
        method(classes=[0, 1], delta=1e-3).fit(rows["X"], np.arange(60) % 2, X_public=rows["X_public"])


def test_a_fitted_estimator_keeps_no_secret_statistics():
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(400, 2)), rng.normal(size=(50, 2))
    secret = PrivateDiagnostics(votes=True)
    model = PATEClassifier(
        n_teachers=40, classes=[0, 1], analysis="data-dependent", max_labels=5, epsilon=8.0, delta=1e-4
    ).fit(X, (X[:, 0] > 0).astype(int), X_public=public, diagnostics=secret)
    assert secret.margins
    assert not any(value is secret for value in vars(model.result_).values())
    assert b"PrivateDiagnostics" not in pickle.dumps(model)


ESTIMATORS = [
    value for name in dpensemble.__all__ if (value := getattr(dpensemble, name)) and name.endswith("Classifier")
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)
def test_few_settings_all_of_them_described(estimator):
    names = list(inspect.signature(estimator).parameters)
    # Each method has a setting for bad records, which users need not learn about first.
    assert 3 <= len(names) - ("on_bad_record" in names) <= 15
    section = re.search(
        r"\n    Parameters\n    -+\n(.*?)\n    (?:Attributes|References)\n", estimator.__doc__, re.DOTALL
    )
    heads = re.findall(r"(?m)^    (\w[\w, ]*?)(?: :.*)?$", section[1])
    described = [name for head in heads for name in head.split(", ")]
    assert sorted(described) == sorted(names)
    assert estimator().get_params(deep=False).keys() == set(names)


def test_every_estimator_is_looked_at():
    assert len(ESTIMATORS) == len(dpensemble.methods.__all__)


X = np.random.default_rng(0).normal(size=(60, 3))
SEVERAL = (X[:40, :2] > 0).astype(int)
FORMS = {
    "array": SEVERAL,
    "table": pd.DataFrame(SEVERAL, columns=["flu", "cold"]),
    "lists": SEVERAL.tolist(),
    "matrix": sp.csr_matrix(SEVERAL),
}


@pytest.mark.parametrize("form", FORMS)
def test_several_labels_of_a_record(form):
    model = LabelMomentsClassifier(classes=[0, 1], epsilon=1.0)
    with pytest.raises(DataError, match=r"y has 2 columns.*multi-label.*train a model for each column"):
        model.fit(X[:40], FORMS[form], X_public=X[40:])


@pytest.mark.parametrize("method", [AutoClassifier, DiscriminantClassifier, PATEClassifier])
@pytest.mark.parametrize("on_bad_record", ["zero", "raise"])
def test_several_labels_with_other_methods(method, on_bad_record):
    model = method(classes=[0, 1], epsilon=1.0, on_bad_record=on_bad_record)
    with pytest.raises(DataError, match="multi-label"):
        model.fit(X[:40], SEVERAL, X_public=X[40:])


def test_one_label_each_is_fine():
    for labels in ([0, 1], np.array([[0], [1]]), pd.Series(["a", "b"]), [["a"], ["a", "b"]], None):
        require_labels(labels, keep_bad=True)


def test_numbers_as_classes():
    with pytest.raises(InvalidParameterError, match=r"Unknown label type.*LabelMomentsRegressor.*ranges"):
        sorted_classes([0.1, 0.25])
    assert sorted_classes([2.0, 1.0]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("labels", "hints"), [([0.0, 0.7], True), ([0, 7], False)])
def test_undeclared_numbers(labels, hints):
    with pytest.raises(DataError, match="not among classes") as error:
        class_ids(np.array([0, 1]), np.array(labels))
    assert ("LabelMomentsRegressor" in str(error.value)) is hints
    assert "0.7" not in str(error.value)


def test_survey_weights():
    with pytest.raises(InvalidParameterError, match=r"sample_weight is not supported.*Survey weights.*stratum"):
        LabelMomentsClassifier(classes=[0, 1]).fit(X[:40], SEVERAL[:, 0], X_public=X[40:], sample_weight=X[:40, 0])


def test_several_columns_as_the_target(tmp_path):
    table = pd.DataFrame(X[:40], columns=[*"abc"]).assign(flu=SEVERAL[:, 0], cold=SEVERAL[:, 1])
    table.to_csv(tmp_path / "private.csv", index=False)
    table[[*"abc"]].to_csv(tmp_path / "public.csv", index=False)

    def read(target):
        return file_tables(
            TableFiles(
                private=tmp_path / "private.csv", public=tmp_path / "public.csv", target=target, classes=["0", "1"]
            )
        )

    with pytest.raises(DataError, match="target='flu,cold' names several columns, but several labels"):
        read("flu,cold")
    with pytest.raises(DataError, match="target='flu,measles' is not a column"):
        read("flu,measles")


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
