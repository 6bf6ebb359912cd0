"""Turns a PGM picture into a small coloured PNG that can be written into a page."""

import base64
import struct
import zlib

# From cold to hot: value of the picture, then red, green and blue.
_COLOURS = ((0, 13, 8, 60), (50, 84, 15, 109), (110, 187, 55, 84), (165, 237, 105, 37),
            (215, 252, 180, 25), (255, 252, 255, 164))


def png_of_pgm(path):
    """The picture at `path` (binary PGM, 8 bits) as a base64 text of a PNG."""
    with open(path, "rb") as file:
        fields = []
        while len(fields) < 4:
            fields += file.readline().split(b"#")[0].split()
        width, height = int(fields[1]), int(fields[2])
        pixels = file.read(width * height)
    if fields[0] != b"P5" or fields[3] != b"255" or len(pixels) != width * height:
        raise ValueError("%s is not a binary PGM picture of 8 bits" % path)
    lines = b"".join(b"\0" + pixels[row * width:(row + 1) * width] for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    png = (b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"PLTE", _palette()) +
           _chunk(b"IDAT", zlib.compress(lines, 9)) + _chunk(b"IEND", b""))
    return base64.b64encode(png).decode()


def _chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data +
            struct.pack(">I", zlib.crc32(kind + data)))


def _palette():
    colours = bytearray()
    for value in range(256):
        upper = next(i for i, colour in enumerate(_COLOURS) if colour[0] >= value and i > 0)
        low, high = _COLOURS[upper - 1], _COLOURS[upper]
        part = (value - low[0]) / (high[0] - low[0])
        colours += bytes(round(low[k] + (high[k] - low[k]) * part) for k in (1, 2, 3))
    return bytes(colours)
