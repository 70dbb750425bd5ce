"""What the tables of intrinsic bagging run: models of random subsamples without noise, and their rivals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import SeededNoise
from dpensemble.allocation import partitions
from dpensemble.datasets import ImageDataset, load_fashion_mnist, load_mnist
from dpensemble.design import plan
from dpensemble.errors import BudgetError
from dpensemble.laws import ConfidentNoisyMax, sample
from dpensemble.methods import BaggingPrivacyClassifier, LabelMomentsClassifier, PATEClassifier
from dpensemble.moments import ImageMap
from dpensemble.neural import SGD, Adam, DPSGDClassifier, TorchClassifier, bagging_cnn
from dpensemble.neural.networks import bagging_vgg16
from dpensemble.student import fit_student
from dpensemble.teachers import TeacherEnsemble
from dpensemble.votes import Votes
from reproductions.cifar10 import load_cifar10
from reproductions.declared import Cell, Figures, Settings, figure
from reproductions.store import Workplace

ACCURACY, EPSILON, DELTA = "Accuracy in %", "Epsilon", "Delta"
BAGGING, DP_SGD, PATE, VALUE = "Bagging", "DPSGD", "PATE", "value"
EXACT, STANDARD = "exact", "delta 1e-5"
WITH, WITHOUT = "with-replacement", "distinct"
MOMENTS = "Label moments, epsilon 1, delta 1e-5"
# A pass over one image on one core, and one with its own clipped gradient. Then the factor of a deeper network, whose
# products have bfloat16 factors.
_A_PASS, _A_GRADIENT = 8e-5, 6e-4
_DEEPER = {"mnist": 1, "cifar-10": 120}
# Passes over the test images, which are forward only, in passes of training.
_TO_SCORE = 2500
#: The first test images are public, and all others are for scoring.
SAME_DISTRIBUTION = 1000


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
            if repeat >= seed + settings["most_repeats"].get(str(k), settings["repeats"]):
                continue
            seconds = deeper * _A_PASS * (k * settings["epochs"] + _TO_SCORE) + 3
            yield Cell(name=f"k{k}-run{repeat}", seconds=seconds, work=partial(_bagged, settings, k, repeat))
            if repeat < seed + settings["rival_repeats"]:
                seconds = deeper * _A_GRADIENT * 60_000 * settings["dp_sgd_epochs"] + 5
                work = partial(_dp_sgd, settings, k, repeat)
                yield Cell(name=f"dp-sgd-k{k}-run{repeat}", seconds=seconds, work=work)
        if settings["moments"]:
            yield Cell(name=f"moments-run{repeat}", seconds=90, work=partial(_moments, repeat))


def from_public(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return the cells of table 4: as table 2, but from a network trained on Fashion-MNIST. PATE, the rest, is last."""
    repeats = range(seed, seed + settings["repeats"])
    for repeat in repeats:
        # The first cell of a repeat trains the start.
        start = 60_000 * settings["start_epochs"]
        for k in settings["sizes"]:
            seconds, start = _A_PASS * (k * settings["epochs"] + start), 0
            yield Cell(name=f"k{k}-run{repeat}", seconds=seconds, work=partial(_fine_tuned, settings, k, repeat))
    for repeat in repeats if settings["pate_epochs"] else ():
        seconds = _A_PASS * (60_000 * settings["pate_epochs"] + 500 * settings["pate_student_epochs"])
        yield Cell(name=f"pate-run{repeat}", seconds=seconds, work=partial(_pate, settings, repeat))


def several(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return the cells of figures 1 and 2: several models of one budget, with and without replacement."""
    for repeat in range(seed, seed + settings["repeats"]):
        # The first cell of a repeat trains the start.
        start = 60_000 * settings["start_epochs"]
        for draws in settings["draws"]:
            for n_models in settings["models"]:
                for scheme in settings["schemes"]:
                    seconds, start = _A_PASS * (draws * settings["epochs"] + start), 0
                    name = f"{scheme}-{draws}-in-{n_models}-run{repeat}"
                    work = partial(_split_up, settings, draws, n_models, scheme, repeat)
                    yield Cell(name=name, seconds=seconds, work=work)


def _images(settings: Settings) -> tuple[Callable[[], ImageDataset], Any]:
    """Return the loader of the private images, and their network."""
    return (load_cifar10, bagging_vgg16) if settings["data"] == "cifar-10" else (load_mnist, bagging_cnn)


def _network(settings: Settings, data: ImageDataset, **more: Any) -> TorchClassifier:
    common: dict[str, Any] = {"epochs": settings["epochs"], "batch_size": settings["batch_size"]}
    common |= {"optimizer": Adam(settings["rate"]), "precision": settings.get("precision", "float32")}
    network = _images(settings)[1]
    return TorchClassifier(network, input_shape=data.image_shape, classes=data.classes, **(common | more))


def _scored(model: Any, data: ImageDataset, first: int = 0) -> float:
    return 100 * float(model.score(data.scaled(data.X_test)[first:], data.y_test[first:]))


def model_of_draws(
    learner: Any, k: int, repeat: int, n_models: int = 1, scheme: str = WITH
) -> BaggingPrivacyClassifier:
    """Return the classifier of one run: `k` draws for `n_models` models."""
    return BaggingPrivacyClassifier(
        learner,
        classes=tuple(range(10)),
        n_teachers=n_models,
        subsample=k // n_models,
        scheme=scheme,
        random_state=repeat,
        insecure_release_seed=repeat,
    )


def _bagged(settings: Settings, k: int, repeat: int, place: Workplace) -> Figures:  # noqa: ARG001
    data = _images(settings)[0]()
    model = model_of_draws(_network(settings, data), k, repeat).fit(data.scaled(data.X_train), data.y_train)
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
    ).fit(X, data.y_train, X_public=X_test[:SAME_DISTRIBUTION])
    right = np.mean(model.predict(X_test[SAME_DISTRIBUTION:]) == data.y_test[SAME_DISTRIBUTION:])
    return {figure(MOMENTS, ACCURACY, BAGGING): 100 * float(right)}


@lru_cache(maxsize=16)
def _start(epochs: int, batch_size: int, repeat: int) -> TorchClassifier:
    """Return the network that was trained on the public images, the same for all cells of a repeat."""
    public = load_fashion_mnist()
    network = TorchClassifier(
        bagging_cnn,
        input_shape=public.image_shape,
        classes=public.classes,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=Adam(1e-3),
        random_state=repeat,
    )
    return network.fit(public.scaled(public.X_train), public.y_train)


def _tuned(settings: Settings, data: ImageDataset, repeat: int, **more: Any) -> TorchClassifier:
    start = _start(settings["start_epochs"], settings["batch_size"], repeat)
    return _network(settings, data, start=start, last_layer="new", **more)


def _fine_tuned(settings: Settings, k: int, repeat: int, place: Workplace) -> Figures:  # noqa: ARG001
    data = load_mnist()
    model = model_of_draws(_tuned(settings, data, repeat), k, repeat).fit(data.scaled(data.X_train), data.y_train)
    return {figure(row_of(k), ACCURACY, BAGGING): _scored(model, data, SAME_DISTRIBUTION)}


def _pate(settings: Settings, repeat: int, place: Workplace) -> Figures:
    """Label the first test images by 250 fine-tuned teachers, and train a student on each row's number of answers."""
    data = load_mnist()
    network = _tuned(settings, data, repeat, epochs=settings["pate_epochs"])
    X: NDArray[Any] = data.scaled(data.X_train)
    X_test: NDArray[Any] = data.scaled(data.X_test)[:SAME_DISTRIBUTION]
    n_teachers = settings["pate_teachers"]

    def taught() -> NDArray[np.unsignedinteger]:
        allocation = partitions(range(len(X)), n_teachers, 1, entropy=repeat)
        ensemble = TeacherEnsemble(
            network, allocation, np.array(data.classes), entropy=repeat, n_jobs=place.n_jobs
        ).fit(X, data.y_train, lambda _: None)
        return ensemble.vote(X_test).ballots

    trained = (settings["start_epochs"], settings["pate_epochs"], repeat, settings["batch_size"], n_teachers)
    votes = Votes(place.kept(("PATE from Fashion-MNIST", *trained), taught), len(data.classes))
    learner = _tuned(settings, data, repeat, epochs=settings["pate_student_epochs"])

    def score(rows: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
        return _scored(fit_student(learner, X_test[rows], labels, repeat), data, SAME_DISTRIBUTION)

    return pate_figures(votes, settings, repeat, score)


def pate_figures(
    votes: Votes, settings: Settings, repeat: int, score: Callable[[NDArray[np.int64], NDArray[np.int64]], float]
) -> Figures:
    """Return what students score that learn from each row's number of answers, and from what epsilon 1 allows.

    `score` takes the places of answered rows and their labels.
    """
    threshold, gate, sigma = settings["pate_law"]
    law = ConfidentNoisyMax(threshold=threshold, threshold_sigma=gate, sigma=sigma)
    order = np.random.default_rng(repeat).permutation(votes.n_queries)
    outcomes = sample(law, votes.counts[order], SeededNoise(repeat))
    answered = np.flatnonzero(outcomes < votes.n_classes)

    def score_of(answers: int) -> float:
        rows = answered[:answers]
        return score(order[rows], outcomes[rows])

    design = PATEClassifier(n_teachers=votes.n_teachers, law=law).design(n_classes=votes.n_classes)
    affordable = score_of(plan(design, epsilon=1.0, delta=1e-5).labels)
    figures = {}
    for k, answers in zip(settings["sizes"], settings["answers"], strict=True):
        figures[figure(row_of(k), ACCURACY, PATE)] = score_of(answers)
        figures[figure(row_of(k), ACCURACY, PATE, EXACT)] = affordable
    return figures


def _split_up(settings: Settings, draws: int, n_models: int, scheme: str, repeat: int, place: Workplace) -> Figures:  # noqa: ARG001
    data = load_mnist()
    model = model_of_draws(_tuned(settings, data, repeat), draws, repeat, n_models, scheme)
    model.fit(data.scaled(data.X_train), data.y_train)
    row = drawn_row(draws, scheme)
    return {figure(row, ACCURACY, f"N={n_models}"): _scored(model, data, SAME_DISTRIBUTION)}
