"""What the tables of intrinsic bagging run: models of random subsamples without noise, and their rivals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpensemble.datasets import ImageDataset, load_cifar10, load_fashion_mnist, load_mnist
from dpensemble.errors import BudgetError
from dpensemble.laws import ConfidentNoisyMax
from dpensemble.methods import BaggingPrivacyClassifier, LabelMomentsClassifier, PATEClassifier
from dpensemble.moments import ImageMap
from dpensemble.neural import SGD, Adam, DPSGDClassifier, TorchClassifier, bagging_cnn
from dpensemble.neural.networks import bagging_vgg16
from reproductions.declared import Cell, Figures, Settings, figure
from reproductions.store import Workplace

ACCURACY, EPSILON, DELTA = "Accuracy in %", "Epsilon", "Delta"
BAGGING, DP_SGD, PATE, VALUE = "Bagging", "DPSGD", "PATE", "value"
EXACT, STANDARD = "exact", "delta 1e-5"
WITH, WITHOUT = "with-replacement", "distinct"
MOMENTS = "Label moments, epsilon 1, delta 1e-5"
# A pass over one image on one core, and one with its own clipped gradient. Then the factor of a deeper network.
_A_PASS, _A_GRADIENT = 1.2e-4, 6e-4
_DEEPER = {"mnist": 1, "cifar-10": 400}
_SAME_DISTRIBUTION = 1000


def row_of(k: int) -> str:
    """Return how a row of a number of draws is called."""
    return f"k={k}"


def drawn_row(draws: int, scheme: str) -> str:
    """Return the name of a row with a number of draws by a scheme."""
    return f"N k={draws:,}, {'with' if scheme == WITH else 'without'} replacement"


def alone(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return the cells of tables 2 and 3: one a size and repeat, and DP-SGD at the same budgets."""
    deeper = _DEEPER[settings["data"]]
    for repeat in range(seed, seed + settings["repeats"]):
        for k in settings["sizes"]:
            seconds = deeper * _A_PASS * k * settings["epochs"] + 3
            yield Cell(name=f"k{k}-run{repeat}", seconds=seconds, work=partial(_bagged, settings, k, repeat))
            if repeat < seed + settings["rival_repeats"]:
                seconds = deeper * _A_GRADIENT * 60_000 * settings["dp_sgd_epochs"] + 5
                work = partial(_dp_sgd, settings, k, repeat)
                yield Cell(name=f"dp-sgd-k{k}-run{repeat}", seconds=seconds, work=work)
        if settings["moments"]:
            yield Cell(name=f"moments-run{repeat}", seconds=90, work=partial(_moments, repeat))


def from_public(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return the cells of table 4: as table 2, but from a network trained on Fashion-MNIST, and PATE."""
    for repeat in range(seed, seed + settings["repeats"]):
        for k in settings["sizes"]:
            seconds = _A_PASS * (k * settings["epochs"] + 60_000 * settings["start_epochs"])
            yield Cell(name=f"k{k}-run{repeat}", seconds=seconds, work=partial(_fine_tuned, settings, k, repeat))
        if settings["pate_epochs"]:
            seconds = _A_PASS * 60_000 * (settings["pate_epochs"] + settings["start_epochs"])
            yield Cell(name=f"pate-run{repeat}", seconds=seconds, work=partial(_pate, settings, repeat))


def several(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return the cells of figures 1 and 2: several models of one budget, with and without replacement."""
    for repeat in range(seed, seed + settings["repeats"]):
        for draws in settings["draws"]:
            for n_models in settings["models"]:
                for scheme in settings["schemes"]:
                    seconds = _A_PASS * (draws * settings["epochs"] + 60_000 * settings["start_epochs"])
                    name = f"{scheme}-{draws}-in-{n_models}-run{repeat}"
                    work = partial(_split_up, settings, draws, n_models, scheme, repeat)
                    yield Cell(name=name, seconds=seconds, work=work)


def _images(settings: Settings) -> tuple[Callable[[], ImageDataset], Any]:
    """Return the loader of the private images, and their network."""
    return (load_cifar10, bagging_vgg16) if settings["data"] == "cifar-10" else (load_mnist, bagging_cnn)


def _network(settings: Settings, data: ImageDataset, **more: Any) -> TorchClassifier:
    common: dict[str, Any] = {"epochs": settings["epochs"], "batch_size": settings["batch_size"]}
    common |= {"optimizer": Adam(settings["rate"])}
    network = _images(settings)[1]
    return TorchClassifier(network, input_shape=data.image_shape, classes=data.classes, **(common | more))


def _scored(model: Any, data: ImageDataset, first: int = 0) -> float:
    return 100 * float(model.score(data.scaled(data.X_test)[first:], data.y_test[first:]))


def _model(network: Any, k: int, repeat: int, n_models: int = 1, scheme: str = WITH) -> BaggingPrivacyClassifier:
    return BaggingPrivacyClassifier(
        network,
        classes=tuple(range(10)),
        n_teachers=n_models,
        subsample=k // n_models,
        scheme=scheme,
        random_state=repeat,
        insecure_release_seed=repeat,
    )


def _bagged(settings: Settings, k: int, repeat: int, place: Workplace) -> Figures:  # noqa: ARG001
    data = _images(settings)[0]()
    model = _model(_network(settings, data), k, repeat).fit(data.scaled(data.X_train), data.y_train)
    row = row_of(k)
    # None of a scheme that the paper does not have.
    epsilon, delta = model.published_ or (np.nan, np.nan)
    return {
        figure(row, ACCURACY, BAGGING): _scored(model, data),
        figure(row, EPSILON, VALUE): epsilon,
        figure(row, EPSILON, VALUE, EXACT): model.guarantee_.epsilon,
        figure(row, DELTA, VALUE): delta,
        figure(row, DELTA, VALUE, EXACT): model.guarantee_.delta,
    }


def _dp_sgd(settings: Settings, k: int, repeat: int, place: Workplace) -> Figures:  # noqa: ARG001
    """Train by DP-SGD at bagging's budget. If no noise is enough, there is no figure."""
    load, network = _images(settings)
    data, figures = load(), {}
    n = len(data.X_train)
    budgets = {"": (k * np.log1p(1 / n), -np.expm1(k * np.log1p(-1 / n))), STANDARD: (1.0, 1e-5)}
    for beside, (epsilon, delta) in budgets.items():
        model = DPSGDClassifier(
            network,
            input_shape=data.image_shape,
            classes=data.classes,
            epsilon=float(epsilon),
            delta=float(delta),
            accountant="rdp",
            epochs=settings["dp_sgd_epochs"],
            batch_size=settings["dp_sgd_batch_size"],
            optimizer=SGD(settings["dp_sgd_rate"]),
            random_state=repeat,
            insecure_release_seed=repeat,
        )
        if beside and k != settings["sizes"][0]:
            # The same for all rows.
            continue
        try:
            model.fit(data.scaled(data.X_train), data.y_train)
        except BudgetError:
            continue
        figures[figure(row_of(k), ACCURACY, DP_SGD, beside)] = _scored(model, data)
    return figures


def _moments(repeat: int, place: Workplace) -> Figures:  # noqa: ARG001
    data = load_mnist()
    X, X_test = data.scaled(data.X_train), data.scaled(data.X_test)
    model = LabelMomentsClassifier(
        ImageMap(data.image_shape[1:]),
        classes=data.classes,
        epsilon=1.0,
        delta=1e-5,
        random_state=repeat,
        insecure_release_seed=repeat,
    ).fit(X, data.y_train, X_public=X_test[:_SAME_DISTRIBUTION])
    right = np.mean(model.predict(X_test[_SAME_DISTRIBUTION:]) == data.y_test[_SAME_DISTRIBUTION:])
    return {figure(MOMENTS, ACCURACY, BAGGING): 100 * float(right)}


def _start(settings: Settings, repeat: int) -> TorchClassifier:
    """Return the network that was trained on the public images."""
    public = load_fashion_mnist()
    network = _network(settings, public, epochs=settings["start_epochs"], optimizer=Adam(1e-3), random_state=repeat)
    return network.fit(public.scaled(public.X_train), public.y_train)


def _tuned(settings: Settings, data: ImageDataset, repeat: int, **more: Any) -> TorchClassifier:
    return _network(settings, data, start=_start(settings, repeat), last_layer="new", **more)


def _fine_tuned(settings: Settings, k: int, repeat: int, place: Workplace) -> Figures:  # noqa: ARG001
    data = load_mnist()
    model = _model(_tuned(settings, data, repeat), k, repeat).fit(data.scaled(data.X_train), data.y_train)
    return {figure(row_of(k), ACCURACY, BAGGING): _scored(model, data, _SAME_DISTRIBUTION)}


def _pate(settings: Settings, repeat: int, place: Workplace) -> Figures:
    """Label the first test images by 250 fine-tuned teachers, and train students on several numbers of answers."""
    data = load_mnist()
    network = _tuned(settings, data, repeat, epochs=settings["pate_epochs"])
    X, X_test = data.scaled(data.X_train), data.scaled(data.X_test)
    figures = {}
    for k, answers in zip(settings["sizes"], settings["answers"], strict=True):
        model = PATEClassifier(
            network,
            network,
            classes=data.classes,
            n_teachers=250,
            law=ConfidentNoisyMax(threshold=200, threshold_sigma=150, sigma=40),
            epsilon=settings["pate_epsilon"],
            delta=1e-5,
            max_labels=min(_SAME_DISTRIBUTION, 2 * answers),
            random_state=repeat,
            insecure_release_seed=repeat,
            n_jobs=place.n_jobs,
        ).fit(X, data.y_train, X_public=X_test[:_SAME_DISTRIBUTION])
        figures[figure(row_of(k), ACCURACY, PATE)] = _scored(model, data, _SAME_DISTRIBUTION)
    return figures


def _split_up(settings: Settings, draws: int, n_models: int, scheme: str, repeat: int, place: Workplace) -> Figures:  # noqa: ARG001
    data = load_mnist()
    model = _model(_tuned(settings, data, repeat), draws, repeat, n_models, scheme)
    model.fit(data.scaled(data.X_train), data.y_train)
    row = drawn_row(draws, scheme)
    return {figure(row, ACCURACY, f"N={n_models}"): _scored(model, data, _SAME_DISTRIBUTION)}
