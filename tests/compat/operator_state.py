"""State of an operator: a list that is split, one that everybody gets, and what is broadcast, with keyed state beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tests.compat.outline import Outline
from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    StreamExecutionEnvironment,
)
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor

ROWS, GROUP, KEYS = 6_000, 64, 10
RULES = MapStateDescriptor("rules", Types.LONG(), Types.STRING())
WAITING = ListStateDescriptor("waiting", Types.LONG())


class Held(FlatMapFunction, CheckpointedFunction):
    """Lets values go in groups, told with how many all old subtasks had passed before."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.buffer = store.get_list_state(ListStateDescriptor("buffer", Types.LONG()))
        self.passed = store.get_union_list_state(ListStateDescriptor("passed", Types.LONG()))
        self.held = list(self.buffer.get())
        self.before, self.own = sum(self.passed.get()), 0

    def flat_map(self, value: Any) -> Any:
        self.held.append(value)
        self.own += 1
        if len(self.held) >= GROUP:
            group, self.held = self.held, []
            yield from ((found, self.before) for found in group)

    def snapshot_state(self, context: Any) -> None:
        self.buffer.update(self.held)
        self.passed.update([self.own])


class Ruled(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """Values of a key wait, unless its rule is known; a rule that comes late says so."""

    def open(self, runtime_context: Any) -> None:
        self.waiting = runtime_context.get_list_state(WAITING)

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        rule = ctx.get_broadcast_state(RULES).get(ctx.get_current_key())
        if rule is None:
            self.waiting.add(value)
        else:
            yield f"{rule}/{value}"

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        released: list[str] = []

        def release(key: Any, waiting: Any) -> None:
            if key == value:
                released.extend(f"r{key}/{number}" for number in waiting.get())
                waiting.clear()

        ctx.get_broadcast_state(RULES).put(value, f"r{value}")
        ctx.apply_to_keyed_state(WAITING, release)
        yield from released


def rows(first: int, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number, dtype=np.int64))], ["value"])


def build(outline: Outline) -> StreamExecutionEnvironment:
    def out(part: str) -> CollectingSink:
        return CollectingSink(f"{outline.world}-{part}")

    def numbers(total: int, name: str, rate: float | None) -> Any:
        source = DataGeneratorSource(rows, total, rows_per_second=rate)
        read = env.from_source(source, WatermarkStrategy.no_watermarks(), name).uid(name)
        return read.map(lambda row: row[0], Types.LONG()).uid(f"{name}-numbers")

    env = outline.environment()
    values = numbers(ROWS, "values", outline.rate)
    held = values.rebalance().flat_map(Held(), Types.TUPLE([Types.LONG(), Types.LONG()])).uid("held")
    held.sink_to(out("held")).uid("held-out")
    rules = numbers(KEYS, "rules", None if outline.rate is None else outline.rate * KEYS / ROWS)
    keyed = values.key_by(lambda value: value % KEYS, Types.LONG()).connect(rules.broadcast(RULES))
    keyed.process(Ruled(), Types.STRING()).uid("ruled").sink_to(out("ruled")).uid("ruled-out")
    return env


def is_ready(outline: Outline) -> bool:
    return len(outline.committed("held")) > ROWS // 3


def check(outline: Outline) -> None:
    """Every value once; of the groups that are not full at the end, no subtask has more than one."""
    held = outline.committed("held")
    assert len({value for value, _ in held}) == len(held)
    assert ROWS - len(held) < GROUP * outline.parallelism
    (passed,) = {before for _, before in held if before}
    assert len(outline.before["held"]) <= passed < ROWS, "the union state of all old subtasks"
    ruled = sorted((int(value), rule) for (text,) in outline.committed("ruled") for rule, value in [text.split("/")])
    assert ruled == [(value, f"r{value % KEYS}") for value in range(ROWS)]
