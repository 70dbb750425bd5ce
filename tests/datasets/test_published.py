import gzip
import hashlib
import re

import pytest

from dpensemble.datasets.published import FASHION_MNIST, MNIST, NotAsPublished, PublishedFile

CONTENT = bytes(range(256)) * 8
FILE = PublishedFile("it", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.mark.parametrize("level", range(10))
def test_content_is_known_however_it_is_packed(level):
    assert FILE.unpack(gzip.compress(CONTENT, level)) == CONTENT
    assert FILE.unpack(CONTENT) == CONTENT


def test_packing_in_several_members_is_the_same_content():
    assert FILE.unpack(gzip.compress(CONTENT[:100]) + gzip.compress(CONTENT[100:])) == CONTENT


def test_another_content_is_refused():
    other = CONTENT[:-1] + b"\0"
    for raw in (other, CONTENT[:-1], CONTENT + b"\0", b"", b"\x1f"):
        for form in (raw, gzip.compress(raw)):
            with pytest.raises(NotAsPublished, match=r"its SHA-256 is [0-9a-f]{12}\.\.\., not [0-9a-f]{12}\.\.\."):
                FILE.unpack(form)


def test_damaged_packing_is_refused():
    packed = gzip.compress(CONTENT)
    for length in range(2, len(packed)):
        with pytest.raises(NotAsPublished, match="it is damaged or incomplete"):
            FILE.unpack(packed[:length])
    with pytest.raises(NotAsPublished, match="it is damaged or incomplete"):
        FILE.unpack(packed + b"more")
    for at in range(2, len(packed)):
        # Time stamps and the like may change, but content may not.
        changed = packed[:at] + bytes([packed[at] ^ 0x15]) + packed[at + 1 :]
        try:
            assert FILE.unpack(changed) == CONTENT
        except NotAsPublished:
            continue


def test_a_bomb_is_not_unpacked():
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < FILE.largest
    with pytest.raises(NotAsPublished):
        FILE.unpack(bomb)


def test_the_largest_form_is_not_too_large():
    whole = bytes(47_040_016)
    assert len(gzip.compress(whole, 0)) <= PublishedFile("it", len(whole), "").largest


@pytest.mark.parametrize("published", [MNIST, FASHION_MNIST], ids=lambda p: p.folder)
def test_declarations_are_complete(published):
    files = [published.train_images, published.train_labels, published.test_images, published.test_labels]
    assert [file.n_bytes for file in files] == [16 + 60_000 * 784, 8 + 60_000, 16 + 10_000 * 784, 8 + 10_000]
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in files)
    assert len(published.addresses) == 2
    assert all(re.fullmatch(r"https?://\S+/", address) for address in published.addresses)
    assert published.addresses[0].startswith("https://")


def test_no_file_is_declared_twice():
    sums = {
        file.sha256
        for published in (MNIST, FASHION_MNIST)
        for file in (published.train_images, published.train_labels, published.test_images, published.test_labels)
    }
    assert len(sums) == 8
