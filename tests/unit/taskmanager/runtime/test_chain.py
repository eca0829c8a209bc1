from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime.fakes import ArrowOperator, FakeFrozen, FakeOperator, FakePartition, context_of
from tidegate.common import Types
from tidegate.model.channel_events import WatermarkEvent, WatermarkStatus
from tidegate.model.errors import InternalError, UserFunctionError
from tidegate.model.ids import OperatorId
from tidegate.model.program import InputSpec, KeySpec, OperatorSpec
from tidegate.records.batch import ArrowBatch, RecordsBatch
from tidegate.taskmanager.operators.rows.selectors import KeyFunction
from tidegate.taskmanager.runtime.chain import FinishedOperator, OperatorChain, SourceHead
from tidegate.taskmanager.runtime.measuring.operator_times import OperatorTimes
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.taskmanager.runtime.outputs import ChainedTarget, ChainOutput, NetworkTarget, OperatorInput

LONG = Types.LONG()


def numbers(*values: int) -> ArrowBatch:
    return ArrowBatch(pa.RecordBatch.from_pydict({"value": pa.array(values, pa.int64())}))


def spec(name: str) -> OperatorSpec:
    return OperatorSpec("map", OperatorId(name * 32), name, (LONG,), LONG)


def wired(*operators: FakeOperator) -> tuple[OperatorChain, FakePartition, TaskCounters]:
    """The operators one behind the other, the last one into a partition."""
    partition, counters = FakePartition(), TaskCounters()
    outputs = [ChainOutput(operator.name, LONG) for operator in operators]
    times = OperatorTimes(len(operators), lambda: 0.0)
    for position, (output, following) in enumerate(zip(outputs, operators[1:], strict=False), start=1):
        output.add(ChainedTarget(following, OperatorInput(), position, times))
    outputs[-1].add(NetworkTarget(partition, counters, None))
    chain = OperatorChain(operators, [spec(operator.name) for operator in operators], [InputSpec(0, 0, LONG)])
    chain.setup([context_of(output) for output in outputs])
    return chain, partition, counters


def test_batches_change_shape_only_where_operators_differ() -> None:
    calls: list[tuple[Any, ...]] = []
    chain, partition, counters = wired(ArrowOperator("a", calls), FakeOperator("b", calls), FakeOperator("c", calls))
    chain.process(numbers(1, 2, 3), 0)
    assert calls == [("a", "process", 3), ("b", "process", [1, 2, 3]), ("c", "process", [1, 2, 3])]
    (sent,) = partition.items
    assert isinstance(sent, ArrowBatch)
    assert sent.data.column(0).to_pylist() == [1, 2, 3]
    assert (counters.records_out, counters.bytes_out, counters.unflushed) == (3, 24, True)


def test_timestamps_survive_both_conversions() -> None:
    chain, partition, _ = wired(FakeOperator("a"))
    stamped = ArrowBatch(numbers(1, 2).data, pa.array([10, None], pa.int64()))
    chain.process(stamped, 0)
    (sent,) = partition.items
    assert isinstance(sent, ArrowBatch)
    assert sent.timestamps is not None
    assert sent.timestamps.to_pylist() == [10, None]


def test_open_goes_from_the_leaves_to_the_head_and_everything_else_the_other_way() -> None:
    calls: list[tuple[Any, ...]] = []
    chain, _, _ = wired(FakeOperator("a", calls), FakeOperator("b", calls))
    chain.open()
    chain.prepare_snapshot(4)
    chain.freeze(4, 0)
    chain.notify_complete(4, lambda name: calls.append(("before", name)))
    chain.notify_aborted(5)
    chain.finish()
    assert chain.close() == []
    assert calls == [
        ("b", "open"),
        ("a", "open"),
        ("a", "prepare", 4),
        ("b", "prepare", 4),
        ("a", "freeze", 4),
        ("b", "freeze", 4),
        ("before", "a"),
        ("a", "complete", 4),
        ("before", "b"),
        ("b", "complete", 4),
        ("a", "aborted", 5),
        ("b", "aborted", 5),
        ("a", "finish"),
        ("b", "end_input", 0),
        ("b", "finish"),
        ("b", "close"),
        ("a", "close"),
    ]


def test_watermarks_and_statuses_reach_every_output() -> None:
    main, side, counters = FakePartition(), FakePartition(), TaskCounters()
    output = ChainOutput("a", LONG)
    output.add(NetworkTarget(main, counters, None))
    output.add(NetworkTarget(side, counters, None), "late", LONG)
    output.emit_watermark(7)
    output.emit_idle(True)
    output.emit(RecordsBatch([1]))
    output.emit_side("late", RecordsBatch([2]))
    output.emit_side("unknown", RecordsBatch([3]))
    for partition, value in ((main, 1), (side, 2)):
        assert partition.items[:2] == [WatermarkEvent(7), WatermarkStatus(True)]
        (batch,) = partition.items[2:]
        assert isinstance(batch, ArrowBatch)
        assert batch.data.column(0).to_pylist() == [value]
    assert output.records_emitted == 1


def keys_by(selector: Callable[[Any], Any]) -> KeyFunction:
    return KeyFunction(KeySpec(selector=selector), "selector")


def test_keys_are_those_of_the_records() -> None:
    partition, output = FakePartition(), ChainOutput("a", LONG)
    output.add(NetworkTarget(partition, TaskCounters(), keys_by(lambda value: value % 2)))
    output.emit(numbers(1, 2, 3))
    assert partition.keys == [[1, 0, 1]]


def test_a_key_selector_that_fails_is_the_users_error() -> None:
    output = ChainOutput("a", LONG)
    output.add(NetworkTarget(FakePartition(), TaskCounters(), keys_by(lambda value: value["key"])))
    with pytest.raises(UserFunctionError, match="'selector': TypeError"):
        output.emit(numbers(1))


def test_what_was_frozen_is_released_when_a_later_operator_fails() -> None:
    class Failing(FakeOperator):
        def freeze(self, checkpoint_id: int) -> None:
            raise OSError("broken")

    first = FakeOperator("a")
    first.frozen = FakeFrozen()
    chain, _, _ = wired(first, Failing("b"))
    with pytest.raises(OSError, match="broken"):
        chain.freeze(1, 0)
    assert first.frozen.released == 1


def test_all_operators_are_closed_though_one_fails() -> None:
    class Failing(FakeOperator):
        def close(self) -> None:
            raise OSError("broken")

    first = FakeOperator("a")
    chain, _, _ = wired(first, Failing("b"))
    assert [str(error) for error in chain.close()] == ["broken"]
    assert first.calls == [("a", "close")]
    assert chain.close() == []


def test_only_chains_without_single_records_are_columnar() -> None:
    assert wired(ArrowOperator("a"), ArrowOperator("b"))[0].is_columnar
    assert not wired(ArrowOperator("a"), FakeOperator("b"))[0].is_columnar
    keyed = OperatorChain(
        [ArrowOperator("a")], [spec("a")], [], keys=[(keys_by(abs), context_of(ChainOutput("a", LONG)))]
    )
    assert not keyed.is_columnar


def test_a_chain_that_had_finished_is_a_source_at_its_end_and_takes_no_records() -> None:
    partition, output = FakePartition(), ChainOutput("a", None)
    output.add(NetworkTarget(partition, TaskCounters(), None))
    chain = OperatorChain([FinishedOperator()], [spec("a")], [InputSpec(0, 0, LONG)])
    chain.setup([context_of(output)])
    source = chain.source
    assert isinstance(source, SourceHead)
    assert not source.poll_next(10)
    assert source.is_finished()
    chain.advance_watermark(5)
    assert partition.items == [WatermarkEvent(5)]
    assert chain.freeze(1, 0) == []
    with pytest.raises(InternalError, match="had finished when it was restored"):
        chain.process(numbers(1), 0)


class _Full(FakeOperator):
    needs_barrier = True

    def has_room(self) -> bool:
        return False

    def waits_for_barrier(self) -> bool:
        return self.needs_barrier


def test_input_goes_on_where_only_a_barrier_behind_it_makes_space() -> None:
    full = _Full("b")
    behind_channels, _, _ = wired(FakeOperator("a"), full)
    behind_a_source = OperatorChain([full], [spec("b")], [])
    assert behind_channels.has_room(), "the barrier comes behind the input"
    assert not behind_a_source.has_room(), "a trigger needs no input"
    full.needs_barrier = False
    assert not behind_channels.has_room()
