"""Streams of changes as tables, and tables with updates as streams.

What comes out, and the words of refusals, are those of PyFlink 2.3.0, recorded by the same programs with the import replaced, at parallelism 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from tidegate.common.row import Row, RowKind
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.functions.interfaces import ProcessFunction
from tidegate.model.errors import SchemaMismatch
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.row_kinds import with_kinds
from tidegate.table import ChangelogMode, DataTypes, Schema, StreamTableEnvironment, Table
from tidegate.table._planner import InvalidStatement
from tidegate.testing import OperatorHarness

pytestmark = pytest.mark.timeout(300)

ROW = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.INT()])
INSERT, BEFORE, AFTER, DELETE = RowKind
CHANGES = [
    Row.of_kind(INSERT, "a", 1), Row.of_kind(INSERT, "b", 5), Row.of_kind(BEFORE, "a", 1), Row.of_kind(AFTER, "a", 10),
    Row.of_kind(DELETE, "b", 5),
]  # fmt: skip
UPSERTS = [
    Row.of_kind(INSERT, "a", 1), Row.of_kind(INSERT, "b", 5), Row.of_kind(AFTER, "a", 10), Row.of_kind(DELETE, "b", 5)
]  # fmt: skip
INSERTS = [Row("a", 1), Row("b", 5), Row("a", 3)]
KEYED = (
    Schema.new_builder()
    .column("name", DataTypes.STRING().not_null())
    .column("n", DataTypes.INT())
    .primary_key("name")
    .build()
)
SUMS = "SELECT name, SUM(n) AS s FROM v GROUP BY name"
Piece: TypeAlias = Callable[[StreamTableEnvironment, DataStream], DataStream]


def run(piece: Piece, rows: Iterable[Row], kind: TypeInformation = ROW) -> list[Any]:
    """What comes out: a row as its kind and values. Each row comes in a batch of its own."""

    def made(stream: DataStream) -> DataStream:
        return piece(StreamTableEnvironment.create(stream.get_execution_environment()), stream)

    with OperatorHarness(made, kind) as harness:
        for row in rows:
            harness.push(row)
        harness.push_watermark(2**63 - 1)
        harness.finish()
        return [f"{one.get_row_kind()}{list(one)}" if isinstance(one, Row) else one for one in harness.output]


def summed(tables: StreamTableEnvironment, table: Table, query: str = SUMS) -> Table:
    tables.create_temporary_view("v", table)
    return tables.sql_query(query)


def place() -> tuple[StreamTableEnvironment, DataStream]:
    env = StreamExecutionEnvironment.get_execution_environment()
    return StreamTableEnvironment.create(env), env.from_collection(INSERTS, ROW)


def counted() -> tuple[StreamTableEnvironment, Table]:
    tables, stream = place()
    return tables, summed(tables, tables.from_data_stream(stream))


def test_rows_keep_their_kinds_from_stream_to_table_to_stream() -> None:
    wanted = ["+I['a', 1]", "+I['b', 5]", "-U['a', 1]", "+U['a', 10]", "-D['b', 5]"]
    assert run(lambda t, s: t.to_changelog_stream(t.from_changelog_stream(s)), CHANGES) == wanted
    columns = ArrowTypeInfo(with_kinds(ROW.arrow_schema()))
    assert run(lambda t, s: t.to_changelog_stream(t.from_changelog_stream(s)), CHANGES, columns) == wanted
    assert run(lambda t, s: s.filter(lambda row: True).map(lambda row: row, ROW), CHANGES) == wanted
    made = run(lambda t, s: t.to_changelog_stream(summed(t, t.from_changelog_stream(s))), CHANGES)
    assert made == ["+I['a', 1]", "+I['b', 5]", "-D['a', 1]", "+I['a', 10]", "-D['b', 5]"]


def test_a_function_sets_the_kind_of_a_row() -> None:
    def deleted(row: Row) -> Row:
        made = Row("z", row[1])
        made.set_row_kind(DELETE)
        return made

    assert run(lambda _, s: s.map(deleted, ROW).key_by(lambda row: row[0]).map(lambda row: row, ROW), INSERTS) == [
        "-D['z', 1]", "-D['z', 5]", "-D['z', 3]"
    ]  # fmt: skip


def test_updates_by_key_are_taken_back_where_a_query_asks_for_it() -> None:
    upsert = ChangelogMode.upsert()
    made = run(lambda t, s: t.to_changelog_stream(t.from_changelog_stream(s, KEYED, upsert)), UPSERTS)
    assert made == ["+I['a', 1]", "+I['b', 5]", "-U['a', 1]", "+U['a', 10]", "-D['b', 5]"]
    made = run(
        lambda t, s: t.to_changelog_stream(
            summed(t, t.from_changelog_stream(s, KEYED, upsert), "SELECT SUM(n) AS s FROM v")
        ),
        UPSERTS,
    )
    assert made == ["+I[1]", "-U[1]", "+U[6]", "-U[6]", "+U[5]", "-U[5]", "+U[15]", "-U[15]", "+U[10]"]


def test_a_table_with_updates_is_a_stream_of_the_kinds_that_are_asked_for() -> None:
    wanted = ["+I['a', 1]", "+I['b', 5]", "-U['a', 1]", "+U['a', 4]"]
    assert run(lambda t, s: t.to_changelog_stream(summed(t, t.from_data_stream(s))), INSERTS) == wanted
    target = Schema.new_builder().column("who", "STRING NOT NULL").column("total", "INT").primary_key("who").build()

    def upserts(tables: StreamTableEnvironment, stream: DataStream) -> DataStream:
        made = tables.to_changelog_stream(
            summed(tables, tables.from_data_stream(stream)), target, ChangelogMode.upsert()
        )
        assert made.get_type().arrow_schema().names[:2] == ["who", "total"]
        return made

    assert run(upserts, INSERTS) == ["+I['a', 1]", "+I['b', 5]", "+U['a', 4]"]
    again = run(
        lambda t, s: t.to_changelog_stream(
            t.from_changelog_stream(t.to_changelog_stream(summed(t, t.from_data_stream(s))).filter(lambda row: True))
        ),
        INSERTS,
    )
    assert again == wanted


def test_a_retract_stream_has_pairs() -> None:
    def pairs(kind: TypeInformation) -> Piece:
        return lambda t, s: t.to_retract_stream(summed(t, t.from_data_stream(s)), kind)

    rows = [(True, Row("a", 1)), (True, Row("b", 5)), (False, Row("a", 1)), (True, Row("a", 4))]
    made = run(pairs(Types.ROW([Types.STRING(), Types.INT()])), INSERTS)
    assert [(added, Row(*row)) for added, row in made] == rows
    assert run(pairs(Types.TUPLE([Types.STRING(), Types.INT()])), INSERTS) == [(a, tuple(r)) for a, r in rows]
    only = run(
        lambda t, s: t.to_retract_stream(summed(t, t.from_data_stream(s), "SELECT COUNT(*) AS c FROM v"), Types.LONG()),
        INSERTS[:2],
    )
    assert only == [(True, 1), (False, 1), (True, 2)]


def test_the_timestamp_of_records_is_a_column_in_and_out() -> None:
    class Shown(ProcessFunction):
        def process_element(self, value: Row, ctx: ProcessFunction.Context) -> Iterable[str]:
            yield f"{value.get_row_kind()}{list(value)} {ctx.timestamp()}"

    timed = Schema.new_builder().column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)").watermark(
        "rowtime", "SOURCE_WATERMARK()"
    ).build()  # fmt: skip
    out = Schema.new_builder().column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)").build()

    def piece(stream: DataStream) -> DataStream:
        tables = StreamTableEnvironment.create(stream.get_execution_environment())
        table = tables.from_changelog_stream(stream, timed)
        return tables.to_changelog_stream(table, out).process(Shown(), Types.STRING())

    with OperatorHarness(piece, ROW) as harness:
        harness.push(CHANGES[0], timestamp=1000)
        harness.push(CHANGES[2], timestamp=2000)
        harness.push_watermark(1500)
        harness.finish()
        assert harness.output == ["+I['a', 1] 1000", "-U['a', 1] 2000"]
        assert harness.watermarks[0] == 1500


def test_what_a_stream_cannot_be_is_refused_in_flinks_words() -> None:
    tables, stream = place()
    mine = tables.from_changelog_stream(
        stream, Schema.new_builder().column("name", "STRING").column("n", "INT").build(), ChangelogMode.upsert()
    )
    with pytest.raises(
        InvalidStatement,
        match=r"Table '\*anonymous_datastream_source\$\d+\*' produces a changelog stream that contains UPDATE_AFTER but no UPDATE_BEFORE. This "
        "requires defining a primary key constraint on the table.",
    ):
        tables.to_changelog_stream(mine)
    nullable = Schema.new_builder().column("name", "STRING").column("n", "INT").primary_key("name").build()
    with pytest.raises(InvalidStatement, match="Invalid primary key 'PK_name'. Column 'name' is nullable."):
        tables.from_changelog_stream(stream, nullable, ChangelogMode.upsert()).get_column_names()
    with pytest.raises(InvalidStatement, match="Unable to find a field named 'nam' in the physical data type"):
        tables.from_changelog_stream(stream, Schema.new_builder().column("nam", "STRING").build())


@pytest.mark.parametrize("mode", [ChangelogMode.insert_only(), None], ids=["from_changelog_stream", "from_data_stream"])
def test_a_change_in_a_stream_of_inserts_fails_the_job(mode: ChangelogMode | None) -> None:
    def piece(tables: StreamTableEnvironment, stream: DataStream) -> DataStream:
        table = tables.from_data_stream(stream) if mode is None else tables.from_changelog_stream(stream, None, mode)
        return tables.to_changelog_stream(table)

    with pytest.raises(
        SchemaMismatch,
        match="Error during input conversion. Conversion expects insert-only records but DataStream API record contains: UPDATE_BEFORE",
    ):
        run(piece, CHANGES)


_NODE = re.escape(
    "doesn't support consuming update changes which is produced by node GroupAggregate(groupBy=[name], select=[name, SUM(n) AS s])"
)
_SINK = r"Table sink '\*anonymous_datastream_sink\$\d+\*' "


def test_a_table_with_updates_is_no_stream_of_inserts() -> None:
    tables, table = counted()
    with pytest.raises(InvalidStatement, match=_SINK + _NODE):
        tables.to_data_stream(table)
    with pytest.raises(InvalidStatement, match=f"^toAppendStream {_NODE}"):
        tables.to_append_stream(table, ROW)
    two = Schema.new_builder().column("name", "STRING").column("s", "INT").build()
    with pytest.raises(InvalidStatement, match=_SINK + _NODE):
        tables.to_changelog_stream(table, two, ChangelogMode.insert_only())


def test_columns_of_another_type_or_number_are_refused() -> None:
    tables, table = counted()
    other = Schema.new_builder().column("s", "BIGINT").column("name", "STRING").build()
    with pytest.raises(
        InvalidStatement,
        match=r"(?s)do not match.\nCause: Incompatible types for sink column 's' at position 1.\n\nQuery schema: \[name: STRING, s: INT\]\n"
        r"Sink schema:  \[s: BIGINT, name: STRING\]",
    ):
        tables.to_changelog_stream(table, other)
    with pytest.raises(InvalidStatement, match="Cause: Different number of columns"):
        tables.to_retract_stream(table, Types.ROW([Types.STRING()]))


def test_a_statement_set_is_part_of_the_program_and_empty_then() -> None:
    tables, table = counted()
    tables.execute_sql("CREATE TABLE p (name STRING, s INT) WITH ('connector' = 'print')")
    tables.execute_sql("CREATE TABLE q (name STRING, s INT) WITH ('connector' = 'blackhole')")
    env = tables._env
    made = tables.create_statement_set()
    made.attach_as_datastream()
    made.add_insert("p", table).add_insert_sql("INSERT INTO q SELECT name, 1 FROM v")
    made.attach_as_datastream()
    made.attach_as_datastream()
    assert env.get_execution_plan().count("Data Sink") == 2
    assert env.get_execution_plan().count('"type": "Source') == 1


def test_columns_of_a_changelog_are_columns_of_a_stream() -> None:
    def piece(tables: StreamTableEnvironment, stream: DataStream) -> DataStream:
        made = tables.to_changelog_stream(summed(tables, tables.from_data_stream(stream)))
        schema = made.get_type().arrow_schema()
        return made.map_batches(
            lambda batch: batch.set_column(1, "s", pa.array([7] * batch.num_rows, pa.int32())), schema
        )

    assert run(piece, INSERTS[::2]) == ["+I['a', 7]", "-U['a', 7]", "+U['a', 7]"]
