"""What becomes of messages without a value: each has its choice, and poison keeps its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.common.row import Row
from tidegate.common.typeinfo import Types
from tidegate.connectors.formats.messages import (
    ByteArraySchema,
    DeserializationSchema,
    JsonRowDeserializationSchema,
    StringSchema,
    Values,
    deserializer_of,
)
from tidegate.connectors.kafka.decoding import Decoding, Fetched, ReaderSettings
from tidegate.connectors.kafka.partition_records import PartitionRecords, PoisonAction, Tombstones
from tidegate.connectors.kafka.source import KafkaSource
from tidegate.connectors.kafka.splits import KafkaSubscription
from tidegate.datastream.formats.csv import CsvRowDeserializationSchema
from tidegate.model.errors import CorruptData, InvalidJob

NAMED = Types.ROW_NAMED(["id"], [Types.LONG()])
JSON = JsonRowDeserializationSchema(NAMED)
CSV = CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["id"], [Types.STRING()])).build()
ONE, TWO, BAD = b'{"id":1}', b'{"id":2}', b"poison"


def decoded(
    values: list[bytes | None],
    tombstones: Tombstones = None,
    poison: PoisonAction = PoisonAction.FAIL,
    decoder: DeserializationSchema = JSON,
    as_column: bool = False,
) -> list[Fetched]:
    settings = ReaderSettings(
        "x:1", "", {}, KafkaSubscription(), decoder, poison, False, None, dead_letters="dead", tombstones=tombstones
    )
    count = len(values)
    keys: Values = [b"%d" % n for n in range(count)]
    found: Values = values
    if as_column:
        keys, found = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    offsets, stamps = np.arange(10, 10 + count), np.arange(100, 100 + count)
    return list(Decoding(settings).decoded("t-0", PartitionRecords("t", 0, found, offsets, stamps, keys)))


def rows(found: list[Fetched]) -> list[tuple[Any, int, int]]:
    """(value, offset, timestamp) of the stream's records."""
    rows: list[tuple[Any, int, int]] = []
    for one in found:
        if one.data is not None and one.offsets is not None and one.timestamps is not None and not one.side:
            rows += zip(one.data.column(0).to_pylist(), one.offsets.tolist(), one.timestamps.to_pylist(), strict=True)
    return rows


@pytest.mark.parametrize("as_column", [False, True])
def test_they_are_left_out_and_positions_pass_them(as_column: bool) -> None:
    found = decoded([None, ONE, None, None, TWO, None], "skip", as_column=as_column)
    assert rows(found) == [(1, 11, 101), (2, 14, 104)]
    assert found[-1].next_offset == 16
    (nothing,) = decoded([None, None], "skip", as_column=as_column)
    assert nothing.data is not None
    assert (nothing.data.num_rows, nothing.next_offset) == (0, 12)


@pytest.mark.parametrize("as_column", [False, True])
def test_a_function_makes_records_of_their_keys_in_their_places(as_column: bool) -> None:
    def deletion(key: bytes | None) -> Row:
        return Row(id=-int(key or 0))

    found = decoded([ONE, None, TWO, None, None], deletion, as_column=as_column)
    assert rows(found) == [(1, 10, 100), (-1, 11, 101), (2, 12, 102), (-3, 13, 103), (-4, 14, 104)]
    assert rows(decoded([None], deletion, as_column=as_column)) == [(0, 10, 100)]


@pytest.mark.parametrize("tombstones", ["skip", lambda key: Row(id=0)])
@pytest.mark.parametrize("as_column", [False, True])
def test_poison_is_not_hidden_by_the_choice_for_tombstones(tombstones: Tombstones, as_column: bool) -> None:
    with pytest.raises(
        CorruptData, match="offset 12 of partition 0 of topic 't' cannot be read: the message is not one JSON object"
    ):
        decoded([ONE, None, BAD, None], tombstones, as_column=as_column)
    found = decoded([ONE, None, BAD, None, TWO], tombstones, PoisonAction.SKIP, as_column=as_column)
    assert [value for value, _, _ in rows(found) if value] == [1, 2]
    assert found[-1].next_offset == 15


def test_a_function_that_raises_is_poison_of_that_message() -> None:
    def deletion(key: bytes | None) -> Row:
        raise ValueError("no number")

    with pytest.raises(CorruptData, match="offset 11 .* the function raised ValueError for the key b'1': no number"):
        decoded([ONE, None], deletion)


@pytest.mark.parametrize("decoder", [JSON, CSV], ids=["json", "csv"])
def test_without_a_choice_they_are_poison_that_says_what_it_is(decoder: DeserializationSchema) -> None:
    good = ONE if decoder is JSON else b"1"
    with pytest.raises(CorruptData, match=r"offset 11 .* it is a tombstone: .* set_tombstones\('skip'\)"):
        decoded([good, None], decoder=decoder)
    assert len(rows(decoded([None, good, None, good], poison=PoisonAction.SKIP, decoder=decoder))) == 2
    letters = [one for one in decoded([None, good], poison=PoisonAction.SIDE_OUTPUT, decoder=decoder) if one.side]
    (letter,) = [one.data.to_pylist()[0] for one in letters if one.data is not None]
    assert (letter["key"], letter["value"]) == (b"0", None)
    assert "tombstone" in letter["error"]


def test_they_fail_by_choice_also_where_poison_is_left_out() -> None:
    with pytest.raises(CorruptData, match="it is a tombstone"):
        decoded([ONE, None], "fail", PoisonAction.SKIP)


def test_formats_that_read_them_keep_them_unless_a_choice_is_made() -> None:
    function = deserializer_of(lambda content: content.decode(), Types.STRING())
    assert [value for value, _, _ in rows(decoded([b"a", None], decoder=StringSchema()))] == ["a", None]
    assert [value for value, _, _ in rows(decoded([b"a", None], decoder=ByteArraySchema()))] == [b"a", None]
    assert [value for value, _, _ in rows(decoded([b"a", None], decoder=function))] == ["a", ""]
    for decoder in (StringSchema(), ByteArraySchema(), function):
        assert len(rows(decoded([b"a", None], "skip", decoder=decoder))) == 1


def test_any_other_choice_is_refused() -> None:
    with pytest.raises(InvalidJob, match="tombstones can 'fail' the job"):
        KafkaSource.builder().set_tombstones("delete")
