"""State backends by name (PyFlink: ``pyflink.datastream.state_backend``)."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.options import CheckpointingOptions, RocksDBOptions, StateOptions

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "StateBackend"]


@dataclass
class StateBackend:
    """``backend_type`` is the text of ``state.backend.type``."""

    backend_type: str

    @property
    def options(self) -> dict[str, str]:
        """The configuration that selects it."""
        return {StateOptions.BACKEND.key: self.backend_type}


class HashMapStateBackend(StateBackend):
    """State as Python objects and Arrow arrays in the memory of the subtask."""

    def __init__(self) -> None:
        super().__init__("hashmap")


class EmbeddedRocksDBStateBackend(StateBackend):
    """State on the local disk of the TaskManager, for more of it than fits into memory. Needs ``tidegate[rocksdb]``.

    ``enable_incremental_checkpointing``: ``None`` leaves it to ``execution.checkpointing.incremental``."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        super().__init__("rocksdb")
        self._incremental = enable_incremental_checkpointing
        self._paths: tuple[str, ...] = ()

    def is_incremental_checkpoints_enabled(self) -> bool:
        return bool(self._incremental)

    def set_db_storage_paths(self, *paths: str) -> None:
        """Local directories for its files; the subtasks are dealt among them."""
        self._paths = paths

    def get_db_storage_paths(self) -> list[str] | None:
        return list(self._paths) or None

    @property
    def options(self) -> dict[str, str]:
        found = dict(super().options)
        if self._incremental is not None:
            found[CheckpointingOptions.INCREMENTAL.key] = "true" if self._incremental else "false"
        if self._paths:
            found[RocksDBOptions.LOCAL_DIRECTORIES.key] = ";".join(self._paths)
        return found
