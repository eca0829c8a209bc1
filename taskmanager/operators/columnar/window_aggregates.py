"""Windows as numbers and times, and their results.

A window has a number; ``finish`` gives it its times. What partials are, and how rows become some: ``aggregate_plan``, ``grouping``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.common.records.batch import MIN_TIMESTAMP, ArrowBatch
from tidegate.common.records.partial_names import WINDOW
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import SchemaMismatch
from tidegate.taskmanager.operators.columnar.aggregate_plan import AggregatePlan, result_of
from tidegate.taskmanager.operators.keys.key_codes import as_numpy

WINDOW_START = "window_start"
WINDOW_END = "window_end"


def finish(
    plan: AggregatePlan, partials: pa.RecordBatch, size_ms: int, slide_ms: int, offset_ms: int
) -> pa.RecordBatch:
    """The results of windows: ``window_start``, ``window_end``, keys, aggregates. ``plan`` is one ``by_window``."""
    starts = as_numpy(partials.column(WINDOW)) * slide_ms + offset_ms
    ends = np.where(starts > END_OF_TIME - size_ms, END_OF_TIME, starts + size_ms)
    columns = dict(zip(partials.schema.names, partials.columns, strict=True))
    names = [WINDOW_START, WINDOW_END, *plan.key_names[1:], *(result.name for result in plan.results)]
    arrays = [pa.array(starts), pa.array(ends), *(columns[name] for name in plan.keys[1:])]
    arrays += [result_of(result, columns) for result in plan.results]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def timestamps_of(batch: ArrowBatch, operator: str) -> npt.NDArray[np.int64]:
    """Raises ``SchemaMismatch`` when a row has no timestamp."""
    if batch.timestamps is None or batch.timestamps.null_count:
        raise SchemaMismatch(
            f"operator '{operator}': a row without a timestamp came to an event-time window: give the stream a "
            "WatermarkStrategy with a timestamp column or assigner before the window"
        )
    return as_numpy(batch.timestamps)


def last_ended(watermark: int, size_ms: int, slide_ms: int, offset_ms: int) -> int:
    """Number of the last window that ``watermark`` ends, as an int64. One begins every ``slide_ms``."""
    number = (watermark + 1 - offset_ms - size_ms) // slide_ms
    return max(MIN_TIMESTAMP, min(number, END_OF_TIME))


def with_windows(windows: pa.Array, data: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([windows, *(data.column(name) for name in names)], names=[WINDOW, *names])
