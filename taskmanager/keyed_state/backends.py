"""Opens the keyed state backend that ``state.backend.type`` names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.common.typeinfo import TypeInformation
from tidegate.model.configuration import Configuration
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.options import CheckpointingOptions, StateBackendKind, StateOptions
from tidegate.records.record_copy import reuses_objects
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.heap.backend import KeyedStateBackend
from tidegate.taskmanager.keyed_state.rocksdb.backend import RocksKeyedBackend
from tidegate.taskmanager.keyed_state.rocksdb.database import RocksDatabase, RocksDBSettings


@dataclass(frozen=True, slots=True)
class BackendPlace:
    """The settings and resources of a backend. ``temp_dir``: of the attempt, removed with it."""

    configuration: Mapping[str, str]
    temp_dir: str
    managed_memory_bytes: int
    subtask: int
    restored_checkpoint_id: int | None
    now_ms: Callable[[], int]


def open_keyed_backend(
    place: BackendPlace, operator: str, owned: KeyGroupRange, key_type: TypeInformation | None
) -> KeyedBackend:
    """Opens the configured backend. Raises ``InvalidJob`` when it is not installed, and ``StorageError`` when its directory cannot be used."""
    texts = {key: text for key, text in place.configuration.items() if key.startswith(("state.", "execution."))}
    configuration = Configuration.from_strings(texts)
    if configuration.get(StateOptions.BACKEND) is not StateBackendKind.ROCKSDB:
        reuses = reuses_objects(place.configuration)
        return KeyedStateBackend(
            operator, owned, key_type, place.now_ms, place.restored_checkpoint_id, reuses_objects=reuses
        )
    settings = RocksDBSettings.of(configuration, place.managed_memory_bytes)
    return RocksKeyedBackend(
        operator,
        owned,
        key_type,
        place.now_ms,
        RocksDatabase(settings, place.temp_dir, place.subtask),
        is_incremental=configuration.get(CheckpointingOptions.INCREMENTAL),
        restored_checkpoint_id=place.restored_checkpoint_id,
    )
