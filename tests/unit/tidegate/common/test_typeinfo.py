"""Types: their Arrow shapes, equality, pickling."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from tidegate.common import TypeInformation, Types
from tidegate.model.errors import InvalidJob
from tidegate.records.type_information import PICKLED_METADATA

BASIC: list[tuple[TypeInformation, pa.DataType]] = [
    (Types.STRING(), pa.string()),
    (Types.BYTE(), pa.int8()),
    (Types.BOOLEAN(), pa.bool_()),
    (Types.SHORT(), pa.int16()),
    (Types.INT(), pa.int32()),
    (Types.LONG(), pa.int64()),
    (Types.FLOAT(), pa.float32()),
    (Types.DOUBLE(), pa.float64()),
    (Types.SQL_DATE(), pa.date32()),
    (Types.SQL_TIME(), pa.time64("us")),
    (Types.SQL_TIMESTAMP(), pa.timestamp("us")),
    (Types.INSTANT(), pa.timestamp("us", tz="UTC")),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), pa.binary()),
    (Types.PRIMITIVE_ARRAY(Types.INT()), pa.list_(pa.field("item", pa.int32()))),
    (Types.LIST(Types.STRING()), pa.list_(pa.field("item", pa.string()))),
    (Types.MAP(Types.STRING(), Types.LONG()), pa.map_(pa.string(), pa.int64())),
]


@pytest.mark.parametrize(("type_info", "kind"), BASIC, ids=[repr(case[0]) for case in BASIC])
def test_values_are_one_column(type_info: TypeInformation, kind: pa.DataType) -> None:
    assert type_info.arrow_schema() == pa.schema([("value", kind)])


def test_rows_and_tuples_are_columns() -> None:
    named = Types.ROW_NAMED(["id", "tags"], [Types.LONG(), Types.LIST(Types.STRING())])
    assert named.arrow_schema() == pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.field("item", pa.string())))])
    for positions in (Types.TUPLE([Types.INT(), Types.STRING()]), Types.ROW([Types.INT(), Types.STRING()])):
        assert positions.arrow_schema() == pa.schema([("f0", pa.int32()), ("f1", pa.string())])


def test_nested_rows_are_structs() -> None:
    inner = Types.TUPLE([Types.INT()])
    assert Types.TUPLE([inner]).arrow_schema() == pa.schema([("f0", pa.struct([("f0", pa.int32())]))])


def test_pickled_is_marked_at_every_depth() -> None:
    field = Types.PICKLED_BYTE_ARRAY().arrow_schema().field("pickled")
    assert (field.type, field.metadata) == (pa.binary(), PICKLED_METADATA)
    assert Types.TUPLE([Types.PICKLED_BYTE_ARRAY()]).arrow_schema().field(0).metadata == PICKLED_METADATA
    listed = Types.LIST(Types.PICKLED_BYTE_ARRAY()).arrow_schema().field(0).type
    assert listed.value_field.metadata == PICKLED_METADATA


def test_types_are_values() -> None:
    for type_info in [t for t, _ in BASIC] + [
        Types.TUPLE([Types.INT()]),
        Types.PICKLED_BYTE_ARRAY(),
        Types.SCHEMA(pa.schema([("a", pa.int64())])),
    ]:
        shipped = pickle.loads(pickle.dumps(type_info))
        assert shipped == type_info
        assert hash(shipped) == hash(type_info)
    assert Types.ROW([Types.INT()]) != Types.TUPLE([Types.INT()])
    assert Types.LIST(Types.INT()) != Types.LIST(Types.LONG())
    assert Types.SCHEMA(pa.schema([("a", pa.int64())])) != Types.SCHEMA(pa.schema([("a", pa.int32())]))


def test_impossible_types() -> None:
    with pytest.raises(InvalidJob, match="2 field names"):
        Types.ROW_NAMED(["a", "b"], [Types.INT()])
    with pytest.raises(InvalidJob, match="must differ"):
        Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()])
    with pytest.raises(InvalidJob, match="at least one"):
        Types.TUPLE([])
