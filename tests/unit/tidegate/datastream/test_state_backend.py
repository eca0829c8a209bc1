"""State backends as PyFlink names them are options of the job."""

from __future__ import annotations

import pytest

from tidegate.common import Time
from tidegate.common.typeinfo import Types
from tidegate.datastream import EmbeddedRocksDBStateBackend, HashMapStateBackend, StreamExecutionEnvironment
from tidegate.datastream.state_backend import StateBackend
from tidegate.functions.state import StateTtlConfig, ValueStateDescriptor

BACKEND, INCREMENTAL = "state.backend.type", "execution.checkpointing.incremental"


def test_a_backend_is_a_set_of_options() -> None:
    disk = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
    disk.set_db_storage_paths("/a", "/b")
    assert disk.options == {
        BACKEND: "rocksdb",
        INCREMENTAL: "true",
        "state.backend.rocksdb.localdir": "/a;/b",
    }
    assert disk.is_incremental_checkpoints_enabled()
    assert disk.get_db_storage_paths() == ["/a", "/b"]
    assert EmbeddedRocksDBStateBackend().options == {BACKEND: "rocksdb"}
    assert EmbeddedRocksDBStateBackend().get_db_storage_paths() is None


@pytest.mark.parametrize(
    ("backend", "name"), [(HashMapStateBackend(), "hashmap"), (EmbeddedRocksDBStateBackend(False), "rocksdb")]
)
def test_the_environment_takes_them_over(backend: StateBackend, name: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_state_backend(backend)
    assert env._configuration.get_string(BACKEND, "") == name
    assert env._configuration.get_string(INCREMENTAL, "not set") == ("not set" if name == "hashmap" else "false")


def test_a_descriptor_without_time_to_live_says_so() -> None:
    descriptor = ValueStateDescriptor("x", Types.LONG())
    assert descriptor.ttl_config is None
    config = StateTtlConfig.new_builder(Time.hours(1)).disable_cleanup_in_background().build()
    descriptor.enable_time_to_live(config)
    assert descriptor.ttl_config is config
    assert config.get_ttl() == Time.hours(1)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_cleanup_strategies().get_incremental_cleanup_strategy() is None
    assert not config.get_cleanup_strategies().in_rocksdb_compact_filter()
