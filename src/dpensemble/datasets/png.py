"""Read PNG files of red, green and blue bytes, the form in which a package holds CIFAR-10. Needs no imaging library."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dpensemble.datasets.published import NotAsPublished

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = 3
# Eight bits a channel, colours without transparency, the one compression, the one set of filters, not interlaced.
_KIND = (8, 2, 0, 0, 0)
_Predictor = Callable[[int, int, int], int]
_NONE, _LEFT, _UP, _AVERAGE, _PAETH = range(5)


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
