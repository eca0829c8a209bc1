"""What our Protobuf schemas read and write is what Flink 2.3's format ``protobuf`` reads and writes (recorded by ``record.py``)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.contract.protobuf.cases import HERE, cases, message_type
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.connectors.formats.protobuf_messages import ProtobufMessages, ProtobufRows

FOUND: list[dict[str, Any]] = json.loads((HERE / "flink_2.3_protobuf.json").read_text())


def named(case: dict[str, Any]) -> str:
    return f"{case['file']}-{'defaults' if case['defaults'] else 'nulls'}"


def told(kind: pa.DataType, value: Any) -> Any:
    """A value as the record has it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return [told(field.type, value[field.name]) for field in kind]
    if pa.types.is_map(kind):
        return [[told(kind.key_type, k), told(kind.item_type, v)] for k, v in value]
    if pa.types.is_list(kind):
        return [told(kind.value_type, element) for element in value]
    if pa.types.is_binary(kind):
        return value.hex()
    if pa.types.is_boolean(kind):
        return value
    return value if pa.types.is_string(kind) else number(value, kind)


def number(value: Any, kind: pa.DataType) -> Any:
    """Java's and Python's texts of a number differ."""
    return (
        repr(float(np.float32(value) if pa.types.is_float32(kind) else value))
        if pa.types.is_floating(kind)
        else str(value)
    )


def value_of(kind: pa.DataType, found: Any) -> Any:
    """The inverse of ``told``."""
    if found is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type, part) for field, part in zip(kind, found, strict=True)}
    if pa.types.is_map(kind):
        return [(value_of(kind.key_type, k), value_of(kind.item_type, v)) for k, v in found]
    if pa.types.is_list(kind):
        return [value_of(kind.value_type, part) for part in found]
    if pa.types.is_binary(kind):
        return bytes.fromhex(found)
    if pa.types.is_integer(kind):
        return int(found)
    return float(found) if pa.types.is_floating(kind) else found


def alike(kind: pa.DataType, found: Any) -> Any:
    """Numbers of Flink's record in our form, and maps in the order of their keys."""
    if found is None:
        return None
    if pa.types.is_struct(kind):
        return [alike(field.type, part) for field, part in zip(kind, found, strict=True)]
    if pa.types.is_map(kind):
        return sorted(([alike(kind.key_type, k), alike(kind.item_type, v)] for k, v in found), key=str)
    if pa.types.is_list(kind):
        return [alike(kind.value_type, part) for part in found]
    return number(float(found), kind) if pa.types.is_floating(kind) else found


def row_of(case: dict[str, Any]) -> TypeInformation:
    return message_type(case["file"]).row_type()


def test_the_record_is_of_these_cases() -> None:
    told_cases = [{key: value for key, value in one.items() if key not in ("read", "written")} for one in FOUND]
    assert told_cases == json.loads(json.dumps(cases())), "run python -m tests.contract.protobuf.record"


@pytest.mark.parametrize("case", FOUND, ids=named)
def test_messages_are_read_as_flink_reads_them(case: dict[str, Any]) -> None:
    kind = row_of(case)
    schema = ProtobufRows(message_type(case["file"]), kind, read_default_values=case["defaults"])
    struct = pa.struct(list(kind.arrow_schema()))
    for given, wanted in zip(case["given"], case["read"], strict=True):
        if isinstance(wanted, str):
            with pytest.raises(PoisonRecord):
                schema.decode([bytes.fromhex(given)])
            continue
        (row,) = schema.decode([bytes.fromhex(given)]).to_pylist()
        assert alike(struct, told(struct, row)) == alike(struct, wanted), given


@pytest.mark.parametrize("case", FOUND, ids=named)
def test_rows_are_written_byte_for_byte_as_flink_writes_them(case: dict[str, Any]) -> None:
    kind = row_of(case)
    arrow = kind.arrow_schema()
    schema = ProtobufMessages(message_type(case["file"]), None, case["null_text"])
    for row, wanted in zip(case["rows"], case["written"], strict=True):
        columns = [pa.array([value_of(field.type, part)], field.type) for field, part in zip(arrow, row, strict=True)]
        (found,) = schema.encode(pa.RecordBatch.from_arrays(columns, schema=arrow), kind)
        assert found.hex() == wanted, row
