"""Random SQL expressions of a wanted type, over columns."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

_KINDS = (
    "INT",
    "BIGINT",
    "DOUBLE",
    "DECIMAL",
    "STRING",
    "BOOLEAN",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "LTZ",
    "ARRAY",
    "MAP",
    "ROW",
    "BYTES",
)
_TYPES = {
    "INT": "INT", "BIGINT": "BIGINT", "DOUBLE": "DOUBLE", "DECIMAL": "DECIMAL(12, 3)", "STRING": "STRING", "BOOLEAN": "BOOLEAN", "DATE": "DATE",
    "TIME": "TIME(0)", "TIMESTAMP": "TIMESTAMP(3)", "LTZ": "TIMESTAMP_LTZ(3)", "BYTES": "BYTES",
}  # fmt: skip
_LITERALS = {
    "INT": ["0", "1", "-1", "7", "2147483647"],
    "BIGINT": ["CAST(3 AS BIGINT)", "9223372036854775807"],
    "DOUBLE": ["1.5E0", "-0.25E0", "1E10"],
    "DECIMAL": ["1.5", "-0.001", "100.00", "99999999.99"],
    "STRING": ["''", "'a'", "'ä€'", "'12'", "'2024-02-29'", "' b '"],
    "BOOLEAN": ["TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"],
    "DATE": ["DATE '2024-02-29'", "DATE '1969-12-31'"],
    "TIME": ["TIME '12:34:56'"],
    "TIMESTAMP": ["TIMESTAMP '2024-02-29 23:59:59.123'", "TIMESTAMP '1969-12-31 23:59:59.999'"],
    "LTZ": ["TO_TIMESTAMP_LTZ(1709250000123, 3)", "TO_TIMESTAMP_LTZ(-1, 0)"],
    "BYTES": ["x'00ff'", "x''", "CAST(NULL AS BYTES)"],
}
_COMPARED = ("INT", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "DATE", "TIME", "TIMESTAMP", "LTZ")
_PATTERNS = ("'a%'", "'%_b'", "'%ä%'", "''", "'_'")
_FOR_NULL = ("", ", CAST(NULL AS STRING)", ", 'n'")
_PADS = ("'xy'", "'ä'")
_OF_ID = {
    "INT": "id", "BIGINT": "CAST(id AS BIGINT)", "DOUBLE": "(id / 8E0)", "DECIMAL": "CAST(id / 8E0 AS DECIMAL(7, 3))", "STRING": "CAST(id AS STRING)",
    "BOOLEAN": "(id < 5)", "DATE": "TIMESTAMPADD(DAY, id, DATE '2024-02-25')",
    "TIME": "CAST(TIMESTAMPADD(MINUTE, id, TIMESTAMP '2024-02-28 23:55:00.000') AS TIME(0))",
    "TIMESTAMP": "TIMESTAMPADD(HOUR, id, TIMESTAMP '2023-03-25 22:00:00.500')", "LTZ": "TO_TIMESTAMP_LTZ(1698530000 + id * 3600, 0)",
    "BYTES": "CAST(CAST(id AS STRING) AS BYTES)",
}  # fmt: skip
"""Values that differ from row to row: the planner computes an expression of literals itself."""
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "QUARTER", "WEEK")


@dataclass(frozen=True)
class Scope:
    """``columns``: name and type."""

    columns: tuple[tuple[str, str], ...]

    @property
    def id(self) -> str:
        """The column ``id``, the first one."""
        return self.columns[0][0]

    def of(self, kind: str) -> list[str]:
        starts = {
            "INT": ("INT", "SMALLINT", "TINYINT"),
            "DOUBLE": ("DOUBLE", "FLOAT"),
            "LTZ": ("TIMESTAMP_LTZ",),
            "TIME": ("TIME(",),
            "TIMESTAMP": ("TIMESTAMP(",),
            "STRING": ("STRING", "CHAR", "VARCHAR"),
            "BYTES": ("BYTES", "VARBINARY"),
            "ARRAY": ("ARRAY<",),
            "MAP": ("MAP<",),
            "ROW": ("ROW<",),
        }.get(kind, (kind,))
        return [name for name, type in self.columns if type.startswith(starts)]


def condition(r: random.Random, scope: Scope) -> str:
    return expression(r, scope, "BOOLEAN", 2)


def expression(r: random.Random, scope: Scope, kind: str | None = None, depth: int = 3) -> str:
    """``kind``: ``INT`` ... ``ROW``; ``None``: any."""
    wanted = kind or r.choice(_KINDS)
    columns = scope.of(wanted)
    if wanted in ("ARRAY", "MAP", "ROW") and columns and r.random() < 0.3:
        return r.choice(columns)
    if wanted not in ("ARRAY", "MAP", "ROW") and (depth <= 0 or r.random() < 0.15):
        if r.random() < 0.2:
            return r.choice(_LITERALS[wanted])
        return r.choice(columns) if columns and r.random() < 0.8 else re.sub(r"\bid\b", scope.id, _OF_ID[wanted])

    def any_of(*kinds: str) -> str:
        return expression(r, scope, r.choice(kinds), depth - 1)

    if wanted in _TYPES and r.random() < 0.25:
        return _general(r, wanted, any_of)
    return r.choice(_MAKERS[wanted])(r, any_of)


AnyOf = Callable[..., str]
Maker = Callable[[random.Random, AnyOf], str]


def _general(r: random.Random, kind: str, a: AnyOf) -> str:
    """What every type has."""
    makers: list[Maker] = [
        lambda r, a: f"CASE WHEN {a('BOOLEAN')} THEN {a(kind)} WHEN {a('BOOLEAN')} THEN {a(kind)} ELSE {a(kind)} END",
        lambda r, a: f"CASE WHEN {a('BOOLEAN')} THEN {a(kind)} END",
        lambda r, a: f"COALESCE({a(kind)}, {a(kind)})",
        lambda r, a: f"NULLIF({a(kind)}, {a(kind)})",
        lambda r, a: f"IFNULL({a(kind)}, {a(kind)})",
        lambda r, a: f"IF({a('BOOLEAN')}, {a(kind)}, {a(kind)})",
        lambda r, a: f"TRY_CAST({a('STRING')} AS {_TYPES[kind]})",
    ]
    if kind not in ("BOOLEAN",):
        makers.append(lambda r, a: f"{r.choice(['GREATEST', 'LEAST'])}({a(kind)}, {a(kind)})")
    if kind in ("INT", "BIGINT", "DOUBLE", "DECIMAL"):
        makers.append(lambda r, a: f"CAST({a('INT', 'BIGINT', 'DOUBLE', 'DECIMAL')} AS {_TYPES[kind]})")
        makers.append(lambda r, a: f"CAST({a('BOOLEAN')} AS {_TYPES[kind]})")
    if kind == "INT":
        makers.append(
            lambda r, a: f"CAST({a('INT', 'BIGINT', 'DOUBLE', 'DECIMAL')} AS {r.choice(['TINYINT', 'SMALLINT'])})"
        )
    return r.choice(makers)(r, a)


def _arithmetic(kind: str, *kinds: str) -> list[Maker]:
    def binary(operator: str) -> Maker:
        return lambda r, a: f"({a(kind)} {operator} {a(*kinds)})"

    return [binary(operator) for operator in ("+", "-", "*")]


def _ints(r: random.Random, a: AnyOf) -> str:
    """An array of integers."""
    return f"ARRAY[{', '.join(a('INT') for _ in range(r.randint(1, 3)))}]"


_MAKERS: dict[str, list[Maker]] = {
    "INT": [
        lambda r, a: f"REGEXP_COUNT({a('STRING')}, '[a-b]')",
        lambda r, a: f"REGEXP_INSTR({a('STRING')}, '[^ ]$')",
        lambda r, a: f"ARRAY_POSITION({_ints(r, a)}, {a('INT')})",
        lambda r, a: f"{r.choice(['ARRAY_MAX', 'ARRAY_MIN'])}({_ints(r, a)})",
        lambda r, a: f"({_ints(r, a)})[{r.choice(['1', '2', '3'])}]",
        lambda r, a: f"(MAP['a', {a('INT')}, 'b', {a('INT')}])[{a('STRING')}]",
        lambda r, a: (
            f"EXTRACT({r.choice(['MILLISECOND', 'DOW', 'ISODOW', 'ISOYEAR', 'DECADE', 'CENTURY'])} FROM {a('TIMESTAMP')})"
        ),
        lambda r, a: (
            f"TIMESTAMPDIFF({r.choice(['DAY', 'WEEK', 'MONTH', 'QUARTER', 'YEAR', 'HOUR'])}, {a('TIMESTAMP', 'DATE', 'LTZ')}, {a('TIMESTAMP', 'DATE')})"
        ),
        lambda r, a: f"CAST({a('DOUBLE')} AS INT)",
        *_arithmetic("INT", "INT"),
        lambda r, a: f"(- {a('INT')})",
        lambda r, a: f"ABS({a('INT')})",
        lambda r, a: f"MOD({a('INT')}, {r.choice(['3', '7', '-2'])})",
        lambda r, a: f"({a('INT')} / {r.choice(['2', '-3', '7'])})",
        lambda r, a: f"SIGN({a('INT')})",
        lambda r, a: f"CHAR_LENGTH({a('STRING')})",
        lambda r, a: f"POSITION({a('STRING')} IN {a('STRING')})",
        lambda r, a: f"ASCII({a('STRING')})",
        lambda r, a: f"LOCATE({a('STRING')}, {a('STRING')})",
        lambda r, a: f"CARDINALITY({a('ARRAY', 'MAP')})",
        lambda r, a: f"ROUND({a('INT')}, {r.choice(['-1', '0', '2'])})",
        lambda r, a: f"CAST({a('STRING')} IS NOT NULL AS INT)",
        lambda r, a: f"INSTR({a('STRING')}, {a('STRING')})",
    ],
    "BIGINT": [
        lambda r, a: f"UNIX_TIMESTAMP(CAST({a('LTZ', 'TIMESTAMP')} AS STRING))",
        lambda r, a: f"CAST(CAST({a('INT', 'DOUBLE')} AS FLOAT) AS BIGINT)",
        lambda r, a: f"TRY_CAST({a('STRING')} AS {r.choice(['TINYINT', 'SMALLINT', 'BIGINT'])})",
        lambda r, a: f"EXTRACT({r.choice(_UNITS)} FROM {a('LTZ')})",
        *_arithmetic("BIGINT", "INT", "BIGINT"),
        lambda r, a: f"EXTRACT({r.choice(_UNITS)} FROM {a('TIMESTAMP')})",
        lambda r, a: f"EXTRACT({r.choice(['YEAR', 'MONTH', 'DAY', 'QUARTER', 'WEEK', 'DOW', 'DOY'])} FROM {a('DATE')})",
        lambda r, a: f"EXTRACT({r.choice(['HOUR', 'MINUTE', 'SECOND'])} FROM {a('TIME')})",
        lambda r, a: f"ABS({a('BIGINT')})",
        lambda r, a: f"MOD({a('BIGINT')}, 5)",
        lambda r, a: (
            f"{r.choice(['YEAR', 'MONTH', 'DAYOFMONTH', 'DAYOFYEAR', 'DAYOFWEEK', 'WEEK', 'QUARTER'])}({a('DATE')})"
        ),
        lambda r, a: f"UNIX_TIMESTAMP({a('STRING')}, 'yyyy-MM-dd')",
        lambda r, a: (
            f"CAST(TIMESTAMPDIFF({r.choice(['SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR'])}, {a('TIMESTAMP')}, {a('TIMESTAMP')}) AS BIGINT)"
        ),
    ],
    "DOUBLE": [
        lambda r, a: f"CAST({a('DECIMAL', 'BIGINT', 'DOUBLE')} AS FLOAT)",
        lambda r, a: f"TRY_CAST({a('STRING')} AS FLOAT)",
        lambda r, a: f"MOD({a('INT')}, 3) / 4E0",
        lambda r, a: f"{r.choice(['ROUND', 'TRUNCATE'])}({a('DOUBLE')}, {r.choice(['-1', '3'])})",
        *_arithmetic("DOUBLE", "DOUBLE", "INT", "BIGINT", "DECIMAL"),
        lambda r, a: f"({a('DOUBLE')} / {a('DOUBLE', 'INT')})",
        lambda r, a: f"{r.choice(['FLOOR', 'CEIL', 'ABS', 'SIGN'])}({a('DOUBLE')})",
        lambda r, a: f"SQRT({a('DOUBLE', 'INT')})",
        lambda r, a: f"ROUND({a('DOUBLE')}, {r.choice(['0', '1', '2'])})",
        lambda r, a: f"TRUNCATE({a('DOUBLE')}, {r.choice(['0', '1'])})",
        lambda r, a: f"(- {a('DOUBLE')})",
    ],
    "DECIMAL": [
        lambda r, a: f"TRY_CAST({a('STRING')} AS DECIMAL({r.choice(['4, 2', '10, 0', '38, 20'])}))",
        lambda r, a: f"({a('DECIMAL')} / NULLIF({a('DECIMAL')}, 0))",
        lambda r, a: f"(- {a('DECIMAL')})",
        *_arithmetic("DECIMAL", "DECIMAL", "INT", "BIGINT"),
        lambda r, a: f"({a('DECIMAL')} / {r.choice(['3', '0.7', '-12.50'])})",
        lambda r, a: f"{r.choice(['FLOOR', 'CEIL', 'ABS', 'SIGN'])}({a('DECIMAL')})",
        lambda r, a: f"{r.choice(['ROUND', 'TRUNCATE'])}({a('DECIMAL')}, {r.choice(['0', '1', '2', '-1'])})",
        lambda r, a: f"MOD({a('DECIMAL')}, {r.choice(['3', '0.7'])})",
        lambda r, a: (
            f"CAST({a('DECIMAL', 'DOUBLE', 'BIGINT')} AS DECIMAL({r.choice(['6, 2', '20, 0', '38, 18', '3, 1'])}))"
        ),
    ],
    "STRING": [
        lambda r, a: f"TRANSLATE({a('STRING')}, 'ab1', 'xy')",
        lambda r, a: f"ELT({r.choice(['1', '2', '3'])}, {a('STRING')}, {a('STRING')})",
        lambda r, a: f"BTRIM({a('STRING')}, 'a ')",
        lambda r, a: f"{r.choice(['URL_ENCODE', 'URL_DECODE', 'FROM_BASE64', 'SHA1'])}({a('STRING')})",
        lambda r, a: f"REGEXP_SUBSTR({a('STRING')}, '[a-z]+')",
        lambda r, a: f"ARRAY_JOIN(ARRAY[{a('STRING')}, {a('STRING')}], '|'{r.choice(_FOR_NULL)})",
        lambda r, a: f"PRINTF('%s-%s', {a('INT')}, {a('STRING')})",
        lambda r, a: f"BIN({a('INT')})",
        lambda r, a: f"TYPEOF({a('DECIMAL', 'INT', 'TIMESTAMP', 'STRING', 'BYTES')})",
        lambda r, a: f"JSON_ARRAY({a('INT')}, {a('STRING')}{r.choice(['', ' NULL ON NULL', ' ABSENT ON NULL'])})",
        lambda r, a: f"JSON_QUERY('{{\"a\": [' || COALESCE(CAST({a('INT')} AS STRING), 'null') || ', 2]}}', '$.a')",
        lambda r, a: f"CAST({a('BYTES')} AS STRING)",
        lambda r, a: f"TO_BASE64({a('STRING')})",
        lambda r, a: f"DATE_FORMAT({a('LTZ')}, '{r.choice(['yyyy-MM-dd HH', 'HH:mm:ss.SSS', 'DDD', 'a hh'])}')",
        lambda r, a: (
            f"CAST({a('STRING', 'INT', 'BOOLEAN', 'DATE')} AS {r.choice(['CHAR(5)', 'VARCHAR(3)', 'CHAR(1)'])})"
        ),
        lambda r, a: f"(ARRAY[{a('STRING')}, {a('STRING')}])[{r.choice(['1', '2', '4'])}]",
        lambda r, a: f"LPAD({a('STRING')}, 4, {a('STRING')})",
        lambda r, a: (
            f"{r.choice(['UPPER', 'LOWER', 'TRIM', 'LTRIM', 'RTRIM', 'REVERSE', 'INITCAP', 'MD5', 'TO_BASE64'])}({a('STRING')})"
        ),
        lambda r, a: f"({a('STRING')} || {a('STRING')})",
        lambda r, a: f"CONCAT({a('STRING')}, {a('STRING')})",
        lambda r, a: f"CONCAT_WS('-', {a('STRING')}, {a('STRING')}, {a('STRING')})",
        lambda r, a: f"SUBSTRING({a('STRING')} FROM {r.choice(['1', '2', '-1', '0'])} FOR {r.choice(['1', '2', '9'])})",
        lambda r, a: f"SUBSTRING({a('STRING')}, {a('INT')})",
        lambda r, a: f"{r.choice(['LEFT', 'RIGHT'])}({a('STRING')}, {r.choice(['0', '1', '2', '-1'])})",
        lambda r, a: f"{r.choice(['LPAD', 'RPAD'])}({a('STRING')}, {r.choice(['0', '3', '5'])}, {r.choice(_PADS)})",
        lambda r, a: f"REPLACE({a('STRING')}, {a('STRING')}, 'z')",
        lambda r, a: f"REGEXP_REPLACE({a('STRING')}, '[a-c]+', '<')",
        lambda r, a: f"REGEXP_EXTRACT({a('STRING')}, '([a-z])(.)', {r.choice(['0', '1', '2'])})",
        lambda r, a: f"SPLIT_INDEX({a('STRING')}, ',', {r.choice(['0', '1', '2'])})",
        lambda r, a: f"REPEAT({a('STRING')}, {r.choice(['0', '1', '3', '-1'])})",
        lambda r, a: f"OVERLAY({a('STRING')} PLACING 'xx' FROM {r.choice(['1', '2', '5'])})",
        lambda r, a: f"TRIM({r.choice(['BOTH', 'LEADING', 'TRAILING'])} 'a' FROM {a('STRING')})",
        lambda r, a: (
            f"CAST({a('INT', 'BIGINT', 'DOUBLE', 'DECIMAL', 'BOOLEAN', 'DATE', 'TIME', 'TIMESTAMP', 'LTZ', 'ARRAY', 'MAP', 'ROW')} AS STRING)"
        ),
        lambda r, a: f"CAST({a('STRING')} AS {r.choice(['CHAR(3)', 'VARCHAR(2)'])})",
        lambda r, a: f"DATE_FORMAT({a('TIMESTAMP')}, '{r.choice(['yyyy-MM-dd', 'HH:mm:ss.SSS', 'yy/M/d', 'EEE'])}')",
        lambda r, a: (
            f"FROM_UNIXTIME({r.choice(['0', '1709250000', '-1'])} + {r.choice(['0', '1'])} * {a('INT')} / 1000)"
        ),
        lambda r, a: f"JSON_STRING({a('INT', 'STRING', 'BOOLEAN', 'DECIMAL')})",
        lambda r, a: f"JSON_OBJECT('a' VALUE {a('INT', 'STRING', 'BOOLEAN')}, 'b' VALUE {a('STRING', 'DECIMAL')})",
        lambda r, a: f"JSON_VALUE('{{\"a\": ' || COALESCE(CAST({a('INT')} AS STRING), 'null') || '}}', '$.a')",
        lambda r, a: f"SHA256({a('STRING')})",
        lambda r, a: f"CHR({r.choice(['65', '228', '0'])} + MOD({a('INT')}, 3))",
        lambda r, a: f"HEX({a('INT', 'STRING')})",
        lambda r, a: f"CAST(CAST({a('STRING')} AS BYTES) AS STRING)",
    ],
    "BOOLEAN": [
        lambda r, a: f"({a('BYTES')} {r.choice(['=', '<>', 'IS DISTINCT FROM'])} {a('BYTES')})",
        lambda r, a: f"ARRAY_CONTAINS({_ints(r, a)}, {a('INT')})",
        lambda r, a: f"({a('ARRAY')} IS {r.choice(['', 'NOT '])}NULL)",
        lambda r, a: f"(ARRAY[{a('INT')}, 1] = ARRAY[{a('INT')}, 1])",
        lambda r, a: f"({a('DOUBLE')} {r.choice(['', 'NOT '])}BETWEEN {a('DOUBLE')} AND {a('DOUBLE')})",
        lambda r, a: f"({a('BIGINT')} {r.choice(['', 'NOT '])}IN ({a('BIGINT')}, 3, {a('INT')}))",
        lambda r, a: f"({a('INT')} {r.choice(['', 'NOT '])}IN (1, NULL, 7))",
        lambda r, a: f"({a('DATE')} {r.choice(['', 'NOT '])}IN (DATE '1970-01-01', DATE '2024-02-29'))",
        lambda r, a: f"({a('STRING')} {r.choice(['', 'NOT '])}LIKE {a('STRING')})",
        lambda r, a: f"({a('BOOLEAN')} {r.choice(['=', '<>', '<', '>='])} {a('BOOLEAN')})",
        lambda r, a: f"JSON_EXISTS('{{\"a\": 1}}', '$.{r.choice('ab')}')",
        lambda r, a: f"CAST({a('INT')} AS BOOLEAN)",
        lambda r, a: f"TRY_CAST({a('STRING')} AS BOOLEAN)",
        lambda r, a: _comparison(r, a),
        lambda r, a: _comparison(r, a),
        lambda r, a: f"({a('BOOLEAN')} {r.choice(['AND', 'OR'])} {a('BOOLEAN')})",
        lambda r, a: f"({a('BOOLEAN')} {r.choice(['AND', 'OR'])} {a('BOOLEAN')})",
        lambda r, a: f"(NOT {a('BOOLEAN')})",
        lambda r, a: f"({a('BOOLEAN')} IS {r.choice(['', 'NOT '])}{r.choice(['TRUE', 'FALSE', 'NULL', 'UNKNOWN'])})",
        lambda r, a: f"({a(*_COMPARED)} IS {r.choice(['', 'NOT '])}NULL)",
        lambda r, a: f"({a('STRING')} {r.choice(['', 'NOT '])}LIKE {r.choice(_PATTERNS)})",
        lambda r, a: f"({a('STRING')} LIKE '%!%%' ESCAPE '!')",
        lambda r, a: f"({a('STRING')} SIMILAR TO '[a-z]*')",
        lambda r, a: f"REGEXP({a('STRING')}, '^[0-9]+$')",
        lambda r, a: f"({a('INT')} {r.choice(['', 'NOT '])}IN (1, 2, {r.choice(['3', '-9', '5, 6, 7, 8, 9'])}))",
        lambda r, a: f"({a('STRING')} {r.choice(['', 'NOT '])}IN ('a', 'b', '', 'ä'))",
        lambda r, a: f"({a('DECIMAL')} {r.choice(['', 'NOT '])}IN (1.5, 2, 3))",
        lambda r, a: (
            f"({a('INT')} {r.choice(['', 'NOT '])}BETWEEN {r.choice(['-5', '0'])} AND {r.choice(['3', '-9'])})"
        ),
        lambda r, a: f"({a('DATE')} BETWEEN DATE '1970-01-01' AND {a('DATE')})",
        lambda r, a: f"({a('INT')} > 3 OR {a('INT')} < -3 OR {a('INT')} = 0)",
        lambda r, a: f"(CARDINALITY({a('ARRAY')}) > 1)",
        lambda r, a: f"({a('STRING')} IS JSON)",
        lambda r, a: f"{r.choice(['IS_DIGIT', 'IS_ALPHA', 'IS_DECIMAL'])}({a('STRING')})",
        lambda r, a: f"{r.choice(['STARTSWITH', 'ENDSWITH'])}({a('STRING')}, {a('STRING')})",
        lambda r, a: f"({a('TIMESTAMP')}, INTERVAL '1' DAY) OVERLAPS ({a('TIMESTAMP')}, INTERVAL '2' DAY)",
    ],
    "DATE": [
        lambda r, a: f"TRY_CAST({a('STRING')} AS DATE)",
        lambda r, a: f"({a('DATE')} - INTERVAL '{r.choice(['1-2', '0-11'])}' YEAR TO MONTH)",
        lambda r, a: f"({a('DATE')} + INTERVAL '{r.choice(['1', '30', '-5'])}' {r.choice(['DAY', 'MONTH', 'YEAR'])})",
        lambda r, a: f"CAST({a('TIMESTAMP', 'LTZ')} AS DATE)",
        lambda r, a: f"TO_DATE('2024-0' || {a('STRING')} || '-28')",
        lambda r, a: (
            f"{r.choice(['FLOOR', 'CEIL'])}({a('DATE')} TO {r.choice(['YEAR', 'MONTH', 'DAY', 'QUARTER', 'WEEK'])})"
        ),
        lambda r, a: f"TIMESTAMPADD({r.choice(['DAY', 'MONTH', 'WEEK'])}, {r.choice(['1', '-13'])}, {a('DATE')})",
    ],
    "TIME": [
        lambda r, a: f"CAST({a('LTZ')} AS TIME(0))",
        lambda r, a: f"TRY_CAST({a('STRING')} AS TIME)",
        lambda r, a: f"CAST({a('TIMESTAMP')} AS TIME(0))",
        lambda r, a: f"({a('TIME')} + INTERVAL '{r.choice(['1', '90'])}' {r.choice(['MINUTE', 'HOUR', 'SECOND'])})",
    ],
    "TIMESTAMP": [
        lambda r, a: f"CAST({a('TIMESTAMP')} AS TIMESTAMP({r.choice(['1', '9'])}))",
        lambda r, a: f"({a('TIMESTAMP')} + INTERVAL '1 02:03:04.567' DAY TO SECOND)",
        lambda r, a: f"TRY_CAST(CAST({a('LTZ', 'DATE')} AS STRING) AS TIMESTAMP({r.choice(['0', '3', '6'])}))",
        lambda r, a: (
            f"({a('TIMESTAMP')} {r.choice('+-')} INTERVAL '{r.choice(['1', '40'])}' {r.choice(['SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR'])})"
        ),
        lambda r, a: f"CAST({a('DATE', 'LTZ')} AS TIMESTAMP(3))",
        lambda r, a: f"TO_TIMESTAMP({a('STRING')})",
        lambda r, a: f"TO_TIMESTAMP({a('STRING')}, 'yyyy-MM-dd')",
        lambda r, a: f"{r.choice(['FLOOR', 'CEIL'])}({a('TIMESTAMP')} TO {r.choice(_UNITS)})",
        lambda r, a: (
            f"TIMESTAMPADD({r.choice(['SECOND', 'HOUR', 'DAY', 'MONTH', 'QUARTER'])}, {a('INT')}, {a('TIMESTAMP')})"
        ),
        lambda r, a: f"CAST({a('TIMESTAMP')} AS TIMESTAMP({r.choice(['0', '3', '6'])}))",
    ],
    "LTZ": [
        lambda r, a: f"{r.choice(['FLOOR', 'CEIL'])}({a('LTZ')} TO {r.choice(_UNITS)})",
        lambda r, a: f"CAST({a('TIMESTAMP')} AS TIMESTAMP_LTZ({r.choice(['0', '6', '9'])}))",
        lambda r, a: f"TRY_CAST(CAST({a('TIMESTAMP')} AS STRING) AS TIMESTAMP_LTZ(3))",
        lambda r, a: f"CAST({a('TIMESTAMP', 'DATE')} AS TIMESTAMP_LTZ(3))",
        lambda r, a: f"TO_TIMESTAMP_LTZ({a('INT')}, {r.choice(['0', '3'])})",
        lambda r, a: (
            f"({a('LTZ')} + INTERVAL '{r.choice(['1', '25'])}' {r.choice(['SECOND', 'HOUR', 'DAY', 'MONTH'])})"
        ),
    ],
    "BYTES": [
        lambda r, a: f"CAST({a('STRING')} AS {r.choice(['BYTES', 'VARBINARY(3)', 'BINARY(4)'])})",
        lambda r, a: f"UNHEX({a('STRING')})",
        lambda r, a: f"ENCODE({a('STRING')}, '{r.choice(['UTF-8', 'UTF-16', 'ISO-8859-1'])}')",
        lambda r, a: f"CAST({a('BYTES')} AS {r.choice(['BINARY(2)', 'VARBINARY(2)'])})",
        lambda r, a: f"CASE WHEN {a('BOOLEAN')} THEN {a('BYTES')} END",
    ],
    "ARRAY": [
        lambda r, a: f"ARRAY_CONCAT({_ints(r, a)}, ARRAY[{a('INT')}])",
        lambda r, a: f"{r.choice(['ARRAY_EXCEPT', 'ARRAY_INTERSECT'])}({_ints(r, a)}, ARRAY[{a('INT')}, {a('INT')}])",
        lambda r, a: f"ARRAY_REMOVE({_ints(r, a)}, {a('INT')})",
        lambda r, a: f"ARRAY_SLICE({_ints(r, a)}, {r.choice(['1', '2', '-2', '0'])}{r.choice(['', ', 2', ', -1'])})",
        lambda r, a: f"ARRAY_PREPEND({_ints(r, a)}, {a('INT')})",
        lambda r, a: f"ARRAY_SORT({_ints(r, a)}, {r.choice(['TRUE', 'FALSE'])}, {r.choice(['TRUE', 'FALSE'])})",
        lambda r, a: f"REGEXP_EXTRACT_ALL({a('STRING')}, '([a-z])')",
        lambda r, a: f"ARRAY[{a('TIMESTAMP')}, {a('TIMESTAMP')}]",
        lambda r, a: f"ARRAY[{a('BYTES')}]",
        lambda r, a: f"ARRAY[ARRAY[{a('INT')}], CAST(NULL AS ARRAY<INT>)]",
        lambda r, a: f"MAP_VALUES({a('MAP')})",
        lambda r, a: (
            f"CAST(ARRAY[{a('INT')}, {a('INT')}] AS ARRAY<{r.choice(['STRING', 'BIGINT', 'DECIMAL(12, 1)', 'DOUBLE'])}>)"
        ),
        lambda r, a: f"ARRAY[{a('INT')}, {a('INT')}]",
        lambda r, a: f"ARRAY[{a('STRING')}, {a('STRING')}, {a('STRING')}]",
        lambda r, a: f"ARRAY[{a('DECIMAL')}]",
        lambda r, a: f"ARRAY_DISTINCT(ARRAY[{a('INT')}, {a('INT')}, {a('INT')}])",
        lambda r, a: f"ARRAY_SORT(ARRAY[{a('INT')}, {a('INT')}, {a('INT')}])",
        lambda r, a: f"ARRAY_REVERSE(ARRAY[{a('DOUBLE')}, {a('DOUBLE')}])",
        lambda r, a: f"ARRAY_APPEND(ARRAY[{a('STRING')}], {a('STRING')})",
        lambda r, a: f"ARRAY_UNION(ARRAY[{a('INT')}], ARRAY[{a('INT')}, {a('INT')}])",
        lambda r, a: f"SPLIT({a('STRING')}, ',')",
        lambda r, a: f"MAP_KEYS({a('MAP')})",
        lambda r, a: f"ARRAY[ROW({a('INT')}, {a('STRING')}), ROW({a('INT')}, {a('STRING')})]",
    ],
    "MAP": [
        lambda r, a: f"MAP_FROM_ARRAYS(ARRAY['p', 'q'], ARRAY[{a('INT')}, {a('INT')}])",
        lambda r, a: f"MAP_UNION(MAP['a', {a('INT')}], MAP['b', {a('INT')}])",
        lambda r, a: f"MAP['x', {a('DECIMAL')}]",
        lambda r, a: f"CAST(MAP['a', {a('INT')}] AS MAP<STRING, STRING>)",
        lambda r, a: f"MAP['a', {a('INT')}, 'b', {a('INT')}]",
        lambda r, a: f"MAP[1, {a('STRING')}]",
        lambda r, a: f"STR_TO_MAP({a('STRING')}, ',', '=')",
    ],
    "ROW": [
        lambda r, a: f"ROW({a('DECIMAL')}, ROW({a('DATE')}, {a('BYTES')}), {a('MAP')})",
        lambda r, a: f"CAST(ROW({a('INT')}, {a('STRING')}) AS ROW<x BIGINT, y VARCHAR(2)>)",
        lambda r, a: f"ROW({a('INT')}, {a('STRING')}, {a('TIMESTAMP')})",
        lambda r, a: f"ROW({a('ARRAY')}, {a('BOOLEAN')})",
    ],
}


def _comparison(r: random.Random, a: AnyOf) -> str:
    left, right = r.choice(
        [
            *((kind, kind) for kind in _COMPARED),
            ("INT", "BIGINT"),
            ("INT", "DECIMAL"),
            ("DOUBLE", "DECIMAL"),
            ("INT", "DOUBLE"),
            ("DATE", "TIMESTAMP"),
            ("STRING", "INT"),
        ]
    )
    operator = r.choice(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
    return f"({a(left)} {operator} {a(right)})"
