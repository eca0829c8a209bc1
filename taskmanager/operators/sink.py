"""A sink: its writer, and the second phase of the commit.

    process ─▶ writer ··· freeze(n) ─▶ flush, prepare_commit(n) ─▶ pending[n], in list state
                          notify_complete(n) ─▶ commit pending[<= n], in order          (restored: at once)

Laws: nothing becomes visible before the checkpoint that holds it is confirmed. Commit n commits everything pending up to
n, skipped checkpoints included; what is committed stays in later snapshots only until then, and committing it twice does
no harm (``Committer`` is idempotent). A failed commit is tried again ``sink.committer.retries`` times, then it fails the
attempt. After ``finish`` the last records wait for the next snapshot and its confirmation; in a job without checkpoints the
runtime confirms ``COMMIT_EVERYTHING`` then (Flink: ``CommitterOperator.java``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from taskmanager.machines.subtask import COMMIT_EVERYTHING
from taskmanager.operators.base import Operator, OperatorContext
from taskmanager.operators.user_code import user_error
from taskmanager.state.base import FrozenState
from taskmanager.state.operator_state import FrozenParts, freeze_elements, restore_elements
from tidegate.common.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.common.record_codec import decode, encode
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.model.errors import ExternalError

WRITER_STATE = "writer"
COMMITTABLES = "committables"
RETRIES_KEY = "sink.committer.retries"
DEFAULT_RETRIES = 10


class SinkOperator(Operator):
    works_on = "any"  # the writer says what it takes, and it is made when the operator is opened

    def __init__(self, name: str, sink: Sink, input_type: TypeInformation) -> None:
        self._name = name
        self._sink = sink
        self._input_type = input_type
        self._writer: SinkWriter | None = None
        self._committer: Committer | None = None
        self._pending: dict[int, list[Any]] = {}
        self._has_unprepared = False
        self._writer_elements: list[Any] = []

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        self._retries = int(context.configuration.get(RETRIES_KEY, DEFAULT_RETRIES))
        self._writer_elements = restore_elements(context.restored, context.segments, WRITER_STATE)
        for checkpoint_id, committable in restore_elements(context.restored, context.segments, COMMITTABLES):
            self._pending.setdefault(checkpoint_id, []).append(committable)

    def open(self) -> None:
        context = self.context
        sink_context = SinkContext(
            subtask_index=context.subtask_index,
            parallelism=context.parallelism,
            job_id=context.attempt.job_id,
            attempt=str(context.attempt),
            operator_id=context.operator_id,
            restored_checkpoint_id=context.restored_checkpoint_id,
            configuration=dict(context.configuration),
        )
        try:
            self._committer = self._sink.make_committer(sink_context)
            restored = [c for _, committables in sorted(self._pending.items()) for c in committables]
            self._commit_up_to(max(self._pending, default=0))
            if self._committer is not None:
                self._committer.abort_unknown(restored, sink_context)
            self._writer = self._sink.make_writer(sink_context, self._writer_elements, self._input_type)
        except Exception as error:
            raise user_error(self._name, error) from error

    def works_on_records(self) -> bool:
        return self._writer is not None and self._writer.works_on == "records"

    def process(self, batch: Batch, input_index: int) -> None:
        writer = self._writer
        assert writer is not None
        if not len(batch):
            return
        if writer.works_on == "arrow" and isinstance(batch, RecordsBatch):
            stamps = None if batch.timestamps is None else pa.array(batch.timestamps, pa.int64())
            batch = ArrowBatch(encode(self._input_type, batch.values, self._name), stamps)
        elif writer.works_on == "records" and isinstance(batch, ArrowBatch):
            stamps = None if batch.timestamps is None else batch.timestamps.to_pylist()
            batch = RecordsBatch(decode(self._input_type, batch.data, self._name), stamps)
        self._has_unprepared = True
        try:
            writer.write(batch)
        except Exception as error:
            raise user_error(self._name, error) from error

    def finish(self) -> None:
        assert self._writer is not None
        try:
            self._writer.flush(end_of_input=True)
        except Exception as error:
            raise user_error(self._name, error) from error

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        writer = self._writer
        assert writer is not None
        try:
            writer.flush(end_of_input=False)
            committables = self._prepare(checkpoint_id)
            state = writer.snapshot_state(checkpoint_id)
        except Exception as error:
            raise user_error(self._name, error) from error
        if committables and self._committer is not None:
            self._pending[checkpoint_id] = committables
        elements = [[n, committable] for n, pending in sorted(self._pending.items()) for committable in pending]
        if not state and not elements:
            return None
        return FrozenParts(
            [freeze_elements(self._name, WRITER_STATE, state), freeze_elements(self._name, COMMITTABLES, elements)]
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        try:
            if checkpoint_id == COMMIT_EVERYTHING:
                self._pending[checkpoint_id] = self._prepare(checkpoint_id)
            self._commit_up_to(checkpoint_id)
        except Exception as error:
            raise user_error(self._name, error) from error

    def has_pending_commits(self) -> bool:
        return bool(self._pending) or (self._has_unprepared and self._committer is not None)

    def close(self) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            if self._committer is not None:
                self._committer.close()

    def _prepare(self, checkpoint_id: int) -> list[Any]:
        assert self._writer is not None
        committables = self._writer.prepare_commit(checkpoint_id)
        self._has_unprepared = False
        return committables

    def _commit_up_to(self, checkpoint_id: int) -> None:
        """In the order of the checkpoints; an id leaves ``_pending`` once all that it holds is committed."""
        for pending_id in sorted(n for n in self._pending if n <= checkpoint_id):
            self._commit(self._pending[pending_id])
            del self._pending[pending_id]

    def _commit(self, committables: Sequence[Any]) -> None:
        if self._committer is None or not committables:
            return
        for failures in range(self._retries + 1):
            try:
                self._committer.commit(committables)
            except ExternalError:
                if failures == self._retries:
                    raise
                self.context.metrics.add("retriedCommittables", len(committables))
            else:
                self.context.metrics.add("successfulCommittables", len(committables))
                return
