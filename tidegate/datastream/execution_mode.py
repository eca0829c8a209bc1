"""`RuntimeExecutionMode`: streaming or batch execution (PyFlink: ``pyflink.datastream.execution_mode``)."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """How a program is executed. ``BATCH`` needs bounded sources: keyed operators read their input sorted by key, one key after the other, and emit
    results when all of it was read; there are no checkpoints (docs/guide/batch_mode.md). ``AUTOMATIC`` is BATCH when all sources are bounded."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
