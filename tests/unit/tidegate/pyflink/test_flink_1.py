"""Names that Flink 2 has removed say what replaces them, in the import itself."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path

import pytest

from tidegate.common import Encoder, Types
from tidegate.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE
from tidegate.common.typeinfo import (
    BasicType,
    DateTypeInfo,
    ExternalTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors import FileSink, KafkaSource
from tidegate.datastream.connectors.file_system import (
    BucketAssigner,
    OutputFileConfig,
    RollingPolicy,
    StreamingFileSink,
)
from tidegate.datastream.connectors.file_system import FileSink as SameFileSink
from tidegate.datastream.formats.parquet import ParquetBulkWriters
from tidegate.model.errors import InvalidJob
from tidegate.table.types import DataTypes


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        ("common", "ExecutionMode", "RuntimeExecutionMode"),
        ("common.execution_mode", "ExecutionMode", "RuntimeExecutionMode"),
        ("datastream", "TimeCharacteristic", "WatermarkStrategy"),
        ("datastream.time_characteristic", "TimeCharacteristic", "WatermarkStrategy"),
        ("datastream.stream_execution_environment", "TimeCharacteristic", "WatermarkStrategy"),
        ("datastream", "FsStateBackend", "HashMapStateBackend"),
        ("datastream", "MemoryStateBackend", "JobManagerCheckpointStorage"),
        ("datastream.state_backend", "RocksDBStateBackend", "EmbeddedRocksDBStateBackend"),
        ("datastream", "ExternalizedCheckpointCleanup", "ExternalizedCheckpointRetention"),
        ("datastream.checkpoint_config", "ExternalizedCheckpointCleanup", "set_externalized_checkpoint_retention"),
    ],
)
def test_a_removed_name_says_what_replaces_it(module: str, name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=f"Flink 2 has removed {name}: .*{instead}"):
        exec(f"from tidegate.{module} import {name}")


def test_a_name_that_never_was_is_reported_as_python_does() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from tidegate.datastream import Nothing")
    assert not hasattr(importlib.import_module("tidegate.common"), "Nothing")


@pytest.mark.parametrize("name", ["FlinkKafkaConsumer", "FlinkKafkaProducer"])
def test_connectors_of_flink_1_import_and_say_what_to_use(name: str) -> None:
    found = getattr(importlib.import_module("tidegate.datastream.connectors"), name)
    with pytest.raises(TypeError, match=rf"{name} .*use KafkaSource and KafkaSink"):
        found()


def test_the_file_sink_of_flink_1_writes_what_the_newer_one_writes(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="Use FileSink instead"):
        rows = StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    policy, names = RollingPolicy.default_rolling_policy(part_size=10), OutputFileConfig("words", ".txt")
    flat = BucketAssigner.base_path_bucket_assigner()
    older = rows.with_rolling_policy(policy=policy).with_bucket_check_interval(1000).with_bucket_assigner(flat)
    newer = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).with_rolling_policy(policy)
    sinks = (
        older.with_output_file_config(names).build(),
        (newer.with_bucket_assigner(flat).with_output_file_config(names).build()),
    )
    assert pickle.dumps(sinks[0]) == pickle.dumps(sinks[1])
    kind = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.INT())])
    with pytest.warns(DeprecationWarning, match="Use FileSink instead"):
        bulk = StreamingFileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(kind)).build()
    parquet = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(kind)).build()
    assert pickle.dumps(bulk) == pickle.dumps(parquet)


def test_names_of_other_modules_are_the_same_objects() -> None:
    assert FileSink is SameFileSink
    assert KafkaSource is importlib.import_module("tidegate.datastream.connectors.kafka").KafkaSource
    assert (MIN_LONG_VALUE, MAX_LONG_VALUE) == (-(2**63), 2**63 - 1)


def test_classes_of_types_make_and_know_the_types_of_ours() -> None:
    assert [DateTypeInfo(), TimeTypeInfo(), TimestampTypeInfo()] == [
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
    ]
    assert isinstance(Types.SQL_DATE(), DateTypeInfo)
    assert not isinstance(Types.SQL_TIME(), DateTypeInfo)
    assert LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME) == Types.SQL_TIMESTAMP()
    assert InstantTypeInfo(BasicType.INSTANT) == Types.INSTANT()
    assert ExternalTypeInfo(Types.INT()) == Types.INT()
    with pytest.raises(InvalidJob, match="type of instants"):
        InstantTypeInfo(BasicType.INT)


def test_a_cached_stream_has_the_records_of_the_stream() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    cached = env.from_collection([1, 2, 3], Types.INT()).cache()
    cached.invalidate()
    assert cached.get_type() == Types.INT()
    with pytest.raises(InvalidJob, match="before cache"):
        cached.name("numbers")
