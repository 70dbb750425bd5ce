"""250 convolutional teachers of 240 images each, trained together and one at a time with the same settings.

Run ``python benchmarks/torch_teachers.py``, which needs the extra ``dpensemble[torch]``. Images are those of MNIST
if the environment variable ``DPENSEMBLE_DATA`` names a folder with it, otherwise synthetic ones of its shape.

The two ways are compared in one process on one thread, turn by turn: some teachers as one stack, then some of the
same teachers one at a time by the plain PyTorch loop of `TorchClassifier.fit`. Both are reported in microseconds an
image and epoch, of wall-clock and of processor time. The latter suffers less from other work on the machine. Then
all teachers are trained together by all workers (``--no-all`` leaves that out). One at a time is never run for
all: its total is marked as a projection.
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from dpensemble.datasets import load_mnist
from dpensemble.neural import ImageAugmentation, TorchClassifier, bagging_cnn, personalised_pate_cnn
from dpensemble.neural.blocks import StackedTeachers

N_CLASSES = 10
NETWORKS = {"bagging_cnn": bagging_cnn, "personalised_pate_cnn": personalised_pate_cnn}


def images(n_records: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """Return rows and class ids to learn from and to test on, and what they are."""
    rng = np.random.default_rng(0)
    if os.environ.get("DPENSEMBLE_DATA"):
        mnist = load_mnist()
        order = rng.permutation(len(mnist.X_train))[:n_records]
        X, X_test = mnist.scaled(mnist.X_train[order]), mnist.scaled(mnist.X_test)
        return X, mnist.y_train[order], X_test, mnist.y_test, "MNIST"
    patterns = rng.random((N_CLASSES, 784))
    y = rng.integers(N_CLASSES, size=n_records + 10_000)
    X = (0.5 * patterns[y] + 0.5 * rng.random((len(y), 784))).astype(np.float32)
    return X[:n_records], y[:n_records], X[n_records:], y[n_records:], "synthetic images"


def timed(work: Callable[[], Any]) -> tuple[np.ndarray, Any]:
    """Return seconds on the clock and of the processor, and what was done."""
    clock, processor = perf_counter(), process_time()
    done = work()
    return np.array([perf_counter() - clock, process_time() - processor]), done


def fit_together(estimator: Any, X: np.ndarray, y: np.ndarray, shards: np.ndarray, jobs: int) -> StackedTeachers:
    return estimator.fit_together(
        X,
        y,
        list(shards),
        classes=np.arange(N_CLASSES),
        constant_votes=np.full(len(shards), -1),
        seeds=range(len(shards)),
        n_jobs=jobs,
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, default="bagging_cnn")
    parser.add_argument("--teachers", type=int, default=250)
    parser.add_argument("--records", type=int, default=240, help="images a teacher")
    parser.add_argument("--stack", type=int, default=32, help="teachers trained together in a turn")
    parser.add_argument("--alone", type=int, default=8, help="teachers trained one at a time in a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--augment", action="store_true", help="rotate and shift images")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--no-all", action="store_true", help="compare samples only")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    torch.set_num_threads(1)
    X, y, X_test, y_test, words = images(chosen.teachers * chosen.records)
    shards = np.arange(len(X)).reshape(chosen.teachers, chosen.records)
    settings = {"epochs": chosen.epochs, "batch_size": chosen.batch_size}
    augmentation = ImageAugmentation() if chosen.augment else None
    network = NETWORKS[chosen.network]
    plain = TorchClassifier(
        network,
        input_shape=(1, 28, 28),
        augmentation=augmentation,
        device="cpu",
        classes=range(N_CLASSES),
        **settings,
    )
    stacked = clone(plain).set_params(precision=chosen.precision)
    print(f"{chosen.network}, {chosen.records} of {words} a teacher, {settings}, {chosen.precision}, one thread")

    def alone(t: int) -> TorchClassifier:
        return clone(plain).set_params(random_state=t).fit(X[shards[t]], y[shards[t]])

    # What is loaded on first use is not to be timed.
    fit_together(stacked, X, y, shards[:1], 1)
    alone(0)
    times = []
    for _ in range(chosen.turns):
        together_time, teachers = timed(lambda: fit_together(stacked, X, y, shards[: chosen.stack], 1))
        alone_time, singles = timed(lambda: [alone(t) for t in range(chosen.alone)])
        times.append([together_time / chosen.stack, alone_time / chosen.alone])
    each = np.array(times) / (chosen.records * chosen.epochs) * 1e6
    for number, unit in enumerate(("clock", "processor")):
        stack, single = each[:, 0, number], each[:, 1, number]
        ratios = single / stack
        print(f"  us an image and epoch, {unit}: together {np.median(stack):.0f}, alone {np.median(single):.0f}")
        print(f"    ratio {np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f} in {len(each)} turns)")
    scores = [[m.score(X_test, y_test) for m in models] for models in (teachers.models[: chosen.alone], singles)]
    together_score, alone_score = np.mean(scores, axis=1)
    print(f"  accuracy of the same {chosen.alone}: together {together_score:.4f}, alone {alone_score:.4f}")
    if not chosen.no_all:
        total, everyone = timed(lambda: fit_together(stacked, X, y, shards, chosen.jobs))
        projected = np.median(np.array(times)[:, 1, 0]) * chosen.teachers
        print(f"  all {chosen.teachers} together, {chosen.jobs} workers: {total[0]:.0f} s on the clock")
        print(f"  alone, one after another (projected from {chosen.alone}): {projected:.0f} s on the clock")
        asking, ballots = timed(lambda: everyone.vote(X_test[:1000]))
        print(f"  mean accuracy {np.mean(ballots == y_test[:1000, None]):.4f}")
        print(f"  1,000 votes of all in {asking[0]:.0f} s")
    # Kilobytes on Linux.
    print(f"  peak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB")


if __name__ == "__main__":
    main()
