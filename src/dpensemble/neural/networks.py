"""Networks of the papers and smaller ones, as factories of (input_shape, n_classes)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dpensemble.errors import InvalidParameterError
from dpensemble.neural._torch import Module, require_torch

_HIDDEN = 64
# Convolutions and kernels of each stage of VGG16.
_VGG16_STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
_VGG16_HIDDEN = 512


def hidden_layer_network(input_shape: Sequence[int], n_classes: int) -> Module:
    """Return a network with one hidden layer of 64 rectified units, for rows of any shape.

    Parameters
    ----------
    input_shape : sequence of int
        Shape of one row.
    n_classes : int
        Number of outputs.

    Returns
    -------
    torch.nn.Module
        Takes rows of shape (n_rows, *input_shape).

    Examples
    --------
    >>> from dpensemble.neural import TorchClassifier
    >>> TorchClassifier(module=hidden_layer_network).epochs
    30
    """
    nn = require_torch().nn
    hidden = nn.Linear(prod(input_shape), _HIDDEN)
    return nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), nn.Linear(_HIDDEN, n_classes))


def linear_network(input_shape: Sequence[int], n_classes: int) -> Module:
    """Return logistic regression as a network that starts from zero, which suits DP-SGD with much noise.

    Parameters
    ----------
    input_shape : sequence of int
        Shape of one row.
    n_classes : int
        Number of outputs.

    Returns
    -------
    torch.nn.Module
        Takes rows of shape (n_rows, *input_shape).

    Examples
    --------
    >>> from dpensemble.neural import DPSGDClassifier
    >>> model = DPSGDClassifier(linear_network, classes=[0, 1], epsilon=1.0)
    """
    nn = require_torch().nn
    layer = nn.Linear(prod(input_shape), n_classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)


def digit_cnn(input_shape: Sequence[int], n_classes: int) -> Module:
    """Return a small convolutional network for small images, such as the 8 x 8 digits of scikit-learn.

    Parameters
    ----------
    input_shape : sequence of int
        (channels, height, width), height and width at least 4.
    n_classes : int
        Number of outputs.

    Returns
    -------
    torch.nn.Module
        16 kernels of 3 x 3, halved by pooling, and a hidden layer of 32.

    Raises
    ------
    InvalidParameterError
        If the rows are not such images.

    Examples
    --------
    >>> from dpensemble.neural import TorchClassifier
    >>> digits = TorchClassifier(module=digit_cnn, input_shape=(1, 8, 8))
    """
    channels, height, width = _image_shape("digit_cnn", input_shape, smallest=4)
    nn = require_torch().nn
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * (height // 2) * (width // 2), 32),
        nn.ReLU(),
        nn.Linear(32, n_classes),
    )


def bagging_cnn(input_shape: Sequence[int], n_classes: int) -> Module:
    """Return the network of Liu et al. for MNIST: two convolutions, each pooled, and two linear layers.

    Parameters
    ----------
    input_shape : sequence of int
        (channels, 28, 28).
    n_classes : int
        Number of outputs.

    Returns
    -------
    torch.nn.Module
        For 1 channel and 10 classes, the shapes of table 6: 14 x 14 x 16, 13 x 13 x 16, 5 x 5 x 32, 4 x 4 x 32, 32, 10.

    Raises
    ------
    InvalidParameterError
        If the rows are not images of 28 x 28.

    References
    ----------
    Liu, Jia and Gong, "On the Intrinsic Differential Privacy of Bagging", IJCAI 2021, table 6 of the
    supplement. Kernel sizes and strides, which it leaves out, are those of common tutorials with the same shapes.

    Examples
    --------
    >>> from dpensemble.neural import TorchClassifier
    >>> mnist = TorchClassifier(module=bagging_cnn, input_shape=(1, 28, 28))
    """
    channels = _image_shape("bagging_cnn", input_shape, exactly=28)[0]
    nn = require_torch().nn
    return nn.Sequential(
        nn.Conv2d(channels, 16, 8, stride=2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, n_classes),
    )


def bagging_vgg16(input_shape: Sequence[int], n_classes: int) -> Module:
    """Return VGG16 for small colour images: thirteen convolutions in five pooled stages, and three linear layers.

    Weights start He-normal, biases at zero. Hidden linear layers have 512 units instead of 4,096, as small images
    leave 512 features. K. Simonyan and A. Zisserman, "Very deep convolutional networks for large-scale image
    recognition", ICLR 2015, table 1, column D; used by Liu, Jia and Gong, 2021, for CIFAR-10.
    """
    channels, height, width = _image_shape("bagging_vgg16", input_shape, smallest=32)
    nn = require_torch().nn
    layers: list[Module] = []
    for n_layers, kernels in _VGG16_STAGES:
        for _ in range(n_layers):
            layers += [nn.Conv2d(channels, kernels, 3, padding=1), nn.ReLU()]
            channels = kernels
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    n_features = channels * (height // 32) * (width // 32)
    for _ in range(2):
        layers += [nn.Linear(n_features, _VGG16_HIDDEN), nn.ReLU()]
        n_features = _VGG16_HIDDEN
    module = nn.Sequential(*layers, nn.Linear(n_features, n_classes))
    for layer in module:
        if hasattr(layer, "weight"):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return module


def personalised_pate_cnn(input_shape: Sequence[int], n_classes: int) -> Module:
    """Return the network of Mühl and Boenisch for MNIST: one convolution, two linear layers, batch normalisation.

    Parameters
    ----------
    input_shape : sequence of int
        (channels, height, width), height and width at least 4. (1, 28, 28) in the paper.
    n_classes : int
        Number of outputs.

    Returns
    -------
    torch.nn.Module
        Output weights start Glorot-uniform, others He-uniform, biases at zero.

    Raises
    ------
    InvalidParameterError
        If the rows are not such images.

    Notes
    -----
    As in TensorFlow, normalisation adds 0.001 to variances. Its averages for prediction forget faster than in
    TensorFlow (0.9 instead of 0.99 a step), since teachers of 240 records take few steps.

    References
    ----------
    Mühl and Boenisch, "Personalized PATE", 2022, table 1.

    Examples
    --------
    >>> from dpensemble.neural import TorchClassifier
    >>> mnist = TorchClassifier(module=personalised_pate_cnn, input_shape=(1, 28, 28))
    """
    channels, height, width = _image_shape("personalised_pate_cnn", input_shape, smallest=4)
    nn = require_torch().nn
    output = nn.Linear(100, n_classes)
    module = nn.Sequential(
        nn.Conv2d(channels, 32, 3),
        nn.ReLU(),
        nn.BatchNorm2d(32, eps=1e-3),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * ((height - 2) // 2) * ((width - 2) // 2), 100),
        nn.ReLU(),
        nn.BatchNorm1d(100, eps=1e-3),
        output,
    )
    for layer in (module[0], module[5], output):
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)
    nn.init.xavier_uniform_(output.weight)
    return module


def _image_shape(
    network: str, shape: Sequence[int], *, smallest: int = 1, exactly: int | None = None
) -> tuple[int, int, int]:
    """Return channels, height and width, or raise an error that names the images the network takes."""
    allowed_size = f"{exactly} x {exactly}" if exactly else f"at least {smallest} x {smallest}"
    fits = len(shape) == 3 and all(size == exactly if exactly else size >= smallest for size in tuple(shape)[1:])
    if not fits:
        raise InvalidParameterError(
            f"input_shape={tuple(shape)} does not suit {network}: give (channels, height, width) of {allowed_size}."
        )
    channels, height, width = shape
    return channels, height, width
