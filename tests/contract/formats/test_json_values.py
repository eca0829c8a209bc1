"""``JsonRowDeserializationSchema`` reads what Flink 2.3's reads (recorded by ``json_values.py``), and refuses what would lose a part of a value."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from tests.contract.formats.json_values import CASES, ERROR, VECTORS, message, record
from tidegate.common.row import Row
from tidegate.common.time import Instant
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.formats.messages import JsonRowDeserializationSchema, PoisonRecord
from tidegate.records.record_codec import decode
from tidegate.records.record_text import record_text

FOUND: list[list[str]] = json.loads(VECTORS.read_text(encoding="utf-8"))
READ = [(kind, value, given) for kind, value, given in FOUND if given != ERROR]
REFUSED = [
    ("INT()", "5.7"), ("BOOLEAN()", '"x"'), ("BOOLEAN()", "1"), ("BOOLEAN()", "0"), ("INSTANT()", "1700000000"), ("DOUBLE()", "1e400"),
]  # fmt: skip
"""Flink makes 5 of the first, false of the next three and an infinity of the last; a number of unknown unit is no instant here."""


def type_of(kind: str) -> TypeInformation:
    found: TypeInformation = eval(f"Types.{kind}", {"Types": Types})
    return found


def read(kind: TypeInformation, value: str) -> Any:
    wanted = Types.ROW_NAMED(["i", "v"], [Types.INT(), kind])
    (row,) = decode(wanted, JsonRowDeserializationSchema(wanted).decode([message(value)]))
    return row.v


def told(value: Any, kind: TypeInformation) -> str:
    """As the record has it."""
    match value:
        case datetime.datetime():
            return record_text(value, kind)
        case datetime.date() | datetime.time() | Instant() | Row() | dict():
            return of_java(value)
        case list() if kind == Types.LIST(Types.STRING()):
            return of_java(value)
        case list():
            return f"[{', '.join(of_java(one) if isinstance(one, Row) else repr(one) for one in value)}]"
        case Decimal():
            return repr(Decimal(f"{value.normalize():f}"))
    return repr(value)


def of_java(value: Any) -> str:
    match value:
        case None:
            return "null"
        case Row():
            return f"+I[{', '.join(map(of_java, value))}]"
        case dict():
            return "{" + ", ".join(f"{name}={of_java(part)}" for name, part in value.items()) + "}"
        case list():
            return f"[{', '.join(map(of_java, value))}]"
        case bytes():
            return str([byte - 256 * (byte > 127) for byte in value])
        case Instant():
            moment = datetime.datetime.fromtimestamp(value.seconds, datetime.UTC).replace(tzinfo=None)
            fraction = f".{value.nanos // 10**6:03d}" if value.nanos else ""
            return f"{moment.isoformat()}{fraction}Z"
    return str(value)


def test_the_record_is_of_these_cases() -> None:
    assert [[kind, value] for kind, value, _ in FOUND] == [[k, v] for k, values in CASES.items() for v in values]
    assert len(READ) > 80


@pytest.mark.parametrize(("kind", "value", "given"), READ)
def test_values_are_read_as_by_flink(kind: str, value: str, given: str) -> None:
    if (kind, value) in REFUSED:
        with pytest.raises(PoisonRecord, match=r"field 'v' of row 0"):
            read(type_of(kind), value)
    else:
        assert told(read(type_of(kind), value), type_of(kind)) == given


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, value, given in FOUND if given == ERROR])
def test_what_flink_cannot_read_is_poison(kind: str, value: str) -> None:
    with pytest.raises(PoisonRecord, match="'v'"):
        read(type_of(kind), value)


@pytest.mark.parametrize("value", [b"null", b" null", b"5", b"[1]", b'{"v":"\xff"}', b'{"v":"\\ud800"}', b'{"v":"a"'])
def test_what_is_no_object_or_no_text_is_poison_wherever_it_stands(value: bytes) -> None:
    schema = JsonRowDeserializationSchema(Types.ROW_NAMED(["v"], [Types.STRING()]))
    for values in ([value], [b"{}", value], [value, b"{}"]):
        with pytest.raises(PoisonRecord) as caught:
            schema.decode(values)
        assert caught.value.index == values.index(value)


@pytest.mark.slow
def test_the_record_is_what_flink_reads() -> None:
    assert record() == VECTORS.read_text(encoding="utf-8")
