"""The default partitioner of Kafka's Java producer: murmur2 of the keys' bytes, by column."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)
_BYTE = np.uint32(8)
_POSITIVE = np.uint32(0x7FFFFFFF)
_WORD_BYTES = 4
"""Murmur2 reads 32 bits at a time."""

Words = npt.NDArray[np.uint32]
Positions = npt.NDArray[np.int64]


def partitions(keys: pa.Array, count: int, sticky: int) -> npt.NDArray[np.int32]:
    """Returns the partition, out of ``count``, of each key (``pa.binary()``); ``sticky`` for null keys. As
    ``BuiltInPartitioner.partitionForKey`` of the Java client."""
    found = np.full(len(keys), sticky, np.int32)
    if keys.null_count == len(keys):
        return found
    rows = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
    _, borders, content = keys.buffers()
    ends = np.frombuffer(borders, np.int32, len(keys) + 1, keys.offset * 4).astype(np.int64)
    data: npt.NDArray[np.uint8] = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    hashes = _murmur2(data, ends[:-1][rows], np.diff(ends)[rows])
    found[rows] = (hashes & _POSITIVE) % np.uint32(count)
    return found


def _murmur2(data: npt.NDArray[np.uint8], at: Positions, lengths: Positions) -> Words:
    """Hashes the bytes at these places, longest first, so that the rows that still have a word are always the first ones."""
    order = np.argsort(-lengths, kind="stable")
    at, lengths = at[order], lengths[order]
    hashes = _SEED ^ lengths.astype(np.uint32)
    words = lengths // _WORD_BYTES
    for index in range(int(words[0])):
        active = int(np.searchsorted(-words, -index, side="left"))
        word = np.zeros(active, np.uint32)
        for place in reversed(range(_WORD_BYTES)):
            word = word << _BYTE | data[at[:active] + (index * _WORD_BYTES + place)]
        word *= _M
        word ^= word >> _R
        hashes[:active] = hashes[:active] * _M ^ word * _M
    _add_rest(data, at + words * _WORD_BYTES, lengths % _WORD_BYTES, hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    found = np.empty_like(hashes)
    found[order] = hashes
    return found


def _add_rest(data: npt.NDArray[np.uint8], at: Positions, lengths: Positions, hashes: Words) -> None:
    """Adds the up to three bytes after the last whole word to the hashes."""
    for place in reversed(range(_WORD_BYTES - 1)):
        rows = np.flatnonzero(lengths > place)
        hashes[rows] ^= data[at[rows] + place].astype(np.uint32) << np.uint32(8 * place)
    rows = np.flatnonzero(lengths)
    hashes[rows] *= _M
