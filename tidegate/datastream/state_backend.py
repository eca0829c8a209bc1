"""State backends (PyFlink: ``pyflink.datastream.state_backend``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from tidegate.common.names.finding import finding
from tidegate.common.names.flink_1 import flink_1
from tidegate.model.options import CheckpointingOptions, RocksDBOptions, StateOptions

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "PredefinedOptions",
    "StateBackend",
]


_TRANSFER_THREADS = 4
"""Flink's default."""


@dataclass
class StateBackend:
    """The base class of state backends. ``backend_type``: the value of ``state.backend.type``."""

    backend_type: str

    @property
    def options(self) -> dict[str, str]:
        """Returns the configuration that selects it."""
        return {StateOptions.BACKEND.key: self.backend_type}


class PredefinedOptions(Enum):
    """Flink's sets of RocksDB settings for kinds of disks."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class CustomStateBackend(StateBackend):
    """A backend that wraps a Java class, which is refused."""

    def __init__(self, *_: object) -> None:
        raise TypeError(
            "a CustomStateBackend wraps a Java class, which tidegate cannot run; "
            "use HashMapStateBackend or EmbeddedRocksDBStateBackend"
        )


class HashMapStateBackend(StateBackend):
    """Keeps state as Python objects and Arrow arrays in the memory of the subtask."""

    def __init__(self) -> None:
        super().__init__("hashmap")


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps state on the local disk of the TaskManager, for more of it than fits into memory. Needs ``tidegate[rocksdb]``.

    ``enable_incremental_checkpointing``: ``None`` leaves it to ``execution.checkpointing.incremental``."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        super().__init__("rocksdb")
        self._incremental = enable_incremental_checkpointing
        self._paths: tuple[str, ...] = ()
        self._predefined = PredefinedOptions.DEFAULT
        self._options_factory: str | None = None
        self._transfer_threads = -1

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Returns whether incremental checkpoints were enabled at this backend."""
        return bool(self._incremental)

    def set_db_storage_paths(self, *paths: str) -> None:
        """Sets local directories for its files, as paths or ``file:`` URIs; subtasks are distributed among them."""
        self._paths = tuple(_local_directory(path) for path in paths)

    def get_db_storage_paths(self) -> list[str] | None:
        """Returns the local directories of the databases, or ``None`` when none was set."""
        return list(self._paths) or None

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Sets a profile of RocksDB's options for a kind of disk and memory."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Returns the profile of RocksDB's options."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Records Flink's options factory, a Java class that cannot run here: it can be read back, and the job logs a
        warning."""
        self._options_factory = options_factory_class_name

    def get_options(self) -> str | None:
        """Returns the name of the options factory, or ``None``."""
        return self._options_factory

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Sets how many threads copy files at a checkpoint or restore."""
        self._transfer_threads = number_of_transfering_threads

    def get_number_of_transfer_threads(self) -> int:
        """Returns how many threads copy files at a checkpoint or restore."""
        return self._transfer_threads if self._transfer_threads > 0 else _TRANSFER_THREADS

    @property
    def options(self) -> dict[str, str]:
        found = dict(super().options)
        if self._predefined is not PredefinedOptions.DEFAULT:
            found["state.backend.rocksdb.predefined-options"] = self._predefined.name
        if self._options_factory is not None:
            found["state.backend.rocksdb.options-factory"] = self._options_factory
        if self._transfer_threads > 0:
            found["state.backend.rocksdb.checkpoint.transfer.thread.num"] = str(self._transfer_threads)
        if self._incremental is not None:
            found[CheckpointingOptions.INCREMENTAL.key] = "true" if self._incremental else "false"
        if self._paths:
            found[RocksDBOptions.LOCAL_DIRECTORIES.key] = ";".join(self._paths)
        return found


def _from_j_state_backend(j_state_backend: StateBackend) -> StateBackend:
    """Converts an object under PyFlink's name to a state backend. Raises ``TypeError`` for others."""
    return j_state_backend if isinstance(j_state_backend, StateBackend) else CustomStateBackend(j_state_backend)


def _local_directory(path: str) -> str:
    """Returns the path of a URI without a slash at its end, as Flink's ``Path``."""
    plain = urlsplit(path).path if path.startswith("file:") else path
    return plain.rstrip("/") or "/"


__getattr__ = finding(__name__, flink_1(__name__))
