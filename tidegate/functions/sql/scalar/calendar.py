"""Dates and times as numbers: the proleptic Gregorian calendar over NumPy, offsets of time zones, and Flink's texts of them.

Sources: Flink's ``DateTimeUtils`` (2.3) and the parts of Calcite's that it took over. A date is a number of days since 1970-01-01.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
DAY_MS: Final = 86_400_000
_FIRST_TRANSITION: Final = -2_208_988_800
"""1900-01-01 in UTC, before which ``java.util.TimeZone`` knows no transitions."""
UNITS_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
EPOCH_JULIAN: Final = 2440588
"""The Julian day of 1970-01-01."""


def to_millis(values: Longs, per_second: int) -> Longs:
    """Returns counts of fractions of a second, at least of ms, as ms, rounded down."""
    return values // (per_second // 1000)


def civil_from_days(days: Longs) -> tuple[Longs, Longs, Longs]:
    """Returns year, month and day of each date."""
    z = days + 719_468
    era = z // 146_097
    doe = z - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = np.where(mp < 10, mp + 3, mp - 9)
    return yoe + era * 400 + (month <= 2), month, day


def days_from_civil(year: Any, month: Any, day: Any) -> Any:
    """Returns the date of year, month and day, numbers or arrays of them."""
    y = year - (month <= 2)
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month + 12 * (month <= 2) - 3) + 2) // 5 + day - 1
    doe = yoe * 365 + yoe // 4 - yoe // 100 + doy
    return era * 146_097 + doe - 719_468


def month_lengths(year: Longs, month: Longs) -> Longs:
    """Returns the number of days of each month."""
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[month - 1]
    found: Longs = lengths + (leap & (month == 2))
    return found


def add_months(days: Longs, months: Any) -> Longs:
    """Returns the dates some months later; the day is limited to the length of its month."""
    year, month, day = civil_from_days(days)
    total = year * 12 + (month - 1) + months
    year, month = total // 12, total % 12 + 1
    found: Longs = days_from_civil(year, month, np.minimum(day, month_lengths(year, month)))
    return found


def truncating_divide(left: Longs, right: Any) -> Longs:
    """Returns quotients truncated towards zero, as in Java."""
    quotient = left // right
    found: Longs = quotient + ((left % right != 0) & (quotient < 0))
    return found


def is_valid_date(year: int, month: int, day: int) -> bool:
    """Returns whether the date exists."""
    if not 1 <= month <= 12 or day < 1:
        return False
    return day <= int(month_lengths(np.array([year]), np.array([month]))[0])


def parse_date(text: str) -> int | None:
    """Parses a date as ``CAST(text AS DATE)``: ``yyyy[-M[-d]]`` and anything after a blank. ``None`` for an invalid date."""
    text = text.strip()
    head = text.split(" ", 1)[0]
    parts = head.split("-")
    if len(parts) > 3 or not all(_DIGITS.fullmatch(part) for part in parts) or len(parts[0]) > 4:
        return None
    year, month, day = (*map(int, parts), *([1] * (3 - len(parts))))
    if year > 9999 or not is_valid_date(year, month, day):
        return None
    return int(days_from_civil(year, month, day))


def parse_time_ms(text: str) -> int | None:
    """Parses a time as ``CAST(text AS TIME)``: ``H[:m[:s[.fraction]]]``, in ms of the day."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    hour, minute, second = int(match[1]), int(match[2] or 0), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int((match[4] or "")[:3].ljust(3, "0") or 0)
    return ((hour * 60 + minute) * 60 + second) * 1000 + fraction


def parse_timestamp(text: str) -> int | None:
    """Parses a timestamp as ``CAST(text AS TIMESTAMP)``: ``yyyy-M-d[ H:m:s[.fraction]]``, in ns since 1970. A day up to the 31st is limited to the
    length of its month, as by Java's smart resolver; years begin at 1."""
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not year or not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    length = int(month_lengths(np.array([year]), np.array([month]))[0])
    hour, minute, second = int(match[4] or 0), int(match[5] or 0), int(match[6] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    days = int(days_from_civil(year, month, min(day, length)))
    nanos = int((match[7] or "").ljust(9, "0") or 0)
    return (days * 86_400 + (hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos


@lru_cache(maxsize=64)
def zone(name: str) -> ZoneInfo:
    """Returns a time zone by its name or as an offset such as ``GMT+02:00``. Raises ``ValueError``."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"unknown time zone {name!r}") from error


@lru_cache(maxsize=262_144)
def _offset_at_hour(name: str, hour: int) -> int | None:
    """Returns the offset of a zone in s during a quarter of an hour, ``None`` if it changes in it."""
    first, last = _offset_seconds(name, hour * 900), _offset_seconds(name, hour * 900 + 899)
    return first if first == last else None


def _offset_seconds(name: str, second: int) -> int:
    moment = datetime(1970, 1, 1, tzinfo=UTC)
    low, high = -62_135_596_800 + 86_400 * 2, 253_402_300_799 - 86_400 * 2
    moment += timedelta(seconds=min(max(second, low), high))
    offset = moment.astimezone(zone(name)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def offset_at(second: int, name: str) -> int:
    """Returns a zone's offset from UTC, in s, at a moment (s since 1970 in UTC)."""
    found = _offset_at_hour(name, second // 900)
    return _offset_seconds(name, second) if found is None else found


def offsets(seconds: Longs, name: str) -> Longs:
    """Returns a zone's offset from UTC, in s, at each moment (s since 1970 in UTC)."""
    if name in ("UTC", "GMT", "Z", "Etc/UTC"):
        return np.zeros(len(seconds), np.int64)
    quarters, back = np.unique(seconds // 900, return_inverse=True)
    found = [_offset_at_hour(name, int(quarter)) for quarter in quarters]
    if None in found:
        return np.array([_offset_seconds(name, int(second)) for second in seconds], np.int64)
    return np.array(found, np.int64)[back]


def legacy_offsets(seconds: Longs, name: str) -> Longs:
    """Returns offsets as ``java.util.TimeZone`` does, with today's standard offset before 1900 instead of local mean time."""
    found = offsets(seconds, name)
    old = seconds < _FIRST_TRANSITION
    return np.where(old, _standard_offset(name), found) if old.any() else found


@lru_cache(maxsize=64)
def _standard_offset(name: str) -> int:
    january = datetime(2026, 1, 15, tzinfo=UTC).astimezone(zone(name))
    offset, saving = january.utcoffset(), january.dst()
    assert offset is not None
    return int((offset - (saving or timedelta())).total_seconds())


def legacy_instant(local: Longs, name: str) -> Longs:
    """Converts local times to moments as ``java.util.GregorianCalendar`` does: of two moments with the same local time the later, in standard time, and
    before 1900 by the standard offset."""
    before, after = legacy_offsets(local - 86_400, name), legacy_offsets(local + 86_400, name)
    late = local - after
    return np.where(legacy_offsets(late, name) == after, late, local - before)


def to_instant(local: Longs, name: str) -> Longs:
    """Returns the moments (s since 1970 in UTC) of local times (s). In a gap the clock is moved forward by its length, in an overlap
    the earlier offset counts, as in ``java.time.ZonedDateTime.ofLocal``."""
    if name in ("UTC", "GMT", "Z", "Etc/UTC"):
        return local
    before = offsets(local - 86_400, name)
    after = offsets(local + 86_400, name)
    early, late = local - before, local - after
    early_fits = offsets(early, name) == before
    late_fits = offsets(late, name) == after
    return np.where(early_fits | ~late_fits, early, late)


_DIGITS: Final = re.compile("[0-9]+")
_TIME: Final = re.compile(r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?)?")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{0,9}))?)?"
)
