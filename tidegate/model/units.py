"""Parsing and formatting of durations and sizes, in Flink's syntax (`TimeUtils.java`, `MemorySize.java`).

A duration is a whole number of milliseconds: `10 s`, `500ms`, `2 min`, `PT10M`, or a bare number of milliseconds. A size is a
whole number of bytes, its units are powers of 1024: `20 kb`, `1gb`, or a bare number of bytes. Both directions round-trip:
`parse_*(format_*(n)) == n`. Every `parse_*` raises `ValueError` with a message that says what was expected.
"""

from __future__ import annotations

import re

_NUMBER_AND_UNIT = re.compile(r"(\d+)\s*([a-zA-Zµ]*)")
_ISO_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:\.(?P<fraction>\d{1,9}))?S)?)?",
    re.IGNORECASE,
)

_NANOS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
}
_DURATION_LABELS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))

_BYTES = {
    **dict.fromkeys(("", "b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
_SIZE_LABELS = ((1 << 40, "tb"), (1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"))


def parse_duration_ms(text: str) -> int:
    """Parses a duration to ms. Refuses negative ones and fractions of a millisecond."""
    stripped = text.strip()
    nanos = _iso_nanos(stripped) if stripped[:1] in ("P", "p") else _counted(stripped, _NANOS)
    if nanos is None:
        raise ValueError(f"{text!r} is not a duration (such as '10 s', '500 ms', '2 min' or 'PT10M')")
    if nanos % 1_000_000:
        raise ValueError(f"{text!r} is finer than a millisecond, which is the smallest duration here")
    return nanos // 1_000_000


def format_duration_ms(value_ms: int) -> str:
    """Formats a duration in the highest unit that divides it: `600000` is `10 min`."""
    for size_ms, label in _DURATION_LABELS:
        if value_ms and value_ms % size_ms == 0:
            return f"{value_ms // size_ms} {label}"
    return f"{value_ms} ms"


def parse_size_bytes(text: str) -> int:
    """Parses a memory size to bytes."""
    size = _counted(text.strip(), _BYTES)
    if size is None:
        raise ValueError(f"{text!r} is not a memory size (such as '64 mb', '20 kb', '1 gb' or a number of bytes)")
    return size


def format_size_bytes(value_bytes: int) -> str:
    """Formats a size in the highest unit that divides it: `20480` is `20 kb`."""
    for size_bytes, label in _SIZE_LABELS:
        if value_bytes and value_bytes % size_bytes == 0:
            return f"{value_bytes // size_bytes} {label}"
    return f"{value_bytes} bytes"


def show_duration_ms(span_ms: int) -> str:
    """Formats a duration for people, rounded: `1h 02m 03s`, `2m 03s`, `3.4s`, `120ms`."""
    if span_ms < 1_000:
        return f"{span_ms}ms"
    if span_ms < 60_000:
        return f"{span_ms / 1000:.1f}s"
    seconds = span_ms // 1000
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}h {minutes:02d}m {seconds % 60:02d}s" if hours else f"{minutes}m {seconds % 60:02d}s"


def show_size_bytes(size_bytes: int) -> str:
    """Formats a size for people, rounded: `12 B`, `3.4 KiB`, `1.2 MiB`."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _counted(text: str, units: dict[str, int]) -> int | None:
    found = _NUMBER_AND_UNIT.fullmatch(text)
    if found is None or not found[1].isascii():
        return None
    unit = units.get(found[2].lower())
    return None if unit is None else int(found[1]) * unit


def _iso_nanos(text: str) -> int | None:
    found = _ISO_DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (int(found[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    whole_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole_s * 1_000_000_000 + int((found["fraction"] or "").ljust(9, "0"))
