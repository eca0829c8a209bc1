"""What the builders of JSON's schemas set is what becomes of a message (Flink: ``JsonRowDeserializationSchema``)."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.common import Types
from tidegate.connectors.formats.messages import DeserializationSchema, PoisonRecord
from tidegate.connectors.kafka.decoding import Decoding, ReaderSettings
from tidegate.connectors.kafka.partition_records import PartitionRecords, PoisonAction
from tidegate.connectors.kafka.splits import KafkaSubscription
from tidegate.datastream.formats.json import JsonRowDeserializationSchema
from tidegate.model.errors import CorruptData, InvalidJob

ROW = Types.ROW_NAMED(["id", "at"], [Types.LONG(), Types.ROW_NAMED(["x"], [Types.INT()])])
MESSAGES = [b'{"id": 1, "at": {"x": 2}}', b"nonsense", b'{"id": 3, "at": {"x": 4}}']


def _builder() -> JsonRowDeserializationSchema.Builder:
    return JsonRowDeserializationSchema.builder().type_info(ROW)


def _ids(schema: DeserializationSchema, poison: PoisonAction = PoisonAction.FAIL) -> list[int]:
    settings = ReaderSettings("x:1", "", {}, KafkaSubscription(topics=("t",)), schema, poison, False, None)
    count = len(MESSAGES)
    taken = PartitionRecords("t", 0, MESSAGES, np.arange(count), np.full(count, -1), None)
    found = [batch.data for batch in Decoding(settings).decoded("t-0", taken)]
    return [row["id"] for data in found if data is not None for row in data.to_pylist()]


def test_messages_that_are_no_json_are_left_out_when_parse_errors_are_ignored() -> None:
    assert _ids(_builder().ignore_parse_errors().build()) == [1, 3]
    with pytest.raises(CorruptData, match="offset 1 of partition 0 of topic 't'"):
        _ids(_builder().build())


@pytest.mark.parametrize(("message", "name"), [(b'{"id": 1}', "at"), (b'{"at": {}, "id": null}', "x"), (b"{}", "id")])
def test_a_missing_field_is_null_or_fails(message: bytes, name: str) -> None:
    assert _builder().build().decode([message]).num_rows == 1
    with pytest.raises(PoisonRecord, match=f"could not find field with name '{name}'"):
        _builder().fail_on_missing_field().build().decode([message])


def test_a_field_that_is_null_is_not_missing() -> None:
    schema = _builder().fail_on_missing_field().build()
    assert schema.decode([b'{"id": null, "at": null}']).to_pylist() == [{"id": None, "at": None}]


def test_contradictions_and_what_is_not_there_are_refused() -> None:
    with pytest.raises(InvalidJob, match="contradict each other"):
        _builder().fail_on_missing_field().ignore_parse_errors().build()
    with pytest.raises(InvalidJob, match="takes the fields as types"):
        _builder().json_schema('{"type": "object"}')
    with pytest.raises(InvalidJob, match="needs type_info"):
        JsonRowDeserializationSchema.builder().build()
