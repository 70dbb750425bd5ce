"""PyTorch networks as classifiers, many of which train at once as teachers. PyTorch is an optional extra."""

from dpensemble.neural.blocks import stacking_obstacle
from dpensemble.neural.classifier import TorchClassifier
from dpensemble.neural.dp_sgd import DPSGDClassifier
from dpensemble.neural.networks import (
    bagging_cnn,
    digit_cnn,
    hidden_layer_network,
    linear_network,
    personalised_pate_cnn,
)
from dpensemble.neural.training import SGD, Adam, ImageAugmentation

__all__ = [
    "SGD",
    "Adam",
    "DPSGDClassifier",
    "ImageAugmentation",
    "TorchClassifier",
    "bagging_cnn",
    "digit_cnn",
    "hidden_layer_network",
    "linear_network",
    "personalised_pate_cnn",
    "stacking_obstacle",
]
