# ruff: noqa: E501
"""Tables of Avro files that are written by Flink and by ours: columns, options of the format, rows as SQL."""

from __future__ import annotations

from typing import Any

WIDE = """b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT, f8 DOUBLE, s STRING, c CHAR(3), v VARCHAR(5), y BYTES, y3 BINARY(3),
d DECIMAL(10, 2), d38 DECIMAL(38, 18), da DATE, ti TIME, ts TIMESTAMP(3), a ARRAY<INT>, m MAP<STRING, INT>, r ROW<x INT, y ARRAY<ROW<z STRING>>>"""
FULL = """(TRUE, CAST(127 AS TINYINT), CAST(-32768 AS SMALLINT), 2147483647, -9223372036854775808, CAST(0.1 AS FLOAT), CAST('1e308' AS DOUBLE), 'é😀', 'abc',
CAST('vw' AS VARCHAR(5)), CAST(X'00ff' AS BYTES), CAST(X'010203' AS BINARY(3)), CAST(-1.28 AS DECIMAL(10, 2)), CAST('12345678901234567890.5' AS DECIMAL(38, 18)),
DATE '1969-12-31', TIME '12:34:56', TIMESTAMP '1969-12-31 23:59:59.999', ARRAY[1, -2], MAP['a', 1, 'b', 2], ROW(1, ARRAY[ROW('z')]))"""
NULLS = f"""({
    ", ".join(
        f"CAST(NULL AS {kind})"
        for kind in (
            "BOOLEAN",
            "TINYINT",
            "SMALLINT",
            "INT",
            "BIGINT",
            "FLOAT",
            "DOUBLE",
            "STRING",
            "CHAR(3)",
            "VARCHAR(5)",
            "BYTES",
            "BINARY(3)",
            "DECIMAL(10, 2)",
            "DECIMAL(38, 18)",
            "DATE",
            "TIME",
            "TIMESTAMP(3)",
            "ARRAY<INT>",
            "MAP<STRING, INT>",
            "ROW<x INT, y ARRAY<ROW<z STRING>>>",
        )
    )
})"""
TIMES = "n INT NOT NULL, t0 TIMESTAMP(0), t3 TIMESTAMP(3), t6 TIMESTAMP(6)"
TIME_ROW = """(1, TIMESTAMP '2020-01-02 03:04:05', TIMESTAMP '2020-01-02 03:04:05.123', TIMESTAMP '2020-01-02 03:04:05.123456')"""
ZONED = "n INT, l3 TIMESTAMP_LTZ(3), l6 TIMESTAMP_LTZ(6)"
ZONED_ROW = """(1, CAST(TIMESTAMP '2020-01-02 03:04:05.123' AS TIMESTAMP_LTZ(3)), CAST(TIMESTAMP '1969-12-31 23:59:59.999999' AS TIMESTAMP_LTZ(6)))"""
NEW = {"timestamp_mapping.legacy": "false"}


def _case(name: str, columns: str, options: dict[str, str], *values: str) -> dict[str, Any]:
    return {"name": name, "columns": columns, "options": options, "values": list(values)}


TABLES = [
    _case("wide", WIDE, {}, FULL, NULLS),
    *(
        _case(codec, "n INT, s STRING", {"codec": codec}, *(f"({n}, '{'text ' * n}')" for n in range(40)))
        for codec in ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")
    ),
    _case("times", TIMES, NEW, TIME_ROW),
    _case(
        "legacy-times",
        "t0 TIMESTAMP(0), t3 TIMESTAMP(3)",
        {},
        "(TIMESTAMP '2020-01-02 03:04:05', TIMESTAMP '0001-01-01 00:00:00.001')",
    ),
    _case(
        "new-times",
        "t0 TIMESTAMP(0), t3 TIMESTAMP(3)",
        NEW,
        "(TIMESTAMP '2020-01-02 03:04:05', TIMESTAMP '0001-01-01 00:00:00.001')",
    ),
    _case("zoned", ZONED, NEW, ZONED_ROW),
    _case(
        "legacy-zoned",
        "n INT, l3 TIMESTAMP_LTZ(3)",
        {},
        "(1, CAST(TIMESTAMP '2020-01-02 03:04:05.123' AS TIMESTAMP_LTZ(3)))",
    ),
    _case("no-codec", "n INT", {"codec": "lzo"}, "(1)"),
    _case("encoding", "n INT", {"encoding": "json"}, "(1)"),
    _case("no-option", "n INT", {"kodec": "null"}, "(1)"),
    _case("legacy-precision", "t TIMESTAMP(6)", {}, "(TIMESTAMP '2020-01-02 03:04:05')"),
]
