"""A whole bounded job that Spark runs as one DataFrame: ``from_spark``, operators of columns, ``to_spark``, in BATCH mode.

    subtask ── WriteFrame ─▶ Spark driver of its TaskManager: query ─▶ steps ─▶ write(df, epoch) ─▶ returned: finished

Laws: no row comes to the subtask, whose part is the life of the job: its state, retries, cancellation. Epoch and application id are those
under which the sink would have written: an attempt that follows another one writes under the same ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState
from tidegate.connectors.spark.sink import application_id_of
from tidegate.connectors.spark.stream_link import SparkLink, WriteFrame
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError, TidegateError, Unreachable, UserFunctionError
from tidegate.model.options import ExecutionOptions

if TYPE_CHECKING:
    from tidegate.connectors.spark.frame_steps import FrameStep
    from tidegate.connectors.spark.sink import SparkSink
    from tidegate.connectors.spark.source import SparkSource

SPLIT = "job"
EPOCH = 2**62
"""The epoch of the last rows of a job without checkpoints (``tidegate.taskmanager.machines.subtask.EOI_CHECKPOINT_ID``)."""
_FIRST_PAUSE_S = 0.01
"""The pause before the first retry, in seconds, as for the commits of a sink; it doubles from there."""
_MAX_PAUSE_S = 0.5
"""The longest pause before a retry, in seconds."""


class SparkFrameJob(Source):
    """The source of a job that Spark runs as one DataFrame. ``schema``: of what is written. ``parallelism``: the number of partitions with which the
    query was analysed."""

    bounded = True
    keeps_parallelism = True

    def __init__(
        self, source: SparkSource, steps: Sequence[FrameStep], sink: SparkSink, schema: pa.Schema, parallelism: int
    ) -> None:
        self.source = source
        self.steps = tuple(steps)
        self.sink = sink
        self.schema = schema
        self.parallelism = parallelism

    def produced_type(self) -> TypeInformation:
        return Types.SCHEMA(self.schema)

    def list_splits(self, parallelism: int) -> list[Split]:
        return [Split(SPLIT, [])]

    def make_reader(self, context: ReaderContext) -> SourceReader:
        return _Reader(context)


class _Reader(SourceReader):
    """Waits for the Spark driver in a background thread."""

    def __init__(self, context: ReaderContext) -> None:
        self._context = context
        self._states: list[SplitState] = []
        self._link: SparkLink | None = None
        self._closed = threading.Event()
        self._ended = threading.Event()
        self._error: TidegateError | None = None

    def open(self, states: Sequence[SplitState]) -> None:
        self._states = list(states)
        threading.Thread(target=self._run, name="spark job", daemon=True).start()

    def poll(self) -> Polled | None:
        """Returns no rows. Raises what the write raised."""
        if self._error is not None:
            raise self._error
        return None

    def advance(self, records: int) -> None:
        raise AssertionError(
            "advance() was called on a job that runs as one Spark query, whose source emits no records"
        )

    def is_finished(self) -> bool:
        return self._ended.is_set() and self._error is None

    def snapshot_state(self) -> list[SplitState]:
        return self._states

    def close(self) -> None:
        self._closed.set()
        if self._link is not None:
            self._link.close()

    def _run(self) -> None:
        retries = Configuration.from_strings(self._context.configuration).get(ExecutionOptions.SINK_COMMITTER_RETRIES)
        failures, pause_s = 0, _FIRST_PAUSE_S
        while not self._closed.is_set():
            try:
                self._write()
                break
            except TidegateError as error:
                failures += 1
                if failures > retries:
                    self._error = self._reported(error, failures)
                    break
            self._closed.wait(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        self._ended.set()

    def _write(self) -> None:
        """Has the driver write the rows. Raises ``TidegateError``."""
        context = self._context
        try:
            self._link = SparkLink.opened(context.spark_service, context.operator_id)
            try:
                self._link.ask(WriteFrame(application_id_of(context), EPOCH))
            finally:
                self._link.close()
        except (OSError, EOFError) as error:
            raise Unreachable(f"the connection to the Spark driver broke: {error}") from error

    def _reported(self, error: TidegateError, failures: int) -> TidegateError:
        kind: Callable[..., TidegateError] = UserFunctionError if error.domain == "user" else ExternalError
        return kind(
            f"operator '{self._context.operator_name}': the write of epoch {EPOCH} failed in {failures} attempts: {error.message}",
            details=error.details,
        )
