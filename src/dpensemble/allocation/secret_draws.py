"""Whole numbers, orders and subsets drawn exactly uniformly from secret bits.

Nothing here takes a seed: where the draw is what protects the records, its
bits come from the same source as the noise of a release.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import NOISE_BITS, NoiseSource


def integers_below(bound: int, size: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw `size` independent integers, each exactly uniform on ``0 .. bound - 1``.

    Draws of 63 bits at or above the largest multiple of `bound` are thrown
    away and drawn again, so that every remainder is equally likely.

    Parameters
    ----------
    bound : int
        From 1 to ``2**63``.
    size : int
        How many.
    noise : NoiseSource
        Where the bits come from.

    Returns
    -------
    ndarray of shape (size,)
    """
    limit = np.uint64(2**NOISE_BITS - 2**NOISE_BITS % bound)
    found = noise.uniform_bits(size)
    while (again := np.flatnonzero(found >= limit)).size:
        found = found.copy()
        found[again] = noise.uniform_bits(again.size)
    return (found % np.uint64(bound)).astype(np.int64)


def random_order(size: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw an order of ``0 .. size - 1``, each exactly as likely as any other.

    Keys of 63 bits are sorted; equal keys would favour one order, so all are drawn again.
    """
    keys = noise.uniform_bits(size)
    while np.unique(keys).size < size:
        keys = noise.uniform_bits(size)
    return np.argsort(keys)


def subsets(n_items: int, size: int, n_sets: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw independent subsets of ``0 .. n_items - 1``, each exactly as likely as any other of its size.

    Items are drawn one after another and thrown away where the set holds them
    already. Above half of the items it is the rest that is drawn, so that each
    round keeps about half of what it draws or more.

    Parameters
    ----------
    n_items, size : int
        Subsets of `size` among `n_items`, with ``1 <= size <= n_items``.
    n_sets : int
        How many.
    noise : NoiseSource
        Where the bits come from.

    Returns
    -------
    ndarray of shape (n_sets, size)
        In no particular order, which tells nothing.
    """
    if 2 * size > n_items:
        kept = np.ones((n_sets, n_items), dtype=bool)
        left_out = (
            subsets(n_items, n_items - size, n_sets, noise) if size < n_items else np.empty((n_sets, 0), int)
        )
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
