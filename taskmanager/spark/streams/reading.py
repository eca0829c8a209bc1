"""Serves a ``from_spark_stream`` in the Spark driver: answers the subtask's requests in order, in one thread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.connectors.spark.query import numbered
from tidegate.connectors.spark.stream_link import (
    BatchPlanned,
    ForgetBefore,
    Message,
    OpenOperator,
    PlanBatch,
    RequestDone,
    RunBatch,
)
from tidegate.connectors.spark.stream_source import SparkStreamSource
from tidegate.model.errors import InternalError
from tidegate.taskmanager.spark.streams.plan import StreamPlan, partitions_of
from tidegate.taskmanager.spark.streams.push import Push
from tidegate.taskmanager.spark.streams.written import WrittenFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class StreamRequests:
    """Answers the requests of one ``from_spark_stream``. ``directory``: for progress files of the sources; must not exist yet."""

    def __init__(self, spark: SparkSession, source: SparkStreamSource, directory: Path) -> None:
        self._spark = spark
        self._source = source
        self._directory = directory
        self._plan: StreamPlan | None = None
        self._written: WrittenFiles | None = None
        self._frame: DataFrame | None = None

    def answer(self, message: Message, rest: bytearray) -> Message:
        """Answers a request. Raises the errors of Spark and of the user's query."""
        match message:
            case OpenOperator():
                self._written = WrittenFiles(self._directory, message.written)
                self._plan = StreamPlan(self._spark, self._source, self._directory)
                if message.ends is not None:
                    self._plan.resume(message.ends)
                return RequestDone()
            case PlanBatch():
                return self._next(message)
            case RunBatch():
                return self._run(message)
            case ForgetBefore():
                assert self._plan is not None
                self._plan.commit(message.ends)
                return RequestDone()
            case _:
                raise InternalError(
                    f"the Spark driver got a {type(message).__name__} for a from_spark_stream source, which it does not know"
                )

    def close(self) -> None:
        if self._plan is not None:
            self._plan.close()

    def _next(self, wanted: PlanBatch) -> BatchPlanned:
        assert self._plan is not None
        assert self._written is not None
        starts = self._plan.first() if wanted.starts is None else wanted.starts
        ends = self._plan.latest(starts) if wanted.ends is None else wanted.ends
        partitions = 0
        if ends != starts:
            self._frame = self._plan.frame(starts, ends)
            partitions = partitions_of(self._frame)
        return BatchPlanned(starts, ends, self._written.new(), partitions, self._plan.lags(ends))

    def _run(self, run: RunBatch) -> RequestDone:
        frame, self._frame = self._frame, None
        assert frame is not None, "a batch is planned before it is run"
        push = Push(run.address, run.secret, run.batch, self._source.schema.serialize().to_pybytes())
        pushed = numbered(frame).mapInArrow(push.over_arrow, "nothing boolean")
        pushed._jdf.queryExecution().toRdd().count()
        return RequestDone()
