"""Numbers of several keys that wait for the rule of their key, are multiplied by it, and looked up by asynchronous calls.

    numbers ─ key_by ─┐
                      ├─ broadcast process ─▶ async, unordered ─▶ files
    rules ─ broadcast ┘   (numbers without a rule wait in keyed state, until the rule releases them)

The result depends on nothing but the arguments: every number once, times its rule.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.common.serialization import Encoder
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedBroadcastProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream.connectors.file_system import FileSink
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor

KEYS = 10
RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
WAITING = ListStateDescriptor("waiting", Types.LONG())


class Ruled(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state(WAITING)

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        factor = ctx.get_broadcast_state(RULES).get(ctx.get_current_key())
        if factor is None:
            self.waiting.add(value)
        else:
            yield value * factor

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any]:
        released: list[Any] = []

        def release(key: Any, waiting: Any) -> None:
            if key == value:
                released.extend(number * factor_of(key) for number in waiting.get())
                waiting.clear()

        ctx.get_broadcast_state(RULES).put(value, factor_of(value))
        ctx.apply_to_keyed_state(WAITING, release)
        return released


class LookedUp(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[str]:
        await asyncio.sleep(value % 7 / 1000)
        return [str(value)]


def factor_of(key: int) -> int:
    return 1000 + key


def expected(numbers: int) -> list[int]:
    return sorted(number * factor_of(number % KEYS) for number in range(numbers))


def rows(first: int, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number))], names=["value"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--numbers", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(300)
    none = WatermarkStrategy.no_watermarks()
    source = DataGeneratorSource(rows, args.numbers, rows_per_second=args.rate)
    numbers = env.from_source(source, none, "numbers").uid("numbers").map(lambda row: row[0], Types.LONG())
    slow = DataGeneratorSource(rows, KEYS, rows_per_second=KEYS * args.rate / args.numbers * 2)  # half of the time
    rules = env.from_source(slow, none, "rules").uid("rules").map(lambda row: row[0], Types.LONG()).broadcast(RULES)
    keyed = numbers.key_by(lambda value: value % KEYS, Types.LONG())
    ruled = keyed.connect(rules).process(Ruled(), Types.LONG()).uid("ruled")
    looked_up = AsyncDataStream.unordered_wait(ruled, LookedUp(), Time.seconds(60), 20, Types.STRING()).uid("lookup")
    looked_up.sink_to(FileSink.for_row_format(args.output, Encoder.simple_string_encoder()).build()).uid("sink")
    env.execute("rules")


if __name__ == "__main__":
    main()
