import numpy as np
import pytest
from sklearn.linear_model import Perceptron
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from dpensemble import (
    Basis,
    DPBaggingClassifier,
    PATEClassifier,
    SubsampleAggregateClassifier,
    WeightingPATEClassifier,
)
from dpensemble.accounting import gate_cost, worst_case_cost
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, InteractiveNoisyMax, LaplaceNoisyMax, OptimalVote

COMMON = {"classes": [0, 1], "n_teachers": 20, "epsilon": 8.0, "random_state": 0}
AGGREGATORS = ["gnmax", "lnmax", "confident-gnmax", "interactive-gnmax"]
OPTIMAL = COMMON | {"aggregator": "optimal"}
GATED = {"threshold": 15.0, "threshold_sigma": 4.0, "sigma": 3.0}


def settings(aggregator):
    return COMMON | {"aggregator": aggregator} | (GATED if "-" in aggregator else {})


@pytest.mark.parametrize("accounting", ["exact", "published"])
@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_every_aggregator_teaches_a_student_within_the_budget(blobs, aggregator, accounting):
    X, y, public = blobs
    model = PATEClassifier(GaussianNB(), **settings(aggregator), accounting=accounting)
    model.fit(X, y, X_public=public)
    assert 0 < len(model.labels_) <= model.labels_.n_asked <= len(public)
    assert ("-" in aggregator) or len(model.labels_) == model.labels_.n_asked
    assert set(model.labels_.labels.tolist()) <= {0, 1}
    assert model.guarantee_.basis is Basis.WORST_CASE
    assert 0 < model.guarantee_.epsilon <= 8
    assert model.predict_proba(X).shape == (len(X), 2)


def test_the_optimal_vote_is_an_option_of_every_method(blobs):
    X, y, public = blobs
    bagging = COMMON | {"n_partitions": 3, "vote": "optimal", "reach": 40.0}
    for model, law in (
        (PATEClassifier(**OPTIMAL), OptimalVote(14.8)),
        (PATEClassifier(**OPTIMAL, reach=20.0, analysis="data-dependent", max_labels=5), OptimalVote(20.0)),
        (SubsampleAggregateClassifier(**COMMON, vote="optimal"), OptimalVote(14.8)),
        (DPBaggingClassifier(**bagging), OptimalVote(40.0)),
        (DPBaggingClassifier(**bagging, analysis="personalised", max_labels=5), OptimalVote(40.0)),
    ):
        model.fit(X, y, X_public=public)
        assert model.law_ == law
        assert len(model.labels_) > 0
        assert 0 < model.guarantee_.epsilon <= 8


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
@pytest.mark.parametrize("stop", [False, True])
def test_a_reach_is_not_fitted_to_another_account_than_the_one_that_charges(blobs, classes, stop):
    """Fitted to exact composition it was refused by the Renyi curve once all teachers were paid for."""
    X, y, public = blobs
    asked = OPTIMAL | {"classes": classes, "max_labels": 40, "stop_when_spent": stop}
    with pytest.raises(InvalidParameterError, match=r"^reach=None is fitted .* such as 14\.8 votes\.$"):
        PATEClassifier(**asked, analysis="data-dependent").fit(X, y, X_public=public)
    bagging = COMMON | {"classes": classes, "max_labels": 40, "n_partitions": 3, "vote": "optimal"}
    with pytest.raises(InvalidParameterError, match="reach=None"):
        DPBaggingClassifier(**bagging, analysis="personalised").fit(X, y, X_public=public)
    # Without a number of labels the default reach is not fitted to anything.
    free = OPTIMAL | {"classes": classes, "analysis": "data-dependent", "stop_when_spent": True}
    assert len(PATEClassifier(**free).fit(X, y, X_public=public).labels_) > 0


@pytest.mark.parametrize(("n_classes", "n_partitions"), [(2, 1), (2, 3), (3, 1)])
def test_the_optimal_vote_spends_the_budget_on_the_labels_wanted(blobs, n_classes, n_partitions):
    X, y, public = blobs
    settings = COMMON | {"classes": list(range(n_classes)), "epsilon": 2.0, "vote": "optimal", "max_labels": 40}
    model = DPBaggingClassifier(**settings, n_partitions=n_partitions, analysis="worst-case").fit(
        X, y, X_public=public
    )
    assert len(model.labels_) == 40
    assert 1.98 < model.guarantee_.epsilon <= 2.0
    # A little less reach would not fit.
    less = worst_case_cost(
        OptimalVote(model.law_.reach * 0.99, model.law_.shape),
        n_teachers=20 * n_partitions,
        n_classes=n_classes,
        votes_per_unit=n_partitions,
    )
    assert (less * 40).epsilon(1e-5) > 2.0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PATEClassifier(**OPTIMAL, accounting="published"), "no price for the optimal vote"),
        (PATEClassifier(**OPTIMAL, sigma=3.0), "sigma=3.0 is no setting of aggregator='optimal'; give reach"),
        (PATEClassifier(**COMMON, reach=3.0), "reach=3.0 is no setting of aggregator='gnmax'; give sigma"),
        (
            SubsampleAggregateClassifier(**COMMON, reach=3.0),
            "reach=3.0 is no setting of vote='laplace'; give scale",
        ),
        (
            SubsampleAggregateClassifier(**COMMON, vote="optimal", scale=3.0),
            "scale=3.0 is no setting of vote='optimal'",
        ),
        (DPBaggingClassifier(**COMMON, vote="best"), "vote='best' is unknown"),
        (WeightingPATEClassifier(**OPTIMAL), "reach=None: with personal budgets"),
    ],
)
def test_settings_of_the_optimal_vote_that_do_not_belong_are_refused(blobs, model, message):
    X, y, public = blobs
    with pytest.raises(InvalidParameterError, match=message):
        model.fit(X, y, X_public=public)


def test_exact_accounting_answers_more_than_published(blobs):
    X, y, public = blobs
    for noise in ({"aggregator": "gnmax", "sigma": 12.0}, {"aggregator": "lnmax", "scale": 12.0}):
        asked = [
            PATEClassifier(**COMMON | noise, accounting=accounting).fit(X, y, X_public=public).labels_.n_asked
            for accounting in ("exact", "published")
        ]
        assert asked[0] > asked[1]


def test_laws_and_defaults():
    expected = {
        "gnmax": GaussianNoisyMax(40.0),
        "lnmax": LaplaceNoisyMax(20.0),
        "confident-gnmax": ConfidentNoisyMax(200.0, 150.0, 40.0),
        "interactive-gnmax": InteractiveNoisyMax(200.0, 150.0, 40.0),
    }
    for aggregator, law in expected.items():
        assert PATEClassifier(aggregator=aggregator)._law() == law
    assert PATEClassifier(aggregator="lnmax", scale=7)._law() == LaplaceNoisyMax(7.0)


def test_a_gate_spends_the_labels_it_did_not_give_on_more_questions(blobs):
    """With a threshold that few queries pass, far more are asked than could be answered."""
    X, y, public = blobs
    seeded = settings("confident-gnmax") | {"threshold_sigma": 8.0, "insecure_release_seed": 0}
    model = PATEClassifier(**seeded | {"threshold": 20.0})
    model.fit(X, y, X_public=public)
    law = model.law_
    both = gate_cost(law.threshold_sigma, 1.0) + worst_case_cost(law.answer, n_teachers=20, n_classes=2)
    all_answered = PATEClassifier(**seeded | {"threshold": -1e6})
    all_answered.fit(X, y, X_public=public)
    assert len(all_answered.labels_) == all_answered.labels_.n_asked
    assert both.epsilon(1e-5) < 8
    # The public curve covers the checks of unanswered questions too, and never passes the guarantee.
    asked, charged = model.public_spend_[-1]
    unanswered = model.labels_.n_asked - len(model.labels_)
    spent = gate_cost(law.threshold_sigma, 1.0) * model.labels_.n_asked
    spent += worst_case_cost(law.answer, n_teachers=20, n_classes=2) * len(model.labels_)
    assert asked == model.labels_.n_asked
    assert unanswered > 0
    assert spent.epsilon(1e-5, "improved Renyi conversion") <= charged * (1 + 1e-9) <= 8
    assert model.labels_.n_asked > 1.5 * all_answered.labels_.n_asked


def test_a_threshold_that_nothing_passes_warns_and_releases_nothing(blobs):
    X, y, public = blobs
    model = PATEClassifier(**settings("confident-gnmax") | {"threshold": 1000.0})
    with (
        pytest.warns(UserWarning, match="threshold=1000"),
        pytest.raises(BudgetError, match="no query was answered"),
    ):
        model.fit(X, y, X_public=public)


def test_the_interactive_loop_asks_in_batches_and_reinforces_for_free(blobs):
    X, y, public = blobs
    base = settings("interactive-gnmax") | {"epsilon": 60.0, "threshold": 8.0}
    model = PATEClassifier(**base, batch_size=10, student_confidence=0.6)
    model.fit(X, y, X_public=public)
    assert model.labels_.n_asked > len(model.labels_)
    # The released labels alone are what was paid for; the student learned from more.
    assert len(set(model.labels_.indices.tolist())) == len(model.labels_)
    assert np.mean(model.predict(X) == y) > 0.7


def test_data_dependent_accounting_answers_more_where_teachers_agree(blobs):
    X, y, public = blobs
    base = COMMON | {"n_teachers": 40, "sigma": 4.0, "epsilon": 2.0}
    worst = PATEClassifier(DecisionTreeClassifier(random_state=0), **base).fit(X, y, X_public=public)
    spent = PATEClassifier(
        DecisionTreeClassifier(random_state=0), **base, analysis="data-dependent", stop_when_spent=True
    ).fit(X, y, X_public=public)
    assert len(spent.labels_) > len(worst.labels_)
    assert spent.guarantee_.basis is Basis.DATA_DEPENDENT
    assert spent.guarantee_.epsilon == 2.0
    assert not spent.guarantee_.fixed_number


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"aggregator": "loudest"}, "aggregator='loudest' is unknown"),
        ({"aggregator": "gnmax", "scale": 3.0}, "scale=3.0 is no setting"),
        ({"aggregator": "lnmax", "sigma": 3.0}, "sigma=3.0 is no setting"),
        ({"aggregator": "gnmax", "threshold": 3.0}, "threshold"),
        ({"sigma": 0.0}, "sigma=0.0"),
        ({"sigma": float("nan")}, "sigma=nan"),
        ({"aggregator": "lnmax", "scale": 0.0}, "scale=0.0"),
        ({"aggregator": "confident-gnmax", "threshold_sigma": 0.0}, "threshold_sigma=0.0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"aggregator": "interactive-gnmax", "student": Perceptron()}, "no predict_proba"),
        ({"student_confidence": 1.5}, "student_confidence=1.5"),
        ({"accounting": "hopeful"}, "accounting='hopeful'"),
        ({"analysis": "lucky"}, "analysis='lucky'"),
        ({"analysis": "data-dependent"}, "stop_when_spent=True"),
        ({"analysis": "data-dependent", "max_labels": 5, "accounting": "published"}, "accounting='published'"),
        ({"analysis": "data-dependent", "max_labels": 5, "aggregator": "interactive-gnmax"}, "interactive"),
    ],
)
def test_bad_settings_get_one_clear_sentence(blobs, given, message):
    X, y, public = blobs
    with pytest.raises(InvalidParameterError, match=message) as caught:
        PATEClassifier(**COMMON | given).fit(X, y, X_public=public)
    assert str(caught.value).endswith(".")
