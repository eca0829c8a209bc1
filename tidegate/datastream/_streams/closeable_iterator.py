"""`CloseableIterator`: the results of a stream in the program that submitted the job (PyFlink: of the same name).

with stream.execute_and_collect() as results:      the job runs while results are read, and ends with the block
    for record in results: ...
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Iterator
from types import TracebackType

import pyarrow as pa

from tidegate.common.job_client import JobControl
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.collect import CollectedResults, CollectSink
from tidegate.connectors.collect.client import ResultGuarantee
from tidegate.connectors.collect.messages import TOKEN_BYTES
from tidegate.datastream._graph.executor import current_executor
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream._graph.program_builder import ProgramBuilder
from tidegate.datastream._graph.transformation import ChainingStrategy, OperatorTransformation, Transformation
from tidegate.datastream._streams.first_rows import FirstRows, first_rows
from tidegate.datastream.checkpointing_mode import CheckpointingMode
from tidegate.model.errors import TidegateError
from tidegate.model.ids import VertexId
from tidegate.model.values import Record

__all__ = ["CloseableIterator"]

COLLECT_SINK_NAME = "Collect Stream Sink"


class CloseableIterator:
    """Iterates over the results of a job. Closing it cancels the job if it still runs; it closes itself at the end, and as a context manager."""

    def __init__(self, control: JobControl, results: CollectedResults) -> None:
        self._control = control
        self._results = results
        self._iterator = iter(results)
        self._closed = False

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        return self.next()

    def next(self) -> Record:
        """Waits for the next record and returns it. Raises ``StopIteration`` at the end, and the job's error when it fails."""
        if self._closed:
            raise StopIteration
        try:
            return next(self._iterator)
        except BaseException:  # the end among them
            self.close()
            raise

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the results as record batches, in the columns of the stream's type."""
        return self._results.batches()

    def first(self, rows: int, seconds: float) -> FirstRows:
        """Returns at most ``rows`` rows that arrive within ``seconds`` after the job started to run, and cancels the job. This method is tidegate's
        own. Raises the job's error, and ``InvalidJob`` for numbers that are not above 0."""
        self._closed = True
        return first_rows(self._control, self._results, rows, seconds)

    def close(self) -> None:
        """Cancels the job unless it has ended. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._results.close()
        with contextlib.suppress(TidegateError):  # it was canceled, or failed: its iterator has raised what matters
            if not self._control.state().is_terminal:
                self._control.cancel()
            self._control.wait()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def execute_and_collect(
    env: ProgramBuilder, stream: Transformation, type_info: TypeInformation, job_name: str | None
) -> CloseableIterator:
    """Submits the program with a collecting sink for ``stream`` and returns an iterator over the results."""
    executor = current_executor()
    token = secrets.token_bytes(TOKEN_BYTES)
    made = env.add_operator("sink", COLLECT_SINK_NAME, {"sink": CollectSink(token)}, None, (stream,))
    made.parallelism, made.is_non_parallel, made.chaining = 1, True, ChainingStrategy.NEVER
    guarantee = _guarantee(env)
    job = env.build(job_name)
    control = executor.execute_async(job.graph, job.blobs)
    return CloseableIterator(control, results_of(control, job, made, type_info, guarantee))


def results_of(
    control: JobControl,
    job: BuiltJob,
    made: OperatorTransformation,
    type_info: TypeInformation,
    guarantee: ResultGuarantee,
) -> CollectedResults:
    """Returns the results of the collecting sink ``made`` of a running job."""
    sink: CollectSink = made.options["sink"]
    vertex_id = next(
        key for key, program in job.programs.items() if getattr(program.operators[0].options, "sink", None) is sink
    )
    return CollectedResults(_Sink(control, vertex_id), sink.token, type_info, guarantee)


class _Sink:
    def __init__(self, control: JobControl, vertex_id: VertexId) -> None:
        self._control = control
        self._vertex_id = vertex_id

    def sink_address(self) -> str | None:
        return self._control.result_address(self._vertex_id)

    def secure(self, connection: socket.socket) -> socket.socket:
        return self._control.secure(connection)


def _guarantee(env: ProgramBuilder) -> ResultGuarantee:
    checkpoints = env.get_checkpoint_config()
    if not checkpoints.is_checkpointing_enabled():
        return ResultGuarantee.NOT_RESTARTABLE
    if checkpoints.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE:
        return ResultGuarantee.AT_LEAST_ONCE
    return ResultGuarantee.EXACTLY_ONCE
