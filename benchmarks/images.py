"""Ten classes of images: label moments, DP-SGD, private models and soft votes, at one epsilon and delta.

Of the 60,000 training images 10,000 are public, without labels, and 50,000 are private; scores are on the published
10,000 test images. Which images are public is drawn at random for each split, from a seed. The published order of MNIST
would not do: the last 10,000 training images differ from the first 50,000 by more than chance, so that label moments
raise the alarm that public rows do not look like the private ones.

Label moments get the pixels and learn their image map from the public part; private models and soft votes of logistic
regressions get 50 principal directions of the public part; DP-SGD trains a network of one hidden layer on the pixels.
DP-SGD promises its epsilon for adding or removing an image, the others for replacing one, which is the stronger
promise: look at half the epsilon of DP-SGD, too. There are three splits and three draws of seeded noise for each. Each
line shows the mean and the standard deviation of the accuracy over all nine runs, how many of them raised the alarm
(label moments only), and processor seconds of one run.

Run ``python benchmarks/images.py`` (about an hour and a half a data set and epsilon on one core; needs ``make torch``
for DP-SGD). ``--methods``, ``--epsilons``, ``--splits`` and ``--draws`` run a part, and ``--images`` takes that many
training images only, a sixth of them public, to try the program out.
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
from dpensemble.datasets import ImageDataset
from dpensemble.moments import ImageMap

_PUBLIC, _DIRECTIONS = 1 / 6, 50
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
    def of(cls, data: ImageDataset, split: int, n_images: int | None) -> Images:
        """Divide the training images of a data set, or some of them, into private and public ones at random."""
        order = np.random.default_rng(split).permutation(len(data.X_train))[:n_images]
        private, public = np.split(order, [len(order) - round(_PUBLIC * len(order))])
        pixels = data.scaled(data.X_train)
        return cls(pixels[private], data.y_train[private], pixels[public], data.scaled(data.X_test), data.y_test)

    def directions(self) -> Images:
        """Return principal directions of the public part, over the usual length there."""
        pca = PCA(_DIRECTIONS, random_state=0).fit(self.public)
        usual = np.median(np.linalg.norm(pca.transform(self.public), axis=1))
        found = (np.asarray(pca.transform(rows) / usual, float) for rows in (self.private, self.public, self.test))
        private, public, test = found
        return Images(private, self.labels, public, test, self.truth)


def _moments(epsilon: float, draw: int) -> Any:
    return LabelMomentsClassifier(
        ImageMap((28, 28)), classes=list(range(10)), epsilon=epsilon, random_state=0, insecure_release_seed=draw
    )


def _dp_sgd(epsilon: float, draw: int) -> Any:
    from dpensemble.neural import SGD, DPSGDClassifier  # noqa: PLC0415  needs PyTorch

    return DPSGDClassifier(
        classes=list(range(10)),
        epsilon=epsilon,
        epochs=10,
        batch_size=1000,
        optimizer=SGD(0.5),
        random_state=0,
        insecure_release_seed=draw,
    )


def _models(epsilon: float, draw: int) -> Any:
    return PrivateMajorityClassifier(
        classes=list(range(10)), epsilon=epsilon, random_state=0, insecure_release_seed=draw
    )


def _averages(answers: str) -> Callable[[float, int], Any]:
    def make(epsilon: float, draw: int) -> Any:
        return SoftVotesClassifier(
            classes=list(range(10)), answers=answers, epsilon=epsilon, random_state=0, insecure_release_seed=draw
        )

    return make


METHODS: dict[str, tuple[Callable[[float, int], Any], bool]] = {
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
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--images", type=int)
    given = parser.parse_args()
    for name in given.data:
        data = _DATA[name]()
        splits = [Images.of(data, split, given.images) for split in range(given.splits)]
        few = [images.directions() for images in splits]
        for method in given.methods:
            make, by_directions = METHODS[method]
            for epsilon in given.epsilons:
                start, accuracies, alarms = process_time(), [], 0
                for rows in few if by_directions else splits:
                    for draw in range(given.draws):
                        model = make(epsilon, draw)
                        public = {} if method == "dp-sgd" else {"X_public": rows.public}
                        model.fit(rows.private, rows.labels, **public)
                        accuracies.append(np.mean(model.predict(rows.test) == rows.truth))
                        drift = None if method == "dp-sgd" else model.drift_
                        alarms += drift is not None and drift.alarm
                seconds = (process_time() - start) / len(accuracies)
                print(
                    f"{name:14s} {method:26s} epsilon {epsilon:g}  {np.mean(accuracies):.4f} +- "
                    f"{np.std(accuracies, ddof=len(accuracies) > 1):.4f}  {alarms} of {len(accuracies)} alarms  "
                    f"{seconds:6.0f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
