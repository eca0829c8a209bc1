"""Names of Flink 1 that Flink 2 has removed: importing one raises an error that says what to write instead."""

from __future__ import annotations

from tidegate.common.names.finding import Names, removed

__all__ = ["flink_1"]

_EVENT_TIME = (
    "every stream has event time once it has a WatermarkStrategy; leave the line with TimeCharacteristic out, and name "
    "processing time by the window assigner (TumblingProcessingTimeWindows)"
)
_EXECUTION_MODE = "say env.set_runtime_mode(RuntimeExecutionMode.BATCH) or STREAMING"
_CLEANUP = "write ExternalizedCheckpointRetention, with config.set_externalized_checkpoint_retention(...)"
_STORAGE = (
    "a backend says how state is kept at work, a storage where checkpoints go: write {backend}, and "
    "env.get_checkpoint_config().set_checkpoint_storage({storage})"
)
_BACKENDS = {
    **removed("FsStateBackend", _STORAGE.format(backend="HashMapStateBackend", storage='"file:///..."')),
    **removed(
        "MemoryStateBackend", _STORAGE.format(backend="HashMapStateBackend", storage="JobManagerCheckpointStorage()")
    ),
    **removed("RocksDBStateBackend", _STORAGE.format(backend="EmbeddedRocksDBStateBackend", storage='"file:///..."')),
}
_TIME = removed("TimeCharacteristic", _EVENT_TIME)
_MODE = removed("ExecutionMode", _EXECUTION_MODE)
_RETENTION = removed("ExternalizedCheckpointCleanup", _CLEANUP)

_BY_MODULE: dict[str, Names] = {
    "tidegate.common": _MODE,
    "tidegate.common.execution_config": _MODE,
    "tidegate.common.execution_mode": _MODE,
    "tidegate.datastream": {**_BACKENDS, **_TIME, **_RETENTION},
    "tidegate.datastream.checkpoint_config": _RETENTION,
    "tidegate.datastream.state_backend": _BACKENDS,
    "tidegate.datastream.stream_execution_environment": _TIME,
    "tidegate.datastream.time_characteristic": _TIME,
}


def flink_1(module: str) -> Names:
    """Returns the table of the names that ``module`` had in Flink 1."""
    return _BY_MODULE[module]
