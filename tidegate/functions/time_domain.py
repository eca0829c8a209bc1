"""`TimeDomain`: whether a timer fires by event time or processing time (PyFlink: ``pyflink.datastream.time_domain``)."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeDomain"]


class TimeDomain(Enum):
    """Whether a timer fires by event time or by the clock (PyFlink: ``TimeDomain``)."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
