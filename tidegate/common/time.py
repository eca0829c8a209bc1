"""Lengths and points of time (PyFlink: ``pyflink.common.time``). Lengths are kept in whole nanoseconds, so that nothing
is rounded before the end; everything in tidegate counts milliseconds."""

from __future__ import annotations

from tidegate.records.time import Duration, Instant, Time

__all__ = ["Duration", "Instant", "Time"]
