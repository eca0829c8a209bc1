"""The rows whose bytes are compared with Flink's: a format, a type, and values as texts, which Java and Python read alike."""

from __future__ import annotations

import random
import struct
from typing import Any

Case = dict[str, Any]

_DOUBLES = ["0.0", "-0.0", "1.0", "-1.5", "0.1", "123456.789", "1e7", "9999999.999", "1e-3", "9.99e-4", "1e21", "1e300"]
_EXTREME = ["4.9e-324", "1.7976931348623157e308", "NaN", "Infinity", "-Infinity"]
_TEXTS = [
    "",
    "a",
    "ü",
    "日本",
    "😀",
    "a,b",
    'say "hi"',
    "two\nlines",
    "back\\slash",
    "tab\t",
    " blanks ",
    "nu\x00l",
    "</é>",
    "null",
    "#",
    "\u2028",
    "\x0b\x1f\x7f\x85",
    "a" * 24,
    "a" * 25,
    "ü" * 25,
    *map(chr, range(32, 127)),
    *(f"a{chr(n)}" for n in range(32, 127)),
]
VALUES: dict[str, list[Any]] = {
    "STRING": _TEXTS,
    "BOOLEAN": ["true", "false"],
    "BYTE": ["0", "127", "-128"],
    "SHORT": ["32767", "-32768"],
    "INT": ["0", "2147483647", "-2147483648"],
    "LONG": ["9223372036854775807", "-9223372036854775808"],
    "FLOAT": ["0.0", "1.1", "-1.5", "1e10", "3.4028235e38", "1e-3", "1.4e-45", "NaN", "Infinity", "-Infinity"],
    "DOUBLE": [*_DOUBLES, *_EXTREME],
    "BIG_INT": ["0", "-5", "123456789012345678901234567890"],
    "BIG_DEC": ["0", "1.5", "-0.000001", "12345678901234567890.123", "3", "120", "0.00000001"],
    "SQL_DATE": ["2020-02-29", "1969-12-31", "0001-01-01", "9999-12-31"],
    "SQL_TIME": ["00:00:00", "23:59:59", "12:34:56"],
    "SQL_TIMESTAMP": [
        "2020-01-01 00:00:00",
        "0001-01-01 00:00:00.5",
        "1969-12-31 23:59:59.999",
        "2021-06-07 08:09:10.123456",
        "2021-06-07 08:09:10.1",
    ],
    "INSTANT": [
        "1970-01-01T00:00:00Z",
        "2021-06-07T08:09:10.123Z",
        "2021-06-07T08:09:10.123456Z",
        "1969-12-31T23:59:59.500Z",
    ],
    "BYTES": ["", "00ff10", "68656c6c6f"],
}


def row(names: list[str] | None, *types: Any) -> list[Any]:
    return ["ROW", names, list(types)]


def _random_doubles() -> list[str]:
    dice = random.Random(15)
    bits = (struct.unpack("<d", dice.randbytes(8))[0] for _ in range(200))
    return [repr(found) for found in bits if found == found]


_INNER = row(["x", "y"], "INT", "STRING")
_NESTED: list[tuple[Any, list[Any]]] = [
    (row(None, "INT", "STRING"), [["1", "a"], [None, None]]),
    (row(["b", "a"], "INT", "STRING"), [["1", "a"], ["2", None]]),
    (row(["r"], _INNER), [[["1", "a"]], [[None, "b"]], [None]]),
    (row(["r", "n"], row(None, "INT", "LONG"), "INT"), [[["1", "2"], "3"]]),
    (row(["l"], ["LIST", "INT"]), [[["1", "2"]], [[]], [None], [["1", None]]]),
    (row(["l"], ["BASIC_ARRAY", "STRING"]), [[["a", "b"]], [[]], [["x", None]], [None]]),
    (row(["l"], ["OBJECT_ARRAY", _INNER]), [[[["1", "a"], ["2", None]]], [[]]]),
    (row(["l"], ["LIST", ["LIST", "DOUBLE"]]), [[[["1.0"], [], ["1e10", "NaN"]]]]),
    (row(["m"], ["MAP", "STRING", "INT"]), [[[["k", "1"], ["", None]]], [[]], [None]]),
    (row(["m"], ["MAP", "STRING", _INNER]), [[[["k", ["1", "a"]]]]]),
    (row(["d"], ["LIST", "SQL_DATE"]), [[["2020-02-29"]]]),
]


def cases() -> list[Case]:
    found: list[Case] = []
    for form in ("json", "csv"):
        for kind, values in VALUES.items():
            found.append(
                {"format": form, "type": row(["v", "w"], kind, "INT"), "rows": [[v, "7"] for v in [*values, None]]}
            )
        found.append({"format": form, "type": row(["v"], "DOUBLE"), "rows": [[v] for v in _random_doubles()]})
        found += [{"format": form, "type": kind, "rows": rows} for kind, rows in _NESTED]
    renamed = {"written": row(["other", "names"], "INT", "STRING"), "type": row(["a", "b"], "INT", "STRING")}
    found.append({"format": "json", **renamed, "rows": [["1", "x"], [None, None]]})
    deep = {
        "written": row(["o"], row(["p"], "INT")),
        "type": row(["a"], row(["b"], "INT")),
        "rows": [[["1"]], [[None]]],
    }
    return [*found, {"format": "json", **deep}, *_avro_cases()]


def _record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


_DECIMALS = ["0.00000000", "1.50000000", "-0.00000100", "12345678901234567890.12300000"]
_AVRO: dict[str, Any] = {
    "SQL_DATE": {"type": "int", "logicalType": "date"},
    "SQL_TIME": {"type": "int", "logicalType": "time-millis"},
    "SQL_TIMESTAMP": {"type": "long", "logicalType": "timestamp-millis"},
    "BIG_DEC": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 8},
    "BYTES": "bytes",
    **{kind: kind.lower() for kind in ("STRING", "BOOLEAN", "INT", "LONG", "FLOAT", "DOUBLE")},
}
_RECORD_WITHIN = _record(("p", "int"), ("q", _optional("string")))
_NOTED = _record(("id", "long"))
_NOTED["fields"].append({"name": "note", "type": ["null", "string"], "default": None})


def _avro(schema: Any, kind: Any, rows: list[Any]) -> Case:
    return {"format": "avro", "schema": schema, "type": kind, "rows": rows}


def _in_avro(kind: str) -> list[Any]:
    """Values of a type, without those that Java's calendars or milliseconds change."""
    if kind == "BIG_DEC":
        return _DECIMALS
    return [v for v in VALUES[kind] if not v.startswith("0001") and ("." not in v[19:] or len(v) == 23)]


def _avro_cases() -> list[Case]:
    found = []
    for kind, avro in _AVRO.items():
        pair, rows = row(["v", "w"], kind, "INT"), [[value, "7"] for value in _in_avro(kind)]
        found.append(_avro(_record(("v", avro), ("w", "int")), pair, rows))
        found.append(_avro(_record(("other", _optional(avro)), ("n", "int")), pair, [*rows, [None, "7"]]))
    found.append(_avro(_NOTED, row(None, "LONG", "STRING"), [["1", "a"], ["2", None]]))
    swapped = _record(("a", "string"), ("b", "string"))
    found.append(_avro(swapped, row(["b", "a"], "STRING", "STRING"), [["1", "2"]]))
    within = {**_RECORD_WITHIN, "name": "I"}
    nested = _record(
        ("r", within), ("l", {"type": "array", "items": "int"}), ("m", {"type": "map", "values": "string"})
    )
    parts = row(["s", "t", "u"], _INNER, ["BASIC_ARRAY", "INT"], ["MAP", "STRING", "STRING"])
    return [*found, _avro(nested, parts, [[["1", "a"], ["1", "2"], [["k", "v"]]], [["1", None], [], []]])]
