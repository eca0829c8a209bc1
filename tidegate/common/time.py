"""Durations and points in time (PyFlink: ``pyflink.common.time``). Durations are kept in whole nanoseconds; everything in tidegate counts milliseconds."""

from __future__ import annotations

from tidegate.records.time import Duration, Instant, Time

__all__ = ["Duration", "Instant", "Time"]
