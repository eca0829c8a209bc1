"""Sources of tables: the stream that a scan of a plan reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files.formats import ParquetFormat
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream.data_stream import DataStream
from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidegate.functions.sql.changelog import has_kinds, with_kinds
from tidegate.functions.sql.scalar import arrow_schema, batch_of
from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.plan.nodes import Node
from tidegate.plan.specs import ProjectPushDown, ReadingMetadata, ResolvedCatalogTable, TableSource
from tidegate.table._connectors.file_tables import MONITOR_INTERVAL, PATH_PATTERN, TableFileSource
from tidegate.table._connectors.format_options import format_options
from tidegate.table._connectors.kafka import kafka_source
from tidegate.table._connectors.partitions import partition_columns, stored_type
from tidegate.table._connectors.registry import ROWS, STREAM, check_table, is_bounded, readable_metadata
from tidegate.table._connectors.shape import TableShape, shape_of
from tidegate.table._connectors.streams import StreamTable, read_stream
from tidegate.table._execution.one_to_one import mapped
from tidegate.table._formats.formats import make_file_reading
from tidegate.table._formats.lines import file_format
from tidegate.table.datagen import UNBOUNDED_ROWS, GeneratedRows, rows_per_second, typed_options

Given: TypeAlias = "Mapping[str, pa.Table | StreamTable]"
"""Tables of ``from_elements`` and streams of ``from_data_stream``, by the number that plans name them with."""


def is_bounded_scan(scan: Node) -> bool:
    """Returns whether a scan is bounded; streams of the program are not taken to be."""
    assert isinstance(scan, (plan_nodes.TableSourceScan2, plan_nodes.BatchTableSourceScan1))
    table = scan.scan_table_source.table.resolved_table
    options = None if table is None else table.options
    return options is not None and options.get("connector") != STREAM and is_bounded(options)


def read_table(env: StreamExecutionEnvironment, node: Node, given: Given) -> DataStream:
    """Builds the stream of a scan. Raises ``InvalidJob`` for what the table does not support."""
    assert isinstance(node, (plan_nodes.TableSourceScan2, plan_nodes.BatchTableSourceScan1))
    source = node.scan_table_source
    table = source.table.resolved_table
    if table is None or table.options is None:
        raise InvalidJob(
            f"node {node.id}: the plan does not hold the table {source.table.name}: compile it with its options"
        )
    shape = shape_of(source.table.name, table)
    check_table(shape, table.options, is_source=True)
    if table.options["connector"] == STREAM:
        stream_table = given.get(table.options["number"])
        if not isinstance(stream_table, StreamTable):
            raise InvalidJob(
                f"the stream of {source.table.name} belongs to another program, and a plan cannot hold it: run the plan in the program that made it"
            )
        keys = [
            key for ability in source.abilities if isinstance(ability, ReadingMetadata) for key in ability.metadata_keys
        ]
        return read_stream(env, node, source.table.name, stream_table, keys)
    physical = physical_type(table)
    columns, metadata = read_columns(node.id, source, table.options, len(physical.fields))
    stored, is_narrower = physical, False
    if reads_some_columns(shape, table.options, metadata):
        read_at = sorted(set(columns)) or [0]
        stored, is_narrower = row_of(physical, read_at), len(read_at) < len(physical.fields)
        columns = [read_at.index(position) for position in columns]
    stream = _read(env, shape, table.options, stored, metadata, given)
    read, produced = stream.get_type().arrow_schema(), arrow_schema(node.output_type)
    if has_kinds(read):
        columns.append(len(read) - 1)
        produced = with_kinds(produced)
    # Where fewer columns are read, the operator that picks them stays, so that those behind it have the ids of savepoints that were taken before.
    if columns == list(range(len(read))) and read == produced and not is_narrower:
        return stream
    return mapped(stream, PickedColumns(columns, produced), produced).name(node.description)


def read_columns(
    node_id: int, source: TableSource, options: Mapping[str, str], width: int
) -> tuple[list[int], tuple[str, ...]]:
    """Returns the positions of the columns that a plan reads (of ``width`` stored ones, then metadata columns), and the metadata keys. Raises
    ``InvalidJob`` for a pushed-down ability that the table does not support."""
    columns = list(range(width))
    metadata: tuple[str, ...] = ()
    for ability in source.abilities:
        if isinstance(ability, ProjectPushDown) and all(len(path) == 1 for path in ability.projected_fields):
            columns = [columns[path[0]] for path in ability.projected_fields]
        elif isinstance(ability, ReadingMetadata) and set(ability.metadata_keys) <= readable_metadata(options).keys():
            metadata = ability.metadata_keys
        else:
            raise InvalidJob(
                f"node {node_id}: the table {source.table.name} does not support {type(ability).__name__}, which the plan wants of it: compile its "
                "statement again"
            )
    return [*columns, *range(width, width + len(metadata))], metadata


def physical_type(table: ResolvedCatalogTable) -> LogicalType:
    """Returns the row type of the physical columns of a table."""
    return LogicalType(TypeRoot.ROW, fields=table.physical_fields)


def row_of(type: LogicalType, positions: Sequence[int]) -> LogicalType:
    """Returns the type of rows with some fields of a row type."""
    return LogicalType(TypeRoot.ROW, fields=tuple(type.fields[position] for position in positions))


def reads_some_columns(shape: TableShape, options: Mapping[str, str], metadata: Sequence[str]) -> bool:
    """Tells whether the columns of a table that a plan does not need are not read: those of Parquet files that have all columns of the table."""
    is_parquet = options["connector"] == "filesystem" and options.get("format") == "parquet"
    return is_parquet and _is_plain(shape, options, metadata)


class PickedColumns:
    """Projects a batch to some of its columns, renamed and cast to a schema."""

    def __init__(self, positions: list[int], schema: pa.Schema) -> None:
        self._positions = positions
        self._schema = schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = [batch.column(i).cast(field.type) for i, field in zip(self._positions, self._schema, strict=True)]
        return batch_of(found, self._schema, batch.num_rows)


def _read(
    env: StreamExecutionEnvironment,
    shape: TableShape,
    options: Mapping[str, str],
    type: LogicalType,
    metadata: tuple[str, ...],
    given: Given,
) -> DataStream:
    name, schema = shape.name, arrow_schema(type)
    match options["connector"]:
        case "datagen":
            return generated(env, name, schema, typed_options(type, options))
        case "filesystem":
            return env.from_source(_files(shape, options, type, metadata), WatermarkStrategy.no_watermarks(), name)
        case "kafka" | "upsert-kafka":
            source = kafka_source(options, shape, type, metadata)
            stream = env.from_source(source, WatermarkStrategy.no_watermarks(), name)
            return stream.set_parallelism(int(options["scan.parallelism"])) if "scan.parallelism" in options else stream
        case connector:
            assert connector == ROWS
            rows = given.get(options["number"])
            if not isinstance(rows, pa.Table):
                raise InvalidJob(
                    f"the rows of {name} belong to another program, and a plan cannot hold them: run the plan in the program that made it"
                )
            return env.from_collection(rows.cast(schema)).name(name)


def generated(env: StreamExecutionEnvironment, name: str, schema: pa.Schema, options: Mapping[str, str]) -> DataStream:
    """Returns the stream of a ``datagen`` table, whose rows are divided among the subtasks."""
    rows = GeneratedRows.of(schema, options)
    source = DataGeneratorSource(rows, rows.count or UNBOUNDED_ROWS, rows_per_second(options), rows.schema)
    source.bounded = rows.count is not None
    return env.from_source(source, WatermarkStrategy.no_watermarks(), name)


def _files(
    shape: TableShape, options: Mapping[str, str], type: LogicalType, metadata: Sequence[str] = ()
) -> FileSource:
    source = file_source(shape, options, type, metadata)
    source.may_be_empty = True
    interval = options.get(MONITOR_INTERVAL)
    return source if interval is None else source.monitor_continuously(parse_duration_ms(interval))


def _is_plain(shape: TableShape, options: Mapping[str, str], metadata: Sequence[str]) -> bool:
    """Tells whether all columns of a file table are in its files."""
    return not metadata and options.get(PATH_PATTERN) is None and not shape.partition_keys


def file_source(
    shape: TableShape, options: Mapping[str, str], type: LogicalType, metadata: Sequence[str]
) -> FileSource:
    """Returns the source of a file table."""
    path = options["path"].removeprefix("file://")
    partitions, pattern = partition_columns(shape, options, type), options.get(PATH_PATTERN)
    stored = stored_type(type, shape)
    is_plain = _is_plain(shape, options, metadata)
    if options["format"] == "parquet":
        if is_plain:
            return FileSource.for_parquet(path, schema=arrow_schema(type))
        return TableFileSource(path, ParquetFormat(arrow_schema(stored)), type, partitions, metadata, pattern)
    lines = file_format(make_file_reading(*format_options(shape.name, options), stored))
    return FileSource((path,), lines) if is_plain else TableFileSource(path, lines, type, partitions, metadata, pattern)
