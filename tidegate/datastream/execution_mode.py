"""`RuntimeExecutionMode`: how a program runs (PyFlink: ``pyflink.datastream.execution_mode``)."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """``BATCH`` needs bounded sources: operators with keys see their input sorted by key, one key after the other, and give their
    results when all of it was read; there are no checkpoints (docs/guide/batch_mode.md). ``AUTOMATIC`` is BATCH when all sources
    are bounded."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
