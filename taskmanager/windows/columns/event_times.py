"""Event times of the rows that arrive at a window."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.model.errors import SchemaMismatch
from tidegate.records.batch import ArrowBatch


def timestamps_of(batch: ArrowBatch, operator: str) -> npt.NDArray[np.int64]:
    """Returns the timestamps of a batch's rows. Raises ``SchemaMismatch`` when a row has none."""
    if batch.timestamps is None or batch.timestamps.null_count:
        raise SchemaMismatch(
            f"operator '{operator}': a row without a timestamp came to an event-time window: give the stream a "
            "WatermarkStrategy with a timestamp column or assigner before the window"
        )
    times: npt.NDArray[np.int64] = batch.timestamps.to_numpy()
    return times
