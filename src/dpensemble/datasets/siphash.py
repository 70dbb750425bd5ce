"""SipHash of many messages at a time. Without the key, this keyed function looks like a random one.

J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012. This is SipHash-2-4 with 128 bits
of output.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Words of 64 bits.
Words = NDArray[np.uint64]
#: Bytes of a key.
KEY_SIZE = 16
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_ROUNDS, _LAST_ROUNDS = 2, 4


def siphash(words: Words, key: bytes) -> tuple[Words, Words]:
    """Return both words of the hash of each message.

    Parameters
    ----------
    words : ndarray of shape (n_words, n_messages)
        Columns are messages.
    key : bytes
        16 secret bytes.
    """
    n_words, n_messages = words.shape
    halves = np.frombuffer(key, dtype="<u8", count=2)
    state = [np.full(n_messages, start, dtype=np.uint64) ^ halves[i % 2] for i, start in enumerate(_START)]
    state[1] ^= np.uint64(0xEE)
    # The last word holds the number of bytes, since messages consist of whole words.
    length = np.full(n_messages, (8 * n_words % 256) << 56, dtype=np.uint64)
    for word in (*words, length):
        state[3] ^= word
        _mix(state, _ROUNDS)
        state[0] ^= word
    state[2] ^= np.uint64(0xEE)
    _mix(state, _LAST_ROUNDS)
    low = state[0] ^ state[1] ^ state[2] ^ state[3]
    state[1] ^= np.uint64(0xDD)
    _mix(state, _LAST_ROUNDS)
    return low, state[0] ^ state[1] ^ state[2] ^ state[3]


def _mix(state: list[Words], rounds: int) -> None:
    """Change the state in place. Additions are modulo ``2**64``."""
    a, b, c, d = state
    for _ in range(rounds):
        a += b
        _rotate(b, 13)
        b ^= a
        _rotate(a, 32)
        c += d
        _rotate(d, 16)
        d ^= c
        a += d
        _rotate(d, 21)
        d ^= a
        c += b
        _rotate(b, 17)
        b ^= c
        _rotate(c, 32)


def _rotate(words: Words, bits: int) -> None:
    right = words >> np.uint64(64 - bits)
    words <<= np.uint64(bits)
    words |= right
