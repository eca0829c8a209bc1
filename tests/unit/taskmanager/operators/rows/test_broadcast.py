"""Broadcast state: who may change it, restores at other parallelisms, and keyed state seen from the broadcast side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, spec, start, values_of
from tests.unit.taskmanager.operators.keyed_kit import PAIR, first
from tests.unit.taskmanager.operators.keyed_kit import backends as backends
from tests.unit.taskmanager.operators.rows.test_keyed import owner
from tidegate.common.typeinfo import Types
from tidegate.functions.interfaces import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
    RuntimeContext,
)
from tidegate.functions.output_tag import OutputTag
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.model.checkpoint import StateRedistribution
from tidegate.model.errors import InvalidJob, UserFunctionError
from tidegate.model.program import KeySpec, OperatorSpec

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.LONG())
SIDE = OutputTag("rules", Types.STRING())


class Scale(BroadcastProcessFunction[Any, Any, Any]):
    """Multiplies by the factor of the record's name; tells changes of factors on the side."""

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        rules = ctx.get_broadcast_state(RULES)
        if rules.contains(value[0]):
            yield (value[0], value[1] * (rules.get(value[0]) or 0), ctx.timestamp(), ctx.current_watermark())

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any]:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        yield SIDE, value[0]


class Counting(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """Counts by key up to a broadcast limit; a broadcast ``reset`` sets all counts to its number."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)
        self.seen = runtime_context.get_list_state(SEEN)

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        limit = ctx.get_broadcast_state(RULES)["limit"] or 0
        self.count.update(min(limit, (self.count.value() or 0) + 1))
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(value[1])
        yield (ctx.get_current_key(), self.count.value())

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any]:
        if value[0] == "reset":
            ctx.apply_to_keyed_state(COUNT, lambda key, state: state.update(value[1]))
        elif value[0] == "own":
            self.count.update(1)
        elif value[0] == "lists":
            lengths: list[Any] = []
            ctx.apply_to_keyed_state(SEEN, Lengths(lengths))
            yield from sorted(lengths)
        else:
            ctx.get_broadcast_state(RULES)[value[0]] = value[1]

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ("timer", ctx.get_current_key(), timestamp, ctx.get_broadcast_state(RULES).get("limit"))


class Lengths(KeyedStateFunction):
    def __init__(self, found: list[Any]) -> None:
        self.found = found

    def process(self, key: Any, state: Any) -> None:
        self.found.append((key, len(list(state.get()))))


def scale() -> OperatorSpec:
    return spec("broadcast_process", input_types=(PAIR, PAIR), options={"func": Scale(), "states": [RULES]})


def counting() -> OperatorSpec:
    options = {"func": Counting(), "states": [RULES]}
    key = KeySpec(selector=first, key_type=Types.STRING())
    return spec("keyed_broadcast_process", input_types=(PAIR, PAIR), key=key, options=options)


def rule(running: Running, name: str, number: int) -> None:
    running.feed([(name, number)], index=1)


def test_records_see_the_rules_that_came_before_them() -> None:
    running = start(scale())
    running.feed([("a", 1)], [10])
    rule(running, "a", 5)
    running.operator.on_watermark(7)
    running.feed([("a", 2), ("b", 3)], [11, 12])
    assert running.out.values() == [("a", 10, 11, 7)]
    assert values_of(running.out.sides["rules"]) == ["a"]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_every_subtask_restores_a_copy(parallelism: int) -> None:
    old = [start(scale(), subtask, 2) for subtask in range(2)]
    for running in old:
        rule(running, "a", 5)
    snapshots = [running.snapshot() for running in old]
    assert [s.operator[0].redistribution for s in snapshots] == [StateRedistribution.BROADCAST] * 2
    for subtask in range(parallelism):
        copy = restored_of([snapshots[subtask % 2]])
        running = start(scale(), subtask, parallelism, copy)
        running.feed([("a", 2)])
        assert running.out.values()[0][1] == 10


def test_a_state_that_broadcast_was_not_given_is_refused() -> None:
    class Asks(Scale):
        def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any]:
            ctx.get_broadcast_state(MapStateDescriptor("others", Types.STRING(), Types.LONG()))
            return ()

    running = start(spec("broadcast_process", input_types=(PAIR, PAIR), options={"func": Asks(), "states": [RULES]}))
    with pytest.raises(InvalidJob, match="no broadcast state 'others', only rules"):
        rule(running, "a", 1)


def test_the_other_side_cannot_change_broadcast_state() -> None:
    class Clears(Scale):
        def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
            state: Any = ctx.get_broadcast_state(RULES)
            state.put("a", 1)
            return ()

    running = start(spec("broadcast_process", input_types=(PAIR, PAIR), options={"func": Clears(), "states": [RULES]}))
    with pytest.raises(UserFunctionError, match="put"):
        running.feed([("a", 1)])


def test_keyed_state_and_timers_beside_broadcast_state() -> None:
    running = start(counting())
    rule(running, "limit", 2)
    running.feed([("a", 10), ("a", 20), ("a", 30), ("b", 15)])
    rule(running, "limit", 9)
    running.operator.on_watermark(15)
    assert running.out.values() == [
        ("a", 1), ("a", 2), ("a", 2), ("b", 1), ("timer", "a", 10, 9), ("timer", "b", 15, 9),
    ]  # fmt: skip
    assert running.out.stamps()[-2:] == [10, 15]


def test_the_broadcast_side_reaches_the_state_of_all_keys() -> None:
    running = start(counting())
    rule(running, "limit", 100)
    running.feed([("a", 1), ("b", 2), ("b", 3)])
    rule(running, "reset", 50)
    running.feed([("a", 4), ("b", 5)])
    rule(running, "lists", 0)
    assert running.out.values()[3:] == [("a", 51), ("b", 51), ("a", 2), ("b", 3)]


def test_the_broadcast_side_has_no_key_of_its_own() -> None:
    running = start(counting())
    rule(running, "limit", 100)
    running.feed([("a", 1)])
    with pytest.raises(InvalidJob, match="apply_to_keyed_state"):
        rule(running, "own", 0)


def test_keyed_and_broadcast_state_come_back_at_another_parallelism() -> None:
    running = start(counting())
    rule(running, "limit", 100)
    running.feed([(key, 1) for key in "abcdefgh"])
    store = MemoryStore()
    restored = restored_of([running.snapshot(store=store)])
    new = [start(counting(), subtask, 2, restored) for subtask in range(2)]
    for key in "abcdefgh":
        new[owner(key, 2)].feed([(key, 9)])
    assert sorted(value for one in new for value in one.out.values()) == [(key, 2) for key in "abcdefgh"]
    for one in new:
        one.operator.on_watermark(5)
    timers = [value[:2] for one in new for value in one.out.values() if value[0] == "timer"]
    assert sorted(timers) == [("timer", key) for key in "abcdefgh"]
