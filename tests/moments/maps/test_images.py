"""Features of images."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dpensemble import LabelMomentsClassifier
from dpensemble.errors import DataError
from dpensemble.moments import ImageMap


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    # They come by writer, and other writers would be other images.
    order = np.random.default_rng(0).permutation(len(images))
    return images[order], labels[order]


@pytest.mark.parametrize("shape", [(8, 8), (16, 4, 1), (4, 4, 4)])
def test_rows_are_at_most_one_long(digits, shape):
    images = digits[0][:200]
    features = ImageMap(shape, n_components=20).fit(images).transform(images)
    assert features.shape == (200, 21)
    assert np.linalg.norm(features.astype(float), axis=1).max() <= 1


def test_brightness_of_all_images_together_does_not_matter(digits):
    images = digits[0][:200]
    one, other = (ImageMap((8, 8), n_components=10).fit(k * images).transform(k * images) for k in (1.0, 100.0))
    assert np.allclose(one, other, atol=1e-3)


def test_what_is_no_image_is_refused(digits):
    images = digits[0][:50]
    with pytest.raises(DataError, match="are not images of shape"):
        ImageMap((7, 8)).fit(images)
    with pytest.raises(DataError, match="not entries of type"):
        ImageMap((8, 8)).fit(images.astype(str))
    with pytest.raises(DataError, match="missing or infinite"):
        ImageMap((8, 8)).fit(np.where(images > 15, np.nan, images))


@pytest.mark.parametrize("units", [False, True])
def test_digits_are_told_apart(digits, units):
    images, labels = digits
    owners = np.arange(1000) if units else None
    model = LabelMomentsClassifier(
        ImageMap((8, 8), n_components=60), classes=range(10), epsilon=8.0, delta=1e-4, insecure_release_seed=0
    )
    public_owners = np.arange(300) if units else None
    model.fit(images[:1000], labels[:1000], X_public=images[1000:1300], units=owners, public_units=public_owners)
    assert model.score(images[1300:], labels[1300:]) > 0.8
    assert model.guarantee_.epsilon <= 8
