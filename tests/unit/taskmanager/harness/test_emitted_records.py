"""What is emitted has the value that it had then, and what a function is given is its own: for every function, output and backend.

Each function here emits one object again and again and changes it in between, or changes what it is given. The truth is PyFlink 2.3's:
``[0]``, ``[0, 1]``, ``[0, 1, 2]``, as a function that emits one list, one that emits its state and an aggregate that returns its accumulator gave with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tidegate.common import Row, Time, Types, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import AsyncDataStream, AsyncFunction, DataStream, OutputTag
from tidegate.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from tidegate.functions.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from tidegate.functions.interfaces import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from tidegate.functions.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tidegate.taskmanager.harness.operators import OperatorHarness

BACKENDS = ("hashmap", "rocksdb")
ANY = Types.PICKLED_BYTE_ARRAY()
LONGS = Types.LIST(Types.LONG())
ROW = Types.ROW_NAMED(["n"], [Types.LONG()])
N = 6
UP_TO = [list(range(n + 1)) for n in range(N)]
"""``[0]``, ``[0, 1]``, ..."""
ASIDE = OutputTag("aside", LONGS)


def one(_: object) -> int:
    return 0


class Growing:
    """The list that every function below emits, and goes on changing."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def more(self, value: int) -> list[int]:
        self.seen.append(value)
        return self.seen


class Map(Growing, MapFunction):
    def map(self, value: int) -> list[int]:
        return self.more(value)


class Flat(Growing, FlatMapFunction):
    def flat_map(self, value: int) -> Iterator[list[int]]:
        yield self.more(value)


class Process(Growing, ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[list[int]]:
        yield self.more(value)


class Keyed(Growing, KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[list[int]]:
        yield self.more(value)


class Timers(Growing, KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[list[int]]:
        yield self.more(timestamp)


class CoMapped(Growing, CoMapFunction):
    def map1(self, value: int) -> list[int]:
        return self.more(value)

    map2 = map1


class CoFlat(Growing, CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterator[list[int]]:
        yield self.more(value)

    flat_map2 = flat_map1


class CoProcessed(Growing, CoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> Iterator[list[int]]:
        yield self.more(value)

    process_element2 = process_element1


class KeyedCo(Growing, KeyedCoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> Iterator[list[int]]:
        yield self.more(value)

    process_element2 = process_element1


SEEN = MapStateDescriptor("seen", Types.LONG(), ANY)


class Broadcast(Growing, BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: int, ctx: Any) -> Iterator[list[int]]:
        yield self.more(value)

    def process_broadcast_element(self, value: int, ctx: Any) -> None: ...


class KeyedBroadcast(Growing, KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_element(self, value: int, ctx: Any) -> Iterator[list[int]]:
        yield self.more(value)

    def process_broadcast_element(self, value: int, ctx: Any) -> None: ...


class OfState(KeyedProcessFunction):
    """Emits the value of its state, which it changes with the next record."""

    def __init__(self, ttl: bool = False) -> None:
        self.ttl = ttl

    def described(self, descriptor: Any) -> Any:
        return described(descriptor, self.ttl)


def described(descriptor: Any, expires: bool) -> Any:
    if expires:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return descriptor


class OfValue(OfState):
    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(self.described(ValueStateDescriptor("v", LONGS)))

    def process_element(self, value: int, ctx: Any) -> Iterator[list[int]]:
        held = self.state.value() or []
        held.append(value)
        self.state.update(held)
        yield self.state.value()


class OfList(OfState):
    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_list_state(self.described(ListStateDescriptor("l", LONGS)))

    def process_element(self, value: int, ctx: Any) -> Iterator[list[int]]:
        held: list[int] = next(iter(self.state.get()), [])
        held.append(value)
        self.state.update([held])
        yield next(iter(self.state.get()))


class OfMap(OfState):
    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_map_state(self.described(MapStateDescriptor("m", Types.LONG(), LONGS)))

    def process_element(self, value: int, ctx: Any) -> Iterator[list[int]]:
        held = self.state.get(0) or []
        held.append(value)
        self.state.put(0, held)
        yield next(iter(self.state.values()))


class Together(ReduceFunction):
    def reduce(self, value1: list[int], value2: list[int]) -> list[int]:
        value1.extend(value2)
        return value1


class InAccumulator(AggregateFunction):
    """Gives its accumulator out as the result."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        a.extend(b)
        return a


class OfReducing(OfState):
    def open(self, runtime_context: Any) -> None:
        descriptor = self.described(ReducingStateDescriptor("r", Together(), LONGS))
        self.state = runtime_context.get_reducing_state(descriptor)

    def process_element(self, value: int, ctx: Any) -> Iterator[list[int]]:
        self.state.add([value])
        yield self.state.get()


class OfAggregating(OfState):
    def open(self, runtime_context: Any) -> None:
        descriptor = self.described(AggregatingStateDescriptor("a", InAccumulator(), LONGS))
        self.state = runtime_context.get_aggregating_state(descriptor)

    def process_element(self, value: int, ctx: Any) -> Iterator[list[int]]:
        self.state.add(value)
        yield self.state.get()


class Applied(Growing, WindowFunction[int, Any, int, Any]):
    def apply(self, key: int, window: Any, inputs: Iterable[int]) -> Iterator[list[int]]:
        for value in inputs:
            yield self.more(value)


class Processed(Growing, ProcessWindowFunction[int, Any, int, Any]):
    def process(self, key: int, context: Any, elements: Iterable[Any]) -> Iterator[list[int]]:
        for value in elements:
            yield self.more(value if isinstance(value, int) else value[-1])


class Joined(Growing, ProcessJoinFunction):
    def process_element(self, left: int, right: int, ctx: Any) -> Iterator[list[int]]:
        yield self.more(left)


class Asked(Growing, AsyncFunction[int, list[int]]):
    """All coroutines have the one list as their answer, and all are asleep together before any has it."""

    async def async_invoke(self, value: int) -> list[list[int]]:
        await asyncio.sleep(0)
        return [self.more(value)]


def windowed(stream: DataStream) -> Any:
    return stream.key_by(one, Types.LONG()).window(GlobalWindows.create()).trigger(CountTrigger.of(1))


def purged(stream: DataStream) -> Any:
    trigger = PurgingTrigger.of(CountTrigger.of(1))
    return stream.key_by(one, Types.LONG()).window(GlobalWindows.create()).trigger(trigger)


def keyed(function: KeyedProcessFunction) -> Callable[[DataStream, Any], DataStream]:
    return lambda stream, kind: stream.key_by(one, Types.LONG()).process(function, kind)


ONE_INPUT: dict[str, Callable[[DataStream, Any], DataStream]] = {
    "map": lambda s, kind: s.map(Map(), kind),
    "flat_map": lambda s, kind: s.flat_map(Flat(), kind),
    "process": lambda s, kind: s.process(Process(), kind),
    "keyed map": lambda s, kind: s.key_by(one, Types.LONG()).map(Map(), kind),
    "keyed flat_map": lambda s, kind: s.key_by(one, Types.LONG()).flat_map(Flat(), kind),
    "keyed process": lambda s, kind: keyed(Keyed())(s, kind),
    "value state": lambda s, kind: keyed(OfValue())(s, kind),
    "list state": lambda s, kind: keyed(OfList())(s, kind),
    "map state": lambda s, kind: keyed(OfMap())(s, kind),
    "reducing state": lambda s, kind: keyed(OfReducing())(s, kind),
    "aggregating state": lambda s, kind: keyed(OfAggregating())(s, kind),
    "value state that expires": lambda s, kind: keyed(OfValue(True))(s, kind),
    "list state that expires": lambda s, kind: keyed(OfList(True))(s, kind),
    "map state that expires": lambda s, kind: keyed(OfMap(True))(s, kind),
    "reducing state that expires": lambda s, kind: keyed(OfReducing(True))(s, kind),
    "aggregating state that expires": lambda s, kind: keyed(OfAggregating(True))(s, kind),
    "reduce": lambda s, kind: s.map(lambda v: [v], kind).key_by(one, Types.LONG()).reduce(Together()),
    "window reduce": lambda s, kind: windowed(s.map(lambda v: [v], kind)).reduce(Together()),
    "window aggregate": lambda s, kind: windowed(s).aggregate(
        InAccumulator(), accumulator_type=LONGS, output_type=kind
    ),
    "window aggregate and process": lambda s, kind: windowed(s).aggregate(
        InAccumulator(), Processed(), accumulator_type=LONGS, output_type=kind
    ),
    "window apply": lambda s, kind: purged(s).apply(Applied(), kind),
    "window process": lambda s, kind: purged(s).process(Processed(), kind),
    "evictor": lambda s, kind: (
        windowed(s).evictor(CountEvictor.of(N)).aggregate(InAccumulator(), accumulator_type=LONGS, output_type=kind)
    ),
}


WITHOUT_STATE = ("map", "flat_map", "process")
CASES = [
    (name, backend) for name in ONE_INPUT for backend in BACKENDS if name not in WITHOUT_STATE or backend == "hashmap"
]


@pytest.mark.parametrize("kind", [ANY, LONGS], ids=["untyped", "typed"])
@pytest.mark.parametrize(("name", "backend"), CASES)
def test_each_record_has_the_value_that_it_had_when_it_was_emitted(name: str, kind: Any, backend: str) -> None:
    configuration = {"state.backend.type": backend}
    with OperatorHarness(lambda s: ONE_INPUT[name](s, kind), Types.LONG(), configuration=configuration) as harness:
        harness.push_all(range(N // 2))
        first = harness.take()
        harness.push_all(range(N // 2, N))
        assert first + harness.take() == UP_TO
        assert harness.output == UP_TO


TWO_INPUTS: dict[str, Callable[[DataStream, DataStream], DataStream]] = {
    "co map": lambda a, b: a.connect(b).map(CoMapped(), LONGS),
    "co flat_map": lambda a, b: a.connect(b).flat_map(CoFlat(), LONGS),
    "co process": lambda a, b: a.connect(b).process(CoProcessed(), LONGS),
    "keyed co process": lambda a, b: a.connect(b).key_by(one, one, Types.LONG()).process(KeyedCo(), LONGS),
    "broadcast": lambda a, b: a.connect(b.broadcast(SEEN)).process(Broadcast(), LONGS),
    "keyed broadcast": lambda a, b: (
        a.key_by(one, Types.LONG()).connect(b.broadcast(SEEN)).process(KeyedBroadcast(), LONGS)
    ),
}


@pytest.mark.parametrize("name", TWO_INPUTS)
def test_each_record_of_a_function_of_two_streams_has_its_value(name: str) -> None:
    with OperatorHarness(TWO_INPUTS[name], Types.LONG(), Types.LONG()) as harness:
        harness.push_all(range(N))
        assert harness.output == UP_TO


def test_what_timers_emit_has_its_value() -> None:
    with OperatorHarness(lambda s: s.key_by(one, Types.LONG()).process(Timers(), LONGS), Types.LONG()) as harness:
        harness.push_all(range(N))
        harness.push_watermark(N)
        assert harness.output == UP_TO


def test_what_an_interval_join_emits_has_its_value() -> None:
    def piece(a: DataStream, b: DataStream) -> DataStream:
        left, right = a.key_by(one, Types.LONG()), b.key_by(one, Types.LONG())
        return (
            left.interval_join(right).between(Time.milliseconds(-100), Time.milliseconds(100)).process(Joined(), LONGS)
        )

    with OperatorHarness(piece, Types.LONG(), Types.LONG()) as harness:
        harness.push_all(range(N), range(N))
        harness.push(0, 0, input=1)
        assert harness.output == UP_TO


def test_answers_of_coroutines_are_their_own_at_once() -> None:
    def piece(stream: DataStream) -> DataStream:
        return AsyncDataStream.ordered_wait(stream, Asked(), Time.seconds(30), N, LONGS)

    with OperatorHarness(piece, Types.LONG()) as harness:
        harness.push_all(range(N))
        assert harness.wait_for_output(N) == UP_TO


def test_sessions_that_merge_emit_what_they_held_then() -> None:
    def piece(stream: DataStream) -> DataStream:
        windows = stream.key_by(one, Types.LONG()).window(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))
        early = windows.trigger(CountTrigger.of(1))
        return early.aggregate(InAccumulator(), accumulator_type=LONGS, output_type=LONGS)

    with OperatorHarness(piece, Types.LONG()) as harness:
        harness.push_all(range(N), range(N))
        assert harness.output == UP_TO


def test_a_row_that_is_filled_again_and_again() -> None:
    class Filled(FlatMapFunction):
        row = Row(n=0)

        def flat_map(self, value: int) -> Iterator[Row]:
            self.row["n"] = value
            yield self.row
            self.row["n"] = -1
            yield self.row

    for kind in (ANY, ROW):
        with OperatorHarness(lambda s, kind=kind: s.flat_map(Filled(), kind), Types.LONG()) as harness:
            harness.push_all([1, 2])
            assert harness.output == [Row(n=1), Row(n=-1), Row(n=2), Row(n=-1)]


def test_a_list_that_is_declared_a_tuple() -> None:
    class Reused(MapFunction):
        pair = [0, 0]

        def map(self, value: int) -> list[int]:
            self.pair[0] = value
            return self.pair

    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    with OperatorHarness(lambda s: s.map(Reused(), pair).map(str, Types.STRING()), Types.LONG()) as harness:
        harness.push_all([1, 2])
        assert harness.output == ["[1, 0]", "[2, 0]"]


def test_a_filter_passes_on_what_the_record_was_when_it_had_looked() -> None:
    """PyFlink emits the record as the function left it; what it does to it later is too late."""

    class Keeping(FilterFunction):
        seen: list[Any] = []

        def filter(self, value: list[int]) -> bool:
            for earlier in self.seen:
                earlier.append(-1)
            self.seen.append(value)
            value.append(0)
            return True

    for piece in (lambda s: s.filter(Keeping()), lambda s: s.key_by(one, Types.LONG()).filter(Keeping())):
        Keeping.seen = []
        with OperatorHarness(piece, LONGS) as harness:
            harness.push_all([[1], [2], [3]])
            assert harness.output == [[1, 0], [2, 0], [3, 0]]


def test_a_record_on_both_outputs_is_two_records() -> None:
    class Twice(Growing, ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
            row = self.more(value)
            yield row
            yield ASIDE, row
            yield row

    def piece(stream: DataStream) -> DataStream:
        both = stream.process(Twice(), LONGS)
        aside = both.get_side_output(ASIDE).map(spoil, LONGS)
        return both.map(spoil, LONGS).union(aside)

    with OperatorHarness(piece, Types.LONG()) as harness:
        harness.push_all(range(2))
        assert sorted(harness.output) == sorted(3 * [[0, -1]] + 3 * [[0, 1, -1]])
        assert harness.side_output(ASIDE) == [[0], [0, 1]]


def spoil(value: list[int]) -> list[int]:
    value.append(-1)
    return value


def test_branches_of_a_stream_do_not_see_what_the_others_do() -> None:
    """PyFlink 2.3: ``[1, 'm1']``, ``[1, 'm2']``, ``[2, 'm1']``, ``[2, 'm2']``."""

    def mark(name: str) -> Callable[[list[Any]], list[Any]]:
        def marked(value: list[Any]) -> list[Any]:
            value.append(name)
            return value

        return marked

    def piece(stream: DataStream) -> DataStream:
        made = stream.map(lambda value: value)
        kept = made.filter(lambda value: bool(mark("f")(value)))
        timed = made.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Spoiling())
        )
        return made.map(mark("m1")).union(made.map(mark("m2")), kept, timed, made)

    with OperatorHarness(piece, ANY) as harness:
        given = [[1], [2]]
        harness.push_all(given)
        marks = [["m1"], ["m2"], ["f"], ["t"], []]
        assert sorted(map(str, harness.output)) == sorted(str([n, *mark]) for n in (1, 2) for mark in marks)
        assert given == [[1], [2]]


class Spoiling(TimestampAssigner):
    def extract_timestamp(self, value: list[Any], record_timestamp: int) -> int:
        value.append("t")
        return 0


def test_records_in_a_join_are_the_functions_own() -> None:
    class Changing(ProcessJoinFunction):
        def process_element(self, left: list[int], right: list[int], ctx: Any) -> Iterator[Any]:
            left.append(1)
            right.append(2)
            yield left, right

    def piece(a: DataStream, b: DataStream) -> DataStream:
        left, right = a.key_by(one, Types.LONG()), b.key_by(one, Types.LONG())
        return left.interval_join(right).between(Time.milliseconds(-100), Time.milliseconds(100)).process(Changing())

    for backend in BACKENDS:
        with OperatorHarness(piece, LONGS, LONGS, configuration={"state.backend.type": backend}) as harness:
            harness.push_all([[5], [6]], [0, 1])
            harness.push_all([[7], [8]], [0, 1], input=1)
            pairs = [([left, 1], [right, 2]) for right in (7, 8) for left in (5, 6)]
            assert sorted(harness.output) == sorted(pairs)


class Folding(KeyedProcessFunction):
    """Its reducing and aggregating functions return one object, whatever the key."""

    def __init__(self, expires: bool) -> None:
        self.expires = expires

    def open(self, runtime_context: Any) -> None:
        self.one = [0]
        reducing = ReducingStateDescriptor("r", self.added, ANY)
        aggregating = AggregatingStateDescriptor("a", Reusing(), ANY)
        self.reduced = runtime_context.get_reducing_state(described(reducing, self.expires))
        self.aggregated = runtime_context.get_aggregating_state(described(aggregating, self.expires))

    def added(self, a: list[int], b: list[int]) -> list[int]:
        self.one[0] = a[0] + b[0]
        return self.one

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.aggregated.add(value)
        self.reduced.add([value])
        yield self.reduced.get(), self.aggregated.get()


class Reusing(AggregateFunction):
    """Has one accumulator for all keys."""

    def __init__(self) -> None:
        self.sum = [0]

    def create_accumulator(self) -> list[int]:
        self.sum[0] = 0
        return self.sum

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        self.sum[0] = accumulator[0] + value
        return self.sum

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [a[0] + b[0]]


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fold_that_returns_one_object_for_all_keys(backend: str, expires: bool) -> None:
    def piece(stream: DataStream) -> DataStream:
        return stream.key_by(lambda value: value % 2, Types.LONG()).process(Folding(expires))

    with OperatorHarness(piece, Types.LONG(), configuration={"state.backend.type": backend}) as harness:
        harness.push_all([2, 3, 4, 5, 6, 7])
        assert harness.output == [([n], [n]) for n in (2, 3, 6, 8, 12, 15)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reduce_that_returns_one_object_for_all_keys(backend: str) -> None:
    class Sum(ReduceFunction):
        total = [0, 0]

        def reduce(self, value1: list[int], value2: list[int]) -> list[int]:
            self.total[:] = [value1[0], value1[1] + value2[1]]
            return self.total

    configuration = {"state.backend.type": backend}
    records = [[0, 1], [1, 10], [0, 2], [1, 20], [0, 3], [1, 30]]
    with OperatorHarness(
        lambda s: s.key_by(lambda v: v[0], Types.LONG()).reduce(Sum()), LONGS, configuration=configuration
    ) as harness:
        harness.push_all(records)
        assert harness.output == [[0, 1], [1, 10], [0, 3], [1, 30], [0, 6], [1, 60]]

    def piece(stream: DataStream) -> DataStream:
        windows = stream.key_by(lambda v: v[0], Types.LONG()).window(TumblingEventTimeWindows.of(Time.seconds(1)))
        return windows.reduce(Sum())

    with OperatorHarness(piece, LONGS, configuration=configuration) as harness:
        harness.push_all(records, [0] * len(records))
        harness.push_watermark(1000)
        assert sorted(harness.output) == [[0, 6], [1, 60]]


def test_a_coroutine_changes_its_own_record_only() -> None:
    """What a checkpoint keeps of a call that is under way, and what another attempt is given, is the record as it came."""

    class Changing(AsyncFunction[list[int], list[int]]):
        async def async_invoke(self, value: list[int]) -> list[list[int]]:
            value.append(1)
            await asyncio.Event().wait()
            raise AssertionError

        def timeout(self, value: list[int]) -> list[list[int]]:
            return [value]

    def piece(stream: DataStream) -> DataStream:
        return AsyncDataStream.unordered_wait(stream, Changing(), Time.milliseconds(1), 10, LONGS)

    with OperatorHarness(piece, LONGS) as harness:
        harness.push([5])
        assert harness.wait_for_output(1) == [[5]]


def test_with_object_reuse_records_are_the_functions_own_objects_as_in_flink() -> None:
    configuration = {"pipeline.object-reuse": "true"}
    with OperatorHarness(lambda s: s.map(Map(), ANY), Types.LONG(), configuration=configuration) as harness:
        harness.push_all(range(3))
        assert harness.output == 3 * [[0, 1, 2]]
    with OperatorHarness(lambda s: s.map(spoil).union(s.map(spoil)), ANY, configuration=configuration) as harness:
        harness.push([1])
        assert harness.output == 2 * [[1, -1, -1]]
