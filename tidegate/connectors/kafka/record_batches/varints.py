"""Zigzag varints by column: reads and writes the numbers of Kafka's records at many places at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Zigzags = npt.NDArray[np.uint64]

_ONE_BYTE = (np.arange(256, dtype=np.int64) >> 1) ^ -(np.arange(256, dtype=np.int64) & 1)
_LONGEST = 10
"""The most bytes of a varint: 64 bits, seven in each byte."""


class TooLong(Exception):
    """A number has more bytes than it may have; ``row`` is its index."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def read(data: Bytes, at: Numbers, longest: int) -> tuple[Numbers, Numbers]:
    """Reads the numbers at the positions ``at``; returns them with the positions after them. Positions outside of ``data`` read arbitrary bytes, so
    the caller checks the positions. Raises ``TooLong`` beyond ``longest`` bytes."""
    byte = data.take(at, mode="clip")
    if not byte.size or byte.max() < 0x80:
        return _ONE_BYTE.take(byte), at + 1
    value = (byte & 0x7F).astype(np.uint64)
    after = at + 1
    rows = _continued(byte, None)
    for place in range(1, longest):
        byte = data.take(at[rows] + place, mode="clip")
        value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
        after[rows] += 1
        if byte.max() < 0x80:
            return _from_zigzag(value), after
        rows = _continued(byte, rows)
    raise TooLong(int(np.arange(len(at))[rows][0]))


def zigzag(numbers: Numbers) -> Zigzags:
    """Maps signed to unsigned numbers so that small ones stay small: 0, -1, 1 become 0, 1, 2."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def widths(zigzags: Zigzags) -> Numbers:
    """Returns how many bytes each number takes."""
    most = int(zigzags.max())
    found = np.ones(len(zigzags), np.int64)
    for place in range(1, _LONGEST):
        if most >> 7 * place == 0:
            break
        found += zigzags >= np.uint64(1 << 7 * place)
    return found


def write(out: Bytes, at: Numbers, zigzags: Zigzags, width: Numbers) -> None:
    """Writes numbers at the positions ``at``; ``width`` is that of ``widths``. A single number is written at all positions."""
    least, most = int(width.min()), int(width.max())
    for place in range(most):
        part = (zigzags >> np.uint64(7 * place)).astype(np.uint8) & np.uint8(0x7F)
        if place + 1 < least:
            part |= np.uint8(0x80)
        elif place + 1 < most:
            part |= (width > place + 1).astype(np.uint8) << np.uint8(7)
        if place < least:
            out[at + place] = part
        else:
            rows = np.flatnonzero(width > place)
            out[at[rows] + place] = part[rows]


def _continued(byte: Bytes, rows: npt.NDArray[np.intp] | slice | None) -> npt.NDArray[np.intp] | slice:
    """Returns those of ``rows`` whose number continues; a slice as long as that is all of them, which is much cheaper."""
    goes_on = byte >= 0x80
    if rows is None or isinstance(rows, slice):
        return slice(None) if goes_on.all() else np.flatnonzero(goes_on)
    return rows[goes_on]


def _from_zigzag(value: Zigzags) -> Numbers:
    numbers: Numbers = (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)
    return numbers
