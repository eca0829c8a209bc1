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
from tidegate.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.common.time import Time
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.window import TimeWindow, TumblingEventTimeWindows
from tidegate.functions.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

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


class FragileConnected(KeyedCoProcessFunction):
    """Fails at the value ``poison`` of the second input, with what came from both inputs and what the clock said."""

    def __init__(self, poison: int) -> None:
        self._poison = poison

    def open(self, runtime_context: RuntimeContext) -> None:
        self.first = runtime_context.get_list_state(ListStateDescriptor("first", Types.LONG()))
        self.second = runtime_context.get_state(ValueStateDescriptor("second", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        self.first.add(value[0])
        ctx.timer_service().register_event_time_timer((ctx.timestamp() or 0) + 5)
        yield value[0], self.second.value() or 0

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        service = ctx.timer_service()
        known = zlib.crc32(
            repr((value[0], list(self.first.get()), service.current_watermark())).encode(), self.second.value() or 0
        )
        service.register_processing_time_timer(service.current_processing_time() + value[0] % 3)
        if value[0] == self._poison:
            raise ValueError(f"{known}, {list(self.first.get())}, {service.current_processing_time()}")
        self.second.update(known)
        yield value[0], known

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any]:
        kept = list(self.first.get())
        if len(kept) > 3:
            self.first.update(kept[1:])
        yield -timestamp, len(kept)


RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())


class FragileBroadcast(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """Fails at the value ``poison`` of the keyed input, with the broadcast state as it is then."""

    def __init__(self, poison: int) -> None:
        self._poison = poison

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        rules = sorted(ctx.get_broadcast_state(RULES).items())
        total = zlib.crc32(repr((value[0], rules, ctx.current_watermark())).encode(), self.total.value() or 0)
        self.total.update(total)
        if value[0] == self._poison:
            raise ValueError(f"{total}, {rules}")
        yield value[0], total

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any]:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(value[0] % 7, value[0])
        yield -value[0], len(list(rules.keys()))


class FragileJoin(ProcessJoinFunction):
    """Fails at the first pair whose right value is at least ``poison``."""

    def __init__(self, poison: int) -> None:
        self._poison = poison

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
        if right[0] >= self._poison:
            raise ValueError(f"{left[0]}, {right[0]}, {ctx.get_timestamp()}")
        yield left[0], right[0]


class FragileMatch(PatternProcessFunction):
    """Fails at the first match that ends at or behind the value ``poison``, with its events."""

    def __init__(self, poison: int) -> None:
        self._poison = poison

    def process_match(self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        found = [(name, [event[0] for event in events]) for name, events in sorted(match.items())]
        last = max(number for _, numbers in found for number in numbers)
        if last >= self._poison:
            raise ValueError(f"{found}, {ctx.timestamp()}, {ctx.current_processing_time()}")
        yield last, len(found)


class FragileForgetful(KeyedProcessFunction):
    """Fails at the value ``poison``, with states that are forgotten soon by the clock. It asks for one of them only when a record is there."""

    def __init__(self, poison: int) -> None:
        self._poison = poison

    def open(self, runtime_context: RuntimeContext) -> None:
        self._context = runtime_context
        self.recent = runtime_context.get_list_state(_forgotten("recent"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        later = self._context.get_list_state(_forgotten("later"))
        self.recent.add(value[0])
        later.add(-value[0])
        found = [list(self.recent.get() or ()), list(later.get() or ())]
        if value[0] == self._poison:
            raise ValueError(f"{found}")
        yield value[0], len(found[0])


def _forgotten(name: str) -> ListStateDescriptor:
    descriptor = ListStateDescriptor(name, Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(6)).build())
    return descriptor


PATTERN = (
    Pattern.begin("low", AfterMatchSkipStrategy.skip_past_last_event())
    .where(lambda row: row[0] % 3 == 0)
    .followed_by("high")
    .where(lambda row: row[0] % 4 == 0)
    .within(Time.milliseconds(40))
)


def fragile_batches(poison: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function of whole batches that fails at one with the value ``poison``."""

    def check(batch: pa.RecordBatch) -> pa.RecordBatch:
        found = batch.column(0).to_pylist()
        if poison in found:
            raise ValueError(f"{found}")
        return batch

    return check


_BY_TS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")


def read_numbers(*, parallelism: int, incremental: bool, backend: str) -> tuple[StreamExecutionEnvironment, DataStream]:
    """Returns an environment of which the world triggers checkpoints, and its stream of numbers."""
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
    source = DataGeneratorSource(numbers, TOTAL, batch_rows=12)
    return env, env.from_source(source, _BY_TS, "rows").uid("rows")


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
    """The job, with checkpoints that the world triggers. ``kind``: where it fails: ``keyed``, ``window``, ``source``, ``batches``, ``connected``,
    ``broadcast``, ``joined``, ``pattern`` or ``forgetful``.
    """
    env, stream = read_numbers(parallelism=parallelism, incremental=incremental, backend=backend)
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
    if kind in ("keyed", "source"):
        found = keyed.process(Fragile(-1 if kind == "source" else poison, chance), result)
    else:
        other = env.from_source(DataGeneratorSource(numbers, TOTAL, batch_rows=7), _BY_TS, "others").uid("others")
        found = _fragile(kind, poison, keyed, other)
    found.uid("fragile").rebalance().sink_to(sink).uid("out")
    return env.build()


def _fragile(kind: str, poison: int, keyed: KeyedStream, other: DataStream) -> DataStream:
    """Returns the operator of a kind that fails, behind a keyed stream and another one."""
    numbered = Types.TUPLE([Types.LONG(), Types.LONG()])
    other_keyed = other.key_by(lambda row: row[0] % KEYS, Types.LONG())
    match kind:
        case "window":
            windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
            return windows.process(FragileWindow(poison), numbered)
        case "connected":
            return keyed.connect(other_keyed).process(FragileConnected(poison), numbered)
        case "broadcast":
            return keyed.connect(other.broadcast(RULES)).process(FragileBroadcast(poison), numbered)
        case "joined":
            join = keyed.interval_join(other_keyed).between(Time.milliseconds(-10), Time.milliseconds(5))
            return join.process(FragileJoin(poison), numbered)
        case "pattern":
            return CEP.pattern(keyed, PATTERN).process(FragileMatch(poison), numbered)
        case "forgetful":
            return keyed.process(FragileForgetful(poison), numbered)
    raise AssertionError(f"no such kind: {kind}")
