# ruff: noqa: E501
"""Keys, values and metadata of Kafka's records as rows, and rows as records; as Flink's ``DynamicKafkaDeserializationSchema`` has them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.common.typeinfo import Types
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.connectors.kafka.decoding import KafkaRecordDeserializationSchema
from tidegate.connectors.kafka.partition_records import Attributes, PartitionRecords
from tidegate.connectors.kafka.records import KafkaSinkContext
from tidegate.functions.sql.changelog import with_kinds
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.errors import InvalidJob, UserError
from tidegate.plan.logical_types import parse_type
from tidegate.records.batch import ArrowBatch
from tidegate.table._connectors.kafka import kafka_sink, kafka_source
from tidegate.table._connectors.kafka_records import READABLE, TableRecordSerializer
from tidegate.table._connectors.registry import check_table
from tidegate.table._connectors.shape import TableShape
from tidegate.table._connectors.upsert_buffer import BufferedUpsertSink, last_of_keys

TYPE = parse_type("ROW<`k_id` BIGINT, `name` STRING, `price` DOUBLE>")
SHAPE = TableShape("default.orders", ("k_id", "name", "price"))
KEYED = TableShape("default.orders", ("k_id", "name", "price"), ("k_id",))
BASE = {
    "connector": "kafka",
    "topic": "t",
    "properties.bootstrap.servers": "localhost:9092",
    "scan.startup.mode": "earliest-offset",
}
VALUES = {"value.format": "json", "key.format": "csv", "key.fields": "k_id", "value.fields-include": "EXCEPT_KEY"}
PREFIXED = {**VALUES, "key.format": "json", "key.fields-prefix": "k_"}
UPSERT = {
    "connector": "upsert-kafka", "topic": "t", "properties.bootstrap.servers": "localhost:9092", "key.format": "json", "value.format": "json",
}  # fmt: skip


def records(*pairs: tuple[bytes | None, bytes | None], attributes: Attributes | None = None) -> PartitionRecords:
    offsets = np.arange(10, 10 + len(pairs))
    return PartitionRecords("t", 3, [v for _, v in pairs], offsets, offsets * 100, [k for k, _ in pairs], attributes)


def decoder(options: dict[str, str], shape: TableShape = SHAPE, metadata: tuple[str, ...] = ()) -> Any:
    options = {**BASE, **options} if options.get("connector") != "upsert-kafka" else options
    check_table(shape, options, is_source=True)
    made = pickle.loads(pickle.dumps(kafka_source(options, shape, TYPE, metadata).decoder))
    assert isinstance(made, KafkaRecordDeserializationSchema)
    return made


def test_keys_and_values_are_columns() -> None:
    data, counts = decoder(VALUES).deserialize(
        records((b"7", b'{"name": "a", "price": 1.5, "k_id": 9}'), (b"8", b'{"name": "b"}'))
    )
    assert data.to_pylist() == [{"k_id": 7, "name": "a", "price": 1.5}, {"k_id": 8, "name": "b", "price": None}]
    assert counts is None


def test_a_prefix_of_columns_is_not_in_the_fields_of_keys() -> None:
    data, _ = decoder(PREFIXED).deserialize(records((b'{"id": 7}', b'{"name": "a"}')))
    assert data.to_pylist() == [{"k_id": 7, "name": "a", "price": None}]


def test_a_column_of_key_and_value_is_the_values() -> None:
    both = {**VALUES, "value.fields-include": "ALL"}
    data, _ = decoder(both).deserialize(records((b"7", b'{"k_id": 1, "name": "a"}'), (b"8", b'{"name": "b"}')))
    assert data.column("k_id").to_pylist() == [1, None]


def test_each_row_of_a_value_is_a_row_with_each_row_of_its_key_and_without_a_key_there_is_none() -> None:
    found = records(
        (b'[{"id": 1}, {"id": 2}]', b'[{"name": "a"}, {"name": "b"}]'),
        (None, b'{"name": "c"}'),
        (b'{"id": 3}', None),
        (b'{"id": 4}', b"{}"),
    )
    data, counts = decoder(PREFIXED).deserialize(found)
    assert [(row["k_id"], row["name"]) for row in data.to_pylist()] == [
        (1, "a"),
        (2, "a"),
        (1, "b"),
        (2, "b"),
        (4, None),
    ]
    assert counts is not None
    assert counts.tolist() == [4, 0, 0, 1]


def test_metadata_stand_behind_the_columns_in_the_order_of_the_plan() -> None:
    headers: Any = [[("h", b"1"), ("h", None)], []]
    given = records((None, b"{}"), (None, b"{}"), attributes=Attributes(headers, [5, None], [1, 2]))
    made = decoder({"format": "json"}, metadata=tuple(READABLE))
    assert made.needs_attributes
    assert not decoder({"format": "json"}, metadata=("offset", "timestamp", "topic", "partition")).needs_attributes
    data, _ = made.deserialize(given)
    assert [column.to_pylist() for column in data.columns[3:]] == [
        ["t", "t"],
        [3, 3],
        [[("h", None)], []],
        [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], []],
        [5, None],
        [10, 11],
        pa.array([1000, 1100], data.column(9).type).to_pylist(),
        ["CreateTime", "LogAppendTime"],
    ]
    assert made.get_produced_type().arrow_schema() == data.schema


def test_metadata_of_the_values_format_and_kinds_of_rows() -> None:
    given = {"format": "debezium-json"}
    assert check_table(KEYED, {**BASE, **given}, is_source=True) == "all"
    made = decoder(given, KEYED, ("value.source.table", "offset"))
    a, b = '{"k_id": 1, "name": "a"}', '{"k_id": 1, "name": "b"}'
    text = f'{{"before": {a}, "after": {b}, "op": "u", "source": {{"table": "x"}}}}'
    data, counts = made.deserialize(records((None, None), (None, text.encode())))
    assert [list(row.values()) for row in data.to_pylist()] == [[1, "a", None, "x", 11, 1], [1, "b", None, "x", 11, 2]]
    assert counts.tolist() == [0, 2]


def test_a_value_is_an_upsert_of_its_key_and_a_message_without_one_a_deletion() -> None:
    assert check_table(KEYED, UPSERT, is_source=True) == "changes"
    given = records(
        (b'{"k_id": 1}', b'{"k_id": 1, "name": "a"}'),
        (b'{"k_id": 1}', None),
        (b'{"k_id": 2}', b'{"k_id": 2, "name": "b"}'),
        (b'{"k_id": 2}', b"{"),
    )
    made = decoder(UPSERT, KEYED, ("offset",))
    data, counts = made.deserialize(given.part(0, 3))
    assert [list(row.values()) for row in data.to_pylist()] == [
        [1, "a", None, 10, 0],
        [1, None, None, 11, 3],
        [2, "b", None, 12, 0],
    ]
    assert counts is None
    with pytest.raises(PoisonRecord) as told:
        made.deserialize(given)
    assert told.value.index == 3


@pytest.mark.parametrize(
    ("options", "shape", "said"),
    [
        ({"format": "json", "key.fields": "k_id"}, SHAPE, "The option 'key.fields' can only be declared if a key format is defined using 'key.format'."),
        ({"format": "json", "key.format": "csv"}, SHAPE, "A key format 'key.format' requires the declaration of one or more of key fields using 'key.fields'."),
        ({**VALUES, "key.fields": "nme"}, SHAPE, "Could not find the field 'nme' in the table schema for usage in the key format. A key field must be a regular, physical column. The following columns can be selected in the 'key.fields' option:\n[k_id, name, price]"),
        ({**PREFIXED, "key.fields": "name"}, SHAPE, "All fields in 'key.fields' must be prefixed with 'k_' when option 'key.fields-prefix' is set but field 'name' is not prefixed."),
        ({**PREFIXED, "value.fields-include": "all"}, SHAPE, "A key prefix is not allowed when option 'value.fields-include' is set to 'ALL'. Set it to 'EXCEPT_KEY' instead to avoid field overlaps."),
        ({**VALUES, "value.fields-include": "SOME"}, SHAPE, "Invalid value for option 'value.fields-include': 'SOME'; it takes ALL, EXCEPT_KEY"),
        ({**VALUES, "key.format": "debezium-json"}, SHAPE, "A key format should only deal with INSERT-only records. But debezium-json has a changelog mode of [INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]."),
        ({"format": "json"}, KEYED, "The Kafka table 'default.orders' with 'json' format doesn't support defining PRIMARY KEY constraint on the table, because it can't guarantee the semantic of primary key."),
        ({**VALUES, "key.csv.field-delimiters": ";"}, SHAPE, "did you mean 'key.csv.field-delimiter'?"),
        (UPSERT, SHAPE, "'upsert-kafka' tables require to define a PRIMARY KEY constraint."),
        ({**UPSERT, "value.format": "canal-json"}, KEYED, "'upsert-kafka' connector doesn't support 'canal-json' as value format, because 'canal-json' is not in insert-only mode."),
        ({**UPSERT, "scan.startup.mode": "earliest-offset"}, KEYED, "Unsupported options:\n\nscan.startup.mode"),
        ({k: v for k, v in UPSERT.items() if k != "key.format"}, KEYED, "Missing required options are:\n\nkey.format"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_in_flinks_words(
    options: dict[str, str], shape: TableShape, said: str
) -> None:
    for is_source in (True, False):
        with pytest.raises(InvalidJob) as refused:
            check_table(shape, options if "connector" in options else {**BASE, **options}, is_source=is_source)
        assert said in refused.value.message


@pytest.mark.parametrize(
    ("options", "shape", "said"),
    [
        ({**VALUES, "sink.partitioner": "round-robin"}, SHAPE, "Currently 'round-robin' partitioner only works when option 'key.fields' is not specified."),
        ({"format": "json", "sink.partitioner": ""}, SHAPE, "Option 'sink.partitioner' should be a non-empty string."),
        ({"format": "json", "sink.partitioner": "org.Mine"}, SHAPE, "Could not find and instantiate partitioner class 'org.Mine'"),
        ({**UPSERT, "sink.buffer-flush.max-rows": "5"}, KEYED, "'sink.buffer-flush.max-rows' and 'sink.buffer-flush.interval' must be set to be greater than zero together to enable sink buffer flushing."),
    ],
)  # fmt: skip
def test_what_a_sink_does_not_take_is_refused_in_flinks_words(
    options: dict[str, str], shape: TableShape, said: str
) -> None:
    with pytest.raises(InvalidJob) as refused:
        check_table(shape, options if "connector" in options else {**BASE, **options}, is_source=False)
    assert said in refused.value.message


def sent(serializer: Any, rows: list[list[Any]], schema: pa.Schema, instance: int = 0) -> list[list[Any]]:
    columns = [pa.array(list(column), one.type) for column, one in zip(zip(*rows, strict=True), schema, strict=True)]
    batch = ArrowBatch(pa.RecordBatch.from_arrays(columns, schema=schema), pa.array([5] * len(rows)))
    made = pickle.loads(pickle.dumps(serializer)).opened(KafkaSinkContext(instance, 4, lambda topic: 3))
    found = made.outgoing(batch, Types.SCHEMA(schema))
    return [list(row.values()) for row in found.to_pylist()]


def serializer(options: dict[str, str], shape: TableShape = SHAPE, metadata: tuple[str, ...] = ()) -> Any:
    options = {**BASE, **options} if options.get("connector") != "upsert-kafka" else options
    check_table(shape, options, is_source=False)
    made = kafka_sink(options, shape, TYPE, metadata).schema
    assert isinstance(made, TableRecordSerializer)
    return made


def test_rows_are_keys_and_values_without_their_events_time() -> None:
    assert sent(serializer(VALUES), [[7, "a", 1.5], [None, None, None]], arrow_schema(TYPE)) == [
        ["t", b"7", b'{"name":"a","price":1.5}', None],
        ["t", b"", b'{"name":null,"price":null}', None],
    ]
    assert sent(serializer(PREFIXED), [[7, "a", 1.5]], arrow_schema(TYPE))[0][1] == b'{"id":7}'
    assert sent(serializer({"format": "csv"}), [[7, "a", 1.5]], arrow_schema(TYPE)) == [["t", None, b"7,a,1.5", None]]


def test_metadata_are_topics_timestamps_and_headers() -> None:
    keys = ("topic", "headers", "timestamp")
    types = ("STRING", "MAP<STRING, BYTES>", "TIMESTAMP_LTZ(3)")
    whole = parse_type(
        f"ROW<`k_id` BIGINT, `name` STRING, `price` DOUBLE, {', '.join(f'`{k}` {t}' for k, t in zip(keys, types, strict=True))}>"
    )
    made = serializer({"format": "json", "topic": "x;y"}, metadata=keys)
    rows = [[1, "a", None, "x", [("h", b"1")], 7], [2, "b", None, "y", None, None]]
    found = sent(made, rows, arrow_schema(whole))
    assert [[row[0], *row[3:]] for row in found] == [
        ["x", 7, None, [{"key": "h", "value": b"1"}]],
        ["y", None, None, None],
    ]
    with pytest.raises(UserError, match=r"Expected topic to be in: \['x', 'y'\] but was: z"):
        sent(made, [[1, "a", None, "z", None, None]], arrow_schema(whole))


def test_a_fixed_partitioner_gives_each_subtask_one_partition() -> None:
    made = serializer({"format": "json", "sink.partitioner": "fixed"})
    assert [sent(made, [[1, "a", None]], arrow_schema(TYPE), instance)[0][4] for instance in range(4)] == [0, 1, 2, 0]


def test_changes_are_upserts_and_tombstones_by_key() -> None:
    assert check_table(KEYED, UPSERT, is_source=False) == "upsert-whole"
    rows = [[1, "a", 1.0, 0], [1, "b", 1.0, 2], [2, "c", None, 3]]
    assert sent(serializer(UPSERT, KEYED), rows, with_kinds(arrow_schema(TYPE))) == [
        ["t", b'{"k_id":1}', b'{"k_id":1,"name":"a","price":1.0}', None],
        ["t", b'{"k_id":1}', b'{"k_id":1,"name":"b","price":1.0}', None],
        ["t", b'{"k_id":2}', None, None],
    ]


def test_changes_of_a_format_keep_their_kinds() -> None:
    made = serializer({"format": "debezium-json"}, KEYED)
    rows = [[1, "a", None, 1], [1, "b", None, 2]]
    assert [row[2] for row in sent(made, rows, with_kinds(arrow_schema(TYPE)))] == [
        b'{"before":{"k_id":1,"name":"a","price":null},"after":null,"op":"d"}',
        b'{"before":null,"after":{"k_id":1,"name":"b","price":null},"op":"c"}',
    ]


def test_a_buffer_keeps_the_last_row_of_each_key() -> None:
    made = kafka_sink({**UPSERT, "sink.buffer-flush.max-rows": "5", "sink.buffer-flush.interval": "1 s"}, KEYED, TYPE)
    assert isinstance(made, BufferedUpsertSink)
    assert (made.key_places, made.most_rows, made.interval_ms) == ((0,), 5, 1000)
    rows = pa.RecordBatch.from_pydict({"k": [1, 2, 1, None, 3, None], "n": list("abcdef")})
    assert last_of_keys(rows, [0]).column("n").to_pylist() == ["b", "c", "e", "f"]
