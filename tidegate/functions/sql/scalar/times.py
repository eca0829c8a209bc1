"""Date and time functions, after Flink's ``DateTimeUtils`` (2.3), with its results for moments before 1970."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar.arrow_types import time_unit
from tidegate.functions.sql.scalar.calendar import (
    DAY_MS,
    EPOCH_JULIAN,
    UNITS_PER_SECOND,
    Longs,
    civil_from_days,
    days_from_civil,
    legacy_offsets,
    offsets,
    parse_date,
    parse_timestamp,
    to_instant,
    to_millis,
    truncating_divide,
)
from tidegate.functions.sql.scalar.context import EvaluationError
from tidegate.functions.sql.scalar.kernels import (
    by_value,
    distinct,
    elementwise,
    from_numpy,
    longs,
    null_mask,
    to_numpy,
)
from tidegate.functions.sql.scalar.registry import Datum, Evaluate, KernelKind, Rows, ScalarCall, function
from tidegate.functions.sql.scalar.time_patterns import read_simple, read_strict, tokens, write
from tidegate.plan.logical_types import LogicalType, TypeRoot

STAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
_LONG_MIN = -(1 << 63)
"""Java's smallest long, which Flink returns for an invalid time."""


def local_millis(array: pa.Array, type: LogicalType, zone: str) -> Longs:
    """Returns local ms since 1970 in the session's time zone; of a date its midnight, of a time the ms of the day."""
    values = longs(array)
    if type.root is TypeRoot.DATE:
        return values * DAY_MS
    if type.root is TypeRoot.TIME:
        return values
    unit = UNITS_PER_SECOND[time_unit(type)]
    if type.root is TypeRoot.TIMESTAMP_LTZ:
        values = values + legacy_offsets(values // unit, zone) * unit
    return to_millis(values, unit)


@function("EXTRACT", kind=KernelKind.NUMPY)
def _extract_call(call: ScalarCall) -> Evaluate:
    """Builds EXTRACT; parts of a moment before 1970 are truncated towards zero, as in Flink."""
    unit, type = call.literal(0), call.operands[1].type
    zone = call.context.time_zone
    if type.root in (TypeRoot.INTERVAL_DAY_TIME, TypeRoot.INTERVAL_YEAR_MONTH):
        interval_part = _INTERVAL_PARTS.get((type.root, unit))
        if interval_part is None:
            raise call.refuse(f"{unit} cannot be extracted from an interval")
        parts = interval_part
        return elementwise(
            call, lambda array: from_numpy(parts(longs(array)), call.arrow, null_mask(array)), columns=[1]
        )
    if type.root not in (*STAMPS, TypeRoot.DATE, TypeRoot.TIME):
        raise call.refuse()
    if unit in ("MICROSECOND", "NANOSECOND") and type.root in STAMPS:
        per_second = UNITS_PER_SECOND[time_unit(type)]
        wanted = 1_000_000 if unit == "MICROSECOND" else 1_000_000_000

        def fraction(array: pa.Array) -> pa.Array:
            rest = np.fmod(longs(array), per_second)
            return from_numpy(rest * wanted // per_second, call.arrow, null_mask(array))

        return elementwise(call, fraction, columns=[1])
    part = _PARTS.get(unit)
    if part is None:
        raise call.refuse(f"the unit {unit} is not supported")
    found = part

    def evaluate(array: pa.Array) -> pa.Array:
        return from_numpy(found(local_millis(array, type, zone)), call.arrow, null_mask(array))

    return elementwise(call, evaluate, columns=[1])


def _days(ms: Longs) -> Longs:
    return truncating_divide(ms, DAY_MS)


def _of_day(divisor: int, modulus: int) -> Callable[[Longs], Longs]:
    return lambda ms: truncating_divide(np.fmod(np.fmod(ms, DAY_MS), modulus), divisor)


def _year(ms: Longs) -> Longs:
    return civil_from_days(_days(ms))[0]


def _iso_year_week(ms: Longs) -> tuple[Longs, Longs]:
    days = _days(ms)
    thursday = days - (days + 3) % 7 + 3
    year = civil_from_days(thursday)[0]
    return year, (thursday - days_from_civil(year, 1, 1)) // 7 + 1


def _era(size: int) -> Callable[[Longs], Longs]:
    def part(ms: Longs) -> Longs:
        year = _year(ms)
        return np.where(year > 0, (year + size - 1) // size, -((size - 1 - year) // size))

    return part


_PARTS: dict[str, Callable[[Longs], Longs]] = {
    "YEAR": _year,
    "QUARTER": lambda ms: (civil_from_days(_days(ms))[1] + 2) // 3,
    "MONTH": lambda ms: civil_from_days(_days(ms))[1],
    "DAY": lambda ms: civil_from_days(_days(ms))[2],
    "WEEK": lambda ms: _iso_year_week(ms)[1],
    "ISOYEAR": lambda ms: _iso_year_week(ms)[0],
    "DOW": lambda ms: (_days(ms) + 4) % 7 + 1,
    "ISODOW": lambda ms: (_days(ms) + 3) % 7 + 1,
    "DOY": lambda ms: _days(ms) - days_from_civil(_year(ms), 1, 1) + 1,
    "EPOCH": lambda ms: truncating_divide(ms, 1000),
    "DECADE": lambda ms: _year(ms) // 10,
    "CENTURY": _era(100),
    "MILLENNIUM": _era(1000),
    "HOUR": _of_day(3_600_000, DAY_MS),
    "MINUTE": _of_day(60_000, 3_600_000),
    "SECOND": _of_day(1000, 60_000),
    "MILLISECOND": _of_day(1, 1000),
}
_INTERVAL_PARTS: dict[tuple[TypeRoot, str], Callable[[Longs], Longs]] = {
    (TypeRoot.INTERVAL_DAY_TIME, "DAY"): lambda ms: truncating_divide(ms, DAY_MS),
    (TypeRoot.INTERVAL_DAY_TIME, "HOUR"): _of_day(3_600_000, DAY_MS),
    (TypeRoot.INTERVAL_DAY_TIME, "MINUTE"): _of_day(60_000, 3_600_000),
    (TypeRoot.INTERVAL_DAY_TIME, "SECOND"): _of_day(1000, 60_000),
    (TypeRoot.INTERVAL_DAY_TIME, "MILLISECOND"): _of_day(1, 1000),
    (TypeRoot.INTERVAL_DAY_TIME, "EPOCH"): lambda ms: truncating_divide(ms, 1000),
    (TypeRoot.INTERVAL_YEAR_MONTH, "YEAR"): lambda months: truncating_divide(months, 12),
    (TypeRoot.INTERVAL_YEAR_MONTH, "MONTH"): lambda months: np.fmod(months, 12),
}
_STEPS = {"DAY": DAY_MS, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000, "MILLISECOND": 1}


def floor_to(call: ScalarCall) -> Evaluate:
    """Builds FLOOR and CEIL of a time to a unit."""
    type, unit = call.operands[0].type, call.literal(1)
    is_floor, zone = "FLOOR" in call.name, call.context.time_zone
    if type.root not in (*STAMPS, TypeRoot.DATE, TypeRoot.TIME):
        raise call.refuse()
    step = _STEPS.get(unit)
    if step is None and unit not in _CALENDAR_UNITS:
        raise call.refuse(f"the unit {unit} is not supported")

    def evaluate(array: pa.Array) -> pa.Array:
        ms = local_millis(array, type, zone)
        if step is not None and not (type.root is TypeRoot.DATE and unit == "DAY"):
            found = ms // step * step if is_floor else -(-ms // step) * step
        else:
            found = _julian_floor(unit, _days(ms), is_floor) * DAY_MS
        if type.root is TypeRoot.DATE:
            found = found // DAY_MS
        elif type.root in STAMPS:
            if type.root is TypeRoot.TIMESTAMP_LTZ:
                found = found - legacy_offsets(longs(array) // UNITS_PER_SECOND[time_unit(type)], zone) * 1000
            found = found * (UNITS_PER_SECOND[time_unit(call.type)] // 1000)
        return from_numpy(found, call.arrow, null_mask(array))

    return elementwise(call, evaluate, columns=[0])


_CALENDAR_UNITS = ("MILLENNIUM", "CENTURY", "DECADE", "YEAR", "QUARTER", "MONTH", "WEEK")


def _julian_floor(unit: str, days: Longs, is_floor: bool) -> Longs:
    """Rounds as Calcite's ``julianDateFloor``: before 1582-10-15 year, month and day are those of the Julian calendar, taken as Gregorian."""
    julian = days + EPOCH_JULIAN
    a = julian + 32044
    is_new = julian > 2299160
    b = np.where(is_new, (4 * a + 3) // 146097, 0)
    c = np.where(is_new, a - b * 146097 // 4, julian + 32082)
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    day, month, year = e - (153 * m + 2) // 5 + 1, m + 3 - 12 * (m // 10), b * 100 + d - 4800 + m // 10
    if unit == "DAY":  # of dates: CEIL takes every one to the next
        return np.asarray(days_from_civil(year, month, day) + (0 if is_floor else 1))
    if unit == "WEEK":
        offset = (julian + 1) % 7
        if not is_floor:
            offset = np.where(offset > 0, offset - 7, offset)
        return np.asarray(days_from_civil(year, month, day) - offset)
    if unit in ("MONTH", "QUARTER"):
        size = 1 if unit == "MONTH" else 3
        first = (month - 1) // size * size + 1
        if not is_floor:
            first = first + np.where((month > first) | (day > 1), size, 0)
        return np.asarray(days_from_civil(year + (first - 1) // 12, (first - 1) % 12 + 1, 1))
    if unit == "YEAR":
        return np.asarray(days_from_civil(year + (0 if is_floor else (month > 1) | (day > 1)), 1, 1))
    if unit == "DECADE":
        return np.asarray(days_from_civil((year // 10 + (0 if is_floor else 1)) * 10, 1, 1))
    size = 100 if unit == "CENTURY" else 1000
    start = (year + size - 1) // size * size
    return np.asarray(days_from_civil(start - (size - 1) if is_floor else start + 1, 1, 1))


@function("DATE_FORMAT", kind=KernelKind.DISTINCT)
def _date_format_call(call: ScalarCall) -> Evaluate:
    type = call.operands[0].type
    zone = call.context.time_zone
    pattern = call.literal(1)
    if pattern is None:
        return lambda rows: pa.scalar(None, pa.string())
    tokens(pattern)
    if type.root in (TypeRoot.CHAR, TypeRoot.VARCHAR):

        def from_text(text: str) -> str | None:
            ms = read_simple(DEFAULT_PATTERN, text, "UTC")
            return None if ms is None else write(pattern, ms, ms % 1000 * 1_000_000, "UTC", is_simple=True)

        return by_value(call, from_text, columns=[0])
    if type.root not in STAMPS:
        raise call.refuse()
    unit = UNITS_PER_SECOND[time_unit(type)]
    is_local = type.root is TypeRoot.TIMESTAMP_LTZ

    def from_stamp(value: int) -> str:
        second, fraction = divmod(value, unit)
        if is_local:
            second += int(offsets(np.array([second]), zone)[0])
        nanos = fraction * (1_000_000_000 // unit)
        return write(pattern, second * 1000 + nanos // 1_000_000, nanos, zone if is_local else "UTC", is_simple=False)

    step = _step_shown(pattern, is_local)

    def over(stamps: pa.Array) -> pa.Array:
        return distinct(stamps if step is None else pc.floor_temporal(stamps, unit=step), from_stamp, call.arrow)

    return elementwise(call, over, columns=[0])


def _step_shown(pattern: str, is_local: bool) -> str | None:
    """Returns the unit of time within which a pattern shows the same text; ``None`` where it shows fractions of a second. ``is_local``: in a time zone,
    whose offset may have seconds."""
    letters = {token.letter for token in tokens(pattern)}
    if "S" in letters:
        return None
    if is_local or "s" in letters:
        return "second"
    return "minute" if "m" in letters else "hour" if letters & set("aHhKk") else "day"


@function("TO_DATE", kind=KernelKind.DISTINCT)
def _to_date_call(call: ScalarCall) -> Evaluate:
    if len(call.operands) == 1:
        return by_value(call, parse_date)

    def read(text: str, pattern: str) -> int:
        ms = read_simple(pattern, text, "UTC")
        days = -106751991167 if ms is None else int(truncating_divide(np.array([ms]), DAY_MS)[0])
        return (days + (1 << 31)) % (1 << 32) - (1 << 31)

    return _with_pattern(call, read)


def _with_pattern(call: ScalarCall, read: Callable[[str, str], Any]) -> Evaluate:
    """Builds a function of a text and a pattern, which is usually constant."""
    if call.operands[1].is_literal and call.operands[1].literal is not None:
        pattern = call.operands[1].literal
        tokens(pattern)
        return by_value(call, lambda text: read(text, pattern), columns=[0])
    return by_value(call, read, columns=[0, 1])


@function("TO_TIMESTAMP", kind=KernelKind.DISTINCT)
def _to_timestamp_call(call: ScalarCall) -> Evaluate:
    unit = UNITS_PER_SECOND[time_unit(call.type)]
    step = 10 ** (9 - (3 if call.type.precision is None else call.type.precision))

    def cut(nanos: int | None) -> int | None:
        return None if nanos is None else nanos // step * step // (1_000_000_000 // unit)

    if len(call.operands) == 1:
        return by_value(call, lambda text: cut(parse_timestamp(text)))
    return _with_pattern(call, lambda text, pattern: cut(_read_timestamp(text, pattern)))


def _read_timestamp(text: str, pattern: str) -> int | None:
    """Parses a timestamp by the pattern, else as ``java.sql.Timestamp.valueOf`` or ``java.sql.Date.valueOf``, which accept fields out of range."""
    found = read_strict(pattern, text)
    if found is not None:
        return found
    text = text.strip()
    head, blank, tail = text.partition(" ")
    date = head.split("-")
    if len(date) != 3 or not all(part.isascii() and part.isdigit() for part in date) or len(date[0]) != 4:
        return None
    year, month, day = map(int, date)
    if not 1 <= month <= 12 or not 1 <= day <= 31 or len(date[1]) > 2 or len(date[2]) > 2:
        return None
    days = int(days_from_civil(year, month, 1)) + day - 1
    if not blank:
        return days * 86_400_000_000_000
    time, point, fraction = tail.partition(".")
    clock = time.split(":")
    if len(clock) != 3 or not all(part.isascii() and part.isdigit() for part in clock):
        return None
    if point and not (fraction.isascii() and fraction.isdigit() and len(fraction) <= 9):
        return None
    hour, minute, second = map(int, clock)
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * 1_000_000_000 + int(fraction.ljust(9, "0") if fraction else 0)


@function("TO_TIMESTAMP_LTZ", kind=KernelKind.NUMPY, may_fail=True)
def _to_timestamp_ltz_call(call: ScalarCall) -> Evaluate:
    root = call.operands[0].type.root
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return _text_to_ltz(call)
    precision = call.literal(1) if len(call.operands) > 1 else 3
    if precision not in (0, 3):
        raise call.refuse(f"its precision must be 0 (seconds) or 3 (milliseconds), not {precision}")
    factor = (1000 if precision == 0 else 1) * (UNITS_PER_SECOND[time_unit(call.type)] // 1000)

    def evaluate(array: pa.Array) -> pa.Array:
        mask = null_mask(array)
        if pa.types.is_integer(array.type):
            values = longs(array) * factor
        else:
            values = np.trunc(to_numpy(array.cast(pa.float64())) * factor).astype(np.int64)
        return from_numpy(values, call.arrow, mask)

    return elementwise(call, evaluate, columns=[0])


def _text_to_ltz(call: ScalarCall) -> Evaluate:
    zone = call.literal(2) if len(call.operands) > 2 else "UTC"
    pattern = call.literal(1) if len(call.operands) > 1 else "yyyy-MM-dd HH:mm:ss"
    unit = UNITS_PER_SECOND[time_unit(call.type)]

    def read(text: str) -> int | None:
        nanos = parse_timestamp(text) if len(call.operands) == 1 else _read_timestamp(text, pattern)
        if nanos is None:
            if len(call.operands) == 1:
                raise EvaluationError(f"TO_TIMESTAMP_LTZ: {text!r} cannot be read as {pattern}")
            return None
        second = nanos // 1_000_000_000
        shift = int(to_instant(np.array([second]), zone)[0]) - second
        return (nanos + shift * 1_000_000_000) // (1_000_000_000 // unit)

    return by_value(call, read, columns=[0])


@function("UNIX_TIMESTAMP", kind=KernelKind.DISTINCT)
def _unix_timestamp_call(call: ScalarCall) -> Evaluate:
    """Builds UNIX_TIMESTAMP: seconds of the current time, or of a text; the smallest number for an invalid text."""
    zone = call.context.time_zone
    if not call.operands:
        return lambda rows: pa.scalar(rows.now_ms() // 1000, pa.int64())

    def read(text: str, pattern: str) -> int:
        ms = read_simple(pattern, text, zone)
        return _LONG_MIN if ms is None else int(truncating_divide(np.array([ms]), 1000)[0])

    if len(call.operands) == 1:
        return by_value(call, lambda text: read(text, DEFAULT_PATTERN))
    return _with_pattern(call, read)


@function("FROM_UNIXTIME", kind=KernelKind.DISTINCT)
def _from_unixtime_call(call: ScalarCall) -> Evaluate:
    zone = call.context.time_zone
    pattern = call.literal(1) if len(call.operands) > 1 else DEFAULT_PATTERN
    tokens(pattern)

    def text(second: int) -> str:
        local = second + int(legacy_offsets(np.array([second]), zone)[0])
        return write(pattern, local * 1000, 0, zone, is_simple=True)

    return by_value(call, text, columns=[0])


@function("CONVERT_TZ", kind=KernelKind.DISTINCT)
def _convert_tz_call(call: ScalarCall) -> Evaluate:
    def convert(text: str, source: str, target: str) -> str | None:
        ms = read_simple(DEFAULT_PATTERN, text, source)
        if ms is None:
            return None
        ms += int(legacy_offsets(np.array([ms // 1000]), target)[0]) * 1000
        return write(DEFAULT_PATTERN, ms, 0, target, is_simple=True)

    if call.operands[1].is_literal and call.operands[2].is_literal:
        source, target = call.literal(1), call.literal(2)
        return by_value(call, lambda text: convert(text, source, target), columns=[0])
    return by_value(call, convert)


def _now(call: ScalarCall, value: Callable[[int], int]) -> Evaluate:
    wanted = call.arrow
    number = pa.int32() if wanted.bit_width == 32 else pa.int64()
    return lambda rows: pa.scalar(value(rows.now_ms()), number).cast(wanted)


@function("CURRENT_TIMESTAMP", "NOW", "CURRENT_ROW_TIMESTAMP", "PROCTIME")
def _current_timestamp_call(call: ScalarCall) -> Evaluate:
    unit = UNITS_PER_SECOND[time_unit(call.type)]
    return _now(call, lambda ms: ms * (unit // 1000))


@function("PROCTIME_MATERIALIZE")
def _proctime_materialize_call(call: ScalarCall) -> Evaluate:
    return _current_timestamp_call(call)


def _local_now(ms: int, zone: str) -> int:
    return ms + int(offsets(np.array([ms // 1000]), zone)[0]) * 1000


@function("LOCALTIMESTAMP")
def _local_timestamp_call(call: ScalarCall) -> Evaluate:
    unit, zone = UNITS_PER_SECOND[time_unit(call.type)], call.context.time_zone
    return _now(call, lambda ms: _local_now(ms, zone) * (unit // 1000))


@function("CURRENT_DATE")
def _current_date_call(call: ScalarCall) -> Evaluate:
    zone = call.context.time_zone
    return _now(call, lambda ms: _local_now(ms, zone) // DAY_MS)


@function("CURRENT_TIME", "LOCALTIME")
def _current_time_call(call: ScalarCall) -> Evaluate:
    zone = call.context.time_zone
    return _now(call, lambda ms: _local_now(ms, zone) % DAY_MS // 1000 * 1000)


@function("CURRENT_WATERMARK")
def _current_watermark_call(call: ScalarCall) -> Evaluate:
    current = call.context.watermark_ms
    if current is None:
        raise call.refuse("it can only be used in SELECT and WHERE of rows with a watermark")
    wanted = call.arrow
    unit = UNITS_PER_SECOND[time_unit(call.type)]

    def evaluate(rows: Rows) -> Datum:
        watermark = current()
        return pa.scalar(None if watermark is None else watermark * (unit // 1000), pa.int64()).cast(wanted)

    return evaluate
