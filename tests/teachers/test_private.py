import math
from itertools import combinations_with_replacement, product

import joblib
import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpensemble._random import SeededNoise, SystemNoise
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.cost.privacy_cost import improved_epsilon
from dpensemble.errors import DataError, InvalidParameterError, TeacherError
from dpensemble.relations import Relation
from dpensemble.teachers import OpacusPrivacy, OutputPerturbedLogisticRegression, PrivateTeachers, RandomizedBallots
from dpensemble.teachers import private_logistic as perturbing
from dpensemble.teachers.private import _announced_privacy, _spent_privacy, declared_privacy
from dpensemble.teachers.private_logistic import _concentrated_for
from dpensemble.votes import Votes

REPLACE, ADD = Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE
CLASSES = np.array([0, 1])
LR = OutputPerturbedLogisticRegression


def test_gaussian_noise_keeps_its_promise():
    """The exact delta of whole-number noise at a shift of 3 is within what its concentration converts to."""
    epsilon, delta, shift = 1.0, 1e-3, 3
    assert _concentrated_for(1.0, 1e-5) == pytest.approx(0.0306, abs=5e-5)
    rho = _concentrated_for(epsilon, delta)
    variance = math.ceil(shift**2 / (2 * rho))
    values = np.arange(-4000, 4001)
    law = np.exp(-(values**2) / (2 * variance))
    law /= law.sum()
    moved = np.roll(law, shift)
    exact = max(np.maximum(a - np.exp(epsilon) * b, 0).sum() for a, b in ((law, moved), (moved, law)))
    assert 0.1 * delta < exact <= delta
    half = np.exp(-(values**2) / (variance / 2))
    half /= half.sum()
    assert np.maximum(half - np.exp(epsilon) * np.roll(half, shift), 0).sum() > delta
    assert improved_epsilon(rho * 1.001 * DEFAULT_ORDERS, DEFAULT_ORDERS, delta) > epsilon


# The private logistic regression


@pytest.fixture
def noiseless(monkeypatch):
    """Released whole numbers of steps without noise, and the size of the noise that they would have had."""
    sizes = []

    class Silent:
        def __init__(self, noise):
            pass

        def laplace(self, scale):
            sizes.append(scale)
            return 0

        gaussian = laplace

    monkeypatch.setattr(perturbing, "DiscreteNoise", Silent)
    return sizes


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("penalty", [0.5, 20.0])
def test_every_pair_of_tiny_data_sets_obeys_the_noise(noiseless, penalty, delta):
    """All data sets of up to three records, some far beyond the clip: replaced, added, removed."""
    universe = list(product((-50.0, 0.0, 0.6), (0, 1)))
    epsilon = 0.8
    steps = {}
    model = LR(classes=[0, 1], epsilon=epsilon, delta=delta, clip=1.0, penalty=penalty)
    for size in range(4):
        for chosen in combinations_with_replacement(range(len(universe)), size):
            records = [universe[i] for i in chosen]
            X = np.array([[x] for x, _ in records]).reshape(size, 1)
            model.fit(X, np.array([label for _, label in records], dtype=int))
            steps[chosen] = np.array([model.coef_[0, 0], model.intercept_[0]])
    size = noiseless[0]
    assert set(noiseless) == {size}
    largest = 0.0
    sensitivity = 2 * (math.sqrt(2) + 1e-5) / penalty
    step = 2.0 ** math.floor(math.log2(sensitivity / 2**16))
    for a, b in product(steps, repeat=2):
        replaced = len(a) == len(b) and a and len(set_minus(a, b)) == 1
        added = len(a) + 1 == len(b) and not set_minus(a, b)
        if replaced or added:
            moved = (steps[a] - steps[b]) / step
            loss = np.abs(moved).sum() / size / epsilon if delta == 0 else np.sum(moved**2) / (2 * size)
            largest = max(largest, loss)
    bound = 1.0 if delta == 0 else _concentrated_for(epsilon, delta)
    assert 0.05 * bound < largest <= bound


@pytest.mark.parametrize("penalty", [0.5, 20.0])
def test_noise_is_for_twice_the_longest_gradient_over_the_penalty(monkeypatch, penalty):
    """Data sets that reach the bound are rare, so a sensitivity of half the size obeys the noise of all tiny ones."""
    sizes = []

    def watch(weights, sensitivity, *_rest):
        sizes.append(sensitivity)
        return weights, None

    monkeypatch.setattr("dpensemble.teachers.private_logistic._with_noise", watch)
    LR(classes=[0, 1], penalty=penalty).fit(np.array([[0.0], [9.0]]), [0, 1])
    # Rows are cut to length 1 and have a 1 for the intercept. Fits stop at a gradient of up to 1e-5.
    assert sizes == [pytest.approx(2 * (math.sqrt(2) + 1e-5) / penalty, rel=1e-12)]


def set_minus(a, b):
    left = list(a)
    for item in b:
        if item in left:
            left.remove(item)
    return left


def test_it_learns_and_states_its_privacy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = np.where(X[:, 0] - X[:, 1] + 0.3 > 0, "yes", "no")
    for delta in (0.0, 1e-5):
        settings = {"delta": delta, "clip": 3.0, "penalty": 100.0, "insecure_release_seed": 0}
        model = LR(classes=["yes", "no"], epsilon=1.0, **settings).fit(X, y)
        assert model.score(X, y) > 0.85
        assert model.privacy_spent_(delta or 1e-9) <= 1.0
        assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(len(X)))
    assert model.privacy_spent_(1e-3) < 0.9 * model.privacy_spent_(1e-5)


def test_fits_differ_unless_seeded():
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    one, other = (LR(classes=[0, 1]).fit(X, y).coef_ for _ in range(2))
    assert one != other
    one, other = (LR(classes=[0, 1], insecure_release_seed=3).fit(X, y).coef_ for _ in range(2))
    assert one == other


@pytest.mark.parametrize("y", [[], [0], [1, 1]])
def test_it_takes_any_records_of_declared_labels(y):
    model = LR(classes=[0, 1]).fit(np.zeros((len(y), 2)), np.array(y, dtype=int))
    assert model.predict([[1.0, 2.0]]).shape == (1,)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"classes": None}, InvalidParameterError, "must be declared"),
        ({"classes": [0, 1, 2]}, InvalidParameterError, "must be two labels"),
        ({"epsilon": 0.0}, InvalidParameterError, "epsilon=0.0"),
        ({"epsilon": float("nan")}, InvalidParameterError, "epsilon=nan"),
        ({"delta": -1.0}, InvalidParameterError, "delta=-1.0"),
        ({"clip": 0.0}, InvalidParameterError, "clip=0.0"),
        ({"penalty": 0.0}, InvalidParameterError, "penalty=0.0"),
        ({"classes": [0, 2]}, DataError, "not among classes"),
    ],
)
def test_bad_settings_of_it(settings, error, message):
    with pytest.raises(error, match=message):
        LR(**{"classes": [0, 1]} | settings).fit([[0.0], [1.0]], [0, 1])


class Declared(LR):
    __init__ = LR.__init__

    def fit(self, X, y):
        if self.classes is not None or y is None:
            return super().fit(X, y)
        try:
            self.classes = list(np.unique(np.asarray(y)))
            return super().fit(X, y)
        finally:
            self.classes = None


# The suite gives one record of one class and expects a refusal. Classes are declared, and one record is enough.
EXPECTED = {"check_fit2d_1sample": "two classes are declared, never read off the records"}


@parametrize_with_checks(
    [Declared(epsilon=100.0, insecure_release_seed=0, clip=10.0, penalty=1.0)],
    expected_failed_checks=lambda _: EXPECTED,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_check(estimator, check):
    check(estimator)


# Claims of teachers about themselves


class Spent:
    def __init__(self, relation=None):
        if relation is not None:
            self.relation = relation

    def privacy_spent_(self, delta):
        return 0.02 * math.log(1 / delta)


class Engine:
    def get_epsilon(self, delta):
        return 0.02 * math.log(1 / delta)


class ByOpacus:
    privacy_engine_ = Engine()


class Stated:
    class guarantee_:  # noqa: N801
        epsilon, delta, relation = 0.5, 1e-6, "add-or-remove-one"


def test_accountants_are_asked():
    assert _spent_privacy(Spent(), 1e-5, REPLACE) == (0.02 * math.log(1e5), 1e-5)
    assert _spent_privacy(ByOpacus(), 1e-5, ADD) == (0.02 * math.log(1e5), 1e-5)
    assert _spent_privacy(Stated(), 1e-5, ADD) == (0.5, 1e-6)


@pytest.mark.parametrize("model", [ByOpacus(), Spent("add-or-remove-one")])
def test_an_accountant_of_added_records_is_charged_twice_where_they_are_replaced(model):
    epsilon, delta = _spent_privacy(model, 1e-5, REPLACE)
    assert delta == 1e-5
    one = epsilon / 2
    at = math.exp(-one / 0.02)
    assert at * (1 + math.exp(one)) <= delta * (1 + 1e-9)
    assert epsilon > 2 * 0.02 * math.log(1e5)
    stated = _spent_privacy(Stated(), 1e-5, REPLACE)
    assert stated == pytest.approx((1.0, (1 + math.exp(0.5)) * 1e-6))


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), -1.0])
def test_an_accountant_that_is_no_accountant(epsilon):
    class Odd:
        def privacy_spent_(self, delta):
            return epsilon

    with pytest.raises(TeacherError, match="must report an epsilon that is a number from 0"):
        _spent_privacy(Odd(), 1e-5, ADD)
    with pytest.raises(InvalidParameterError, match="reports no privacy"):
        _spent_privacy(GaussianNB(), 1e-5, ADD)
    with pytest.raises(InvalidParameterError, match="get_epsilon"):
        OpacusPrivacy(GaussianNB())


def test_declared_and_announced():
    assert declared_privacy(0.1, [0, 1e-5], 2) == ((0.1, 0.0), (0.1, 1e-5))
    assert _announced_privacy(LR(epsilon=2.0, delta=1e-6), Relation.REPLACE_ONE) == (2.0, 1e-6)
    assert _announced_privacy(GaussianNB(), Relation.REPLACE_ONE) is None
    with pytest.raises(
        InvalidParameterError, match=r"^teacher_privacy must have one entry for all teachers or one each; got 2 for 3"
    ):
        declared_privacy([0.1, 0.2], 0.0, 3)
    for bad in ({"epsilon": 0, "delta": 0}, {"epsilon": 1, "delta": 1}, {"epsilon": float("nan"), "delta": 0}):
        with pytest.raises(InvalidParameterError, match="teacher_privacy="):
            declared_privacy(**bad, n_teachers=2)


# Fitting and voting


def fitted(estimator, y, **options):
    X = np.arange(len(y), dtype=float)[:, None]
    shards = (np.arange(len(y)), np.arange(len(y)))
    given = {"classes": CLASSES, "seeds": None, "n_jobs": 1} | options
    return PrivateTeachers.fit(estimator, X, np.asarray(y), shards, **given)


def test_private_teachers_are_told_their_classes_and_never_seeded_alike():
    teachers = fitted(LR(epsilon=100.0, clip=100.0), [0, 0, 0])
    assert teachers.models[0].classes == [0, 1]
    assert teachers.models[0].coef_ != teachers.models[1].coef_
    # A shard of one class does not turn a private teacher into a constant.
    assert all(model.coef_.shape == (1, 1) for model in teachers.models)
    assert teachers.vote(np.zeros((4, 1))).ballots.shape == (4, 2)
    for settings in ({"insecure_release_seed": 1},):
        with pytest.raises(InvalidParameterError, match="could be undone"):
            fitted(LR(**settings), [0, 1])


class Tosses(GaussianNB):
    """Draws from the global generators, as some private libraries do."""

    def fit(self, X, y):
        self.drawn_ = np.random.random()
        return super().fit(X, y)


def test_a_seeded_script_does_not_seed_the_teachers_noise():
    drawn = set()
    for _ in range(2):
        np.random.seed(0)
        drawn |= {model.drawn_ for model in fitted(Tosses(), [0, 1, 0, 1]).models}
        # The script's own state is not put back, which would reach teachers in other threads.
        assert np.random.random() != pytest.approx(0.5488135)
    assert len(drawn) == 4


def test_a_failed_fit_ends_the_run_without_quoting_records():
    class Fails(GaussianNB):
        def fit(self, X, y):
            raise ValueError(f"record {X[0]}")

    with pytest.raises(TeacherError, match="raised ValueError") as caught:
        fitted(Fails(), [0, 1])
    assert "record" not in str(caught.value).replace("any records", "")


def test_ballots_are_randomised_at_the_stated_odds_anew_each_time():
    class Ones:
        def vote(self, X):
            return Votes(np.ones((len(X), 4000), dtype=np.uint8), n_classes=2)

    ballots = RandomizedBallots(Ones(), 1.0, SystemNoise())
    votes = ballots.vote(np.zeros((3, 1)))
    share = votes.counts[:, 1] / 4000
    assert share == pytest.approx(np.full(3, 1 / (1 + math.exp(-1))), abs=0.04)
    assert not np.array_equal(votes.ballots[0], votes.ballots[1])
    assert not np.array_equal(votes.ballots, ballots.vote(np.zeros((3, 1))).ballots)
    with pytest.raises(InvalidParameterError, match="epsilon"):
        RandomizedBallots(Ones(), 0.0, SystemNoise())


def test_ballots_keep_their_places():
    class Mixed:
        def vote(self, X):
            return Votes(np.array([[0, 1, 1], [1, 0, 2]], dtype=np.uint8), n_classes=3)

    certain = RandomizedBallots(Mixed(), 30.0, SeededNoise(0)).vote(np.zeros((2, 1)))
    assert certain.ballots.tolist() == [[0, 1, 1], [1, 0, 2]]


def test_nor_does_it_where_they_are_fitted_in_threads():
    drawn = []
    for _ in range(2):
        np.random.seed(0)
        with joblib.parallel_config(backend="threading", n_jobs=2):
            drawn += [model.drawn_ for model in fitted(Tosses(), [0, 1, 0, 1], n_jobs=2).models]
    assert len(set(drawn)) == len(drawn)
