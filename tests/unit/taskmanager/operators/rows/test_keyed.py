"""Keyed functions: state by key, timers, side outputs, and restores at other parallelisms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, spec, start, values_of
from tests.unit.taskmanager.operators.keyed_kit import PAIR, MeanAggregate, first, keyed
from tests.unit.taskmanager.operators.keyed_kit import backends as backends
from tidegate.common.row import Row
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.interfaces import (
    CoProcessFunction,
    KeyedContext,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedTimerContext,
    ReduceFunction,
    RuntimeContext,
    TimedContext,
)
from tidegate.functions.output_tag import OutputTag
from tidegate.functions.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.functions.time_domain import TimeDomain
from tidegate.model.checkpoint import SegmentHandle, StateHandle
from tidegate.model.errors import CorruptData, InternalError, InvalidJob, SchemaMismatch, UserFunctionError
from tidegate.model.keygroups import key_group, subtask_of
from tidegate.model.program import KeySpec, OperatorSpec
from tidegate.records.keys import hash_key

LATE = OutputTag("late", PAIR)


def owner(key: Any, parallelism: int) -> int:
    return subtask_of(key_group(hash_key(key), 128), 128, parallelism)


def deal(values: Sequence[Any], running: Sequence[Running], stamps: Sequence[int] | None = None) -> None:
    for i, value in enumerate(values):
        one = running[owner(value[0], len(running))]
        one.feed([value], None if stamps is None else [stamps[i]])


class EveryState(KeyedProcessFunction):
    """Uses all kinds of state; emits what they hold."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", MeanAggregate(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
        self.value.update((self.value.value() or 0) + 1)
        self.list.add(value[1])
        self.map.put(str(value[1] % 3), value[1])
        self.sum.add(value[1])
        self.mean.add(value)
        yield (
            ctx.get_current_key(),
            self.value.value(),
            list(self.list),
            dict(self.map.items()),
            self.sum.get(),
            self.mean.get(),
        )


class ReadMutates(KeyedProcessFunction):
    """Changes the list that it got from ``value()``, without update: the planted mutation of law 3."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
        seen = self.state.value()
        if seen is None:
            seen = []
            self.state.update(seen)
        seen.append(value[1])
        return [list(seen)]


def records(count: int) -> list[Any]:
    return [(f"k{i % 17}", i) for i in range(count)]


@pytest.mark.parametrize("key_type", [None, Types.STRING()])
@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 4), (3, 2)])
def test_all_state_survives_a_restore_at_another_parallelism(
    before: int, after: int, key_type: TypeInformation | None
) -> None:
    def of() -> OperatorSpec:
        return keyed(key_type=key_type, func=EveryState())

    whole = [start(of())]
    deal(records(100), whole)
    early = [start(of(), i, before) for i in range(before)]
    deal(records(60), early)
    snapshots = [one.snapshot() for one in early]
    late = [start(of(), i, after, restored_of(snapshots)) for i in range(after)]
    deal(records(100)[60:], late)
    got = [value for one in (*early, *late) for value in one.out.values()]
    assert sorted(got, key=repr) == sorted(whole[0].out.values(), key=repr)


def test_a_list_changed_in_place_while_the_snapshot_is_written_stays_out_of_it() -> None:
    in_memory = {"state.backend.type": "hashmap"}  # elsewhere what is read is a copy
    one = start(keyed(func=ReadMutates()), configuration=in_memory)
    one.feed([("a", 1), ("a", 2), ("b", 1)])
    frozen = one.operator.freeze(1)
    one.feed([("a", 3), ("b", 2), ("c", 1)])
    second = one.operator.freeze(2)
    one.feed([("a", 4)])
    assert frozen is not None
    assert second is not None
    first_snapshot, second_snapshot = frozen.write(MemoryStore()), second.write(MemoryStore())
    frozen.release()
    second.release()
    one.feed([("a", 5)])
    assert one.out.values()[-1] == [1, 2, 3, 4, 5]
    for snapshot, expected in ((first_snapshot, [1, 2]), (second_snapshot, [1, 2, 3])):
        again = start(keyed(func=ReadMutates()), restored=restored_of([snapshot]), configuration=in_memory)
        again.feed([("a", 0)])
        assert again.out.values() == [[*expected, 0]]


class Timed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        service = ctx.timer_service()
        if value[1] < 0:
            service.delete_event_time_timer(-value[1])
        else:
            service.register_event_time_timer(value[1])
            service.register_processing_time_timer(1000 + value[1])
        return None

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Any]:
        yield (ctx.get_current_key(), timestamp, ctx.time_domain() is TimeDomain.EVENT_TIME)
        if timestamp == 5:
            ctx.timer_service().register_event_time_timer(6)


def test_timers_fire_once_in_order_and_before_the_watermark() -> None:
    one = start(keyed(func=Timed()))
    one.feed([("a", 30), ("b", 5), ("a", 30), ("c", 20), ("c", -20), ("a", 10)])
    one.operator.on_watermark(30)
    assert one.out.values() == [("b", 5, True), ("b", 6, True), ("a", 10, True), ("a", 30, True)]
    assert one.out.stamps() == [5, 6, 10, 30]
    assert one.out.order == ["batch", "watermark"]
    one.operator.on_watermark(100)
    one.timers.advance_to(1015)
    assert one.out.values()[4:] == [("b", 1005, False), ("a", 1010, False)]
    assert one.out.stamps()[4:] == [None, None]
    one.timers.advance_to(2000)
    assert [v[1] for v in one.out.values()[6:]] == [1020, 1030]


def test_timers_are_restored_with_their_key_groups() -> None:
    one = start(keyed(func=Timed()))
    one.feed([(f"k{i}", i + 10) for i in range(40)])
    one.operator.on_watermark(19)
    snapshot = one.snapshot()
    again = [start(keyed(func=Timed()), i, 3, restored_of([snapshot])) for i in range(3)]
    for other in again:
        other.operator.on_watermark(100)
        other.timers.advance_to(5000)
    fired = sorted(v for other in again for v in other.out.values())
    expected = [(f"k{i}", i + 10, True) for i in range(10, 40)] + [(f"k{i}", 1010 + i, False) for i in range(40)]
    assert fired == sorted(expected)
    assert all(owner(v[0], 3) == i for i, other in enumerate(again) for v in other.out.values())


class Joined(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedContext) -> None:
        self.left.update(value[1])

    def process_element2(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
        yield (value[0], self.left.value(), value[1])
        yield LATE, value


def test_two_inputs_share_the_state_of_a_key() -> None:
    one = start(keyed("keyed_co_process", func=Joined()))
    one.feed([("a", 1), ("b", 2)], index=0)
    one.feed([("b", 3), ("c", 4)], [7, 8], index=1)
    assert one.out.values() == [("b", 2, 3), ("c", None, 4)]
    assert one.out.stamps() == [7, 8]
    assert values_of(one.out.sides["late"]) == [("b", 3), ("c", 4)]


class Reminded(CoProcessFunction):
    """State and timers of the current key, through the context of a function that names no key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element1(self, value: Any, ctx: TimedContext) -> None:
        self.total.update((self.total.value() or 0) + value[1])

    def process_element2(self, value: Any, ctx: TimedContext) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), self.total.value(), timestamp


def test_a_co_process_function_has_state_and_timers_on_keyed_streams() -> None:
    one = start(keyed("keyed_co_process", func=Reminded()))
    one.feed([("a", 1), ("b", 2), ("a", 4)], index=0)
    one.feed([("b", 20), ("a", 10)], index=1)
    one.operator.on_watermark(30)
    assert one.out.values() == [("a", 5, 10), ("b", 2, 20)]


def test_a_timer_of_a_co_process_function_without_on_timer_gives_nothing() -> None:
    class Silent(CoProcessFunction):
        def process_element1(self, value: Any, ctx: TimedContext) -> None:
            ctx.timer_service().register_event_time_timer(1)

        process_element2 = process_element1

    one = start(keyed("keyed_co_process", func=Silent()))
    one.feed([("a", 1)])
    one.operator.on_watermark(30)
    assert one.out.values() == []


class InPlace(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        value1[1] += value2[1]
        return value1


def test_reduce_emits_every_result_even_when_it_changes_its_argument() -> None:
    of = spec(
        "keyed_reduce",
        input_types=(Types.ROW([Types.STRING(), Types.LONG()]),),
        key=KeySpec(selector=first),
        options={"func": InPlace()},
    )
    one = start(of)
    one.feed([Row("a", 1), Row("a", 2), Row("b", 5), Row("a", 3)], [1, 2, 3, 4])
    assert one.out.values() == [Row("a", 1), Row("a", 3), Row("b", 5), Row("a", 6)]
    assert one.out.stamps() == [1, 2, 3, 4]
    again = start(of, restored=restored_of([one.snapshot()]))
    again.feed([Row("a", 1)])
    assert again.out.values() == [Row("a", 7)]


def test_state_that_nobody_asks_for_is_kept() -> None:
    one = start(keyed(func=EveryState()))
    deal(records(30), [one])
    between = [start(keyed(func=Timed()), i, 2, restored_of([one.snapshot()])) for i in range(2)]
    again = start(keyed(func=EveryState()), restored=restored_of([b.snapshot() for b in between]))
    whole = start(keyed(func=EveryState()))
    deal(records(40), [whole])
    deal(records(40)[30:], [again])
    assert again.out.values() == whole.out.values()[30:]


def test_a_changed_type_is_told() -> None:
    one = start(keyed(func=EveryState()))
    deal(records(3), [one])

    class Changed(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("value", Types.STRING()))

        def process_element(self, value: Any, ctx: KeyedContext) -> None:
            return None

    with pytest.raises(SchemaMismatch, match="state 'value'.*int64.*string"):
        start(keyed(func=Changed()), restored=restored_of([one.snapshot()]))


def test_a_damaged_segment_is_named() -> None:
    one = start(keyed(func=EveryState()))
    deal(records(30), [one])
    good = one.snapshot()
    segment = next(s for s in good.keyed if s.state_name == "list")
    assert segment.handle.data is not None
    cut = segment.handle.data[: len(segment.handle.data) // 2]
    for offsets, content in ((segment.offsets, cut), ((*segment.offsets[:-1], 5), segment.handle.data)):
        store = MemoryStore()
        bad = SegmentHandle("list", segment.key_groups, offsets, store.write("x", [content]))
        with pytest.raises(CorruptData, match="'list'"):
            start(keyed(func=EveryState()), restored=restored_of([type(good)(keyed=(bad,))]))
    wrong_sum = StateHandle(len(cut), "0" * 16, data=cut)
    bad = SegmentHandle("list", segment.key_groups, segment.offsets, wrong_sum)
    with pytest.raises(CorruptData):
        start(keyed(func=EveryState()), restored=restored_of([type(good)(keyed=(bad,))]))


def test_user_errors_carry_the_users_frames_only() -> None:
    class Failing(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
            yield 1 // value[1]

    with pytest.raises(UserFunctionError, match="operator 'op': ZeroDivisionError") as raised:
        start(keyed(func=Failing())).feed([("a", 0)])
    assert "process_element" in raised.value.details
    assert "user_code.py" not in raised.value.details
    assert "keyed.py" not in raised.value.details.replace("test_keyed.py", "")


def test_a_key_that_changes_its_mind_is_told() -> None:
    counter = iter(range(1000))
    of = spec(
        "keyed_process",
        input_types=(PAIR,),
        key=KeySpec(selector=lambda value: next(counter)),
        options={"func": Timed()},
    )
    with pytest.raises(InternalError, match="different keys"):
        start(of, 0, 4).feed([("a", 1)] * 50)


class KeyItself(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key()


def test_a_list_is_a_key_as_the_tuple_of_its_elements() -> None:
    key = KeySpec(selector=lambda v: [v[0], [v[1]]])
    op = start(spec("keyed_process", input_types=(PAIR,), key=key, options={"func": KeyItself()}))
    op.feed([("a", 1)])
    assert op.out.values() == [("a", (1,))]


def test_an_unhashable_key_is_told() -> None:
    of = spec(
        "keyed_process", input_types=(PAIR,), key=KeySpec(selector=lambda v: {v[0]: 1}), options={"func": Timed()}
    )
    with pytest.raises(InvalidJob, match="cannot be a key"):
        start(of).feed([("a", 1)])


def test_keys_of_records_may_be_fields() -> None:
    of = spec("keyed_process", input_types=(PAIR,), key=KeySpec(columns=("f1", "f0")), options={"func": EveryState()})
    one = start(of)
    one.feed([("a", 1)])
    assert one.out.values()[0][0] == (1, "a")
