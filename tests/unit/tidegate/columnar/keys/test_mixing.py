from __future__ import annotations

import numpy as np

from tidegate.columnar.keys.mixing import PIECE_ROWS, mix, splitmix64
from tidegate.jobmanager.machines.random import SplitMix64

# The first outputs of Vigna's splitmix64.c for the seed 1234567.
FROM_C = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
STEP = 0x9E3779B97F4A7C15


def test_words_are_mixed_as_splitmix64_does() -> None:
    states = np.array([(1234567 + step * STEP) % 2**64 for step in range(5)], np.uint64)
    before = states.copy()
    assert splitmix64(states).tolist() == FROM_C
    assert (states == before).all()


def test_columns_and_the_jobmanagers_draws_are_mixed_alike() -> None:
    draws = SplitMix64(99)
    states = np.array([(99 + step * STEP) % 2**64 for step in range(100)], np.uint64)
    assert splitmix64(states).tolist() == [draws.bits() for _ in range(100)]


def test_one_word_is_permuted_piece_by_piece() -> None:
    words = np.arange(2 * PIECE_ROWS + 5, dtype=np.uint64)
    mixed = mix([words])
    assert len(np.unique(mixed)) == len(words)
    assert mix([words[PIECE_ROWS:]]).tolist() == mixed[PIECE_ROWS:].tolist()


def test_a_hash_depends_on_each_of_several_words() -> None:
    zeros, ones = np.zeros(4, np.uint64), np.ones(4, np.uint64)
    found = {int(mix(words)[0]) for words in ([zeros, zeros], [zeros, ones], [ones, zeros], [ones, ones])}
    assert len(found) == 4
