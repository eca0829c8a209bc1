"""What the content of files, messages and records causes is one error that says where, and no restart repeats it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.tidegate.connectors.test_file_source import drain, states
from tidegate.common.typeinfo import RowTypeInfo, TypeInformation, Types
from tidegate.connectors.base import SinkContext
from tidegate.connectors.content import check_content, content_errors, misfit
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files.columns import RowParquetFormat
from tidegate.connectors.formats.avro_files import AvroSchema
from tidegate.connectors.formats.avro_parquet import AvroParquetFormat
from tidegate.connectors.formats.messages import (
    DeserializationSchema,
    JsonRowDeserializationSchema,
    PoisonRecord,
    SerializationSchema,
    Values,
    decoded,
    encoded,
)
from tidegate.connectors.kafka.decoding import Decoding, ReaderSettings
from tidegate.connectors.kafka.partition_records import PartitionRecords, PoisonAction
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.splits import KafkaSubscription
from tidegate.datastream.formats.csv import CsvRowSerializationSchema
from tidegate.datastream.formats.json import JsonRowSerializationSchema
from tidegate.model.configuration import Configuration
from tidegate.model.errors import (
    CorruptData,
    ErrorInfo,
    InvalidJob,
    SchemaMismatch,
    StorageError,
    TidegateError,
    Unreachable,
    UserFunctionError,
)
from tidegate.records.batch import ArrowBatch
from tidegate.records.record_codec import decode
from tidegate.records.shown_values import shown_value
from tidegate.taskmanager.operators.user_code.boundary import batch_error

LATE = pa.array([0, 3_000_000, 1], pa.int32()).cast(pa.date32())
NO_TEXT = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 3], np.int32).tobytes()), pa.py_buffer(b"a\xc3(")]
)


def refused(action: Callable[[], object], *words: str) -> None:
    """It is one error of content that no restart repeats, with these words."""
    with pytest.raises(TidegateError) as caught:
        action()
    assert not ErrorInfo.of(caught.value).retriable
    assert isinstance(caught.value, SchemaMismatch | CorruptData | InvalidJob)
    for word in words:
        assert word in caught.value.message


def parquet(path: Path, **columns: pa.Array) -> FileSource:
    pq.write_table(pa.table(columns), path)
    return FileSource.for_parquet(str(path))


def test_text_of_parquet_that_is_not_utf_8_is_found_where_it_is_read(tmp_path: Path) -> None:
    source = parquet(tmp_path / "a.parquet", a=NO_TEXT)
    refused(lambda: drain(source, states(source)), "a.parquet, row group 0", "row 1, column 'a'", r"b'\xc3('")
    nested = pa.array([{"x": ["a"]}], pa.struct([("x", pa.list_(pa.string()))]))
    fine = parquet(tmp_path / "b.parquet", a=nested, b=pa.array(["ü"]).dictionary_encode())
    assert drain(fine, states(fine))[0] == [{"a": {"x": ["a"]}, "b": "ü"}]


def test_a_column_of_parquet_that_does_not_become_the_type_is_named_with_row_and_value(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, 2, 3_000_000_000], "d": LATE}), tmp_path / "a.parquet")
    small = FileSource([str(tmp_path / "a.parquet")], RowParquetFormat(RowTypeInfo([Types.INT()], ["n"])))
    refused(lambda: drain(small, states(small)), "a.parquet, row group 0", "row 2, column 'n', value 3000000000")
    avro = '{"type":"record","name":"r","fields":[{"name":"d","type":{"type":"int","logicalType":"date"}}]}'
    dicts = FileSource([str(tmp_path / "a.parquet")], AvroParquetFormat(AvroSchema(avro)))
    refused(lambda: drain(dicts, states(dicts)), "a.parquet, row group 0", "row 1, column 'd', value 10183-09-21")


def test_a_second_file_with_nulls_is_refused_by_its_footer_or_where_it_is_read(tmp_path: Path) -> None:
    required = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    pq.write_table(pa.table([pa.array([1])], schema=required), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([3, 2], pa.int64())}), tmp_path / "2.parquet")
    source = FileSource.for_parquet(str(tmp_path))
    assert [row["a"] for row in drain(source, states(source))[0]] == [1, 3, 2]  # type: ignore[index]
    pq.write_table(pa.table({"a": pa.array([None, 2], pa.int64())}), tmp_path / "3.parquet")
    refused(lambda: source.list_splits(1), "3.parquet, row group 0", "'a' has 1 nulls", "nullable=False")
    pq.write_table(pa.table({"a": pa.array([2, None], pa.int64())}), tmp_path / "3.parquet", write_statistics=False)
    refused(lambda: drain(source, states(source)), "3.parquet", "column 'a' is null in row 1")
    nullable = FileSource.for_parquet(str(tmp_path), schema=pa.schema([("a", pa.int64())]))
    assert len(drain(nullable, states(nullable))[0]) == 5


def test_a_value_that_python_has_no_object_for_is_named_by_the_operator_that_wants_one() -> None:
    row = Types.ROW_NAMED(["n", "d"], [Types.LONG(), Types.SQL_DATE()])
    data = pa.record_batch([pa.array([1, 2, 3]), LATE], schema=row.arrow_schema())
    refused(lambda: decode(row, data, "map"), "operator 'map'", "'d'", "row 1", "10183-09-21", "OverflowError")
    refused(lambda: decode(Types.STRING(), pa.record_batch({"value": NO_TEXT}), "map"), "row 1", r"b'\xc3('")
    moment = Types.ROW_NAMED(["t"], [Types.SQL_TIMESTAMP()])
    kind = moment.arrow_schema().field(0).type
    far = pa.record_batch([pa.array([0, 1 << 62], pa.int64()).cast(kind)], schema=moment.arrow_schema())
    refused(lambda: decode(moment, far), "'t'", "row 1")


def writer(sink: FileSink, kind: TypeInformation) -> Any:
    return sink.make_writer(SinkContext(0, 1, "job", "attempt", "sink"), [], kind)


SINKS: dict[str, Callable[[str], FileSink]] = {
    "csv": FileSink.for_csv,
    "json": FileSink.for_json_lines,
    "parquet": FileSink.for_parquet,
    "text": FileSink.for_text,
}


@pytest.mark.parametrize("sink", list(SINKS))
def test_no_sink_writes_text_that_is_not_utf_8(tmp_path: Path, sink: str) -> None:
    out = writer(SINKS[sink](str(tmp_path / "out")), Types.STRING())
    batch = ArrowBatch(pa.record_batch([NO_TEXT], schema=Types.STRING().arrow_schema()))
    refused(lambda: out.write(batch), "part-00000", "row 1", r"b'\xc3('")
    out.close()


@pytest.mark.parametrize(
    ("sink", "column", "words"),
    [
        ("json", LATE, ("row 1, column 'a', value 10183-09-21", "OverflowError")),
        ("text", LATE, ("row 1, column 'a', value 10183-09-21", "OverflowError")),
        ("json", pa.array([0, 1 << 62], pa.duration("s")), ("row 1, column 'a'", "OverflowError")),
        ("parquet", pa.array([1, None], pa.int64()), ("row 1, column 'a', value None",)),
    ],
)
def test_a_record_that_its_target_cannot_hold_is_named(
    tmp_path: Path, sink: str, column: pa.Array, words: tuple[str, ...]
) -> None:
    fields = [pa.field("a", column.type, nullable=not column.null_count)]
    if sink != "text":
        fields.append(pa.field("b", pa.int64()))
    columns = [column, pa.array(range(len(column)))][: len(fields)]
    kind = Types.SCHEMA(pa.schema(fields))
    out = writer(SINKS[sink](str(tmp_path / "out")), kind)

    def write() -> None:
        out.write(ArrowBatch(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))))
        out.prepare_commit(1)

    refused(write, str(tmp_path / "out"), *words)


def test_a_directory_that_is_gone_is_still_a_storage_error_and_retried(tmp_path: Path) -> None:
    out = writer(FileSink.for_csv(str(tmp_path / "out")), Types.LONG())
    out._root = str(tmp_path / "gone")
    with pytest.raises(StorageError) as caught:
        out.write(ArrowBatch(pa.record_batch({"value": pa.array([1])}, schema=Types.LONG().arrow_schema())))
    assert caught.value.retriable


@pytest.mark.parametrize("sink", ["csv", "parquet"])
def test_columns_that_a_format_never_holds_are_refused_at_submission(tmp_path: Path, sink: str) -> None:
    kind = pa.list_(pa.int64()) if sink == "csv" else pa.month_day_nano_interval()
    schema = pa.schema([("n", pa.int64()), ("i", kind)])
    made = SINKS[sink](str(tmp_path / "out"))
    with pytest.raises(InvalidJob, match="'i'"):
        made.validate_input(Types.SCHEMA(schema), Configuration())
    made.validate_input(Types.SCHEMA(pa.schema([("n", pa.int64())])), Configuration())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("schema", [JsonRowSerializationSchema.builder().build()])
def test_a_record_that_no_message_can_hold_is_named(schema: SerializationSchema) -> None:
    row = Types.ROW_NAMED(["n", "d"], [Types.LONG(), Types.SQL_DATE()])
    data = pa.record_batch([pa.array([1, 2, 3]), LATE], schema=row.arrow_schema())
    for given in (schema, CsvRowSerializationSchema.Builder(row).build()):
        sent = KafkaRecordSerializationSchema("t", None, given, None, False)
        refused(lambda sent=sent: sent.outgoing(ArrowBatch(data), row), "10183-09-21", "row 1")  # type: ignore[misc]


class Odd(DeserializationSchema):
    """Raises the error that is given for a value."""

    def __init__(self, raised: dict[bytes, Exception]) -> None:
        self.raised = raised

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()

    def decode(self, values: Values) -> pa.RecordBatch:
        for value in values:
            if value in self.raised:
                raise self.raised[value]
        return pa.record_batch([pa.array([(value or b"").decode() for value in values])], ["value"])


@pytest.mark.parametrize(
    "error",
    [
        RecursionError("deep"),
        OverflowError("date"),
        KeyError("x"),
        pa.ArrowNotImplementedError("no"),
        SchemaMismatch("a"),
    ],
)
def test_whatever_a_format_raises_the_message_is_poison(error: Exception) -> None:
    with pytest.raises(PoisonRecord) as caught:
        decoded(Odd({b"c": error}), [b"a", b"b", b"c", b"d"])
    assert caught.value.index == 2
    assert str(error) in caught.value.reason


@pytest.mark.parametrize("error", [Unreachable("the registry does not answer"), MemoryError(), OSError("gone")])
def test_what_no_message_is_the_cause_of_is_not_poison(error: Exception) -> None:
    with pytest.raises(type(error)):
        decoded(Odd({b"c": error}), [b"a", b"c"])


def test_a_program_that_cannot_serialize_is_not_taken_for_a_record() -> None:
    with pytest.raises(InvalidJob):
        encoded(
            CsvRowSerializationSchema.Builder(Types.ROW([Types.INT()])).build(),
            pa.record_batch({"a": [1]}),
            Types.INT(),
        )


DAY = Types.ROW_NAMED(["d"], [Types.SQL_DATE()])
TEXT = Types.ROW_NAMED(["d"], [Types.STRING()])
DEEP = b'{"z":' + b"[" * 3000 + b"]" * 3000 + b',"d":"2024-01-01"}'
GOOD = b'{"d":"2024-01-01"}'


@pytest.mark.parametrize("row_type", [DAY, TEXT])
@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("as_array", [False, True])
def test_poison_is_skipped_whatever_it_is_and_in_whatever_order(
    row_type: TypeInformation, is_strict: bool, as_array: bool
) -> None:
    messages = [
        GOOD, b"nonsense", DEEP, b'{"d"', b': "2024-01-01"}', GOOD + GOOD, b"", b"\xef\xbb\xbf" + GOOD, b"null",
        b'{"d":"2024-01-01"', b'} {"d":"2024-01-01"}', GOOD + b" null", b"\xff", b" " + GOOD + b"\r\n", DEEP,
        b'{"d":"\\ud800"}', b"[" * 100_000, GOOD, b'{"d":"2024-01-01","z":%s}' % (b"1" * 5000),
    ]  # fmt: skip
    values = pa.array(messages, pa.binary()) if as_array else messages
    decoder = JsonRowDeserializationSchema(row_type, fail_on_missing_field=is_strict)
    settings = ReaderSettings("x:1", "", {}, KafkaSubscription(topics=("t",)), decoder, PoisonAction.SKIP, False, None)
    count = len(messages)
    taken = PartitionRecords("t", 0, values, np.arange(count), np.full(count, -1), None)
    kept = [b for b in Decoding(settings).decoded("t-0", taken) if b.data is not None and b.data.num_rows]
    offsets = [int(offset) for b in kept if b.offsets is not None for offset in b.offsets]
    assert offsets == [0, 7, 13, 17, 18]
    assert {str(row["d"]) for b in kept if b.data is not None for row in b.data.to_pylist()} == {"2024-01-01"}


def test_poison_that_fails_the_job_names_its_offset_and_is_not_retried() -> None:
    decoder = JsonRowDeserializationSchema(TEXT)
    settings = ReaderSettings("x:1", "", {}, KafkaSubscription(topics=("t",)), decoder, PoisonAction.FAIL, False, None)
    taken = PartitionRecords("t", 3, [GOOD, DEEP], np.arange(2) + 7, np.full(2, -1), None)
    refused(lambda: list(Decoding(settings).decoded("t-3", taken)), "offset 8 of partition 3 of topic 't'", "deep")


def test_a_null_that_a_message_must_not_have_is_poison() -> None:
    wanted = Types.SCHEMA(pa.schema([pa.field("d", pa.date32(), nullable=False)]))
    with pytest.raises(PoisonRecord, match="column 'd' is null") as caught:
        decoded(JsonRowDeserializationSchema(wanted), [GOOD, b"{}"])
    assert caught.value.index == 1


def test_errors_of_our_own_and_of_the_system_pass_the_border() -> None:
    for error in (InvalidJob("x"), StorageError("x"), OSError("x"), MemoryError()):
        with pytest.raises(type(error)), content_errors("somewhere"):
            raise error
    for failure in (
        RecursionError("deep"),
        pa.ArrowInvalid("x"),
        KeyError("x"),
        UnicodeDecodeError("utf-8", b"", 0, 1, "x"),
    ):
        with (
            pytest.raises(SchemaMismatch, match=f"^somewhere: {type(failure).__name__}: "),
            content_errors("somewhere"),
        ):
            raise failure


@pytest.mark.parametrize("rows", [1, 3])
def test_an_error_is_reported_also_where_its_records_cannot_be_shown_as_objects(rows: int) -> None:
    batch = ArrowBatch(pa.record_batch({"n": pa.array([1, 2, 3]), "d": LATE}).slice(1, 1 if rows == 1 else 2))
    mismatch = SchemaMismatch("x")
    assert batch_error("sink", mismatch, batch) is mismatch
    raised = batch_error("sink", ValueError("x"), batch)
    assert isinstance(raised, UserFunctionError)
    assert raised.inputs[0]["d"] == "10183-09-21"


def test_the_first_row_that_fails_is_found_with_its_column() -> None:
    data = pa.record_batch({"n": pa.array(range(100)), "d": [datetime.date(2024, 1, 1)] * 100})

    def attempt(part: pa.RecordBatch) -> None:
        if "n" in part.schema.names and any(number >= 37 for number in part.column("n").to_pylist()):
            raise OverflowError

    assert misfit(data, attempt) == "row 37, column 'n', value 37"
    assert misfit(data.slice(0, 10), attempt) == ""
    assert shown_value(LATE[1]) == "10183-09-21"


def test_nulls_are_found_at_any_depth_and_only_where_there_must_be_none() -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    kind = pa.map_(pa.string(), pa.field("value", pa.list_(inner)))
    fine = pa.record_batch({"a": pa.array([None, [("k", None)], [("k", [None])], [("k", [{"x": 1}])]], kind)})
    check_content(fine, "here")
    bad = pa.record_batch({"a": pa.array([[("k", [{"x": 1}])], [("k", []), ("l", [{"x": 1}, {"x": None}])]], kind)})
    with pytest.raises(SchemaMismatch, match="here: column 'a.value.item.x' is null in row 1"):
        check_content(bad, "here")
    with pytest.raises(SchemaMismatch, match="in row 0"):
        check_content(bad.slice(1), "here")
