"""`CheckpointConfig`: a view of the environment's checkpoint options (PyFlink: ``pyflink.datastream.checkpoint_config``).

Every setter writes Flink's option as text; times are ms. What is not set is the cluster's business.
"""

from __future__ import annotations

from tidegate.common.configuration import Configuration
from tidegate.common.names.finding import finding
from tidegate.common.names.flink_1 import flink_1
from tidegate.common.time import Duration
from tidegate.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from tidegate.datastream.checkpointing_mode import CheckpointingMode
from tidegate.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from tidegate.model.errors import ConfigurationError
from tidegate.model.units import parse_duration_ms
from tidegate.model.whole_numbers import whole_number

__all__ = ["CheckpointConfig"]

_PREFIX = "execution.checkpointing."
INTERVAL = _PREFIX + "interval"
MODE = _PREFIX + "mode"
TIMEOUT = _PREFIX + "timeout"
MIN_PAUSE = _PREFIX + "min-pause"
MAX_CONCURRENT = _PREFIX + "max-concurrent-checkpoints"
TOLERABLE_FAILED = _PREFIX + "tolerable-failed-checkpoints"
RETENTION = _PREFIX + "externalized-checkpoint-retention"
DIRECTORY = _PREFIX + "dir"
UNALIGNED = _PREFIX + "unaligned.enabled"
FORCED = _PREFIX + "unaligned.forced"
STORAGE = _PREFIX + "storage"
ALIGNED_TIMEOUT = _PREFIX + "aligned-checkpoint-timeout"


class CheckpointConfig:
    """The checkpoint options of an environment (PyFlink: ``CheckpointConfig``). Times are in milliseconds; setters
    return the view itself."""

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Returns whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpoint_interval(self) -> int:
        """Returns the interval in milliseconds, or -1 when checkpointing is off."""
        return self._duration_ms(INTERVAL, -1)

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Sets the time from one checkpoint's start to the next, in milliseconds. Raises ``ConfigurationError`` below 1."""
        return self._set_duration(INTERVAL, checkpoint_interval, 1)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Returns the guarantee; as in Flink, at least once while checkpointing is off."""
        if not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        text = self._configuration.get_string(MODE, self.DEFAULT_MODE.value)
        return CheckpointingMode(text.upper().replace("-", "_"))

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Sets the guarantee: exactly once (barriers are aligned) or at least once."""
        self._configuration.set_string(MODE, checkpointing_mode.value)
        return self

    def get_checkpoint_timeout(self) -> int:
        """Returns after how many milliseconds a checkpoint times out."""
        return self._duration_ms(TIMEOUT, self.DEFAULT_TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Sets after how many milliseconds a checkpoint times out. Raises ``ConfigurationError`` below 1."""
        return self._set_duration(TIMEOUT, checkpoint_timeout, 1)

    def get_min_pause_between_checkpoints(self) -> int:
        """Returns the shortest time in milliseconds from one checkpoint's end to the next one's start."""
        return self._duration_ms(MIN_PAUSE, self.DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Sets the shortest time in milliseconds from one checkpoint's end to the next one's start. Raises
        ``ValueError`` below 0."""
        return self._set_duration(MIN_PAUSE, min_pause_between_checkpoints, 0)

    def get_max_concurrent_checkpoints(self) -> int:
        """Returns the most checkpoints that may run at once."""
        return self._configuration.get_integer(MAX_CONCURRENT, self.DEFAULT_MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Sets the most checkpoints that may run at once."""
        self._configuration.set_integer(MAX_CONCURRENT, max_concurrent_checkpoints)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Returns how many checkpoints in a row may fail before the job does."""
        return self._configuration.get_integer(TOLERABLE_FAILED, 0)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Sets how many checkpoints in a row may fail before the job does."""
        self._configuration.set_integer(TOLERABLE_FAILED, tolerable_checkpoint_failure_number)
        return self

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Returns what is done with the latest checkpoint when the job is cancelled."""
        default = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS.name
        return ExternalizedCheckpointRetention[self._configuration.get_string(RETENTION, default).upper()]

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Sets what is done with the latest checkpoint when the job is cancelled."""
        self._configuration.set_string(RETENTION, retention_mode.name)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Returns whether a retention other than ``NO_EXTERNALIZED_CHECKPOINTS`` is set."""
        none = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not none

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Enables unaligned checkpoints: barriers overtake in-flight data, which becomes part of the checkpoint."""
        self._configuration.set_boolean(UNALIGNED, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Disables unaligned checkpoints, as by default: barriers stay in line with the records."""
        return self.enable_unaligned_checkpoints(False)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Returns whether barriers may overtake records."""
        return self._configuration.get_boolean(UNALIGNED, False)

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Sets how long a barrier of an unaligned checkpoint aligns first; zero: not at all."""
        return self._set_duration(ALIGNED_TIMEOUT, alignment_timeout.to_millis(), 0)

    def get_alignment_timeout(self) -> Duration:
        """Returns how long a checkpoint stays aligned before its barriers may overtake records."""
        return Duration.of_millis(self._duration_ms(ALIGNED_TIMEOUT, 0))

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Sets how long a barrier of an unaligned checkpoint aligns first, under the newer name of ``set_alignment_timeout``."""
        return self.set_alignment_timeout(alignment_timeout)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Returns how long a checkpoint stays aligned before its barriers may overtake records."""
        return self.get_alignment_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Takes unaligned checkpoints also where Flink would refuse them."""
        self._configuration.set_boolean(FORCED, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Returns whether checkpoints are unaligned also where Flink would refuse it."""
        return self._configuration.get_boolean(FORCED, False)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Returns whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Sets whether the first failed checkpoint fails the job; ``False``: any number may fail."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else 2**31 - 1)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Sets where checkpoints are written."""
        self._configuration.add_all(Configuration(storage.options))
        return self

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Returns the storage of checkpoints; ``None``: the cluster's default."""
        name = self._configuration.get_string(STORAGE, "")
        directory = self._configuration.get_string(DIRECTORY, "") or None
        if name == "jobmanager":
            return JobManagerCheckpointStorage(directory)
        return FileSystemCheckpointStorage(directory) if name == "filesystem" or directory else None

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Sets the directory (path or URI) below which checkpoints are written."""
        self._configuration.set_string(DIRECTORY, checkpoint_path)
        return self

    def _duration_ms(self, key: str, default_ms: int) -> int:
        text = self._configuration.get_string(key, "")
        return parse_duration_ms(text) if text else default_ms

    def _set_duration(self, key: str, value_ms: int, minimum_ms: int) -> CheckpointConfig:
        value_ms = whole_number(value_ms, f"option '{key}' in ms")
        if value_ms < minimum_ms:
            raise ConfigurationError(f"{key} must be at least {minimum_ms} ms, and is {value_ms} ms")
        self._configuration.set_string(key, f"{value_ms} ms")
        return self

    def __getattr__(self, name: str) -> object:
        """Raises ``AttributeError`` that names the missing attribute."""
        raise AttributeError(name if name.startswith("_") else f"CheckpointConfig.{name} is not available in tidegate")


__getattr__ = finding(__name__, flink_1(__name__))
