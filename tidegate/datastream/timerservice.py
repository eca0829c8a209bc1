"""`TimerService`: time and timers, as functions see them (PyFlink: ``pyflink.datastream.timerservice``)."""

from tidegate.functions.timerservice import (
    TimerService,
)

__all__ = [
    "TimerService",
]
