"""`StreamExecutionEnvironment`: where a program begins and where it is executed (PyFlink: its module of the same name).

It collects transformations; ``execute`` turns them into a job graph and hands that to the executor of the context.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from tidegate.common.configuration import Configuration
from tidegate.common.execution_config import check_parallelism
from tidegate.common.job_client import JobClient
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.flink_1 import flink_1
from tidegate.common.time import Duration
from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.base import Source
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.source.source import Source as EnumeratedSource
from tidegate.connectors.spark.query import describe, describe_stream
from tidegate.connectors.spark.source import SparkSource
from tidegate.connectors.spark.spark_errors import naming_the_source
from tidegate.connectors.spark.stream_source import SparkStreamSource
from tidegate.connectors.tabular import Collection, PandasFrame, PandasSchema, pandas_table
from tidegate.datastream._graph.batch_execution import batch_configuration
from tidegate.datastream._graph.committers import add_committers
from tidegate.datastream._graph.dependencies import configured_files
from tidegate.datastream._graph.enumerated_sources import add_enumerated_source
from tidegate.datastream._graph.environment_settings import RUNTIME_MODE, EnvironmentSettings
from tidegate.datastream._graph.executor import configuration_below, current_executor
from tidegate.datastream._graph.job_graph_builder import BuiltJob, build_job_graph
from tidegate.datastream._graph.plan import execution_plan
from tidegate.datastream._graph.spark_jobs import run_as_one
from tidegate.datastream._graph.stream_graph import StreamGraph, make_stream_graph
from tidegate.datastream._graph.transformation import OperatorTransformation, Transformation
from tidegate.datastream._streams.stream_types import bind_strategy, type_of
from tidegate.datastream.data_stream import DataStream
from tidegate.datastream.execution_mode import RuntimeExecutionMode
from tidegate.model.configuration import Configuration as CheckedConfiguration
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import blocks_exchanges
from tidegate.model.ids import JobId
from tidegate.model.program import KeySpec, OperatorKind
from tidegate.model.values import UserObject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.datastream.formats.avro import AvroInputFormat

__all__ = ["StreamExecutionEnvironment"]

DEFAULT_JOB_NAME = "Flink Streaming Job"
JOB_NAME = "pipeline.name"
_COLLECTION = "from_collection([1, 2, 3], Types.INT()) takes a list"
_NUMBERS = (
    "from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), 'numbers') counts "
    f"(tidegate.datastream.connectors.number_seq), and {_COLLECTION}"
)
_INSTEAD = {"from_sequence": _NUMBERS, "generate_sequence": _NUMBERS, "from_elements": _COLLECTION}
"""What programs find instead of methods that Flink has in Java, and PyFlink has not."""
DEFAULT_TRIGGER_MS = 100
"""Twice what planning a batch takes: asked more often, an idle source would keep a processor busy."""


class StreamExecutionEnvironment(EnvironmentSettings):
    """The context in which a program is built and executed (PyFlink: ``StreamExecutionEnvironment``).

    Sources begin at it, and ``execute`` runs everything that was added::

        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([1, 2, 3], Types.INT()).map(lambda x: x + 1, Types.INT()).print()
        env.execute("increment")
    """

    _default_local_parallelism: int | None = None

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(Configuration(configuration_below(self._default_local_parallelism)))
        if configuration is not None:
            self._configuration.add_all(configuration)
        self._transformations: list[OperatorTransformation] = []
        self._last_id = 0

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Creates the environment. ``configuration`` overrides what the command line set, and what the program sets
        later overrides both."""
        return StreamExecutionEnvironment(configuration)

    @staticmethod
    def get_default_local_parallelism() -> int:
        """Returns the parallelism in an embedded cluster when no other is set: the number of CPUs."""
        return StreamExecutionEnvironment._default_local_parallelism or os.cpu_count() or 1

    @staticmethod
    def set_default_local_parallelism(parallelism: int) -> None:
        """Sets the parallelism of environments that are created afterwards and run in an embedded cluster."""
        StreamExecutionEnvironment._default_local_parallelism = check_parallelism(parallelism)

    # --- sources ---------------------------------------------------------------------------------

    def from_source(
        self,
        source: Source | EnumeratedSource[Any, Any],
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Adds a source. Event time, if the strategy assigns it, begins inside the source; ``type_info`` overrides the
        type that the source declares. Raises ``InvalidJob`` for what is neither a connector's source nor one of your own
        (``tidegate.connectors.source``)."""
        if not isinstance(source, Source | EnumeratedSource):
            raise InvalidJob(
                f"from_source needs one of tidegate's sources (tidegate.connectors) or one of your own, below "
                f"tidegate.connectors.source.Source, not {source!r}"
            )
        declared = source.produced_type() if isinstance(source, Source) else source.get_produced_type()
        output_type = type_info if type_info is not None else declared
        strategy: WatermarkStrategy | None = bind_strategy(watermark_strategy, output_type)
        if strategy == WatermarkStrategy.no_watermarks():
            strategy = None
        if isinstance(source, EnumeratedSource):
            return DataStream(self, add_enumerated_source(self, source, strategy, source_name, output_type))
        options = {"source": source, "watermark_strategy": strategy}
        return DataStream(self, self.add_operator("source", source_name, options, output_type))

    def add_source(
        self, source_func: Source, source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> DataStream:
        """Adds a source without event time, under PyFlink's older method; ``from_source`` is the newer one."""
        return self.from_source(source_func, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def from_spark(
        self,
        query: Callable[[SparkSession], DataFrame],
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Spark",
        materialize: bool | None = None,
    ) -> DataStream:
        """Adds the rows of the DataFrame that ``query(spark)`` returns, as a bounded columnar stream. This method is
        tidegate's own. Subtask i reads partition i; when a replay differs from the first reading, the job fails with an
        error that says so. With ``materialize`` (the default for a plan with a shuffle or a non-deterministic
        expression) one TaskManager writes the result once as Parquet below ``execution.checkpointing.dir``, and the
        parallelism may change at a restore. Raises ``InvalidJob`` when the query cannot be analysed."""
        options = {key: text for key, text in self._configuration.to_dict().items() if key.startswith("spark.")}
        with naming_the_source(source_name):
            found = describe(query, self.get_parallelism(), options)
        source = SparkSource(query, found.schema, bool(found.must_materialize) if materialize is None else materialize)
        return self.from_source(source, watermark_strategy or WatermarkStrategy.no_watermarks(), source_name)

    def from_spark_stream(
        self,
        query: Callable[[SparkSession], DataFrame],
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Spark stream",
        *,
        partitions: int | None = None,
        trigger_interval: Duration | None = None,
    ) -> DataStream:
        """Adds the rows of the streaming DataFrame that ``query(spark)`` returns, as an unbounded columnar stream. This method
        is tidegate's own::

            env.from_spark_stream(lambda spark: spark.readStream.schema("id long").parquet("in"))

        Spark finds what is new and reads it, in at most ``partitions`` tasks at a time (default: the parallelism of the
        environment); Spark's offsets, and how far the rows between them were emitted, are in this job's checkpoints. While
        nothing is new, Spark is asked every ``trigger_interval`` (default: 100 ms). The source has parallelism 1, and what
        follows it any other. Raises ``InvalidJob`` when the query fails, reads no stream, or keeps state in Spark."""
        options = {key: text for key, text in self._configuration.to_dict().items() if key.startswith("spark.")}
        tasks = check_parallelism(self.get_parallelism() if partitions is None else partitions)
        interval = trigger_interval or Duration.of_millis(DEFAULT_TRIGGER_MS)
        with naming_the_source(source_name):
            schema = describe_stream(query, tasks, options)
        source = SparkStreamSource(query, schema, tasks, interval.to_millis() / 1000)
        stream = self.from_source(source, watermark_strategy or WatermarkStrategy.no_watermarks(), source_name)
        return stream.force_non_parallel()

    def from_collection(self, collection: Collection, type_info: TypeInformation | None = None) -> DataStream:
        """Adds a bounded stream of the collection's present elements; its parallelism is 1.

        A list, a generator or another iterable has records, which travel pickled without ``type_info``. A frame of pandas or
        polars, an Arrow table or batch, or a structured array of NumPy has rows: without ``type_info`` the stream has its columns
        (the index of a frame is none: ``reset_index()`` makes it one). A series or an array of one dimension has values, whose type the
        stream has. As in Flink, a number or a bool where ``Types.STRING()`` is declared becomes its text, as Java writes it, a datetime
        the date or the time that is declared, and a dict a row, also within tuples, rows, maps and lists.
        Raises ``InvalidJob`` for what has no records, such as a dict, and ``SchemaMismatch`` for what does not fit ``type_info``.
        """
        source = CollectionSource(collection, None if type_info is None else type_of(type_info))
        stream = self.from_source(source, WatermarkStrategy.no_watermarks(), "Collection Source")
        return stream.force_non_parallel()

    def from_pandas(self, pdf: PandasFrame, schema: PandasSchema = None) -> DataStream:
        """Adds a bounded columnar stream of the rows of a frame of pandas, without its index; its parallelism is 1. NaN is null.

        ``schema`` gives the columns other names, or types, or both: a list of names, a list of ``DataTypes``, a ``DataTypes.ROW`` or
        an Arrow schema, whose columns are found by name (PyFlink: ``TableEnvironment.from_pandas``).
        Raises ``InvalidJob`` for what is no frame, ``SchemaMismatch`` when a value does not fit.
        """
        return self.from_collection(pandas_table(pdf, schema))

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Refused: functions of PyFlink cannot read Flink's distributed cache either."""
        raise InvalidJob("register_cached_file() is for functions in Java; ship a file with add_python_archive()")

    def create_input(self, input_format: AvroInputFormat, type_info: TypeInformation | None = None) -> DataStream:
        """Adds the records of Avro files, with the format's own type unless ``type_info`` is given. Raises
        ``InvalidJob`` for any other ``InputFormat``, since those are written in Java."""
        from tidegate.datastream.formats.avro import AvroInputFormat  # a job that reads no Avro does not pay for it

        if not isinstance(input_format, AvroInputFormat):
            raise InvalidJob(
                "create_input() takes an AvroInputFormat; for other files use from_source() with FileSource, or from_spark()"
            )
        return self.from_source(
            input_format.source(), WatermarkStrategy.no_watermarks(), "Custom File Source", type_info
        )

    # --- execution -------------------------------------------------------------------------------

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Runs the program and waits for its end. Raises the job's error when it fails or is cancelled."""
        executor = current_executor()
        job = self.build(job_name)
        return executor.execute(job.graph, job.blobs)

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Submits the program and returns a client of the running job at once."""
        executor = current_executor()
        job = self.build(job_name)
        return JobClient(executor.execute_async(job.graph, job.blobs))

    def get_execution_plan(self) -> str:
        """Returns the operators and their edges as JSON, in the form that Flink's plan visualizer reads."""
        return execution_plan(self.stream_graph())

    def build(self, job_name: str | None = None) -> BuiltJob:
        """Builds the job graph of everything that was added since the last execution, with the blobs that it names.
        Raises ``InvalidJob``, ``SchemaMismatch``, ``NotSerializable`` or ``ConfigurationError``."""
        checked = CheckedConfiguration.from_strings(self._configuration.to_dict())
        for path in configured_files(self._configuration.to_dict()):
            self.add_python_file(str(path))
        graph = self.stream_graph()
        name = job_name or self._configuration.get_string(JOB_NAME, DEFAULT_JOB_NAME)
        texts = batch_configuration(checked.to_strings(), graph.nodes) if graph.is_batch else checked.to_strings()
        if blocks_exchanges(texts):
            add_committers(graph)
        job = build_job_graph(graph, JobId(secrets.token_hex(16)), name, texts, self._python_files)
        self._transformations.clear()
        return job

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

    def close(self) -> None:
        """Does nothing: an embedded cluster ends with the process."""

    # --- for streams -----------------------------------------------------------------------------

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

    @property
    def _j_stream_execution_environment(self) -> StreamExecutionEnvironment:
        """PyFlink's way to the environment in its JVM: here there is only this one (``java_utils.get_j_env_configuration``)."""
        return self

    def __getattr__(self, name: str) -> NoReturn:
        """Only reached for names that are not there."""
        if name.startswith("_"):
            raise AttributeError(name)
        instead = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
        raise AttributeError(f"StreamExecutionEnvironment.{name} is not available in tidegate{instead}")


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.io", "InputFormat"),
    elsewhere("tidegate.functions.java_functions", "SourceFunction"),
    elsewhere("tidegate.common.typeinfo", "Types"),
    elsewhere("tidegate.common.execution_config", "ExecutionConfig"),
    elsewhere("tidegate.datastream.checkpoint_config", "CheckpointConfig"),
    elsewhere("tidegate.datastream.checkpointing_mode", "CheckpointingMode"),
    elsewhere("tidegate.datastream.slot_sharing_group", "SlotSharingGroup"),
    elsewhere("tidegate.util.api_stability_decorators", "Public"),
    flink_1(__name__),
)
