"""What the client makes of functions with operator state."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.common import Types
from tidegate.common.time import Time
from tidegate.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeySelector,
    MapFunction,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.window import TumblingProcessingTimeWindows
from tidegate.model.errors import InvalidJob


class Stateful(CheckpointedFunction):
    def initialize_state(self, context: FunctionInitializationContext) -> None: ...

    def snapshot_state(self, context: FunctionSnapshotContext) -> None: ...


class SMap(MapFunction, Stateful):
    def map(self, value: Any) -> Any:
        return value


class SKey(KeySelector, Stateful):
    def get_key(self, value: Any) -> Any:
        return value


class SReduce(ReduceFunction, Stateful):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1


class ListeningReduce(ReduceFunction, CheckpointListener):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None: ...


class SWindow(ProcessWindowFunction[Any, Any, Any, Any], Stateful):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key


def numbers() -> Any:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([1, 2], Types.LONG())


def windowed() -> Any:
    return numbers().key_by(lambda n: n, Types.LONG()).window(TumblingProcessingTimeWindows.of(Time.seconds(1)))


def union_flags(stream: Any) -> dict[str, bool]:
    stream.print()
    graph = stream.get_execution_environment().build().graph
    return {op.name: op.uses_union_state for vertex in graph.vertices for op in vertex.operators}


def test_the_control_plane_knows_who_may_keep_union_state() -> None:
    assert union_flags(numbers().map(SMap()).name("kept").map(lambda n: n).name("plain")) == {
        "Source: Collection Source": True,
        "kept": True,
        "plain": False,
        "Sink: Print to Std. Out": False,
    }
    keyed = numbers().key_by(lambda n: n, Types.LONG())
    assert union_flags(keyed.map(SMap()).name("inside an adapter"))["inside an adapter"]
    assert union_flags(windowed().process(SWindow()).name("window"))["window"]
    assert union_flags(windowed().reduce(SReduce()).name("alone"))["alone"]


@pytest.mark.parametrize("reduce_function", [SReduce(), ListeningReduce()])
def test_state_that_nobody_would_keep_is_refused(reduce_function: ReduceFunction) -> None:
    with pytest.raises(InvalidJob, match="first function of a window .* cannot have operator state"):
        union_flags(windowed().reduce(reduce_function, SWindow()))
    with pytest.raises(InvalidJob, match="key selector"):
        union_flags(numbers().key_by(SKey(), Types.LONG()).map(lambda n: n))
