"""Running aggregates of columns that expire: they give what keyed state of a function with the same time-to-live gives, and keys that come
and go need no more memory."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, spec, start
from tests.unit.taskmanager.operators.keyed_kit import keyed
from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.common.time import Time
from tidegate.common.typeinfo import ArrowTypeInfo, Types
from tidegate.functions.interfaces import KeyedContext, KeyedProcessFunction, RuntimeContext
from tidegate.functions.state import ReducingStateDescriptor
from tidegate.functions.state_ttl import StateTtlConfig
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.keygroups import key_group, subtask_of
from tidegate.model.program import OperatorSpec
from tidegate.records.batch import ArrowBatch
from tidegate.records.keys import hash_key
from tidegate.taskmanager.compatibility.states import StateOutcome, StoredState, examine_states
from tidegate.taskmanager.operators.columns.aggregate import ColumnarAggregate

TTL = 1000
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
Rows = Sequence[tuple[str, int]]
NEVER = StateTtlConfig.new_builder(Time.milliseconds(TTL)).build()
BY_READS = StateTtlConfig.new_builder(Time.milliseconds(TTL)).update_ttl_on_read_and_write().build()
UNCLEANED = StateTtlConfig.new_builder(Time.milliseconds(TTL)).disable_cleanup_in_background()
SHOWN = UNCLEANED.return_expired_if_not_cleaned_up().build()
SWEPT = StateTtlConfig.new_builder(Time.milliseconds(TTL)).cleanup_incrementally(1000, False).build()


def totals(ttl: StateTtlConfig | None) -> OperatorSpec:
    options = {"keys": ["k"], "aggregates": [("n", "count", None), ("s", "sum", "v"), ("lo", "min", "v")], "ttl": ttl}
    return spec("columnar_aggregate", options=options, input_types=(ArrowTypeInfo(SCHEMA),))


def feed(running: Running, rows: Rows) -> dict[str, tuple[int, int, int]]:
    """Returns what is emitted for each key: count, sum and minimum."""
    before = len(running.out.values())
    if not rows:
        return {}
    data = pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
    running.operator.process(ArrowBatch(data), 0)
    return {row["k"]: (row["n"], row["s"], row["lo"]) for row in running.out.values()[before:]}


class AsAFunction(KeyedProcessFunction):
    """The same by a reducing state that expires."""

    def __init__(self, ttl: StateTtlConfig) -> None:
        self._ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ReducingStateDescriptor("totals", self._add, Types.PICKLED_BYTE_ARRAY())
        descriptor.enable_time_to_live(self._ttl)
        self._state = runtime_context.get_reducing_state(descriptor)

    @staticmethod
    def _add(a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
        return a[0] + b[0], a[1] + b[1], min(a[2], b[2])

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
        self._state.add((1, value[1], value[1]))
        yield value[0], self._state.get()


def function(ttl: StateTtlConfig) -> OperatorSpec:
    return keyed(func=AsAFunction(ttl), key_type=Types.STRING())


def feed_function(running: Running, rows: Rows) -> dict[str, tuple[int, int, int]]:
    before = len(running.out.values())
    running.feed(list(rows))
    return dict(running.out.values()[before:])


def owner(key: str, parallelism: int) -> int:
    return subtask_of(key_group(hash_key(key), 128), 128, parallelism)


def owner_of_columns(key: str, parallelism: int) -> int:
    return subtask_of(int(key_groups(hash_columns([pa.array([key])]), 128)[0]), 128, parallelism)


@pytest.mark.parametrize("ttl", [NEVER, BY_READS, SHOWN, SWEPT], ids=["never", "by reads", "shown", "swept"])
@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_of_a_reducing_state_with_the_same_time_to_live(ttl: StateTtlConfig, seed: int) -> None:
    rng = random.Random(seed)
    mine, other = [start(totals(ttl))], [start(function(ttl))]
    now = 0
    for step in range(40):
        now += rng.choice([1, 400, 600, 999, 1000])
        for running in (*mine, *other):
            running.clock.ms = now
        rows = [(f"key{rng.randrange(40)}", rng.randrange(-5, 100)) for _ in range(rng.randrange(1, 30))]
        found, expected = dict[str, Any](), dict[str, Any]()
        for subtask, (one, like) in enumerate(zip(mine, other, strict=True)):
            found |= feed(one, [row for row in rows if owner_of_columns(row[0], len(mine)) == subtask])
            expected |= feed_function(like, [row for row in rows if owner(row[0], len(mine)) == subtask])
        assert found == expected, f"step {step} at {now} ms"
        if step % 12 == 11 and ttl is not SHOWN:  # a restore cleans up, at a time that each chooses
            store, parallelism = MemoryStore(), rng.choice([1, 2, 3])
            taken = restored_of([running.snapshot(store=store) for running in mine])
            likes = restored_of([running.snapshot(store=store) for running in other])
            mine = [start(totals(ttl), n, parallelism, taken, now_ms=now) for n in range(parallelism)]
            other = [start(function(ttl), n, parallelism, likes, now_ms=now) for n in range(parallelism)]


def test_a_key_lives_until_its_time_is_over_and_then_begins_anew() -> None:
    running = start(totals(NEVER), now_ms=5)
    assert feed(running, [("a", 7), ("b", 1)]) == {"a": (1, 7, 7), "b": (1, 1, 1)}
    running.clock.ms += TTL - 1
    assert feed(running, [("a", 3)]) == {"a": (2, 10, 3)}
    running.clock.ms += 1
    assert feed(running, [("a", 1), ("b", 2)]) == {"a": (3, 11, 1), "b": (1, 2, 2)}


def test_what_is_not_cleaned_up_may_be_shown() -> None:
    running = start(totals(SHOWN))
    feed(running, [("a", 7)])
    running.clock.ms += 100 * TTL
    assert feed(running, [("a", 1)]) == {"a": (2, 8, 1)}


def state_of(running: Running) -> Any:
    assert isinstance(running.operator, ColumnarAggregate)
    return running.operator.state


def test_keys_that_come_and_go_need_no_more_memory() -> None:
    running = start(totals(SWEPT))
    most = 0
    for turn in range(60):
        running.clock.ms += TTL // 2
        keys = [f"{'x' * (n % 23)}-{turn}-{n}" for n in range(300)]
        assert feed(running, [(key, turn) for key in keys]) == dict.fromkeys(keys, (1, turn, turn))
        most = max(most, len(state_of(running).rows))
    assert most <= 1200, "three turns are alive, and one is to be found"
    assert state_of(running).rows.table.used_slots < 3000, "of 18,000 keys"


def test_a_snapshot_that_is_under_way_keeps_the_rows_that_others_would_take() -> None:
    running = start(totals(SWEPT))
    first = [(f"a{n}", n) for n in range(200)]
    feed(running, first)
    running.clock.ms += TTL - 1
    frozen = running.operator.freeze(1)
    assert frozen is not None
    running.clock.ms += 1
    feed(running, [("z", 0)])  # finds that all have expired
    feed(running, [(f"b{n}", n) for n in range(200)])
    store = MemoryStore()
    taken = restored_of([frozen.write(store)])
    frozen.release()
    again = start(totals(NEVER), restored=taken, now_ms=TTL - 1)
    assert feed(again, first) == {key: (2, 2 * n, n) for key, n in first}
    assert feed(running, [("b7", 1), ("a7", 7)]) == {"b7": (2, 8, 1), "a7": (1, 7, 7)}


def test_whole_snapshots_leave_out_what_has_expired_and_increments_bring_nothing_back() -> None:
    running, store = start(totals(NEVER)), MemoryStore()
    context = running.operator.context
    context.checkpoint_options = CheckpointOptions("chk", shared_location="shared")
    feed(running, [(f"old{n}", n) for n in range(500)])
    running.snapshot(1, store)
    running.operator.notify_checkpoint_complete(1)
    running.clock.ms += TTL - 1
    feed(running, [("old1", 1), ("new", 5)])
    taken = restored_of([running.snapshot(2, store)])
    assert {segment.level for segment in taken.keyed} >= {0, 1}
    again = start(totals(NEVER), restored=taken, now_ms=TTL)
    assert len(state_of(again).rows) == 2
    assert feed(again, [("old1", 1), ("old2", 2), ("new", 1)]) == {
        "old1": (3, 3, 1), "old2": (1, 2, 2), "new": (2, 6, 1),
    }  # fmt: skip
    running.clock.ms += 1
    context.checkpoint_options = None
    whole = restored_of([running.snapshot(3, store)])
    later = start(totals(NEVER), restored=whole, now_ms=0)
    assert len(state_of(later).rows) == 2, "nothing else was written"


def test_a_time_to_live_may_be_added_and_taken_away_at_a_restore() -> None:
    store = MemoryStore()
    without = start(totals(None))
    feed(without, [("a", 1)])
    taken = restored_of([without.snapshot(1, store)])
    running = start(totals(NEVER), restored=taken, now_ms=50_000)
    running.clock.ms += TTL - 1
    assert feed(running, [("a", 1)]) == {"a": (2, 2, 1)}, "its time begins at the restore"
    last = restored_of([running.snapshot(2, store)])
    forever = start(totals(None), restored=last, now_ms=10**9)
    assert feed(forever, [("a", 1)]) == {"a": (3, 3, 1)}


def test_the_check_of_a_savepoint_says_what_becomes_of_the_times() -> None:
    def said(stored: StateTtlConfig | None, wanted: StateTtlConfig | None) -> str:
        running, store = start(totals(stored)), MemoryStore()
        feed(running, [("a", 1)])
        content = running.snapshot(1, store).keyed[0].handle.data
        schema = pa.ipc.open_file(content).schema
        [verdict] = examine_states(totals(wanted), [StoredState("aggregates", "columnar_keyed", None, schema)])
        assert verdict.outcome is StateOutcome.RESTORES
        return verdict.text

    assert said(None, NEVER) == "time-to-live: on from now on, counted from the restore"
    assert said(NEVER, None) == "time-to-live: off from now on"
    assert said(NEVER, NEVER) == ""
