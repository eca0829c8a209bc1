"""`TimerService`: time and timers for functions (PyFlink: ``pyflink.datastream.timerservice``)."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["TimerService"]


class TimerService(ABC):
    """Access to time and timers (PyFlink: ``TimerService``). All times are ms since the epoch. Timers belong to the current key; one that is registered
    twice fires once."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the time of the subtask's clock."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the operator's watermark in ms; before the first one it is the smallest int64."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer that calls ``on_timer`` for the current key when the clock reaches ``timestamp``."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Registers a timer that calls ``on_timer`` for the current key when the watermark reaches ``timestamp``."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes the current key's timer at ``timestamp``, if there is one."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes the current key's timer at ``timestamp``, if there is one."""
