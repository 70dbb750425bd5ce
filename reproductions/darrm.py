"""Figures and tables of "Optimized Tradeoffs for Private Prediction with Majority Ensembling" (DaRRM)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import SeededNoise
from dpensemble.darrm import AlikeTeachers, GammaSolution, IndependentTeachers, expected_error, optimise_gamma
from dpensemble.datasets import load_fashion_mnist, load_mnist
from dpensemble.design import plan
from dpensemble.design.private_answers import general_composition
from dpensemble.laws import GaussianNoisyMax, RandomizedResponseMajority, ReleaseLaw, sample
from dpensemble.methods import PATEClassifier
from dpensemble.neural import SGD, DPSGDClassifier, TorchClassifier, bagging_cnn
from dpensemble.votes import Votes
from reproductions.declared import Cell, Figures, Settings, figure
from reproductions.store import Workplace

ERROR, DISTANCE, TELLING = "Expected error", "Largest distance of gamma to Sub's", "Gamma, optimised"
OPTIMISED, SUB, DSUB, CONSTANT = "optimised", "Sub", "DSub", "constant"
ACCURACY, GNMAX = "Accuracy of labels", "GNMax"
LAWS = (GNMAX, SUB, OPTIMISED)
_LOADERS = {"mnist": load_mnist, "fashion-mnist": load_fashion_mnist}
_CLASSES = (5, 8)
_FEW = 15


def row_of(m: int) -> str:
    """Return how a row of an allowance is called."""
    return f"m={m}"


def simulated(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return one cell for each allowance. Nothing is drawn, so the seed is not used."""
    for m in settings["allowances"]:
        yield Cell(name=f"m{m}", seconds=0.3, work=partial(_simulated, settings, m))
    del seed


def _allowance(settings: Settings, m: int) -> tuple[float, float]:
    """Return the privacy of an answer: that of m of the teachers, by simple or by general composition."""
    return general_composition(settings["epsilon"], settings["Delta"], m, settings["slack"])


def solved(settings: Settings, m: int, constraints: str = "monotone", prior: Any = None) -> GammaSolution:
    """Return the optimised gamma at the privacy of m teachers."""
    epsilon, delta = _allowance(settings, m)
    return optimise_gamma(
        settings["teachers"],
        epsilon=settings["epsilon"],
        m=epsilon / settings["epsilon"],
        Delta=settings["Delta"],
        delta=delta,
        prior=IndependentTeachers(settings["prior"]) if prior is None else prior,
        constraints=constraints,
    )


def _baselines(settings: Settings, m: int) -> dict[str, RandomizedResponseMajority]:
    k, epsilon = settings["teachers"], settings["epsilon"]
    answer = _allowance(settings, m)
    whole = general_composition(epsilon, settings["Delta"], k, settings["slack"])
    laws = {
        SUB: RandomizedResponseMajority.subsampling(k, m),
        CONSTANT: RandomizedResponseMajority.constant(
            k, ballots_epsilon=whole[0], ballots_delta=whole[1], epsilon=answer[0], delta=answer[1]
        ),
    }
    if settings["Delta"] == 0 and settings["slack"] == 0:
        laws[DSUB] = RandomizedResponseMajority.double_subsampling(k, m)
    return laws


def _simulated(settings: Settings, m: int, place: Workplace) -> Figures:  # noqa: ARG001
    """Solve for gamma. The paper's own program competes among all gammas, ours among monotone ones."""
    row, prior, baselines = row_of(m), IndependentTeachers(settings["prior"]), _baselines(settings, m)
    ours = solved(settings, m)
    every = solved(settings, m, "all") if settings["teachers"] <= _FEW else ours
    figures: Figures = {
        figure(row, ERROR, OPTIMISED): expected_error(every.law, prior),
        figure(row, ERROR, OPTIMISED, "monotone"): expected_error(ours.law, prior),
        figure(row, DISTANCE, OPTIMISED): float(np.abs(np.subtract(every.gamma, baselines[SUB].gamma)).max()),
    }
    for name, law in baselines.items():
        figures[figure(row, ERROR, name)] = expected_error(law, prior)
    for votes, gamma in list(enumerate(every.gamma))[settings["teachers"] // 2 + 1 :]:
        figures[figure(row, TELLING, f"{votes} votes")] = gamma
    epsilon, delta = _allowance(settings, m)
    whole = general_composition(settings["epsilon"], settings["Delta"], settings["teachers"], settings["slack"])
    for panel, value in (
        ("Privacy allowance", epsilon / settings["epsilon"]),
        ("Parameter of constant, epsilon", whole[0] / settings["epsilon"]),
        ("Parameter of constant, delta", whole[1]),
        ("Overall privacy loss", epsilon),
        ("Overall failure probability", delta),
    ):
        figures[figure(row, panel, "value")] = value
    return figures


def believed(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return the cell of other priors."""
    yield Cell(name="priors", seconds=0.7, work=partial(_believed, settings))
    del seed


def _believed(settings: Settings, place: Workplace) -> Figures:  # noqa: ARG001
    """Optimise for two priors, and judge by three kinds of teachers."""
    m = settings["m"]
    # Uniform on [0, 0.3] and [0.7, 1]: on the likelier side, independent with mean 0.85.
    laws: dict[str, RandomizedResponseMajority] = {
        "optimised, uniform": solved(settings, m, "all").law,
        "optimised, clear majority": solved(settings, m, "all", IndependentTeachers(0.85)).law,
        **{name: law for name, law in _baselines(settings, m).items() if name in (SUB, CONSTANT)},
    }
    actual = {
        "uniform": IndependentTeachers(0.75),
        "no majority": AlikeTeachers(probabilities=(0.51,), weights=(1.0,)),
        "clear majority": IndependentTeachers(0.95),
    }
    return {
        figure(name, ERROR, kind): expected_error(law, prior)
        for name, law in laws.items()
        for kind, prior in actual.items()
    }


def images(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return one cell for each data set and repeat. Teachers are trained again in each."""
    for name in settings["data"]:
        for repeat in range(seed, seed + settings["repeats"]):
            yield Cell(name=f"{name}-run{repeat}", seconds=80, work=partial(_images, settings, name, repeat))


def _images(settings: Settings, name: str, repeat: int, place: Workplace) -> Figures:  # noqa: ARG001
    """Label public images by private teachers and by ordinary ones, at the same privacy of an answer."""
    data = _LOADERS[name](classes=_CLASSES)
    X, X_test = data.scaled(data.X_train), data.scaled(data.X_test)
    y, truth = (data.y_train == _CLASSES[1]).astype(int), (data.y_test == _CLASSES[1]).astype(int)
    rng = np.random.default_rng(repeat)
    order, k = rng.permutation(len(X)), settings["teachers"]
    queries = rng.permutation(len(X_test))[: max(settings["queries"])]
    epsilon, Delta = settings["teacher_epsilon"][name], settings["Delta"]
    private, plain = [], []
    for teacher in range(k):
        shard, seed = order[teacher::k], 1000 * repeat + teacher
        model = DPSGDClassifier(
            bagging_cnn,
            input_shape=data.image_shape,
            classes=(0, 1),
            epsilon=epsilon,
            delta=Delta,
            accountant="rdp",
            epochs=settings["epochs"],
            batch_size=settings["batch_size"],
            optimizer=SGD(settings["rate"]),
            random_state=seed,
            insecure_release_seed=seed,
        ).fit(X[shard], y[shard])
        private.append(model.predict(X_test[queries]))
        ordinary = TorchClassifier(
            bagging_cnn,
            input_shape=data.image_shape,
            classes=(0, 1),
            epochs=settings["epochs"],
            batch_size=settings["ordinary_batch_size"],
            random_state=seed,
        ).fit(X[shard], y[shard])
        plain.append(ordinary.predict(X_test[queries]))
    counts = [Votes(np.stack(ballots, axis=1), 2).counts for ballots in (private, plain)]
    figures: Figures = {}
    for m in settings["allowances"]:
        _label(figures, settings, name, m, (epsilon, Delta), counts, truth[queries], repeat)
    return figures


def _label(
    found: Figures,
    settings: Settings,
    name: str,
    m: int,
    teacher: tuple[float, float],
    counts: list[NDArray[np.int64]],
    truth: NDArray[np.int64],
    repeat: int,
) -> None:
    """Note how many labels are right, by each law at the privacy of m teachers."""
    of_private, of_plain = counts
    one = {"teachers": settings["teachers"], "epsilon": teacher[0], "Delta": teacher[1], "slack": 0.0, "prior": 0.75}
    epsilon, delta = _allowance(one, m)
    laws: dict[tuple[str, str], tuple[ReleaseLaw, NDArray[np.int64]]] = {
        (GNMAX, ""): (GaussianNoisyMax(published_sigma(epsilon, delta)), of_plain),
        (GNMAX, "exact"): (_cheapest("gnmax", settings["teachers"], epsilon, delta), of_plain),
        (GNMAX, "optimal"): (_cheapest("optimal", settings["teachers"], epsilon, delta), of_plain),
        (SUB, ""): (RandomizedResponseMajority.subsampling(settings["teachers"], m), of_private),
        (OPTIMISED, ""): (solved(one, m).law, of_private),
    }
    for (law_name, beside), (law, votes) in laws.items():
        labels = sample(law, votes, SeededNoise(1000 * repeat + m))
        for queries in settings["queries"]:
            right = float(np.mean(labels[:queries] == truth[:queries]))
            found[figure(f"{name}, m={m}, {queries} queries", ACCURACY, law_name, beside)] = right


def published_sigma(epsilon: float, delta: float) -> float:
    """Return the least noise of GNMax at which its Renyi bound gives the privacy of one answer (appendix D.2.1)."""
    orders = np.arange(1 + np.log(1 / delta) / epsilon, 500, 0.5)[1:]
    return float(np.sqrt(orders / (epsilon - np.log(1 / delta) / (orders - 1))).min())


def _cheapest(law: str, n_teachers: int, epsilon: float, delta: float) -> ReleaseLaw:
    """Return the law with the least noise whose one answer keeps within the budget, priced exactly."""
    design = PATEClassifier(n_teachers=n_teachers, law=law).design(n_classes=2)
    return plan(design, epsilon=epsilon, labels=1, delta=delta).design.law
