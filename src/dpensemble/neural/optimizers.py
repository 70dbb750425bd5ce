"""Optimizers, which update a network's parameters by their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from dpensemble._checks import real_between
from dpensemble.neural._torch import Tensor, require_torch


class Optimizer(BaseEstimator):
    """Settings of one of PyTorch's optimizers, named like the subclass."""

    learning_rate: float
    weight_decay: float

    def checked(self) -> dict[str, float]:
        """Return the settings by PyTorch's names, or raise InvalidParameterError if one is out of range."""
        return {
            "lr": real_between("learning_rate", self.learning_rate, 1e-12, 1e6),
            "weight_decay": real_between("weight_decay", self.weight_decay, 0.0, 1e6),
        }

    def of(self, parameters: list[Tensor]) -> Any:
        """Return PyTorch's optimizer of these parameters, in its fused form."""
        return getattr(require_torch().optim, type(self).__name__)(parameters, **self.checked(), fused=True)


@dataclass(repr=False)
class Adam(Optimizer):
    """Adam, as in PyTorch.

    Parameters
    ----------
    learning_rate : float
        Above 0.
    weight_decay : float
        L2 penalty, from 0.

    Examples
    --------
    >>> from dpensemble.neural import TorchClassifier
    >>> TorchClassifier(optimizer=Adam(0.01)).set_params(optimizer__weight_decay=0.1).optimizer
    Adam(learning_rate=0.01, weight_decay=0.1)
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.0


@dataclass(repr=False)
class SGD(Optimizer):
    """Stochastic gradient descent, as in PyTorch.

    Parameters
    ----------
    learning_rate : float
        Above 0.
    momentum : float
        0 to 1.
    weight_decay : float
        L2 penalty, from 0.

    Examples
    --------
    >>> SGD(0.1, momentum=0.9)
    SGD(learning_rate=0.1, momentum=0.9)
    """

    learning_rate: float = 1e-3
    momentum: float = 0.0
    weight_decay: float = 0.0

    def checked(self) -> dict[str, float]:
        """Return the settings by PyTorch's names, or raise InvalidParameterError if one is out of range."""
        return super().checked() | {"momentum": real_between("momentum", self.momentum, 0.0, 1.0)}
