"""Bit mixing: numbers that are close together get hashes that are far apart.

``splitmix64``   every bit of a word reaches every bit of its hash. Sketches in checkpoints are made of it: it never changes
``mix``          cheaper, of one word or several; its upper bits are the best
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio, made odd: SplitMix64's step."""
PIECE_ROWS = 1 << 14
"""How many rows are processed at a time: intermediate results then stay in the second-level cache."""
_SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_THIRD_FACTOR = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)


def splitmix64(words: Words) -> Words:
    """Returns the output of SplitMix64 for each word as its state, as a new array of the same length."""
    found = words + GOLDEN
    found ^= found >> np.uint64(30)
    found *= _SECOND_FACTOR
    found ^= found >> np.uint64(27)
    found *= _THIRD_FACTOR
    found ^= found >> np.uint64(31)
    return found


def mix(words: Sequence[Words]) -> Words:
    """Returns one hash for each row; ``words`` are columns of one length. For a single word it is a permutation, without collisions."""
    found = np.empty(len(words[0]), np.uint64)
    scratch = np.empty(min(PIECE_ROWS, len(found)), np.uint64)
    for start in range(0, len(found), PIECE_ROWS):
        part = found[start : start + PIECE_ROWS]
        between = scratch[: len(part)]
        np.multiply(words[0][start : start + PIECE_ROWS], GOLDEN, out=part)
        for word in words[1:]:
            _fold(part, between)
            np.bitwise_xor(part, word[start : start + PIECE_ROWS], out=part)
            np.multiply(part, GOLDEN, out=part)
        _fold(part, between)
        np.multiply(part, _SECOND_FACTOR, out=part)
    return found


def _fold(hashes: Words, scratch: Words) -> None:
    np.right_shift(hashes, _HALF, out=scratch)
    np.bitwise_xor(hashes, scratch, out=hashes)
