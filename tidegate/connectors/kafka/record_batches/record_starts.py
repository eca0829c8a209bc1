"""Finding the starts of a batch's records, which form a chain by the records' lengths, without walking it.

Three ways, and each place that is found is confirmed by the length of the record before it:
    even runs   records of one size: the places are guessed, and each must have the same length
    candidates  a zero (no headers of the record before), a length, a zero (attributes): those that follow one another by
                their lengths make a run
    steps       record by record, from where the others fail; the longer, the more often they fail; and where there is little
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tidegate.connectors.kafka.record_batches.varints import Bytes, Numbers

_FEW = 8
_MANY = 1000
"""How many records a batch needs for a search for an even run; with fewer it costs more than the candidates of all batches together."""
_FIRST_EVEN, _EVEN_GROWS = 64, 8
_LONGEST_WALK = 256
_LITTLE_BYTES = 4096
"""Up to so many bytes are walked, since the other two ways take longer to begin."""
_SMALLEST_LENGTH = 6
_LONGEST_PREFIX = 5
_BLOCK_BYTES = 64 << 10
"""The size of blocks that are scanned: what fits the processor's cache is several times cheaper."""
_WORD_BITS = 64
"""numpy works on masks of this width."""
_LOWEST_BIT = np.array([0, *((byte & -byte).bit_length() - 1 for byte in range(1, 256))], np.int64)
_NONE = np.zeros(0, np.int64)


class BrokenChain(Exception):
    """The records do not fill the range one after another; the message says how."""


class RecordStarts:
    """Finds the offsets of records in ``data``, the bytes of Kafka record batches; there may be many batches."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._view = data.data

    def between(self, begin: int, end: int, count: int) -> Numbers:
        """Returns the starts of the ``count`` records that fill ``data`` from ``begin`` to ``end``. Raises ``BrokenChain``."""
        pieces: list[Numbers] = []
        at, missing, steps = begin, count, 1 if len(self._data) > _LITTLE_BYTES else max(count, 1)
        while missing:
            walked, at = self._walk(at, end, min(steps, missing))
            pieces.append(np.array(walked, np.int64))
            missing -= len(walked)
            if not missing:
                break
            run, after = self._run(walked[-1], at, end, missing, many=count >= _MANY)
            if len(run):
                pieces.append(run)
                missing -= len(run)
                at = after
            steps = 1 if len(run) >= _FEW else min(2 * steps, _LONGEST_WALK)
        if at != end:
            raise BrokenChain(
                f"{count} records end {abs(end - at)} bytes {'before' if at < end else 'after'} the end of the batch"
            )
        return np.concatenate(pieces) if pieces else _NONE

    def _walk(self, at: int, end: int, count: int) -> tuple[list[int], int]:
        """Walks ``count`` records from ``at`` on; returns their starts and the end of the last."""
        view, found = self._view, []
        for _ in range(count):
            found.append(at)
            length, shift, byte = 0, 0, 0x80
            while byte >= 0x80:
                if at >= end or shift == 7 * _LONGEST_PREFIX:
                    raise BrokenChain("the length of a record is cut off")
                byte = view[at]
                length |= (byte & 0x7F) << shift
                shift += 7
                at += 1
            if length & 1 or length >> 1 < _SMALLEST_LENGTH:
                raise BrokenChain(f"a record has the negative length {(length >> 1) ^ -(length & 1)}")
            at += length >> 1
            if at > end:
                raise BrokenChain(f"a record of {length >> 1} bytes reaches beyond the end of the batch")
        return found, at

    def _run(self, previous: int, at: int, end: int, missing: int, *, many: bool) -> tuple[Numbers, int]:
        """Returns the starts of records from ``at`` on that can be found without walking, if they are more than a few."""
        if many:
            run, after = self._even_run(previous, at, end, missing)
            return (run, after) if len(run) >= min(_FEW, missing) else self._candidates.run(at, missing)
        run, after = self._candidates.run(at, missing) if missing else (_NONE, at)
        return (run, after) if len(run) >= min(_FEW, missing) else self._even_run(previous, at, end, missing)

    def _even_run(self, previous: int, at: int, end: int, missing: int) -> tuple[Numbers, int]:
        """Returns the starts of records from ``at`` on that are as long as the previous one."""
        stride, width = at - previous, 1
        while self._view[previous + width - 1] >= 0x80:
            width += 1
        rows = min(missing, (end - at) // stride)
        if rows < _FEW or self._view[at : at + width] != self._view[previous : previous + width]:
            return _NONE, at
        found, size = 0, _FIRST_EVEN
        while found < rows:
            size = min(size, rows - found)
            same = np.ones(size, np.bool_)
            for place in range(width):
                first = at + found * stride + place
                same &= self._data[first : first + (size - 1) * stride + 1 : stride] == self._data[previous + place]
            if not same.all():
                found += int(same.argmin())
                break
            found += size
            size *= _EVEN_GROWS
        return at + stride * np.arange(found), at + stride * found

    @cached_property
    def _candidates(self) -> _Candidates:
        return _Candidates(self._data)


class _Candidates:
    """Places that look like the start of a record with a length of one or two bytes, each with the start of the next record that it implies."""

    def __init__(self, data: Bytes) -> None:
        at = _after_zeros(data)
        first, second, third = (data.take(at + place, mode="clip") for place in range(3))
        short = first < 0x80
        like_a_record = (first & 1 == 0) & np.where(short, second == 0, (second < 0x80) & (third == 0))
        long_length = (first & 0x7F).astype(np.int64) | second.astype(np.int64) << 7
        length = np.where(short, first, long_length) >> 1
        chosen = like_a_record & (length >= _SMALLEST_LENGTH)
        self._at = at[chosen]
        self._after = (at + length + np.where(short, 1, 2))[chosen]
        self._last = np.append(np.flatnonzero(self._after[:-1] != self._at[1:]), len(self._at) - 1)
        """Those whose next one is not the next candidate."""

    def run(self, at: int, most: int) -> tuple[Numbers, int]:
        """Returns the starts of records from ``at`` on, at most ``most``, as long as each next one is a candidate; and the end of the last."""
        index = int(np.searchsorted(self._at, at))
        if index == len(self._at) or self._at[index] != at:
            return _NONE, at
        last = min(int(self._last[np.searchsorted(self._last, index)]), index + most - 1)
        return self._at[index : last + 1], int(self._after[last])


def _after_zeros(data: Bytes) -> Numbers:
    """Returns the places that have a zero before them, and another one behind a length of one or two bytes; computed on bits, 64 at once."""
    bits = np.zeros((len(data) // _WORD_BITS + 2) * (_WORD_BITS // 8), np.uint8)
    for start in range(0, len(data), _BLOCK_BYTES):
        packed = np.packbits(data[start : start + _BLOCK_BYTES] == 0, bitorder="little")
        bits[start // 8 : start // 8 + len(packed)] = packed
    words = bits.view("<u8")
    zero, following = words[:-1], words[1:]
    pairs = zero & ((zero >> 2 | following << 62) | (zero >> 3 | following << 61))
    left: Bytes = pairs.view(np.uint8)
    at = np.flatnonzero(left != 0)
    left, pieces = left[at], [_NONE]
    while len(at):
        pieces.append(at * 8 + _LOWEST_BIT[left] + 1)
        left = left & (left - 1)
        more = left != 0
        at, left = at[more], left[more]
    return np.sort(np.concatenate(pieces), kind="stable")
