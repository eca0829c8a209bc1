"""Every kind of user function is told of its state and of checkpoints."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import spec, start
from tidegate.common.typeinfo import Types
from tidegate.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.functions.adapters import ApplyWindow, KeyedMap
from tidegate.functions.state import ListStateDescriptor
from tidegate.model.program import KeySpec
from tidegate.taskmanager.machines.subtask import EOI_CHECKPOINT_ID
from tidegate.taskmanager.operators.user_code.user_function import UserFunction

LISTED = ListStateDescriptor("listed", Types.LONG())


class Told(CheckpointedFunction, CheckpointListener):
    """Beside every kind of function."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.calls.append("initialize")
        context.get_operator_state_store().get_list_state(LISTED).add(1)

    def open(self, runtime_context: Any) -> None:
        self.calls.append("open")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.calls.append(("snapshot", context.get_checkpoint_id()))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.calls.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.calls.append(("aborted", checkpoint_id))


class TMap(Told, MapFunction):
    def map(self, value: Any) -> Any:
        return value


class TFlatMap(Told, FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        yield value


class TFilter(Told, FilterFunction):
    def filter(self, value: Any) -> bool:
        return True


class TProcess(Told, ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class TCoProcess(Told, CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value


class TKeyed(Told, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class TReduce(Told, ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1


class TWindow(Told, ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key


class TBatches(Told, MapFunction):
    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def map(self, value: Any) -> Any:
        return value


KEY = KeySpec(selector=lambda value: value, key_type=Types.LONG())
WINDOWS: TumblingEventTimeWindows[Any] = TumblingEventTimeWindows(10, 0)
KINDS: dict[str, tuple[Told, dict[str, Any], Any]] = {
    "map": (TMap(), {}, None),
    "flat_map": (TFlatMap(), {}, None),
    "filter": (TFilter(), {}, None),
    "process": (TProcess(), {}, None),
    "co_process": (TCoProcess(), {}, None),
    "keyed_process": (TKeyed(), {}, None),
    "keyed_reduce": (TReduce(), {"input_types": (Types.LONG(),)}, None),
    "window": (
        TWindow(),
        {"input_types": (Types.LONG(),)},
        lambda f: {"assigner": WINDOWS, "function": ("process", f)},
    ),
    "map_batches": (TBatches(), {"output_type": Types.SCHEMA(pa.schema([("a", pa.int64())]))}, None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_function_is_told(kind: str) -> None:
    function, fields, options = KINDS[kind]
    function.calls = []
    keyed: dict[str, Any] = {"key": KEY} if kind in ("keyed_process", "keyed_reduce", "window") else {}
    made = options(function) if options else {"func": function}
    running = start(spec(kind, options=made, **fields, **keyed))
    snapshot = running.snapshot(4)
    running.operator.notify_checkpoint_complete(4)
    running.operator.notify_checkpoint_aborted(5)
    running.operator.notify_checkpoint_complete(EOI_CHECKPOINT_ID)
    assert function.calls == ["initialize", "open", ("snapshot", 4), ("complete", 4), ("aborted", 5)]
    assert [handle.state_name for handle in snapshot.operator] == ["listed"]


@pytest.mark.parametrize("wrapper", [KeyedMap, ApplyWindow])
def test_the_function_inside_an_adapter_is_told(wrapper: Any) -> None:
    assert UserFunction(wrapper(function := TMap()), "op")._given is function
