"""Stored columns read as other types: what is allowed loses nothing, what is refused names column and types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.model.errors import InvalidJob
from tidegate.records.column_widening import is_widening
from tidegate.records.schema_evolution import Evolution, Refusal, evolve


def schema(value: TypeInformation, key: TypeInformation | None = None) -> pa.Schema:
    return pa.schema([(key or Types.LONG()).arrow_field("key"), value.arrow_field("value")])


def evolved(old: TypeInformation, new: TypeInformation, values: list[Any]) -> tuple[list[Any], tuple[str, ...]]:
    before = schema(old)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(values)), pa.int64()), pa.array(values, before.field("value").type)], schema=before
    )
    plan = evolve(before, schema(new))
    assert isinstance(plan, Evolution), plan
    whole = plan.apply(batch).column("value")
    whole.validate(full=True)
    for start in range(len(values)):  # what is cut out of a batch is converted like the whole
        assert plan.apply(batch.slice(start)).column("value").to_pylist() == whole.to_pylist()[start:]
    return whole.to_pylist(), plan.changes


def refused(old: TypeInformation, new: TypeInformation) -> str:
    plan = evolve(schema(old), schema(new))
    assert isinstance(plan, Refusal), plan
    return "\n".join(plan.reasons)


USER = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def test_the_same_type_changes_nothing() -> None:
    values = [{"name": "a", "age": 1}, None, {"name": None, "age": None}]
    assert evolved(USER, USER, values) == (values, ())


def test_fields_are_added_dropped_widened_and_moved_by_name() -> None:
    new = Types.ROW_NAMED(["city", "age", "score"], [Types.STRING(), Types.LONG(), Types.DOUBLE()], {"city": "nowhere"})
    found, changes = evolved(USER, new, [{"name": "a", "age": 1}, None, {"name": "b", "age": None}])
    assert found == [
        {"city": "nowhere", "age": 1, "score": None},
        None,
        {"city": "nowhere", "age": None, "score": None},
    ]
    assert changes == (
        "value.name: dropped",
        "value.city: added, 'nowhere'",
        "value.age: widened from int32 to int64",
        "value.score: added, null",
    )


def test_elements_of_lists_and_maps_evolve_too() -> None:
    new = Types.ROW_NAMED(["name"], [Types.STRING()])
    rows = [[{"name": "a", "age": 1}], None, [], [{"name": "b", "age": 2}, None]]
    assert evolved(Types.LIST(USER), Types.LIST(new), rows)[0] == [[{"name": "a"}], None, [], [{"name": "b"}, None]]
    maps: list[Any] = [[("x", {"name": "a", "age": 1})], None, [], [("y", None), ("z", {"name": "b", "age": 2})]]
    found = evolved(Types.MAP(Types.STRING(), USER), Types.MAP(Types.STRING(), new), maps)[0]
    assert found == [[("x", {"name": "a"})], None, [], [("y", None), ("z", {"name": "b"})]]


def test_every_refusal_names_column_old_and_new_type() -> None:
    assert refused(Types.LONG(), Types.INT()) == (
        "value: stored as int64, the job declares int32, which does not hold all of it"
    )
    assert "value: stored as string, the job declares int64" in refused(Types.STRING(), Types.LONG())
    assert "value: stored as pickled objects, the job declares int64" in refused(
        Types.PICKLED_BYTE_ARRAY(), Types.LONG()
    )
    wrong = Types.ROW_NAMED(["name", "age"], [Types.LONG(), Types.FLOAT()])
    assert [line.split(":")[0] for line in refused(USER, wrong).splitlines()] == ["value.name", "value.age"]


def test_numbered_fields_are_widened_but_neither_added_nor_dropped() -> None:
    pair, triple = Types.TUPLE([Types.INT(), Types.INT()]), Types.TUPLE([Types.INT(), Types.INT(), Types.INT()])
    assert "fields can be added and dropped only where they have names" in refused(pair, triple)
    assert "only where they have names" in refused(pair, USER)
    found, _ = evolved(pair, Types.TUPLE([Types.LONG(), Types.DOUBLE()]), [{"f0": 1, "f1": 2}])
    assert found == [{"f0": 1, "f1": 2.0}]


def test_keys_never_change() -> None:
    plan = evolve(schema(USER, Types.INT()), schema(USER, Types.LONG()))
    assert isinstance(plan, Refusal)
    assert plan.reasons == ("key: stored as int32, the job declares int64; a key cannot change its type",)
    assert "a key cannot change its type" in refused(
        Types.MAP(Types.INT(), Types.LONG()), Types.MAP(Types.LONG(), Types.LONG())
    )


def test_columns_that_no_job_declares_are_kept_and_time_to_live_goes_on_and_off() -> None:
    ttl = pa.field("ttl_ms", pa.int64())
    stored = schema(Types.LONG()).append(pa.field("window_start", pa.int64()))
    plan = evolve(stored.append(ttl), schema(Types.LONG()))
    assert isinstance(plan, Evolution)
    assert plan.new.names == ["key", "value", "window_start"]
    assert plan.changes == ("time-to-live: off from now on",)
    plan = evolve(stored, schema(Types.LONG()).append(ttl))
    assert isinstance(plan, Evolution)
    assert plan.changes == ("time-to-live: on from now on, counted from the restore",)
    batch = pa.RecordBatch.from_pylist([{"key": 1, "value": 2, "window_start": 3}], schema=stored)
    assert plan.apply(batch).to_pylist() == [{"key": 1, "value": 2, "window_start": 3, "ttl_ms": None}]


def test_columns_of_columnar_state_are_fields_with_names() -> None:
    old = pa.schema([("key.k", pa.int64()), ("value.n", pa.int32())])
    plan = evolve(old, pa.schema([("key.k", pa.int64()), ("value.n", pa.int64()), ("value.most", pa.float64())]))
    assert isinstance(plan, Evolution)
    batch = pa.RecordBatch.from_pylist([{"key.k": 1, "value.n": 2}], schema=old)
    assert plan.apply(batch).to_pylist() == [{"key.k": 1, "value.n": 2, "value.most": None}]
    assert isinstance(evolve(old, pa.schema([("key.other", pa.int64()), ("value.n", pa.int32())])), Refusal)


def test_a_field_that_may_not_be_null_needs_a_default() -> None:
    old = Types.SCHEMA(pa.schema([("a", pa.int64())]))
    new = Types.SCHEMA(pa.schema([("a", pa.int64()), pa.field("b", pa.int64(), nullable=False)]))
    assert "value.b: the job declares int64 that is not null; give it a default" in refused(old, new)


def test_a_default_must_fit_its_field() -> None:
    with pytest.raises(InvalidJob, match="'x' is not a valid default for age: int32"):
        Types.ROW_NAMED(["age"], [Types.INT()], {"age": "x"})
    with pytest.raises(InvalidJob, match="are not among the fields"):
        Types.ROW_NAMED(["age"], [Types.INT()], {"aeg": 1})


NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.float32(), pa.float64()]


@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.data())
def test_widening_keeps_every_value(old: pa.DataType, new: pa.DataType, data: st.DataObject) -> None:
    if not is_widening(old, new):
        return
    if pa.types.is_floating(old):
        value: Any = data.draw(st.floats(width=old.bit_width, allow_nan=False))
    else:
        signed = pa.types.is_signed_integer(old)
        bits = old.bit_width - int(signed)
        value = data.draw(st.integers(-(2**bits) if signed else 0, 2**bits - 1))
    assert pa.array([value], old).cast(new).to_pylist() == [value]
