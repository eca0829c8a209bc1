"""Visits of users as sessions, counts and windows of everything; ``expected`` says what comes out, by plain means.

Row n belongs to user n % USERS and to block n // BLOCK; blocks are GAP_MS and more apart, and within a block times are mixed up.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.common import Duration, Time, Types, WatermarkStrategy
from tidegate.common.serialization import Encoder
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink
from tidegate.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

USERS, BLOCK, GAP_MS, BLOCK_MS = 7, 40, 1_000, 10_000
VISIT = Types.TUPLE([Types.LONG(), Types.LONG()])


def time_of(row: Any) -> Any:
    return row // BLOCK * BLOCK_MS + row * 17 % BLOCK * 10


def rows(first: int, number: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + number)
    return pa.record_batch({"user": numbers % USERS, "at": time_of(numbers)})


def expected(count: int) -> Counter[str]:
    """Lines that the job writes."""
    blocks: dict[tuple[int, int], list[int]] = {}
    for row in range(count):
        blocks.setdefault((row // BLOCK, row % USERS), []).append(time_of(row))
    lines = [f"session {user} {min(times)} {max(times)} {len(times)}" for (_, user), times in blocks.items()]
    return Counter(lines) + Counter(f"all {block * BLOCK_MS} {BLOCK}" for block in range(count // BLOCK))


class Session(ProcessWindowFunction[Any, str, int, Any]):
    def process(self, key: int, context: Any, elements: Iterable[Any]) -> Iterable[str]:
        window = context.window()
        yield f"session {key} {window.start} {window.end - GAP_MS} {len(list(elements))}"


def add(a: Any, b: Any) -> Any:
    return min(a[0], b[0]), a[1] + b[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(200)
    source = DataGeneratorSource(rows, args.rows, rows_per_second=args.rate or None)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BLOCK * 10)).with_timestamp_column(
        "at"
    )
    visits = env.from_source(source, strategy, "visits").uid("visits").map(lambda row: (row[0], row[1]), VISIT)
    sessions = (
        visits.key_by(lambda visit: visit[0], Types.LONG())
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)))
        .process(Session(), Types.STRING())
        .uid("sessions")
    )
    everything = (
        visits.map(lambda visit: (visit[1] // BLOCK_MS * BLOCK_MS, 1), VISIT)
        .window_all(TumblingEventTimeWindows.of(Time.milliseconds(BLOCK_MS)))
        .reduce(add)
        .uid("everything")
        .map(lambda found: f"all {found[0]} {found[1]}", Types.STRING())
    )
    sink = FileSink.for_row_format(args.output, Encoder.simple_string_encoder()).build()
    sessions.union(everything).sink_to(sink).uid("sink")
    env.execute("sessions")


if __name__ == "__main__":
    main()
