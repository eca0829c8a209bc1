"""Job of the latency benchmark: rows at a fixed rate, through a function by key, each with the time when it was made.

    source (rate) ─▶ hash exchange ─▶ keyed operator ─▶ latency of each batch of rows, noted at the operator's output
                  └▶ map, without an exchange ─▶ the same

Arguments: rows a second, seconds, parallelism, output directory, path (``columns`` or ``records``, or ``columns_map`` or ``records_map`` without a key),
and how many keys.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.dropping import Dropping
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import count, max
from tidegate.functions.interfaces import Function, MapFunction, RuntimeContext

KEYS = 10_000
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
HALVED = pa.schema([("key", pa.int64()), ("made", pa.int64())])


@dataclass(frozen=True)
class Rows:
    """Generated when they are due: the time of making is that of arrival."""

    keys: int

    def __call__(self, first: int, number: int) -> pa.RecordBatch:
        key = np.arange(first, first + number, dtype=np.int64) * 7919 % self.keys
        return pa.RecordBatch.from_arrays(
            [pa.array(key), pa.array(np.full(number, time.time_ns()))], names=["key", "made"]
        )


def with_half(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pc.divide(batch.column("key"), 2), batch.column("made")], schema=HALVED)


class Noted(MapFunction):
    """Keeps the latency of every row that it sees, in microseconds; writes them when it is closed."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, runtime_context: RuntimeContext) -> None:
        self.found: list[int] = []
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: tuple[int, int]) -> tuple[int, int]:
        self.found.append((time.time_ns() - value[1]) // 1000)
        return value

    def close(self) -> None:
        np.save(Path(self.directory) / f"latency-{self.index}-{time.time_ns()}.npy", np.array(self.found))


class NotedBatch(Function):
    """The same for whole batches: every row of one has the latency at the batch's end. ``made``: the column with the time."""

    def __init__(self, directory: str, made: str) -> None:
        self.directory = directory
        self.made = made

    def open(self, runtime_context: RuntimeContext) -> None:
        self.found: list[npt.NDArray[np.int64]] = []
        self.index = runtime_context.get_index_of_this_subtask()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.found.append((time.time_ns() - batch.column(self.made).to_numpy()) // 1000)
        return batch

    def close(self) -> None:
        np.save(Path(self.directory) / f"latency-{self.index}-{time.time_ns()}.npy", np.concatenate(self.found))


def main(rate: int, seconds: int, parallelism: int, output: str, path: str, keys: int = KEYS) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    env.enable_checkpointing(1000)
    Path(output).mkdir(parents=True)
    source = DataGeneratorSource(Rows(keys), rate * seconds, rows_per_second=float(rate))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    if path == "columns":
        totals = stream.key_by("key").agg(count().alias("n"), max("made"))
        done = totals.map_batches(NotedBatch(output, "max_made"), totals.get_type().arrow_schema())
        done.sink_to(Dropping())
    elif path == "columns_map":
        mapped = stream.map_batches(with_half, HALVED)
        mapped.map_batches(NotedBatch(output, "made"), HALVED).sink_to(Dropping())
    elif path == "records_map":
        mapped = stream.map(lambda row: (row[0] // 2, row[1]), output_type=PAIR)
        mapped.map(Noted(output), output_type=PAIR).sink_to(Dropping())
    else:
        pairs = stream.map(lambda row: (row[0], row[1]), output_type=PAIR)
        reduced = pairs.key_by(lambda pair: pair[0], key_type=Types.LONG()).reduce(lambda a, b: b)
        reduced.map(Noted(output), output_type=PAIR).sink_to(Dropping())
    env.execute(f"latency: {path}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5], *map(int, sys.argv[6:]))
