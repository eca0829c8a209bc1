"""Look-ups of keys: what clients send, what they get, on both backends and for every kind of state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.columnar.keys.hashing import key_groups
from tidegate.common import Time
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tidegate.model.errors import CorruptFrame, InvalidJob, Misuse, SchemaMismatch, StateNotServed
from tidegate.model.keygroups import KeyGroupRange
from tidegate.records.canonical.forms import canonical_key
from tidegate.records.keys import hash_keys
from tidegate.records.record_codec import decode_column, encode_column
from tidegate.records.type_document import types_from_json
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.backends import BackendPlace, open_keyed_backend
from tidegate.taskmanager.keyed_state.handles import StateStore
from tidegate.taskmanager.keyed_state.queryable import QueryableState
from tidegate.wire.kv_state_columns import values_of, write_keys

GROUPS = 16


def backend_of(kind: str, directory: Path, key_type: TypeInformation | None, last: int = GROUPS - 1) -> KeyedBackend:
    place = BackendPlace({"state.backend.type": kind}, str(directory), 0, 0, None, lambda: 0)
    return open_keyed_backend(place, "count", KeyGroupRange(0, last), key_type)


def published(backend: KeyedBackend, descriptor: StateDescriptor) -> tuple[Any, QueryableState]:
    found: list[QueryableState] = []
    backend.publish = found.append
    descriptor.set_queryable("asked")
    handle = StateStore(backend).of(descriptor)
    (state,) = found
    return handle, state


def set_key(backend: KeyedBackend, key: Any) -> None:
    backend.set_current(canonical_key(key), int(key_groups(hash_keys([key]), GROUPS)[0]))


def ask(state: QueryableState, keys: list[Any], key_type: TypeInformation | None = None) -> list[Any]:
    key_type = key_type or state.key_type
    question = write_keys(encode_column(key_type, keys, "test"), key_type.arrow_field("key"))
    batch = values_of(state.answer(question, GROUPS))
    found: list[Any] = [None] * len(keys)
    for row, value in zip(batch["row"].to_pylist(), decode_column(state.value_type, batch["value"]), strict=True):
        found[row] = value
    return found


@pytest.fixture(params=["hashmap", "rocksdb"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_values_of_keys_that_have_one(kind: str, tmp_path: Path) -> None:
    backend = backend_of(kind, tmp_path, Types.LONG())
    handle, state = published(backend, ValueStateDescriptor("count", Types.STRING()))
    for key in range(100):
        set_key(backend, key)
        handle.update(f"value {key}")
    set_key(backend, 55)
    assert ask(state, [7, 4711, 99, 7]) == ["value 7", None, "value 99", "value 7"]
    assert backend.key == 55, "a look-up leaves the current key as it is"
    assert ask(state, []) == []
    assert types_from_json(state.types(), 2) == [Types.LONG(), Types.STRING()]
    backend.close()


def test_lists_maps_and_reduced_values(kind: str, tmp_path: Path) -> None:
    backend = backend_of(kind, tmp_path, Types.STRING())
    elements, of_list = published(backend, ListStateDescriptor("elements", Types.LONG()))
    items, of_map = published(backend, MapStateDescriptor("items", Types.STRING(), Types.LONG()))
    total, of_total = published(backend, ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG()))
    set_key(backend, "a")
    elements.add_all([1, 2, 3])
    items.put_all({"x": 1, "y": 2})
    total.add(4)
    total.add(5)
    assert ask(of_list, ["a", "b"]) == [[1, 2, 3], None]
    assert ask(of_map, ["b", "a"]) == [None, {"x": 1, "y": 2}]
    assert ask(of_total, ["a"]) == [9]
    elements.add(4)
    assert ask(of_list, ["a"]) == [[1, 2, 3, 4]], "the live value"
    backend.close()


def test_keys_of_several_fields_and_keys_without_a_type(kind: str, tmp_path: Path) -> None:
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    backend = backend_of(kind, tmp_path / "pairs", pair)
    handle, state = published(backend, ValueStateDescriptor("count", Types.LONG()))
    set_key(backend, ("UA", 7))
    handle.update(1)
    assert ask(state, [("UA", 7), ("UA", 8)]) == [1, None]
    backend.close()
    untyped = backend_of(kind, tmp_path / "untyped", None)
    handle, state = published(untyped, ValueStateDescriptor("count", Types.PICKLED_BYTE_ARRAY()))
    for key in (("UA", 7), 7, "7"):
        set_key(untyped, key)
        handle.update({"of": key})
    assert ask(state, [7, "7", ("UA", 7), 8]) == [{"of": 7}, {"of": "7"}, {"of": ("UA", 7)}, None]
    untyped.close()


class _Runs:
    """Would run when it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("it-ran"),))


def test_what_a_client_pickles_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    backend = backend_of("hashmap", tmp_path, None)
    _, state = published(backend, ValueStateDescriptor("count", Types.LONG()))
    with pytest.raises(Misuse, match="no declared type, so a client may ask for numbers"):
        ask(state, [_Runs()])
    assert not (tmp_path / "it-ran").exists()
    nested = backend_of("hashmap", tmp_path, Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()]))
    _, state = published(nested, ValueStateDescriptor("count", Types.LONG()))
    with pytest.raises(Misuse, match="parts without a declared type"):
        ask(state, [(1, _Runs())])
    assert not (tmp_path / "it-ran").exists()


def test_keys_that_cannot_be_answered(tmp_path: Path) -> None:
    backend = backend_of("hashmap", tmp_path, Types.LONG(), last=0)
    _, state = published(backend, ValueStateDescriptor("count", Types.LONG()))
    with pytest.raises(SchemaMismatch, match="keys of state 'asked' are of type LONG, not large_string|not string"):
        ask(state, ["a"], Types.STRING())
    with pytest.raises(StateNotServed, match="this subtask serves key groups 0 to 0"):
        ask(state, list(range(50)))
    for content in (b"", b"nothing", write_keys(pa.array([1]), pa.field("x", pa.int64()))[:-9]):
        with pytest.raises(CorruptFrame):
            state.answer(content, GROUPS)


def test_what_cannot_be_queryable(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match="is empty"):
        ValueStateDescriptor("count", Types.LONG()).set_queryable("")
    twice = ValueStateDescriptor("count", Types.LONG())
    twice.set_queryable("a")
    twice.set_queryable("a")
    with pytest.raises(InvalidJob, match="queryable as 'a' already, not as 'b'"):
        twice.set_queryable("b")
    ttl = StateTtlConfig.new_builder(Time.seconds(1)).build()
    with pytest.raises(InvalidJob, match="time-to-live is not supported"):
        twice.enable_time_to_live(ttl)
    expires = ValueStateDescriptor("count", Types.LONG())
    expires.enable_time_to_live(ttl)
    with pytest.raises(InvalidJob, match="time-to-live is not supported"):
        expires.set_queryable("a")
    backend = backend_of("hashmap", tmp_path, Types.LONG())
    with pytest.raises(InvalidJob, match="state 'count' belongs to a window"):
        StateStore(backend, windowed=True).of(twice)
