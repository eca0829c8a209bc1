"""Events of functions in running subtasks: along the stream through chains, exchanges and queues, and against it."""

from __future__ import annotations

import asyncio
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.taskmanager.runtime.assigned import Assigned
from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CheckpointedFunction,
    CoProcessFunction,
    DataStream,
    EventListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TaskEventListener,
    register_user_event,
)
from tidegate.functions.state import ListStateDescriptor, ValueStateDescriptor
from tidegate.model.checkpoint import Alignment

LONG = Types.LONG()
TOTAL = 40
PRICE = Types.TUPLE([LONG, LONG])


@dataclass(frozen=True)
class PriceListChanged:
    version: int


@dataclass(frozen=True)
class Ordered:
    value: int
    note: str = ""


register_user_event("test.price-list-changed", PriceListChanged)
register_user_event("test.ordered", Ordered)
HEARD: dict[str, list[Any]] = {}
GATES: dict[str, threading.Event] = {}


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, since the path of a Unix socket may be 100 characters long."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name
    HEARD[name], GATES[name] = [], threading.Event()
    yield name
    GATES[name].set()


class Announces(ProcessFunction, TaskEventListener):
    """A new list of prices in front of each tenth value."""

    def __init__(self, world: str) -> None:
        self.world = world

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        if value % 10 == 0:
            self.context.emit_event(PriceListChanged(value // 10))
        yield value

    def on_task_event(self, event: object) -> Iterable[Any]:
        HEARD[self.world].append(event)
        yield -1


class Prices(ProcessFunction, EventListener, CheckpointedFunction):
    def __init__(self, world: str) -> None:
        self.world = world

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.kept = context.get_operator_state_store().get_list_state(ListStateDescriptor("version", LONG))
        self.version = max(self.kept.get(), default=0)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.kept.update([self.version])

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        if value == TOTAL // 2:
            GATES[self.world].wait(30)
        yield value, self.version

    def on_event(self, event: object) -> None:
        assert isinstance(event, PriceListChanged)
        self.version = event.version


def make_env(parallelism: int = 1, *, unaligned: bool = False) -> StreamExecutionEnvironment:
    options = Configuration()
    options.set_string("execution.checkpointing.unaligned.enabled", "true" if unaligned else "false")
    env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(parallelism)
    env.enable_checkpointing(3_600_000)
    return env


def announced(env: StreamExecutionEnvironment, world: str) -> DataStream:
    numbers = env.from_source(NumberSequenceSource(0, TOTAL - 1), WatermarkStrategy.no_watermarks(), "numbers")
    return numbers.process(Announces(world), LONG).uid("announces")


class Slowly(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0.002 * (value % 3))
        return [value]


def plain(stream: DataStream) -> DataStream:
    return stream


def over_the_network(stream: DataStream) -> DataStream:
    return stream.map(lambda value: value, LONG).rebalance()


def through_operators_that_do_not_listen(stream: DataStream) -> DataStream:
    return stream.map(lambda value: value, LONG).filter(lambda value: True).key_by(lambda value: 0).reduce(max)


def through_asynchronous_calls(stream: DataStream) -> DataStream:
    return AsyncDataStream.unordered_wait(stream, Slowly(), Time.hours(1), 3, LONG)


@pytest.mark.parametrize(
    "way", [plain, over_the_network, through_operators_that_do_not_listen, through_asynchronous_calls]
)
def test_an_event_keeps_its_place_among_the_records(
    directory: Path, world: str, way: Callable[[DataStream], DataStream]
) -> None:
    GATES[world].set()
    env = make_env()
    way(announced(env, world)).process(Prices(world), PRICE).uid("prices").sink_to(CollectingSink(world))
    job = InProcessJob(env.build(), directory)
    job.start()
    job.finish()
    assert sorted(map(tuple, committed(world))) == [(value, value // 10) for value in range(TOTAL)]


@pytest.mark.parametrize("unaligned", [False, True])
def test_events_are_as_exact_as_records_over_a_break(directory: Path, world: str, unaligned: bool) -> None:
    env = make_env(unaligned=unaligned)
    stream = announced(env, world).rebalance().process(Prices(world), PRICE).uid("prices")
    stream.sink_to(CollectingSink(world))
    job = InProcessJob(env.build(), directory, alignment=Alignment.UNALIGNED if unaligned else Alignment.ALIGNED)
    job.start()
    number = job.trigger()
    GATES[world].set()
    taken = job.complete(number)
    completed = Assigned(taken.checkpoint_id, taken.location, taken.acks, 0.0, job.built, job.built)
    job.confirm(number, may_finish=False)
    job.cut_off()
    again = InProcessJob(job.built, directory, completed, 1, first_checkpoint=100)
    again.start()
    again.finish()
    assert sorted(map(tuple, committed(world))) == [(value, value // 10) for value in range(TOTAL)]


class Waits(AsyncFunction[int, int]):
    def __init__(self, world: str) -> None:
        self.world = world

    async def async_invoke(self, value: int) -> list[int]:
        if value >= TOTAL // 2 - 1 and not GATES[self.world].is_set():
            HEARD[self.world].append(value)
            await asyncio.get_running_loop().run_in_executor(None, GATES[self.world].wait)
        return [value]


def test_events_among_asynchronous_calls_are_in_the_checkpoint(directory: Path, world: str) -> None:
    env = make_env()
    calls = AsyncDataStream.ordered_wait(announced(env, world), Waits(world), Time.hours(1), 3, LONG)
    calls.process(Prices(world), PRICE).uid("prices").sink_to(CollectingSink(world))
    job = InProcessJob(env.build(), directory)
    job.start()
    job.checkpoint_until(lambda: len(HEARD[world]) >= 3)
    completed = job.checkpoint()
    job.cut_off()
    GATES[world].set()
    again = InProcessJob(job.built, directory, completed, 1, first_checkpoint=1000)
    again.start()
    again.finish()
    assert sorted(map(tuple, committed(world))) == [(value, value // 10) for value in range(TOTAL)]


def endless(env: StreamExecutionEnvironment, name: str) -> DataStream:
    """The first numbers of a source that does not end: what has ended hears nothing."""
    numbers = env.from_source(NumberSequenceSource(0, 1_000_000_000), WatermarkStrategy.no_watermarks(), name)
    return numbers.filter(lambda value: value < TOTAL)


class Reports(ProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        if value == 7:
            self.context.send_task_event(Ordered(value))
        yield value, 0


@pytest.mark.parametrize("way", [plain, over_the_network, through_operators_that_do_not_listen])
def test_an_event_goes_up_to_the_first_function_that_listens(
    directory: Path, world: str, way: Callable[[DataStream], DataStream]
) -> None:
    env = make_env().set_buffer_timeout(0)
    way(endless(env, "numbers").process(Announces(world), LONG)).process(Reports(), PRICE).sink_to(
        CollectingSink(world)
    )
    job = InProcessJob(env.build(), directory)
    job.start()
    job.checkpoint_until(lambda: bool(HEARD[world]))
    job.cancel()
    assert HEARD[world] == [Ordered(7)]


class Tells(CoProcessFunction):
    """Each side tells its own producers of its values."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        self.context.send_task_event(Ordered(value, "first"))
        yield value, 1

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        self.context.send_task_event(Ordered(value, "second"), input_index=1)
        yield value, 2


class Answered(ProcessFunction, TaskEventListener):
    """Emits a value when it hears that the last one has come."""

    def __init__(self, world: str, side: str) -> None:
        self.world = world
        self.side = side

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value

    def on_task_event(self, event: object) -> Iterable[Any] | None:
        assert isinstance(event, Ordered)
        HEARD[self.world].append((self.side, event.note))
        return [event.value + 1] if 0 < event.value < 5 else None


def test_each_input_has_its_own_producers(directory: Path, world: str) -> None:
    env = make_env().set_buffer_timeout(0)

    def side(name: str) -> DataStream:
        ones = endless(env, f"ticks {name}").filter(lambda value: value == 1)
        return ones.process(Answered(world, name), LONG).rebalance()

    side("first").connect(side("second")).process(Tells(), PRICE).sink_to(CollectingSink(world))
    job = InProcessJob(env.build(), directory)
    job.start()
    job.checkpoint_until(lambda: len(HEARD[world]) >= 10)
    job.cancel()
    assert sorted(HEARD[world]) == [("first", "first")] * 5 + [("second", "second")] * 5


def failure(directory: Path, stream: DataStream, env: StreamExecutionEnvironment, world: str) -> str:
    stream.sink_to(CollectingSink(world))
    job = InProcessJob(env.build(), directory)
    job.start_failing()
    job.until(lambda: bool(job.errors), "a failure", failing=True)
    job.cut_off()
    return job.errors[0].message


class EmitsInMap(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def map(self, value: Any) -> Any:
        self.context.emit_event(PriceListChanged(1))
        return value, 0


class ListensInMap(MapFunction, EventListener):
    def map(self, value: Any) -> Any:
        return value, 0

    def on_event(self, event: object) -> None: ...


class ReadsKeyedState(KeyedProcessFunction, EventListener):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.version = runtime_context.get_state(ValueStateDescriptor("version", LONG))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value, self.version.value() or 0

    def on_event(self, event: object) -> None:
        self.version.update(1)


class SendsMuch(ProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
        self.context.send_task_event(Ordered(1, "x" * 5000))


class SendsAnything(SendsMuch):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
        self.context.emit_event({"version": 1})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda rows, world: rows.map(EmitsInMap(), PRICE), "emit_event is for process functions"),
        (lambda rows, world: rows.map(ListensInMap(), PRICE), "ListensInMap listens to events, which only process"),
        (
            lambda rows, world: (
                rows.process(Announces(world), LONG).key_by(lambda value: value, LONG).process(ReadsKeyedState(), PRICE)
            ),
            "events belong to no key, so on_event and on_task_event have no keyed state",
        ),
        (lambda rows, world: rows.process(SendsMuch(), PRICE), r"a Ordered of 50\d\d bytes is too large"),
        (lambda rows, world: rows.process(SendsAnything(), PRICE), "an event of type dict cannot be sent"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(
    directory: Path, world: str, make: Callable[[DataStream, str], DataStream], says: str
) -> None:
    env = make_env()
    numbers = env.from_source(NumberSequenceSource(0, TOTAL - 1), WatermarkStrategy.no_watermarks(), "numbers")
    assert re.search(says, failure(directory, make(numbers, world), env, world))


def test_in_batch_mode_an_event_has_no_place_in_front_of_an_operator_that_sorts(directory: Path, world: str) -> None:
    env = make_env().set_runtime_mode(RuntimeExecutionMode.BATCH)
    stream = announced(env, world).key_by(lambda value: value, LONG).process(ReadsKeyedState(), PRICE)
    assert "an event has no place among the records" in failure(directory, stream, env, world)
