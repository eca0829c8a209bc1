"""The functions that Spark runs in its workers: a subtask for a partition, and those of a session's rehearsals.

The module is small since the driver imports it too. The driver pickles these functions by name, and the few texts of a ``SubtaskEntry``.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.taskmanager.spark.entry import SubtaskEntry

if TYPE_CHECKING:
    import pyarrow as pa

_LONG = struct.Struct(">q")
"""Format of the key of a pair as the JVM reads it: a 64-bit integer."""
WAIT_S = 0.4
"""Seconds that the partition of a rehearsed cancellation runs; it is cancelled halfway."""


@dataclass(frozen=True, slots=True)
class SubtaskPartition:
    """Runs the attempt of ``entry`` in the worker that gets the partition, and yields no rows."""

    entry: SubtaskEntry

    def over_partition(self, index: int, rows: Iterable[object]) -> Iterator[object]:
        """Runs the subtask, for ``RDD.mapPartitionsWithIndex``; the partition is empty, and only its index counts."""
        return _run(self.entry, index, None)

    def over_arrow(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs the subtask over the partition's record batches, for ``DataFrame.mapInArrow``."""
        from pyspark import TaskContext

        context = TaskContext.get()
        return _run(self.entry, context.partitionId() if context else 0, batches)


@dataclass(frozen=True, slots=True)
class StoringPartition:
    """Runs the attempt of ``entry`` over the blocks that Spark's shuffle holds for it, and yields the blocks for its consumers."""

    entry: SubtaskEntry

    def over_blocks(self, index: int, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Runs the attempt, for ``RDD.mapPartitionsWithIndex``; yields alternately a partition number and a block for it, as Spark's ``PairwiseRDD`` takes
        them.
        """
        from tidegate.taskmanager.exchange.blocking.store import StoredExchange
        from tidegate.taskmanager.spark.worker import run_attempt  # which the driver does not need

        for partition, block in run_attempt(self.entry, None, None, StoredExchange(blocks)):
            yield _LONG.pack(partition)
            yield block


def warm(index: int, rows: Iterable[object]) -> Iterator[object]:
    """Does nothing, as a partition that makes Spark start its daemon and fork a worker."""
    return iter(())


def die(index: int, rows: Iterable[object]) -> Iterator[object]:
    """Ends the worker process, as a partition that rehearses a lost worker."""
    os._exit(1)


def wait(index: int, rows: Iterable[object]) -> Iterator[object]:
    """Waits for ``WAIT_S``, as a partition that is cancelled meanwhile. It is short since the interrupted thread of the JVM polls for the partition's output
    until then and uses a whole processor.
    """
    time.sleep(WAIT_S)
    return iter(())


def read_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads all batches and yields none, for ``DataFrame.mapInArrow`` in the rehearsal of a query."""
    for _ in batches:
        pass
    return iter(())


def _run(entry: SubtaskEntry, index: int, spark_rows: Iterator[pa.RecordBatch] | None) -> Iterator[pa.RecordBatch]:
    from tidegate.taskmanager.spark.worker import subtask_main  # which the driver does not need

    subtask_main(entry, index, spark_rows)
    return iter(())
