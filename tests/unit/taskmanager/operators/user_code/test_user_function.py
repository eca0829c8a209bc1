"""Operator state of user functions: kinds, types, rescaling by the JobManager's own assignment, and what listeners hear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, spec, split_mode, start
from tidegate.common import Row
from tidegate.common.typeinfo import Types
from tidegate.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
)
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.jobmanager.machines.restore.state_assignment import StateAssignment
from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    RestoredOperator,
    SnapshotType,
    StateRedistribution,
)
from tidegate.model.errors import InvalidJob, SchemaMismatch, UserFunctionError
from tidegate.model.graph import JobGraph, JobVertex, OperatorInfo
from tidegate.model.ids import BlobKey, CheckpointId, JobId, OperatorId, SubtaskId, VertexId
from tidegate.model.program import KeySpec, OperatorSpec

SPLIT, UNION, BROADCAST = StateRedistribution.SPLIT, StateRedistribution.UNION, StateRedistribution.BROADCAST
LISTED = ListStateDescriptor("listed", Types.LONG())
UNITED = ListStateDescriptor("united", Types.STRING())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.DOUBLE())


class AllKinds(MapFunction, CheckpointedFunction):
    """Remembers each value in list state, one element of union state, and the same broadcast entries everywhere."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.registered = (store.get_registered_state_names(), store.get_registered_broadcast_state_names())
        self.is_restored = (context.is_restored(), context.get_restored_checkpoint_id())
        self.listed = store.get_list_state(LISTED)
        self.united = store.get_union_list_state(UNITED)
        self.rules = store.get_broadcast_state(RULES)
        self.seen_by_all = sorted(self.united.get())
        self.united.clear()
        self.rules.put("low", 0.5)

    def map(self, value: Any) -> Any:
        self.listed.add(value)
        return value

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.snapshot = (context.get_checkpoint_id(), context.get_checkpoint_timestamp())
        self.united.update([f"of {min(self.listed.get(), default=-1)}"])


def begin(function: Any, restored: RestoredOperator | None = None, subtask: int = 0, parallelism: int = 1) -> Running:
    return start(_spec(function), subtask, parallelism, restored)


def _spec(function: Any) -> OperatorSpec:
    return spec("map", options={"func": function})


def dealt(snapshots: Sequence[OperatorSnapshot], parallelism: int) -> list[RestoredOperator]:
    """What the JobManager gives to each new subtask."""
    operator, vertex = OperatorId("2" * 32), VertexId("1" * 32)
    old = OperatorState(operator, "op", "op", len(snapshots), 128, dict(enumerate(snapshots)))
    manifest = CheckpointManifest(JobId("0" * 32), "job", CheckpointId(7), 1, SnapshotType.SAVEPOINT, (old,))
    job = JobVertex(vertex, "op", parallelism, 128, (OperatorInfo(operator, "op"),), BlobKey("b"))
    assignment = StateAssignment(JobGraph(JobId("0" * 32), "job", (job,), ()), manifest, "/cp")
    return [assignment.restore_of(SubtaskId(vertex, i)).task.operators[operator] for i in range(parallelism)]


def test_all_kinds_are_exact_over_2_3_1_and_4_subtasks() -> None:
    functions = [AllKinds(), AllKinds()]
    running = [begin(function, None, i, 2) for i, function in enumerate(functions)]
    for i, one in enumerate(running):
        one.feed(range(i * 100, i * 100 + 7))
    everything = Counter([*range(7), *range(100, 107)])
    assert functions[0].is_restored == (False, None)
    for parallelism in (3, 1, 4):
        snapshots = [one.snapshot() for one in running]
        expected_union = sorted(element for function in functions for element in function.united.get())
        functions = [AllKinds() for _ in range(parallelism)]
        parts = dealt(snapshots, parallelism)
        running = [begin(f, part, i, parallelism) for i, (f, part) in enumerate(zip(functions, parts, strict=True))]
        held = [list(function.listed.get()) for function in functions]
        assert Counter(value for part in held for value in part) == everything
        assert max(map(len, held)) - min(map(len, held)) <= 1
        assert [f.seen_by_all for f in functions] == [expected_union] * parallelism
        assert [dict(f.rules.items()) for f in functions] == [{"low": 0.5}] * parallelism
        assert all(f.is_restored == (True, 1) for f in functions)
        assert functions[0].registered == ({"listed", "united"}, {"rules"})


def test_elements_have_their_type_on_disk() -> None:
    store = MemoryStore()
    running = begin(AllKinds())
    running.feed([3, 4])
    running.operator.context.checkpoint_timestamp_ms = 99
    snapshot = running.snapshot(5, store)
    assert split_mode(snapshot) == {"listed": SPLIT, "united": UNION, "rules": BROADCAST}
    types = {pa.ipc.open_file(c).read_all().schema.field("element").type for c in store.contents}
    assert types == {pa.int64(), pa.string(), pa.struct([("key", pa.string()), ("value", pa.float64())])}
    assert running.operator._user._given.snapshot == (5, 99)  # type: ignore[attr-defined]


def test_what_is_frozen_does_not_change_with_the_functions_objects() -> None:
    class Holder(MapFunction, CheckpointedFunction):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            descriptor = ListStateDescriptor("held", Types.PICKLED_BYTE_ARRAY())
            self.state = context.get_operator_state_store().get_list_state(descriptor)
            self.held = list(self.state.get())

        def map(self, value: Any) -> Any:
            for held in self.held:
                held.append(value)
            return value

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            self.state.update(self.held or [[0]])

    running = begin(Holder())
    running.feed([1])
    function = running.operator._user._given  # type: ignore[attr-defined]
    function.held = [[1]]
    frozen = running.operator.freeze(1)
    running.feed([2])
    assert frozen is not None
    (part,) = dealt([frozen.write(MemoryStore())], 1)
    restored = Holder()
    begin(restored, part)
    assert restored.held == [[1]]
    assert function.held == [[1, 2]]


class Plain(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def test_state_that_nobody_asks_for_is_kept_once() -> None:
    running = [begin(AllKinds(), None, i, 2) for i in range(2)]
    for one in running:
        one.feed([1, 2, 3])
    snapshots = [one.snapshot() for one in running]
    for parallelism in (3, 2):
        parts = dealt(snapshots, parallelism)
        snapshots = [begin(Plain(), part, i, parallelism).snapshot() for i, part in enumerate(parts)]
    functions = [AllKinds(), AllKinds()]
    for i, (function, part) in enumerate(zip(functions, dealt(snapshots, 2), strict=True)):
        begin(function, part, i, 2)
    assert sorted(value for f in functions for value in f.listed.get()) == [1, 1, 2, 2, 3, 3]
    assert functions[0].seen_by_all == functions[1].seen_by_all == ["of 1", "of 1"]
    assert [dict(f.rules.items()) for f in functions] == [{"low": 0.5}] * 2


class Asking(MapFunction, CheckpointedFunction):
    def __init__(self, *asked: tuple[str, Any]) -> None:
        self.asked = asked

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.states = [getattr(context.get_operator_state_store(), kind)(d) for kind, d in self.asked]

    def snapshot_state(self, context: FunctionSnapshotContext) -> None: ...

    def map(self, value: Any) -> Any:
        for state in self.states:
            state.add(value)
        return value


def test_another_kind_or_type_at_a_restore_is_refused_by_name() -> None:
    running = begin(AllKinds())
    running.feed([1])
    (part,) = dealt([running.snapshot()], 1)
    with pytest.raises(SchemaMismatch, match="state 'listed' was written as list state, the job asks for union"):
        begin(Asking(("get_union_list_state", LISTED)), part)
    with pytest.raises(
        SchemaMismatch, match="'listed' cannot be restored: element: stored as int64, the job declares string"
    ):
        begin(Asking(("get_list_state", ListStateDescriptor("listed", Types.STRING()))), part)
    with pytest.raises(SchemaMismatch, match="stored as string, the job declares pickled"):
        begin(Asking(("get_union_list_state", ListStateDescriptor("united", Types.PICKLED_BYTE_ARRAY()))), part)


def test_elements_evolve_by_field() -> None:
    old = ListStateDescriptor("rows", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
    new = ListStateDescriptor("rows", Types.ROW_NAMED(["a", "c"], [Types.LONG(), Types.DOUBLE()]))
    running = begin(Asking(("get_list_state", old)))
    running.feed([Row(a=1, b="x")])
    function = Asking(("get_list_state", new))
    begin(function, dealt([running.snapshot()], 1)[0])
    assert list(function.states[0].get()) == [Row(a=1, c=None)]


def test_one_name_is_one_state() -> None:
    function = Asking(("get_list_state", LISTED), ("get_list_state", LISTED))
    begin(function)
    assert function.states[0] is function.states[1]
    with pytest.raises(InvalidJob, match="'listed' is registered as list of Long and as union of Long"):
        begin(Asking(("get_list_state", LISTED), ("get_union_list_state", LISTED)))
    with pytest.raises(InvalidJob, match="broadcast state needs a MapStateDescriptor"):
        begin(Asking(("get_broadcast_state", LISTED)))


def test_an_element_that_does_not_fit_fails_the_snapshot_by_name() -> None:
    running = begin(Asking(("get_list_state", LISTED)))
    running.feed(["text"])
    with pytest.raises(SchemaMismatch, match="'op', state 'listed'"):
        running.operator.freeze(1)


def test_rows_come_back_as_rows() -> None:
    descriptor = ListStateDescriptor("rows", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
    running = begin(Asking(("get_list_state", descriptor)))
    running.feed([Row(a=1, b="x")])
    (part,) = dealt([running.snapshot()], 1)
    function = Asking(("get_list_state", descriptor))
    begin(function, part)
    assert list(function.states[0].get()) == [Row(a=1, b="x")]


KEY = KeySpec(selector=lambda value: value, key_type=Types.LONG())


def test_keyed_state_may_be_asked_for_in_initialize_state() -> None:
    class Both(KeyedProcessFunction, CheckpointedFunction):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            descriptor = ValueStateDescriptor("count", Types.LONG())
            self.count = context.get_keyed_state_store().get_state(descriptor)
            self.total = context.get_operator_state_store().get_list_state(LISTED)

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.count.update((self.count.value() or 0) + 1)
            self.total.add(value)
            yield value, self.count.value()

        def snapshot_state(self, context: FunctionSnapshotContext) -> None: ...

    running = start(replace(_spec(Both()), kind="keyed_process", key=KEY))
    running.feed([7, 7])
    (part,) = dealt([running.snapshot()], 1)
    function = Both()
    again = start(replace(_spec(function), kind="keyed_process", key=KEY), restored=part)
    again.feed([7])
    assert again.out.values() == [(7, 3)]
    assert list(function.total.get()) == [7, 7, 7]


def test_keyed_state_needs_keys_and_what_a_function_raises_names_the_operator() -> None:
    class Wrong(AllKinds):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            context.get_keyed_state_store()

    with pytest.raises(InvalidJob, match="operator 'op' has no keyed state.*key_by"):
        begin(Wrong())

    class Breaks(Plain, CheckpointedFunction, CheckpointListener):
        def initialize_state(self, context: FunctionInitializationContext) -> None: ...

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            raise ValueError("no room")

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            raise ValueError("too late")

    running = begin(Breaks())
    with pytest.raises(UserFunctionError, match="operator 'op': ValueError: no room"):
        running.operator.freeze(1)
    with pytest.raises(UserFunctionError, match="too late"):
        running.operator.notify_checkpoint_complete(1)
