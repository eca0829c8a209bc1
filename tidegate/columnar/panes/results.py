"""The times and results of windows, which are numbered.

A window has a number; ``finish`` gives it its times. What partials are, and how rows become some: ``aggregates.plan``, ``grouping``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.columnar.aggregates.names import WINDOW
from tidegate.columnar.aggregates.plan import AggregatePlan, result_of
from tidegate.columnar.keys.codes import as_numpy
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK

WINDOW_START = "window_start"
WINDOW_END = "window_end"


def finish(
    plan: AggregatePlan, partials: pa.RecordBatch, size_ms: int, slide_ms: int, offset_ms: int
) -> pa.RecordBatch:
    """Computes the results of windows: ``window_start``, ``window_end``, keys, aggregates. ``plan`` is one ``by_window``."""
    starts = as_numpy(partials.column(WINDOW)) * slide_ms + offset_ms
    ends = np.where(starts > END_OF_TIME - size_ms, END_OF_TIME, starts + size_ms)
    columns = dict(zip(partials.schema.names, partials.columns, strict=True))
    names = [WINDOW_START, WINDOW_END, *plan.key_names[1:], *(result.name for result in plan.results)]
    arrays = [pa.array(starts), pa.array(ends), *(columns[name] for name in plan.keys[1:])]
    arrays += [result_of(result, columns) for result in plan.results]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def last_ended(watermark: int, size_ms: int, slide_ms: int, offset_ms: int) -> int:
    """Returns the number of the last window that ``watermark`` ends, as an int64. One begins every ``slide_ms``."""
    number = (watermark + 1 - offset_ms - size_ms) // slide_ms
    return max(NO_WATERMARK, min(number, END_OF_TIME))


def with_windows(windows: pa.Array, data: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Returns the columns ``names`` of ``data`` after the number of each row's window (int64), which is column 0."""
    return pa.RecordBatch.from_arrays([windows, *(data.column(name) for name in names)], names=[WINDOW, *names])
