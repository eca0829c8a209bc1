"""`RuntimeExecutionMode`: how a program runs (PyFlink: ``pyflink.datastream.execution_mode``)."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """``BATCH`` needs bounded sources; ``reduce`` then gives only its last result for each key. ``AUTOMATIC`` is BATCH
    when all sources are bounded. Everything else runs alike: records flow through all operators at once."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
