"""Totals by key, in state, of numbers of which one makes the function fail: for replaying the failure. ``--mended``: it does not."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.functions.state import ValueStateDescriptor

KEYS = 3


class Totals(KeyedProcessFunction):
    def __init__(self, poison: int, mended: bool) -> None:
        self._poison = poison
        self._mended = mended

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        total = (self.total.value() or 0) + value
        if value == self._poison and not self._mended:
            raise ValueError(f"the total would be {total}")
        self.total.update(total)
        yield total


def rows(first: int, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number))], names=["value"])


def total_at(poison: int) -> int:
    """What the function says of its state when it fails."""
    return sum(range(poison % KEYS, poison + 1, KEYS))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--poison", type=int, default=900)
    parser.add_argument("--mended", action="store_true")
    args = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(300)
    source = DataGeneratorSource(rows, 1_000_000, rows_per_second=300)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    values = numbers.set_parallelism(1).map(lambda row: row[0], Types.LONG()).uid("values").set_parallelism(1)
    keyed = values.key_by(lambda value: value % KEYS, Types.LONG())
    keyed.process(Totals(args.poison, args.mended), Types.LONG()).uid("totals").print().uid("out")
    env.execute("poisoned")


if __name__ == "__main__":
    main()
