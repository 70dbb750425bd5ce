"""Whole numbers, orders and subsets drawn exactly uniformly from secret bits.

No function here takes a seed. When the draw protects the records, its bits come from the same source as the noise of a
release.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import NOISE_BITS, NoiseSource


def integers_below(bound: int, size: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw `size` independent integers, each exactly uniform on ``0 .. bound - 1``."""
    # Numbers from the largest multiple of the bound on are drawn again, so that all remainders are equally likely.
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
    # For more than half of the items the complement is drawn, so that each round keeps about half of its draws or more.
    if 2 * size > n_items:
        inside = np.ones((n_sets, n_items), dtype=bool)
        left_out = subsets(n_items, n_items - size, n_sets, noise) if size < n_items else np.empty((n_sets, 0), int)
        np.put_along_axis(inside, left_out, False, axis=1)
        return np.nonzero(inside)[1].reshape(n_sets, size)
    keys = np.empty(0, dtype=np.int64)
    n_missing = np.full(n_sets, size)
    while n_missing.any():
        owners = np.repeat(np.arange(n_sets), n_missing)
        drawn = owners * n_items + integers_below(n_items, owners.size, noise)
        # A set never gets more items than it lacks, so all new items are kept.
        keys = np.union1d(keys, drawn)
        n_missing = size - np.bincount(keys // n_items, minlength=n_sets)
    return (keys % n_items).reshape(n_sets, size)
