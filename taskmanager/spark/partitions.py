"""The functions that Spark runs in its workers: a subtask for a partition, and what a session rehearses.

Small on purpose: the driver imports it too, and what it pickles is these functions by name plus the few texts of a ``SubtaskEntry``.
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
"""As the JVM reads the key of a pair."""
WAIT_S = 0.4
"""How long the partition of a rehearsed cancellation lives; it is cancelled in the middle."""


@dataclass(frozen=True, slots=True)
class SubtaskPartition:
    """Runs the attempt of ``entry`` in the worker that gets the partition, and yields nothing."""

    entry: SubtaskEntry

    def over_partition(self, index: int, rows: Iterable[object]) -> Iterator[object]:
        """For ``RDD.mapPartitionsWithIndex``: the partition is empty, only its index counts."""
        return _run(self.entry, index, None)

    def over_arrow(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For ``DataFrame.mapInArrow``: the subtask reads the partition's record batches."""
        from pyspark import TaskContext

        context = TaskContext.get()
        return _run(self.entry, context.partitionId() if context else 0, batches)


@dataclass(frozen=True, slots=True)
class StoringPartition:
    """Runs the attempt of ``entry`` over what Spark's shuffle holds for it, and yields what its consumers will read."""

    entry: SubtaskEntry

    def over_blocks(self, index: int, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """For ``RDD.mapPartitionsWithIndex``: alternately the number of a partition and a block for it, as Spark's ``PairwiseRDD``
        takes them."""
        from tidegate.taskmanager.exchange.blocking.store import StoredExchange
        from tidegate.taskmanager.spark.worker import run_attempt  # which the driver does not need

        for partition, block in run_attempt(self.entry, None, None, StoredExchange(blocks)):
            yield _LONG.pack(partition)
            yield block


def warm(index: int, rows: Iterable[object]) -> Iterator[object]:
    """A partition that does nothing: it makes Spark start its daemon and fork a worker."""
    return iter(())


def die(index: int, rows: Iterable[object]) -> Iterator[object]:
    """A partition whose process goes away: for the rehearsal of a loss."""
    os._exit(1)


def wait(index: int, rows: Iterable[object]) -> Iterator[object]:
    """A partition that is cancelled while it waits, and ends soon after: the thread of the JVM that was interrupted asks for its output
    again and again until then, with all of a processor."""
    time.sleep(WAIT_S)
    return iter(())


def read_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``DataFrame.mapInArrow``, in the rehearsal of a query."""
    for _ in batches:
        pass
    return iter(())


def _run(entry: SubtaskEntry, index: int, spark_rows: Iterator[pa.RecordBatch] | None) -> Iterator[pa.RecordBatch]:
    from tidegate.taskmanager.spark.worker import subtask_main  # which the driver does not need

    subtask_main(entry, index, spark_rows)
    return iter(())
