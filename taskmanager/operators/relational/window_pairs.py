"""The windows of a batch's rows by arrays: each window of a key is found once, however many rows are in it.

times ─▶ different times, each with its windows ─▶ rows, once for each of their windows ─▶ pairs of a key and a window
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tidegate.functions.sql.time_windows import Span

Places: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class WindowPairs:
    """Pairs of a key and a window, in the order in which rows bring them. ``keys``: the number of each pair's key; ``spans``: its window; ``firsts``: its first
    row. ``rows``: each row once for each of its windows; ``pair_of``: the numbers of the pairs.
    """

    keys: list[int]
    spans: list[Span]
    firsts: Places
    rows: Places
    pair_of: Places


def find_pairs(key_of: Places, set_of: Places, sets: Sequence[Sequence[Span]]) -> WindowPairs:
    """Finds the pairs of a batch. ``key_of``: the number of each row's key; ``set_of``: the place of its windows in ``sets``."""
    number_of: dict[Span, int] = {}
    numbers = [number_of.setdefault(span, len(number_of)) for spans in sets for span in spans]
    sizes = np.array([len(spans) for spans in sets], np.intp)
    begins = np.cumsum(sizes) - sizes
    times = sizes[set_of]
    rows = np.repeat(np.arange(len(key_of)), times)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    windows = np.array(numbers, np.intp)[begins[set_of][rows] + within]
    codes, firsts, inverse = np.unique(
        key_of[rows] * max(len(number_of), 1) + windows, return_index=True, return_inverse=True
    )
    order = np.argsort(firsts)
    place_of = np.empty(len(order), np.intp)
    place_of[order] = np.arange(len(order))
    keys, found = np.divmod(codes[order], max(len(number_of), 1))
    spans = list(number_of)
    return WindowPairs(
        keys.tolist(), [spans[number] for number in found.tolist()], rows[firsts[order]], rows, place_of[inverse]
    )


@dataclass(frozen=True, slots=True)
class SessionsOfRows:
    """Sessions of the rows of a batch, in the order in which rows bring their ends. ``keys``: the number of each session's key; ``spans``: its window;
    ``firsts``: its first row; ``pair_of``: the session of each row.
    """

    keys: list[int]
    spans: list[Span]
    firsts: Places
    pair_of: Places


def find_sessions(key_of: Places, times: npt.NDArray[np.int64], gap: int) -> SessionsOfRows:
    """Finds the sessions of a batch. ``key_of``: the number of each row's key. Rows of a key that are ``gap`` apart or less are in one session."""
    order = np.lexsort((times, key_of))
    keys, ms = key_of[order], times[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (keys[1:] != keys[:-1]) | (ms[1:] - ms[:-1] > gap)
    begins = np.flatnonzero(is_first)
    session_of = np.cumsum(is_first) - 1
    lasts = ms[np.append(begins[1:], len(order)) - 1]
    brings_end = ms == lasts[session_of]
    brings_end[1:] &= is_first[1:] | (ms[1:] != ms[:-1])
    by_end = np.argsort(order[brings_end])
    place_of = np.empty(len(by_end), np.intp)
    place_of[by_end] = np.arange(len(by_end))
    pair_of = np.empty(len(order), np.intp)
    pair_of[order] = place_of[session_of]
    starts, ends = ms[begins][by_end].tolist(), (lasts[by_end] + gap).tolist()
    firsts = np.minimum.reduceat(order, begins)[by_end]
    return SessionsOfRows(keys[begins][by_end].tolist(), list(zip(starts, ends, strict=True)), firsts, pair_of)


def sets_of_times(
    times: npt.NDArray[np.int64], spans_of: Callable[[int], Sequence[Span]]
) -> tuple[Places, list[Sequence[Span]]]:
    """Returns for each row the place of its windows, and the windows of each place."""
    different, set_of = np.unique(times, return_inverse=True)
    return set_of, [spans_of(ms) for ms in different.tolist()]


__all__ = ["SessionsOfRows", "WindowPairs", "find_pairs", "find_sessions", "sets_of_times"]
