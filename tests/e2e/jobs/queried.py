"""Counts numbers by key, for clients that ask for the counts while the job runs. It goes on until it is cancelled or has counted all.

counts     a value by number modulo ``KEYS``
recent     a list of the last numbers of a key
sums       an aggregating state by a key of two fields
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.functions.interfaces import AggregateFunction
from tidegate.functions.state import AggregatingStateDescriptor, ListStateDescriptor, ValueStateDescriptor

KEYS = 20
RECENT = 3


class Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> str:
        return f"sum {accumulator}"

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def sums() -> AggregatingStateDescriptor:
    return AggregatingStateDescriptor("sum", Sum(), Types.LONG())


class Count(KeyedProcessFunction):
    def __init__(self, name: str, fails: bool) -> None:
        self._name = name
        self._fails = fails

    def open(self, runtime_context: RuntimeContext) -> None:
        counts, recent = ValueStateDescriptor("count", Types.LONG()), ListStateDescriptor("last", Types.LONG())
        counts.set_queryable(self._name)
        recent.set_queryable("recent")
        self._count = runtime_context.get_state(counts)
        self._recent = runtime_context.get_list_state(recent)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        if self._fails:
            raise ValueError("this version does not work")
        self._count.update((self._count.value() or 0) + 1)
        self._recent.update([*self._recent.get(), value][-RECENT:])
        yield value


class Add(KeyedProcessFunction):
    def __init__(self, name: str) -> None:
        self._name = name

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = sums()
        descriptor.set_queryable(self._name)
        self._sum = runtime_context.get_aggregating_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self._sum.add(value)
        return []


def numbers(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + count))], names=["value"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--uid", default="counted")
    parser.add_argument("--fails", action="store_true")
    parser.add_argument("--clash", action="store_true")
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(300)
    source = DataGeneratorSource(numbers, arguments.rows, rows_per_second=arguments.rate or None)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(lambda row: row[0], Types.LONG())
    counted = stream.key_by(lambda number: number % KEYS, Types.LONG()).process(
        Count("counts", arguments.fails), Types.LONG()
    )
    counted.uid(arguments.uid)
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    name = "counts" if arguments.clash else "sums"
    counted.key_by(lambda number: ("even" if number % 2 == 0 else "odd", number % 5), pair).process(
        Add(name), Types.LONG()
    ).uid("added")
    env.execute("queried")


if __name__ == "__main__":
    main()
