"""A job that fails at one of its records, in a way that tells what its state was: for recording the failure and replaying it.

    rows (value, ts) ═ by key ═▶ fragile: (value, digest) ═▶ sink

The digest of a key follows from all that its function was given: values, event time, watermarks, timers of both kinds, and readings of the clock.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.common.time import Time
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import (
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.window import TimeWindow, TumblingEventTimeWindows
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

KEYS, TOTAL = 5, 240


def numbers(first: int, number: int) -> pa.RecordBatch:
    index = np.arange(first, first + number)
    return pa.RecordBatch.from_arrays([pa.array(index), pa.array(index)], names=["value", "ts"])


class Fragile(KeyedProcessFunction):
    """Fails at the value ``poison``. ``chance``: what it mixes into its outputs that no recording holds."""

    def __init__(self, poison: int, chance: str = "") -> None:
        self._poison = poison
        self._chance = chance

    def open(self, runtime_context: RuntimeContext) -> None:
        self.digest = runtime_context.get_state(ValueStateDescriptor("digest", Types.LONG()))
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.LONG()))
        self.fired = runtime_context.get_map_state(MapStateDescriptor("fired", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        service = ctx.timer_service()
        found = self._mix(value[0], ctx.timestamp(), service.current_watermark(), service.current_processing_time())
        self.values.add(value[0])
        service.register_event_time_timer((ctx.timestamp() or 0) + 7)
        service.register_processing_time_timer(service.current_processing_time() + value[0] % 4)
        if value[0] == self._poison:
            raise ValueError(f"{found}, {sorted(self.values.get())}, {sorted(self.fired.items())}")
        yield value[0], found
        if self._chance == "random" and random.random() < 0.5:
            yield -1, 0
        if self._chance == "time" and time.time_ns() % 2:
            yield -1, 0
        if self._chance == "set":
            yield next(iter({"a", "b", "c", "d", "e"})), 0

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        found = self._mix(timestamp, len(ctx.time_domain().name), ctx.timer_service().current_processing_time())
        self.fired.put(timestamp, found)
        yield -timestamp, found

    def _mix(self, *given: object) -> int:
        found = zlib.crc32(repr(given).encode(), self.digest.value() or 0)
        self.digest.update(found)
        return found


class FragileInSource(ProcessFunction):
    """Fails at the value ``poison``, in the chain of the source, with what it knows of event time and of the clock."""

    def __init__(self, poison: int) -> None:
        self._poison = poison

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        service = ctx.timer_service()
        if value[0] == self._poison:
            raise ValueError(f"{ctx.timestamp()}, {service.current_watermark()}, {service.current_processing_time()}")
        yield value


class FragileWindow(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    """Fails at the window that has the value ``poison``, with all that it has."""

    def __init__(self, poison: int) -> None:
        self._poison = poison

    def process(
        self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterable[Any]:
        found = [element[0] for element in elements]
        if self._poison in found:
            raise ValueError(f"{key}, {context.window()}, {context.current_watermark()}, {found}")
        yield key, sum(found)


def fragile_batches(poison: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function of whole batches that fails at one with the value ``poison``."""

    def check(batch: pa.RecordBatch) -> pa.RecordBatch:
        found = batch.column(0).to_pylist()
        if poison in found:
            raise ValueError(f"{found}")
        return batch

    return check


def build(
    poison: int,
    world: str,
    *,
    parallelism: int = 2,
    incremental: bool = False,
    backend: str = "hashmap",
    chance: str = "",
    kind: str = "keyed",
) -> BuiltJob:
    """The job, with checkpoints that the world triggers. ``kind``: where it fails: ``keyed``, ``window``, ``source`` or ``batches``."""
    options = Configuration()
    options.set_string("execution.checkpointing.mode", "EXACTLY_ONCE")
    options.set_string("execution.checkpointing.unaligned.enabled", "true")
    options.set_string("execution.checkpointing.incremental", "true" if incremental else "false")
    options.set_string("execution.checkpointing.data-inline-threshold", "0 b" if incremental else "200 b")
    options.set_string("state.backend.type", backend)
    options.set_string("tidegate.exchange.channel-credit", "1 kb")
    options.set_string("tidegate.exchange.batch-rows", "4")
    options.set_string("taskmanager.network.memory.buffer-debloat.enabled", "false")
    env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(parallelism)
    env.enable_checkpointing(60_000)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    source = DataGeneratorSource(numbers, TOTAL, batch_rows=12)
    stream = env.from_source(source, strategy, "rows").uid("rows")
    result = Types.TUPLE([Types.PICKLED_BYTE_ARRAY(), Types.LONG()])
    numbered = Types.TUPLE([Types.LONG(), Types.LONG()])
    sink = CollectingSink(world)
    match kind:
        case "batches":
            dealt = stream.rebalance().map_batches(
                fragile_batches(poison), pa.schema([("value", pa.int64()), ("ts", pa.int64())])
            )
            dealt.sink_to(sink).uid("out")
            return env.build()
        case "source":
            stream = stream.process(FragileInSource(poison), numbered)
    keyed = stream.key_by(lambda row: row[0] % KEYS, Types.LONG())
    if kind == "window":
        windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
        windows.process(FragileWindow(poison), numbered).uid("fragile").rebalance().sink_to(sink).uid("out")
    else:
        fragile = keyed.process(Fragile(-1 if kind == "source" else poison, chance), result)
        fragile.uid("fragile").rebalance().sink_to(sink).uid("out")
    return env.build()
