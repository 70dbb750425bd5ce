"""Published image data sets: their addresses, and checksums that identify their files.

A file is identified by the SHA-256 of its unpacked content, because publishers and users
pack the same content in different ways, or not at all.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from dataclasses import dataclass

_GZIP = b"\x1f\x8b"


class NotAsPublished(Exception):  # noqa: N818
    """Bytes are not those of a published file. The text is the reason in a few words."""


@dataclass(frozen=True)
class PublishedFile:
    """One file of a data set."""

    name: str  # without .gz
    n_bytes: int  # unpacked; so is what the checksum is of
    sha256: str

    @property
    def largest(self) -> int:
        """Upper bound on the number of bytes of any form of the file. Packing without compression adds a little."""
        return self.n_bytes + 2**16

    def unpack(self, raw: bytes) -> bytes:
        """Return the content of a copy of this file, packed by gzip or not. Raise NotAsPublished for other content."""
        content = self._gunzip(raw) if raw.startswith(_GZIP) else raw
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise NotAsPublished(f"its SHA-256 is {digest[:12]}..., not {self.sha256[:12]}...")
        return content

    def _gunzip(self, raw: bytes) -> bytes:
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
                # One byte more than expected: a bomb is not unpacked, and longer content differs.
                return packed.read(self.n_bytes + 1)
        except (OSError, EOFError, zlib.error):
            raise NotAsPublished("it is damaged or incomplete") from None


@dataclass(frozen=True, kw_only=True)
class PublishedImages:
    """A data set of four files."""

    name: str
    folder: str  # of a data home
    addresses: tuple[str, ...]  # of the packed files, tried in this order; each ends in a slash
    train_images: PublishedFile
    train_labels: PublishedFile
    test_images: PublishedFile
    test_labels: PublishedFile
    licence: str  # terms and source, in a line or two


MNIST = PublishedImages(
    name="MNIST (handwritten digits)",
    folder="mnist",
    addresses=("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    train_images=PublishedFile(
        "train-images-idx3-ubyte", 47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
    ),
    train_labels=PublishedFile(
        "train-labels-idx1-ubyte", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
    ),
    test_images=PublishedFile(
        "t10k-images-idx3-ubyte", 7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
    ),
    test_labels=PublishedFile(
        "t10k-labels-idx1-ubyte", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
    ),
    licence=(
        "MNIST, Yann LeCun, Corinna Cortes and Christopher J. C. Burges, 1998, derived from data of NIST; "
        "Creative Commons Attribution-ShareAlike 3.0 (CC BY-SA 3.0), https://creativecommons.org/licenses/by-sa/3.0/"
    ),
)

FASHION_MNIST = PublishedImages(
    name="Fashion-MNIST (articles of clothing)",
    folder="fashion-mnist",
    addresses=(
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        # Not offered by https. The checksum verifies the content.
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    train_images=PublishedFile(
        "train-images-idx3-ubyte", 47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
    ),
    train_labels=PublishedFile(
        "train-labels-idx1-ubyte", 60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
    ),
    test_images=PublishedFile(
        "t10k-images-idx3-ubyte", 7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
    ),
    test_labels=PublishedFile(
        "t10k-labels-idx1-ubyte", 10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
    ),
    licence=(
        "Fashion-MNIST, Zalando SE, 2017, https://github.com/zalandoresearch/fashion-mnist; MIT licence, "
        "https://opensource.org/license/mit"
    ),
)
