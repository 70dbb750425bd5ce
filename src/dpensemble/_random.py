"""Sources of randomness: public seeds for allocation and teachers, secret bits for releases.

The two never mix. Seeds make a run repeatable and protect nobody. Released labels are drawn from the operating system's
generator unless a seeded release is requested by name, which marks the guarantee "not for release".
"""

import os
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble._spending import drawn_once

NOISE_BITS = 63


class Stream(IntEnum):
    """Independent uses of one public seed."""

    ALLOCATION = 0
    TEACHERS = 1
    PUBLIC_ROWS = 2
    STUDENT = 3
    SPLIT = 4
    PARTICIPATION = 5
    CONSENT = 6


def public_entropy(random_state: object) -> int:
    """Turn ``random_state`` into entropy: the system's for None, an integer, or one draw of a ``RandomState``."""
    if random_state is None:
        return int(drawn_once("a public seed", lambda: int.from_bytes(os.urandom(16), "little")))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return integer_between("random_state", random_state, 0, 2**128)


def seed_sequence(entropy: int, stream: Stream, index: int = 0) -> np.random.SeedSequence:
    """Return the seed of one use (and, for teachers, of one teacher) of the public entropy."""
    return np.random.SeedSequence(entropy=entropy, spawn_key=(int(stream), index))


def seed_integer(entropy: int, stream: Stream, index: int = 0) -> int:
    """Return the same seed as an integer that scikit-learn's ``random_state`` accepts."""
    return int(seed_sequence(entropy, stream, index).generate_state(1)[0] >> 1)


class NoiseSource(Protocol):
    """A stream of uniform 63-bit integers."""

    @property
    def for_release(self) -> bool:
        """Whether values from this source may be published under a guarantee."""
        ...

    def uniform_bits(self, size: int) -> NDArray[np.uint64]:
        """Return `size` independent integers, uniform on 0 .. 2**63 - 1."""
        ...


class SystemNoise:
    """The operating system's cryptographic generator. It has no state that a fork could copy."""

    for_release = True

    def uniform_bits(self, size: int) -> NDArray[np.uint64]:
        """Return `size` independent integers, uniform on 0 .. 2**63 - 1."""
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(64 - NOISE_BITS)


class SeededNoise:
    """A repeatable source for experiments and tests. Anybody who knows the seed can remove the noise."""

    for_release = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(integer_between("insecure_release_seed", seed, 0, 2**128))

    def uniform_bits(self, size: int) -> NDArray[np.uint64]:
        """Return `size` integers that repeat with the seed."""
        return self._generator.integers(0, 2**NOISE_BITS, size=size, dtype=np.uint64)


def noise_source(insecure_release_seed: int | None) -> NoiseSource:
    """Return the secure source, or the seeded source if a seed is given by name."""
    return SystemNoise() if insecure_release_seed is None else SeededNoise(insecure_release_seed)
