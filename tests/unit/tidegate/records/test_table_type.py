"""Rows of tables as records."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from tidegate.common.row import Row, RowKind
from tidegate.common.time import Instant
from tidegate.model.errors import SchemaMismatch
from tidegate.records.record_codec import decode, encode
from tidegate.records.record_text import printed_text
from tidegate.records.row_kinds import with_kinds
from tidegate.records.table_type import TableTypeInfo
from tidegate.records.type_document import types_from_json, types_to_json
from tidegate.records.type_information import PICKLED_METADATA

UTC = "UTC"
NESTED = pa.struct([("x", pa.int32()), ("y", pa.timestamp("ms", UTC))])
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("l9", pa.timestamp("ns", UTC)),
        ("l3", pa.timestamp("ms", UTC)),
        ("t9", pa.timestamp("ns")),
        ("row", NESTED),
        ("map", pa.map_(pa.string(), pa.struct([("z", pa.int32())]))),
        ("lists", pa.list_(pa.list_(pa.int32()))),
        ("rows", pa.list_(NESTED)),
        ("price", pa.decimal128(10, 2)),
        ("big", pa.decimal256(76, 0)),
        pa.field("object", pa.binary(), metadata=PICKLED_METADATA),
    ]
)
KIND = TableTypeInfo(SCHEMA, ["INT"] * len(SCHEMA))
ROW = Row(
    i=1,
    l9=Instant(1, 123456789),
    l3=Instant(-1, 5_000_000),
    t9=dt.datetime(2021, 1, 1, 1, 1, 1, 5),
    row=Row(x=1, y=Instant(5, 0)),
    map={"k": Row(z=1), "n": None},
    lists=[[1], None],
    rows=[Row(x=2, y=None), None],
    price=Decimal("1.10"),
    big=12345678901234567890123,
    object={"any": {1, 2}},
)
EMPTY = Row(**dict.fromkeys(SCHEMA.names))


def test_records_have_pyflinks_values() -> None:
    assert decode(KIND, encode(KIND, [ROW, EMPTY])) == [ROW, EMPTY]


def test_nested_rows_may_be_given_in_other_forms() -> None:
    kind = TableTypeInfo(pa.schema([("row", NESTED)]), ["ROW"])
    wanted = Row(row=Row(x=1, y=Instant(2, 0)))
    moment = dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)
    forms = [Row(1, Instant(2, 0)), Row(y=Instant(2, 0), x=1), (1, Instant(2, 0)), {"y": moment, "x": 1}]
    assert decode(kind, encode(kind, [Row(row=form) for form in forms])) == [wanted] * len(forms)
    with pytest.raises(SchemaMismatch, match=r"it has 1 fields, not 2 \(x, y\)"):
        encode(kind, [Row(row=Row(1))])


def test_an_instant_finer_than_its_column_is_refused() -> None:
    kind = TableTypeInfo(pa.schema([("t", pa.timestamp("ms", UTC))]), ["TIMESTAMP_LTZ(3)"])
    with pytest.raises(SchemaMismatch, match="instants of this column are kept to 1/1000 s"):
        encode(kind, [Row(Instant(1, 1000))])


def test_row_kinds_stand_behind_the_columns() -> None:
    kind = TableTypeInfo(with_kinds(pa.schema([("a", pa.int32())])), ["INT"])
    rows = [Row(a=1), Row.of_kind(RowKind.DELETE, a=1)]
    assert decode(kind, encode(kind, rows)) == rows


def test_types_travel_and_are_equal_where_columns_are_held_alike() -> None:
    (found,) = types_from_json(types_to_json([KIND]), 1)
    assert isinstance(found, TableTypeInfo)
    for same in (found, pickle.loads(pickle.dumps(KIND))):
        assert (same, same.columns, hash(same)) == (KIND, KIND.columns, hash(KIND))
    assert TableTypeInfo(SCHEMA, ["BIGINT"] * len(SCHEMA)) == KIND


def test_values_are_printed_as_python_has_them() -> None:
    kind = TableTypeInfo(pa.schema([("row", NESTED), ("l", pa.timestamp("ms", UTC))]), ["ROW", "TIMESTAMP_LTZ(3)"])
    row = Row(row=Row(x=1, y=None), l=Instant(1, 0))
    assert printed_text(row, kind) == "+I[Row(x=1, y=None),Instant<1, 0>]"
