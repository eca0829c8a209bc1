"""Conversion of Arrow columns to texts that PostgreSQL reads as the same values.

- which types go into which columns is decided by ``TAKEN``, before the job runs;
- a value that would come back as another one is refused by name: 2.5 in ``integer``, 0.1 as double in ``real``, nanoseconds, digits that
  ``numeric(10,2)`` or ``timestamp(3)`` would round;
- instants, and times without a zone, are those of UTC; floats in ``numeric`` and texts are the shortest decimals that mean the same float;
- a text is a literal of the column's type, as the server reads it: ``uuid``, ``jsonb``, an enum, an array, ...; anything in a text column is what
  the server writes for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.postgres.table import PostgresColumn
from tidegate.model.errors import InvalidJob

INTEGERS = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
FLOATS = {"float4": pa.float32(), "float8": pa.float64()}
TEXTS = ("text", "varchar", "bpchar", "citext")
_BYTES_OF_NAMES = {"name": 63, "char": 1}
_NUMBERS = (*INTEGERS, *FLOATS, "numeric", *TEXTS)
TAKEN: dict[str, tuple[str, ...]] = {
    "boolean": ("bool", *TEXTS),
    "integer": _NUMBERS,
    "float": _NUMBERS,
    "decimal": _NUMBERS,
    "bytes": ("bytea", *TEXTS),
    "date": ("date", "timestamp", "timestamptz", *TEXTS),
    "timestamp": ("timestamp", "timestamptz", "date", *TEXTS),
    "time": ("time", *TEXTS),
    "duration": ("interval", *TEXTS),
    "uuid": ("uuid", *TEXTS),
}
"""Accepted pairs of Arrow types and the catalogue's column types. Texts and columns of nulls are accepted for all."""

_YEARS = (-62_135_596_800_000_000, 253_402_300_800_000_000)
"""The years 1 to 9999 in microseconds, whose texts are the same in Arrow and PostgreSQL."""
_DAY_US = 86_400_000_000
"""Microseconds of a day."""
_Convert = Callable[[pa.Array], pa.Array]


@dataclass(slots=True)
class ValueRefused(Exception):
    """A value cannot be written. ``place``: its index in the column."""

    place: int
    reason: str


def family_of(kind: pa.DataType) -> str | None:
    """Returns the name in ``TAKEN`` of an Arrow type, ``text`` or ``null``; ``None`` for one that no column accepts."""
    is_ = pa.types
    if is_.is_dictionary(kind):
        return family_of(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return {"arrow.uuid": "uuid", "arrow.json": "text"}.get(kind.extension_name)
    tests: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
        "null": (is_.is_null,),
        "boolean": (is_.is_boolean,),
        "integer": (is_.is_integer,),
        "float": (is_.is_floating,),
        "decimal": (is_.is_decimal,),
        "text": (is_.is_string, is_.is_large_string, is_.is_string_view),
        "bytes": (is_.is_binary, is_.is_large_binary, is_.is_fixed_size_binary, is_.is_binary_view),
        "date": (is_.is_date,),
        "timestamp": (is_.is_timestamp,),
        "time": (is_.is_time,),
        "duration": (is_.is_duration,),
    }
    return next((name for name, found in tests.items() if any(test(kind) for test in found)), None)


def conversion(kind: pa.DataType, column: PostgresColumn) -> _Convert:
    """Returns the converter of an Arrow type to texts of a column, which raises ``ValueRefused``. Raises ``InvalidJob`` for a pair of types that would
    change values."""
    family = family_of(kind)
    target = _target(column)
    is_uuid = target == "uuid" and pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16
    if family is None or not (family in ("text", "null") or target in TAKEN[family] or is_uuid):
        raise InvalidJob(
            f"column {column.name!r} is {kind} in the stream and {column.shown} in the table, which would not hold the same values: "
            "convert it in the stream, or change the column"
        )
    if (
        target == "interval"
        and family == "duration"
        and column.modifier != -1
        and column.modifier >> 16 & 0x7FFF != 0x7FFF
    ):
        raise InvalidJob(
            f"column {column.name!r} is {column.shown}, which keeps parts of a duration only: make it interval without fields"
        )
    make = _HEXADECIMAL if is_uuid else _MAKERS[family]

    def convert(values: pa.Array) -> pa.Array:
        if isinstance(values, pa.DictionaryArray):
            values = values.dictionary_decode()
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        return make(values, target, column)

    return convert


def _target(column: PostgresColumn) -> str:
    is_known = column.is_builtin or column.type_name == "citext"
    return column.type_name if is_known and column.kind == "b" else ""


def _nulls(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    return pa.nulls(len(values), pa.string())


def _booleans(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    return values.cast(pa.string())


def _integers(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    if target in INTEGERS:
        limit = INTEGERS[target]
        most = pc.min_max(values).as_py()
        if values.null_count < len(values) and not -limit <= most["min"] <= most["max"] < limit:
            _refuse(values, column, lambda value: -limit <= value < limit)
        return values
    elif target in FLOATS:
        as_float = np.float32 if target == "float4" else np.float64
        bits = 24 if target == "float4" else 53
        most = pc.min_max(values).as_py()
        if values.null_count < len(values) and not -(2**bits) <= most["min"] <= most["max"] <= 2**bits:
            _refuse(values, column, lambda value: int(as_float(value)) == value)
        return values
    return _limited(values.cast(pa.string()), target, column)


def _floats(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    if target in FLOATS:
        if values.type == FLOATS[target]:
            return values
        kept = values.cast(FLOATS[target], safe=False)
        same = pc.or_(pc.equal(kept.cast(pa.float64()), values.cast(pa.float64())), pc.is_nan(values))
        if not pc.all(same, min_count=0).as_py():
            _refuse_at(pc.index(same, False).as_py(), values, column)
        return kept
    if target in INTEGERS:
        limit = float(INTEGERS[target])
        wide = values.cast(pa.float64())
        same = pc.and_(pc.equal(pc.trunc(wide), wide), pc.and_(pc.greater_equal(wide, -limit), pc.less(wide, limit)))
        if not pc.all(same, min_count=0).as_py():
            _refuse_at(pc.index(same, False).as_py(), values, column)
        return wide.cast(pa.int64())
    if target in TEXTS:
        digits = 6 if pa.types.is_float32(values.type) else 15
        shortest = values.cast(pa.string()).to_pylist()
        return _limited(pa.array([_float_text(text, digits) for text in shortest], pa.string()), target, column)
    return _limited(values.cast(pa.string()), target, column)


def _decimals(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    if target in INTEGERS:
        limit = INTEGERS[target]
        known = values.to_pylist()
        same = [value is None or (value == value.to_integral_value() and -limit <= value < limit) for value in known]
        if not all(same):
            _refuse_at(same.index(False), values, column)
        return pa.array([None if value is None else str(int(value)) for value in known], pa.string())
    if target in FLOATS:
        as_float = np.float32 if target == "float4" else np.float64
        texts = [None if value is None else str(as_float(value)) for value in values.to_pylist()]
        same = [text is None or Decimal(text) == value for text, value in zip(texts, values.to_pylist(), strict=True)]
        if not all(same):
            _refuse_at(same.index(False), values, column)
        return pa.array(texts, pa.string())
    if target in TEXTS or values.type.scale < 0:
        texts = [None if value is None else f"{value:f}" for value in values.to_pylist()]
        return _limited(pa.array(texts, pa.string()), target, column)
    return _limited(values.cast(pa.string()), target, column)


def _texts(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    texts = values.cast(pa.string()) if pa.types.is_string_view(values.type) else values
    content = texts.buffers()[-1]
    if content is not None and not np.frombuffer(content, np.uint8).all():  # or what it is a slice of has one
        found = pc.match_substring(texts, "\0")
        if pc.any(found, min_count=0).as_py():
            _refuse_at(
                pc.index(found, True).as_py(), texts, column, "the character NUL in it, which PostgreSQL does not store"
            )
    if (pattern := _CUT_OFF.get(target)) is not None:
        found = pc.match_substring_regex(texts, pattern)
        if pc.any(found, min_count=0).as_py():
            _refuse_at(pc.index(found, True).as_py(), values, column)
    return _limited(texts, target, column)


def _bytes(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    return _limited(
        pa.array([None if v is None else "\\x" + v.hex() for v in values.to_pylist()], pa.string()), target, column
    )


def _uuids(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    def dashed(text: str) -> str:
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    return _limited(
        pa.array([None if v is None else dashed(v.hex()) for v in values.to_pylist()], pa.string()), target, column
    )


def _dates(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    if target == "date" or target in TEXTS:
        days = values.cast(pa.date32())
        return _limited(_calendar(days.cast(pa.int32()).cast(pa.int64()), 1, "D", days), target, column)
    return _timestamps(values.cast(pa.timestamp("us")), target, column)


def _timestamps(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    has_zone = values.type.tz is not None
    micros = _micros(values.cast(pa.timestamp(values.type.unit, "UTC")) if has_zone else values, pa.timestamp, column)
    if target == "date":
        _refuse_parts(micros, _DAY_US, values, column)
        days = pc.divide(micros, _DAY_US)
        return _calendar(days, 1, "D", days.cast(pa.int32()).cast(pa.date32()))
    if target not in TEXTS:
        _refuse_parts(micros, 10 ** (6 - _digits(column)), values, column)
        texts = _calendar(micros, _DAY_US, "us", micros.view(pa.timestamp("us")))
        return _joined(texts, "+00") if target == "timestamptz" else texts
    texts = _short(_calendar(micros, _DAY_US, "us", micros.view(pa.timestamp("us"))))
    return _limited(_joined(texts, "+00") if has_zone else texts, target, column)


def _times(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    micros = _micros(values, lambda unit, tz=None: pa.time64(unit), column)
    texts = micros.view(pa.time64("us")).cast(pa.string())
    if target in TEXTS:
        return _limited(_short(texts), target, column)
    _refuse_parts(micros, 10 ** (6 - _digits(column)), values, column)
    return texts


def _durations(values: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    micros = _micros(values, lambda unit, tz=None: pa.duration(unit), column)
    if target not in TEXTS:
        _refuse_parts(micros, 10 ** (6 - _digits(column)), values, column)
    texts = [None if value is None else _interval_text(value) for value in micros.to_pylist()]
    return _limited(pa.array(texts, pa.string()), target, column)


_Make = Callable[[pa.Array, str, PostgresColumn], pa.Array]
_HEXADECIMAL: _Make = _uuids
_MAKERS: dict[str, _Make] = {
    "null": _nulls,
    "boolean": _booleans,
    "integer": _integers,
    "float": _floats,
    "decimal": _decimals,
    "text": _texts,
    "bytes": _bytes,
    "date": _dates,
    "timestamp": _timestamps,
    "time": _times,
    "duration": _durations,
    "uuid": _uuids,
}
_ZONE = r"(?i):[\d.]+\s*([+-]\s*\d|z\s*$|utc|gmt|[a-z_]+/)"
_CUT_OFF = {"date": r"\d:\d", "timestamp": _ZONE, "time": _ZONE}
"""Patterns of texts whose time or zone the server would drop."""


def _limited(texts: pa.Array, target: str, column: PostgresColumn) -> pa.Array:
    """Refuses values that the server would silently round or truncate to the size of the column."""
    if target in ("varchar", *_BYTES_OF_NAMES):
        if target == "varchar":
            too_long = pc.greater(pc.utf8_length(texts), column.modifier - 4 if column.modifier >= 0 else 1 << 30)
        else:
            too_long = pc.greater(pc.binary_length(texts), _BYTES_OF_NAMES[target])
        if pc.any(too_long, min_count=0).as_py():
            _refuse_at(pc.index(too_long, True).as_py(), texts, column)
    elif target == "numeric" and column.modifier >= 0:
        scale = ((column.modifier - 4) & 0x7FF ^ 1024) - 1024
        _refuse_digits(texts, rf"\.\d{{{scale + 1},}}|[eE]-" if scale >= 0 else r"\d", scale, column)
    elif target in ("timestamp", "timestamptz", "time", "timetz", "interval"):
        _refuse_digits(texts, rf":\d+\.\d{{{_digits(column) + 1},}}", _digits(column), column)
    return texts


def _refuse_digits(texts: pa.Array, pattern: str, scale: int, column: PostgresColumn) -> None:
    """Refuses numbers with non-zero digits beyond ``scale``. ``pattern``: finds the candidates."""
    found = pc.match_substring_regex(texts, pattern)
    if not pc.any(found, min_count=0).as_py():
        return
    for place in pc.indices_nonzero(found).to_pylist():
        text = str(texts[place]).strip()
        fraction = re.search(r":(\d+\.\d+)", text)
        try:
            _, digits, exponent = Decimal(fraction.group(1) if fraction else text).as_tuple()
        except ArithmeticError:
            continue  # no number: the server says so
        shown = "".join(map(str, digits))
        if isinstance(exponent, int) and exponent + len(shown) - len(shown.rstrip("0")) < -scale and shown.strip("0"):
            _refuse_at(place, texts, column)


def _refuse_parts(micros: pa.Array, of_us: int, values: pa.Array, column: PostgresColumn) -> None:
    if of_us == 1:
        return
    rest = pc.not_equal(pc.subtract(micros, pc.multiply(pc.divide(micros, of_us), of_us)), 0)
    if pc.any(rest, min_count=0).as_py():
        _refuse_at(pc.index(rest, True).as_py(), values, column)


def _micros(values: pa.Array, kind: Callable[..., pa.DataType], column: PostgresColumn) -> pa.Array:
    """Converts times to microseconds as ``int64``; finer values are refused."""
    zone = getattr(values.type, "tz", None)
    try:
        return values.cast(kind("us", zone) if zone else kind("us")).cast(pa.int64())
    except pa.ArrowInvalid:
        wide = [None if v is None else int(v) for v in values.cast(pa.int64()).to_pylist()]
        finer = values.type.unit == "ns"
        factor = {"s": 1_000_000, "ms": 1_000}.get(values.type.unit, 1)
        for place, value in enumerate(wide):
            if value is not None and (value % 1000 if finer else not -(2**63) <= value * factor < 2**63):
                _refuse_at(place, values, column)
        raise


def _calendar(counts: pa.Array, day: int, unit: str, shown: pa.Array) -> pa.Array:
    """Formats dates and times in ISO 8601 with a blank; years before 1 are BC. ``day``: counts per day."""
    first, last = (bound * day // _DAY_US for bound in _YEARS)
    most = pc.min_max(counts).as_py()
    texts = shown.cast(pa.string()) if most["min"] is None or (most["min"] >= first and most["max"] < last) else None
    if texts is not None:
        return texts
    moments = np.array([0 if n is None else n for n in counts.to_pylist()], f"datetime64[{unit}]").astype(str)
    written = [
        _far_text(text) if is_known else None
        for text, is_known in zip(moments, counts.is_valid().to_pylist(), strict=True)
    ]
    return pa.array(written, pa.string())


def _far_text(text: str) -> str:
    """Converts a text of a year before 1: ``-0043-03-15T00:00:00.000000`` is in 44 BC."""
    year, rest = re.fullmatch(r"(-?\d+)(-.*)", text).groups()  # type: ignore[union-attr]
    number = int(year)
    shown = f"{number if number > 0 else 1 - number:04d}{rest.replace('T', ' ')}"
    return shown if number > 0 else f"{shown} BC"


def _short(texts: pa.Array) -> pa.Array:
    """Removes zeros at the ends of fractions, as the server does."""
    return pc.replace_substring_regex(texts, r"\.?0*( BC)?$", r"\1") if _has_fractions(texts) else texts


def _has_fractions(texts: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring(texts, "."), min_count=0).as_py())


def _joined(texts: pa.Array, zone: str) -> pa.Array:
    return pc.replace_substring_regex(texts, r"( BC)?$", zone + r"\1")


def _interval_text(micros: int) -> str:
    hours, rest = divmod(abs(micros), 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    shown = f"{hours:02d}:{minutes:02d}:{seconds:02d}" + (f".{fraction:06d}".rstrip("0") if fraction else "")
    return f"-{shown}" if micros < 0 else shown


def _float_text(shortest: str | None, digits: int) -> str | None:
    """Formats a float as the server does: in fixed notation up to ``digits`` digits."""
    if shortest is None:
        return None
    if (special := {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(shortest)) is not None:
        return special
    sign, figures, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    first = len(figures) + exponent - 1
    if -5 < first < digits:
        return ("-" if sign else "") + f"{Decimal((0, figures, exponent)):f}"
    shown = "".join(map(str, figures))
    mantissa = shown[0] + ("." + shown[1:] if shown[1:] else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if first < 0 else '+'}{abs(first):02d}"


def _digits(column: PostgresColumn) -> int:
    """Returns the digits of a second's fraction that a column has."""
    digits = column.modifier & 0xFFFF if column.type_name == "interval" else column.modifier
    return digits if 0 <= digits <= 6 else 6


def _refuse(values: pa.Array, column: PostgresColumn, is_kept: Callable[[Any], bool]) -> None:
    for place, value in enumerate(values.to_pylist()):
        if value is not None and not is_kept(value):
            _refuse_at(place, values, column)


def _refuse_at(place: int, values: pa.Array, column: PostgresColumn, has: str = "") -> NoReturn:
    value = values[place]
    try:
        shown = value.as_py()
    except (ValueError, OverflowError):
        shown = value.value
    text = repr(shown[:100]) if isinstance(shown, str | bytes) else str(shown)
    if has:
        raise ValueRefused(place, f"{text} for column {column.name!r} has {has}")
    raise ValueRefused(place, f"{text} would be another value in column {column.name!r}, which is {column.shown}")
