"""What a stream does with its records, one at a time or as a whole: functions, exchanges, unions, sinks.

Each method adds a transformation and returns a plain stream, whatever the stream was. What returns a stream of another kind (keyed, connected,
joined, in windows) is with ``DataStream``, above the kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from tidegate.common.execution_config import ExecutionConfig
from tidegate.common.records.record_text import RecordText
from tidegate.common.typeinfo import PickledBytesTypeInfo, TypeInformation, Types
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.base import Sink
from tidegate.connectors.print_sink import PrintSink
from tidegate.connectors.tabular import PandasFrame, to_frame
from tidegate.connectors.two_phase_commit import TwoPhaseCommitSink
from tidegate.datastream._graph.transformation import (
    ChainingStrategy,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from tidegate.datastream._streams.closeable_iterator import CloseableIterator, execute_and_collect
from tidegate.datastream._streams.column_methods import ColumnMethods
from tidegate.datastream._streams.operator_handle import DataStreamSink
from tidegate.datastream._streams.stream_types import TypeHint, bind_strategy, fields_of, type_of
from tidegate.datastream.aggregates import check_moves
from tidegate.datastream.connectors.row_format import RecordsAsText
from tidegate.functions import adapters
from tidegate.functions import interfaces as functions
from tidegate.functions.adapted.custom_partitioning import CustomTarget
from tidegate.functions.expressions import Expression
from tidegate.functions.interfaces import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
)
from tidegate.functions.output_tag import OutputTag
from tidegate.functions.two_phase_commit import TwoPhaseCommitSinkFunction
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.graph import Partitioner as Partitioning
from tidegate.model.program import KeySpec, OperatorKind
from tidegate.model.values import Key, Record, UserObject

if TYPE_CHECKING:
    from tidegate.datastream.data_stream import DataStream
    from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment


class RecordMethods(ColumnMethods):
    """Base of ``DataStream``: methods that add an operator or an exchange and return a plain stream, and those that end it."""

    if TYPE_CHECKING:

        def _behind(self, made: Transformation) -> DataStream: ...

        def _key(self) -> KeySpec | None: ...

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment to which the stream belongs."""
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        """Returns the execution options of the stream's environment."""
        return self._env.get_config()

    # --- functions of one record -----------------------------------------------------------------

    def map(self, func: Callable[[Record], Record] | MapFunction, output_type: TypeHint = None) -> DataStream:
        """Emits one record for each record: what the function returns. Without ``output_type`` results travel pickled."""
        adapters.check_function(func, MapFunction, "map")
        return self._transform("map", "Map", {"func": func}, type_of(output_type))

    def flat_map(
        self, func: Callable[[Record], Iterable[Record] | None] | FlatMapFunction, output_type: TypeHint = None
    ) -> DataStream:
        """Emits any number of records for each record: the elements of what the function returns."""
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
                f"process needs a ProcessFunction, not {func!r} (a KeyedProcessFunction goes behind key_by)"
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
        """Gives records event time, and emits the watermarks of the strategy. Event time that begins inside a source
        (``from_source``) is better where a source has splits. Raises ``InvalidJob`` or ``SchemaMismatch`` when the
        strategy does not fit the stream."""
        strategy = self._bound_strategy(watermark_strategy)
        made = self._transform(
            "timestamps_watermarks", "Timestamps/Watermarks", {"strategy": strategy}, self.get_type()
        )
        made._operator("").follows_input = True
        return made

    # --- partitioning ----------------------------------------------------------------------------

    def rebalance(self) -> DataStream:
        """Deals records to all subtasks of the next operator in turn."""
        return self._partitioned(Partitioning.REBALANCE)

    def shuffle(self) -> DataStream:
        """Deals records evenly. Here that is ``rebalance``, which is repeatable where a random choice is not."""
        return self._partitioned(Partitioning.REBALANCE, "SHUFFLE")

    def rescale(self) -> DataStream:
        """Deals records in turn to the few subtasks of the next operator that belong to this one."""
        return self._partitioned(Partitioning.RESCALE)

    def forward(self) -> DataStream:
        """Keeps records with the subtask of the same index; both operators need the same parallelism."""
        return self._partitioned(Partitioning.FORWARD)

    def global_(self) -> DataStream:
        """Sends every record to subtask 0."""
        return self._partitioned(Partitioning.GLOBAL)

    def partition_custom(
        self,
        partitioner: Callable[[Key, int], int] | functions.Partitioner,
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
        return self._behind(made)

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
        return self._behind(made)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Returns the stream of what the operator emitted with this tag."""
        self._operator("get_side_output()")
        made = SideOutputTransformation(
            self._env.next_transformation_id(), output_tag.type_info, input=self._transformation, tag=output_tag
        )
        return self._behind(made)

    # --- sinks -----------------------------------------------------------------------------------

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Ends the stream in a sink. Raises ``InvalidJob`` for what is not a sink of this package."""
        if not isinstance(sink, Sink):
            raise InvalidJob(f"sink_to needs one of tidegate's sinks (tidegate.connectors), not {sink!r}")
        if isinstance(sink, RecordsAsText) and self.get_type() != Types.STRING():
            return self.map(RecordText(self.get_type()), Types.STRING()).sink_to(sink)
        made = self._env.add_operator("sink", "Sink", {"sink": sink}, None, (self._values_transformation(),))
        return DataStreamSink(self._env, made)

    def add_sink(self, sink_func: Sink | TwoPhaseCommitSinkFunction[Record, UserObject, UserObject]) -> DataStreamSink:
        """Ends the stream in a function that commits in two phases, or in a sink, under PyFlink's older method."""
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
        """Executes the program and returns the records of this stream, which must end, as a frame of pandas (PyFlink: ``Table.to_pandas``).

        Raises ``InvalidJob`` for a stream whose records are pickled objects, since those have no columns, and the job's error."""
        kind = self.get_type()
        if isinstance(kind, PickledBytesTypeInfo):
            raise InvalidJob(
                "to_pandas() needs columns, and records of this stream are objects of any type: give the function before it an "
                'output_type, such as Types.ROW_NAMED(["a"], [Types.LONG()])'
            )
        with execute_and_collect(self._env, self._values_transformation(), kind, job_execution_name) as results:
            return to_frame(list(results.batches()), kind)

    def iterate(self, max_wait_time_ms: int = 0) -> DataStream:
        """Refused, as Flink itself has given it up."""
        raise InvalidJob(
            "iterate() is not available in tidegate, and deprecated in Flink: a job has no cycles. Send what is to come back "
            "through a topic or a table outside, and read it as a source"
        )

    # --- settings of this operator that a sink does not have --------------------------------------

    def start_new_chain(self) -> Self:
        """Lets the operator begin a new chain."""
        self._operator("start_new_chain()").chaining = ChainingStrategy.HEAD
        return self

    def force_non_parallel(self) -> Self:
        """Fixes the operator's parallelism at 1, whatever the environment says."""
        operator = self._operator("force_non_parallel()")
        operator.parallelism, operator.is_non_parallel = 1, True
        return self

    # --- inside ----------------------------------------------------------------------------------

    def _values_transformation(self) -> Transformation:
        """What a further operator that does not care for keys reads."""
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
        return self._behind(self._env.add_operator(kind, name, options, output_type, inputs))

    def _partitioned(self, partitioner: Partitioning, shown_as: str = "") -> DataStream:
        made = PartitionTransformation(
            self._env.next_transformation_id(),
            self.get_type(),
            input=self._values_transformation(),
            partitioner=partitioner,
            shown_as=shown_as,
        )
        return self._behind(made)

    def _bound_strategy(self, strategy: WatermarkStrategy) -> WatermarkStrategy:
        """The strategy, checked against this stream; a timestamp column of a record stream becomes an assigner."""
        if not isinstance(strategy, WatermarkStrategy):
            raise InvalidJob(f"not a WatermarkStrategy: {strategy!r}")
        return bind_strategy(strategy, self.get_type())
