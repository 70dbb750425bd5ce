"""Whole numbers, orders and subsets drawn exactly uniformly from secret bits.

Nothing here takes a seed: where the draw is what protects the records, its
bits come from the same source as the noise of a release.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import NOISE_BITS, NoiseSource


def integers_below(bound: int, size: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw `size` independent integers, each exactly uniform on ``0 .. bound - 1``."""
    # From the largest multiple of the bound on they are drawn again, so that all remainders are equally likely.
    limit = np.uint64(2**NOISE_BITS - 2**NOISE_BITS % bound)
    draws = noise.uniform_bits(size)
    while (again := np.flatnonzero(draws >= limit)).size:
        draws = draws.copy()
        draws[again] = noise.uniform_bits(again.size)
    return (draws % np.uint64(bound)).astype(np.int64)


def random_order(size: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw an order of ``0 .. size - 1``, each exactly as likely as any other."""
    # Equal keys would favour one order, so all are drawn again.
    keys = noise.uniform_bits(size)
    while np.unique(keys).size < size:
        keys = noise.uniform_bits(size)
    return np.argsort(keys)


def subsets(n_items: int, size: int, n_sets: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw subsets of ``0 .. n_items - 1``, shape (n_sets, size), each exactly as likely as any other."""
    # Of more than half of the items the rest is drawn, so that each round keeps about half of its draws or more.
    if 2 * size > n_items:
        kept = np.ones((n_sets, n_items), dtype=bool)
        left_out = subsets(n_items, n_items - size, n_sets, noise) if size < n_items else np.empty((n_sets, 0), int)
        np.put_along_axis(kept, left_out, False, axis=1)
        return np.nonzero(kept)[1].reshape(n_sets, size)
    keys = np.empty(0, dtype=np.int64)
    missing = np.full(n_sets, size)
    while missing.any():
        owners = np.repeat(np.arange(n_sets), missing)
        drawn = owners * n_items + integers_below(n_items, owners.size, noise)
        # No set is ever offered more than it lacks, so all that are new to it are kept.
        keys = np.union1d(keys, drawn)
        missing = size - np.bincount(keys // n_items, minlength=n_sets)
    return (keys % n_items).reshape(n_sets, size)
