"""Table 2 of H. Liu, J. Jia and N. Gong, "On the Intrinsic Differential Privacy of Bagging" (2021), on MNIST.

One model of k draws with replacement from 60,000 images, no noise, 100 epochs of the network of table 6
(`bagging_cnn`). For each k it prints the published accuracy and ours, the mean of a few independent draws, then
the published epsilon and delta, ours of the same kind, and our guarantee's.

Run ``DPENSEMBLE_DATA=... python reproductions/intrinsic_bagging_table2.py``; needs ``dpensemble[torch]``. About
six minutes a draw of all sizes; ``--quick`` takes the three smallest sizes.

What the paper leaves open is set to what is usual: Adam at PyTorch's default rate of 0.001, batches of at most
32, pixels from 0 to 1. Draws are seeded, so that the table can be repeated; a seeded release protects nobody.
"""

from __future__ import annotations

import argparse
import sys
from time import perf_counter

import numpy as np
import torch

from dpensemble.datasets import load_mnist
from dpensemble.methods import BaggingPrivacyClassifier
from dpensemble.neural import Adam, TorchClassifier, bagging_cnn

# Draws: accuracy in %, epsilon, delta.
PUBLISHED = {
    300: (90.66, 0.005, 0.005),
    500: (93.81, 0.0083, 0.0083),
    1000: (94.60, 0.017, 0.017),
    5000: (97.68, 0.083, 0.08),
    10_000: (98.28, 0.167, 0.154),
}


def main() -> None:
    """Read the command line, draw, train, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="independent draws of each size")
    parser.add_argument("--quick", action="store_true", help="300, 500 and 1,000 draws only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    mnist = load_mnist()
    X, X_test = mnist.scaled(mnist.X_train), mnist.scaled(mnist.X_test)
    network = TorchClassifier(
        bagging_cnn,
        input_shape=mnist.image_shape,
        classes=mnist.classes,
        epochs=100,
        batch_size=32,
        optimizer=Adam(1e-3),
    )
    print(f"{'k':>6}{'paper':>8}{'ours':>8}{'spread':>8}{'difference':>12}   epsilon, delta: paper, ours, guarantee")
    for k in list(PUBLISHED)[: 3 if options.quick else None]:
        scores = []
        for run in range(options.runs):
            start = perf_counter()
            model = BaggingPrivacyClassifier(
                network,
                classes=mnist.classes,
                n_teachers=1,
                subsample=k,
                scheme="with-replacement",
                random_state=run,
                insecure_release_seed=run,
            ).fit(X, mnist.y_train)
            scores.append(100 * model.score(X_test, mnist.y_test))
            seconds = perf_counter() - start
            print(f"  {k} draws, run {run}: {scores[-1]:.2f} % in {seconds:.0f} s", file=sys.stderr, flush=True)
        accuracy, epsilon, delta = PUBLISHED[k]
        ours = model.published_
        mean = np.mean(scores)
        print(
            f"{k:>6}{accuracy:>8.2f}{mean:>8.2f}{np.ptp(scores):>8.2f}{mean - accuracy:>+12.2f}"
            f"   {epsilon}, {delta};  {ours[0]:.4f}, {ours[1]:.4f};  "
            f"{model.guarantee_.epsilon:g}, {model.guarantee_.delta:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
