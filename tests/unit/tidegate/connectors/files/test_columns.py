"""Parquet and ORC with a row type of their own, under PyFlink's names."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from tidegate.common.configuration import Configuration
from tidegate.common.row import Row
from tidegate.common.serialization import BulkWriterFactory
from tidegate.common.time import Instant
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import SinkContext
from tidegate.connectors.files.file_range import FileRange
from tidegate.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from tidegate.datastream.formats.orc import OrcBulkWriters
from tidegate.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.records.batch import ArrowBatch
from tidegate.records.record_codec import decode, encode
from tidegate.table.types import DataType, DataTypes, RowType

MOMENT = datetime.datetime(1970, 1, 2, 3, 4, 5, 600700)
KIND = DataTypes.ROW(
    [
        DataTypes.FIELD("text", DataTypes.VARCHAR(10)),
        DataTypes.FIELD("raw", DataTypes.BINARY(4)),
        DataTypes.FIELD("money", DataTypes.DECIMAL(4, 1)),
        DataTypes.FIELD("day", DataTypes.DATE().bridged_to("java.sql.Date")),
        DataTypes.FIELD("at", DataTypes.TIMESTAMP(3)),
        DataTypes.FIELD("list", DataTypes.ARRAY(DataTypes.INT())),
        DataTypes.FIELD("map", DataTypes.MAP(DataTypes.INT(), DataTypes.STRING())),
    ]
)
ROW = Row(
    text="a", raw=b"x", money=Decimal("1.25"), day=MOMENT.date(), at=MOMENT, list=[1, 2], map={1: "one"}
)  # fmt: skip
NULLS = Row(text=None, raw=None, money=None, day=None, at=None, list=None, map=None)


def write(directory: Path, factory: BulkWriterFactory, kind: Any, rows: list[Row]) -> Path:
    builder = FileSink.for_bulk_format(str(directory), factory)
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    context = SinkContext(0, 1, "job", "attempt", "op", None)
    writer, committer = sink.make_writer(context, [], kind), sink.make_committer(context)
    writer.write(ArrowBatch(encode(kind, rows)))
    assert committer is not None
    committer.commit(writer.prepare_commit(1))
    writer.close()
    (file,) = directory.iterdir()
    return file


def read(path: Path, row_type: RowType, **options: Any) -> list[Any]:
    source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(row_type, **options), str(path)).build()
    (split,) = source.list_splits(1)
    found = ParquetColumnarRowInputFormat(row_type, **options).file_format
    return [
        row
        for block in found.blocks(FileRange(*split.payload), None, 0)
        for row in decode(source.produced_type(), block.data)
    ]


def test_rows_go_to_parquet_and_back_with_the_digits_of_their_types(tmp_path: Path) -> None:
    file = write(tmp_path / "out", ParquetBulkWriters.for_row_type(KIND), KIND.row_type_info(), [ROW, NULLS])
    assert pq.read_schema(file).types == KIND.arrow_schema().types
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "SNAPPY"
    first, second = read(file, KIND)
    assert first == Row(**{**ROW.as_dict(), "money": Decimal("1.3"), "at": MOMENT.replace(microsecond=600000)})
    assert second == NULLS


def test_rows_go_to_orc(tmp_path: Path) -> None:
    settings = Configuration({"orc.compress": "SNAPPY"})
    file = write(tmp_path / "out", OrcBulkWriters.for_row_type(KIND, settings), KIND.row_type_info(), [ROW, NULLS])
    found = orc.ORCFile(file)
    assert found.compression == "SNAPPY"
    first, second = found.read().to_pylist()
    assert (first["text"], first["money"], first["list"], first["map"]) == ("a", Decimal("1.3"), [1, 2], [(1, "one")])
    assert set(second.values()) == {None}


def test_a_column_that_a_file_has_not_is_null_and_types_are_converted(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"ID": pa.array([1], pa.int32()), "when": pa.array([10**6], pa.timestamp("us"))}), tmp_path / "f"
    )
    fields = [("id", DataTypes.BIGINT()), ("when", DataTypes.TIMESTAMP_LTZ(3)), ("more", DataTypes.STRING())]
    kind = DataTypes.ROW([DataTypes.FIELD(*field) for field in fields])
    assert read(tmp_path / "f", kind) == [Row(id=None, when=Instant(1, 0), more=None)]
    assert read(tmp_path / "f", kind, is_case_sensitive=False) == [Row(id=1, when=Instant(1, 0), more=None)]
    pq.write_table(pa.table({"id": ["x"], "ID": ["y"]}), tmp_path / "f")
    with pytest.raises(SchemaMismatch, match="'id' is declared as int64"):
        read(tmp_path / "f", kind)
    with pytest.raises(SchemaMismatch, match="differ in case only"):
        read(tmp_path / "f", kind, is_case_sensitive=False)


def test_what_a_column_cannot_hold_is_an_error(tmp_path: Path) -> None:
    whole = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.DECIMAL(2, 0).not_null())])
    stream = Types.ROW([Types.BIG_DEC()])
    with pytest.raises(SchemaMismatch, match=r"column 'n' is declared as decimal128\(2, 0\)"):
        write(tmp_path / "a", ParquetBulkWriters.for_row_type(whole), stream, [Row(Decimal("99.5"))])
    with pytest.raises(SchemaMismatch, match="'n' is declared NOT NULL, and its data has a null"):
        write(tmp_path / "b", ParquetBulkWriters.for_row_type(whole), stream, [Row(None)])
    with pytest.raises(SchemaMismatch, match="give the stream these names, or as many"):
        write(tmp_path / "c", ParquetBulkWriters.for_row_type(KIND), stream, [Row(None)])


def test_settings_that_are_not_followed_are_refused() -> None:
    row_type = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.INT())])
    with pytest.raises(InvalidJob, match=r"parquet\.page\.size.*; it takes parquet\.compression"):
        ParquetBulkWriters.for_row_type(row_type, Configuration({"parquet.page.size": "1"}))
    with pytest.raises(InvalidJob, match="which takes none$"):
        ParquetColumnarRowInputFormat(row_type, Configuration({"a": "b"}))
    not_a_row: Any = DataTypes.INT()
    with pytest.raises(TypeError, match="row_type must be an instance of RowType"):
        OrcBulkWriters.for_row_type(not_a_row)


def test_types_of_columns_have_flinks_names_and_bounds() -> None:
    assert str(KIND.field_types()[2]) == "DECIMAL(4, 1)"
    assert str(DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT(False))])) == "ROW<`a` INT NOT NULL>"
    assert str(DataTypes.MAP(DataTypes.INT(), DataTypes.ARRAY(DataTypes.CHAR(3)))) == "MAP<INT, ARRAY<CHAR(3)>>"
    assert (KIND.names[0], len(KIND), [f.name for f in KIND][-1]) == ("text", 7, "map")
    assert (DataTypes.TIME(3).arrow, DataTypes.TIME(6).arrow) == (pa.time32("ms"), pa.time64("us"))
    assert DataTypes.INT().not_null().nullable() == DataTypes.INT()
    made: list[Callable[[], DataType]] = [
        lambda: DataTypes.DECIMAL(39, 0),
        lambda: DataTypes.DECIMAL(2, 3),
        lambda: DataTypes.CHAR(0),
        lambda: DataTypes.TIMESTAMP(10),
        lambda: DataTypes.ROW([]),
    ]
    for make in made:
        with pytest.raises(InvalidJob):
            make()
