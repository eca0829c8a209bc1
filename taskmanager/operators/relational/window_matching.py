"""Joins all rows of windows that fire, of all keys at once.

rows of both sides ─▶ a number of each window, in the order in which they fire ─▶ a number of each window and key ─▶ pairs (``Matcher``)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.columnar.keys.codes import encode_keys
from tidegate.functions.sql.rows import rows_of, values_of
from tidegate.records.canonical.forms import canonical_keys
from tidegate.taskmanager.operators.relational.held_rows import Times
from tidegate.taskmanager.operators.relational.matching import Matcher, OtherRows, Places


@dataclass(frozen=True, slots=True)
class WindowSide:
    """Rows of an input. ``keys``: the columns of their keys. ``bounds``: for each row when its window fires, and what else distinguishes windows."""

    data: pa.RecordBatch
    keys: Sequence[pa.Array]
    bounds: Sequence[Times]


@dataclass(frozen=True, slots=True)
class WindowMatches:
    """``own``, ``found``: the places of the left and right rows of each pair; -1 stands for a missing one. ``keys``: how many keys the windows have."""

    own: Places
    found: Places
    keys: int


def match_windows(matcher: Matcher, join_type: str, left: WindowSide, right: WindowSide, name: str) -> WindowMatches:
    """Returns the rows to emit: of one key and window the left rows in their order, each with its right ones in theirs, then right rows that join with none.
    Windows are in the order of their bounds.

    ``name``: of the operator, for errors.
    """
    split = left.data.num_rows
    windows = _windows(left, right)
    codes, most = _codes(windows, left, right, name)
    mine, theirs = codes[:split], codes[split:]
    order = np.argsort(theirs, kind="stable")
    sizes = np.bincount(theirs, minlength=most)
    keys = int(np.count_nonzero(sizes | np.bincount(mine, minlength=most)))
    by_key = right.data.take(pa.array(order)) if matcher.has_condition or matcher.compares_values else right.data
    values, others = (rows_of(left.data), rows_of(by_key)) if matcher.compares_values else ((), ())
    pairs = matcher.pairs(left.data.columns, values, OtherRows(others, sizes, mine), by_key.columns, 0)
    parts = list(pairs)
    none = np.empty(0, np.intp)
    own, found = (np.concatenate([none, *part]) for part in (zip(*parts, strict=True) if parts else ((), ())))
    if join_type in ("SEMI", "ANTI"):
        has_any = np.zeros(split, np.bool_)
        has_any[own] = True
        own = np.flatnonzero(has_any if join_type == "SEMI" else ~has_any)
        found = np.full(len(own), -1, np.intp)
    else:
        found = order[found]
    return WindowMatches(*_in_order(own, found, windows, (split, right.data.num_rows), join_type), keys)


def _windows(left: WindowSide, right: WindowSide) -> Places | None:
    """Returns the number of the window of each row, those of the left side first; ``None``: there is only one window."""
    bounds = [np.concatenate(pair) for pair in zip(left.bounds, right.bounds, strict=True)]
    if all((column == column[0]).all() for column in bounds):
        return None
    order = np.lexsort(bounds[::-1])
    begins = np.zeros(len(order), np.bool_)
    for column in bounds:
        ordered = column[order]
        begins[1:] |= ordered[1:] != ordered[:-1]
    numbers = np.empty(len(order), np.intp)
    numbers[order] = np.cumsum(begins)
    return numbers


def _codes(windows: Places | None, left: WindowSide, right: WindowSide, name: str) -> tuple[Places, int]:
    """Returns a number for each row, which rows of the same window and key share, and a bound of these numbers."""
    columns = [] if windows is None else [pa.array(windows)]
    for pair in zip(left.keys, right.keys, strict=True):
        if pair[0].type == pair[1].type and not pa.types.is_nested(pair[0].type):
            columns.append(pa.concat_arrays(pair))
        else:
            numbers: dict[Any, int] = {}
            forms = canonical_keys([value for column in pair for value in values_of(column)])
            columns.append(pa.array([numbers.setdefault(form, len(numbers)) for form in forms]))
    keys = encode_keys(columns, left.data.num_rows + right.data.num_rows, name)
    return keys.codes, keys.cardinality


def _in_order(
    own: Places, found: Places, windows: Places | None, sizes: tuple[int, int], join_type: str
) -> tuple[Places, Places]:
    """Adds the rows of outer joins that join with none, and sorts by window. ``sizes``: the numbers of rows."""
    alone = [
        _without(matched, size) if join_type in (outer, "FULL") else np.empty(0, np.intp)
        for matched, size, outer in ((own, sizes[0], "LEFT"), (found, sizes[1], "RIGHT"))
    ]
    if windows is None and not any(map(len, alone)):
        return own, found
    numbers = np.zeros(sum(sizes), np.intp) if windows is None else windows
    of_row = np.concatenate([numbers[own], numbers[alone[0]], numbers[sizes[0] + alone[1]]])
    none = [np.full(len(rows), -1, np.intp) for rows in alone]
    own, found = np.concatenate([own, alone[0], none[1]]), np.concatenate([found, none[0], alone[1]])
    order = np.lexsort((found, own, own < 0, of_row))
    return own[order], found[order]


def _without(places: Places, size: int) -> Places:
    """Returns the places below ``size`` that are not among the given ones."""
    is_left = np.ones(size, np.bool_)
    is_left[places] = False
    return np.flatnonzero(is_left)


__all__ = ["WindowMatches", "WindowSide", "match_windows"]
