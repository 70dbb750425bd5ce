"""250 convolutional teachers of 240 images each, trained together and one at a time with the same settings.

Run ``python benchmarks/torch_teachers.py``; needs the extra ``dpensemble[torch]``. Images are those of MNIST
where the environment variable ``DPENSEMBLE_DATA`` names a folder with it, else synthetic ones of its shape. One
at a time is a plain PyTorch loop, timed on a few teachers (``--alone 250`` for all): on one thread, in processes
of one thread each, and on all threads if ``--all-threads`` is given (PyTorch's default; on small networks
threads wait for each other, and on a busy machine they do little else). Ratios are to the fastest of these. Each
way of training one at a time has a turn before and a turn after the stack; the faster one counts.
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone

from dpensemble.datasets import load_mnist
from dpensemble.neural import ImageAugmentation, TorchClassifier, bagging_cnn, personalised_pate_cnn

N_CLASSES = 10
NETWORKS = {"bagging_cnn": bagging_cnn, "personalised_pate_cnn": personalised_pate_cnn}


def images(n_records: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """Return rows and class ids to learn from and to test on, and what they are."""
    if os.environ.get("DPENSEMBLE_DATA"):
        mnist = load_mnist()
        order = np.random.default_rng(0).permutation(len(mnist.X_train))[:n_records]
        scaled = mnist.scaled(mnist.X_train[order]), mnist.scaled(mnist.X_test)
        return scaled[0], np.asarray(mnist.y_train)[order], scaled[1], np.asarray(mnist.y_test), "MNIST"
    rng = np.random.default_rng(0)
    patterns = rng.random((N_CLASSES, 784))
    y = rng.integers(N_CLASSES, size=n_records + 10_000)
    X = (0.5 * patterns[y] + 0.5 * rng.random((len(y), 784))).astype(np.float32)
    return X[:n_records], y[:n_records], X[n_records:], y[n_records:], "synthetic images"


def fit_alone(estimator: Any, X: np.ndarray, y: np.ndarray, seed: int, threads: int) -> Any:
    torch.set_num_threads(threads)
    return clone(estimator).set_params(classes=range(N_CLASSES), random_state=seed).fit(X, y)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = perf_counter()
    done = work()
    return perf_counter() - start, done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, default="bagging_cnn")
    parser.add_argument("--teachers", type=int, default=250)
    parser.add_argument("--records", type=int, default=240, help="images a teacher")
    parser.add_argument("--alone", type=int, default=10, help="teachers that are also trained one at a time")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--augment", action="store_true", help="rotate and shift images")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--all-threads", action="store_true", help="train one at a time on all threads too")
    parser.add_argument("--turns", type=int, default=2, help="repetitions of training one at a time")
    options = parser.parse_args()
    X, y, X_test, y_test, words = images(options.teachers * options.records)
    shards = np.arange(len(X)).reshape(options.teachers, options.records)
    settings = {"epochs": options.epochs, "batch_size": options.batch_size, "device": "cpu"}
    augmentation = ImageAugmentation() if options.augment else None
    plain = TorchClassifier(
        NETWORKS[options.network], input_shape=(1, 28, 28), augmentation=augmentation, **settings
    )
    stacked = clone(plain).set_params(precision=options.precision)
    cores, sample = options.jobs, range(options.alone)
    print(f"{options.teachers} x {options.network} on {options.records} images each ({words}), {settings}")

    def alone(threads: int, processes: int) -> Any:
        jobs = (delayed(fit_alone)(plain, X[shards[t]], y[shards[t]], t, threads) for t in sample)
        return Parallel(n_jobs=processes)(jobs)

    def together() -> Any:
        return stacked.fit_together(
            X,
            y,
            list(shards),
            classes=np.arange(N_CLASSES),
            constant_votes=np.full(options.teachers, -1),
            seeds=range(options.teachers),
            n_jobs=cores,
        )

    ways = {"one thread": lambda: alone(1, 1), "processes of one thread": lambda: alone(1, cores)}
    if options.all_threads:
        ways["all threads"] = lambda: alone(cores, 1)
    # Workers have imported everything before the clock runs.
    Parallel(n_jobs=cores)(delayed(fit_alone)(plain, X[:16], y[:16], 0, 1) for _ in range(2 * cores))
    runs: dict[str, list[float]] = {name: [] for name in ways}
    models = []
    for turn in range(options.turns):
        for name, way in ways.items():
            seconds, models = timed(way)
            runs[name].append(seconds * options.teachers / options.alone)
        if turn == 0:
            seconds, teachers = timed(together)
    for name, found in runs.items():
        note = "" if options.alone == options.teachers else f" (from {options.alone} teachers)"
        print(f"  one at a time, {name:24s} {min(found):8.0f} s{note}; turns {np.round(found)}")
    fastest = min(min(found) for found in runs.values())
    print(f"  together, {options.precision}, {cores} workers       {seconds:8.0f} s")
    ratios = ", ".join(f"{min(found) / seconds:.1f} to {name}" for name, found in runs.items())
    print(f"  ratio {fastest / seconds:.1f} ({ratios})")
    asking, ballots = timed(lambda: teachers.vote(X_test))
    own = [np.mean(ballots[:, t] == y_test) for t in sample]
    single = [model.score(X_test, y_test) for model in models]
    get_reusable_executor().shutdown()
    plurality = np.apply_along_axis(lambda row: np.bincount(row, minlength=N_CLASSES).argmax(), 1, ballots)
    print(f"  accuracy of the same {options.alone}: together {np.mean(own):.4f}, alone {np.mean(single):.4f}")
    print(f"  all: mean {np.mean(ballots == y_test[:, None]):.4f}, plurality {np.mean(plurality == y_test):.4f}")
    # Kilobytes on Linux.
    here, worker = (
        resource.getrusage(w).ru_maxrss / 2**20 for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(f"  {len(X_test)} votes of all in {asking:.0f} s; at most {here:.1f} GB here, {worker:.1f} GB a worker")


if __name__ == "__main__":
    main()
