"""Several consumers of one output: what one of them does to its records, no other one sees."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime.fakes import ArrowOperator, FakeOperator, FakePartition, context_of
from tidegate.common import Types
from tidegate.model.program import KeySpec
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.records.record_codec import decode, encode
from tidegate.taskmanager.operators.rows.selectors import KeyFunction
from tidegate.taskmanager.runtime.measuring.operator_times import OperatorTimes
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.taskmanager.runtime.outputs import ChainedTarget, ChainOutput, NetworkTarget, OperatorInput

ANY, LONGS = Types.PICKLED_BYTE_ARRAY(), Types.LIST(Types.LONG())
TIMES = OperatorTimes(9, lambda: 0.0)


class Spoiler(FakeOperator):
    """Sees its records, then changes each."""

    def __init__(self, kind: str = "records") -> None:
        super().__init__()
        self.works_on = kind  # type: ignore[misc, assignment]
        self.seen: list[Any] = []
        self.context = context_of(ChainOutput("behind", None))

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        for value in batch.values:
            self.seen.append(list(value))
            value.append(-1)


def chained(operator: FakeOperator) -> ChainedTarget:
    return ChainedTarget(operator, OperatorInput(), 0, TIMES)


def sent(partition: FakePartition, kind: Any) -> list[Any]:
    return [value for batch in partition.items if isinstance(batch, ArrowBatch) for value in decode(kind, batch.data)]


@pytest.mark.parametrize("kind", [ANY, LONGS], ids=["untyped", "typed"])
@pytest.mark.parametrize("as_columns", [False, True])
@pytest.mark.parametrize("side", ["", "aside"])
def test_every_consumer_sees_what_was_emitted(kind: Any, as_columns: bool, side: str) -> None:
    spoilers = [Spoiler(), Spoiler("any"), Spoiler()]
    if as_columns:
        spoilers[1] = Spoiler()  # one that takes anything is given the columns
    plain, keyed = FakePartition(), FakePartition()
    output = ChainOutput("a", kind)
    keys = KeyFunction(KeySpec(selector=len), "selector")
    for target in (
        chained(spoilers[0]),
        NetworkTarget(plain, TaskCounters(), None),
        chained(spoilers[1]),
        NetworkTarget(keyed, TaskCounters(), keys),
        chained(spoilers[2]),
    ):
        output.add(target, side, kind)
    given = [[1], [2, 3]]
    batch: Batch = ArrowBatch(encode(kind, given)) if as_columns else RecordsBatch(given, [5, None])
    if side:
        output.emit_side(side, batch)
    else:
        output.emit(batch)
    for spoiler in spoilers:
        assert spoiler.seen == [[1], [2, 3]]
    assert sent(plain, kind) == sent(keyed, kind) == [[1], [2, 3]]
    assert keyed.keys == [[1, 2]]


def test_records_that_nobody_can_change_are_handed_to_all_as_they_are() -> None:
    seen: list[Batch] = []
    output = ChainOutput("a", Types.LONG())
    for _ in range(2):
        operator = FakeOperator()
        operator.context = context_of(ChainOutput("behind", None))
        operator.on_process = seen.append
        output.add(chained(operator))
    batch = RecordsBatch([1, 2])
    output.emit(batch)
    assert seen[0] is seen[1] is batch


def test_one_consumer_gets_the_very_records() -> None:
    spoiler, output, record = Spoiler(), ChainOutput("a", ANY), [1]
    output.add(chained(spoiler))
    output.emit(RecordsBatch([record]))
    assert record == [1, -1]


def test_columns_are_not_decoded_for_consumers_that_take_columns() -> None:
    seen: list[Batch] = []
    output = ChainOutput("a", ANY)
    for operator in (ArrowOperator(), ArrowOperator()):
        operator.context = context_of(ChainOutput("behind", None))
        operator.on_process = seen.append
        output.add(chained(operator))
    batch = ArrowBatch(pa.record_batch([pa.array([b"no pickle"])], schema=ANY.arrow_schema()))
    output.emit(batch)
    assert seen[0] is seen[1] is batch


def test_with_object_reuse_all_get_the_same_records() -> None:
    spoilers, output = [Spoiler(), Spoiler()], ChainOutput("a", ANY, reuses_objects=True)
    for spoiler in spoilers:
        output.add(chained(spoiler))
    output.emit(RecordsBatch([[1]]))
    assert [spoiler.seen for spoiler in spoilers] == [[[1]], [[1, -1]]]
