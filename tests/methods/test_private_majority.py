import json
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from dpensemble import Basis, Guarantee, PrivateMajorityClassifier
from dpensemble._random import SeededNoise
from dpensemble.accounting import Group
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.cost import DEFAULT_ORDERS, optimal_composition
from dpensemble.cost.privacy_cost import improved_epsilon
from dpensemble.design import DaRRM, compare_aggregators
from dpensemble.design.private_answers import (
    _answer_allowance,
    _majority_law,
    _wrong_answers,
    fitted_answer,
    general_composition,
)
from dpensemble.design.private_majority import PrivateModelsMeter, _pure_answers_meter, _touched_models, _touched_zcdp
from dpensemble.errors import AccountingError, BudgetError, InvalidParameterError, TeacherError
from dpensemble.guarantee import Budget
from dpensemble.laws import GaussianNoisyMax, RandomizedResponseMajority
from dpensemble.relations import Relation
from dpensemble.teachers import GradientPerturbedLogisticRegression, OutputPerturbedLogisticRegression
from dpensemble.teachers.private import _announced_privacy, _DrawnBallots
from dpensemble.teachers.private_logistic import _concentrated_for
from dpensemble.votes import Votes

AGGREGATORS = ["darrm", "dsub", "sub", "rr"]
COMMON = {"classes": [0, 1], "n_teachers": 5, "epsilon": 2.0, "random_state": 0}
BALLOTS = COMMON | {"private": "ballots", "teacher_privacy": 1.0, "max_labels": 20}
RANDOMISED = {"private": "ballots", "teacher_privacy": 0.2, "max_labels": 20}
FRESH = COMMON | {"private": "fresh-models", "teacher_privacy": 0.5, "max_labels": 8}


class Accounted(GaussianNB):
    """Reports what it spent only after the fit. In truth an ordinary teacher, for tests."""

    def __init__(self, spent=0.1):
        super().__init__()
        self.spent = spent

    def privacy_spent_(self, delta):
        return self.spent


def _converted(rho, delta=1e-5):
    return improved_epsilon(rho * DEFAULT_ORDERS, DEFAULT_ORDERS, delta)


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("sharing", ["everyone", "partition"])
def test_models_pay_once_for_all_public_rows(blobs, sharing, relation):
    X, y, public = blobs
    model = PrivateMajorityClassifier(**COMMON, sharing=sharing, relation=relation).fit(X, y, X_public=public)
    assert len(model.labels_) == len(public)
    touched = 5 if sharing == "everyone" else 1
    ((epsilon, delta),) = set(model.design_.teachers)
    (rho,) = set(model.design_.zcdp)
    assert delta == 1e-5
    assert epsilon == (2.0 if touched == 1 else pytest.approx(_converted(rho)))
    # The whole budget is spent, and no more, in zero-concentrated composition.
    assert 2.0 * (1 - 1e-9) < _converted(touched * rho) <= 2.0 * (1 + 1e-12)
    assert 2.0 * (1 - 1e-9) < model.guarantee_.epsilon <= 2.0
    assert model.guarantee_.basis is Basis.WORST_CASE
    assert "however many" in model.guarantee_.accounting
    assert any("this guarantee rests on it" in text for text in model.guarantee_.assumptions)
    assert Guarantee.from_dict(json.loads(json.dumps(model.guarantee_.to_dict()))) == model.guarantee_
    few = clone(model).set_params(max_labels=10).fit(X, y, X_public=public)
    assert len(few.labels_) == 10
    assert few.guarantee_.epsilon == model.guarantee_.epsilon


@pytest.mark.parametrize("settings", [BALLOTS, FRESH], ids=["ballots", "fresh models"])
@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_every_aggregator_spends_what_its_answers_cost(blobs, settings, aggregator):
    X, y, public = blobs
    model = PrivateMajorityClassifier(**settings, law=aggregator).fit(X, y, X_public=public)
    labels = settings["max_labels"]
    assert len(model.labels_) == labels
    assert isinstance(model.law_, RandomizedResponseMajority)
    one = model.design_.answer_epsilon
    assert model.guarantee_.epsilon == min(2.0, optimal_composition([(one, 0.0)] * labels, 1e-5))
    assert model.guarantee_.epsilon > 1.99
    assert model.design_.m == pytest.approx(one / settings["teacher_privacy"])
    assert aggregator in model.guarantee_.accounting
    assert model.predict_proba(X).shape == (len(X), 2)


def test_votes_to_expect_are_given_with_the_law(blobs):
    X, y, public = blobs
    gammas = []
    for law in ("darrm", DaRRM(), DaRRM(0.9)):
        settings = BALLOTS | {"n_teachers": 11, "teacher_privacy": 0.3, "max_labels": 4}
        model = PrivateMajorityClassifier(**settings, law=law).fit(X, y, X_public=public)
        assert model.design_.rule == "darrm"
        gammas.append(model.law_.gamma)
    assert gammas[0] == gammas[1] != gammas[2]


def test_gaussian_noise_on_ordinary_teachers_spends_the_same_total(blobs):
    X, y, public = blobs
    model = PrivateMajorityClassifier(**COMMON, sharing="partition", law="gnmax", max_labels=20)
    model.fit(X, y, X_public=public)
    assert isinstance(model.law_, GaussianNoisyMax)
    assert 1.98 < model.guarantee_.epsilon <= 2
    assert model.design_.teachers is None
    assert any("ordinary models" in text for text in model.guarantee_.assumptions)


def test_a_partition_whose_ballots_are_cheap_needs_no_noise_on_top(blobs):
    X, y, public = blobs
    model = PrivateMajorityClassifier(**BALLOTS | {"teacher_privacy": 0.05, "sharing": "partition"})
    model.fit(X, y, X_public=public)
    assert set(model.law_.gamma) == {1.0}
    assert model.guarantee_.epsilon == optimal_composition([(0.05, 0.0)] * 20, 1e-5)


def test_an_accountant_is_charged_before_anything_is_asked(blobs):
    X, y, public = blobs
    model = PrivateMajorityClassifier(Accounted(), **COMMON).fit(X, y, X_public=public)
    # Each of five is asked at a tenth of delta.
    assert model.design_.teachers == ((0.1, 1e-5 / 10),) * 5
    assert model.guarantee_.epsilon == optimal_composition([(0.1, 1e-5 / 10)] * 5, 1e-5)
    dear = PrivateMajorityClassifier(Accounted(0.6), **COMMON)
    with pytest.raises(BudgetError, match=r"epsilon=.* together"):
        dear.fit(X, y, X_public=public)
    assert not hasattr(dear, "labels_")
    unpaid = PrivateModelsMeter(None, Budget(epsilon=1, delta=1e-5))
    with pytest.raises(AccountingError, match="must be paid for before they answer"):
        unpaid.admit(Votes(np.zeros((1, 5), dtype=int), n_classes=2))


def test_declared_teachers_one_by_one(blobs):
    X, y, public = blobs
    declared = [(epsilon, 1e-7) for epsilon in (0.1, 0.2, 0.3, 0.1, 0.1)]
    model = PrivateMajorityClassifier(GaussianNB(), **COMMON, teacher_privacy=declared, sharing="partition")
    model.fit(X, y, X_public=public)
    # A record touches one of them, and the dearest counts.
    assert model.guarantee_.epsilon == 0.3
    assert "what was declared" in " ".join(model.guarantee_.assumptions)


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_declared_gaussian_teachers_compose_by_what_they_promise(blobs, delta):
    """Even where their deltas would not fit the budget's."""
    X, y, public = blobs
    model = PrivateMajorityClassifier(**COMMON, teacher_privacy=(0.2, delta)).fit(X, y, X_public=public)
    rho = _concentrated_for(0.2, delta)
    assert model.design_.zcdp == (rho,) * 5
    assert model.guarantee_.epsilon == pytest.approx(_converted(5 * rho))
    if delta < 1e-5:
        assert model.guarantee_.epsilon < optimal_composition([(0.2, delta)] * 5, 1e-5)
    assert "zero-concentrated rho=" in " ".join(model.guarantee_.assumptions)
    assert "Bun and Steinke" in model.guarantee_.accounting
    pure = PrivateMajorityClassifier(**COMMON, teacher_privacy=0.2).fit(X, y, X_public=public)
    assert pure.design_.zcdp is None
    assert pure.guarantee_.epsilon == optimal_composition([(0.2, 0.0)] * 5, 1e-5)


def test_the_better_of_two_compositions_is_charged():
    budget = Budget(epsilon=3, delta=1e-5)
    # One record's worst set decides, each by the composition that suits it.
    models = [[(0.5, 1e-6)] * 2, [(0.4, 0.0)] * 2]
    meter = PrivateModelsMeter(models, budget, zcdp=[[0.001] * 2, [0.08] * 2])
    assert meter.spent_epsilon == optimal_composition([(0.4, 0.0)] * 2, 1e-5)
    assert meter.cost.epsilon(0) == pytest.approx(0.8)
    meter = PrivateModelsMeter(models[:1], budget, zcdp=[[0.001, 0.002]])
    assert meter.spent_epsilon == pytest.approx(_converted(0.003))
    assert meter.cost.rdp == pytest.approx(0.003 * DEFAULT_ORDERS)
    meter = PrivateModelsMeter(models[:1], budget)
    assert meter.spent_epsilon == optimal_composition(models[0], 1e-5)
    with pytest.raises(AccountingError, match="no Renyi curve"):
        _ = meter.cost
    for zcdp in ([[0.1]], [[0.1, 0.1]] * 2, [[float("nan")] * 2], [[-1.0, 2.0]]):
        with pytest.raises(InvalidParameterError, match="zcdp"):
            PrivateModelsMeter(models[:1], budget, zcdp=zcdp)
    with pytest.raises(InvalidParameterError, match="at least one"):
        PrivateModelsMeter([], budget)


def test_a_record_that_touches_some_teachers_is_charged_for_the_worst_of_them():
    """Against every set of this many teachers."""
    rng = np.random.default_rng(0)
    for touched in (1, 2, 3, 5):
        teachers = tuple(zip(rng.uniform(0.05, 0.5, 5), rng.choice([0, 1e-7, 1e-6], 5), strict=True))
        budget = Budget(epsilon=9, delta=1e-5)
        every = [optimal_composition(chosen, 1e-5) for chosen in combinations(teachers, touched)]
        if touched == 1:
            every = [epsilon for epsilon, _ in teachers]
        found = PrivateModelsMeter(_touched_models(teachers, touched), budget).spent_epsilon
        assert max(every) * (1 - 1e-9) <= found <= 1.05 * max(every)
        rhos = tuple(rng.uniform(0, 1e-2, 5))
        worst = max(sum(chosen) for chosen in combinations(rhos, touched))
        assert max(sum(chosen) for chosen in _touched_zcdp(rhos, touched)) == pytest.approx(worst)


def test_fresh_models_of_one_query_differ_from_those_of_the_next(blobs):
    """Answers of models trained once to copies of a row agree. Those of models trained again do not."""
    X, y, _ = blobs
    copies = np.zeros((30, 3))
    once = PrivateMajorityClassifier(**COMMON | {"n_teachers": 1, "epsilon": 1.0}).fit(X, y, X_public=copies)
    assert len(set(once.labels_.labels.tolist())) == 1
    fresh = FRESH | {"n_teachers": 1, "max_labels": 30, "epsilon": 50.0, "delta": 1e-4}
    anew = PrivateMajorityClassifier(**fresh).fit(X, y, X_public=copies)
    assert len(set(anew.labels_.labels.tolist())) == 2


def test_private_teachers_are_told_whose_records_are_whose(blobs):
    X, y, public = blobs
    seen = []

    class Watched(GradientPerturbedLogisticRegression):
        def fit(self, X, y, units=None):
            seen.append(np.bincount(np.unique(units, return_inverse=True)[1]).tolist())
            return super().fit(X, y, units=units)

    units = [f"person {n // 3}" for n in range(len(X))]
    settings = COMMON | {"sharing": "partition", "n_jobs": 1}
    PrivateMajorityClassifier(Watched(epsilon=0.5), **settings).fit(X, y, X_public=public, units=units)
    # No records are divided between teachers.
    assert len(seen) == settings["n_teachers"]
    assert {size for sizes in seen for size in sizes[:-1]} == {3}


@pytest.mark.parametrize("sharing", ["everyone", "partition"])
def test_models_of_three_classes_label_every_public_row(blobs, sharing):
    X, _, public = blobs
    y = (X @ np.array([[2.0, -1, -1], [0, 1.7, -1.7], [0, 0, 0]])).argmax(axis=1)
    settings = COMMON | {"classes": [0, 1, 2], "sharing": sharing, "epsilon": 20.0}
    model = PrivateMajorityClassifier(**settings).fit(X, y, X_public=public, units=np.arange(len(X)) // 2)
    assert len(model.labels_) == len(public)
    assert model.score(X, y) > 0.6
    assert 0.9 * 20 < model.guarantee_.epsilon <= 20
    assert model.design_.law.title == "plurality of the ballots"


def test_answers_of_three_classes_are_pluralities_of_drawn_ballots(blobs):
    X, _, public = blobs
    y = (X @ np.array([[2.0, -1, -1], [0, 1.7, -1.7], [0, 0, 0]])).argmax(axis=1)
    settings = COMMON | {"classes": [0, 1, 2]} | RANDOMISED | {"epsilon": 6.0}
    for sharing, touched in (("everyone", True), ("partition", False)):
        model = PrivateMajorityClassifier(**settings | {"sharing": sharing}).fit(X, y, X_public=public)
        design = model.design_
        assert len(model.labels_) == settings["max_labels"]
        assert model.guarantee_.epsilon <= 6.0
        if touched:
            assert design.answer_epsilon == pytest.approx(design.drawn * settings["teacher_privacy"])
        else:
            assert design.answer_epsilon <= settings["teacher_privacy"]
        assert design.settings()["drawn"] == design.drawn
    seeded = [
        PrivateMajorityClassifier(**settings, insecure_release_seed=4).fit(X, y, X_public=public).labels_.labels
        for _ in range(2)
    ]
    assert np.array_equal(*seeded)


def test_ballots_are_drawn_evenly_and_anew():
    class Named:
        def vote(self, X):
            return Votes(np.tile(np.arange(5), (len(X), 1)), n_classes=5)

    votes = _DrawnBallots(Named(), 2, SeededNoise(0)).vote(np.zeros((2000, 1)))
    assert votes.ballots.shape == (2000, 2)
    assert np.all(votes.ballots[:, 0] != votes.ballots[:, 1])
    pairs = np.bincount(votes.ballots[:, 0].astype(int) * 5 + votes.ballots[:, 1], minlength=25)
    assert chisquare(pairs[pairs > 0]).pvalue > 1e-3
    assert np.count_nonzero(pairs) == 20


def test_seeds_repeat_everything_and_are_marked(blobs):
    X, y, public = blobs
    for settings in (COMMON, BALLOTS, FRESH):
        runs = [
            PrivateMajorityClassifier(**settings, insecure_release_seed=4).fit(X, y, X_public=public) for _ in range(2)
        ]
        assert np.array_equal(runs[0].labels_.labels, runs[1].labels_.labels)
        assert not runs[0].guarantee_.for_release


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"classes": [0, 1, 2], **RANDOMISED, "law": "darrm"}, InvalidParameterError, "proven for two classes only"),
        (
            {"classes": [0, 1, 2], **RANDOMISED, "teacher_privacy": 5.0},
            BudgetError,
            "one ballot reveals",
        ),
        (
            {"classes": [0, 1, 2], "private": "fresh-models", "max_labels": 5},
            InvalidParameterError,
            "is for two classes",
        ),
        (
            {"classes": [0, 1, 2], "teacher": OutputPerturbedLogisticRegression(epsilon=1.0)},
            InvalidParameterError,
            "is for two classes",
        ),
        ({"private": "votes"}, InvalidParameterError, "private='votes' is unknown"),
        ({"sharing": "some"}, InvalidParameterError, "sharing='some' is unknown"),
        ({"law": "loudest"}, InvalidParameterError, "law='loudest' cannot release ballots of private teachers"),
        ({"law": "darrm"}, InvalidParameterError, "does not compose over answers"),
        ({"private": "ballots"}, InvalidParameterError, "max_labels=None"),
        ({"private": "ballots", "max_labels": 5}, InvalidParameterError, "give it as teacher_privacy"),
        (
            {"private": "ballots", "max_labels": 5, "teacher_privacy": (1, 0.1)},
            InvalidParameterError,
            "with delta 0: give it as teacher_privacy",
        ),
        (
            {"private": "ballots", "max_labels": 5, "law": "majority", "teacher_privacy": 1},
            InvalidParameterError,
            "adds no noise",
        ),
        ({"law": "gnmax"}, InvalidParameterError, "max_labels=None"),
        (
            {"law": "gnmax", "max_labels": 5, "teacher_privacy": 1},
            InvalidParameterError,
            "drop teacher_privacy",
        ),
        ({"teacher_privacy": (None, 0.1)}, InvalidParameterError, "must be an epsilon, a pair of epsilon and delta"),
        ({"teacher_privacy": [0.1] * 5}, InvalidParameterError, "or a sequence of such pairs; got"),
        ({"teacher_privacy": [(0.1, 0.0)] * 5}, InvalidParameterError, "or your own teacher"),
        ({"teacher_privacy": float("nan")}, InvalidParameterError, "epsilon=nan"),
        ({"teacher": GaussianNB()}, InvalidParameterError, "reports no privacy"),
        (
            {"teacher": GaussianNB(), "private": "fresh-models", "max_labels": 5},
            InvalidParameterError,
            "announces no privacy",
        ),
        (
            {"teacher": OutputPerturbedLogisticRegression(epsilon=1.0), "teacher_privacy": 0.1},
            InvalidParameterError,
            "make them agree",
        ),
        (
            {"teacher": OutputPerturbedLogisticRegression(insecure_release_seed=1)},
            InvalidParameterError,
            "could be undone",
        ),
        (
            {"teacher": Accounted(), "relation": "add-or-remove-one"},
            InvalidParameterError,
            "may reveal the number of records",
        ),
        ({"teacher_privacy": 1.0}, BudgetError, "together"),
        (
            {"teacher": GaussianNB(), "teacher_privacy": (0.1, 1e-3)},
            BudgetError,
            "deltas do not fit",
        ),
        ({"n_teachers": 0}, InvalidParameterError, "n_teachers=0"),
    ],
)
def test_bad_settings_say_what_would_do(blobs, settings, error, message):
    X, y, public = blobs
    with pytest.raises(error, match=message):
        PrivateMajorityClassifier(**COMMON | settings).fit(X, y, X_public=public)


def test_units_need_teachers_that_protect_them(blobs):
    X, y, public = blobs
    units = np.arange(len(X)) // 2

    class Forgets(GradientPerturbedLogisticRegression):
        """Inherits a promise, and never receives units."""

        def fit(self, X, y):
            return super().fit(X, y)

    with pytest.raises(InvalidParameterError, match="single records only"):
        PrivateMajorityClassifier(Forgets(epsilon=0.1), **COMMON).fit(X, y, X_public=public, units=units)
    for settings in ({}, {"private": "fresh-models", "max_labels": 2}):
        model = PrivateMajorityClassifier(**COMMON | settings).fit(X, y, X_public=public, units=units)
        assert model.guarantee_.unit == "unit"
        assert model.guarantee_.epsilon <= COMMON.get("epsilon", 1.0)
    model = PrivateMajorityClassifier(GaussianNB(), **COMMON, teacher_privacy=0.1)
    assert model.fit(X, y, X_public=public, units=units).guarantee_.unit == "unit"
    assert PrivateMajorityClassifier(**BALLOTS).fit(X, y, X_public=public, units=units).guarantee_.unit == "unit"


def test_one_class_of_records_does_not_stop_private_teachers(blobs):
    X, y, public = blobs
    model = PrivateMajorityClassifier(**COMMON).fit(X, np.zeros_like(y), X_public=public)
    assert set(model.labels_.labels.tolist()) <= {0, 1}


def test_a_teacher_that_votes_for_an_unknown_label_ends_the_run(blobs):
    class Odd(GaussianNB):
        def predict(self, X):
            return np.full(len(X), 7)

    X, y, public = blobs
    with pytest.raises(TeacherError, match="must vote for declared classes only"):
        PrivateMajorityClassifier(Odd(), **COMMON, teacher_privacy=0.1).fit(X, y, X_public=public)


# Answers at equal loss


@pytest.mark.parametrize("queries", [1, 10, 300])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_an_answer_may_reveal_exactly_what_fits(epsilon, queries):
    allowed = _answer_allowance(epsilon, 1e-5, queries)
    for one, total in (
        (allowed.exact, lambda e: optimal_composition([(e, 0.0)] * queries, 1e-5)),
        (allowed.general, lambda e: general_composition(e, 0.0, queries, 1e-5)[0]),
    ):
        assert total(one) <= epsilon
        assert total(one * (1 + 1e-6)) > epsilon
    assert allowed.exact >= allowed.general
    assert allowed.epsilon == allowed.exact
    assert allowed.composition == "optimal composition"


def test_the_optimised_gamma_errs_least_where_its_prior_says():
    for Delta in (0.0, 1e-4):
        laws = {a: _majority_law(a, 11, epsilon=0.3, Delta=Delta, answer_epsilon=0.9, prior=0.8) for a in AGGREGATORS}
        errors = {a: _wrong_answers(law, 11, 0.8) for a, law in laws.items()}
        assert min(errors, key=errors.get) == "darrm"
        assert errors["darrm"] < 0.9 * errors["dsub"] < 0.9 * errors["sub"]


def answers_meter(epsilon, queries, budget):
    schedule = VotingSchedule.everyone(RandomizedResponseMajority((1.0,) * 6), 5)
    return _pure_answers_meter(schedule, Group("everyone", budget), epsilon, queries, "")


def test_the_meter_of_answers_refuses_more_than_fit():
    budget = Budget(epsilon=1, delta=1e-5)
    with pytest.raises(BudgetError, match="do not fit"):
        answers_meter(0.5, 100, budget)
    meter = answers_meter(0.1, 3, budget)
    votes = Votes(np.zeros((2, 5), dtype=int), n_classes=2)
    assert [meter.admit(votes) for _ in range(3)] == [2, 1, 0]
    assert meter.spent_epsilon == optimal_composition([(0.1, 0.0)] * 3, 1e-5)


def test_losses_beyond_what_doubles_hold_are_still_charged():
    meter = answers_meter(600.0, 2, Budget(epsilon=2000, delta=1e-5))
    assert meter.one_query.epsilon(1e-5) == pytest.approx(600)
    assert meter.sure_queries == 2


def test_the_comparison_is_at_equal_loss_and_prints_a_table():
    found = compare_aggregators(11, epsilon=0.2, m=3, queries=30, agreements=(0.6, 0.9), prior=0.75)
    totals = {row.name: row.epsilon for row in found.rows}
    for name in ("darrm", "rr", "gnmax"):
        assert totals[name] == pytest.approx(found.budget.epsilon)
    assert totals["models"] == optimal_composition([(0.2, 0.0)] * 11, 1e-5)
    errors = {row.name: row.errors[1] for row in found.rows}
    assert errors["models"] < errors["darrm"] < errors["dsub"] < errors["sub"] < errors["gnmax"]
    assert str(found).count("\n") == 9
    assert "gnmax" in str(found)
    alone = compare_aggregators(11, epsilon=0.2, m=3, queries=30, agreements=(0.9,), touched=1)
    # A record that touches one private teacher needs no noise on the majority.
    assert alone["darrm"].errors == alone["models"].errors
    assert alone["darrm"].epsilon < alone.budget.epsilon
    assert alone["gnmax"].errors[0] < errors["gnmax"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"m": 12}, "m=12"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"queries": 0}, "queries=0"),
        ({"touched": 12}, "touched=12"),
        ({"agreements": (1.5,)}, "agreements=1.5"),
        ({"Delta": 1.0}, "Delta=1.0"),
        ({"delta": 0.0}, "delta=0.0"),
    ],
)
def test_bad_comparisons(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        compare_aggregators(11, **{"epsilon": 0.1, "m": 3, "queries": 5} | arguments)


def test_a_design_never_reveals_more_than_the_teachers_do():
    found = fitted_answer("darrm", 3, touched=3, teacher=(0.1, 0.0), queries=2, budget=Budget(epsilon=50, delta=1e-5))
    assert found.epsilon == pytest.approx(0.3)
    assert set(found.law.gamma) == {1.0}


class _PerRecord(GaussianNB):
    """Announces what it keeps for one record."""

    def announced_privacy(self):
        return 0.1, 0.0


@pytest.mark.parametrize("private", ["models", "fresh-models"])
@pytest.mark.parametrize("teacher", [_PerRecord()])
def test_a_teacher_that_is_private_for_records_is_none_for_units(blobs, private, teacher):
    """A unit of a hundred records moves such a teacher by far more than its epsilon."""
    X, y, public = blobs
    model = PrivateMajorityClassifier(
        teacher, classes=[0, 1], n_teachers=3, teacher_privacy=1.0, epsilon=8.0, private=private, max_labels=5
    )
    with pytest.raises(InvalidParameterError, match="protects single records only"):
        model.fit(X, y, X_public=public, units=np.arange(len(X)) // 100)


def test_an_announcement_for_adding_or_removing_counts_twice_for_replacing():
    teacher = _PerRecord()
    teacher.relation = "add-or-remove-one"
    assert _announced_privacy(teacher, Relation.REPLACE_ONE) == (0.2, 0.0)
    assert _announced_privacy(teacher, Relation.ADD_OR_REMOVE_ONE) == (0.1, 0.0)
    teacher.relation = "replace-one"
    with pytest.raises(InvalidParameterError, match="does not cover adding or removing"):
        _announced_privacy(teacher, Relation.ADD_OR_REMOVE_ONE)
    teacher.relation = "Add-Or-Remove-One"
    with pytest.raises(InvalidParameterError, match="relation of the teacher"):
        _announced_privacy(teacher, Relation.REPLACE_ONE)


class _Seeded(_PerRecord):
    def __init__(self, seed=None, source=None):
        super().__init__()
        self.seed, self.source = seed, source


@pytest.mark.parametrize("settings", [{"seed": 3}, {"source": np.random.default_rng(7)}])
def test_seeds_and_generators_by_any_name_are_refused(blobs, settings):
    X, y, public = blobs
    model = PrivateMajorityClassifier(_Seeded(**settings), classes=[0, 1], n_teachers=3, epsilon=8.0)
    with pytest.raises(InvalidParameterError, match="could be undone"):
        model.fit(X, y, X_public=public)
