"""Streams as tables, and tables as streams, are what PyFlink 2.3 makes of them (``streams.json``, by ``record.py``)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.table_streams.cases import SQL, Program, api, columns, described, forms, kinds, programs
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.model.errors import TidegateError
from tidegate.plan.logical_types import parse_type
from tidegate.records.table_type import TableTypeInfo
from tidegate.table import StreamTableEnvironment, Table
from tidegate.table._execution.printing import texts_of
from tidegate.testing import OperatorHarness

pytestmark = pytest.mark.timeout(300)

RECORDED = json.loads((Path(__file__).parent / "streams.json").read_text("utf-8"))
A = api("tidegate")
PROGRAMS = programs(A)
ERROR = "ERROR "
OURS = {
    ("BIG_INT", "int 60173402806"): "int 12345678901234567890123",
    ("BIG_DEC", "Decimal Decimal('1.50')"): "Decimal Decimal('1.500000000000000000')",
}
"""By name of a type and PyFlink's value: a number that it cuts to 64 bits, and digits that it adds as soon as the table is looked into."""


def is_error(found: object) -> bool:
    return isinstance(found, str) and found.startswith(ERROR)


def reached(found: dict[str, Any]) -> dict[str, Any]:
    """Without what PyFlink cannot do, and with ours where it does otherwise."""
    return {name: OURS.get((name, seen), seen) for name, seen in found.items() if not is_error(seen)}


def environment(stream: DataStream) -> StreamTableEnvironment:
    made = StreamTableEnvironment.create(stream.get_execution_environment())
    made.get_config().set("table.local-time-zone", "UTC")
    return made


def ran(piece: Callable[[DataStream], DataStream], kind: Any, *records: Any) -> list[Any]:
    with OperatorHarness(piece, kind) as harness:
        for record in records:
            harness.push(record)
        harness.push_watermark(2**63 - 1)
        harness.finish()
        return list(harness.output)


def row_of_all(names: list[str]) -> tuple[Any, Any]:
    """A type with a field of each type, and a record of it."""
    given = kinds(A)
    type = A.Types.ROW_NAMED([f"c{i}" for i in range(len(names))], [given[name][0] for name in names])
    return type, A.Row(*[given[name][1] for name in names])


@pytest.mark.parametrize("name", RECORDED["schemas"])
def test_a_stream_has_the_columns_that_flink_gives_it(name: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(env)
    base = env.from_collection([1], A.Types.INT())
    made = {
        form: columns(tables.from_data_stream(base.map(lambda value: value, type)))
        for form, type in forms(A, kinds(A)[name][0]).items()
    }
    assert made == RECORDED["schemas"][name]


def test_values_of_streams_are_printed_as_flink_prints_them() -> None:
    names = list(reached(RECORDED["selected"]))
    kind, record = row_of_all(names)

    def piece(stream: DataStream) -> DataStream:
        tables = environment(stream)
        made = tables.to_data_stream(tables.from_data_stream(stream))
        type = made.get_type()
        assert isinstance(type, TableTypeInfo)
        row = parse_type(f"ROW<{', '.join(f'`c{i}` {text}' for i, text in enumerate(type.columns))}>")

        def texts(batch: pa.RecordBatch) -> pa.RecordBatch:
            found = [list(line) for line in texts_of(batch, row, shows_kinds=False)]
            return pa.record_batch({"texts": pa.array(found, pa.list_(pa.string()))})

        return made.map_batches(texts, pa.schema([("texts", pa.list_(pa.string()))]))

    ((found,),) = ran(piece, kind, record)
    assert dict(zip(names, found, strict=True)) == reached(RECORDED["selected"])


def test_functions_behind_a_table_see_what_pyflinks_see() -> None:
    names = list(reached(RECORDED["seen"]))
    kind, record = row_of_all(names)

    def piece(stream: DataStream) -> DataStream:
        tables = environment(stream)
        return tables.to_data_stream(tables.from_data_stream(stream)).map(lambda row: list(map(described, row)))

    (found,) = ran(piece, kind, record)
    assert dict(zip(names, found, strict=True)) == reached(RECORDED["seen"])


def test_what_pyflink_cannot_pass_on_comes_back_from_a_table_of_a_table() -> None:
    kind, record = row_of_all(["PICKLED", "CHAR", "BIG_INT", "TUPLE"])

    def piece(stream: DataStream) -> DataStream:
        tables = environment(stream)
        made = tables.to_data_stream(tables.from_data_stream(stream))
        return tables.to_data_stream(tables.from_data_stream(made)).map(lambda row: list(map(described, row)))

    values = ["{str 'x': int 1}", "str 'c'", "int 12345678901234567890123", "(int 1, str 'a')"]
    assert ran(piece, kind, record) == [values]


@pytest.mark.parametrize("way", RECORDED["columns"])
def test_functions_see_columns_as_pyflinks_do(way: str) -> None:
    recorded = reached(RECORDED["columns"][way])

    def piece(stream: DataStream) -> DataStream:
        tables = environment(stream)
        tables.create_temporary_view("v", tables.from_data_stream(stream))
        table = tables.sql_query(f"SELECT {', '.join(f'{SQL[name]} AS `{name}`' for name in recorded)} FROM v")
        made = tables.to_data_stream(table) if way == "data" else tables.to_changelog_stream(table)
        return made.map(lambda row: list(map(described, row)))

    (found,) = ran(piece, A.Types.INT(), 1)
    assert dict(zip(recorded, found, strict=True)) == recorded


def outcome(program: Program) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection(list(program.records), program.type)
    try:
        made = program.make(environment(stream), stream)
        if isinstance(made, Table):
            return columns(made)
        found = ran(lambda given: program.make(environment(given), given), program.type, *program.records)
    except TidegateError as error:
        return f"{ERROR}{error.message.splitlines()[0]}"
    return [value if isinstance(value, str) else described(value) for value in found]


def plain(text: str) -> str:
    """A reason without the class of the error, the names of anonymous tables and the addresses of objects."""
    text = re.sub(r"^ERROR (?:[\w.$]+: )+", ERROR, text)
    text = re.sub(r"'null'|'\*anonymous_\w+\$\d+\*'", "'*'", text)
    return re.sub(r"@[0-9a-f]+", "@", text)


KINDS_OF_PAIRS = ("sums retracted", "sums retracted as longs")
"""Rows in the pairs of ``to_retract_stream`` are inserts, since rows in tuples have no kinds here."""


@pytest.mark.parametrize("name", RECORDED["programs"])
def test_programs_of_streams_and_tables_do_what_pyflinks_do(name: str) -> None:
    recorded, found = RECORDED["programs"][name], outcome(PROGRAMS[name])
    if is_error(recorded):
        assert plain(recorded).removeprefix(ERROR) in plain(str(found))
        assert is_error(found)
    elif "LEGACY(" in recorded:  # which no statement can do much with
        assert "LEGACY(" not in found
        assert found.split(" ")[0] == recorded.split(" ")[0]
    elif "*PROCTIME*" in recorded:  # of expressions it may be null there
        assert found.replace(" NOT NULL *PROCTIME*", " *PROCTIME*") == recorded.replace(
            " NOT NULL *PROCTIME*", " *PROCTIME*"
        )
    elif name in KINDS_OF_PAIRS:
        assert found == [re.sub(r"Row[-+][UD]", "Row+I", text) for text in recorded]
    else:
        assert found == recorded
