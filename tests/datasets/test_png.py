"""Pictures are read to the last bit, with every filter, and other files are refused."""

import struct
import zlib

import numpy as np
import pytest

from dpensemble.datasets.cifar10 import read_png
from dpensemble.datasets.published import NotAsPublished

WIDTH, HEIGHT = 7, 5
PIXELS = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(lines, *, width=WIDTH, height=HEIGHT, colour=2):
    """Return a file of filtered lines, in two parts."""
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    packed = zlib.compress(lines)
    parts = [(b"IHDR", header), (b"IDAT", packed[:20]), (b"IDAT", packed[20:]), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def filtered(pixels, method):
    """Filter as the specification defines it, byte by byte."""
    lines = b""
    for y, line in enumerate(pixels):
        lines += bytes([method])
        for x, pixel in enumerate(line):
            for c, value in enumerate(pixel):
                a = int(pixels[y, x - 1, c]) if x else 0
                b = int(pixels[y - 1, x, c]) if y else 0
                corner = int(pixels[y - 1, x - 1, c]) if x and y else 0
                p = a + b - corner
                near = sorted((abs(p - v), i, v) for i, v in enumerate((a, b, corner)))[0][2]
                lines += bytes([(int(value) - (0, a, b, (a + b) // 2, near)[method]) % 256])
    return lines


@pytest.mark.parametrize("method", range(5))
def test_every_filter_is_undone(method):
    np.testing.assert_array_equal(read_png(png(filtered(PIXELS, method)), WIDTH, HEIGHT), PIXELS)


def test_ties_between_neighbours_are_resolved_in_the_order_of_the_specification():
    few = PIXELS % 3
    np.testing.assert_array_equal(read_png(png(filtered(few, 4)), WIDTH, HEIGHT), few)


WHOLE = png(filtered(PIXELS, 1))
SPOILT = bytearray(WHOLE)
SPOILT[60] ^= 1


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not a PNG file"),
        (b"\xff\xd8\xff" + WHOLE, "not a PNG file"),
        *((WHOLE[:n], "cut off") for n in (8, 15, 40, len(WHOLE) - 1)),
        (bytes(SPOILT), "does not match its checksum"),
        (png(filtered(PIXELS, 1), colour=6), "not a picture of 7 x 5 pixels of three bytes"),
        (png(filtered(PIXELS, 1), height=4), "not a picture of 7 x 5"),
        (png(filtered(PIXELS[:4], 1)), "too few or too many pixels"),
        (png(bytes(10**6)), "too few or too many pixels"),
        (png(b"\x05" + bytes(5 * 22 - 1)), "unknown filter 5"),
        (WHOLE[:8] + chunk(b"IDAT", b"x") + chunk(b"IEND", b""), "not a picture"),
    ],
)
def test_other_files_are_refused(raw, reason):
    with pytest.raises(NotAsPublished, match=reason):
        read_png(raw, WIDTH, HEIGHT)


def test_content_that_is_not_packed_is_refused():
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    raw = WHOLE[:8] + chunk(b"IHDR", header) + chunk(b"IDAT", b"loose") + chunk(b"IEND", b"")
    with pytest.raises(NotAsPublished, match="damaged"):
        read_png(raw, WIDTH, HEIGHT)
