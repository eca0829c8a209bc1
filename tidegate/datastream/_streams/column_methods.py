"""What a stream does with whole columns: ``select``, ``map_batches`` and its likes for data frames, ``sql``, ``to_spark``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from tidegate.connectors.spark.sink import SparkEpoch, SparkSink
from tidegate.datastream._streams.operator_handle import DataStreamSink, OperatorHandle
from tidegate.functions.adapted.frame_functions import Frame, PandasFunction, PolarsFunction, polars_module
from tidegate.functions.expressions import Expression, Operand, col, lit
from tidegate.model.errors import InvalidJob
from tidegate.model.values import UserObject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.datastream.data_stream import DataStream
    from tidegate.model.program import OperatorKind


class ColumnMethods(OperatorHandle):
    """Base of ``RecordMethods``, and with them of ``DataStream``."""

    if TYPE_CHECKING:

        def _transform(
            self, kind: OperatorKind, name: str, options: dict[str, UserObject], output_type: TypeInformation
        ) -> DataStream: ...

        def _itself(self) -> DataStream: ...

    def get_type(self) -> TypeInformation:
        """Returns the type of the stream's records (PyFlink: ``DataStream.get_type``)."""
        assert self._transformation.output_type is not None
        return self._transformation.output_type

    def select(self, *columns: str | Expression, **named: Operand) -> DataStream:
        """Columns by name or expression: ``select("a", (col("b") + 1).alias("c"), d=col("e"))``."""
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
        """``func`` turns each Arrow record batch into one with the columns of ``schema``. How the stream is cut into
        batches may differ from run to run."""
        if not callable(func):
            raise InvalidJob(f"map_batches needs a function of a record batch, not {func!r}")
        self._columns("map_batches")
        output_type = schema if isinstance(schema, TypeInformation) else ArrowTypeInfo(schema)
        return self._transform("map_batches", "MapBatches", {"func": func}, output_type)

    def map_pandas(self, func: Callable[[Frame], Frame], schema: pa.Schema) -> DataStream:
        """As ``map_batches``, with pandas frames."""
        return self.map_batches(PandasFunction(func, schema), schema).name("MapPandas")

    def map_polars(self, func: Callable[[Frame], Frame], schema: pa.Schema) -> DataStream:
        """As ``map_batches``, with polars frames. Raises ``InvalidJob`` where polars is not installed."""
        polars_module()
        return self.map_batches(PolarsFunction(func, schema), schema).name("MapPolars")

    def sql(self, query: str) -> DataStream:
        """``SELECT ... FROM input [WHERE ...]`` on the columns of this stream, or, with ``GROUP BY ..., TUMBLE(time column,
        INTERVAL '5' SECOND)``, aggregates of event-time windows. Needs DuckDB (extra ``sql``). Raises ``InvalidJob``."""
        from tidegate.datastream.sql.planning import sql_stream

        return sql_stream(self._itself(), query)

    def _columns(self, method: str) -> pa.Schema:
        """The columns that a columnar method works on."""
        if self.get_type() == Types.PICKLED_BYTE_ARRAY():
            raise InvalidJob(
                f"{method} works on columns, but the records of this stream are objects of unknown type: "
                "give the operator before it an output_type, such as Types.ROW_NAMED([...], [...])"
            )
        return self.get_type().arrow_schema()

    def to_spark(self, write: Callable[[DataFrame, SparkEpoch], None]) -> DataStreamSink:
        """Ends the stream in a function of yours that is given the rows of confirmed checkpoints as DataFrames, in the
        Spark of the TaskManager, like Structured Streaming's ``foreachBatch``. This method is tidegate's own::

            stream.to_spark(lambda rows, epoch: rows.write.mode("append").parquet("out"))

        Epochs come in order, each at least once, always with the same ``epoch.application_id`` and ``epoch.number``: a write
        that notes them is exactly once (``tidegate.connectors.spark.writes`` has some that do). An epoch has the rows of one
        checkpoint, or of several where the function is slower than they come. What is not written yet is in the checkpoints. A write that raises is tried again (``sink.committer.retries``). The sink has parallelism 1.
        Spark's times have microseconds: what a column has below them is dropped, and the log says so.
        Raises ``InvalidJob`` for a stream whose type is not declared."""
        if not callable(write):
            raise InvalidJob(f"to_spark needs a function of a DataFrame and an epoch, not {write!r}")
        if self.get_type() == Types.PICKLED_BYTE_ARRAY():
            raise InvalidJob(
                "to_spark needs a stream whose type is declared: give the operator before it its output type"
            )
        handle = self._itself().sink_to(SparkSink(write)).name("Spark sink")
        operator = handle._operator("to_spark()")
        operator.parallelism, operator.is_non_parallel = 1, True
        return handle
