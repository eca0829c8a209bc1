"""Values under PyFlink's names behave as PyFlink's do."""

from __future__ import annotations

import datetime as dt
import importlib

import pytest

from tidegate.common import ConfigOptions, Configuration, ExecutionConfig, RestartStrategies, Row
from tidegate.common.serialization import ByteArraySchema, RowFieldExtractorSchema
from tidegate.common.typeinfo import RowTypeInfo, TypeInformation, Types
from tidegate.datastream import CheckpointConfig, CheckpointingMode, MemorySize, SlotSharingGroup
from tidegate.datastream.checkpoint_storage import FileSystemCheckpointStorage, JobManagerCheckpointStorage
from tidegate.model.errors import InvalidJob, SchemaMismatch


def test_a_configuration_remembers_what_kind_of_value_was_set() -> None:
    conf = Configuration().set_string("k1", "v1").set_integer("k2", 1).set_float("k3", 1.2).set_boolean("k4", True)
    conf.set_bytearray("k5", bytearray([1, 2, 3]))
    found: dict[str, object] = {}
    conf.add_all_to_dict(found)
    assert found == {"k1": "v1", "k2": 1, "k3": 1.2, "k4": True, "k5": bytearray([1, 2, 3])}
    assert conf.get_bytearray("k5", bytearray()) == bytearray([1, 2, 3])
    assert Configuration(conf).to_dict() == {"k1": "v1", "k2": "1", "k3": "1.2", "k4": "true", "k5": "010203"}
    assert str(Configuration.from_dict({"k1": "v1", "k2": "1"})) == "{k1=v1, k2=1}"


@pytest.mark.parametrize("text", ["[a, b]", "- a\n- b", "a;b"])
def test_list_options_in_every_form(text: str) -> None:
    assert Configuration.parse_list_value(text) == ["a", "b"]
    assert Configuration.parse_list_value(None) == []


def test_options_of_a_program_s_own() -> None:
    option = ConfigOptions.key("my.size").int_type().default_value(3)
    assert (option.key, option.default_value, option.parse("4")) == ("my.size", 3, 4)


def test_switches_of_an_execution_config() -> None:
    config = ExecutionConfig(Configuration())
    assert config.is_closure_cleaner_enabled()
    assert not config.disable_closure_cleaner().is_closure_cleaner_enabled()
    assert not config.is_object_reuse_enabled()
    assert config.enable_object_reuse().is_object_reuse_enabled()
    assert config.get_task_cancellation_interval() == 30_000
    assert config.set_task_cancellation_timeout(3000).get_task_cancellation_timeout() == 3000
    assert config == ExecutionConfig(Configuration(config._configuration))


def test_restart_strategies_say_what_they_are() -> None:
    fixed = RestartStrategies.fixed_delay_restart(4, 10_000)
    assert isinstance(fixed, RestartStrategies.FixedDelayRestartStrategyConfiguration)
    assert (fixed.get_restart_attempts(), fixed.get_delay_between_attempts_interval()) == (4, dt.timedelta(seconds=10))
    assert RestartStrategies.no_restart() == RestartStrategies.no_restart()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (RowTypeInfo([Types.STRING(), Types.INT()], ["a", "b"]), "RowTypeInfo(a: String, b: Integer)"),
        (Types.TUPLE([Types.STRING(), Types.INT()]), "TupleTypeInfo(String, Integer)"),
        (Types.MAP(Types.INT(), Types.LIST(Types.BYTE())), "MapTypeInfo<Integer, ListTypeInfo<Byte>>"),
        (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
    ],
)
def test_types_are_shown_as_in_pyflink(kind: TypeInformation, text: str) -> None:
    assert str(kind) == text


def test_the_internal_form_of_values() -> None:
    kind = RowTypeInfo([Types.SQL_DATE(), Types.SQL_TIME(), Types.LONG()], ["day", "time", "n"])
    row = Row(day=dt.date(1970, 1, 2), time=dt.time(0, 0, 1), n=5)
    assert kind.to_internal_type(row) == (0, 1, 1_000_000, 5)
    assert Types.SQL_DATE().from_internal_type(1) == dt.date(1970, 1, 2)
    moment = dt.datetime(2021, 1, 9, 12, 0, 0, 11_000)
    assert Types.SQL_TIMESTAMP().from_internal_type(Types.SQL_TIMESTAMP().to_internal_type(moment)) == moment


def test_a_slot_sharing_group_with_resources_needs_both_of_the_first() -> None:
    builder = SlotSharingGroup.builder("g").set_cpu_cores(1.0).set_task_off_heap_memory_mb(10)
    with pytest.raises(InvalidJob, match="task heap memory"):
        builder.build()
    group = builder.set_task_heap_memory_mb(100).set_external_resource("gpu", 1.0).build()
    assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(100)
    assert group.get_external_resources() == {"gpu": 1.0}
    assert SlotSharingGroup.builder("g").build().get_cpu_cores() is None


def test_checkpoint_storages() -> None:
    storage = FileSystemCheckpointStorage("file:///tmp/x/", file_state_size_threshold=2048)
    assert (storage.get_checkpoint_path(), storage.get_min_file_size_threshold()) == ("file:/tmp/x", 2048)
    assert JobManagerCheckpointStorage().get_max_state_size() == 5 * 1024 * 1024
    config = CheckpointConfig(Configuration()).set_checkpoint_storage(storage)
    found = config.get_checkpoint_storage()
    assert found is not None
    assert found.options[next(iter(found.options))] == "filesystem"
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.set_checkpoint_interval(10).get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE


def test_schemas_of_messages() -> None:
    assert ByteArraySchema().serialize(b"x") == b"x"
    assert RowFieldExtractorSchema(1).serialize(Row("a", b"42")) == b"42"
    assert RowFieldExtractorSchema(0).serialize(Row(None, 1)) == b"" == RowFieldExtractorSchema(0).serialize(None)
    for row, message in (
        (Row(b"a", "42"), "must be of type bytes, but was str"),
        (Row(b"a"), "field 1 in Row with arity 1"),
    ):
        with pytest.raises(SchemaMismatch, match=message):
            RowFieldExtractorSchema(1).serialize(row)
    with pytest.raises(ValueError, match="Field index must be non-negative"):
        RowFieldExtractorSchema(-1)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("datastream.connectors.kafka", "FlinkKafkaConsumer"),
        ("datastream.connectors.file_system", "FileCompactStrategy"),
        ("datastream.utils", "create_hadoop_configuration"),
        ("table.types", "_to_java_data_type"),
    ],
)
def test_a_name_of_java_imports_beside_ours(module: str, name: str) -> None:
    placeholder = getattr(importlib.import_module(f"tidegate.{module}"), name)
    with pytest.raises(TypeError, match=f"tidegate.{module}.{name} stands for a Java class of Flink"):
        placeholder.new_builder()
    assert not hasattr(placeholder, "__wrapped__"), "what tools ask of every object is no use of it"


@pytest.mark.parametrize("module", ["pulsar", "jdbc", "kinesis", "rabbitmq", "cassandra", "elasticsearch"])
def test_a_connector_of_java_is_refused_when_it_is_used(module: str) -> None:
    found = importlib.import_module(f"tidegate.datastream.connectors.{module}")
    name = found._NAMES.split()[-1]
    named = getattr(found, name)  # an import of it among others does not fail: PyFlink's own tests have such
    assert (named.__name__, named.__module__) == (name, found.__name__)
    for use in (named, lambda: named.builder(), lambda: type(named)("Mine", (named,), {})):
        with pytest.raises(
            TypeError, match=f"{name} stands for a Java class of Flink, which tidegate does not run; .*(use|write)"
        ):
            use()
    with pytest.raises(AttributeError):
        _ = found.nothing_of_the_kind


@pytest.mark.parametrize("name", ["AllWindowedStream", "ConnectedStreams", "KeyedStream", "WindowedStream"])
def test_streams_of_every_kind_are_found_where_pyflink_has_them(name: str) -> None:
    assert getattr(importlib.import_module("tidegate.datastream.data_stream"), name).__name__ == name
