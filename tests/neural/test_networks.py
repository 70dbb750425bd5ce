import numpy as np
import pytest

from dpensemble.errors import InvalidParameterError
from dpensemble.neural import ImageAugmentation, bagging_cnn, digit_cnn, hidden_layer_network, personalised_pate_cnn
from dpensemble.neural.networks import bagging_vgg16

torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")


def shapes(module, input_shape):
    x, seen = torch.zeros(2, *input_shape), []
    for layer in module:
        x = layer(x)
        seen.append((type(layer).__name__, tuple(x.shape[1:])))
    return seen


def test_the_bagging_network_has_the_shapes_of_table_6():
    seen = [shape for name, shape in shapes(bagging_cnn((1, 28, 28), 10), (1, 28, 28)) if name != "ReLU"]
    assert seen == [(16, 14, 14), (16, 13, 13), (32, 5, 5), (32, 4, 4), (512,), (32,), (10,)]


def test_the_personalised_network_has_the_layers_of_table_1():
    module = personalised_pate_cnn((1, 28, 28), 10)
    names = [name for name, _ in shapes(module, (1, 28, 28))]
    expected = [
        "Conv2d",
        "ReLU",
        "BatchNorm2d",
        "MaxPool2d",
        "Flatten",
        "Linear",
        "ReLU",
        "BatchNorm1d",
        "Linear",
    ]
    assert names == expected
    assert module[5].out_features == 100
    assert module[0].kernel_size == (3, 3)
    he, glorot = (module[i].weight.detach().abs().max().item() for i in (5, 8))
    assert he == pytest.approx(np.sqrt(6 / module[5].in_features), rel=0.01)
    assert glorot == pytest.approx(np.sqrt(6 / 110), rel=0.05)
    assert not module[5].bias.any()


@pytest.mark.parametrize(
    ("network", "shape"), [(hidden_layer_network, (5,)), (digit_cnn, (1, 8, 8)), (digit_cnn, (3, 9, 7))]
)
def test_small_networks_take_their_rows(network, shape):
    assert network(shape, 3)(torch.zeros(4, *shape)).shape == (4, 3)


@pytest.mark.parametrize("network", [bagging_cnn, bagging_vgg16, personalised_pate_cnn, digit_cnn])
@pytest.mark.parametrize("shape", [(64,), (1, 3, 3), (8, 8)])
def test_images_that_do_not_suit_are_named(network, shape):
    with pytest.raises(InvalidParameterError, match=rf"input_shape=.* does not suit {network.__name__}"):
        network(shape, 10)


def test_vgg16_has_its_layers():
    module = bagging_vgg16((3, 32, 32), 10)
    weights = [layer for layer in module if hasattr(layer, "weight")]
    assert len(weights) == 16
    assert [layer.out_channels for layer in weights[:13]] == [64] * 2 + [128] * 2 + [256] * 3 + [512] * 6
    assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_eight_by_eight_digits_are_too_small_for_the_bagging_network():
    with pytest.raises(InvalidParameterError, match="28 x 28"):
        bagging_cnn((1, 8, 8), 10)


def test_images_move_as_drawn():
    from dpensemble.neural.training import _moved

    image = torch.zeros(1, 1, 9, 9)
    image[0, 0, 4, 4] = 1.0
    still = _moved(image, np.zeros((1, 3), dtype=np.float32))
    assert torch.allclose(still, image, atol=1e-6)
    # Two columns of nine, so the bright spot comes from two columns further left.
    shifted = _moved(image, np.array([[0.0, 2 / 9, 0.0]], dtype=np.float32))
    assert shifted[0, 0, 4, 2] == pytest.approx(1.0, abs=1e-5)
    corner = torch.zeros(1, 1, 5, 9)
    corner[0, 0, 2, 8] = 1.0
    turned = _moved(corner, np.array([[np.pi / 2, 0.0, 0.0]], dtype=np.float32))
    assert turned.sum() == pytest.approx(0.0, abs=1e-5)  # four to the right would be four up or down, outside


def test_augmentation_checks_its_settings():
    with pytest.raises(InvalidParameterError, match="rotation=181"):
        ImageAugmentation(rotation=181)
    with pytest.raises(InvalidParameterError, match="shift=2"):
        ImageAugmentation(shift=2)
    draws = ImageAugmentation(rotation=10, shift=0.1).draw(1000, np.random.default_rng(0))
    assert np.abs(draws).max(axis=0) == pytest.approx([np.deg2rad(10), 0.1, 0.1], rel=0.02)
