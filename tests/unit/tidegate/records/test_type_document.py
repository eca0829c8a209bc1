"""Types travel as data."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

from tidegate.common import Types
from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation
from tidegate.model.errors import CorruptData, Misuse
from tidegate.records.type_document import types_from_json, types_to_json

TYPES = [
    Types.LONG(),
    Types.BIG_DEC(),
    Types.INSTANT(),
    Types.SQL_DATE(),
    Types.SQL_TIME(),
    Types.SQL_TIMESTAMP(),
    Types.LIST(Types.STRING()),
    Types.BASIC_ARRAY(Types.STRING()),
    Types.OBJECT_ARRAY(Types.STRING()),
    Types.PRIMITIVE_ARRAY(Types.INT()),
    Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE())),
    Types.TUPLE([Types.INT(), Types.TUPLE([Types.BOOLEAN()])]),
    Types.ROW([Types.INT(), Types.STRING()]),
    Types.ROW_NAMED(["é", "b"], [Types.INT(), Types.PICKLED_BYTE_ARRAY()]),
    Types.PICKLED_BYTE_ARRAY(),
    ArrowTypeInfo(
        pa.schema(
            [
                ("t", pa.timestamp("ns", "Europe/Berlin")),
                ("d", pa.decimal128(9, 2)),
                ("n", pa.list_(pa.struct([("x", pa.dictionary(pa.int8(), pa.string()))]))),
                pa.field("m", pa.map_(pa.string(), pa.int64()), nullable=False),
            ]
        )
    ),
]


@pytest.mark.parametrize("kind", TYPES, ids=repr)
def test_a_type_is_what_it_was(kind: TypeInformation) -> None:
    [found] = types_from_json(types_to_json([kind]), 1)
    assert found == kind
    assert type(found) is type(kind)
    assert repr(found) == repr(kind)
    assert found.arrow_field("x").equals(kind.arrow_field("x"), check_metadata=True)


class _Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("it was run",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(_Runs()),
        b"",
        b"{}",
        b"[1]",
        b'[{"basic": "NOTHING"}]',
        b'[{"row": [{"basic": "LONG"}], "names": [["a"]]}]',
        b'[{"tuple": []}]',
        b'[{"arrow": "eA=="}]',
        b'[{"other": 1}]',
        json.dumps([{}]).encode(),
        b"[" + b'{"list":' * 400 + b'{"basic": "LONG"}' + b"}" * 400 + b"]",
    ],
    ids=range(11),
)
def test_other_bytes_are_refused_and_run_nothing(content: bytes) -> None:
    with pytest.raises(CorruptData, match="a description of types cannot be read"):
        types_from_json(content, 1)


def test_a_class_of_ones_own_is_refused() -> None:
    class Own(type(Types.LIST(Types.INT()))):  # type: ignore[misc]
        pass

    with pytest.raises(Misuse, match="class of your own"):
        types_to_json([Own(Types.INT())])
