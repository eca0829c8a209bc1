"""The sink operator: its writer, and the commits of the second phase.

    process ─▶ writer ··· freeze(n) ─▶ flush, seal(n) ─▶ pending[n] │ snapshot thread: the slow rest of the vote, list state
                          notify_complete(n) ─▶ commit pending[<= n], in order, in another thread (restored: at once)

Laws: no output becomes visible before the checkpoint that contains it is confirmed. The confirmation of n commits all pending committables up to n, those of
skipped checkpoints included; committables stay in snapshots until they are committed, and committing twice does no harm (``Committer`` is idempotent). A failed
vote, and a commit that fails after all retries, fail the attempt. After ``finish`` the last records wait for the next snapshot and its confirmation; in a job
without checkpoints the runtime then confirms ``EOI_CHECKPOINT_ID``. Commits are reported to the next operator, if there is one
(``tidegate.connectors.commit_reports``) (Flink: ``CommitterOperator.java``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import msgspec
import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.connectors.commit_reports import commit_report, places_report
from tidegate.model.checkpoint import OperatorSnapshot
from tidegate.model.values import Committable, Record
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.records.record_codec import decode, encode
from tidegate.records.row_kinds import has_kinds, without_kinds
from tidegate.taskmanager.machines.subtask import EOI_CHECKPOINT_ID
from tidegate.taskmanager.operators.operator import Ending, Operator, OperatorContext
from tidegate.taskmanager.operators.sinks.committing import Commits
from tidegate.taskmanager.operators.user_code.boundary import batch_error, user_error
from tidegate.taskmanager.operators.user_code.user_function import UserFunction, joined
from tidegate.taskmanager.state.operator_state import FrozenElements, FrozenParts, freeze_elements, restore_elements
from tidegate.taskmanager.state.ports import FrozenState, SegmentStore

WRITER_STATE = "writer"
COMMITTABLES = "committables"
EPOCHS = "_epochs"
"""Name of the state that holds both of them, for a sink that keeps them together: ``[[writer's elements], [[checkpoint id, committable]]]`` of each subtask."""
SINK_STATES = frozenset({WRITER_STATE, COMMITTABLES, EPOCHS})


class SinkOperator(Operator):
    """Writes records with the writer of a sink, and prepares what is committed after a checkpoint."""

    works_on = "any"  # the writer says what it takes, and it is made when the operator is opened

    def __init__(
        self,
        name: str,
        sink: Sink,
        input_type: TypeInformation,
        *,
        commits_apart: bool = False,
        reports: bool = False,
    ) -> None:
        """Creates the operator; the writer is made when it opens. ``commits_apart``: a ``CommitterOperator`` commits what it prepares at its end. ``reports``:
        it emits reports of its commits.
        """
        self._name = name
        self._reports = reports
        self._confirmed = self._reported = 0
        self._commits_apart = commits_apart
        self._sink = sink
        self._input_type = input_type
        self._drops_kinds = not has_kinds(input_type.arrow_schema())
        self._user = None if sink.function is None else UserFunction(sink.function, name, own_states=SINK_STATES)
        self._writer: SinkWriter | None = None
        self._commits: Commits | None = None
        self._committer: Committer | None = None
        self._pending: dict[int, Vote] = {}
        self._voted_ms: dict[int, float] = {}
        """Time of each vote by checkpoint id (monotonic), for gauges. Only entries that are still pending count."""
        self._has_unprepared = False
        self._writer_elements: list[Record] = []

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        self._writer_elements = restore_elements(context.restore, WRITER_STATE)
        votes = restore_elements(context.restore, COMMITTABLES)
        for elements, voted in restore_elements(context.restore, EPOCHS):
            self._writer_elements += elements
            votes += voted
        restored: dict[int, list[Committable]] = {}
        for checkpoint_id, committable in votes:
            restored.setdefault(checkpoint_id, []).append(committable)
        self._pending = {checkpoint_id: Vote(found) for checkpoint_id, found in restored.items()}

    def open(self) -> None:
        context, sink_context = self.context, sink_context_of(self.context)
        try:
            if self._user is not None:
                self._user.open(context)
            self._committer = self._sink.make_committer(sink_context)
            self._commits = Commits(self._name, self._committer, context)
            restored = [c for _, vote in sorted(self._pending.items()) for c in vote.committables()]
            for checkpoint_id in sorted(self._pending):
                self._commits.commit_now(checkpoint_id, self._pending.pop(checkpoint_id).committables())
            if self._committer is not None:
                self._committer.abort_unknown(restored, sink_context)
                context.metrics.watch("pendingCommittables", self._pending_committables)
                context.metrics.watch("oldestPendingCommitAge", self._oldest_pending_ms)
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
        if isinstance(batch, ArrowBatch) and self._drops_kinds and not writer.takes_row_kinds:
            batch = ArrowBatch(without_kinds(batch.data), batch.timestamps)
        self._has_unprepared = True
        try:
            writer.write(batch)
        except Exception as error:
            raise batch_error(self._name, error, batch) from error

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        assert self._writer is not None
        places = self._writer.take_places() if self._reports else ()
        if places:
            self.context.output.emit(places_report(self.context.subtask_index, self.context.parallelism, places))

    def on_watermark(self, timestamp_ms: int) -> None:
        assert self._writer is not None
        self._writer.write_watermark(timestamp_ms)
        super().on_watermark(timestamp_ms)

    def finish(self) -> None:
        assert self._writer is not None
        try:
            self._writer.flush(end_of_input=True)
            votes = self._seal(EOI_CHECKPOINT_ID).committables() if self._commits_apart else ()
        except Exception as error:
            raise user_error(self._name, error) from error
        self.prepare_snapshot(EOI_CHECKPOINT_ID)
        if votes:
            self.context.output.emit(RecordsBatch([msgspec.msgpack.encode(vote) for vote in votes], None))

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        assert self._writer is not None
        try:
            self._writer.flush(end_of_input=False)
            vote = self._seal(checkpoint_id)
            state = self._writer.snapshot_state(checkpoint_id)
        except Exception as error:
            raise user_error(self._name, error) from error
        if vote.is_open or (vote.committables() and self._committer is not None):
            self._pending[checkpoint_id] = vote
            self._voted_ms[checkpoint_id] = self.context.clock.monotonic_ms()
        users = None if self._user is None else self._user.freeze(checkpoint_id)
        return joined(users, self._frozen(state))

    def _frozen(self, state: Sequence[Record]) -> FrozenState | None:
        """Returns the sink's own state as frozen state. ``state``: of the writer."""
        if self._sink.keeps_together:
            voted = [
                [n, committable] for n, vote in sorted(self._pending.items()) for committable in vote.committables()
            ]
            return freeze_elements(self._name, EPOCHS, [[list(state), voted]])
        writer_state = freeze_elements(self._name, WRITER_STATE, state)
        votes = dict(sorted(self._pending.items()))
        if any(vote.is_open for vote in votes.values()):
            return _FrozenVotes(self, writer_state, votes)
        if not state and not votes:
            return None
        return FrozenParts([writer_state, self.elements_of(votes)])

    def elements_of(self, votes: dict[int, Vote]) -> FrozenElements:
        """Returns what is to be committed as list state. May run in any thread."""
        elements = []
        for checkpoint_id, vote in votes.items():
            found = vote.committables()
            if self._committer is not None:
                elements += [[checkpoint_id, committable] for committable in found]
        return freeze_elements(self._name, COMMITTABLES, elements)

    def settle(self, votes: dict[int, Vote]) -> None:
        """Handles votes whose state was written: raises what a vote raised, and forgets those with nothing to commit."""
        for checkpoint_id, vote in votes.items():
            if vote.error is not None:
                raise user_error(self._name, vote.error) from vote.error
            if not vote.is_open and (self._committer is None or not vote.committables()):
                self._pending.pop(checkpoint_id, None)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        assert self._commits is not None
        assert self._writer is not None
        try:
            if checkpoint_id == EOI_CHECKPOINT_ID and not self._commits_apart:
                self._pending[checkpoint_id] = self._seal(checkpoint_id)
            elif checkpoint_id != EOI_CHECKPOINT_ID:
                self._writer.notify_checkpoint_complete(checkpoint_id)
            for pending_id in sorted(n for n in self._pending if n <= checkpoint_id):
                if not self._commits.is_committing(pending_id):
                    found = self._pending[pending_id].committables()
                    self._commits.commit(pending_id, found, self._forget)
            if self._user is not None:
                self._user.notify_checkpoint_complete(checkpoint_id)
        except Exception as error:
            raise user_error(self._name, error) from error
        self._confirmed = max(self._confirmed, checkpoint_id)
        self._report()

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        assert self._writer is not None
        try:
            self._writer.notify_checkpoint_aborted(checkpoint_id)
            if self._user is not None:
                self._user.notify_checkpoint_aborted(checkpoint_id)
        except Exception as error:
            raise user_error(self._name, error) from error

    def has_room(self) -> bool:
        return self._writer is None or self._writer.has_room()

    def waits_for_barrier(self) -> bool:
        return self._writer is not None and self._writer.waits_for_barrier()

    def takes_reports(self) -> bool:
        return self._writer is not None and self._writer.takes_reports

    def ending(self) -> Ending:
        if self._commits is not None and self._commits.is_busy:
            return Ending.COMMITTING
        is_unprepared = self._has_unprepared or (self._writer is not None and self._writer.holds_rows())
        if self._pending or (is_unprepared and self._committer is not None):
            return Ending.UNCOMMITTED
        is_delivered = self._writer is None or self._writer.is_drained()
        return Ending.DONE if is_delivered else Ending.UNDELIVERED

    def close(self) -> None:
        with ExitStack() as closing:  # last in, first out
            if self._user is not None:
                closing.callback(self._user.close)
            if self._committer is not None:
                closing.callback(self._committer.close)
            if self._writer is not None:
                closing.callback(self._writer.close)

    def _forget(self, checkpoint_id: int) -> None:
        self._pending.pop(checkpoint_id, None)
        self._voted_ms = {n: at_ms for n, at_ms in self._voted_ms.items() if n in self._pending}
        self._report()

    def _report(self) -> None:
        """Emits a report of the checkpoint up to which all is committed, when it has changed since the last report."""
        uncommitted = [n - 1 for n in self._pending if n <= self._confirmed]
        reached = min(uncommitted, default=self._confirmed)
        if self._reports and reached > self._reported:
            self._reported = reached
            self.context.output.emit(commit_report(self.context.subtask_index, self.context.parallelism, reached))

    def _pending_committables(self) -> float:
        return sum(vote.size for vote in self._pending.values())

    def _oldest_pending_ms(self) -> float:
        """Returns how long the oldest uncommitted vote has waited since its barrier, in milliseconds; 0 if there is none."""
        waiting = [at_ms for n, at_ms in self._voted_ms.items() if n in self._pending]
        return self.context.clock.monotonic_ms() - min(waiting) if waiting else 0

    def _seal(self, checkpoint_id: int) -> Vote:
        assert self._writer is not None
        vote = Vote(self._writer.seal(checkpoint_id))
        self._has_unprepared = False
        return vote


def sink_context_of(context: OperatorContext) -> SinkContext:
    """Returns the context that a sink's writer and committer get."""
    return SinkContext(
        subtask_index=context.subtask_index,
        parallelism=context.parallelism,
        job_id=context.attempt.job_id,
        attempt=str(context.attempt),
        operator_id=context.operator_id,
        restored_checkpoint_id=context.restore.checkpoint_id if context.restore else None,
        restored_location=context.restore.location if context.restore else "",
        configuration=dict(context.configuration),
        listener=context.resources.listener,
        wakeup=context.background.wakeup,
        spark_service=context.resources.spark_service,
        now_ms=context.clock.now_ms,
    )


class Vote:
    """The committables of one checkpoint. It is open until the slow part of it has run, which it does once."""

    def __init__(self, sealed: Sequence[Committable] | Callable[[], Sequence[Committable]]) -> None:
        """Takes the result of ``SinkWriter.seal``: the committables, or a function that does the slow part and returns them."""
        self._rest = sealed if callable(sealed) else None
        self._found: Sequence[Committable] = () if callable(sealed) else sealed
        self.error: Exception | None = None

    @property
    def is_open(self) -> bool:
        return self._rest is not None

    @property
    def size(self) -> int:
        """The number of committables, as far as it is known."""
        return len(self._found)

    def committables(self) -> Sequence[Committable]:
        """Returns the committables, running the slow part first if it is open. Raises what that raised, each time."""
        if self._rest is not None:
            rest = self._rest
            try:
                self._found = rest()
            except Exception as error:  # noqa: BLE001  a connector's: the subtask's thread judges it
                self.error = error
            self._rest = None
        if self.error is not None:
            raise self.error
        return self._found


class _FrozenVotes(FrozenState):
    """The frozen state of a sink whose votes are still open."""

    def __init__(self, sink: SinkOperator, writer_state: FrozenElements, votes: dict[int, Vote]) -> None:
        self._sink = sink
        self._writer_state = writer_state
        self._votes = votes

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        return FrozenParts([self._writer_state, self._sink.elements_of(self._votes)]).write(store)

    def release(self) -> None:
        self._sink.settle(self._votes)


__all__ = ["SinkOperator", "sink_context_of"]
