"""A job that fails at one of its records, in a way that tells what its state was: for recording the failure and replaying it.

    rows (value, ts) ═ by key ═▶ fragile: (value, digest) ═▶ sink

The digest of a key follows from all that its function was given: values, event time, watermarks, timers of both kinds, and readings of the clock.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream._graph.job_graph_builder import BuiltJob
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


def build(
    poison: int,
    world: str,
    *,
    parallelism: int = 2,
    incremental: bool = False,
    backend: str = "hashmap",
    chance: str = "",
) -> BuiltJob:
    """The job, with checkpoints that the world triggers."""
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
    keyed = stream.key_by(lambda row: row[0] % KEYS, Types.LONG())
    keyed.process(Fragile(poison, chance), result).uid("fragile").rebalance().sink_to(CollectingSink(world)).uid("out")
    return env.build()
