"""Ten classes of images: label moments, DP-SGD, private models and soft votes, at one epsilon and delta.

Of the 60,000 training images the last 10,000 are public, without labels, and 50,000 are private; scores are on the
published 10,000 test images. Label moments get the pixels and learn their image map from the public part; private
models and soft votes of logistic regressions get 50 principal directions of the public part; DP-SGD trains a network of
one hidden layer on the pixels. DP-SGD promises its epsilon for adding or removing an image, the others for replacing
one, which is the stronger promise: look at half the epsilon of DP-SGD, too. Noise is seeded, one run each.

Run ``python benchmarks/images.py`` (about ten minutes a data set and epsilon on one core; needs ``make torch`` for
DP-SGD); ``--methods`` and ``--epsilons`` run a part.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from dpensemble import (
    LabelMomentsClassifier,
    PrivateMajorityClassifier,
    SoftVotesClassifier,
    load_fashion_mnist,
    load_mnist,
)
from dpensemble.moments import ImageMap

_PRIVATE, _DIRECTIONS = 50_000, 50
_DATA = {"mnist": load_mnist, "fashion-mnist": load_fashion_mnist}


@dataclass
class Images:
    """Private, public and test images as rows of pixels from 0 to 1."""

    private: np.ndarray
    labels: np.ndarray
    public: np.ndarray
    test: np.ndarray
    truth: np.ndarray

    @classmethod
    def of(cls, name: str) -> Images:
        """Load a data set and divide it."""
        data = _DATA[name]()
        pixels = data.scaled(data.X_train)
        return cls(pixels[:_PRIVATE], data.y_train[:_PRIVATE], pixels[_PRIVATE:], data.scaled(data.X_test), data.y_test)

    def directions(self) -> Images:
        """Return principal directions of the public part, over the usual length there."""
        pca = PCA(_DIRECTIONS, random_state=0).fit(self.public)
        usual = np.median(np.linalg.norm(pca.transform(self.public), axis=1))
        found = (np.asarray(pca.transform(rows) / usual, float) for rows in (self.private, self.public, self.test))
        private, public, test = found
        return Images(private, self.labels, public, test, self.truth)


def _moments(epsilon: float) -> Any:
    return LabelMomentsClassifier(
        ImageMap((28, 28)), classes=list(range(10)), epsilon=epsilon, random_state=0, insecure_release_seed=0
    )


def _dp_sgd(epsilon: float) -> Any:
    from dpensemble.neural import SGD, DPSGDClassifier  # noqa: PLC0415  needs PyTorch

    return DPSGDClassifier(
        classes=list(range(10)),
        epsilon=epsilon,
        epochs=10,
        batch_size=1000,
        optimizer=SGD(0.5),
        random_state=0,
        insecure_release_seed=0,
    )


def _models(epsilon: float) -> Any:
    return PrivateMajorityClassifier(classes=list(range(10)), epsilon=epsilon, random_state=0, insecure_release_seed=0)


def _averages(answers: str) -> Callable[[float], Any]:
    def make(epsilon: float) -> Any:
        return SoftVotesClassifier(
            classes=list(range(10)), answers=answers, epsilon=epsilon, random_state=0, insecure_release_seed=0
        )

    return make


METHODS: dict[str, tuple[Callable[[float], Any], bool]] = {
    "label-moments": (_moments, False),
    "dp-sgd": (_dp_sgd, False),
    "private-majority": (_models, True),
    "soft-votes:probabilities": (_averages("probabilities"), True),
    "soft-votes:parameters": (_averages("parameters"), True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=list(_DATA), default=list(_DATA))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.0])
    given = parser.parse_args()
    for name in given.data:
        images = Images.of(name)
        few = images.directions()
        for method in given.methods:
            make, by_directions = METHODS[method]
            rows = few if by_directions else images
            for epsilon in given.epsilons:
                start, model = process_time(), make(epsilon)
                public = {} if method == "dp-sgd" else {"X_public": rows.public}
                model.fit(rows.private, rows.labels, **public)
                accuracy = float(np.mean(model.predict(rows.test) == rows.truth))
                seconds = process_time() - start
                print(f"{name:14s} {method:26s} epsilon {epsilon:g}  {accuracy:.4f}  {seconds:6.0f} s", flush=True)


if __name__ == "__main__":
    main()
