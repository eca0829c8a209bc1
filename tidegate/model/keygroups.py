"""The mapping of keys to key groups and of groups to subtasks, by Flink's formulas (``KeyGroupRangeAssignment.java``, ``MathUtils.java``). Columns of
hashes are mapped in ``tidegate.columnar.keys.hashing``; these are the scalar functions."""

from __future__ import annotations

from typing import NamedTuple

LOWER_BOUND_MAX_PARALLELISM = 128
"""Flink's ``KeyGroupRangeAssignment``."""
UPPER_BOUND_MAX_PARALLELISM = 32768
"""Flink's ``KeyGroupRangeAssignment``."""

_MASK = 0xFFFFFFFF
"""The bits of Java's int."""


class KeyGroupRange(NamedTuple):
    """A range of key groups from ``start`` to ``end``, both inclusive. Empty when ``end < start``."""

    start: int
    end: int

    def intersect(self, other: KeyGroupRange) -> KeyGroupRange:
        """Returns the key groups in both ranges; its size is 0 when there are none."""
        return KeyGroupRange(max(self.start, other.start), min(self.end, other.end))

    @property
    def size(self) -> int:
        """Returns the number of key groups."""
        return max(0, self.end - self.start + 1)


def murmur(hash_code: int) -> int:
    """Returns Flink's ``MathUtils.murmurHash`` of a 32-bit hash code: 0 to 2**31 - 1."""
    code = hash_code & _MASK
    code = (code * 0xCC9E2D51) & _MASK
    code = ((code << 15) | (code >> 17)) & _MASK
    code = (code * 0x1B873593) & _MASK
    code = ((code << 13) | (code >> 19)) & _MASK
    code = (code * 5 + 0xE6546B64) & _MASK
    code ^= 4
    code ^= code >> 16
    code = (code * 0x85EBCA6B) & _MASK
    code ^= code >> 13
    code = (code * 0xC2B2AE35) & _MASK
    code ^= code >> 16
    if code < 0x80000000:
        return code
    return 0 if code == 0x80000000 else (-code) & _MASK


def key_group(hash_code: int, max_parallelism: int) -> int:
    """Returns the key group of a key's hash code."""
    return murmur(hash_code) % max_parallelism


def subtask_of(key_group: int, max_parallelism: int, parallelism: int) -> int:
    """Returns the subtask that owns a key group."""
    return key_group * parallelism // max_parallelism


def range_of(subtask: int, max_parallelism: int, parallelism: int) -> KeyGroupRange:
    """Returns the key groups that a subtask owns."""
    start = (subtask * max_parallelism + parallelism - 1) // parallelism
    return KeyGroupRange(start, ((subtask + 1) * max_parallelism - 1) // parallelism)


def default_max_parallelism(parallelism: int) -> int:
    """Returns the default max parallelism: ``1.5 x parallelism`` rounded up to a power of two, within 128 and 32768."""
    wanted = parallelism + parallelism // 2
    power = 1 << max(0, wanted - 1).bit_length()
    return min(max(power, LOWER_BOUND_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)
