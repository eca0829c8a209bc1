"""The windows of a batch's rows by arrays: each window of a key is found once, however many rows are in it.

times ─▶ cells of time, each with its windows ─▶ rows, once for each of their windows ─▶ pairs of a key and a window
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.functions.sql.time_shift import TimeShift
from tidegate.functions.sql.time_windows import Grid, Span

CODES_FOR_ROW = 16
"""Most codes for each row among which a table finds those that are there, where more are sorted. Chosen: a table of 16 numbers for each row is made faster than
the codes are sorted.
"""

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
    codes = key_of[rows] * max(len(number_of), 1) + windows
    firsts, pair_of = number_by_first(codes)
    keys, found = np.divmod(codes[firsts], max(len(number_of), 1))
    spans = list(number_of)
    return WindowPairs(keys.tolist(), [spans[number] for number in found.tolist()], rows[firsts], rows, pair_of)


def number_by_first(codes: Places) -> tuple[Places, Places]:
    """Returns where each different code comes first, in their order, and for each code the number of its kind in this order. Codes are not negative."""
    count = len(codes)
    places = np.arange(count)
    most = int(codes.max(initial=0)) + 1
    if most <= CODES_FOR_ROW * count:
        first_of = np.empty(most, np.intp)
        first_of[codes[::-1]] = places[::-1]  # of those with the same code the last one stays, which is the first
        first = first_of[codes]
    else:
        _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
        first = firsts[inverse]
    is_first = first == places
    return np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[first]


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


def cells_of_times(local: npt.NDArray[np.int64], grid: Grid) -> tuple[Places, list[int]]:
    """Returns for each row the number of its cell of time, within which all times have the same windows, and a time of each cell. ``local``: local times."""
    length, offset = grid
    cells = (local - offset) // length
    firsts, cell_of = number_by_first(cells - int(cells.min()))
    return cell_of, local[firsts].tolist()


def runs_of(times: Sequence[pa.Array]) -> Places | None:
    """Returns where rows begin whose times are not those of the row before; ``None`` where a time is missing, or there are no columns of times."""
    if not times or any(column.null_count for column in times):
        return None
    begins = np.ones(len(times[0]), np.bool_)
    values = [np.asarray(column.view(pa.int64())) for column in times]
    begins[1:] = np.logical_or.reduce([each[1:] != each[:-1] for each in values])
    return np.flatnonzero(begins)


def local_times(times: npt.NDArray[np.int64], shift: TimeShift) -> npt.NDArray[np.int64]:
    """Returns the local times of moments in ms. A zone's offset is looked up once for each second."""
    if shift.is_utc:
        return times
    seconds, second_of = np.unique(times // 1000, return_inverse=True)
    offsets = np.array([shift.local(ms) - ms for ms in (seconds * 1000).tolist()], np.int64)
    return times + offsets[second_of]


__all__ = [
    "SessionsOfRows",
    "WindowPairs",
    "cells_of_times",
    "find_pairs",
    "find_sessions",
    "local_times",
    "number_by_first",
    "runs_of",
]
