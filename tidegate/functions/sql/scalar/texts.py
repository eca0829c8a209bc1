"""Formatting of values as ``CAST(x AS STRING)`` and parsing of texts, after the cast rules of ``org.apache.flink.table.planner.functions.casting`` and
``BinaryStringDataUtil`` (2.3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np

from tidegate.functions.sql.scalar.arrow_types import time_unit
from tidegate.functions.sql.scalar.calendar import UNITS_PER_SECOND, civil_from_days, offsets
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.logical_types import LogicalType, TypeRoot

EXACT: Final = Context(prec=200, rounding=ROUND_HALF_UP)
"""A context for exact arithmetic on values of up to 76 digits."""


def formatter(type: LogicalType, time_zone: str, *, prints: bool = False) -> Callable[[Any], str]:
    """Returns the function that formats values of a type (times as numbers); ``prints``: as in a printed table, where bytes are ``x'00ff'``.

    Raises ``UnsupportedPlan``."""
    match type.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return str
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            if prints:
                return lambda value: f"x'{bytes(value).hex()}'"
            return lambda value: bytes(value).decode("utf-8", "replace")
        case TypeRoot.BOOLEAN:
            return lambda value: "TRUE" if value else "FALSE"
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INTEGER | TypeRoot.BIGINT:
            return str
        case TypeRoot.DECIMAL:
            return decimal_text
        case TypeRoot.DOUBLE:
            return double_text
        case TypeRoot.FLOAT:
            return float_text
        case TypeRoot.DATE:
            return date_text
        case TypeRoot.TIME:
            digits = type.precision or 0
            return lambda value: _short_time_text(value, digits)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            per_second = UNITS_PER_SECOND[time_unit(type)]
            precision = 6 if type.precision is None else type.precision
            if type.root is TypeRoot.TIMESTAMP:
                return lambda value: timestamp_text(value, per_second, precision)
            return lambda value: timestamp_text(
                value + int(offsets(np.array([value // per_second]), time_zone)[0]) * per_second, per_second, precision
            )
        case TypeRoot.INTERVAL_DAY_TIME:
            return day_time_text
        case TypeRoot.INTERVAL_YEAR_MONTH:
            return lambda value: f"{'-' if value < 0 else '+'}{abs(value) // 12}-{abs(value) % 12:02d}"
        case TypeRoot.ARRAY:
            element = _or_null(formatter(type.element, time_zone, prints=prints))
            return lambda value: "[" + ", ".join(map(element, value)) + "]"
        case TypeRoot.MAP | TypeRoot.MULTISET:
            parts = type.children if type.root is TypeRoot.MAP else (type.element, LogicalType(TypeRoot.INTEGER))
            key, item = (_or_null(formatter(part, time_zone, prints=prints)) for part in parts)
            return lambda value: "{" + ", ".join(f"{key(k)}={item(v)}" for k, v in value) + "}"
        case TypeRoot.ROW:
            fields = [_or_null(formatter(field.type, time_zone, prints=prints)) for field in type.fields]
            return lambda value: (
                "(" + ", ".join(write(v) for write, v in zip(fields, value.values(), strict=True)) + ")"
            )
        case TypeRoot.NULL:
            return lambda value: "NULL"
        case _:
            raise UnsupportedPlan(f"values of the type {type} cannot be written as text")


def _or_null(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "NULL" if value is None else write(value)


def decimal_text(value: Decimal) -> str:
    """Formats a decimal with all digits, without an exponent."""
    return f"{value:f}" if value or not value.is_signed() else f"{abs(value):f}"


def double_text(value: float) -> str:
    """Formats a double as ``Double.toString`` of Java 17."""
    return _java_text(repr(value), f"{value:.1e}", value, 53)


def float_text(value: float) -> str:
    """Formats a 32-bit float as ``Float.toString`` of Java 17."""
    with np.errstate(over="ignore"):
        short = np.float32(value)
    return _java_text(np.format_float_scientific(short, trim="0"), f"{float(short):.1e}", float(short), 24)


def _java_text(shortest: str, two_digits: str, value: float, significant_bits: int) -> str:
    """Formats a float from its shortest digits as Java before 19 does: whole numbers have all digits that their bits distinguish, and a text with an
    exponent has at least two digits."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    number = Decimal(shortest).normalize()
    if value and value.is_integer() and abs(value) < 1 << 63:
        number = _whole_digits(int(value), significant_bits)
    elif len(number.as_tuple().digits) == 1 and Decimal(two_digits).adjusted() == number.adjusted():
        number = Decimal(two_digits)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    minus = "-" if sign else ""
    if not number:
        return minus + "0.0"
    text = "".join(map(str, digits)).rstrip("0")
    exponent += len(digits) - len(text)
    point = len(text) + exponent
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        whole, fraction = text[:point].ljust(point, "0"), text[point:]
        return f"{minus}{whole}.{fraction or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _whole_digits(value: int, significant_bits: int) -> Decimal:
    """Rounds a whole number to the digits above its last bit, as ``jdk.internal.math.FloatingDecimal`` of Java 17."""
    power = abs(value).bit_length() - 1 - significant_bits - 1
    dropped = len(str(1 << power)) - 1 if power > 1 else 0
    if not dropped:
        return Decimal(value)
    kept, rest = divmod(abs(value), 10**dropped)
    kept += rest >= 10**dropped // 2
    return Decimal(kept if value > 0 else -kept).scaleb(dropped)


def date_text(days: int) -> str:
    """Formats a date as ``yyyy-MM-dd``."""
    year, month, day = _civil(days)
    return f"{_year_text(year)}-{month:02d}-{day:02d}"


def _year_text(year: int) -> str:
    """Formats the last four digits of a year; for a year before 0, as characters below '0', as Flink computes them."""
    if year >= 0:
        return f"{year % 10000:04d}"
    return "".join(chr(ord("0") - abs(year) // power % 10) for power in (1000, 100, 10, 1))


def time_text(ms: int, digits: int) -> str:
    """Formats a time of day as ``HH:mm:ss``, with ``digits`` digits of its fraction."""
    seconds, fraction = divmod(ms, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + "." + f"{fraction:03d}".ljust(digits, "0")[:digits] if digits else text


def _short_time_text(ms: int, digits: int) -> str:
    """Formats a time as ``DateTimeUtils.formatTimestampMillis``: trailing zeros of the fraction are dropped, except the first digit."""
    text = time_text(ms, digits)
    return text[:10] + text[10:].rstrip("0") if digits else text


def timestamp_text(value: int, per_second: int, digits: int) -> str:
    """Formats a count of fractions of a second since 1970 as ``yyyy-MM-dd HH:mm:ss``, with ``digits`` digits of its fraction."""
    seconds, fraction = divmod(value, per_second)
    days, second = divmod(seconds, 86_400)
    text = f"{date_text(days)} {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    if not digits:
        return text
    width = len(str(per_second)) - 1
    return text + "." + f"{fraction:0{width}d}".ljust(digits, "0")[:digits]


def day_time_text(ms: int) -> str:
    """Formats an interval as ``+d HH:mm:ss.SSS``."""
    days, rest = divmod(abs(ms), 86_400_000)
    seconds, fraction = divmod(rest, 1000)
    return f"{'-' if ms < 0 else '+'}{days} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:03d}"


def _civil(days: int) -> tuple[int, int, int]:
    year, month, day = civil_from_days(np.array([days], np.int64))
    return int(year[0]), int(month[0]), int(day[0])


def parse_whole(text: str, low: int, high: int) -> int | None:
    """Parses a number and truncates it; ``None`` for another text or out of range."""
    match = _WHOLE.fullmatch(text.strip(" "))
    if match is None or not (match[2] or match[3]):
        return None
    value = int(match[1] + (match[2] or "0"))
    return value if low <= value <= high else None


def parse_double(text: str) -> float | None:
    """Parses a number as ``Double.parseDouble``; ``None`` for another text."""
    text = text.strip()
    match = _DOUBLE.fullmatch(text)
    if match is None:
        return None
    return float(match[1].replace("Infinity", "inf"))


def parse_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Parses a decimal. Up to 18 digits one trailing byte is ignored, as in ``BinaryStringDataUtil.toDecimal``; above that it is ``new BigDecimal``."""
    text = text.strip(" ")
    if precision <= 18:
        match = _SHORT_DECIMAL.fullmatch(text)
        if not text or match is None:
            return None
        digits = match[1] if any(one.isdigit() for one in match[1]) else match[1] + "0"
        return fit(EXACT.create_decimal(digits), precision, scale)
    if _LONG_DECIMAL.fullmatch(text) is None:
        return None
    try:
        return fit(EXACT.create_decimal(text), precision, scale)
    except InvalidOperation:
        return None


def fit(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """Rounds a value half up to the scale; ``None`` where it has too many digits."""
    if value.adjusted() > precision - scale:
        return None
    rounded = EXACT.quantize(value, _QUANTA[scale])
    if abs(rounded) >= _POWERS[precision - scale]:
        return None
    return rounded if rounded else abs(rounded)


def parse_boolean(text: str) -> bool | None:
    """Parses a boolean; ``None`` for another text."""
    return _TRUTHS.get(text.lower())


_QUANTA: Final = tuple(Decimal(1).scaleb(-scale) for scale in range(77))
_POWERS: Final = tuple(Decimal(1).scaleb(power) for power in range(77))
_WHOLE: Final = re.compile(r"([+-]?)([0-9]*)(\.[0-9]*)?")
_DOUBLE: Final = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[dDfF]?")
_SHORT_DECIMAL: Final = re.compile(r"([+-]?[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)[\x00-/:-\x7f]?")
_LONG_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TRUTHS: Final = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
