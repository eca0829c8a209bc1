"""What ``tidegate savepoint check`` says of a changed program is what happens when the program starts: drawn changes, real operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.taskmanager.operators.harness import MemoryStore, restored_of, start
from tidegate.common.row import Row
from tidegate.common.time import Time
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.datastream import (
    CheckpointedFunction,
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
    aggregates,
)
from tidegate.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from tidegate.model.checkpoint import OperatorSnapshot
from tidegate.model.errors import TidegateError
from tidegate.model.ids import OperatorId, hex_id
from tidegate.model.program import OperatorSpec
from tidegate.taskmanager.compatibility.states import StateOutcome, StateVerdict, StoredState, examine_states
from tidegate.taskmanager.harness.operators import OperatorHarness
from tidegate.taskmanager.state.files.segments import StateDescription, metadata_of
from tidegate.taskmanager.windows.state.files import WINDOWS, WindowFormat

COLUMNS = Types.SCHEMA(pa.schema([("k", pa.int64()), ("w", pa.string()), ("v", pa.int64()), ("f", pa.float64())]))
BACKENDS = ("hashmap", "rocksdb")


@dataclass(frozen=True)
class Program:
    """``piece`` makes an operator with state of a stream of ``input_type``. ``about``: what was drawn."""

    about: str
    input_type: TypeInformation
    piece: Callable[[DataStream], DataStream]

    def named(self, uid: str) -> Callable[[DataStream], DataStream]:
        return lambda stream: self.piece(stream).uid(uid)

    def spec(self, uid: str) -> OperatorSpec:
        env = StreamExecutionEnvironment()
        env.set_parallelism(1)
        self.named(uid)(env.from_collection([], self.input_type)).print()
        specs = [spec for program in env.build("job").programs.values() for spec in program.operators]
        return next(spec for spec in specs if spec.operator_id == id_of(uid))

    def rows(self) -> list[Any]:
        values = [(n % 5, f"w{n % 3}", n, n / 2) for n in range(20)]
        return [Row(**dict(zip(("k", "w", "v", "f"), one, strict=True))) for one in values]


def id_of(uid: str) -> OperatorId:
    return OperatorId(hex_id("uid", uid))


AGGREGATES = {
    "count": lambda: aggregates.count().alias("a"),
    "sum": lambda: aggregates.sum("v").alias("a"),
    "max": lambda: aggregates.max("v").alias("a"),
    "fsum": lambda: aggregates.sum("f").alias("a"),
    "avg": lambda: aggregates.avg("v").alias("b"),
    "last": lambda: aggregates.last("w").alias("c"),
}


def windows_over_columns(assigner: WindowAssigner[Any, Any], keys: Sequence[str], functions: Sequence[str]) -> Program:
    def piece(stream: DataStream) -> DataStream:
        return stream.key_by(*keys).window(assigner).agg(*(AGGREGATES[name]() for name in functions))

    return Program(f"{vars(assigner)}, {keys}, {functions}", COLUMNS, piece)


def running_aggregates(keys: Sequence[str], functions: Sequence[str]) -> Program:
    def piece(stream: DataStream) -> DataStream:
        return stream.key_by(*keys).agg(*(AGGREGATES[name]() for name in functions))

    return Program(f"{keys}, {functions}", COLUMNS, piece)


def windows_of_rows(assigner: WindowAssigner[Any, Any], key_type: TypeInformation) -> Program:
    def piece(stream: DataStream) -> DataStream:
        keyed = stream.key_by(lambda row: row[0] if key_type == Types.LONG() else row[1], key_type)
        return keyed.window(assigner).reduce(lambda one, other: other)

    return Program(f"{vars(assigner)}, {key_type}", COLUMNS, piece)


def keyed_state(descriptor: StateDescriptor, key_type: TypeInformation) -> Program:
    class Keeps(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            if isinstance(descriptor, ListStateDescriptor):
                self.state = runtime_context.get_list_state(descriptor)
            elif isinstance(descriptor, MapStateDescriptor):
                self.state = runtime_context.get_map_state(descriptor)
            else:
                self.state = runtime_context.get_state(descriptor)

        def process_element(self, value: Any, ctx: Any) -> Any:
            if isinstance(descriptor, ListStateDescriptor):
                self.state.add(KINDS[descriptor.elem_type_info](value[2]))
            elif isinstance(descriptor, MapStateDescriptor):
                self.state.put("key", KINDS[descriptor.value_type_info](value[2]))
            else:
                self.state.update(KINDS[descriptor.type_info](value[2]))
            yield value

    def piece(stream: DataStream) -> DataStream:
        keyed = stream.key_by(lambda row: row[0] if key_type == Types.LONG() else row[1], key_type)
        return keyed.process(Keeps(), COLUMNS)

    return Program(f"{type(descriptor).__name__} {descriptor.type_info}, {key_type}", COLUMNS, piece)


def operator_state(kind: str, of: TypeInformation) -> Program:
    class Keeps(MapFunction, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None:
            store = context.get_operator_state_store()
            if kind == "broadcast":
                self.state = store.get_broadcast_state(MapStateDescriptor("state", Types.STRING(), of))
            elif kind == "union":
                self.state = store.get_union_list_state(ListStateDescriptor("state", of))
            else:
                self.state = store.get_list_state(ListStateDescriptor("state", of))

        def snapshot_state(self, context: Any) -> None:
            pass

        def map(self, value: Any) -> Any:
            made = KINDS[of](value[2])
            if kind == "broadcast":
                self.state.put("key", made)
            else:
                self.state.add(made)
            return value

    return Program(f"{kind} of {of}", COLUMNS, lambda stream: stream.map(Keeps(), COLUMNS))


KINDS = {Types.LONG(): int, Types.INT(): int, Types.STRING(): str, Types.DOUBLE(): float}
TUMBLING = st.builds(
    lambda size, offset: TumblingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(offset)),
    st.sampled_from([1000, 2000, 3000]),
    st.sampled_from([0, 500, 999]),
)
SLIDING = st.builds(
    lambda slide, number: SlidingEventTimeWindows.of(Time.milliseconds(slide * number), Time.milliseconds(slide)),
    st.sampled_from([500, 1000]),
    st.sampled_from([1, 2, 3]),
)
SESSIONS = st.builds(lambda gap: EventTimeSessionWindows.with_gap(Time.milliseconds(gap)), st.sampled_from([300, 700]))
ASSIGNERS = TUMBLING | SLIDING | SESSIONS
FUNCTIONS = st.sampled_from([("count",), ("sum",), ("max",), ("fsum",), ("sum", "avg"), ("last",), ("avg", "count")])
KEYS = st.sampled_from([("k",), ("w",), ("k", "w")])
TYPES = st.sampled_from([Types.LONG(), Types.INT(), Types.STRING(), Types.DOUBLE()])
KEY_TYPES = st.sampled_from([Types.LONG(), Types.STRING()])
DESCRIPTORS = st.one_of(
    st.builds(lambda kind: ValueStateDescriptor("state", kind), TYPES),
    st.builds(lambda kind: ListStateDescriptor("state", kind), TYPES),
    st.builds(lambda kind: MapStateDescriptor("state", Types.STRING(), kind), TYPES),
)
FAMILIES = [
    st.builds(windows_over_columns, ASSIGNERS, KEYS, FUNCTIONS),
    st.builds(windows_over_columns, TUMBLING | SLIDING, st.just(("k",)), st.just(("sum",))),
    st.builds(windows_over_columns, SESSIONS, st.just(("k",)), FUNCTIONS),
    st.builds(running_aggregates, KEYS, FUNCTIONS.filter(lambda functions: "last" not in functions)),
    st.builds(windows_of_rows, ASSIGNERS, KEY_TYPES),
    st.builds(keyed_state, DESCRIPTORS, KEY_TYPES),
    st.builds(operator_state, st.sampled_from(["list", "union", "broadcast"]), TYPES),
]


def stored_states(snapshot: OperatorSnapshot) -> list[StoredState]:
    """As the manifest of a checkpoint has them."""
    found = []
    for name in {segment.state_name for segment in snapshot.keyed}:
        segments = tuple(segment for segment in snapshot.keyed if segment.state_name == name)
        schema = pa.ipc.open_file(MemoryStore().read(segments[0].handle)).schema
        found.append(StoredState(name, metadata_of(schema)["kind"], None, schema, segments, MemoryStore()))
    for handle in snapshot.operator:
        schema = pa.ipc.open_file(MemoryStore().read(handle.handle)).schema
        found.append(StoredState(handle.state_name, metadata_of(schema)["kind"], handle.redistribution, schema))
    return found


def run(program: Program, uid: str, backend: str, restore: Any = None) -> Any:
    configuration = {"state.backend.type": backend}
    with OperatorHarness(program.named(uid), COLUMNS, restore=restore, configuration=configuration) as harness:
        rows = program.rows()
        harness.push_all(rows, [n * 137 for n in range(len(rows))])
        return harness.snapshot()


def is_refused(program: Program, uid: str, backend: str, restore: Any, parallelism: int) -> bool:
    """Whether the changed program fails at its restore, or when it meets its first rows."""
    try:
        run(program, uid, backend, restore)
        state = restore.operators.get(id_of(uid))
        for index in range(parallelism if state is not None else 0):
            start(
                program.spec(uid),
                index,
                parallelism,
                restored_of([state]),
                configuration={"state.backend.type": backend},
            )
    except TidegateError:
        return True
    return False


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_check_refuses_what_a_run_refuses(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(FAMILIES))
    before, after = data.draw(family), data.draw(family)
    first, second = data.draw(st.sampled_from(BACKENDS)), data.draw(st.sampled_from(BACKENDS))
    uid, parallelism = data.draw(st.sampled_from(["op", "op", "op", "other"])), data.draw(st.integers(1, 3))
    snapshot = run(before, "op", first)
    verdicts: list[StateVerdict] = []
    if uid == "op":
        verdicts = examine_states(after.spec(uid), stored_states(snapshot.operators[id_of("op")]), opened=True)
    says_no = any(verdict.outcome is StateOutcome.CANNOT_BE_READ for verdict in verdicts)
    refused = is_refused(after, uid, second, snapshot, parallelism)
    assert says_no == refused, (before.about, after.about, verdicts)


def tumbling(size: int) -> Program:
    return windows_over_columns(TumblingEventTimeWindows.of(Time.milliseconds(size)), ("k",), ("sum",))


def verdict(program: Program, stored: list[StoredState]) -> StateVerdict:
    (found,) = examine_states(program.spec("op"), stored)
    return found


def test_windows_of_another_length_are_refused_with_both_lengths() -> None:
    stored = stored_states(run(tumbling(1000), "op", "hashmap").operators[id_of("op")])
    found = verdict(tumbling(3000), stored)
    assert found.outcome is StateOutcome.CANNOT_BE_READ
    assert "are 1000 ms long and begin every 1000 ms from 0 ms on, those of the job are 3000 ms long" in found.text
    assert verdict(tumbling(1000), stored) == StateVerdict("windows", StateOutcome.RESTORES)


def test_windows_of_files_that_do_not_say_their_length_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of before: the metadata has no ``windows``."""
    described = WindowFormat.describe

    def before(form: WindowFormat, data: pa.RecordBatch, fired: int | None = None) -> StateDescription:
        about = described(form, data, fired)
        return replace(about, more={key: told for key, told in about.more.items() if key != WINDOWS})

    with monkeypatch.context() as patch:
        patch.setattr(WindowFormat, "describe", before)
        snapshot = run(tumbling(1000), "op", "hashmap")
    stored = stored_states(snapshot.operators[id_of("op")])
    assert WINDOWS not in metadata_of(stored[0].schema)
    assert verdict(tumbling(1000), stored).outcome is StateOutcome.RESTORES
    assert verdict(tumbling(3000), stored).outcome is StateOutcome.CANNOT_BE_READ
    assert is_refused(tumbling(3000), "op", "hashmap", snapshot, 1)
    assert not is_refused(tumbling(1000), "op", "hashmap", snapshot, 2)


def test_sessions_take_another_gap_and_the_check_says_so() -> None:
    def sessions(gap: int) -> Program:
        return windows_over_columns(EventTimeSessionWindows.with_gap(Time.milliseconds(gap)), ("k",), ("sum",))

    snapshot = run(sessions(300), "op", "hashmap")
    found = verdict(sessions(700), stored_states(snapshot.operators[id_of("op")]))
    assert found.outcome is StateOutcome.RESTORES
    assert found.text.startswith("written with a gap of 300 ms, the job has 700 ms")
    assert not is_refused(sessions(700), "op", "hashmap", snapshot, 2)


def test_the_local_half_of_a_window_is_named_after_it_wherever_it_stands() -> None:
    env = StreamExecutionEnvironment()
    stream = env.from_collection([], COLUMNS)
    tumbling(1000).named("op")(stream.filter(lambda row: True)).print()
    operators = [operator for vertex in env.build("job").graph.vertices for operator in vertex.operators]
    (local,) = (operator for operator in operators if operator.name == "LocalWindowAggregate")
    assert (local.uid, local.operator_id) == ("op-local", id_of("op-local"))
