""""""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dpensemble import PATEClassifier
from dpensemble.allocation import partitions
from dpensemble.errors import InvalidParameterError, TeacherError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.neural import (
    SGD,
    Adam,
    ImageAugmentation,
    TorchClassifier,
    bagging_cnn,
    digit_cnn,
    hidden_layer_network,
    personalised_pate_cnn,
    stacking_obstacle,
)
from dpensemble.teachers import TeacherEnsemble

torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")

SEEDS = [11, 22, 33, 44, 55]
SIZES = [60, 37, 0, 18, 45]
CONSTANT = np.array([-1, -1, 2, -1, -1])


class Residual(torch.nn.Module):
    """No plain sequence, so it goes through vmap."""

    def __init__(self, input_shape, n_classes):
        super().__init__()
        self.first = torch.nn.Linear(int(np.prod(input_shape)), 16)
        self.again = torch.nn.Linear(16, 16)
        self.last = torch.nn.Linear(16, n_classes)

    def forward(self, x):
        hidden = self.first(x.flatten(1)).tanh()
        return self.last(hidden + self.again(hidden).relu())


class MappedConvolution(torch.nn.Module):
    def __init__(self, input_shape, n_classes):
        super().__init__()
        self.convolution = torch.nn.Conv2d(1, 8, 3, stride=2)
        self.last = torch.nn.Linear(8 * 9, n_classes)

    def forward(self, x):
        return self.last(self.convolution(x).relu().flatten(1))


class Dropping(Residual):
    def forward(self, x):
        return super().forward(torch.nn.functional.dropout(x, training=self.training))


class Mixing(Residual):
    def forward(self, x):
        return super().forward(x - x.mean(0))


def frozen(input_shape, n_classes):
    module = digit_cnn(input_shape, n_classes)
    module[0].weight.requires_grad_(False)
    return module


def dropout_sequence(input_shape, n_classes):
    return torch.nn.Sequential(torch.nn.Dropout(0.3), hidden_layer_network(input_shape, n_classes))


def odd_layers(input_shape, n_classes):
    nn = torch.nn
    body = nn.Sequential(nn.Conv2d(1, 4, (3, 2), stride=(1, 2), padding=(1, 0), bias=False), nn.GELU())
    return nn.Sequential(
        body,
        nn.BatchNorm2d(4, affine=False),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, n_classes, bias=False),
    )


@pytest.fixture(autouse=True)
def _one_block(monkeypatch):
    """So that all teachers of a test share their arrays."""
    monkeypatch.setattr("dpensemble.neural.blocks._NUMBERS_IN_FLIGHT", 10**9)
    monkeypatch.setattr("dpensemble.neural.blocks._FEWEST_BLOCKS", 1)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y.astype(np.int64)


def records(network):
    side = 28 if network in (bagging_cnn, personalised_pate_cnn) else 8
    rng = np.random.default_rng(3)
    X = rng.random((sum(SIZES), side * side))
    ends = np.cumsum([0, *SIZES])
    shards = [np.arange(a, b) for a, b in pairwise(ends)]
    return X, rng.integers(0, 4, len(X)), shards, (1, side, side)


def classifier(network, shape, **settings):
    settings = {"epochs": 2, "batch_size": 16, "optimizer": SGD(1e-2, momentum=0.9)} | settings
    return TorchClassifier(network, input_shape=shape, **settings)


def together(estimator, X, y, shards, constant=CONSTANT, n_classes=4, **more):
    return estimator.fit_together(
        X, y, shards, classes=np.arange(n_classes), constant_votes=constant, seeds=SEEDS, **more
    )


def alone(estimator, X, y, seed, n_classes=4):
    return (
        TorchClassifier(**estimator.get_params(deep=False))
        .set_params(classes=range(n_classes), random_state=seed)
        .fit(X, y)
    )


@pytest.mark.parametrize(
    ("network", "settings"),
    [
        (hidden_layer_network, {}),
        (hidden_layer_network, {"optimizer": Adam(weight_decay=0.01)}),
        (digit_cnn, {"augmentation": ImageAugmentation()}),
        (bagging_cnn, {}),
        (personalised_pate_cnn, {"augmentation": ImageAugmentation(), "optimizer": SGD(1e-3, momentum=0.9)}),
        (odd_layers, {}),
        (Residual, {}),
        (MappedConvolution, {"optimizer": Adam()}),
    ],
)
def test_a_stacked_teacher_is_the_one_trained_alone(network, settings):
    X, y, shards, shape = records(network)
    estimator = classifier(network, shape, **settings)
    assert stacking_obstacle(estimator, X.shape[1], 4) is None
    teachers = together(estimator, X, y, shards)
    ballots = teachers.vote(X)
    assert teachers.models[2] is None
    assert np.all(ballots[:, 2] == 2)
    for t in (0, 1, 3, 4):
        single = alone(estimator, X[shards[t]], y[shards[t]], SEEDS[t])
        for name, value in single.state_.items():
            assert teachers.models[t].state_[name] == pytest.approx(value, abs=2e-4, rel=1e-3), name
        assert np.mean(ballots[:, t] == single.predict(X)) > 0.98
        assert np.mean(ballots[:, t] == teachers.models[t].predict(X)) > 0.99


@pytest.mark.parametrize("network", [Dropping, dropout_sequence, frozen, Mixing])
def test_what_cannot_be_stacked_is_trained_one_by_one(network):
    X, y, shards, shape = records(network)
    estimator = classifier(network, shape)
    assert stacking_obstacle(estimator, X.shape[1], 4)
    teachers = together(estimator, X, y, shards)
    single = alone(estimator, X[shards[1]], y[shards[1]], SEEDS[1])
    assert all(np.allclose(teachers.models[1].state_[name], single.state_[name]) for name in single.state_)
    assert np.array_equal(teachers.vote(X)[:, 1], single.predict(X))


def test_obstacles_are_told():
    told = {
        Dropping: "draws at random",
        dropout_sequence: "draws at random",
        frozen: "frozen",
        Mixing: "other rows",
    }
    for network, words in told.items():
        assert words in stacking_obstacle(classifier(network, (1, 8, 8)), 64, 4)


@pytest.mark.parametrize("network", [digit_cnn, odd_layers, Residual, MappedConvolution, Dropping])
@pytest.mark.parametrize("change", ["label", "row", "removal", "huge", "all of one class", "emptied"])
def test_one_teachers_records_leave_all_other_teachers_as_they_were_to_the_bit(network, change):
    X, y, shards, shape = records(network)
    estimator = classifier(network, shape, optimizer=Adam(1e-2), augmentation=ImageAugmentation())
    before = together(estimator, X, y, shards)
    X, y, shards, constant = X.copy(), y.copy(), list(shards), CONSTANT.copy()
    if change == "label":
        y[5] = (y[5] + 1) % 4
    elif change == "row":
        X[5] = 1 - X[5]
    elif change == "removal":
        shards[0] = np.delete(shards[0], 5)
    elif change == "huge":
        X[5] = 1e39  # not finite as float32, so everything of this teacher becomes NaN
    else:
        shards[0] = shards[0][:0] if change == "emptied" else shards[0]
        constant[0] = 1
    after = together(estimator, X, y, shards, constant=constant)
    for t in (1, 3, 4):
        for name, value in before.models[t].state_.items():
            assert np.array_equal(after.models[t].state_[name], value), (t, name)
    assert np.array_equal(before.vote(X)[:, 1:], after.vote(X)[:, 1:])
    if change in ("label", "row", "removal"):
        first = next(iter(before.models[0].state_))
        assert not np.array_equal(before.models[0].state_[first], after.models[0].state_[first])


def test_a_diverged_teacher_votes_its_own_majority(digits):
    X, y = digits
    X = X[:400].copy()
    allocation = partitions(range(400), 8, 1)
    X[3] = 1e39
    teacher = int(allocation.teachers_of(3)[0])
    ensemble = TeacherEnsemble(classifier(digit_cnn, (1, 8, 8)), allocation, np.arange(10), entropy=4).fit(
        X, y[:400], lambda _: None
    )
    assert ensemble.n_failed == 1
    majority = np.bincount(y[:400][allocation.shards[teacher]]).argmax()
    assert np.all(ensemble.vote(digits[0]).ballots[:, teacher] == majority)


def test_if_all_diverge_the_learning_rate_is_named():
    X, y, shards, shape = records(digit_cnn)
    with pytest.raises(TeacherError, match=r"no teacher could be fitted: .*learning_rate=1000000.0"):
        together(classifier(digit_cnn, shape, optimizer=SGD(1e6, momentum=0.9), epochs=10), 1e6 * X, y, shards)


def test_a_wrong_shape_is_told_before_anything_is_trained():
    X, y, shards, _shape = records(digit_cnn)
    with pytest.raises(InvalidParameterError, match="28 x 28"):
        together(classifier(bagging_cnn, (1, 8, 8)), X, y, shards)


def test_workers_change_nothing(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr("dpensemble.neural.blocks._LARGEST_BLOCK", 2)
    allocation = partitions(range(300), 5, 1)
    steps = []
    found = [
        TeacherEnsemble(classifier(digit_cnn, (1, 8, 8)), allocation, np.arange(10), entropy=4, n_jobs=n_jobs).fit(
            X[:300], y[:300], steps.append
        )
        for n_jobs in (1, 2)
    ]
    assert steps == [2, 2, 1] * 2
    states = [[model.state_ for model in ensemble._fitted[0].models] for ensemble in found]
    for one, other in zip(*states, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    assert np.array_equal(found[0].vote(X).ballots, found[1].vote(X).ballots)


def test_the_number_of_threads_is_left_as_it_was():
    X, y, shards, shape = records(digit_cnn)
    before = torch.get_num_threads()
    together(classifier(digit_cnn, shape), X, y, shards)
    assert torch.get_num_threads() == before


def test_fine_tuning_starts_from_public_weights(digits):
    X, y = digits
    start = classifier(digit_cnn, (1, 8, 8), random_state=0).fit(X[1000:1400], y[1000:1400])
    estimator = classifier(digit_cnn, (1, 8, 8), start=start, epochs=1, optimizer=SGD(1e-12, momentum=0.9))
    teachers = together(
        estimator,
        X[:200],
        y[:200],
        [np.arange(40 * t, 40 * t + 40) for t in range(5)],
        constant=np.full(5, -1),
        n_classes=10,
    )
    for model in teachers.models:
        assert np.allclose(model.state_["0.weight"], start.state_["0.weight"], atol=1e-6)


def test_pate_end_to_end_with_networks_as_teachers_and_student(digits):
    X, y = digits
    network = TorchClassifier(digit_cnn, input_shape=(1, 8, 8), epochs=40, batch_size=16, optimizer=Adam(5e-3))
    model = PATEClassifier(
        network,
        network,
        classes=range(10),
        n_teachers=20,
        law=GaussianNoisyMax(2.0),
        epsilon=50.0,
        delta=1e-5,
        max_labels=250,
        random_state=0,
        insecure_release_seed=0,
    ).fit(X[:1200], y[:1200], X_public=X[1200:1500])
    assert model.score(X[1500:], y[1500:]) > 0.6
