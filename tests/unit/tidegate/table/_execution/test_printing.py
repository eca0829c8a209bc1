"""Tables as text, compared with what ``TableResult.print`` of PyFlink 2.3.0 printed for the same values (recorded on 2026-11-28 with the queries
beside them, ``table.local-time-zone`` Europe/Berlin)."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tidegate.common.row import Row
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.plan.logical_types import parse_type
from tidegate.table._execution.printing import print_table, texts_of
from tidegate.table.table_result import ResultKind, TableResult

MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5)

RECORDED = {
    "numbers": (
        # SELECT CAST(1 AS TINYINT) a, CAST(-2 AS SMALLINT) b, 3 c, CAST(4 AS BIGINT) d, CAST(1e10 AS DOUBLE) f,
        # CAST(1.10 AS DECIMAL(10,3)) g, TRUE h, CAST(NULL AS INT) i
        "ROW<a TINYINT NOT NULL, b SMALLINT NOT NULL, c INT NOT NULL, d BIGINT NOT NULL, f DOUBLE NOT NULL, "
        "g DECIMAL(10, 3) NOT NULL, h BOOLEAN NOT NULL, i INT>",
        [1, -2, 3, 4, 1e10, Decimal("1.100"), True, None],
        """\
+----+--------+--------+-------------+----------------------+--------------------------------+--------------+--------+-------------+
| op |      a |      b |           c |                    d |                              f |            g |      h |           i |
+----+--------+--------+-------------+----------------------+--------------------------------+--------------+--------+-------------+
| +I |      1 |     -2 |           3 |                    4 |                         1.0E10 |        1.100 |   TRUE |      <NULL> |
+----+--------+--------+-------------+----------------------+--------------------------------+--------------+--------+-------------+
1 row in set
""",
    ),
    "times": (
        # SELECT DATE '2024-02-29' a, TIME '12:34:56' b, TIMESTAMP '2024-01-02 03:04:05.123' d,
        # CAST(TIMESTAMP '2024-01-02 03:04:05.1' AS TIMESTAMP_LTZ(3)) f, CAST(NULL AS TIMESTAMP(3)) g, ... AS TIMESTAMP(9)) h
        "ROW<a DATE, b TIME(0), d TIMESTAMP(3), f TIMESTAMP_LTZ(3), g TIMESTAMP(3), h TIMESTAMP(9)>",
        [
            datetime.date(2024, 2, 29),
            datetime.time(12, 34, 56),
            MOMENT.replace(microsecond=123000),
            datetime.datetime(2024, 1, 2, 2, 4, 5, 100000, datetime.UTC),
            None,
            pa.scalar(1704164645123456789, pa.int64()).as_py(),
        ],
        """\
+----+------------+----------+-------------------------+-------------------------+-------------------------+-------------------------------+
| op |          a |        b |                       d |                       f |                       g |                             h |
+----+------------+----------+-------------------------+-------------------------+-------------------------+-------------------------------+
| +I | 2024-02-29 | 12:34:56 | 2024-01-02 03:04:05.123 | 2024-01-02 03:04:05.100 |                  <NULL> | 2024-01-02 03:04:05.123456789 |
+----+------------+----------+-------------------------+-------------------------+-------------------------+-------------------------------+
1 row in set
""",
    ),
    "nested": (
        # SELECT ARRAY[1,2,CAST(NULL AS INT)] a, MAP['k', 1, 'l', 2] b, ROW(1, 'x', CAST(NULL AS STRING)) c, ARRAY[ROW(1, TRUE)] e
        "ROW<a ARRAY<INT>, b MAP<STRING, INT>, c ROW<x INT, y STRING, z STRING>, e ARRAY<ROW<x INT, y BOOLEAN>>>",
        [[1, 2, None], [("k", 1), ("l", 2)], {"x": 1, "y": "x", "z": None}, [{"x": 1, "y": True}]],
        """\
+----+--------------------------------+--------------------------------+--------------------------------+--------------------------------+
| op |                              a |                              b |                              c |                              e |
+----+--------------------------------+--------------------------------+--------------------------------+--------------------------------+
| +I |                   [1, 2, NULL] |                     {k=1, l=2} |                   (1, x, NULL) |                    [(1, TRUE)] |
+----+--------------------------------+--------------------------------+--------------------------------+--------------------------------+
1 row in set
""",
    ),
    "texts": (
        # SELECT 'a string that is a good deal longer than thirty characters' b, '日本語のとても長いテキストは三十文字幅を超えますよね' d,
        # CAST('ab' AS CHAR(5)) e, x'4142ff' g
        "ROW<b STRING, d STRING, e CHAR(5), g BYTES>",
        [
            "a string that is a good deal longer than thirty characters",
            "日本語のとても長いテキストは三十文字幅を超えますよね",
            "ab   ",
            b"AB\xff",
        ],
        """\
+----+--------------------------------+--------------------------------+--------------------------------+--------------------------------+
| op |                              b |                              d |                              e |                              g |
+----+--------------------------------+--------------------------------+--------------------------------+--------------------------------+
| +I | a string that is a good dea... |  日本語のとても長いテキスト... |                          ab    |                      x'4142ff' |
+----+--------------------------------+--------------------------------+--------------------------------+--------------------------------+
1 row in set
""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RECORDED)
def test_rows_of_a_query_are_printed_as_flink_prints_them(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, values, recorded = RECORDED[case]
    kind = parse_type(text)
    columns = [pa.array([value], type) for value, type in zip(values, arrow_schema(kind).types, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(kind))
    lines = texts_of(batch, kind, shows_kinds=True, time_zone="Europe/Berlin")
    print_table(lines, kind, shows_kinds=True, knows_all=False)
    assert capsys.readouterr().out == recorded


def test_changes_have_their_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    kind = parse_type("ROW<a INT>")
    batch = pa.RecordBatch.from_arrays([pa.array([1, 1, 2, 2]), pa.array([0, 1, 2, 3], pa.int8())], names=["a", "kind"])
    assert list(texts_of(batch, kind, shows_kinds=True)) == [["+I", "1"], ["-U", "1"], ["+U", "2"], ["-D", "2"]]
    assert list(texts_of(batch, kind, shows_kinds=False)) == [["1"], ["1"], ["2"], ["2"]]


def test_what_is_known_whole_is_as_wide_as_its_texts_and_has_no_word_for_null(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """DESCRIBE."""
    kind = parse_type("ROW<`name` STRING, `null` BOOLEAN, `key` STRING>")
    TableResult(kind, rows=[Row("a", False, "PRI(a)"), Row("b", True, None)]).print()
    assert capsys.readouterr().out == (
        "+------+-------+--------+\n"
        "| name |  null |    key |\n"
        "+------+-------+--------+\n"
        "|    a | FALSE | PRI(a) |\n"
        "|    b |  TRUE |        |\n"
        "+------+-------+--------+\n"
        "2 rows in set\n"
    )


def test_what_is_no_table_is_printed_bare(capsys: pytest.CaptureFixture[str]) -> None:
    text, number = parse_type("ROW<`result` STRING>"), parse_type("ROW<`p` BIGINT>")
    TableResult(text, rows=[Row("OK")], result_kind=ResultKind.SUCCESS).print()
    TableResult(text, rows=[Row("a\nb")], is_bare=True).print()
    TableResult(number, rows=[Row(-1)], writes_tables=True).print()
    assert capsys.readouterr().out == "OK\na\nb\n-1\n"


def test_a_result_without_rows_is_an_empty_set(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([], parse_type("ROW<`a` INT>"), shows_kinds=True, knows_all=True)
    assert capsys.readouterr().out == "Empty set\n"
