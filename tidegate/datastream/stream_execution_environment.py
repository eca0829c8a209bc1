"""`StreamExecutionEnvironment`: where a program begins and where it is executed (PyFlink: its module of the same name).

It collects transformations; ``execute`` turns them into a job graph and hands that to the executor of the context.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tidegate.common.configuration import Configuration
from tidegate.common.execution_config import ExecutionConfig, check_parallelism
from tidegate.common.job_client import JobClient
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.flink_1 import flink_1
from tidegate.common.restart_strategy import RestartStrategyConfiguration
from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.base import Source
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.spark.query import describe
from tidegate.connectors.spark.source import SparkSource
from tidegate.datastream._graph.batch_execution import batch_configuration
from tidegate.datastream._graph.dependencies import configured_files, local_path
from tidegate.datastream._graph.executor import configuration_below, current_executor
from tidegate.datastream._graph.job_graph_builder import BuiltJob, build_job_graph
from tidegate.datastream._graph.local_modules import python_file
from tidegate.datastream._graph.plan import execution_plan
from tidegate.datastream._graph.stream_graph import StreamGraph, make_stream_graph
from tidegate.datastream._graph.transformation import OperatorTransformation, Transformation
from tidegate.datastream._streams.stream_types import bind_strategy, type_of
from tidegate.datastream.checkpoint_config import CheckpointConfig
from tidegate.datastream.checkpointing_mode import CheckpointingMode
from tidegate.datastream.data_stream import DataStream
from tidegate.datastream.execution_mode import RuntimeExecutionMode
from tidegate.datastream.formats.avro import AvroInputFormat
from tidegate.datastream.slot_sharing_group import SlotSharingGroup
from tidegate.datastream.state_backend import StateBackend
from tidegate.model.configuration import Configuration as CheckedConfiguration
from tidegate.model.errors import InvalidJob
from tidegate.model.ids import JobId
from tidegate.model.options import PythonOptions
from tidegate.model.options.flink_old_keys import OLD_KEYS
from tidegate.model.program import KeySpec, OperatorKind
from tidegate.model.units import parse_duration_ms

__all__ = ["StreamExecutionEnvironment"]

DEFAULT_JOB_NAME = "Flink Streaming Job"
BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
DEFAULT_BUFFER_TIMEOUT = "5 ms"
BUFFER_TIMEOUT_ENABLED = "execution.buffer-timeout.enabled"
CHAINING = "pipeline.operator-chaining.enabled"
JOB_NAME = "pipeline.name"
RUNTIME_MODE = "execution.runtime-mode"
JARS = "pipeline.jars"
CLASSPATHS = "pipeline.classpaths"
CHANGELOG = "state.changelog.enabled"
SAVEPOINT_DIRECTORY = "execution.checkpointing.savepoint-dir"


class StreamExecutionEnvironment:
    """Made by ``get_execution_environment``. Setters return the environment itself."""

    _default_local_parallelism: int | None = None

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration(configuration_below(self._default_local_parallelism))
        if configuration is not None:
            self._configuration.add_all(configuration)
        self._transformations: list[OperatorTransformation] = []
        self._python_files: dict[str, Path] = {}
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._last_id = 0

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """``configuration`` lies over what the command line gave, and below what the program sets later."""
        return StreamExecutionEnvironment(configuration)

    # --- settings --------------------------------------------------------------------------------

    def get_config(self) -> ExecutionConfig:
        return ExecutionConfig(self._configuration)

    def configure(self, configuration: Configuration) -> StreamExecutionEnvironment:
        """Old names of Flink's keys count as the new ones."""
        for key, text in configuration.to_dict().items():
            self._configuration.set_string(OLD_KEYS.get(key, key), text)
        return self

    @staticmethod
    def get_default_local_parallelism() -> int:
        """Of an embedded cluster, when nobody sets any: the number of CPUs."""
        return StreamExecutionEnvironment._default_local_parallelism or os.cpu_count() or 1

    @staticmethod
    def set_default_local_parallelism(parallelism: int) -> None:
        """Of environments that are made afterwards and run in an embedded cluster."""
        StreamExecutionEnvironment._default_local_parallelism = check_parallelism(parallelism)

    def get_parallelism(self) -> int:
        return self.get_config().get_parallelism()

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Of every operator that sets none itself."""
        self.get_config().set_parallelism(parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """-1 when it is not set."""
        return self.get_config().get_max_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Number of key groups, and so the limit of every later rescale."""
        self.get_config().set_max_parallelism(max_parallelism)
        return self

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        self._configuration.set_string(RUNTIME_MODE, execution_mode.name)
        return self

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> StreamExecutionEnvironment:
        """A checkpoint every ``interval`` ms."""
        self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            self.get_checkpoint_config().set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        return CheckpointConfig(self._configuration)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds; -1 when checkpointing is off."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Newer name of ``get_checkpointing_mode``."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> StreamExecutionEnvironment:
        """Without effect here, where checkpoints of every backend are incremental: told as a warning."""
        self._configuration.set_boolean(CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """``None`` when it was not set."""
        is_set = self._configuration.contains_key(CHANGELOG)
        return self._configuration.get_boolean(CHANGELOG, False) if is_set else None

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        self._configuration.set_string(SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        return self._configuration.get_string(SAVEPOINT_DIRECTORY, "") or None

    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> StreamExecutionEnvironment:
        return self.configure(Configuration(restart_strategy_configuration.options))

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        return self.configure(Configuration(state_backend.options))

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """The longest time that a record waits for its batch to fill; -1: batches leave only when they are full."""
        self._configuration.set_boolean(BUFFER_TIMEOUT_ENABLED, timeout_millis >= 0)
        if timeout_millis >= 0:
            self._configuration.set_string(BUFFER_TIMEOUT, f"{timeout_millis} ms")
        return self

    def get_buffer_timeout(self) -> int:
        """Milliseconds; -1 when batches leave only when they are full."""
        if not self._configuration.get_boolean(BUFFER_TIMEOUT_ENABLED, True):
            return -1
        return parse_duration_ms(self._configuration.get_string(BUFFER_TIMEOUT, DEFAULT_BUFFER_TIMEOUT))

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        self._configuration.set_boolean(CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        return self._configuration.get_boolean(CHAINING, True)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Never: their state would be dealt by different numbers of key groups in one task."""
        return False

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """The resources of a group that operators name. Here all slots are alike: only the name has an effect."""
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    def add_jars(self, *jars_path: str) -> None:
        """Not needed here, where connectors are Python's: told as a warning when the job is executed."""
        self._append(JARS, jars_path, ";")

    def add_classpaths(self, *classpaths: str) -> None:
        """Likewise."""
        self._append(CLASSPATHS, classpaths, ";")

    # --- what the program brings with it ----------------------------------------------------------

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Installed for the job on every machine where it runs, with ``pip`` as it is configured there, or without any index
        from the packages in ``requirements_cache_dir``."""
        cache = f"#{local_path(requirements_cache_dir)}" if requirements_cache_dir else ""
        self._configuration.set_string(PythonOptions.REQUIREMENTS.key, f"{local_path(requirements_file_path)}{cache}")

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpacked as ``target_dir`` (default: the name of the archive) in the working directory of the job's subtasks."""
        target = f"#{target_dir}" if target_dir else ""
        self._append(PythonOptions.ARCHIVES.key, (f"{local_path(archive_path)}{target}",), ",")

    def set_python_executable(self, python_exec: str) -> None:
        """The interpreter that the job needs. Subtasks run that of their TaskManager: another one fails the job by name."""
        self._configuration.set_string(PythonOptions.EXECUTABLE.key, python_exec)

    def add_python_file(self, file_path: str) -> StreamExecutionEnvironment:
        """A module (``.py``), package (directory) or archive (``.zip``, ``.whl``, ``.egg``) that functions import. What
        lies beside the job's file and was imported from there is shipped anyway."""
        path = python_file(file_path)
        if path.name in self._python_files and self._python_files[path.name] != path:
            raise InvalidJob(f"two python files are called {path.name!r}: {self._python_files[path.name]} and {path}")
        self._python_files[path.name] = path
        return self

    # --- sources ---------------------------------------------------------------------------------

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Event time, if the strategy gives one, begins inside the source."""
        if not isinstance(source, Source):
            raise InvalidJob(f"from_source needs one of tidegate's sources (tidegate.connectors), not {source!r}")
        output_type = type_info if type_info is not None else source.produced_type()
        strategy: WatermarkStrategy | None = bind_strategy(watermark_strategy, output_type)
        if strategy == WatermarkStrategy.no_watermarks():
            strategy = None
        options = {"source": source, "watermark_strategy": strategy}
        return DataStream(self, self.add_operator("source", source_name, options, output_type))

    def add_source(
        self, source_func: Source, source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> DataStream:
        return self.from_source(source_func, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def from_spark(
        self,
        query: Callable[[Any], Any],
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Spark",
        materialize: bool | None = None,
    ) -> DataStream:
        """Ours: the rows of the DataFrame that ``query(spark)`` gives, bounded, as a columnar stream. Partition i is read by
        subtask i, and a replay that differs fails by name. With ``materialize`` (by default for a plan with a shuffle or a
        non-deterministic expression) one TaskManager writes the result once as Parquet under ``execution.checkpointing.dir``,
        and parallelism may change at a restore. Raises ``InvalidJob`` when the query cannot be analysed."""
        options = {key: text for key, text in self._configuration.to_dict().items() if key.startswith("spark.")}
        found = describe(query, self.get_parallelism(), options)
        source = SparkSource(query, found.schema, bool(found.must_materialize) if materialize is None else materialize)
        return self.from_source(source, watermark_strategy or WatermarkStrategy.no_watermarks(), source_name)

    def from_collection(self, collection: Sequence[Any], type_info: TypeInformation | None = None) -> DataStream:
        """A bounded stream of what the collection holds now; its parallelism is 1."""
        source = CollectionSource(list(collection), type_of(type_info))
        stream = self.from_source(source, WatermarkStrategy.no_watermarks(), "Collection Source")
        return stream.force_non_parallel()

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Refused: functions of PyFlink cannot read Flink's distributed cache either."""
        raise InvalidJob("register_cached_file() is for functions in Java; ship a file with add_python_archive()")

    def create_input(self, input_format: AvroInputFormat, type_info: TypeInformation | None = None) -> DataStream:
        """The records of Avro files, of its own type unless ``type_info`` is given. Raises ``InvalidJob`` for any other ``InputFormat``: those are Java's."""
        if not isinstance(input_format, AvroInputFormat):
            raise InvalidJob(
                "create_input() takes an AvroInputFormat; for other files use from_source() with FileSource, or from_spark()"
            )
        return self.from_source(
            input_format.source(), WatermarkStrategy.no_watermarks(), "Custom File Source", type_info
        )

    # --- execution -------------------------------------------------------------------------------

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Runs the program to its end. Raises the job's error when it does not finish."""
        executor = current_executor()
        job = self.build(job_name)
        return executor.execute(job.graph, job.blobs)

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Submits the program and returns at once."""
        executor = current_executor()
        job = self.build(job_name)
        return JobClient(executor.execute_async(job.graph, job.blobs))

    def get_execution_plan(self) -> str:
        """The operators and their edges as JSON."""
        return execution_plan(self.stream_graph())

    def build(self, job_name: str | None = None) -> BuiltJob:
        """The job graph of all that was added since the last execution, and the blobs that it names. Raises ``InvalidJob``,
        ``SchemaMismatch``, ``NotSerializable``, ``ConfigurationError``."""
        checked = CheckedConfiguration.from_strings(self._configuration.to_dict())
        for path in configured_files(self._configuration.to_dict()):
            self.add_python_file(str(path))
        graph = self.stream_graph()
        name = job_name or self._configuration.get_string(JOB_NAME, DEFAULT_JOB_NAME)
        texts = batch_configuration(checked.to_strings()) if graph.is_batch else checked.to_strings()
        job = build_job_graph(graph, JobId(secrets.token_hex(16)), name, texts, self._python_files)
        self._transformations.clear()
        return job

    def stream_graph(self) -> StreamGraph:
        mode = RuntimeExecutionMode[self._configuration.get_string(RUNTIME_MODE, "STREAMING").upper()]
        return make_stream_graph(
            self._transformations,
            parallelism=self.get_parallelism(),
            max_parallelism=None if self.get_max_parallelism() < 0 else self.get_max_parallelism(),
            is_chaining_enabled=self.is_chaining_enabled(),
            mode=mode,
        )

    def close(self) -> None:
        """Nothing to give back: clusters end with their jobs."""

    # --- for streams -----------------------------------------------------------------------------

    def next_transformation_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def add_operator(
        self,
        kind: OperatorKind,
        name: str,
        options: dict[str, Any],
        output_type: TypeInformation | None,
        inputs: tuple[Transformation, ...] = (),
        key: KeySpec | None = None,
        second_key: KeySpec | None = None,
    ) -> OperatorTransformation:
        made = OperatorTransformation(
            self.next_transformation_id(), output_type, kind, name, options, inputs, key, second_key
        )
        self._transformations.append(made)
        return made

    def _append(self, key: str, values: Sequence[str], separator: str) -> None:
        before = self._configuration.get_string(key, "")
        self._configuration.set_string(key, separator.join([*([before] if before else []), *values]))

    @property
    def _j_stream_execution_environment(self) -> StreamExecutionEnvironment:
        """PyFlink's way to the environment in its JVM: here there is only this one (``java_utils.get_j_env_configuration``)."""
        return self

    def __getattr__(self, name: str) -> Any:
        """Only reached for names that are not there."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"StreamExecutionEnvironment.{name} is not available in tidegate")


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.io", "InputFormat"),
    elsewhere("tidegate.functions.java_functions", "SourceFunction"),
    elsewhere("tidegate.common.typeinfo", "Types"),
    elsewhere("tidegate.util.api_stability_decorators", "Public"),
    flink_1(__name__),
)
