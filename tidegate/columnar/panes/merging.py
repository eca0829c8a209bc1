"""Merging of partials of several batches. Only windows that occur in several batches are grouped, since only there a key may occur twice.

    batch A  1 1 2 3 4 4        stretches   [A: 1 1, B: 1 1]   shared
    batch B  1 1                            [A: 2 3 4 4, C: 5] in one batch only
    batch C            5

When senders are not equally far, most windows have partials of only those ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.aggregates.plan import AggregatePlan
from tidegate.columnar.grouping import encoded, group
from tidegate.columnar.keys.codes import KeyCodes
from tidegate.columnar.runs.memory import gathered

Windows = npt.NDArray[np.int64]

MOST_PARTS = 64
"""The most parts for which shared windows are determined; with more and smaller ones it is cheaper to group all of them."""


def merge(plan: AggregatePlan, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Merges ``parts`` to one row for each window and key, sorted by window. ``plan``: of partials ``by_window``."""
    merged = [_merge_stretch(plan, stretch) for stretch in stretches(parts)]
    return pa.concat_batches(merged) if len(merged) > 1 else merged[0]


def stretches(parts: Sequence[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
    """Divides the rows of ``parts`` where the windows that several of them share begin and end. Column 0 is the number of the window. Each window is in
    one stretch, in the order of the windows; there is only one stretch where a batch is not sorted by window, or there are many. Within a stretch of
    windows that only one batch each has, the slices are in order too."""
    if not 2 <= len(parts) <= MOST_PARTS:
        return [list(parts)]
    windows: list[Windows] = [part.column(0).to_numpy() for part in parts]
    if not all(len(w) and bool((w[1:] >= w[:-1]).all()) for w in windows):
        return [list(parts)]
    bounds = sorted({int(w[0]) for w in windows} | {int(w[-1]) + 1 for w in windows})
    cuts = [np.searchsorted(w, bounds).tolist() for w in windows]
    found: list[list[pa.RecordBatch]] = []
    was_shared = True
    for number in range(len(bounds) - 1):
        here = [
            part.slice(cut[number], cut[number + 1] - cut[number])
            for part, cut in zip(parts, cuts, strict=True)
            if cut[number + 1] > cut[number]
        ]
        is_shared = len(here) > 1
        if here and found and is_shared == was_shared:
            found[-1] += here
        elif here:
            found.append(here)
        was_shared = is_shared if here else was_shared
    return found


def _merge_stretch(plan: AggregatePlan, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    rows = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
    coded = encoded(plan, rows)
    return gathered([rows if _is_merged(plan, rows, coded) else group(plan, rows, coded)])


def _is_merged(plan: AggregatePlan, partials: pa.RecordBatch, coded: KeyCodes) -> bool:
    """Returns whether merging would change nothing: no key occurs twice, and there are no floats, whose NaNs merging unifies."""
    has_floats = any(map(pa.types.is_floating, plan.key_types))
    return coded.are_distinct and not has_floats and bool(partials.schema.equals(plan.partial_schema))
