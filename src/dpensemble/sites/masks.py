"""Pairwise masks: numbers modulo 2**64 that each pair of sites adds and subtracts, so that only their sum is seen.

Two sites agree on a secret by X25519 with keys of one attempt. HKDF-SHA256 turns the secret into the key of a ChaCha20
stream, for one pair of sites, one attempt, one sum, and one transcript. A site adds the stream if its name is the
smaller one of the pair, and subtracts it otherwise. So sites that signed different transcripts have masks that do not
cancel. J. Bell, K. Bonawitz and others describe sums under pairwise masks (CCS 2017 and 2020). Here a lost site ends
the attempt, and nobody can recover its masks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpensemble.errors import DataError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

#: Numbers modulo 2**64.
Words = NDArray[np.uint64]
#: Bytes of a public key.
KEY_BYTES = 32


def new_key() -> X25519PrivateKey:
    """Return a new secret key, which stays in the memory of this process."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415 - an extra

    return X25519PrivateKey.generate()


def public_bytes(key: X25519PrivateKey) -> bytes:
    """Return the public key of a secret one."""
    return key.public_key().public_bytes_raw()


def masked(values: list[int], key: X25519PrivateKey, own: str, keys: Mapping[str, bytes], transcript: bytes) -> Words:
    """Return whole numbers plus the masks of all pairs of a site, modulo ``2**64``.

    Parameters
    ----------
    values : list of int
        The site's noisy numbers. Private.
    key : X25519PrivateKey
        Secret key of the site for this attempt.
    own : str
        Name of the site.
    keys : mapping of str to bytes
        Public keys of all sites for this attempt.
    transcript : bytes
        Digest of all that the sites signed for this sum. No two sums have the same one.

    Returns
    -------
    ndarray of uint64
        The numbers that leave the site. Without the masks of one honest site they are uniform.

    Raises
    ------
    DataError
        If a site sent a key with which the secret of the pair would be known.
    """
    total = words_of(values)
    for other, public in sorted(keys.items()):
        if other == own:
            continue
        stream = _stream(key, public, sorted((own, other)), transcript, len(values))
        total = total + stream if own < other else total - stream
    return total


def words_of(values: list[int]) -> Words:
    """Return whole numbers modulo ``2**64``."""
    return np.array([value % 2**64 for value in values], dtype=np.uint64)


def signed(words: Words) -> NDArray[np.int64]:
    """Return numbers modulo ``2**64`` as those from ``-2**63`` on."""
    return words.view(np.int64)


def _stream(key: X25519PrivateKey, public: bytes, pair: list[str], transcript: bytes, n: int) -> Words:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    try:
        secret = key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise DataError("a site sent a key of low order, which would hide nothing: stop the run.") from None
    about = "\0".join(("dpensemble sites mask 1", *pair)).encode()
    stream_key = HKDF(algorithm=SHA256(), length=32, salt=transcript, info=about).derive(secret)
    # A key is used once, so the nonce may be constant.
    encryptor = Cipher(algorithms.ChaCha20(stream_key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * n)), dtype="<u8").astype(np.uint64)
