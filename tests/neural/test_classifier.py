import pickle
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_estimator

from dpensemble.errors import DataError, InvalidParameterError, TeacherError
from dpensemble.neural import SGD, Adam, ImageAugmentation, TorchClassifier, digit_cnn

torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def small(**settings):
    settings = {"epochs": 3, "random_state": 0, "input_shape": (1, 8, 8)} | settings
    return TorchClassifier(digit_cnn, **settings)


def same(a, b):
    return all(np.array_equal(a.state_[name], b.state_[name]) for name in a.state_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_agrees():
    check_estimator(TorchClassifier(epochs=20, optimizer=Adam(5e-3)))


def test_digits_are_learnt(digits):
    X, y = digits
    model = small(epochs=15, batch_size=16).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.85
    assert model.predict_proba(X[:5]).sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("settings", [{}, {"augmentation": ImageAugmentation()}, {"optimizer": SGD(momentum=0.9)}])
def test_a_seed_repeats_and_global_generators_stay(digits, settings):
    X, y = digits
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = small(**settings).fit(X[:80], y[:80])
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    torch.manual_seed(6)
    assert same(first, small(**settings).fit(X[:80], y[:80]))
    assert not same(first, small(random_state=1, **settings).fit(X[:80], y[:80]))


def test_it_survives_pickle_and_clone(digits):
    X, y = digits
    model = small().fit(X[:80], y[:80])
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert all(isinstance(value, np.ndarray) for value in model.state_.values())
    assert not hasattr(clone(model), "state_")
    assert isinstance(model.fitted_module(), torch.nn.Module)


def test_declared_classes_have_outputs_without_rows(digits):
    X, y = digits
    few = y[:200] < 4
    model = small(classes=range(10)).fit(X[:200][few], y[:200][few])
    assert model.predict_proba(X[:3]).shape == (3, 10)
    with pytest.raises(DataError, match="y must hold labels that classes declares"):
        small(classes=[0, 1]).fit(X[:50], y[:50])


def test_a_start_on_other_classes_keeps_all_but_the_last_layer(digits):
    X, y = digits
    start = small().fit(X[:80], y[:80] % 5)
    untrained = {"epochs": 1, "optimizer": Adam(1e-12)}
    model = small(start=start, random_state=3, **untrained).fit(X[:80], y[:80])
    for name in ("0.weight", "0.bias", "4.weight", "4.bias"):
        assert np.allclose(model.state_[name], start.state_[name], atol=1e-6)
    assert model.state_["6.weight"].shape[0] == 10


def test_the_last_layer_is_kept_or_new_as_asked(digits):
    X, y = digits
    start = small().fit(X[:80], y[:80])
    settings = {"start": start, "epochs": 1, "optimizer": Adam(1e-12)}
    last = {name: small(last_layer=name, **settings).fit(X[:80], y[:80]).state_["6.weight"] for name in ("auto", "new")}
    assert np.allclose(last["auto"], start.state_["6.weight"], atol=1e-6)
    assert not np.allclose(last["new"], start.state_["6.weight"], atol=1e-3)
    with pytest.raises(InvalidParameterError, match="last_layer='keep' needs a start of 5 classes, not 10"):
        small(last_layer="keep", **settings).fit(X[:80], y[:80] % 5)


def test_a_start_stays_fitted_in_a_clone(digits):
    X, y = digits
    start = small().fit(X[:80], y[:80])
    copied = clone(small(start=start))
    assert copied.start is start
    assert not any(name.startswith("start__") for name in copied.get_params())


def test_an_optimizer_is_searched_by_nested_names_and_copied_with_its_classifier():
    model = small(optimizer=SGD(0.1, momentum=0.5))
    assert model.get_params()["optimizer__learning_rate"] == 0.1
    copied = clone(model).set_params(optimizer__learning_rate=0.2)
    assert copied.optimizer == SGD(0.2, momentum=0.5)
    assert model.optimizer == SGD(0.1, momentum=0.5)
    assert clone(small()).optimizer is None


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"input_shape": (1, 9, 8)}, DataError, r"X has 64 columns, but input_shape=\(1, 9, 8\) takes 72"),
        ({"epochs": 0}, InvalidParameterError, "epochs=0"),
        ({"batch_size": 0}, InvalidParameterError, "batch_size=0"),
        ({"optimizer": Adam(np.nan)}, InvalidParameterError, "learning_rate=nan"),
        ({"optimizer": Adam(weight_decay=-1)}, InvalidParameterError, "weight_decay=-1"),
        ({"optimizer": SGD(0)}, InvalidParameterError, "learning_rate=0"),
        ({"optimizer": SGD(momentum=2)}, InvalidParameterError, "momentum=2"),
        ({"optimizer": "lion"}, InvalidParameterError, r"optimizer='lion' must be Adam\(.*SGD\("),
        ({"precision": "float16"}, InvalidParameterError, "'float32' or 'bfloat16'"),
        ({"device": "tpu"}, InvalidParameterError, "device='tpu' must be available"),
        ({"module": 3}, InvalidParameterError, "module=3 must be callable"),
        (
            {"module": lambda shape, n: "net"},
            InvalidParameterError,
            "module must return a torch.nn.Module, the network; got str",
        ),
        ({"augmentation": "yes"}, InvalidParameterError, "augmentation='yes'"),
        ({"augmentation": ImageAugmentation(), "input_shape": None}, InvalidParameterError, "needs images"),
        ({"start": small()}, InvalidParameterError, "start=TorchClassifier must be a fitted"),
        ({"last_layer": "old"}, InvalidParameterError, "last_layer='old'"),
        ({"random_state": -1}, InvalidParameterError, "random_state=-1"),
    ],
)
def test_bad_settings_are_named(digits, settings, error, message):
    X, y = digits
    with pytest.raises(error, match=message):
        small().set_params(**settings).fit(X[:20], y[:20])


def test_a_start_of_another_network_is_refused(digits):
    X, y = digits
    other = TorchClassifier(epochs=1).fit(X[:50, :5], y[:50])
    with pytest.raises(InvalidParameterError, match="shares no layer"):
        small(start=other, last_layer="new").fit(X[:20], y[:20])


def test_divergence_is_an_error(digits):
    X, y = digits
    with pytest.raises(TeacherError, match=r"learning_rate=1000000\.0 made the training diverge"):
        TorchClassifier(optimizer=SGD(1e6, momentum=0.9), epochs=30).fit(1e6 * X[:50], y[:50])


def test_bfloat16_learns_too(digits):
    X, y = digits
    model = small(epochs=15, batch_size=16, precision="bfloat16").fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.85


def pooled(n_units, *layers):
    def network(_shape, n_classes):
        last = torch.nn.Linear(n_units, n_classes)
        return torch.nn.Sequential(*(layer() for layer in layers), torch.nn.Flatten(), last)

    return network


class PooledAndBack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.back = torch.nn.MaxPool2d(2, return_indices=True), torch.nn.MaxUnpool2d(2)

    def forward(self, images):
        return self.back(*self.pool(images))


@pytest.mark.parametrize(
    ("n_units", "layers"),
    [
        # Images without an axis of channels, pairs as output, and pooling twice.
        (16, [lambda: torch.nn.Flatten(1, 2), lambda: torch.nn.MaxPool2d(2)]),
        (192, [lambda: torch.nn.Conv2d(1, 3, 3, padding=1), PooledAndBack]),
        (
            12,
            [
                lambda: torch.nn.Conv2d(1, 3, 3),
                lambda: torch.nn.MaxPool2d(2),
                lambda: torch.nn.MaxPool2d(2, ceil_mode=True),
            ],
        ),
    ],
    ids=["no channels", "indices", "twice"],
)
def test_pooling_of_any_shape_trains_as_without_its_layout(digits, monkeypatch, n_units, layers):
    X, y = digits

    def fit():
        return TorchClassifier(pooled(n_units, *layers), input_shape=(1, 8, 8), epochs=2, random_state=0).fit(
            X[:200], y[:200]
        )

    laid_out = fit()
    monkeypatch.setattr("dpensemble.neural.training._layout_kept_after_pooling", lambda _: nullcontext())
    assert same(laid_out, fit())


def test_training_leaves_no_hooks_in_a_network_that_is_used_again(digits):
    X, y = digits
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(36, 10)
    )
    for _ in range(2):
        TorchClassifier(lambda _shape, _n: network, input_shape=(1, 8, 8), epochs=1).fit(X[:100], y[:100])
    assert not network[1]._forward_hooks
