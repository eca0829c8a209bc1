"""`TimeDomain`: which time a timer fires by (PyFlink: ``pyflink.datastream.time_domain``)."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeDomain"]


class TimeDomain(Enum):
    """Says whether a timer fires by event time or by the clock (PyFlink: ``TimeDomain``)."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
