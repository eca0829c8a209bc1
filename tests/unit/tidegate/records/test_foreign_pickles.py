"""Pickles of others: values of Python's own types are read, nothing else is, and nothing runs."""

from __future__ import annotations

import datetime
import decimal
import pickle
import uuid

import pyarrow as pa
import pytest

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.model.errors import Misuse
from tidegate.queryablestate.client import KvStateValues
from tidegate.records.pickling import dumps, foreign_pickles, loads
from tidegate.records.record_codec import encode_column
from tidegate.state_processor.transformation import OperatorTransformation

RAN: list[str] = []
NOW = datetime.datetime(2026, 1, 5, 14, 3, tzinfo=datetime.UTC)
VALUES = [
    1,
    "a",
    b"b",
    None,
    (1, [2.5, {"k": {3}}]),
    NOW,
    datetime.timedelta(1),
    decimal.Decimal("1.50"),
    uuid.UUID(int=7),
    True,
]


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return RAN.append, ("ran",)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_of_python_are_read(value: object) -> None:
    with foreign_pickles("trust it", trusted=False):
        assert loads(pickle.dumps(value)) == value
        assert loads(dumps(value)) == value


@pytest.mark.parametrize(
    "value",
    [Hostile(), [{"a": Hostile()}], Hostile, len, lambda: 1],
    ids=["object", "nested", "class", "builtin", "lambda"],
)
def test_all_else_is_refused_before_it_runs(value: object) -> None:
    content = dumps(value)
    with (
        foreign_pickles("trust it", trusted=False),
        pytest.raises(Misuse, match="is refused, since reading it could run any code: trust it$"),
    ):
        loads(content)
    assert RAN == []


def test_a_trusted_one_is_read_and_the_end_of_a_block_is_an_end() -> None:
    content = dumps(Types)
    with foreign_pickles("trust it", trusted=True):
        assert loads(content) is Types
    with foreign_pickles("trust it", trusted=False), pytest.raises(Misuse):
        loads(content)
    assert loads(content) is Types


def values_of(value: object, type_info: TypeInformation, *, trusts_pickles: bool = False) -> list[object]:
    column = encode_column(type_info, [value], "a test")
    rows = pa.table([pa.array([1], pa.int32()), column], names=["row", "value"])
    return KvStateValues(2, rows, type_info, None, trusts_pickles).values()


@pytest.mark.parametrize("type_info", [Types.PICKLED_BYTE_ARRAY(), Types.LIST(Types.PICKLED_BYTE_ARRAY())], ids=repr)
def test_answers_of_queryable_state(type_info: TypeInformation) -> None:
    wrapped = (lambda value: [value]) if "LIST" in repr(type_info).upper() else (lambda value: value)
    assert values_of(wrapped(("a", 1)), type_info) == [None, wrapped(("a", 1))]
    with pytest.raises(Misuse, match="trusts_pickles=True"):
        values_of(wrapped(Hostile()), type_info)
    assert RAN == []
    assert values_of(wrapped(Types), type_info, trusts_pickles=True) == [None, wrapped(Types)]


def test_keys_of_a_savepoint_that_are_objects_need_trust() -> None:
    field = Types.PICKLED_BYTE_ARRAY().arrow_field("key")
    table = pa.Table.from_arrays(
        [pa.array([dumps(Hostile())], field.type), pa.array([1])],
        schema=pa.schema([field, pa.field("value", pa.int64())]),
    )
    from tidegate.functions.state import ValueStateDescriptor

    def batches(*, trusts_pickles: bool) -> list[pa.RecordBatch]:
        begun = OperatorTransformation.bootstrap_with(table, trusts_pickles=trusts_pickles)
        made = begun.key_by("key", Types.PICKLED_BYTE_ARRAY()).transform(ValueStateDescriptor("v", Types.LONG()))
        return list(made.batches())

    with pytest.raises(Misuse, match="trusts_pickles=True"):
        batches(trusts_pickles=False)
    assert RAN == []
    assert len(batches(trusts_pickles=True)) == 1
