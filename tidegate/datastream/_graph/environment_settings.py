"""The settings of an environment: parallelism, checkpoints, state, chaining, and shipped files.

Every setter writes Flink's option into the environment's configuration, so that what a program sets, what the command line
sets and what the cluster's file sets are the same options in three layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tidegate.common.configuration import Configuration
from tidegate.common.execution_config import ExecutionConfig
from tidegate.common.restart_strategy import RestartStrategyConfiguration
from tidegate.datastream._graph.dependencies import local_path
from tidegate.datastream._graph.local_modules import python_file
from tidegate.datastream.checkpoint_config import CheckpointConfig
from tidegate.datastream.checkpointing_mode import CheckpointingMode
from tidegate.datastream.execution_mode import RuntimeExecutionMode
from tidegate.datastream.slot_sharing_group import SlotSharingGroup
from tidegate.datastream.state_backend import StateBackend
from tidegate.model.errors import InvalidJob
from tidegate.model.options import PythonOptions
from tidegate.model.options.flink_keys import OLD_KEYS
from tidegate.model.units import parse_duration_ms
from tidegate.model.whole_numbers import whole_number

BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
DEFAULT_BUFFER_TIMEOUT = "5 ms"
BUFFER_TIMEOUT_ENABLED = "execution.buffer-timeout.enabled"
CHAINING = "pipeline.operator-chaining.enabled"
RUNTIME_MODE = "execution.runtime-mode"
JARS = "pipeline.jars"
CLASSPATHS = "pipeline.classpaths"
CHANGELOG = "state.changelog.enabled"
SAVEPOINT_DIRECTORY = "execution.checkpointing.savepoint-dir"


class EnvironmentSettings:
    """The settings of ``StreamExecutionEnvironment``. Setters return the environment itself, for chaining."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._python_files: dict[str, Path] = {}
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}

    # --- settings --------------------------------------------------------------------------------

    def get_config(self) -> ExecutionConfig:
        """Returns a view of the execution options; what is set there is set for this environment."""
        return ExecutionConfig(self._configuration)

    def configure(self, configuration: Configuration) -> Self:
        """Sets every option of ``configuration``, over what was set before. Flink's deprecated keys count as the keys
        that replaced them."""
        for key, text in configuration.to_dict().items():
            self._configuration.set_string(OLD_KEYS.get(key, key), text)
        return self

    def get_parallelism(self) -> int:
        """Returns the parallelism of operators that set none themselves."""
        return self.get_config().get_parallelism()

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the parallelism of every operator that sets none itself, from 1 to 32768. Raises ``InvalidJob`` otherwise."""
        self.get_config().set_parallelism(parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Returns the number of key groups, or -1 when it was not set."""
        return self.get_config().get_max_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets the number of key groups, which no later rescale can exceed."""
        self.get_config().set_max_parallelism(max_parallelism)
        return self

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Chooses ``STREAMING``, ``BATCH`` (bounded sources only) or ``AUTOMATIC`` (batch when all sources are
        bounded)."""
        self._configuration.set_string(RUNTIME_MODE, execution_mode.name)
        return self

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Takes a checkpoint every ``interval`` milliseconds, and sets the guarantee if ``mode`` is given."""
        self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            self.get_checkpoint_config().set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Returns a view of the checkpoint options; what is set there is set for this environment."""
        return CheckpointConfig(self._configuration)

    def get_checkpoint_interval(self) -> int:
        """Returns the interval in milliseconds, or -1 when checkpointing is off."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Returns the guarantee of checkpoints: exactly once or at least once."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Returns the guarantee of checkpoints, under Flink's newer name for ``get_checkpointing_mode``."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Returns whether barriers may overtake records."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Returns whether checkpoints are unaligned also where Flink would refuse it."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Records Flink's option, which has no effect here because checkpoints of every backend are incremental; the
        job logs a warning."""
        self._configuration.set_boolean(CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Returns what ``enable_changelog_state_backend`` set, or ``None`` when it was not called."""
        is_set = self._configuration.contains_key(CHANGELOG)
        return self._configuration.get_boolean(CHANGELOG, False) if is_set else None

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Sets the directory (path or URI) of savepoints that name none."""
        self._configuration.set_string(SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Returns the directory of savepoints that name none, or ``None`` when it was not set."""
        return self._configuration.get_string(SAVEPOINT_DIRECTORY, "") or None

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> Self:
        """Sets what happens after a failure; see ``RestartStrategies``."""
        return self.configure(Configuration(restart_strategy_configuration.options))

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Sets where keyed state lives while the job runs; see ``HashMapStateBackend`` and
        ``EmbeddedRocksDBStateBackend``."""
        return self.configure(Configuration(state_backend.options))

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Sets how many milliseconds a record waits at most for its batch to fill; with -1 batches leave only when they
        are full."""
        timeout_millis = whole_number(timeout_millis, "set_buffer_timeout")
        self._configuration.set_boolean(BUFFER_TIMEOUT_ENABLED, timeout_millis >= 0)
        if timeout_millis >= 0:
            self._configuration.set_string(BUFFER_TIMEOUT, f"{timeout_millis} ms")
        return self

    def get_buffer_timeout(self) -> int:
        """Returns the buffer timeout in milliseconds, or -1 when a batch is sent only when it is full."""
        if not self._configuration.get_boolean(BUFFER_TIMEOUT_ENABLED, True):
            return -1
        return parse_duration_ms(self._configuration.get_string(BUFFER_TIMEOUT, DEFAULT_BUFFER_TIMEOUT))

    def disable_operator_chaining(self) -> Self:
        """Gives every operator a task of its own."""
        self._configuration.set_boolean(CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Returns whether operators may share a task."""
        return self._configuration.get_boolean(CHAINING, True)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Returns ``False``: operators with different numbers of key groups never share a task here."""
        return False

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Registers the resources of a group that operators join by its name."""
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    def add_jars(self, *jars_path: str) -> None:
        """Records jars, which are not needed here because connectors are written in Python; the job logs a warning."""
        self._append(JARS, jars_path, ";")

    def add_classpaths(self, *classpaths: str) -> None:
        """Records class paths, which are not needed here because connectors are written in Python; the job logs a
        warning."""
        self._append(CLASSPATHS, classpaths, ";")

    # --- what the program brings with it ----------------------------------------------------------

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Names the packages that the job needs. They are installed on every machine where it runs, with ``pip`` as it
        is configured there, or without any index from the packages in ``requirements_cache_dir``."""
        cache = f"#{local_path(requirements_cache_dir)}" if requirements_cache_dir else ""
        self._configuration.set_string(PythonOptions.REQUIREMENTS.key, f"{local_path(requirements_file_path)}{cache}")

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Ships an archive, which is unpacked as ``target_dir`` (default: the archive's name) in the working directory
        of the job's subtasks."""
        target = f"#{target_dir}" if target_dir else ""
        self._append(PythonOptions.ARCHIVES.key, (f"{local_path(archive_path)}{target}",), ",")

    def set_python_executable(self, python_exec: str) -> None:
        """Names the interpreter that the job needs. Subtasks run the interpreter of their TaskManager; the job fails
        with a clear message where that is another one."""
        self._configuration.set_string(PythonOptions.EXECUTABLE.key, python_exec)

    def add_python_file(self, file_path: str) -> Self:
        """Ships a module (``.py``), package (directory) or archive (``.zip``, ``.whl``, ``.egg``) that functions
        import. Modules beside the job's file that it has imported are shipped without this. Raises ``InvalidJob`` when
        two different files have one name."""
        path = python_file(file_path)
        if path.name in self._python_files and self._python_files[path.name] != path:
            raise InvalidJob(f"two python files are called {path.name!r}: {self._python_files[path.name]} and {path}")
        self._python_files[path.name] = path
        return self

    def _append(self, key: str, values: Sequence[str], separator: str) -> None:
        before = self._configuration.get_string(key, "")
        self._configuration.set_string(key, separator.join([*([before] if before else []), *values]))
