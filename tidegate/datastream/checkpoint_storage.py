"""Checkpoint storages (PyFlink: ``pyflink.datastream.checkpoint_storage``), which only set Flink's options."""

from __future__ import annotations

from tidegate.model.options import CheckpointingOptions

__all__ = ["CheckpointStorage", "CustomCheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]


class CheckpointStorage:
    """The base class of checkpoint storages."""

    @property
    def options(self) -> dict[str, str]:
        """Returns the configuration that selects it."""
        raise AttributeError(
            f"{type(self).__name__} is not a checkpoint storage that tidegate supports: take FileSystemCheckpointStorage or JobManagerCheckpointStorage"
        )


class JobManagerCheckpointStorage(CheckpointStorage):
    """Keeps checkpoints in the memory of the JobManager, for small state and tests. They are lost with that process
    (PyFlink: ``JobManagerCheckpointStorage``)."""

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._given = checkpoint_path
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size

    @property
    def options(self) -> dict[str, str]:
        found = {CheckpointingOptions.STORAGE.key: "jobmanager"}
        if self._given:
            found[CheckpointingOptions.DIRECTORY.key] = self._given
        return found

    def get_checkpoint_path(self) -> str | None:
        """Returns the directory of the metadata, or ``None`` when none was given."""
        return None if self._given is None else _plain(self._given)

    def get_max_state_size(self) -> int:
        """Returns the largest size of state in bytes."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """Returns ``None``: savepoints have an option of their own."""
        return None

    def __str__(self) -> str:
        return f"JobManagerCheckpointStorage (checkpoints to JobManager) ( maxStateSize: {self._max_state_size})"


class FileSystemCheckpointStorage(CheckpointStorage):
    """Writes checkpoints as files below a directory (path or URI) that all processes reach. State below
    ``file_state_size_threshold`` bytes travels in the acknowledgement and is stored with the metadata (PyFlink:
    ``FileSystemCheckpointStorage``)."""

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        self._given = checkpoint_path
        self._threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        self._write_buffer_size = write_buffer_size

    @property
    def options(self) -> dict[str, str]:
        found = {CheckpointingOptions.STORAGE.key: "filesystem"}
        if self._given:
            found[CheckpointingOptions.DIRECTORY.key] = self._given
        if self._threshold >= 0:
            found[CheckpointingOptions.INLINE_THRESHOLD.key] = f"{self._threshold} b"
        return found

    def get_checkpoint_path(self) -> str | None:
        """Returns the directory of the checkpoints, or ``None`` when none was given."""
        return None if self._given is None else _plain(self._given)

    def get_savepoint_path(self) -> str | None:
        """Returns ``None``: savepoints have an option of their own."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Returns the threshold in bytes below which state is stored with the metadata."""
        return self._threshold if self._threshold >= 0 else 20 * 1024

    def get_write_buffer_size(self) -> int:
        """Returns the size of write buffers in bytes, which has no effect here."""
        return self._write_buffer_size if self._write_buffer_size > 0 else max(4096, self._threshold)


class CustomCheckpointStorage(CheckpointStorage):
    """A storage that wraps a Java class, which is refused."""

    def __init__(self, *_: object) -> None:
        raise TypeError(
            "a CustomCheckpointStorage wraps a Java class, which tidegate cannot run; "
            "use FileSystemCheckpointStorage with a path or URI (file, s3, gs, hdfs)"
        )


def _plain(path: str) -> str:
    """Formats a path as Flink's ``Path``: without a slash at its end."""
    plain = str(path)
    plain = f"file:/{plain[8:]}" if plain.startswith("file:///") else plain
    return plain.rstrip("/") or "/"
