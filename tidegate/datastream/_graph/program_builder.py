"""`ProgramBuilder`: collects the operators and settings of a program and builds its job graph."""

from __future__ import annotations

import secrets

from tidegate.common.configuration import Configuration
from tidegate.common.typeinfo import TypeInformation
from tidegate.datastream._graph.batch_execution import CHECKPOINT_INTERVAL, batch_configuration
from tidegate.datastream._graph.committers import add_committers
from tidegate.datastream._graph.dependencies import configured_files
from tidegate.datastream._graph.environment_settings import RUNTIME_MODE, EnvironmentSettings
from tidegate.datastream._graph.job_graph_builder import BuiltJob, build_job_graph
from tidegate.datastream._graph.spark_jobs import run_as_one
from tidegate.datastream._graph.stream_graph import StreamGraph, make_stream_graph
from tidegate.datastream._graph.transformation import OperatorTransformation, Transformation
from tidegate.datastream.execution_mode import RuntimeExecutionMode
from tidegate.model.configuration import Configuration as CheckedConfiguration
from tidegate.model.graph import blocks_exchanges
from tidegate.model.ids import JobId
from tidegate.model.program import KeySpec, OperatorKind
from tidegate.model.values import UserObject

DEFAULT_JOB_NAME = "Flink Streaming Job"
JOB_NAME = "pipeline.name"


class ProgramBuilder(EnvironmentSettings):
    """The base of ``StreamExecutionEnvironment``, which handles transformations, not streams."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self._transformations: list[OperatorTransformation] = []
        self._last_id = 0

    def next_transformation_id(self) -> int:
        """Returns an id that no other transformation of this environment has."""
        self._last_id += 1
        return self._last_id

    def add_operator(
        self,
        kind: OperatorKind,
        name: str,
        options: dict[str, UserObject],
        output_type: TypeInformation | None,
        inputs: tuple[Transformation, ...] = (),
        key: KeySpec | None = None,
        second_key: KeySpec | None = None,
    ) -> OperatorTransformation:
        """Records an operator and returns its transformation. Streams call this; a program uses the methods of
        ``DataStream``."""
        made = OperatorTransformation(
            self.next_transformation_id(), output_type, kind, name, options, inputs, key, second_key
        )
        self._transformations.append(made)
        return made

    def build(self, job_name: str | None = None) -> BuiltJob:
        """Builds the job graph of everything that was added since the last execution, with the blobs that it names.
        Raises ``InvalidJob``, ``SchemaMismatch``, ``NotSerializable`` or ``ConfigurationError``."""
        checked = CheckedConfiguration.from_strings(self._configuration.to_dict())
        for path in configured_files(self._configuration.to_dict()):
            self.add_python_file(str(path))
        graph = self.stream_graph()
        name = job_name or self._configuration.get_string(JOB_NAME, DEFAULT_JOB_NAME)
        texts = batch_configuration(checked.to_strings(), graph.nodes) if graph.is_batch else checked.to_strings()
        if graph.is_batch:
            add_committers(graph, by_stages=blocks_exchanges(texts))
        job = build_job_graph(graph, JobId(secrets.token_hex(16)), name, texts, self._python_files)
        self._transformations.clear()
        return job

    def build_part(self, last: OperatorTransformation, job_name: str) -> BuiltJob:
        """Builds a job of ``last`` and its inputs, without checkpoints; the program stays unchanged. Raises what ``build`` raises."""
        whole, settings = self._transformations, self._configuration
        self._transformations, self._configuration = [last], Configuration(settings.to_dict())
        self._configuration.remove_config(CHECKPOINT_INTERVAL)
        try:
            return self.build(job_name)
        finally:
            self._transformations, self._configuration = whole, settings

    def stream_graph(self) -> StreamGraph:
        """Builds the stream graph of everything that was added since the last execution."""
        mode = RuntimeExecutionMode[self._configuration.get_string(RUNTIME_MODE, "STREAMING").upper()]
        graph = make_stream_graph(
            self._transformations,
            parallelism=self.get_parallelism(),
            max_parallelism=None if self.get_max_parallelism() < 0 else self.get_max_parallelism(),
            is_chaining_enabled=self.is_chaining_enabled(),
            mode=mode,
            groups=self._slot_sharing_groups,
        )
        return run_as_one(graph, self._configuration.to_dict())
