"""Sinks of tables: ``print``, ``blackhole``, ``filesystem``, Kafka, and collection by the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from tidegate.common.row import Row, RowKind
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.base import Sink, SinkContext, SinkWriter
from tidegate.connectors.commit_reports import REPORTS
from tidegate.connectors.file_sink import FileSink, RollingPolicy
from tidegate.connectors.files.encoders import EncoderFactory, ParquetEncoderFactory
from tidegate.connectors.print_sink import printing_place
from tidegate.datastream.data_stream import DataStream, DataStreamSink
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms, parse_size_bytes
from tidegate.model.values import StateValue
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.logical_types import LogicalType
from tidegate.plan.nodes import Node
from tidegate.plan.specs import Overwrite, Partitioning, WritingMetadata
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.table._connectors.format_options import format_options
from tidegate.table._connectors.kafka import kafka_sink
from tidegate.table._connectors.partition_commits import PartitionCommits, PartitionCommitSink, partition_commits
from tidegate.table._connectors.partitions import known_directories, partition_columns, stored_type
from tidegate.table._connectors.registry import check_table, writable_metadata
from tidegate.table._connectors.shape import TableShape, shape_of
from tidegate.table._connectors.sources import PickedColumns, physical_type
from tidegate.table._execution.one_to_one import follow_input, mapped
from tidegate.table._execution.rows import rows_of, value_text
from tidegate.table._formats.avro import AvroTableEncoderFactory, AvroWriting
from tidegate.table._formats.formats import avro_codec, make_file_writing
from tidegate.table._formats.lines import TableLinesEncoderFactory

_SUFFIXES = {"json": ".jsonl", "raw": ".txt"}


def write_table(node: Node, stream: DataStream) -> None:
    """Adds the sink of a table to a stream. Raises ``InvalidJob`` for what the table does not support."""
    assert isinstance(node, (plan_nodes.Sink2, plan_nodes.BatchSink1))
    sink = node.dynamic_table_sink
    table = sink.table.resolved_table
    name = sink.table.name
    if table is None or table.options is None:
        raise InvalidJob(f"node {node.id}: the plan does not hold the table {name}: compile it with its options")
    shape = shape_of(name, table)
    check_table(shape, table.options, is_source=False)
    kind = physical_type(table)
    schema = arrow_schema(kind)
    metadata: tuple[str, ...] = ()
    overwrites = False
    static: Mapping[str, str] = {}
    for ability in sink.abilities:
        if isinstance(ability, Partitioning):
            static = ability.partition  # the plan has the values as columns
            continue
        if isinstance(ability, Overwrite) and table.options["connector"] == "filesystem":
            overwrites = ability.overwrite
            continue
        known = writable_metadata(table.options).keys()
        if not isinstance(ability, WritingMetadata) or not set(ability.metadata_keys) <= known:
            raise InvalidJob(
                f"node {node.id}: writing the table {name} with {type(ability).__name__} is not supported yet"
            )
        metadata, schema = ability.metadata_keys, arrow_schema(ability.consumed_type)
    if overwrites and isinstance(node, plan_nodes.Sink2):
        raise InvalidJob("Streaming mode not support overwrite.")
    has_kinds = len(stream.get_type().arrow_schema()) > len(schema)
    if not has_kinds and stream.get_type().arrow_schema() != schema:
        stream = mapped(stream, PickedColumns(list(range(len(schema))), schema), schema)
    commits = partition_commits(shape, table.options) if table.options["connector"] == "filesystem" else None
    at_the_end = commits if isinstance(node, plan_nodes.BatchSink1) else None
    made = _sink(shape, table.options, kind, metadata, static, at_the_end, overwrites=overwrites)
    handle = stream.sink_to(made).name(node.description)
    follow_input(handle)
    if "sink.parallelism" in table.options:
        handle.set_parallelism(int(table.options["sink.parallelism"]))
    if isinstance(node, plan_nodes.Sink2) and commits is not None and shape.partition_keys:
        commit_partitions(stream, handle, table.options, commits)


def _sink(
    shape: TableShape,
    options: Mapping[str, str],
    kind: LogicalType,
    metadata: tuple[str, ...],
    static: Mapping[str, str],
    commits: PartitionCommits | None,
    *,
    overwrites: bool,
) -> Sink:
    """Builds the sink of a table. ``static``: partition values that the statement names. ``commits``: partition commits of a bounded job.
    ``overwrites``: rows replace the existing ones (INSERT OVERWRITE)."""
    match options["connector"]:
        case "print":
            to_stderr = options.get("standard-error", "false").lower() == "true"
            return TablePrintSink(kind, options.get("print-identifier", ""), to_stderr)
        case "blackhole":
            return BlackHoleSink()
        case "kafka" | "upsert-kafka":
            return kafka_sink(options, shape, kind, metadata)
        case _:
            return file_sink(shape, options, kind, static, commits, overwrites=overwrites)


def file_sink(
    shape: TableShape,
    options: Mapping[str, str],
    kind: LogicalType,
    static: Mapping[str, str] = {},
    commits: PartitionCommits | None = None,
    *,
    overwrites: bool = False,
) -> FileSink:
    """Builds the sink of a file table. Arguments are those of ``_sink``."""
    default = RollingPolicy()
    size, age = options.get("sink.rolling-policy.file-size"), options.get("sink.rolling-policy.rollover-interval")
    rolling = RollingPolicy(
        part_bytes=default.part_bytes if size is None else parse_size_bytes(size),
        rollover_ms=default.rollover_ms if age is None else parse_duration_ms(age),
    )
    partitions = partition_columns(shape, options, kind)
    known = known_directories(shape, partitions, static)
    return FileSink(
        _path(options),
        _encoder(shape, options, kind),
        rolling,
        buckets=partitions,
        replaces=known if overwrites else None,
        success=None if commits is None else commits.name,
        whole=() if commits is None else known,
    )


def _path(options: Mapping[str, str]) -> str:
    return options["path"].removeprefix("file://")


def commit_partitions(
    stream: DataStream, sink: DataStreamSink, options: Mapping[str, str], commits: PartitionCommits
) -> None:
    """Adds the operator that commits partitions of a file table while its job runs. ``stream``: the rows written by ``sink``."""
    operator = sink._operator("")
    operator.output_type = Types.SCHEMA(REPORTS)
    reports = DataStream(stream.get_execution_environment(), operator)
    committer = reports.global_().sink_to(PartitionCommitSink(_path(options), commits))
    committer.name("PartitionCommitter").set_parallelism(1).set_max_parallelism(1)


def _encoder(shape: TableShape, options: Mapping[str, str], kind: LogicalType) -> EncoderFactory:
    chosen = options["format"]
    if chosen == "parquet":
        return ParquetEncoderFactory()
    writing = make_file_writing(*format_options(shape.name, options), stored_type(kind, shape))
    if isinstance(writing, AvroWriting):
        return AvroTableEncoderFactory(writing, avro_codec(options))
    return TableLinesEncoderFactory(writing, _SUFFIXES.get(chosen, f".{chosen}"))


class TablePrintSink(Sink):
    """The ``print`` sink: a line ``+I[1, a]`` for each row, after the identifier and subtask prefix of Flink's ``print``."""

    def __init__(self, kind: LogicalType, identifier: str, stderr: bool) -> None:
        self._kind = kind
        self._identifier = identifier
        self._stderr = stderr

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        return _PrintWriter(self._kind, *printing_place(self._identifier, self._stderr, context))


class _PrintWriter(SinkWriter):
    works_on = "arrow"

    def __init__(self, kind: LogicalType, prefix: str, stream: TextIO) -> None:
        self._kind = kind
        self._prefix = prefix
        self._stream = stream

    def write(self, batch: Batch) -> None:
        """Prints a batch in one write, so that the lines of several subtasks do not mix."""
        assert isinstance(batch, ArrowBatch)
        self._stream.write("".join(f"{self._prefix}{self._line(row)}\n" for row in rows_of(batch.data, self._kind)))
        self._stream.flush()

    def flush(self, end_of_input: bool) -> None:
        self._stream.flush()

    def _line(self, row: Row) -> str:
        kind = RowKind(row.get_row_kind())
        texts = [value_text(value, field.type) for value, field in zip(row, self._kind.fields, strict=True)]
        return f"{kind}[{', '.join(texts)}]"


class BlackHoleSink(Sink):
    """The ``blackhole`` sink, which discards rows."""

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        return _NoWriter()


class _NoWriter(SinkWriter):
    works_on = "arrow"

    def write(self, batch: Batch) -> None:
        """Does nothing."""
