"""A Spark DataFrame as a bounded source: whatever Spark can read or compute, as input of a job.

    direct        partition i of the DataFrame is read by subtask i, streamed from the JVM as Arrow batches.
                  State: [block, rows emitted of it, running checksum]; a replay that differs fails by name.
    materialized  one TaskManager writes the result once as Parquet below the job's ``taskowned/``; the subtasks read it
                  by file and row group, so parallelism may change and the query need not be deterministic.

The query runs in the client (for its schema and plan) and in the Spark driver of a TaskManager, nowhere else. What cuts
partitions is pinned by ``PINNED``, so that every TaskManager cuts alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import xxhash

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState
from tidegate.connectors.fetcher import Fetcher
from tidegate.connectors.file_reader import FileReader
from tidegate.connectors.files.file_system import list_files, resolve
from tidegate.connectors.files.formats import ParquetFormat
from tidegate.model.errors import CorruptData, InvalidJob
from tidegate.records.batch import ArrowBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK_ROWS = 10_000
"""How many rows the blocks have that are counted and checked; also the size of Spark's Arrow batches."""

PINNED: dict[str, str] = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.maxPartitionBytes": "134217728",
    "spark.sql.files.openCostInBytes": "4194304",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BLOCK_ROWS),
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}
"""Spark SQL settings under which every process builds the DataFrame. ``pinned`` adds those that depend on parallelism."""

MARKER = "_materialized.json"
_READ_AHEAD_BLOCKS = 4
"""How many blocks are read ahead. Chosen, not measured: as for files."""


def pinned(parallelism: int) -> dict[str, str]:
    """Returns the session settings for a source of this parallelism."""
    cut = str(parallelism)
    counts = ("files.minPartitionNum", "leafNodeDefaultParallelism", "shuffle.partitions")
    return {**PINNED, **{f"spark.sql.{name}": cut for name in counts}}


class SparkSource(Source):
    """A bounded source of a Spark DataFrame; made by ``StreamExecutionEnvironment.from_spark``. ``query``: returns a DataFrame for a SparkSession."""

    bounded = True

    def __init__(self, query: Callable[[SparkSession], DataFrame], schema: pa.Schema, materialize: bool) -> None:
        self.spark_query = query
        self.schema = schema
        self.materialize = materialize
        self.keeps_parallelism = not materialize

    def produced_type(self) -> TypeInformation:
        from tidegate.common.typeinfo import Types

        return Types.SCHEMA(self.schema)

    def list_splits(self, parallelism: int) -> list[Split]:
        """Returns a split for each partition; none if the result is materialized, since its readers list the row groups themselves after a TaskManager
        has written them."""
        if self.materialize:
            return []
        return [Split(f"partition-{i:05d}", [i, parallelism]) for i in range(parallelism)]

    def make_reader(self, context: ReaderContext) -> SourceReader:
        if self.materialize:
            return MaterializedReader(self.schema, context)
        return SparkPartitionReader(self.schema, context)


def owned_directory(configuration: Mapping[str, str], job_id: str, operator_id: str) -> str:
    """Returns the directory of a materialized result, which is task-owned: no checkpoint deletes it. Raises ``InvalidJob`` when the job has no
    checkpoint directory."""
    root = configuration.get("execution.checkpointing.dir")
    if not root:
        raise InvalidJob("from_spark with materialize=True needs execution.checkpointing.dir: the result is kept there")
    return f"{root.rstrip('/')}/{job_id}/taskowned/spark-{operator_id}"


def read_marker(directory: str) -> str | None:
    """Returns the directory of the finished result, ``None`` while there is none."""
    filesystem, inner = resolve(directory)
    path = f"{inner}/{MARKER}"
    if filesystem.get_file_info(path).type != pafs.FileType.File:
        return None
    with filesystem.open_input_stream(path) as stream:
        return str(json.loads(stream.read())["directory"])


class MaterializedReader(FileReader):
    """Reads a subtask's share of the row groups: those whose index in the sorted listing is its own modulo parallelism."""

    def __init__(self, schema: pa.Schema, context: ReaderContext) -> None:
        super().__init__(ParquetFormat(schema), context)
        self._context = context

    def open(self, states: Sequence[SplitState]) -> None:
        super().open(states if self._context.is_restored else self._listed())

    def _listed(self) -> list[SplitState]:
        context = self._context
        owned = owned_directory(context.configuration, context.job_id, context.operator_id)
        directory = read_marker(owned)
        if directory is None:
            raise CorruptData(f"the materialized result of a Spark source is not in {owned}; submit the job again")
        parts = _row_groups(directory, self._format)
        mine = parts[self._context.subtask_index :: self._context.parallelism]
        return [SplitState(split) for split in mine]


def _row_groups(directory: str, file_format: pa.dataset.FileFormat) -> list[Split]:
    prefix = directory.split("://", 1)[0] + "://" if "://" in directory else ""
    return [
        Split(f"{info.base_name}@{part.start:06d}", [part.path, part.start, part.end, part.size_bytes])
        for info in list_files(directory)
        for part in file_format.ranges(info, prefix + info.path, 0)
    ]


@dataclass(frozen=True, slots=True)
class _Block:
    data: pa.RecordBatch
    number: int
    digest: str
    """The checksum of all blocks up to and including this one."""


class SparkPartitionReader(SourceReader):
    """Reads a partition in blocks of ``BLOCK_ROWS`` rows that are counted and checked, independent of Spark's batches."""

    def __init__(self, schema: pa.Schema, context: ReaderContext) -> None:
        self._schema = schema
        self._context = context
        self._state: SplitState | None = None
        self._fetcher: Fetcher[_Block] | None = None
        self._block: _Block | None = None
        self._skip = 0
        self._emitted = 0

    def open(self, states: Sequence[SplitState]) -> None:
        if not states:
            return
        (self._state,) = states
        partition, parallelism = self._state.split.payload
        here = (self._context.subtask_index, self._context.parallelism)
        if (partition, parallelism) != here:
            raise InvalidJob(
                f"partition {partition} of {parallelism} of a Spark source cannot be read by subtask {here[0]} of"
                f" {here[1]}: parallelism changed; use from_spark(..., materialize=True) for a source that rescales"
            )
        if not self._state.done:
            position = self._state.position or [0, 0, ""]
            self._skip = position[1]
            self._fetcher = Fetcher(lambda: self._blocks(*position), _READ_AHEAD_BLOCKS, self._context.wakeup)

    def _blocks(self, number: int, rows: int, digest: str) -> Iterator[_Block]:
        """Yields blocks from ``number`` on. The blocks before it, and the one of which ``rows`` were emitted, must equal those of the first run."""
        running = xxhash.xxh3_64()
        checked_at = number if rows else number - 1
        last = -1
        for index, data in enumerate(rechunk(self._context.spark_rows or (), self._schema)):
            running.update(data.serialize())
            seen = running.hexdigest()
            if index == checked_at and seen != digest:
                self._differs(index)
            last = index
            if index >= number:
                yield _Block(data, index, seen)
        if last < checked_at:
            self._differs(checked_at)

    def _differs(self, block: int) -> None:
        raise CorruptData(
            f"partition {self._context.subtask_index} of the Spark source gave other rows than before, up to row"
            f" {(block + 1) * BLOCK_ROWS}: the query is not deterministic; use from_spark(..., materialize=True)"
        )

    def poll(self) -> Polled | None:
        if self._fetcher is None or self._state is None:
            return None
        block = self._fetcher.take()
        if block is None:
            if self._fetcher.ended:
                self._state = SplitState(self._state.split, None, done=True)
            return None
        self._block, self._emitted = block, self._skip
        self._skip = 0
        return Polled(ArrowBatch(block.data.slice(self._emitted)), self._state.split.split_id)

    def advance(self, records: int) -> None:
        assert self._block is not None
        assert self._state is not None
        self._emitted += records
        at = [self._block.number, self._emitted, self._block.digest]
        if self._emitted == self._block.data.num_rows:
            at = [self._block.number + 1, 0, self._block.digest]
        self._state = SplitState(self._state.split, at)

    def is_finished(self) -> bool:
        return self._state is None or self._state.done

    def snapshot_state(self) -> list[SplitState]:
        return [] if self._state is None else [self._state]

    def close(self) -> None:
        if self._fetcher is not None:
            self._fetcher.close()


def rechunk(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Splits rows into batches of ``BLOCK_ROWS``; the last one may be smaller."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        rows += batch.num_rows
        while rows >= BLOCK_ROWS:
            joined = waiting[0] if len(waiting) == 1 else _join(waiting)
            yield joined.slice(0, BLOCK_ROWS)
            rows -= BLOCK_ROWS
            waiting = [joined.slice(BLOCK_ROWS)] if rows else []
    if rows:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
