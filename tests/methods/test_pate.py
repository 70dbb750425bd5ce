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
)
from dpensemble.accounting import Change, price
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, InteractiveNoisyMax, LaplaceNoisyMax, OptimalVote

COMMON = {"classes": [0, 1], "n_teachers": 20, "epsilon": 8.0, "random_state": 0}
LAWS = {
    "gnmax": "gnmax",
    "lnmax": "lnmax",
    "confident-gnmax": ConfidentNoisyMax(15, 4, 3),
    "interactive-gnmax": InteractiveNoisyMax(15, 4, 3),
}
OPTIMAL = COMMON | {"law": "optimal"}


def settings(aggregator):
    return COMMON | {"law": LAWS[aggregator]}


@pytest.mark.parametrize("accounting", ["exact", "published"])
@pytest.mark.parametrize("aggregator", list(LAWS))
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
    bagging = COMMON | {"n_partitions": 3, "law": OptimalVote(40.0)}
    for model, law in (
        (PATEClassifier(**OPTIMAL), OptimalVote(14.8)),
        (
            PATEClassifier(**COMMON, law=OptimalVote(20.0), analysis="data-dependent", max_labels=5),
            OptimalVote(20.0),
        ),
        (SubsampleAggregateClassifier(**OPTIMAL), OptimalVote(14.8)),
        (DPBaggingClassifier(**bagging), OptimalVote(40.0)),
        (DPBaggingClassifier(**bagging, analysis="data-dependent", max_labels=5), OptimalVote(40.0)),
    ):
        model.fit(X, y, X_public=public)
        assert model.law_ == model.design_.law == law
        assert len(model.labels_) > 0
        assert 0 < model.guarantee_.epsilon <= 8


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
@pytest.mark.parametrize("analysis", ["data-dependent", "until-spent"])
def test_a_reach_is_not_fitted_to_another_account_than_the_one_that_charges(blobs, classes, analysis):
    """Fitted to exact composition it was refused by the Renyi curve once all teachers were paid for."""
    X, y, public = blobs
    asked = {"classes": classes, "max_labels": 5, "analysis": analysis}
    for model, reach in (
        (PATEClassifier(**OPTIMAL | asked), 14.8),
        (DPBaggingClassifier(**OPTIMAL | asked | {"epsilon": 40.0}, n_partitions=3), 44.4),
    ):
        model.fit(X, y, X_public=public)
        assert model.law_.reach == pytest.approx(reach)
        assert model.design_.settings()["noise_chosen"] == "usual"
        assert len(model.labels_) > 0


@pytest.mark.parametrize(("n_classes", "n_partitions"), [(2, 1), (2, 3), (3, 1)])
def test_the_optimal_vote_spends_the_budget_on_the_labels_wanted(blobs, n_classes, n_partitions):
    X, y, public = blobs
    settings = COMMON | {"classes": list(range(n_classes)), "epsilon": 2.0, "law": "optimal", "max_labels": 40}
    model = DPBaggingClassifier(**settings, n_partitions=n_partitions, analysis="worst-case").fit(X, y, X_public=public)
    assert len(model.labels_) == 40
    assert 1.98 < model.guarantee_.epsilon <= 2.0
    # A little less reach would not fit.
    change = Change(ballots=20 * n_partitions, classes=n_classes, votes=n_partitions)
    less = price(OptimalVote(model.law_.reach * 0.99, model.law_.shape), change).label
    assert (less * 40).epsilon(1e-5) > 2.0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PATEClassifier(**OPTIMAL, accounting="published"), "no price for law='optimal', which no paper covers"),
        (DPBaggingClassifier(**COMMON, law="best"), "law='best' is unknown"),
    ],
)
def test_settings_of_the_optimal_vote_that_do_not_belong_are_refused(blobs, model, message):
    X, y, public = blobs
    with pytest.raises(InvalidParameterError, match=message):
        model.fit(X, y, X_public=public)


def test_exact_accounting_answers_more_than_published(blobs):
    X, y, public = blobs
    for law in (GaussianNoisyMax(12), LaplaceNoisyMax(12)):
        asked = [
            PATEClassifier(**COMMON, law=law, accounting=accounting).fit(X, y, X_public=public).labels_.n_asked
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
        assert PATEClassifier(law=aggregator).design().law == law
    assert PATEClassifier(law=LaplaceNoisyMax(7)).design().law == LaplaceNoisyMax(7.0)


def test_a_gate_spends_the_labels_it_did_not_give_on_more_questions(blobs):
    """With a threshold that few queries pass, far more are asked than could be answered."""
    X, y, public = blobs
    seeded = COMMON | {"insecure_release_seed": 0}
    model = PATEClassifier(**seeded, law=ConfidentNoisyMax(20, 8, 3))
    model.fit(X, y, X_public=public)
    cost = price(model.law_, Change(ballots=20, classes=2))
    all_answered = PATEClassifier(**seeded, law=ConfidentNoisyMax(-1e6, 8, 3))
    all_answered.fit(X, y, X_public=public)
    assert len(all_answered.labels_) == all_answered.labels_.n_asked
    assert cost.answered.epsilon(1e-5) < 8
    # The public curve covers the checks of unanswered questions too, and never passes the guarantee.
    asked, (charged,) = model.spend_[-1]
    unanswered = model.labels_.n_asked - len(model.labels_)
    purse = cost.answered.composition
    spent = purse.check_units * model.labels_.n_asked + purse.label_units * len(model.labels_)
    assert asked == model.labels_.n_asked
    assert unanswered > 0
    assert (cost.label * len(model.labels_)).epsilon(1e-5) < charged <= 8
    assert charged <= purse.curve(purse.queries(spent)).epsilon(1e-5)
    assert model.labels_.n_asked > 1.5 * all_answered.labels_.n_asked


def test_a_threshold_that_nothing_passes_warns_and_releases_nothing(blobs):
    X, y, public = blobs
    model = PATEClassifier(**COMMON, law=ConfidentNoisyMax(1000, 4, 3))
    with (
        pytest.warns(UserWarning, match="threshold=1000"),
        pytest.raises(BudgetError, match="no query was answered"),
    ):
        model.fit(X, y, X_public=public)


def test_the_interactive_loop_asks_in_batches_and_reinforces_for_free(blobs):
    X, y, public = blobs
    law = InteractiveNoisyMax(8, 4, 3, batch_size=10, student_confidence=0.6)
    model = PATEClassifier(**COMMON | {"epsilon": 60.0}, law=law)
    model.fit(X, y, X_public=public)
    assert model.labels_.n_asked > len(model.labels_)
    # Only the released labels were paid for. The student learned from more.
    assert len(set(model.labels_.indices.tolist())) == len(model.labels_)
    assert np.mean(model.predict(X) == y) > 0.7


def test_data_dependent_accounting_answers_more_where_teachers_agree(blobs):
    X, y, public = blobs
    base = COMMON | {"n_teachers": 40, "law": GaussianNoisyMax(4), "epsilon": 2.0}
    worst = PATEClassifier(DecisionTreeClassifier(random_state=0), **base).fit(X, y, X_public=public)
    spent = PATEClassifier(DecisionTreeClassifier(random_state=0), **base, analysis="until-spent").fit(
        X, y, X_public=public
    )
    assert len(spent.labels_) > len(worst.labels_)
    assert spent.guarantee_.basis is Basis.DATA_DEPENDENT
    assert spent.guarantee_.epsilon == 2.0
    assert not spent.guarantee_.fixed_number


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"law": "loudest"}, "law='loudest' is unknown"),
        ({"law": "randomized-response"}, "no usual settings"),
        ({"law": "interactive-gnmax", "student": Perceptron()}, "no predict_proba"),
        ({"accounting": "hopeful"}, "accounting='hopeful'"),
        ({"analysis": "lucky"}, "analysis='lucky'"),
        ({"analysis": "data-dependent"}, "analysis='until-spent'"),
        ({"analysis": "data-dependent", "max_labels": 5, "accounting": "published"}, "accounting='published'"),
        ({"analysis": "data-dependent", "max_labels": 5, "law": "interactive-gnmax"}, "interactive"),
    ],
)
def test_bad_settings_get_one_clear_sentence(blobs, given, message):
    X, y, public = blobs
    with pytest.raises(InvalidParameterError, match=message) as caught:
        PATEClassifier(**COMMON | given).fit(X, y, X_public=public)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianNoisyMax(0.0), "sigma=0.0"),
        (lambda: GaussianNoisyMax(float("nan")), "sigma=nan"),
        (lambda: LaplaceNoisyMax(0.0), "scale=0.0"),
        (lambda: ConfidentNoisyMax(15, 0.0, 3), "threshold_sigma=0.0"),
        (lambda: InteractiveNoisyMax(15, 4, 3, batch_size=0), "batch_size=0"),
        (lambda: InteractiveNoisyMax(15, 4, 3, student_confidence=1.5), "student_confidence=1.5"),
    ],
)
def test_laws_refuse_bad_noise(make, message):
    with pytest.raises(InvalidParameterError, match=message) as caught:
        make()
    assert str(caught.value).endswith(".")
