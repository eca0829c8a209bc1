"""State that expires, with a clock that is moved by hand: every kind of state, every way of renewal, sight and cleanup."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, start
from tests.unit.taskmanager.operators.keyed_kit import MeanAggregate, keyed
from tidegate.common.time import Duration, Time
from tidegate.common.typeinfo import Types
from tidegate.functions.interfaces import KeyedContext, KeyedProcessFunction, RuntimeContext
from tidegate.functions.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tidegate.model.errors import InvalidJob

TTL = 1000


class Act(KeyedProcessFunction):
    """A record is (key, what to do with the states)."""

    def __init__(self, config: StateTtlConfig | None) -> None:
        self.config = config

    def open(self, runtime_context: RuntimeContext) -> None:
        value = ValueStateDescriptor("value", Types.LONG())
        elements = ListStateDescriptor("list", Types.LONG())
        entries = MapStateDescriptor("map", Types.STRING(), Types.LONG())
        total = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
        mean = AggregatingStateDescriptor("mean", MeanAggregate(), Types.PICKLED_BYTE_ARRAY())
        for descriptor in (value, elements, entries, total, mean):
            if self.config is not None:
                descriptor.enable_time_to_live(self.config)
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(elements)
        self.map = runtime_context.get_map_state(entries)
        self.sum = runtime_context.get_reducing_state(total)
        self.mean = runtime_context.get_aggregating_state(mean)

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
        return [value[1](self)]


class Job:
    def __init__(self, config: StateTtlConfig | None, backend: str, restored: Any = None, now_ms: int = 0) -> None:
        self.running: Running = start(
            keyed(func=Act(config)),
            restored=restored,
            configuration={"state.backend.type": backend},
            now_ms=now_ms,
        )

    def at(self, ms: int, act: Callable[[Act], Any], key: str = "a") -> Any:
        self.running.clock.ms = ms
        self.running.feed([(key, act)])
        return self.running.out.values()[-1]

    def stored(self, state: str) -> list[dict[str, Any]]:
        """What a snapshot holds of a state, without what it is kept beside."""
        store = MemoryStore()
        snapshot = self.running.snapshot(1, store)
        found: list[dict[str, Any]] = []
        for segment in snapshot.keyed:
            if segment.state_name == state:
                found += pa.ipc.open_file(store.read(segment.handle)).read_all().to_pylist()
        return [{k: v for k, v in row.items() if k in ("value", "ttl_ms")} for row in found]


def builder() -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Time.milliseconds(TTL)).disable_cleanup_in_background()


BACKENDS = ["hashmap", "rocksdb"]
backends = pytest.mark.parametrize("backend", BACKENDS)


@backends
def test_a_value_is_seen_until_its_time_is_over_and_writing_renews_it(backend: str) -> None:
    job = Job(builder().build(), backend)
    job.at(0, lambda s: s.value.update(1))
    assert job.at(999, lambda s: s.value.value()) == 1
    assert job.at(1000, lambda s: s.value.value()) is None
    job.at(1001, lambda s: s.value.update(2))
    job.at(1500, lambda s: s.value.update(3))
    assert job.at(2499, lambda s: s.value.value()) == 3
    assert job.at(2500, lambda s: s.value.value()) is None
    assert job.stored("value") == []


@backends
def test_reading_renews_when_so_configured(backend: str) -> None:
    job = Job(builder().update_ttl_on_read_and_write().build(), backend)
    job.at(0, lambda s: (s.value.update(1), s.list.add(1), s.map.put("x", 1), s.sum.add(1)))
    look = lambda s: (s.value.value(), list(s.list.get()), s.map.get("x"), s.sum.get())  # noqa: E731
    assert job.at(900, look) == (1, [1], 1, 1)
    assert job.at(1800, look) == (1, [1], 1, 1)
    assert job.at(2700, lambda s: s.map.contains("x")) is True
    assert job.at(2800, look) == (None, [], 1, None)


@backends
def test_elements_and_entries_expire_one_by_one(backend: str) -> None:
    job = Job(builder().build(), backend)
    job.at(0, lambda s: (s.list.add(1), s.map.put("x", 1)))
    job.at(600, lambda s: (s.list.add_all([2, 3]), s.map.put_all({"y": 2, "z": 3})))
    assert job.at(1200, lambda s: list(s.list)) == [2, 3]
    assert job.at(1200, lambda s: dict(s.map.items())) == {"y": 2, "z": 3}
    assert job.stored("list") == [{"value": [2, 3], "ttl_ms": [600, 600]}]
    assert job.at(1300, lambda s: (s.map.contains("x"), s.map.get("y"), s.map.is_empty())) == (False, 2, False)
    job.at(1400, lambda s: (s.map.put("y", 5), s.map.remove("z")))
    assert job.stored("map") == [{"value": [("y", 5)], "ttl_ms": [1400]}]
    assert job.at(2400, lambda s: (s.map.is_empty(), list(s.list), list(s.map.keys()))) == (True, [], [])
    assert job.stored("map") == job.stored("list") == []


@backends
def test_what_is_added_to_an_expired_sum_begins_anew(backend: str) -> None:
    job = Job(builder().build(), backend)
    job.at(0, lambda s: (s.sum.add(5), s.mean.add(("a", 4))))
    job.at(900, lambda s: (s.sum.add(6), s.mean.add(("a", 8))))
    assert job.at(1800, lambda s: (s.sum.get(), s.mean.get())) == (11, 6.0)
    job.at(1900, lambda s: (s.sum.add(1), s.mean.add(("a", 1))))
    assert job.at(1901, lambda s: (s.sum.get(), s.mean.get())) == (1, 1.0)


@backends
def test_what_has_expired_is_shown_once_when_so_configured(backend: str) -> None:
    job = Job(builder().return_expired_if_not_cleaned_up().build(), backend)
    job.at(0, lambda s: (s.value.update(1), s.list.add(1), s.map.put("x", 1)))
    look = lambda s: (s.value.value(), list(s.list), dict(s.map.items()))  # noqa: E731
    assert job.at(5000, look) == (1, [1], {"x": 1})
    assert job.at(5000, look) == (None, [], {})


@backends
def test_what_may_be_shown_is_added_to_as_long_as_it_is_there(backend: str) -> None:
    """As in Flink's ``TtlReduceFunction`` and ``TtlAggregateFunction``, which ask for the unexpired value alike."""
    job = Job(builder().return_expired_if_not_cleaned_up().build(), backend)
    job.at(0, lambda s: (s.sum.add(1), s.mean.add(("a", 2.0))))
    job.at(5000, lambda s: (s.sum.add(10), s.mean.add(("a", 4.0))))
    assert job.at(5000, lambda s: (s.sum.get(), s.mean.get())) == (11, 3.0)


@backends
def test_a_full_snapshot_leaves_out_what_has_expired_only_when_so_configured(backend: str) -> None:
    for config, expected in ((builder().build(), 1), (builder().cleanup_full_snapshot().build(), 0)):
        job = Job(config, backend)
        job.at(0, lambda s: (s.value.update(1), s.list.add(1), s.map.put("x", 1)))
        job.at(5000, lambda s: s.value.value(), key="b")
        assert [len(job.stored(name)) for name in ("value", "list", "map")] == [expected] * 3


@backends
@pytest.mark.parametrize("every_record", [False, True])
def test_accesses_of_other_keys_clean_up_in_steps(backend: str, every_record: bool) -> None:
    config = StateTtlConfig.new_builder(Duration.of_millis(TTL)).cleanup_incrementally(2, every_record).build()
    job = Job(config, backend)
    for i in range(20):
        job.at(0, lambda s: (s.value.update(1), s.list.add(1), s.map.put("x", 1)), key=f"k{i}")
    assert len(job.stored("value")) == 20
    left = []
    for i in range(24):
        job.at(2000 + i, (lambda s: None) if every_record else (lambda s: s.value.value()), key="other")
        left.append(len(job.stored("value")))
    assert left[0] >= 16
    assert len(set(left)) > 2
    assert left[-1] == 0
    assert len(job.stored("list")) == (0 if every_record else 20)


@backends
def test_time_goes_on_over_a_restore_and_can_be_switched_on_and_off(backend: str) -> None:
    act = lambda s: (s.value.update(1), s.list.add(1), s.map.put("x", 1))  # noqa: E731
    look = lambda s: (s.value.value(), list(s.list), dict(s.map.items()))  # noqa: E731
    everything: Any = (1, [1], {"x": 1})
    nothing: Any = (None, [], {})
    job = Job(builder().build(), backend)
    job.at(100, act)
    snapshot = restored_of([job.running.snapshot()])
    again = Job(builder().build(), backend, snapshot, now_ms=500)
    assert again.at(1099, look) == everything
    assert again.at(1100, look) == nothing
    for_ever = Job(None, backend, snapshot, now_ms=500)
    assert for_ever.at(9999, look) == everything
    from_now = Job(builder().build(), backend, restored_of([for_ever.running.snapshot()]), now_ms=20_000)
    assert from_now.at(20_999, look) == everything
    assert from_now.at(21_000, look) == nothing


def test_a_time_to_live_must_be_positive() -> None:
    with pytest.raises(InvalidJob, match="longer than 0 ms"):
        StateTtlConfig.new_builder(Time.seconds(0))
    with pytest.raises(InvalidJob, match="at least one entry"):
        builder().cleanup_incrementally(0)


def test_disabled_means_that_nothing_expires() -> None:
    config = builder().set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    job = Job(config, "hashmap")
    job.at(0, lambda s: s.value.update(1))
    assert job.at(99_999, lambda s: s.value.value()) == 1
    assert job.stored("value") == [{"value": 1}]
