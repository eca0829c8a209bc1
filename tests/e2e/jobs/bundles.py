"""Numbers gathered into bundles by a function with list, union and broadcast state; each bundle leaves when it is full.

``rows`` is a multiple of GROUP, so with one subtask at the end every number has left: what was gathered by others before a
rescale is in bundles of the last one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.common import Types, WatermarkStrategy
from tidegate.common.serialization import Encoder
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream.connectors.file_system import FileSink
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor

GROUP = 64


class Bundle(FlatMapFunction, CheckpointedFunction):
    buffer = ListStateDescriptor("buffer", Types.LONG())
    passed = ListStateDescriptor("passed", Types.LONG())
    rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.kept = store.get_list_state(self.buffer)
        self.counts = store.get_union_list_state(self.passed)
        self.rule = store.get_broadcast_state(self.rules)
        if not context.is_restored():
            self.rule.put("group", GROUP)
        self.held = list(self.kept.get())
        self.before, self.seen = sum(self.counts.get()), 0

    def open(self, runtime_context: Any) -> None:
        if runtime_context.get_index_of_this_subtask() > 0:
            self.before = 0  # subtask 0 goes on counting for all

    def flat_map(self, value: int) -> Iterable[int]:
        self.held.append(value)
        self.seen += 1
        group = self.rule["group"] or 0
        while len(self.held) >= group:
            yield from self.held[:group]
            self.held = self.held[group:]

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.kept.update(self.held)
        self.counts.update([self.before + self.seen])


def rows(first: int, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number))], names=["value"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--output", required=True)
    parser.add_argument("--interval", type=int, required=True)
    args = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(args.interval)
    source = DataGeneratorSource(rows, args.rows, rows_per_second=args.rate or None)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    gathered = numbers.map(lambda row: row[0], Types.LONG()).rebalance().flat_map(Bundle(), Types.LONG()).uid("bundle")
    sink = FileSink.for_row_format(args.output, Encoder.simple_string_encoder()).build()
    gathered.map(str, Types.STRING()).sink_to(sink).uid("sink")
    env.execute("bundles")


if __name__ == "__main__":
    main()
