"""Write small pictures as PNG files."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB, _PALETTE = 2, 3  # kinds of colour

Colour = tuple[int, int, int]


def png(pixels: bytes, columns: int, palette: Sequence[Colour] | None = None) -> bytes:
    """A picture as a PNG file.

    Args:
        pixels: row by row; three bytes per pixel (red, green, blue), or one index into the palette.
        columns: pixels per row.
        palette: at most 256 colours.
    """
    width = columns if palette else 3 * columns
    lines = [pixels[at : at + width] for at in range(0, len(pixels), width)]
    kind = _PALETTE if palette else _RGB
    parts = [
        _SIGNATURE,
        _chunk(b"IHDR", struct.pack(">2I5B", columns, len(lines), 8, kind, 0, 0, 0)),
    ]
    if palette:
        parts.append(_chunk(b"PLTE", b"".join(bytes(colour) for colour in palette)))
    unfiltered = b"".join(b"\0" + line for line in lines)
    return b"".join([*parts, _chunk(b"IDAT", zlib.compress(unfiltered, 9)), _chunk(b"IEND", b"")])


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def ramp(stops: Sequence[Colour], count: int) -> list[Colour]:
    """`count` colours, evenly spaced from the first of the stops to the last."""
    colours = []
    for number in range(count):
        at = number * (len(stops) - 1) / (count - 1)
        before = min(int(at), len(stops) - 2)
        share = at - before
        pairs = zip(stops[before], stops[before + 1], strict=True)
        red, green, blue = (round(start + (end - start) * share) for start, end in pairs)
        colours.append((red, green, blue))
    return colours
