"""Durations and points in time (PyFlink: ``pyflink.common.time``)."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.values import FieldValue
from tidegate.model.whole_numbers import whole_number

__all__ = ["Duration", "Instant", "Time"]

_NANOS_PER_MS = 1_000_000
"""The nanoseconds of a millisecond: a conversion."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time, kept in whole nanoseconds: ``Duration.of_seconds(20)``."""

    nanos: int

    @staticmethod
    def of_days(days: int) -> Duration:
        """Creates a duration of ``days`` days of 24 hours."""
        return Duration(_whole("Duration.of_days", days, 86_400_000 * _NANOS_PER_MS))

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Creates a duration of ``hours`` hours."""
        return Duration(_whole("Duration.of_hours", hours, 3_600_000 * _NANOS_PER_MS))

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Creates a duration of ``minutes`` minutes."""
        return Duration(_whole("Duration.of_minutes", minutes, 60_000 * _NANOS_PER_MS))

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Creates a duration of ``seconds`` seconds."""
        return Duration(_whole("Duration.of_seconds", seconds, 1000 * _NANOS_PER_MS))

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Creates a duration of ``millis`` milliseconds."""
        return Duration(_whole("Duration.of_millis", millis, _NANOS_PER_MS))

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Creates a duration of ``nanos`` nanoseconds."""
        return Duration(_whole("Duration.of_nanos", nanos))

    def to_millis(self) -> int:
        """Returns the milliseconds, rounded down."""
        return self.nanos // _NANOS_PER_MS


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A point in time in UTC: ``seconds`` since the epoch and ``nanos`` (0 to 999,999,999) within the second."""

    seconds: int
    nanos: int

    def to_epoch_milli(self) -> int:
        """Returns the milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // _NANOS_PER_MS

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Creates an instant from milliseconds since the epoch."""
        return Instant(epoch_milli // 1000, epoch_milli % 1000 * _NANOS_PER_MS)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


@dataclass(frozen=True, slots=True, order=True)
class Time:
    """A length of time, such as the size of a window: ``Time.minutes(5)``."""

    _milliseconds: int

    def __init__(self, milliseconds: int) -> None:
        object.__setattr__(self, "_milliseconds", _whole("Time", milliseconds))

    def to_milliseconds(self) -> int:
        """Returns the length in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Creates a length of ``milliseconds`` milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Creates a length of ``seconds`` seconds."""
        return Time(_whole("Time.seconds", seconds, 1000))

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Creates a length of ``minutes`` minutes."""
        return Time(_whole("Time.minutes", minutes, 60_000))

    @staticmethod
    def hours(hours: int) -> Time:
        """Creates a length of ``hours`` hours."""
        return Time(_whole("Time.hours", hours, 3_600_000))

    @staticmethod
    def days(days: int) -> Time:
        """Creates a length of ``days`` days of 24 hours."""
        return Time(_whole("Time.days", days, 86_400_000))

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"


def to_millis(length: Time | Duration | int, what: str = "a length of time in ms") -> int:
    """Converts a length of time to milliseconds: a ``Time``, a ``Duration``, or a number of milliseconds. Raises ``InvalidJob`` for other values;
    ``what`` names the value in its message."""
    if isinstance(length, Time):
        return length.to_milliseconds()
    if isinstance(length, Duration):
        length = length.to_millis()
    return whole_number(length, what)


def _whole(maker: str, amount: FieldValue, unit: int = 1) -> int:
    """Returns ``amount`` times ``unit`` as a whole number: half a second is 500 ms. Raises ``InvalidJob`` naming ``maker``."""
    if isinstance(amount, float) and (amount * unit).is_integer():
        return int(amount * unit)
    return whole_number(amount, maker) * unit


for _public in (Duration, Instant, Time):
    _public.__module__ = "tidegate.common.time"  # as pickles and keys in checkpoints have it
