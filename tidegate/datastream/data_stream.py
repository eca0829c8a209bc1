"""The streams of a program, and the environment in which it begins (PyFlink: ``pyflink.datastream.data_stream`` and
``pyflink.datastream.stream_execution_environment``).

A stream stands for the last transformation of a program in the making; its methods add transformations. Each kind of stream
is made from another one, so they are one module:

    StreamExecutionEnvironment ─▶ DataStream ─┬─ key_by ──▶ KeyedStream ─┬─ window ────────▶ WindowedStream ──▶ DataStream
        from_source, ...                      │                          └─ interval_join ─▶ IntervalJoin ────▶ DataStream
                                              ├─ window_all ───────────▶ AllWindowedStream ───────────────────▶ DataStream
                                              ├─ connect ──▶ ConnectedStreams, BroadcastConnectedStream ──────▶ DataStream
                                              ├─ join, co_group ─▶ where ─▶ equal_to ─▶ window ─▶ apply ──────▶ DataStream
                                              └─ sink_to ──▶ DataStreamSink

Functions of one record work on every stream. The columnar methods (``select``, ``filter`` with an expression, ``map_batches``,
``key_by`` with column names) need a stream with columns: one with an Arrow schema, or a record stream of a type that names its
columns. A key is found by a selector of one record, or by columns. With columns the exchange deals whole Arrow batches; functions
of one record then see the same key as a value (one column) or as a tuple (several).

Windows with ``agg(count(), sum("x"), ...)`` aggregate before the exchange and merge behind it, and never leave Arrow:

    producer ─▶ local aggregation ──HASH by key──▶ merge ─▶ window_start, window_end, keys ..., aggregates ...
                (in the producer's chain)

A pair of an interval join has ``left + lower <= right <= left + upper`` (Flink: ``KeyedStream.IntervalJoin``). ``join`` and
``co_group`` (Flink: ``JoinedStreams.java``, ``CoGroupedStreams.java``) are a window over the union of both streams, tagged 0 and 1;
all records of a window are in state until it fires, and ``join`` is an inner join. PyFlink has none of the three.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, overload

import pyarrow as pa

from tidegate.columnar.aggregates.names import internal_name
from tidegate.common.configuration import Configuration
from tidegate.common.execution_config import ExecutionConfig, check_parallelism
from tidegate.common.job_client import JobClient
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.time import Duration, Time
from tidegate.common.typeinfo import ArrowTypeInfo, PickledBytesTypeInfo, TypeInformation, Types
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.base import Sink, Source
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.print_sink import PrintSink
from tidegate.connectors.source.source import Source as EnumeratedSource
from tidegate.connectors.spark.query import describe, describe_stream
from tidegate.connectors.spark.sink import SparkEpoch, SparkSink
from tidegate.connectors.spark.source import SparkSource
from tidegate.connectors.spark.spark_errors import naming_the_source
from tidegate.connectors.spark.stream_source import SparkStreamSource
from tidegate.connectors.tabular import Collection, PandasFrame, PandasSchema, pandas_table, to_frame
from tidegate.connectors.two_phase_commit import TwoPhaseCommitSink
from tidegate.datastream._graph.enumerated_sources import add_enumerated_source
from tidegate.datastream._graph.executor import configuration_below, current_executor
from tidegate.datastream._graph.plan import execution_plan
from tidegate.datastream._graph.program_builder import ProgramBuilder
from tidegate.datastream._graph.transformation import (
    ChainingStrategy,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from tidegate.datastream._streams.closeable_iterator import CloseableIterator, execute_and_collect
from tidegate.datastream._streams.drawing import program_html, stream_html
from tidegate.datastream._streams.operator_handle import DataStreamSink, OperatorHandle
from tidegate.datastream._streams.preview import Preview, plot, preview
from tidegate.datastream._streams.stream_types import TypeHint, bind_strategy, column_key, fields_of, type_of
from tidegate.datastream.aggregates import (
    WINDOW_TIMES,
    Aggregate,
    check_aggregates,
    check_moves,
    check_running,
    distinct,
    key_fields,
    partial_and_result_types,
)
from tidegate.datastream.connectors.row_format import RecordsAsText
from tidegate.datastream.window import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    Evictor,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tidegate.functions import adapters
from tidegate.functions.adapted.custom_partitioning import CustomTarget
from tidegate.functions.adapted.frame_functions import Frame, PandasFunction, PolarsFunction, polars_module
from tidegate.functions.adapted.join_windows import (
    CoGroupWindow,
    FlatJoinWindow,
    JoinWindow,
    Selector,
    Tagged,
    TaggedKey,
)
from tidegate.functions.adapters import ApplyAllWindow, ApplyWindow, OneKey, ProcessAllWindow, check_function
from tidegate.functions.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from tidegate.functions.expressions import Expression, Operand, col, lit
from tidegate.functions.field_reduce import FieldReduce
from tidegate.functions.interfaces import (
    AggregateFunction,
    AllWindowFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from tidegate.functions.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from tidegate.functions.output_tag import OutputTag
from tidegate.functions.state import MapStateDescriptor
from tidegate.functions.state_ttl import StateTtlConfig
from tidegate.functions.two_phase_commit import TwoPhaseCommitSinkFunction
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.graph import Partitioner as Partitioning
from tidegate.model.program import KeySpec, OperatorKind
from tidegate.model.values import AssignedWindow, Key, Record, UserObject
from tidegate.records.record_text import RecordText
from tidegate.records.time import to_millis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.datastream.formats.avro import AvroInputFormat

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "KeyedStream",
    "StreamExecutionEnvironment",
    "WindowedStream",
]

_COLLECTION = "from_collection([1, 2, 3], Types.INT()) takes a list"
_NUMBERS = (
    "from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), 'numbers') counts "
    f"(tidegate.datastream.connectors.number_seq), and {_COLLECTION}"
)
_INSTEAD = {"from_sequence": _NUMBERS, "generate_sequence": _NUMBERS, "from_elements": _COLLECTION}
"""Replacements of methods that Flink has in Java and PyFlink has not."""
DEFAULT_TRIGGER_MS = 100
"""The default interval of micro-batches in ms: twice what planning a batch takes; more often would keep a processor busy for an idle source."""


class StreamExecutionEnvironment(ProgramBuilder):
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
        """Adds a bounded stream of a collection's elements; its parallelism is 1.

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
        """Adds a bounded columnar stream of the rows of a pandas frame, without its index; its parallelism is 1. NaN is null.

        ``schema`` gives the columns other names, or types, or both: a list of names, a list of ``DataTypes``, a ``DataTypes.ROW`` or
        an Arrow schema, whose columns are found by name (PyFlink: ``TableEnvironment.from_pandas``).
        Raises ``InvalidJob`` for what is no frame, ``SchemaMismatch`` when a value does not fit.
        """
        return self.from_collection(pandas_table(pdf, schema))

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Raises ``InvalidJob``: functions of PyFlink cannot read Flink's distributed cache either."""
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

    def _repr_html_(self) -> str:
        """Returns the HTML of a notebook's view of the environment: the operators added since the last execution."""
        return program_html(self._transformations)

    def close(self) -> None:
        """Does nothing: an embedded cluster ends with the process."""

    @property
    def _j_stream_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns this environment: programs for PyFlink reach its JVM's environment by this name (``java_utils.get_j_env_configuration``)."""
        return self

    def __getattr__(self, name: str) -> NoReturn:
        """Raises ``AttributeError`` that names the missing attribute, with a replacement if there is one."""
        if name.startswith("_"):
            raise AttributeError(name)
        instead = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
        raise AttributeError(f"StreamExecutionEnvironment.{name} is not available in tidegate{instead}")


class DataStream(OperatorHandle):
    """A stream of records of one type (PyFlink: ``DataStream``). It represents the last operator of a program that is being built; methods that
    transform it add an operator and return another stream."""

    def __init__(self, env: StreamExecutionEnvironment, transformation: Transformation) -> None:
        super().__init__(transformation)
        self._env = env

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment to which the stream belongs."""
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        """Returns the execution options of the stream's environment."""
        return self._env.get_config()

    def get_type(self) -> TypeInformation:
        """Returns the type of the stream's records (PyFlink: ``DataStream.get_type``)."""
        assert self._transformation.output_type is not None
        return self._transformation.output_type

    # --- functions of one record -----------------------------------------------------------------

    def map(self, func: Callable[[Record], Record] | MapFunction, output_type: TypeHint = None) -> DataStream:
        """Applies a function to each record and emits its result. Without ``output_type`` results are pickled."""
        adapters.check_function(func, MapFunction, "map")
        return self._transform("map", "Map", {"func": func}, type_of(output_type))

    def flat_map(
        self, func: Callable[[Record], Iterable[Record] | None] | FlatMapFunction, output_type: TypeHint = None
    ) -> DataStream:
        """Applies a function to each record and emits the elements of its result."""
        adapters.check_function(func, FlatMapFunction, "flat_map")
        return self._transform("flat_map", "FlatMap", {"func": func}, type_of(output_type))

    def filter(self, func: Callable[[Record], bool] | FilterFunction | Expression) -> DataStream:
        """Keeps the records for which the function, or the column expression, is true."""
        if isinstance(func, Expression):
            schema = self._columns("filter")
            field = func.output_field(schema)
            for name, kind in zip(schema.names, schema.types, strict=True):
                check_moves(name, kind, "filter")
            if not pa.types.is_boolean(field.type):
                raise SchemaMismatch(f"filter needs a boolean expression, {func!r} is of type {field.type}")
            return self._transform("filter_columns", "Filter", {"predicate": func}, self.get_type())
        adapters.check_function(func, FilterFunction, "filter")
        return self._transform("filter", "Filter", {"func": func}, self.get_type())

    def process(self, func: ProcessFunction, output_type: TypeHint = None) -> DataStream:
        """Applies a ``ProcessFunction``, which sees timestamps and may emit to side outputs. Raises ``InvalidJob`` for
        any other function."""
        if not isinstance(func, ProcessFunction):
            raise InvalidJob(
                f"process needs a ProcessFunction, not {func!r} (a KeyedProcessFunction needs key_by before it)"
            )
        return self._transform("process", "PROCESS", {"func": func}, type_of(output_type))

    def project(self, *field_indexes: int) -> DataStream:
        """Keeps some fields of a stream of tuples or rows, in the order given. Raises ``InvalidJob`` for an index
        outside of them."""
        names, types = fields_of(self.get_type(), "project")
        if any(not 0 <= index < len(names) for index in field_indexes) or not field_indexes:
            raise InvalidJob(f"project{field_indexes}: the stream has the fields 0 to {len(names) - 1}")
        output_type = Types.TUPLE([types[index] for index in field_indexes])
        return self._transform("map", "Projection", {"func": adapters.Projection(field_indexes)}, output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Assigns event time to records, and emits the watermarks of the strategy. Event time that begins inside a source (``from_source``) is better
        where a source has splits. Raises ``InvalidJob`` or ``SchemaMismatch`` when the strategy does not fit the stream."""
        strategy = self._bound_strategy(watermark_strategy)
        made = self._transform(
            "timestamps_watermarks", "Timestamps/Watermarks", {"strategy": strategy}, self.get_type()
        )
        made._operator("").follows_input = True
        return made

    # --- partitioning ----------------------------------------------------------------------------

    def rebalance(self) -> DataStream:
        """Distributes records to all subtasks of the next operator in turn."""
        return self._partitioned(Partitioning.REBALANCE)

    def shuffle(self) -> DataStream:
        """Distributes records evenly. Here it equals ``rebalance``, which is repeatable, unlike a random choice."""
        return self._partitioned(Partitioning.REBALANCE, "SHUFFLE")

    def rescale(self) -> DataStream:
        """Distributes records in turn to the subtasks of the next operator that are assigned to this one."""
        return self._partitioned(Partitioning.RESCALE)

    def forward(self) -> DataStream:
        """Keeps records with the subtask of the same index; both operators need the same parallelism."""
        return self._partitioned(Partitioning.FORWARD)

    def global_(self) -> DataStream:
        """Sends every record to subtask 0."""
        return self._partitioned(Partitioning.GLOBAL)

    def partition_custom(
        self,
        partitioner: Callable[[Key, int], int] | Partitioner,
        key_selector: Callable[[Record], Key] | KeySelector,
    ) -> DataStream:
        """Sends each record to subtask ``partitioner(key, number of subtasks)``. Checkpoints are aligned on this edge."""
        made = PartitionTransformation(
            self._env.next_transformation_id(),
            self.get_type(),
            input=self._values_transformation(),
            partitioner=Partitioning.CUSTOM,
            key=KeySpec(selector=CustomTarget.of(partitioner, key_selector)),
        )
        return DataStream(self._env, made)

    # --- columns ---------------------------------------------------------------------------------

    def select(self, *columns: str | Expression, **named: Operand) -> DataStream:
        """Projects to columns by name or expression: ``select("a", (col("b") + 1).alias("c"), d=col("e"))``."""
        schema = self._columns("select")
        chosen = [col(column) if isinstance(column, str) else column for column in columns]
        chosen += [lit(expression).alias(name) for name, expression in named.items()]
        if not chosen:
            raise InvalidJob("select needs at least one column")
        fields = [expression.output_field(schema) for expression in chosen]
        pairs = [(field.name, expression) for field, expression in zip(fields, chosen, strict=True)]
        return self._transform("select", "Select", {"columns": pairs}, ArrowTypeInfo(pa.schema(fields)))

    def map_batches(
        self, func: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema | TypeInformation
    ) -> DataStream:
        """Applies a function to Arrow record batches; it returns batches with the columns of ``schema``. The division of the stream into batches may
        differ from run to run."""
        if not callable(func):
            raise InvalidJob(f"map_batches needs a function of a record batch, not {func!r}")
        self._columns("map_batches")
        output_type = schema if isinstance(schema, TypeInformation) else ArrowTypeInfo(schema)
        return self._transform("map_batches", "MapBatches", {"func": func}, output_type)

    def map_pandas(self, func: Callable[[Frame], Frame], schema: pa.Schema) -> DataStream:
        """Applies a function to batches as pandas frames, like ``map_batches``."""
        return self.map_batches(PandasFunction(func, schema), schema).name("MapPandas")

    def map_polars(self, func: Callable[[Frame], Frame], schema: pa.Schema) -> DataStream:
        """Applies a function to batches as polars frames, like ``map_batches``. Raises ``InvalidJob`` where polars is not installed."""
        polars_module()
        return self.map_batches(PolarsFunction(func, schema), schema).name("MapPolars")

    def sql(self, query: str) -> DataStream:
        """Runs a query on the columns of this stream: ``SELECT ... FROM input [WHERE ...]``, or with ``GROUP BY ..., TUMBLE(time column, INTERVAL '5'
        SECOND)`` aggregates of event-time windows. Needs DuckDB (extra ``sql``). Raises ``InvalidJob``."""
        from tidegate.datastream.sql.planning import sql_stream

        stream: DataStream = self
        return sql_stream(stream, query, self._env._configuration.to_dict())

    # --- keys and windows ------------------------------------------------------------------------

    def key_by(
        self,
        key_selector: Callable[[Record], Key] | KeySelector | str,
        *more: str | TypeInformation | None,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partitions the stream by key: ``key_by(selector, key_type)`` as in PyFlink, or ``key_by("column", ...)``."""
        if isinstance(key_selector, str):
            has_dicts = isinstance(self.get_type(), ArrowTypeInfo)
            key = column_key(self._columns("key_by"), [key_selector, *more], has_dicts=has_dicts)
            return KeyedStream(self, key)
        if not callable(getattr(key_selector, "get_key", key_selector)):
            raise InvalidJob(f"key_by needs a KeySelector, a function or column names, not {key_selector!r}")
        if more:
            given, *more_left = more
            if more_left or isinstance(given, str) or not (given is None or isinstance(given, TypeInformation)):
                raise InvalidJob("key_by takes a selector and a TypeInformation, or column names")
            key_type = given
        return KeyedStream(self, KeySpec(selector=adapters.key_function(key_selector), key_type=key_type))

    def window_all(self, window_assigner: WindowAssigner[Record, AssignedWindow]) -> AllWindowedStream:
        """Groups all records, whatever their keys, into windows, which one subtask processes."""
        return AllWindowedStream(self, window_assigner)

    # --- several streams -------------------------------------------------------------------------

    def union(self, *streams: DataStream) -> DataStream:
        """Merges streams of one type. Raises ``InvalidJob`` when the types differ."""
        members = [self, *streams]
        for stream in streams:
            if stream.get_type() != self.get_type():
                raise InvalidJob(
                    f"union needs streams of one type: {self.get_type()!r} and {stream.get_type()!r} differ"
                )
        inputs = tuple(stream._values_transformation() for stream in members)
        made = UnionTransformation(self._env.next_transformation_id(), self.get_type(), inputs=inputs)
        return DataStream(self._env, made)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Returns the stream of records that the operator emitted with this tag."""
        self._operator("get_side_output()")
        made = SideOutputTransformation(
            self._env.next_transformation_id(), output_tag.type_info, input=self._transformation, tag=output_tag
        )
        return DataStream(self._env, made)

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Sends every record to every subtask. With descriptors of broadcast state the result can be passed to ``connect``."""
        made = self._partitioned(Partitioning.BROADCAST)
        if broadcast_state_descriptor is None:
            return made
        return BroadcastStream(made, [broadcast_state_descriptor, *other_broadcast_state_descriptors])

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Connects two streams to one operator with two inputs, which may share state."""
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        return ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Pairs records with equal keys in one window: ``.where(...).equal_to(...).window(...).apply(...)``."""
        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """Groups the records of both streams with equal keys in one window; the steps are those of ``join``."""
        return CoGroupedStreams(self, other_stream)

    def cache(self) -> CachedDataStream:
        """Returns the same records for later jobs of this program, which compute them again."""
        return CachedDataStream(self._env, self._values_transformation())

    # --- sinks -----------------------------------------------------------------------------------

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Ends the stream in a sink. Raises ``InvalidJob`` for what is not a sink of this package."""
        if not isinstance(sink, Sink):
            raise InvalidJob(f"sink_to needs one of tidegate's sinks (tidegate.connectors), not {sink!r}")
        if isinstance(sink, RecordsAsText) and self.get_type() != Types.STRING():
            return self.map(RecordText(self.get_type()), Types.STRING()).sink_to(sink)
        made = self._env.add_operator("sink", "Sink", {"sink": sink}, None, (self._values_transformation(),))
        return DataStreamSink(made)

    def add_sink(self, sink_func: Sink | TwoPhaseCommitSinkFunction[Record, UserObject, UserObject]) -> DataStreamSink:
        """Ends the stream in a two-phase commit function, or in a sink, under PyFlink's older method."""
        sink = TwoPhaseCommitSink(sink_func) if isinstance(sink_func, TwoPhaseCommitSinkFunction) else sink_func
        return self.sink_to(sink)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Writes each record as a line to the standard output of its subtask."""
        return self.sink_to(PrintSink(sink_identifier or "")).name("Print to Std. Out")

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Record]:
        """Executes the program and streams the records of this stream back. With ``limit`` the result is a list of at
        most that many records, after which the job is cancelled. With checkpoints every record arrives exactly once,
        when a checkpoint covers it."""
        return self._collected(self._values_transformation(), self.get_type(), job_execution_name, limit)

    def to_pandas(self, job_execution_name: str | None = None) -> PandasFrame:
        """Executes the program and returns the records of this stream, which must be bounded, as a pandas frame (PyFlink: ``Table.to_pandas``).

        Raises ``InvalidJob`` for a stream whose records are pickled objects, since those have no columns, and the job's error."""
        kind = self.get_type()
        if isinstance(kind, PickledBytesTypeInfo):
            raise InvalidJob(
                "to_pandas() needs columns, and records of this stream are objects of any type: give the function before it an "
                'output_type, such as Types.ROW_NAMED(["a"], [Types.LONG()])'
            )
        with execute_and_collect(self._env, self._values_transformation(), kind, job_execution_name) as results:
            return to_frame(list(results.batches()), kind)

    def show(self, n: int = 20, seconds: float = 5.0) -> None:
        """Shows the first ``n`` rows of this stream as a table, in a notebook or printed. This method is tidegate's own.

        It runs what the stream reads, without the program's sinks and checkpoints, until there are so many rows, the stream has ended, or it has run for
        ``seconds``. Raises ``InvalidJob`` for numbers that are not above 0, and the job's error."""
        self.preview(n, seconds).show()

    def preview(self, n: int = 20, seconds: float = 5.0) -> Preview:
        """Returns the first ``n`` rows of this stream as ``show`` finds them: ``table`` is an Arrow table, ``to_pandas()`` a frame. This method is
        tidegate's own. Raises what ``show`` raises."""
        return preview(self._env, self._values_transformation(), self.get_type(), n, seconds)

    def plot(self, x: str, y: str | Sequence[str], by: str | None = None) -> None:
        """Plots numeric columns as lines over the column ``x`` in a notebook while the stream runs, one line for each column ``y`` and each value of
        the column ``by``. This method is tidegate's own.

        It returns when the stream ends; an interrupt of the cell cancels its job. A line has the last 500 points. It runs what the stream reads, without
        the program's sinks and checkpoints. Raises ``InvalidJob`` for columns that the stream has not, and for those that are no numbers."""
        plot(self._env, self._values_transformation(), self.get_type(), x, [y] if isinstance(y, str) else list(y), by)

    def iterate(self, max_wait_time_ms: int = 0) -> DataStream:
        """Raises ``InvalidJob``: iterations, which Flink has deprecated, are not supported."""
        raise InvalidJob(
            "iterate() is not available in tidegate, and deprecated in Flink: a job has no cycles. Write the records that should "
            "come back to a topic or a table, and read that as a source"
        )

    def to_spark(self, write: Callable[[DataFrame, SparkEpoch], None]) -> DataStreamSink:
        """Ends the stream in a user's function that gets the rows of confirmed checkpoints as DataFrames, in the TaskManager's Spark, like Structured
        Streaming's ``foreachBatch``. This method is tidegate's own::

            stream.to_spark(lambda rows, epoch: rows.write.mode("append").parquet("out"))

        Epochs come in order, each at least once, always with the same ``epoch.application_id`` and ``epoch.number``: a write
        that notes them is exactly once (``tidegate.connectors.spark.writes`` has some that do). An epoch has the rows of one
        checkpoint, or of several where the function is slower than they come. What is not written yet is in the
        checkpoints. A write that raises is tried again (``sink.committer.retries``). The sink has parallelism 1.
        Spark's times have microseconds: what a column has below them is dropped, and the log says so.
        Raises ``InvalidJob`` for a stream whose type is not declared."""
        if not callable(write):
            raise InvalidJob(f"to_spark needs a function of a DataFrame and an epoch, not {write!r}")
        if self.get_type() == Types.PICKLED_BYTE_ARRAY():
            raise InvalidJob(
                "to_spark needs a stream whose type is declared: give the operator before it its output type"
            )
        handle = self.sink_to(SparkSink(write)).name("Spark sink")
        operator = handle._operator("to_spark()")
        operator.parallelism, operator.is_non_parallel = 1, True
        return handle

    def _repr_html_(self) -> str:
        """Returns the HTML of a notebook's view of the stream: the type of its records, and its inputs."""
        return stream_html(self._transformation, self.get_type())

    # --- settings of this operator that a sink does not have --------------------------------------

    def start_new_chain(self) -> Self:
        """Starts a new chain with this operator."""
        self._operator("start_new_chain()").chaining = ChainingStrategy.HEAD
        return self

    def force_non_parallel(self) -> Self:
        """Fixes the operator's parallelism at 1, whatever the environment says."""
        operator = self._operator("force_non_parallel()")
        operator.parallelism, operator.is_non_parallel = 1, True
        return self

    # --- inside ----------------------------------------------------------------------------------

    def _values_transformation(self) -> Transformation:
        """Returns the transformation that operators without keys read."""
        return self._transformation

    def _collected(
        self, stream: Transformation, type_info: TypeInformation, job_name: str | None, limit: int | None
    ) -> CloseableIterator | list[Record]:
        results = execute_and_collect(self._env, stream, type_info, job_name)
        if limit is None:
            return results
        with results:
            return list(islice(results, limit))

    def _transform(
        self, kind: OperatorKind, name: str, options: dict[str, UserObject], output_type: TypeInformation
    ) -> DataStream:
        inputs = (self._values_transformation(),)
        return DataStream(self._env, self._env.add_operator(kind, name, options, output_type, inputs))

    def _partitioned(self, partitioner: Partitioning, shown_as: str = "") -> DataStream:
        made = PartitionTransformation(
            self._env.next_transformation_id(),
            self.get_type(),
            input=self._values_transformation(),
            partitioner=partitioner,
            shown_as=shown_as,
        )
        return DataStream(self._env, made)

    def _bound_strategy(self, strategy: WatermarkStrategy) -> WatermarkStrategy:
        """Checks a strategy against this stream; a timestamp column of a record stream becomes an assigner."""
        if not isinstance(strategy, WatermarkStrategy):
            raise InvalidJob(f"{strategy!r} is not a WatermarkStrategy")
        return bind_strategy(strategy, self.get_type())

    def _columns(self, method: str) -> pa.Schema:
        """Returns the columns for a columnar method. Raises ``InvalidJob`` for a stream of pickled objects."""
        if self.get_type() == Types.PICKLED_BYTE_ARRAY():
            raise InvalidJob(
                f"{method} works on columns, but the records of this stream are objects of unknown type: "
                "give the operator before it an output_type, such as Types.ROW_NAMED([...], [...])"
            )
        return self.get_type().arrow_schema()

    def _window_aggregates(
        self,
        keys: Sequence[str],
        window: WindowAssigner[Record, AssignedWindow],
        aggregates: Sequence[Aggregate],
    ) -> DataStream:
        """Aggregates windows by keys, for a query with GROUP BY and a window."""
        return self.key_by(*keys).window(window).agg(*aggregates)

    def _key(self) -> KeySpec | None:
        """Returns the key of records, if the stream is keyed."""
        return None


class KeyedStream(DataStream):
    """A stream whose records are partitioned by a key (PyFlink: ``KeyedStream``). All records of one key reach one subtask, whose functions have state
    for each key. ``name``, ``uid`` and similar methods belong to the operators before and behind it."""

    def __init__(self, origin: DataStream, key: KeySpec) -> None:
        env = origin.get_execution_environment()
        made = PartitionTransformation(
            env.next_transformation_id(),
            origin.get_type(),
            input=origin._values_transformation(),
            partitioner=Partitioning.HASH,
            key=key,
        )
        super().__init__(env, made)
        self._origin = origin
        self._exchange_key = key

    def map(self, func: Callable[[Record], Record] | MapFunction, output_type: TypeHint = None) -> DataStream:
        """Applies a function to each record and emits its result; a MapFunction may use keyed state."""
        if not isinstance(func, MapFunction):
            return super().map(func, output_type)
        return self._keyed("keyed_process", "Map", {"func": adapters.KeyedMap(func)}, type_of(output_type))

    def flat_map(
        self, func: Callable[[Record], Iterable[Record] | None] | FlatMapFunction, output_type: TypeHint = None
    ) -> DataStream:
        """Applies a function to each record and emits the elements of its result; a FlatMapFunction may use keyed state."""
        if not isinstance(func, FlatMapFunction):
            return super().flat_map(func, output_type)
        return self._keyed("keyed_process", "FlatMap", {"func": adapters.KeyedFlatMap(func)}, type_of(output_type))

    def filter(self, func: Callable[[Record], bool] | FilterFunction | Expression) -> DataStream:
        """Keeps the records for which a function is true; a FilterFunction may use keyed state."""
        if not isinstance(func, FilterFunction):
            return super().filter(func)
        return self._keyed("keyed_process", "Filter", {"func": adapters.KeyedFilter(func)}, self.get_type())

    def reduce(self, func: Callable[[Record, Record], Record] | ReduceFunction) -> DataStream:
        """Combines each record with the result so far of its key, and emits the new result for every record (in BATCH
        execution mode: once for each key, at the end)."""
        adapters.check_function(func, ReduceFunction, "reduce")
        return self._keyed("keyed_reduce", "Reduce", {"func": func}, self.get_type())

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Emits the running sum of a field for each record; other fields are those of the first record."""
        return self._field_reduce("sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Emits the smallest value so far of a field for each record; other fields are those of the first record."""
        return self._field_reduce("min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Emits the largest value so far of a field for each record; other fields are those of the first record."""
        return self._field_reduce("max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Emits the first record so far with the smallest value of a field."""
        return self._field_reduce("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Emits the first record so far with the largest value of a field."""
        return self._field_reduce("max_by", position_to_max_by)

    def agg(self, *aggregates: Aggregate, ttl: StateTtlConfig | None = None) -> DataStream:
        """Emits running aggregates of columns, without windows: for each batch one row for every key in it, with the key columns and the aggregates so
        far. Needs ``key_by("column", ...)`` with keys that are numbers, booleans, instants, texts or bytes. Rows have no timestamps. This method is
        tidegate's own.

        With ``ttl`` a key that no row has had for so long (processing time) is forgotten, and begins anew with its next row, as
        keyed state of functions does."""
        keys = list(self._exchange_key.columns)
        if not keys:
            raise InvalidJob('agg works on columns: use key_by("column", ...) before it')
        check_aggregates(aggregates)
        schema = self._columns("agg")
        check_running(aggregates, schema, keys)
        fields = [*key_fields(schema, keys), *(aggregate.output_field(schema) for aggregate in aggregates)]
        named = [(a.output_name, a.function, a.column) for a in aggregates]
        output_type = ArrowTypeInfo(distinct(fields))
        options = {"keys": keys, "aggregates": named, "ttl": ttl if ttl is not None and ttl.is_enabled() else None}
        made = self._env.add_operator(
            "columnar_aggregate", "Aggregate", options, output_type, (self._transformation,), self._exchange_key
        )
        return DataStream(self._env, made)

    def process(self, func: KeyedProcessFunction, output_type: TypeHint = None) -> DataStream:  # type: ignore[override]  # as in PyFlink
        """Applies a ``KeyedProcessFunction``, which has state and timers for each key. Raises ``InvalidJob`` for any
        other function."""
        if not isinstance(func, KeyedProcessFunction):
            raise InvalidJob(f"process after key_by needs a KeyedProcessFunction, not {func!r}")
        return self._keyed("keyed_process", "KEYED PROCESS", {"func": func}, type_of(output_type))

    def window(self, window_assigner: WindowAssigner[Record, AssignedWindow]) -> WindowedStream:
        """Groups the records of each key into windows."""
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Groups the records of each key into windows of ``size`` records, one every ``slide`` records (0: tumbling). A window that never fills never
        fires."""
        if slide:
            return self.window(CountSlidingWindowAssigner(size, slide))
        return self.window(CountTumblingWindowAssigner(size))

    def partition_custom(
        self,
        partitioner: Callable[[Key, int], int] | Partitioner,
        key_selector: Callable[[Record], Key] | KeySelector,
    ) -> DataStream:
        raise InvalidJob("Cannot override partitioning for KeyedStream.")

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Joins records with equal keys and nearby times: ``.between(lower, upper).process(...)``."""
        return IntervalJoin(self, other_stream)

    def key_by(
        self,
        key_selector: Callable[[Record], Key] | KeySelector | str,
        *more: str | TypeInformation | None,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        return self._origin.key_by(key_selector, *more, key_type=key_type)

    def _collected(
        self, stream: Transformation, type_info: TypeInformation, job_name: str | None, limit: int | None
    ) -> CloseableIterator | list[Record]:
        """Collects results as PyFlink does: rows of the key (``f0``) and the record (``f1``)."""
        name, func = "_stream_key_by_map_operator", adapters.KeyAndRecord(self.record_key().selector)
        pairs = self._env.add_operator(
            "map", name, {"func": func}, Types.PICKLED_BYTE_ARRAY(), (self.before_exchange(),)
        )
        pairs.follows_input = True
        return super()._collected(pairs, Types.PICKLED_BYTE_ARRAY(), job_name, limit)

    def _partitioned(self, partitioner: Partitioning, shown_as: str = "") -> DataStream:
        raise InvalidJob(
            f"{(shown_as or partitioner.value).lower()}: the records of a keyed stream go where their keys belong; "
            "redistribute them before key_by, or after an operator"
        )

    # --- inside ----------------------------------------------------------------------------------

    def _values_transformation(self) -> Transformation:
        """Returns the partitioned records also for operators without keys: a sink gets all records of one key in one subtask, in their order. Follows
        PyFlink's ``KeyedStream._values``."""
        return self._transformation

    def before_exchange(self) -> Transformation:
        """Returns the records before the exchange by key, for operators that run ahead of it."""
        return self._origin._values_transformation()

    def record_key(self) -> KeySpec:
        """Returns the key for operators on single records, always as a selector."""
        key = self._exchange_key
        if not key.columns:
            return key
        return KeySpec(selector=adapters.field_key(self.get_type(), key.columns), key_type=key.key_type)

    def _key(self) -> KeySpec:
        return self.record_key()

    def exchange_key(self) -> KeySpec:
        """Returns the key by which records are partitioned."""
        return self._exchange_key

    def _transform(
        self, kind: OperatorKind, name: str, options: dict[str, UserObject], output_type: TypeInformation
    ) -> DataStream:
        return self._keyed(kind, name, options, output_type)

    def _keyed(
        self,
        kind: OperatorKind,
        name: str,
        options: dict[str, UserObject],
        output_type: TypeInformation,
    ) -> DataStream:
        """Adds an operator after the exchange by key."""
        made = self._env.add_operator(kind, name, options, output_type, (self._transformation,), self.record_key())
        return DataStream(self._env, made)

    def _field_reduce(self, function: str, position: int | str) -> DataStream:
        return self.reduce(FieldReduce.on(function, position, self.get_type())).name(function.capitalize())


class CachedDataStream(DataStream):
    """The records of a cached stream, in this job and in later ones of the same program. As in Flink, a lost cache is computed again; here every job
    does so, so slow results are better written with a FileSink."""

    def invalidate(self) -> None:
        """Does nothing: no records are kept."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raises ``InvalidJob``: settings belong to the operator before ``cache()``."""
        raise InvalidJob("a cached stream has no operator of its own: change or read its settings before cache()")

    name = uid = set_uid_hash = set_parallelism = set_max_parallelism = force_non_parallel = get_name = _refuse
    set_buffer_timeout = start_new_chain = disable_chaining = slot_sharing_group = set_description = _refuse


RecordOrColumnKey = Callable[[Record], Key] | KeySelector | str


class ConnectedStreams:
    """Two streams that one operator reads (PyFlink: ``ConnectedStreams``). It is keyed when both streams are, or after
    ``key_by``; then its functions share keyed state between the two inputs."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        if stream1.get_execution_environment() is not stream2.get_execution_environment():
            raise InvalidJob(
                "the two streams belong to different environments: make both with one StreamExecutionEnvironment"
            )
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: RecordOrColumnKey,
        key_selector2: RecordOrColumnKey,
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams:
        """Keys both streams, each by its own selector; the two keys must be of one type."""
        first = self.stream1.key_by(key_selector1, key_type=key_type)
        return ConnectedStreams(first, self.stream2.key_by(key_selector2, key_type=key_type))

    def map(self, func: CoMapFunction, output_type: TypeHint = None) -> DataStream:
        """Applies ``map1`` or ``map2`` of the function to each record, and emits what it returns. Raises ``InvalidJob``
        unless the function is a ``CoMapFunction``."""
        if not isinstance(func, CoMapFunction):
            raise InvalidJob(f"map on connected streams needs a CoMapFunction, not {func!r}")
        keyed = self._is_keyed()
        return self._connected("CoMap", adapters.KeyedCoMap(func) if keyed else adapters.CoMap(func), output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeHint = None) -> DataStream:
        """Applies ``flat_map1`` or ``flat_map2`` of the function to each record, and emits every element of what it
        returns. Raises ``InvalidJob`` unless the function is a ``CoFlatMapFunction``."""
        if not isinstance(func, CoFlatMapFunction):
            raise InvalidJob(f"flat_map on connected streams needs a CoFlatMapFunction, not {func!r}")
        keyed = self._is_keyed()
        adapted = adapters.KeyedCoFlatMap(func) if keyed else adapters.CoFlatMap(func)
        return self._connected("CoFlatMap", adapted, output_type)

    def process(self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeHint = None) -> DataStream:
        """Applies a process function to both streams. A ``KeyedCoProcessFunction`` needs keyed streams; a ``CoProcessFunction`` accepts them too."""
        if isinstance(func, KeyedCoProcessFunction) and not self._is_keyed():
            raise InvalidJob("a KeyedCoProcessFunction needs key_by() on both connected streams")
        if not isinstance(func, (CoProcessFunction, KeyedCoProcessFunction)):
            wanted = "a KeyedCoProcessFunction or CoProcessFunction" if self._is_keyed() else "a CoProcessFunction"
            raise InvalidJob(f"process on these connected streams needs {wanted}, not {func!r}")
        return self._connected("Keyed Co-Process" if self._is_keyed() else "Co-Process", func, output_type)

    def _is_keyed(self) -> bool:
        return self.stream1._key() is not None and self.stream2._key() is not None

    def _connected(self, name: str, func: UserObject, output_type: TypeHint) -> DataStream:
        env = self.stream1.get_execution_environment()
        kind = type_of(output_type)
        keys = (self.stream1._key(), self.stream2._key())
        if self._is_keyed():
            inputs = (self.stream1._transformation, self.stream2._transformation)
            made = env.add_operator("keyed_co_process", name, {"func": func}, kind, inputs, *keys)
        else:
            inputs = (self.stream1._values_transformation(), self.stream2._values_transformation())
            made = env.add_operator("co_process", name, {"func": func}, kind, inputs)
        return DataStream(env, made)

    def __getattr__(self, name: str) -> NoReturn:
        """Raises ``AttributeError`` that names the missing attribute."""
        raise AttributeError(name if name.startswith("_") else f"ConnectedStreams.{name} is not available in tidegate")


class BroadcastStream:
    """A stream with broadcast state, which can only be connected to another stream."""

    def __init__(self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]) -> None:
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise InvalidJob(f"broadcast state needs a MapStateDescriptor, not {descriptor!r}")
        names = [descriptor.name for descriptor in broadcast_state_descriptors]
        if len(set(names)) != len(names):
            raise InvalidJob(f"two broadcast states have the same name: {names}")
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream:
    """A stream connected to a broadcast stream. ``process`` takes a BroadcastProcessFunction, or for a KeyedStream a KeyedBroadcastProcessFunction."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        if (
            non_broadcast_stream.get_execution_environment()
            is not broadcast_stream.input_stream.get_execution_environment()
        ):
            raise InvalidJob(
                "the two streams belong to different environments: make both with one StreamExecutionEnvironment"
            )
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def process(
        self,
        func: BroadcastProcessFunction[Record, Record, Record]
        | KeyedBroadcastProcessFunction[Key, Record, Record, Record],
        output_type: TypeHint = None,
    ) -> DataStream:
        """Applies a function to both streams; its type must fit whether the other stream is keyed. Raises
        ``InvalidJob`` otherwise."""
        stream = self.non_broadcast_stream
        key = stream._key()
        is_keyed = key is not None
        wanted = KeyedBroadcastProcessFunction if is_keyed else BroadcastProcessFunction
        if not isinstance(func, wanted):
            where = "keyed" if is_keyed else "non-keyed"
            raise InvalidJob(f"process beside a {where} stream needs a {wanted.__name__}, not {func!r}")
        env = stream.get_execution_environment()
        options = {"func": func, "states": self.broadcast_state_descriptors}
        inputs = (
            stream._transformation if is_keyed else stream._values_transformation(),
            self.broadcast_stream.input_stream._transformation,
        )
        made = env.add_operator(
            "keyed_broadcast_process" if is_keyed else "broadcast_process",
            "Keyed-Co-Process-Broadcast" if is_keyed else "Co-Process-Broadcast",
            options,
            type_of(output_type),
            inputs,
            key,
        )
        return DataStream(env, made)


def _as_it_is(function: UserObject) -> UserObject:
    return function


class WindowsOfStream:
    """The base of windowed streams, keyed or not. ``_functions``: the kinds of window functions, each with its adapter to a ProcessWindowFunction."""

    _functions: ClassVar[
        Mapping[type[Function], Callable[[UserObject], ProcessWindowFunction[Record, Record, Key, AssignedWindow]]]
    ]

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Record, AssignedWindow]) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise InvalidJob(
                f"window needs a WindowAssigner, such as TumblingEventTimeWindows, not {window_assigner!r}"
            )
        self._keyed_stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger[Record, AssignedWindow] | None = None
        self._evictor: Evictor | None = None
        self._allowed_lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment of the stream."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Returns the type of the records that enter the windows."""
        return self._keyed_stream.get_type()

    def trigger(self, trigger: Trigger[Record, AssignedWindow]) -> Self:
        """Replaces the assigner's default trigger."""
        if not isinstance(trigger, Trigger):
            raise InvalidJob(f"{trigger!r} is not a Trigger")
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise InvalidJob(
                f"{type(trigger).__name__} cannot be used with {self._assigner!r}, whose windows merge: its can_merge() must "
                "be True, and it needs on_merge"
            )
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Sets an evictor, which removes records from the window when it fires (Flink's Java API; PyFlink has no evictors). The window then keeps all
        its records until it ends."""
        if not isinstance(evictor, Evictor):
            raise InvalidJob(f"{evictor!r} is not an Evictor")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: int | Time | Duration) -> Self:
        """Sets how long after its end (in event time) a window still accepts records and fires again."""
        lateness_ms = to_millis(time_ms, "allowed_lateness")
        if lateness_ms < 0:
            raise InvalidJob(f"the allowed lateness must not be negative: {time_ms}")
        self._allowed_lateness_ms = lateness_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Sends records that come too late to this side output instead of dropping them."""
        self._late_tag = output_tag
        return self

    def reduce(
        self,
        reduce_function: Callable[[Record, Record], Record] | ReduceFunction,
        window_function: UserObject = None,
        output_type: TypeHint = None,
    ) -> DataStream:
        """Reduces the records of each window to one value. ``window_function`` gets the reduced value and the window."""
        check_function(reduce_function, ReduceFunction, "reduce")
        kind = self.get_input_type() if window_function is None and output_type is None else type_of(output_type)
        return self._window(("reduce", reduce_function, *self._with(window_function)), kind)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: UserObject = None,
        accumulator_type: TypeHint = None,
        output_type: TypeHint = None,
    ) -> DataStream:
        """Aggregates the records of each window. ``window_function`` gets the result and the window."""
        if not isinstance(aggregate_function, AggregateFunction):
            raise InvalidJob(f"aggregate needs an AggregateFunction, not {aggregate_function!r} (columns: use agg)")
        function = ("aggregate", aggregate_function, *self._with(window_function))
        return self._window(function, type_of(output_type), type_of(accumulator_type))

    def _of_kind(self, index: int, function: UserObject, method: str) -> UserObject:
        kind, adapter = list(self._functions.items())[index]
        if not isinstance(function, kind):
            raise InvalidJob(f"{method} needs {_a(kind)}, not {function!r}")
        return adapter(function)

    def _with(
        self, window_function: UserObject
    ) -> tuple[ProcessWindowFunction[Record, Record, Key, AssignedWindow], ...]:
        if window_function is None:
            return ()
        for kind, adapter in self._functions.items():
            if isinstance(window_function, kind):
                return (adapter(window_function),)
        names = " or ".join(map(_a, self._functions))
        raise InvalidJob(f"window_function must be {names}, not {window_function!r}")

    def _window(
        self,
        function: tuple[UserObject, ...],
        output_type: TypeInformation,
        accumulator_type: TypeInformation | None = None,
    ) -> DataStream:
        options = {
            "assigner": self._assigner,
            "trigger": self._trigger,
            "evictor": self._evictor,
            "allowed_lateness_ms": self._allowed_lateness_ms,
            "late_tag": None if self._late_tag is None else self._late_tag.tag_id,
            "function": function,
            "accumulator_type": accumulator_type,
        }
        return self._keyed_stream._keyed("window", type(self._assigner).__name__, options, output_type)

    def __getattr__(self, name: str) -> NoReturn:
        """Raises ``AttributeError`` that names the missing attribute."""
        raise AttributeError(
            name if name.startswith("_") else f"{type(self).__name__}.{name} is not available in tidegate"
        )


class WindowedStream(WindowsOfStream):
    """A keyed stream in windows."""

    _functions: ClassVar = {WindowFunction: ApplyWindow, ProcessWindowFunction: _as_it_is}

    def apply(
        self, window_function: WindowFunction[Record, Record, Key, AssignedWindow], output_type: TypeHint = None
    ) -> DataStream:
        """Applies a function to all records of each window; they are kept in state until then."""
        return self._window(("process", self._of_kind(0, window_function, "apply")), type_of(output_type))

    def process(
        self,
        process_window_function: ProcessWindowFunction[Record, Record, Key, AssignedWindow],
        output_type: TypeHint = None,
    ) -> DataStream:
        """Applies a function to all records of each window; they are kept in state until then."""
        return self._window(("process", self._of_kind(1, process_window_function, "process")), type_of(output_type))

    def agg(self, *aggregates: Aggregate) -> DataStream:
        """Aggregates columns of each window: emits one row of ``window_start, window_end`` (int64, ms), the key columns and the aggregates for each key
        and window. Needs ``key_by("column", ...)`` and windows of event time: tumbling ones, sliding ones whose slide divides their size (a row is
        aggregated once for each slide, not for each window), or sessions with a fixed gap. This method is tidegate's own."""
        keyed, assigner = self._keyed_stream, self._assigner
        keys = list(keyed.exchange_key().columns)
        if not keys:
            raise InvalidJob('agg works on columns: use key_by("column", ...) before the window')
        if not isinstance(assigner, (TumblingEventTimeWindows, SlidingEventTimeWindows, EventTimeSessionWindows)):
            raise InvalidJob(
                "agg works on TumblingEventTimeWindows, SlidingEventTimeWindows and EventTimeSessionWindows with a fixed "
                f"gap, not on {assigner!r}; others take reduce or aggregate"
            )
        self._refuse_settings()
        options = {"keys": keys, "aggregates": [(a.output_name, a.spec, a.column) for a in aggregates]}
        local_type, output_type = partial_and_result_types(
            keyed._columns("agg"), keys, aggregates, times=WINDOW_TIMES[:1]
        )
        if isinstance(assigner, EventTimeSessionWindows):
            local_type, _ = partial_and_result_types(keyed._columns("agg"), keys, aggregates, times=WINDOW_TIMES)
            options["gap_ms"] = assigner.gap_ms
            return self._in_two_steps(
                ("columnar_session_local", "columnar_session"), options, options, local_type, output_type
            )
        slide_ms = _slide_of(assigner)
        options |= {"size_ms": assigner.size_ms, "offset_ms": assigner.offset_ms}
        of_local = {**options, "size_ms": slide_ms}
        return self._in_two_steps(
            ("columnar_window_local", "columnar_window"),
            of_local,
            {**options, "slide_ms": slide_ms},
            local_type,
            output_type,
        )

    def _in_two_steps(
        self,
        kinds: tuple[OperatorKind, OperatorKind],
        of_local: dict[str, UserObject],
        of_window: dict[str, UserObject],
        local_type: TypeInformation,
        output_type: TypeInformation,
    ) -> DataStream:
        """Adds the local aggregation in the producer's chain, the exchange, and the global aggregation."""
        keyed, env = self._keyed_stream, self.get_execution_environment()
        key = keyed.exchange_key()
        key = replace(key, columns=tuple(map(internal_name, key.columns)))
        local = env.add_operator(
            kinds[0],
            "LocalWindowAggregate",
            {**of_local, "input": "raw"},
            local_type,
            (keyed.before_exchange(),),
        )
        local.follows_input = True
        exchange = PartitionTransformation(
            env.next_transformation_id(),
            local_type,
            input=local,
            partitioner=Partitioning.HASH,
            key=key,
        )
        made = env.add_operator(
            kinds[1],
            "GlobalWindowAggregate",
            {**of_window, "input": "partial"},
            output_type,
            (exchange,),
            key,
        )
        return DataStream(env, made)

    def _refuse_settings(self) -> None:
        settings = (self._trigger, self._evictor, self._late_tag, self._allowed_lateness_ms or None)
        if any(setting is not None for setting in settings):
            raise InvalidJob(
                "agg does not support a trigger, an evictor, allowed lateness or a side output for late data"
            )


class AllWindowedStream(WindowsOfStream):
    """All records of a stream in windows, in one subtask."""

    _functions: ClassVar = {AllWindowFunction: ApplyAllWindow, ProcessAllWindowFunction: ProcessAllWindow}

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner[Record, AssignedWindow]) -> None:
        one_key = KeySpec(selector=OneKey(), key_type=Types.BYTE())
        super().__init__(KeyedStream(data_stream, one_key), window_assigner)

    def apply(
        self, window_function: AllWindowFunction[Record, Record, AssignedWindow], output_type: TypeHint = None
    ) -> DataStream:
        """Applies a function to all records of each window; they are kept in state until then."""
        return self._window(("process", self._of_kind(0, window_function, "apply")), type_of(output_type))

    def process(
        self,
        process_window_function: ProcessAllWindowFunction[Record, Record, AssignedWindow],
        output_type: TypeHint = None,
    ) -> DataStream:
        """Applies a function to all records of each window; they are kept in state until then."""
        return self._window(("process", self._of_kind(1, process_window_function, "process")), type_of(output_type))

    def _window(
        self,
        function: tuple[UserObject, ...],
        output_type: TypeInformation,
        accumulator_type: TypeInformation | None = None,
    ) -> DataStream:
        return super()._window(function, output_type, accumulator_type).force_non_parallel()


class IntervalJoin:
    """An interval join that still needs its bounds; ``between`` sets them (Flink: ``KeyedStream.IntervalJoin``). Raises
    ``InvalidJob`` unless both streams are keyed and belong to one environment."""

    def __init__(self, left: KeyedStream, right: KeyedStream) -> None:
        if not isinstance(right, KeyedStream):
            raise InvalidJob("interval_join needs two keyed streams: call key_by on the other one, too")
        if left.get_execution_environment() is not right.get_execution_environment():
            raise InvalidJob(
                "the two streams belong to different environments: make both with one StreamExecutionEnvironment"
            )
        self._left = left
        self._right = right

    def in_event_time(self) -> IntervalJoin:
        """Returns the join itself, which is always in event time."""
        return self

    def in_processing_time(self) -> IntervalJoin:
        """Raises ``InvalidJob``: as in Flink, interval joins work in event time only."""
        raise InvalidJob("an interval join works in event time only, as in Flink")

    def between(self, lower_bound: int | Time | Duration, upper_bound: int | Time | Duration) -> IntervalJoined:
        """Sets the bounds relative to the left record's time, in ms, both included."""
        return IntervalJoined(
            self._left,
            self._right,
            to_millis(lower_bound, "between: the lower bound"),
            to_millis(upper_bound, "between: the upper bound"),
        )


class IntervalJoined:
    """An interval join with its bounds, in milliseconds relative to the left record's time (Flink:
    ``KeyedStream.IntervalJoined``)."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_ms: int, upper_ms: int) -> None:
        self._left = left
        self._right = right
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._is_lower_inclusive = True
        self._is_upper_inclusive = True
        self._late_tags: dict[int, OutputTag] = {}

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Excludes pairs exactly at the lower bound."""
        self._is_lower_inclusive = False
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Excludes pairs exactly at the upper bound."""
        self._is_upper_inclusive = False
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Sends late records of the left stream to this side output instead of dropping them."""
        self._late_tags[0] = output_tag
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Sends late records of the right stream to this side output instead of dropping them."""
        self._late_tags[1] = output_tag
        return self

    def process(self, process_join_function: ProcessJoinFunction, output_type: TypeHint = None) -> DataStream:
        """Calls the function for every pair. Raises ``InvalidJob`` unless it is a ``ProcessJoinFunction``, and when the
        interval is empty."""
        if not isinstance(process_join_function, ProcessJoinFunction):
            raise InvalidJob(f"an interval join needs a ProcessJoinFunction, not {process_join_function!r}")
        lower_ms = self._lower_ms + (not self._is_lower_inclusive)
        upper_ms = self._upper_ms - (not self._is_upper_inclusive)
        if lower_ms > upper_ms:
            raise InvalidJob(f"the interval is empty: from {lower_ms} ms to {upper_ms} ms")
        options: dict[str, UserObject] = {
            "func": process_join_function,
            "lower_ms": lower_ms,
            "upper_ms": upper_ms,
            "late_tags": [self._late_tags[side].tag_id if side in self._late_tags else None for side in (0, 1)],
        }
        left, right = self._left, self._right
        env = left.get_execution_environment()
        inputs = (left._transformation, right._transformation)
        keys = (left.record_key(), right.record_key())
        made = env.add_operator("interval_join", "Interval Join", options, type_of(output_type), inputs, *keys)
        return DataStream(env, made)


class CoGroupedStreams:
    """The coGroup of two streams, ``a.co_group(b)``."""

    _method = "co_group"

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        if not isinstance(stream2, DataStream):
            raise InvalidJob(f"{self._method} needs another stream, not {stream2!r}")
        if stream1.get_execution_environment() is not stream2.get_execution_environment():
            raise InvalidJob(
                "the two streams belong to different environments: make both with one StreamExecutionEnvironment"
            )
        self.stream1 = stream1
        self.stream2 = stream2

    def where(self, key_selector: Selector, key_type: TypeInformation | None = None) -> Where:
        """Sets the key selector of the first stream."""
        return Where(self, _checked(key_selector, "where"), key_type)

    def adapter(self, function: UserObject) -> WindowFunction[Record, Record, Key, AssignedWindow]:
        """Returns the window function that adapts a CoGroupFunction."""
        if not isinstance(function, CoGroupFunction):
            raise InvalidJob(f"apply after co_group needs a CoGroupFunction, not {function!r}")
        return CoGroupWindow(function)


class JoinedStreams(CoGroupedStreams):
    """The window join of two streams, ``a.join(b)``."""

    _method = "join"

    def adapter(self, function: UserObject) -> WindowFunction[Record, Record, Key, AssignedWindow]:
        if isinstance(function, FlatJoinFunction):
            return FlatJoinWindow(function)
        if isinstance(function, JoinFunction) or (callable(function) and not isinstance(function, Function)):
            return JoinWindow(function)
        raise InvalidJob(f"apply after join needs a JoinFunction, a FlatJoinFunction or a function, not {function!r}")


class Where:
    """A join whose first stream has a key selector; ``equal_to`` adds the second one (Flink:
    ``CoGroupedStreams.Where``)."""

    def __init__(self, streams: CoGroupedStreams, selector1: Selector, key_type: TypeInformation | None) -> None:
        self._streams = streams
        self._selector1 = selector1
        self._key_type = key_type

    def equal_to(self, key_selector: Selector, key_type: TypeInformation | None = None) -> EqualTo:
        """Sets the key selector of the second stream. Both keys must have one type."""
        first, second = self._key_type, key_type
        if first is not None and second is not None and first != second:
            raise InvalidJob(
                f"the keys of the two streams have different types: {first!r} of the first and {second!r} of the second: give both one key_type"
            )
        selectors = (self._selector1, _checked(key_selector, "equal_to"))
        return EqualTo(self._streams, selectors, first if first is not None else second)


class EqualTo:
    """A join with both key selectors; ``window`` adds the windows (Flink: ``CoGroupedStreams.Where.EqualTo``)."""

    def __init__(
        self, streams: CoGroupedStreams, selectors: tuple[Selector, Selector], key_type: TypeInformation | None
    ) -> None:
        self._streams = streams
        self._selectors = selectors
        self._key_type = key_type

    def window(self, assigner: WindowAssigner[Record, AssignedWindow]) -> WithWindow:
        """Sets the windows in which the two streams are joined."""
        streams = self._streams
        kinds = (streams.stream1.get_type(), streams.stream2.get_type())
        tagged = Types.TUPLE([Types.INT(), *kinds])
        union = streams.stream1.map(Tagged(0), tagged).union(streams.stream2.map(Tagged(1), tagged))
        return WithWindow(streams, union.key_by(TaggedKey(*self._selectors), self._key_type).window(assigner))


class WithWindow:
    """A window join with its windows: settings, then ``apply``."""

    def __init__(self, streams: CoGroupedStreams, windowed: WindowedStream) -> None:
        self._streams = streams
        self._windowed = windowed

    def trigger(self, trigger: Trigger[Record, AssignedWindow]) -> WithWindow:
        """Replaces the trigger of the window assigner."""
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> WithWindow:
        """Sets an evictor, which removes elements before or after the function is called."""
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int | Time | Duration) -> WithWindow:
        """Keeps windows for this long after their end (milliseconds, ``Time`` or ``Duration``), so that late records still reach them."""
        self._windowed.allowed_lateness(time_ms)
        return self

    def apply(self, function: UserObject, output_type: TypeHint = None) -> DataStream:
        """Applies a function to each window: a CoGroupFunction after ``co_group``; a JoinFunction, FlatJoinFunction or a function of two records after
        ``join``."""
        made: DataStream = self._windowed.apply(self._streams.adapter(function), output_type)
        return made


def _checked(selector: Selector, method: str) -> Selector:
    if not isinstance(selector, KeySelector) and not callable(selector):
        raise InvalidJob(f"{method} needs a KeySelector or a function, not {selector!r}")
    return selector


def _a(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"


def _slide_of(assigner: TumblingEventTimeWindows[Record] | SlidingEventTimeWindows[Record]) -> int:
    """Returns the slide of windows. Raises ``InvalidJob`` unless it divides the size."""
    slide_ms = assigner.slide_ms if isinstance(assigner, SlidingEventTimeWindows) else assigner.size_ms
    if assigner.size_ms % slide_ms:
        raise InvalidJob(
            f"agg works on sliding windows whose slide divides their size, {assigner.size_ms} ms each {slide_ms} ms "
            "does not; reduce and aggregate take any"
        )
    return slide_ms


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.datastream", "AllWindowedStream CachedDataStream ConnectedStreams KeyedStream WindowedStream"),
    elsewhere(
        "tidegate.functions.interfaces",
        "AggregateFunction AllWindowFunction BroadcastProcessFunction CoFlatMapFunction CoMapFunction "
        "CoProcessFunction Function KeyedBroadcastProcessFunction KeyedCoProcessFunction KeyedProcessFunction "
        "Partitioner ProcessFunction ProcessAllWindowFunction ProcessWindowFunction ReduceFunction RuntimeContext "
        "SinkFunction WindowFunction",
    ),
    elsewhere(
        "tidegate.functions.state",
        "AggregatingStateDescriptor ListStateDescriptor ReducingState ReducingStateDescriptor StateDescriptor",
    ),
    elsewhere(
        "tidegate.functions.windows",
        "CountSlidingWindowAssigner CountTumblingWindowAssigner CountWindowSerializer GlobalWindowSerializer "
        "MergingWindowAssigner TimeWindowSerializer Trigger WindowAssigner",
    ),
    elsewhere("tidegate.common", "ExecutionConfig Row TimestampAssigner WatermarkStrategy"),
    elsewhere("tidegate.connectors.base", "Sink"),
    elsewhere("tidegate.functions.output_tag", "OutputTag"),
    elsewhere("tidegate.common.typeinfo", "RowTypeInfo"),
    elsewhere("tidegate.datastream.slot_sharing_group", "SlotSharingGroup"),
)
