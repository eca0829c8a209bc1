"""The same keys are one key with every backend, as key of a stream, of a timer, of a window, of a MapState and of broadcast state, before a checkpoint
and after a restore on the other backend. Which keys are equal is in ``tests/unit/tidegate/records/canonical/test_forms.py``."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.tidegate.records.canonical.test_forms import (
    EAST,
    EVERY,
    MOMENT,
    D,
    MyInt,
    MyStr,
    Number,
    P,
    Plain,
    WithEq,
)
from tidegate.common import Row, Time, Types
from tidegate.datastream import DataStream, KeyedBroadcastProcessFunction, KeyedProcessFunction, ProcessWindowFunction
from tidegate.datastream.aggregates import count
from tidegate.datastream.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.records.canonical.forms import canonical_key
from tidegate.records.keys import hash_key
from tidegate.taskmanager.harness.operators import HarnessSnapshot, OperatorHarness

LONG, ANY = Types.LONG(), Types.PICKLED_BYTE_ARRAY()
BACKENDS = ("hashmap", "rocksdb")
SOME = [1, True, 1.0, Decimal(1), Decimal("1.0"), MyInt(1), Number.ONE, np.int64(1), 0.0, -0.0, math.nan, -math.nan, (math.nan,), (-math.nan,),
        ((1, True),), ((1, 1),), "a", MyStr("a"), b"a", D(1), D(True), WithEq(1), WithEq(1), P(1, 2), (1, 2), [1, 2], Row(1, 2), Row(x=1, y=2),
        MOMENT, MOMENT.astimezone(EAST), None, 1]  # fmt: skip
OF_MAPS = [key for key in SOME if key is not None]
"""No map has the key ``None``."""


def on(backend: str) -> dict[str, str]:
    return {"state.backend.type": backend}


def counted(keys: list[Any]) -> list[int]:
    """What a count for each key gives, by the forms of the keys."""
    seen: dict[Any, int] = {}
    found = []
    for key in keys:
        form = canonical_key(key)
        seen[form] = seen.get(form, 0) + 1
        found.append(seen[form])
    return found


class Count(KeyedProcessFunction):
    def __init__(self, keys: list[Any]) -> None:
        self._keys = keys

    def open(self, runtime_context: Any) -> None:
        self.n = runtime_context.get_state(ValueStateDescriptor("n", LONG))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key = ctx.get_current_key()
        assert canonical_key(key) == canonical_key(self._keys[value]), "the function sees the key"
        self.n.update((self.n.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10)
        yield self.n.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ("timer", hash_key(ctx.get_current_key()), type(ctx.get_current_key()).__name__, self.n.value())


def counting(keys: list[Any]) -> Any:
    return lambda s: s.key_by(lambda i: keys[i]).process(Count(keys), ANY)


@pytest.mark.parametrize("last", BACKENDS)
@pytest.mark.parametrize("first", BACKENDS)
def test_counts_and_timers_of_keys_are_those_of_their_forms_also_after_a_restore(first: str, last: str) -> None:
    keys = SOME + [key for key in EVERY if not isinstance(key, type) and "Local" not in repr(key)]
    keys += random.Random(1).sample(keys, len(keys))
    half = len(keys) // 2
    with OperatorHarness(counting(keys), LONG, configuration=on(first)) as harness:
        harness.push_all(range(half))
        assert harness.take() == counted(keys[:half])
        snapshot = harness.snapshot()
    with OperatorHarness(counting(keys), LONG, configuration=on(last), restore=snapshot) as again:
        again.push_all(range(half, len(keys)))
        assert again.take() == counted(keys)[half:]
        again.push_watermark(10)
        fired = again.take()
    of_form: dict[Any, tuple[Any, int]] = {}
    for key in keys:
        form = canonical_key(key)
        of_form[form] = (key, of_form.get(form, (key, 0))[1] + 1)
    assert len(fired) == len(of_form), "one timer for each key"
    assert sorted((code, n) for _, code, _, n in fired) == sorted((hash_key(key), n) for key, n in of_form.values())


class Kept(KeyedProcessFunction):
    """Counts keys of a map; a record is its place."""

    def __init__(self, keys: list[Any], descriptor: MapStateDescriptor) -> None:
        self._keys, self._descriptor = keys, descriptor

    def open(self, runtime_context: Any) -> None:
        self.map = runtime_context.get_map_state(self._descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value == -1:
            yield sorted((hash_key(key), type(key).__name__, n) for key, n in self.map.items())
            assert len(list(self.map.keys())) == len(list(self.map.values()))
            return
        key = self._keys[value]
        assert self.map.contains(key) == (self.map.get(key) is not None)
        self.map.put(key, (self.map.get(key) or 0) + 1)
        yield self.map.get(key)
        if value % 3 == 0 and not isinstance(key, list):
            self.map.put_all({key: self.map.get(key)})
        if self._descriptor.key_type_info == ANY:
            assert any(canonical_key(key) == canonical_key(other) for other in self.map.keys())  # noqa: SIM118


def descriptor_of(key_type: Any, *, expires: bool) -> MapStateDescriptor:
    found = MapStateDescriptor("map", key_type, LONG)
    if expires:
        found.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return found


def keeping(keys: list[Any], descriptor: MapStateDescriptor) -> Any:
    return lambda s: s.key_by(lambda _: 0, LONG).process(Kept(keys, descriptor), ANY)


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("last", BACKENDS)
@pytest.mark.parametrize("first", BACKENDS)
def test_keys_of_a_map_are_those_of_a_stream(first: str, last: str, expires: bool) -> None:
    keys = OF_MAPS * 2
    piece = keeping(keys, descriptor_of(ANY, expires=expires))
    with OperatorHarness(piece, LONG, configuration=on(first)) as harness:
        harness.push_all(range(len(OF_MAPS)))
        assert harness.take() == counted(OF_MAPS)
        harness.push(-1)
        (shown,) = harness.take()
        snapshot = harness.snapshot()
    with OperatorHarness(piece, LONG, configuration=on(last), restore=snapshot) as again:
        again.push(-1)
        assert again.take() == [shown]
        again.push_all(range(len(OF_MAPS), len(keys)))
        assert again.take() == counted(keys)[len(OF_MAPS) :]


@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_of_a_map_with_a_type_are_of_that_type(backend: str) -> None:
    """PyFlink 2.3, recorded: 1.0 and Decimal(1) are 1 for Types.LONG(), 1 is 1.0 for Types.DOUBLE()."""
    for key_type, keys in (
        (LONG, [1, 1.0, np.int64(1)]),
        (Types.DOUBLE(), [1.0, 1, np.float64(1)]),
        (Types.FLOAT(), [0.1, 0.1000000001]),
        (Types.TUPLE([LONG, Types.STRING()]), [(1, "a"), (1.0, "a"), [1, "a"]]),
        (Types.SQL_DATE(), [dt.date(2024, 1, 1), dt.date(2024, 1, 1)]),
        (Types.SQL_TIMESTAMP(), [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, fold=1)]),
    ):
        piece = keeping(keys, descriptor_of(key_type, expires=False))
        with OperatorHarness(piece, LONG, configuration=on(backend)) as harness:
            harness.push_all(range(len(keys)))
            assert harness.take() == list(range(1, len(keys) + 1))
    with (
        OperatorHarness(keeping(["a"], descriptor_of(LONG, expires=False)), LONG, configuration=on(backend)) as harness,
        pytest.raises(SchemaMismatch, match="operator 'KEYED PROCESS', state 'map', key: .* does not fit type Long"),
    ):
        harness.push(0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_object_without_equality_is_refused_as_a_key_and_as_a_key_of_a_map(backend: str) -> None:
    with OperatorHarness(counting([Plain(1)]), LONG, configuration=on(backend)) as harness:
        with pytest.raises(
            InvalidJob, match=r"operator 'KEYED PROCESS', key selector: .*class Plain.*frozen dataclass"
        ) as told:
            harness.push(0)
        assert not told.value.retriable
    piece = keeping([Plain(1)], descriptor_of(ANY, expires=False))
    with (
        OperatorHarness(piece, LONG, configuration=on(backend)) as harness,
        pytest.raises(InvalidJob, match="operator 'KEYED PROCESS', state 'map': .*class Plain"),
    ):
        harness.push(0)


RULES = MapStateDescriptor("rules", ANY, LONG)


class Ruled(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        state = ctx.get_broadcast_state(RULES)
        yield [state.get(key) for key in OF_MAPS]
        assert len(list(state.keys())) == len({canonical_key(key) for key in OF_MAPS})

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        state = ctx.get_broadcast_state(RULES)
        state.put(OF_MAPS[value], (state.get(OF_MAPS[value]) or 0) + 1)
        yield from ()


def test_keys_of_broadcast_state_are_those_of_a_stream() -> None:
    def piece(records: DataStream, rules: DataStream) -> DataStream:
        keyed = records.key_by(lambda value: value, LONG)
        return keyed.connect(rules.broadcast(RULES)).process(Ruled(), ANY)

    totals: dict[Any, int] = {}
    for key in OF_MAPS:
        totals[canonical_key(key)] = totals.get(canonical_key(key), 0) + 1
    expected = [totals[canonical_key(key)] for key in OF_MAPS]
    with OperatorHarness(piece, LONG, LONG) as harness:
        harness.push_all(range(len(OF_MAPS)), input=1)
        harness.push(1)
        assert harness.take() == [expected]
        snapshot = harness.snapshot()
    with OperatorHarness(piece, LONG, LONG, restore=snapshot) as again:
        again.push(1)
        assert again.take() == [expected]


class OfKey(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield hash_key(key), len(list(elements))


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_have_the_same_keys(backend: str) -> None:
    def piece(stream: DataStream) -> DataStream:
        return stream.key_by(lambda i: SOME[i]).window(TumblingEventTimeWindows.of(10)).process(OfKey(), ANY)

    sizes: dict[Any, list[int]] = {}
    for key in SOME:
        sizes.setdefault(canonical_key(key), [hash_key(key), 0])[1] += 1
    with OperatorHarness(piece, LONG, configuration=on(backend)) as harness:
        harness.push_all(range(len(SOME)), [1] * len(SOME))
        harness.push_watermark(10)
        assert sorted(harness.take()) == sorted(map(tuple, sizes.values()))


FLOATS = [0.0, -0.0, math.nan, -math.nan, math.inf - math.inf, 1.0, None, 1.0, -0.0]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_columns_have_the_same_keys_as_records(kind: pa.DataType) -> None:
    schema = Types.SCHEMA(pa.schema([("k", kind), ("v", pa.int64())]))
    with OperatorHarness(lambda s: s.key_by("k").agg(count().alias("n")), schema) as harness:
        harness.push_all([Row(k=key, v=1) for key in FLOATS])
        by_columns = sorted(row.n for row in harness.take())
        snapshot = harness.snapshot()
    with OperatorHarness(lambda s: s.key_by("k").agg(count().alias("n")), schema, restore=snapshot) as again:
        again.push_all([Row(k=-0.0, v=1), Row(k=-math.nan, v=1)])
        assert sorted(row.n for row in again.take()) == [3, 4]
    with OperatorHarness(counting(FLOATS), LONG) as harness:
        harness.push_all(range(len(FLOATS)))
        by_records = counted(FLOATS)
        assert harness.take() == by_records
    totals: dict[Any, int] = {}
    for key in FLOATS:
        totals[canonical_key(key)] = totals.get(canonical_key(key), 0) + 1
    assert by_columns == sorted(totals.values()) == [1, 1, 2, 2, 3]


class Old(KeyedProcessFunction):
    """Writes entries as the heap of an earlier version kept them."""

    def open(self, runtime_context: Any) -> None:
        self.n = runtime_context.get_state(ValueStateDescriptor("n", LONG))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.n.update(value)
        yield value


def test_two_entries_that_are_one_key_now_are_refused_and_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier version kept ((nan,),) twice on the heap."""
    keys = [((math.nan,),), ((float("nan"),),)]
    piece = lambda s: s.key_by(lambda i: keys[i]).process(Old(), LONG)  # noqa: E731
    with monkeypatch.context() as before:
        before.setattr("tidegate.taskmanager.operators.rows.keyed.canonical_keys", list)
        with OperatorHarness(piece, LONG) as harness:
            harness.push_all([0, 1])
            snapshot: HarnessSnapshot = harness.snapshot()
    for backend in BACKENDS:
        with pytest.raises(
            SchemaMismatch,
            match=r"state 'n' cannot be restored: an earlier version kept two entries of the key \(\(nan,\),\)",
        ):
            OperatorHarness(piece, LONG, restore=snapshot, configuration=on(backend))


def test_state_of_objects_without_equality_is_refused_at_a_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [Plain(1)]
    piece = lambda s: s.key_by(lambda i: keys[i]).process(Old(), LONG)  # noqa: E731
    with monkeypatch.context() as before:
        before.setattr("tidegate.taskmanager.operators.rows.keyed.canonical_keys", list)
        with OperatorHarness(piece, LONG) as harness:
            harness.push(0)
            snapshot = harness.snapshot()
    with pytest.raises(InvalidJob, match="state 'n' cannot be restored: .*class Plain"):
        OperatorHarness(piece, LONG, restore=snapshot)
