"""`TimeDomain`: which time a timer fires by (PyFlink: ``pyflink.datastream.time_domain``)."""

from tidegate.functions.time_domain import (
    TimeDomain,
)

__all__ = [
    "TimeDomain",
]
