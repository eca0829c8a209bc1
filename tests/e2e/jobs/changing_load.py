"""Records that arrive at a rate that the test changes, before a map that takes ``--pause`` milliseconds for each.

The file ``--rate`` holds records per second. What has arrived and was not read is ``pendingRecords`` of the source, as of a queue.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tidegate.common import Types, WatermarkStrategy
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.records.batch import ArrowBatch

SPLITS = 4
BATCH = 20
"""Records that are handed on at once: little beside a second's."""


class Arrivals(Source):
    bounded = False

    def __init__(self, rate: Path) -> None:
        self._rate = rate

    def list_splits(self, parallelism: int) -> list[Split]:
        return [Split(f"queue-{number}", number) for number in range(SPLITS)]

    def make_reader(self, context: ReaderContext) -> SourceReader:
        return Queue(self._rate, context)

    def produced_type(self) -> TypeInformation:
        return Types.ROW_NAMED(["number"], [Types.LONG()])


class Queue(SourceReader):
    """The queues of its splits as one: they are read in turn."""

    def __init__(self, rate: Path, context: ReaderContext) -> None:
        self._rate = rate
        self._read: dict[str, int] = {}
        self._splits: dict[str, Split] = {}
        self._arrived = 0.0
        self._last_s = time.monotonic()
        self._turn = ""
        assert context.watch is not None
        context.watch("pendingRecords", self._pending)

    def open(self, states: Sequence[SplitState]) -> None:
        for state in states:
            self._splits[state.split.split_id] = state.split
            self._read[state.split.split_id] = state.position or 0

    def poll(self) -> Polled | None:
        self._arrive()
        if self._arrived < BATCH or not self._read:
            return None
        self._arrived -= BATCH
        self._turn = min(self._read, key=lambda split_id: self._read[split_id])
        first = self._read[self._turn]
        return Polled(ArrowBatch(pa.record_batch({"number": pa.array(range(first, first + BATCH))})), self._turn)

    def advance(self, records: int) -> None:
        self._read[self._turn] += records

    def is_finished(self) -> bool:
        return False

    def snapshot_state(self) -> list[SplitState]:
        return [SplitState(split, self._read[split_id]) for split_id, split in self._splits.items()]

    def _pending(self) -> float:
        self._arrive()
        return self._arrived

    def _arrive(self) -> None:
        now_s = time.monotonic()
        rate = float(self._rate.read_text() or 0) * len(self._splits) / SPLITS
        self._arrived += (now_s - self._last_s) * rate
        self._last_s = now_s


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", required=True)
    parser.add_argument("--pause", type=float, default=2.0)
    arguments = parser.parse_args()
    pause_s = arguments.pause / 1000

    def work(row: object) -> object:
        time.sleep(pause_s)
        return row

    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(500)
    arrived = env.from_source(Arrivals(Path(arguments.rate)), WatermarkStrategy.no_watermarks(), "arrivals").uid(
        "queue"
    )
    arrived.rebalance().map(work).name("work").uid("work").filter(lambda row: False).print()
    env.execute("changing load")


if __name__ == "__main__":
    main()
