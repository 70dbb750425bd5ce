"""SipHash against published values, and one message at a time against many."""

import numpy as np
import pytest

from dpensemble.rows.checksums import siphash

SHORT_KEY = bytes(range(16))
# Of the messages 00, 01, 02 and so on. The first is in the reference implementation, the others come from OpenSSL.
HASHES = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "3b62a9ba6258f5610f83e264f31497b4",
    3: "2db479ae78bd50d8882a8a178a6132ad",
}


@pytest.mark.parametrize("n_words", HASHES)
def test_hashes_are_those_of_other_implementations(n_words):
    message = np.frombuffer(bytes(range(8 * n_words)), dtype="<u8")
    # A message without words still has a row.
    words = np.repeat(message[:, None], 2, axis=1)
    low, high = siphash(words, SHORT_KEY)
    assert {one.tobytes().hex() + other.tobytes().hex() for one, other in zip(low, high, strict=True)} == {
        HASHES[n_words]
    }


def test_messages_and_keys_do_not_mix():
    words = np.random.default_rng(0).integers(0, 2**63, (6, 50), dtype=np.uint64)
    before = words.copy()
    together = np.array(siphash(words, SHORT_KEY))
    alone = np.hstack([np.array(siphash(words[:, [place]], SHORT_KEY)) for place in range(50)])
    assert np.array_equal(together, alone)
    assert len({tuple(one) for one in together.T.tolist()}) == 50
    assert not np.array_equal(together, np.array(siphash(words, bytes(16))))
    assert np.array_equal(words, before)
