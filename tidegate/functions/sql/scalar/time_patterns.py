"""Date and time patterns of ``java.time.format.DateTimeFormatter`` and ``java.text.SimpleDateFormat``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from tidegate.functions.sql.scalar.calendar import (
    civil_from_days,
    days_from_civil,
    legacy_instant,
    offsets,
    to_instant,
    zone,
)
from tidegate.plan.errors import UnsupportedPlan

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS: Final = frozenset("yuMLdDEaHhKkmsSwQzZXx")
_CUTOVER: Final = -141_427
"""1582-10-15, the first day of the Gregorian calendar: ``SimpleDateFormat`` uses the Julian one before it."""


@dataclass(frozen=True)
class Token:
    """A token of a pattern: a run of one letter, or a literal text (``letter`` is empty)."""

    letter: str
    count: int
    text: str = ""


@lru_cache(maxsize=256)
def tokens(pattern: str) -> tuple[Token, ...]:
    """Splits a pattern into tokens. Raises ``UnsupportedPlan`` for an unsupported letter."""
    found: list[Token] = []
    for match in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']", pattern):
        text = match[0]
        if match[2]:
            if match[2] not in _LETTERS:
                raise UnsupportedPlan(f"the letter {match[2]!r} of the pattern {pattern!r} is not supported")
            found.append(Token(match[2], len(text)))
        elif match[1] is not None:
            found.append(Token("", 0, match[1].replace("''", "'") or "'"))
        else:
            found.append(Token("", 0, text))
    return tuple(found)


def write(pattern: str, ms: int, nanos: int, time_zone: str, *, is_simple: bool) -> str:
    """Formats a local time (ms since 1970 and the ns within its second). ``is_simple``: as ``SimpleDateFormat``, with the Julian calendar before
    1582-10-15."""
    days, of_day = divmod(ms, 86_400_000)
    if is_simple and days < _CUTOVER:
        year, month, day = _julian(days)
    else:
        year, month, day = _civil(days)
    hour, minute, second = of_day // 3_600_000, of_day // 60_000 % 60, of_day // 1000 % 60
    parts: list[str] = []
    for token in tokens(pattern):
        count = token.count
        match token.letter:
            case "":
                parts.append(token.text)
            case "y" | "u":
                parts.append(_year(year, count, is_simple))
            case "M" | "L":
                name = MONTHS[month - 1]
                parts.append(name if count >= 4 else name[:3] if count == 3 else f"{month:0{count}d}")
            case "d":
                parts.append(f"{day:0{count}d}")
            case "D":
                parts.append(f"{days - _day(year, 1, 1, is_simple) + 1:0{count}d}")
            case "E":
                name = WEEKDAYS[(days + 3) % 7]
                parts.append(name if count >= 4 else name[:3])
            case "a":
                parts.append("AM" if hour < 12 else "PM")
            case "H":
                parts.append(f"{hour:0{count}d}")
            case "h":
                parts.append(f"{hour % 12 or 12:0{count}d}")
            case "K":
                parts.append(f"{hour % 12:0{count}d}")
            case "k":
                parts.append(f"{hour or 24:0{count}d}")
            case "m":
                parts.append(f"{minute:0{count}d}")
            case "s":
                parts.append(f"{second:0{count}d}")
            case "S":
                parts.append(f"{of_day % 1000:0{count}d}" if is_simple else f"{nanos:09d}"[:count].ljust(count, "0"))
            case "w":
                parts.append(f"{_week(days, year, is_simple):0{count}d}")
            case "Q":
                parts.append(f"{(month + 2) // 3:0{count}d}")
            case _:
                parts.append(_zone_text(token, ms, time_zone))
    return "".join(parts)


def _year(year: int, count: int, is_simple: bool) -> str:
    if count == 2:
        return f"{year % 100:02d}"
    shown = year if year > 0 else 1 - year
    text = f"{shown:0{count}d}"
    return "+" + text if len(text) > max(count, 4) and not is_simple and count >= 4 else text


def _week(days: int, year: int, is_simple: bool) -> int:
    """Returns the week of a date; weeks begin on Sunday, and the first contains January 1st."""
    saturday = days + (6 - (days + 4) % 7)
    following = _day(year + 1, 1, 1, is_simple)
    if saturday >= following:
        return 1
    first = _day(year, 1, 1, is_simple)
    return (days - (first - (first + 4) % 7)) // 7 + 1


def _zone_text(token: Token, ms: int, time_zone: str) -> str:
    second = int(to_instant(np.array([ms // 1000], np.int64), time_zone)[0])
    offset = int(offsets(np.array([second], np.int64), time_zone)[0])
    if token.letter == "z":
        from datetime import UTC, datetime, timedelta

        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
        return moment.astimezone(zone(time_zone)).tzname() or time_zone
    if token.letter == "X" and not offset:
        return "Z"
    sign, minutes = "-" if offset < 0 else "+", abs(offset) // 60
    colon = ":" if token.count >= 3 and token.letter != "Z" else ""
    if token.count == 1 and token.letter in "Xx" and minutes % 60 == 0:
        return f"{sign}{minutes // 60:02d}"
    return f"{sign}{minutes // 60:02d}{colon}{minutes % 60:02d}"


def read_simple(pattern: str, text: str, time_zone: str) -> int | None:
    """Parses a time as a lenient ``SimpleDateFormat``: fields may be out of range, trailing text is ignored. Returns ms since 1970 in UTC, ``None`` for
    an invalid text."""
    fields = {"y": 1970, "M": 1, "d": 1, "H": 0, "m": 0, "s": 0, "S": 0, "D": 0}
    afternoon: bool | None = None
    offset: int | None = None
    at = 0
    parts = tokens(pattern)
    for index, token in enumerate(parts):
        if not token.letter:
            if not text.startswith(token.text, at):
                return None
            at += len(token.text)
            continue
        while at < len(text) and text[at] in " \t":
            at += 1
        letter = {"u": "y", "L": "M", "k": "H", "h": "K"}.get(token.letter, token.letter)
        if letter == "a":
            if text[at : at + 2].upper() not in ("AM", "PM"):
                return None
            afternoon, at = text[at : at + 2].upper() == "PM", at + 2
        elif letter in "zZXx":
            match = re.compile(r"Z|GMT|UTC|([+-])(\d{2}):?(\d{2})?").match(text, at)
            if match is None:
                return None
            offset = 0 if not match[1] else int(match[1] + "1") * (int(match[2]) * 3600 + int(match[3] or 0) * 60)
            at = match.end()
        elif letter == "E" or (letter == "M" and token.count >= 3):
            names = WEEKDAYS if letter == "E" else MONTHS
            for number, name in enumerate(names, 1):
                found = next((n for n in (name, name[:3]) if text[at : at + len(n)].lower() == n.lower()), None)
                if found:
                    at += len(found)
                    if letter == "M":
                        fields["M"] = number
                    break
            else:
                return None
        else:
            is_abutting = index + 1 < len(parts) and parts[index + 1].letter not in ("", "a", "E")
            number_at = re.compile(rf"-?\d{{1,{token.count}}}" if is_abutting else r"-?\d+").match(text, at)
            if number_at is None:
                return None
            value, at = int(number_at[0]), number_at.end()
            if letter == "y" and token.count <= 2 and len(number_at[0]) == 2:
                value += 2000 if value < 46 else 1900
            fields[letter] = value
    hour = fields["H"]
    if "K" in fields:
        hour = fields["K"] % 12 + (12 if afternoon else 0)
    elif token_letters(pattern) & {"k"} and hour == 24:
        hour = 0
    months = fields["y"] * 12 + fields["M"] - 1
    day = _lenient_day(months // 12, months % 12 + 1) + fields["d"] - 1
    if fields["D"]:
        day = _day(fields["y"], 1, 1, True) + fields["D"] - 1
    seconds = day * 86_400 + hour * 3600 + fields["m"] * 60 + fields["s"]
    ms = seconds * 1000 + fields["S"]
    if offset is not None:
        return ms - offset * 1000
    local = ms // 1000
    return ms + (int(legacy_instant(np.array([local], np.int64), time_zone)[0]) - local) * 1000


def token_letters(pattern: str) -> set[str]:
    """Returns the letters of a pattern."""
    return {token.letter for token in tokens(pattern)}


@lru_cache(maxsize=256)
def _strict(pattern: str) -> tuple[re.Pattern[str], tuple[Token, ...]]:
    parts = tokens(pattern)
    text: list[str] = []
    for index, token in enumerate(parts):
        before, after = (parts[i].letter if 0 <= i < len(parts) else "" for i in (index - 1, index + 1))
        is_abutting = bool((before or after) and (before + after).strip("aE"))
        match token.letter:
            case "":
                text.append(re.escape(token.text))
            case "M" | "L" if token.count >= 3:
                names = MONTHS if token.count >= 4 else [name[:3] for name in MONTHS]
                text.append("(" + "|".join(names) + ")")
            case "E":
                days = WEEKDAYS if token.count >= 4 else [name[:3] for name in WEEKDAYS]
                text.append("(" + "|".join(days) + ")")
            case "a":
                text.append("(AM|PM)")
            case "z" | "Z" | "X" | "x":
                text.append(r"(Z|[+-]\d{2}:?\d{2}|[+-]\d{2})")
            case "y" | "u" if token.count != 2:
                text.append(rf"(\d{{{token.count}}})" if is_abutting else rf"(\d{{{token.count},9}})")
            case "S":
                text.append(rf"(\d{{{token.count}}})")
            case _:
                text.append(r"(\d{1,2})" if token.count == 1 else rf"(\d{{{token.count}}})")
    return re.compile("".join(text)), tuple(token for token in parts if token.letter)


def read_strict(pattern: str, text: str) -> int | None:
    """Parses a time as a ``DateTimeFormatter`` does; a day up to the 31st is limited to its month. Returns ns since 1970 as a local time, ``None`` for
    an invalid text."""
    expression, parts = _strict(pattern)
    match = expression.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, nanos = 1970, 1, 1, 0, 0, 0, 0
    afternoon: bool | None = None
    for token, value in zip(parts, match.groups(), strict=True):
        match token.letter:
            case "y" | "u":
                year = int(value) + (2000 if token.count == 2 else 0)
            case "M" | "L":
                names = [name[: len(value)] for name in MONTHS]
                month = names.index(value) + 1 if token.count >= 3 else int(value)
            case "d":
                day = int(value)
            case "H" | "k":
                hour = int(value) % 24 if token.letter == "k" else int(value)
            case "h" | "K":
                hour = int(value) % 12
            case "m":
                minute = int(value)
            case "s":
                second = int(value)
            case "S":
                nanos = int(value.ljust(9, "0")[:9])
            case "a":
                afternoon = value == "PM"
    if afternoon:
        hour = hour % 12 + 12
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        return None
    following = int(days_from_civil(year + month // 12, month % 12 + 1, 1))
    days = min(int(days_from_civil(year, month, day)), following - 1)
    return ((days * 86_400) + hour * 3600 + minute * 60 + second) * 1_000_000_000 + nanos


def _civil(days: int) -> tuple[int, int, int]:
    year, month, day = civil_from_days(np.array([days], np.int64))
    return int(year[0]), int(month[0]), int(day[0])


def _julian(days: int) -> tuple[int, int, int]:
    c = days + 2_440_588 + 32_082
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    return d - 4800 + m // 10, m + 3 - 12 * (m // 10), e - (153 * m + 2) // 5 + 1


def _julian_day(year: int, month: int, day: int) -> int:
    a = (14 - month) // 12
    y, m = year + 4800 - a, month + 12 * a - 3
    return day + (153 * m + 2) // 5 + 365 * y + y // 4 - 32_083 - 2_440_588


def _day(year: int, month: int, day: int, is_simple: bool) -> int:
    gregorian = int(days_from_civil(year, month, day))
    return _julian_day(year, month, day) if is_simple and gregorian < _CUTOVER else gregorian


def _lenient_day(year: int, month: int) -> int:
    return _day(year, month, 1, True)
