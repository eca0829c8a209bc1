"""Parsing and formatting of dates and times in Flink's two standards, ``SQL`` (``2020-01-02 03:04:05.123``) and ``ISO-8601``
(``2020-01-02T03:04:05.123``).

Flink: ``TimeFormats`` and ``TimestampFormat``. Values are whole numbers: days since 1970, nanoseconds of the day, nanoseconds since 1970.
"""

from __future__ import annotations

import re
from enum import Enum

from tidegate.table._formats.errors import Unreadable

DAY_NS = 86_400_000_000_000
"""Nanoseconds of a day."""
_DATE = r"(-?[0-9]{4}|[+-][0-9]{5,9})-([0-9]{2})-([0-9]{2})"
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{0,9}))?"
_ISO_TIME = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{0,9}))?)?"
_DATE_ALONE, _TIME_ALONE = re.compile(_DATE), re.compile(_TIME)
_SQL, _ISO = re.compile(f"{_DATE} {_TIME}"), re.compile(f"{_DATE}T{_ISO_TIME}")
_ISO_INSTANT = re.compile(f"{_DATE}T{_TIME}")
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of the months of a common year."""


class TimestampStandard(Enum):
    """The text form of timestamps (Flink: ``TimestampFormat``)."""

    SQL = "SQL"
    ISO_8601 = "ISO-8601"

    @property
    def separator(self) -> str:
        return " " if self is TimestampStandard.SQL else "T"


def date_of(text: str) -> int:
    """Parses a date to days since 1970. Raises ``Unreadable`` for an invalid one, such as the 30th of February."""
    found = _DATE_ALONE.fullmatch(text)
    if found is None:
        raise Unreadable(f"{text!r} is no date yyyy-MM-dd")
    return _days(text, found[1], found[2], found[3], clamps=False)


def time_of(text: str) -> int:
    """Parses a time to nanoseconds of the day; 24:00:00 is midnight. Raises ``Unreadable``."""
    found = _TIME_ALONE.fullmatch(text)
    if found is None:
        raise Unreadable(f"{text!r} is no time HH:mm:ss")
    return _nanos(text, *found.groups()) % DAY_NS


def timestamp_of(text: str, standard: TimestampStandard) -> int:
    """Parses a timestamp without a zone to nanoseconds since 1970. ``SQL`` reads the 30th of February as the month's last day. Raises ``Unreadable``."""
    is_sql = standard is TimestampStandard.SQL
    found = (_SQL if is_sql else _ISO).fullmatch(text)
    if found is None:
        raise Unreadable(f"{text!r} is no timestamp yyyy-MM-dd{'' if is_sql else 'T'}{' ' if is_sql else ''}HH:mm:ss")
    year, month, day, *time = found.groups()
    if not is_sql and time[0] == "24":
        raise Unreadable(f"{text!r} has no hour of the day")
    return _days(text, year, month, day, clamps=is_sql) * DAY_NS + _nanos(text, *time)


def instant_of(text: str, standard: TimestampStandard) -> int:
    """Parses a timestamp that ends in ``Z`` to nanoseconds since 1970. Raises ``Unreadable``."""
    bare = text.removesuffix("Z")
    if bare == text or (standard is TimestampStandard.ISO_8601 and _ISO_INSTANT.fullmatch(bare) is None):
        raise Unreadable(f"{text!r} is no timestamp in UTC: it does not end with seconds and Z")
    return timestamp_of(bare, standard)


def date_text(days: int) -> str:
    """Formats days since 1970 as ``2020-01-02``."""
    year, month, day = _civil(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def time_text(nanos: int) -> str:
    """Formats nanoseconds of the day as ``12:34:56``, with a fraction if there is one."""
    seconds, fraction = divmod(nanos, 1_000_000_000)
    minutes, second = divmod(seconds, 60)
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}{digits}"


def timestamp_text(nanos: int, standard: TimestampStandard) -> str:
    """Formats nanoseconds since 1970 as ``2020-01-02 03:04:05``, or with a ``T``."""
    days, rest = divmod(nanos, DAY_NS)
    return f"{date_text(days)}{standard.separator}{time_text(rest)}"


def _nanos(text: str, hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    parts = int(hour), int(minute), int(second or 0)
    nanos = int((fraction or "").ljust(9, "0"))
    is_of_day = parts[0] < 24 and parts[1] < 60 and parts[2] < 60
    if not is_of_day and (parts != (24, 0, 0) or nanos):
        raise Unreadable(f"{text!r} has no time of the day")
    return ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1_000_000_000 + nanos


def _days(text: str, year_text: str, month_text: str, day_text: str, *, clamps: bool) -> int:
    year, month, day = int(year_text), int(month_text), int(day_text)
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        raise Unreadable(f"{text!r} has no day of the calendar")
    last = _DAYS[month - 1] + (month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
    if day > last:
        if not clamps:
            raise Unreadable(f"{text!r} has no day of the calendar")
        day = last
    shifted = year - (month <= 2)  # a year that begins in March has its leap day at the end
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    year = era * 400 + year_of_era + (month >= 10)
    return year, month + 3 if month < 10 else month - 9, day_of_year - (153 * month + 2) // 5 + 1
