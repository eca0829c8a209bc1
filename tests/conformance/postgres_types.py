"""What the test of values and its page are made of: types of a stream with values, each with the type of PostgreSQL that is the same, and the types of
columns that they are written to."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Written:
    """``same``: the type of PostgreSQL that holds all of its values; ``values``: each with the literal of that type."""

    kind: pa.DataType
    same: str
    values: tuple[tuple[Any, str], ...]


def _shown(*values: Any) -> tuple[tuple[Any, str], ...]:
    return tuple((value, str(value)) for value in values)


_US = 1_711_846_800_123_456
_INSTANTS = (
    (1_711_846_800_000_000, "2024-03-31 01:00:00+00"),
    (_US, "2024-03-31 01:00:00.123456+00"),
    (1_711_843_200_000_000, "2024-03-31 00:00:00+00"),
    (-1, "1969-12-31 23:59:59.999999+00"),
    (253_402_300_800_000_000, "10000-01-01 00:00:00+00"),
    (-63_500_000_000_000_000, "0044-10-07 07:06:40+00 BC"),
)
_LOCAL = tuple((value, text.replace("+00", "")) for value, text in _INSTANTS)
_FLOATS = (0.0, -0.0, 0.5, 2.0, -2.0, 2.5, 0.1, 1e15, 1e-5, 1e20, 123456.0, 1e6, float("nan"), float("inf"))
WRITTEN = (
    Written(pa.bool_(), "boolean", ((True, "true"), (False, "false"))),
    Written(pa.int8(), "smallint", _shown(0, 127, -128)),
    Written(pa.int32(), "integer", _shown(0, 40_000, 16_777_217, -(2**31))),
    Written(pa.int64(), "bigint", _shown(0, 2**31, 2**53 + 1, 2**53 + 2, -(2**63), 2**63 - 1)),
    Written(pa.uint64(), "numeric", _shown(0, 2**63, 2**64 - 1)),
    Written(pa.float16(), "real", _shown(0.5, 2.0)),
    Written(pa.float32(), "real", tuple((value, str(value)) for value in (*_FLOATS, 3.3, 16_777_216.0))),
    Written(
        pa.float64(), "double precision", tuple((v, str(v)) for v in (*_FLOATS, 0.1 + 0.2, 2.0**60, 1e300, 5e-324))
    ),
    Written(pa.decimal128(38, 2), "numeric", _shown("1.50", "2.00", "-0.01", "99999.99", "123456789012345678.25")),
    Written(pa.decimal256(60, 20), "numeric", _shown("0.10000000000000000000", "0.12345678901234567891")),
    Written(pa.string(), "text", _shown("", "é ü", 'a,b"c\n\\.', "abc  ", "abcdef", "\\N")),
    Written(pa.large_string(), "text", _shown("x")),
    Written(pa.dictionary(pa.int32(), pa.string()), "text", _shown("x", "y")),
    Written(pa.binary(), "bytea", ((b"", "\\x"), (b"a\x00\xff", "\\x6100ff"))),
    Written(pa.binary(16), "bytea", ((bytes(range(16)), "\\x000102030405060708090a0b0c0d0e0f"),)),
    Written(pa.date32(), "date", ((19_813, "2024-03-31"), (-800_000, "0222-09-04 BC"), (2_932_897, "10000-01-01"))),
    Written(pa.timestamp("s"), "timestamp", ((1_711_846_800, "2024-03-31 01:00:00"),)),
    Written(pa.timestamp("us"), "timestamp", _LOCAL),
    Written(pa.timestamp("ns"), "timestamp", ((_US * 1000, "2024-03-31 01:00:00.123456"),)),
    Written(pa.timestamp("us", "UTC"), "timestamptz", _INSTANTS),
    Written(pa.timestamp("ms", "America/New_York"), "timestamptz", ((1_711_846_800_000, "2024-03-31 01:00:00+00"),)),
    Written(pa.time32("s"), "time", ((3_600, "01:00:00"),)),
    Written(pa.time64("us"), "time", ((0, "00:00:00"), (3_600_123_456, "01:00:00.123456"))),
    Written(
        pa.duration("us"), "interval", ((86_400_000_000, "24:00:00"), (-1_500_000, "-00:00:01.5"), (1, "1 microsecond"))
    ),
    Written(pa.uuid(), "uuid", ((uuid.UUID(int=7).bytes, str(uuid.UUID(int=7))),)),
    Written(pa.json_(), "text", ((b'{"a": 1}'.decode(), '{"a": 1}'),)),
    Written(pa.null(), "text", ()),
)
LITERALS = {
    "numeric(6,2)": ("1.50", "1.500", "1.505", "1e3"),
    "amount": ("1.50", "1.505"),
    "date": ("2024-03-31", "2024-03-31 01:00"),
    "timestamp": ("2024-03-31 01:00", "2024-03-31T01:00:00+02", "2024-03-31 01:00:00Z", "2024-03-31 01:00:00.1234567"),
    "timestamp(3)": ("2024-03-31 01:00:00.123", "2024-03-31 01:00:00.1234"),
    "timestamptz": ("2024-03-31 01:00", "2024-03-31 01:00+02"),
    "time": ("01:00", "01:00:00+02"),
    "interval": ("1 day", "P1D", "1 mon -2 days"),
    "uuid": ("00000000-0000-0000-0000-000000000007",),
    "jsonb": ('{"a": 1}', "[]", '"x"'),
    "mood": ("sad", "angry"),
    "integer[]": ("{1,2}",),
    "inet": ("10.0.0.1/8",),
    "money": ("1.50",),
    "bit(4)": ("0101", "01"),
    "name": ("n" * 63, "n" * 64),
    '"char"': ("a", "ab"),
    "timetz": ("01:00:00+02",),
}
"""Texts for columns of these types, besides those of ``WRITTEN``."""
COLUMNS = (
    *(
        "smallint",
        "integer",
        "bigint",
        "real",
        "double precision",
        "numeric",
        "numeric(6,2)",
        "numeric(4,-2)",
        "amount",
    ),
    *("boolean", "text", "varchar(5)", "char(5)", "citext", "label", "bytea", "date", "timestamp", "timestamp(3)"),
    *("timestamptz", "timestamptz(0)", "time", "time(3)", "timetz", "interval", "interval(0)", "interval day to hour"),
    *("uuid", "json", "jsonb", "mood", "integer[]", "inet", "money", "name", '"char"', "bit(4)"),
)
MADE = (
    "CREATE EXTENSION IF NOT EXISTS citext",
    "DROP DOMAIN IF EXISTS amount",
    "DROP DOMAIN IF EXISTS label",
    "DROP TYPE IF EXISTS mood",
    "CREATE DOMAIN amount AS numeric(6,2) CHECK (VALUE >= 0)",
    "CREATE DOMAIN label AS text",
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
)
"""Statements that make the types of ``COLUMNS`` which no server has."""
