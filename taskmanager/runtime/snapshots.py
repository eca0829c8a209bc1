"""Carries out what ``machines.snapshot`` decides: barriers, freezing, the asynchronous write, acknowledgements, commits.

    request ─▶ prepare ─▶ barrier to all outputs ─▶ freeze │ background thread: write segments │ mail: release, acknowledge
    └──────────── synchronous part, subtask's thread ──────┘

Laws: a frozen state is released in the subtask's thread exactly once, whatever happened; nothing leaves after ``stop``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never

from taskmanager.exchange.base import ResultPartition
from taskmanager.machines import snapshot as m
from taskmanager.operators.base import Clock
from taskmanager.runtime.background import BackgroundThread
from taskmanager.runtime.chain import OperatorChain
from taskmanager.runtime.ports import ControlPort
from taskmanager.state.base import FrozenState, SegmentStore
from taskmanager.state.local_copies import LocalCopies
from tidegate.model.channel_events import Barrier, CancelBarrier
from tidegate.model.checkpoint import (
    Acknowledgement,
    CheckpointMetrics,
    CheckpointOptions,
    OperatorSnapshot,
    SubtaskSnapshot,
)
from tidegate.model.errors import ErrorInfo, TidegateError
from tidegate.model.ids import AttemptId, CheckpointId, OperatorId

CLOSE_TIMEOUT_MS = 2_000.0
"""How long ``close`` waits for a write that is under way before it leaves it to the end of the process."""

OpenStore = Callable[[CheckpointOptions, AttemptId, int], SegmentStore]
"""``(options, attempt, checkpoint id)``; called in the background thread."""


@dataclass(frozen=True, slots=True)
class AlignmentFigures:
    start_delay_ms: float = 0.0
    alignment_ms: float = 0.0
    bytes_processed: int = 0


@dataclass(slots=True)
class _Write:
    """One asynchronous part. ``canceled`` is read by the background thread before it begins."""

    checkpoint_id: int
    options: CheckpointOptions
    frozen: list[tuple[OperatorId, FrozenState]]
    metrics: CheckpointMetrics
    began_ms: float
    canceled: bool = False
    snapshot: SubtaskSnapshot | None = None
    written_bytes: int = 0


class SnapshotDriver:
    """Used from the subtask's thread only."""

    def __init__(
        self,
        *,
        attempt: AttemptId,
        coordinator: m.SnapshotCoordinator,
        chain: OperatorChain,
        partitions: Sequence[ResultPartition],
        writer: BackgroundThread,
        open_store: OpenStore,
        port: ControlPort,
        clock: Clock,
        probe: Callable[[str, dict[str, Any]], None],
        on_started: Callable[[int], None],
        copies: LocalCopies | None = None,
    ) -> None:
        """``copies``: for local recovery."""
        self._attempt = attempt
        self._coordinator = coordinator
        self._chain = chain
        self._partitions = partitions
        self._writer = writer
        self._open_store = open_store
        self._port = port
        self._clock = clock
        self._probe = probe
        self._on_started = on_started
        self._copies = copies
        self._figures = AlignmentFigures()
        self._sync_began_ms = 0.0
        self._writes: dict[int, _Write] = {}

    @property
    def is_writing(self) -> bool:
        return bool(self._coordinator.writing)

    def request(self, barrier: Barrier, figures: AlignmentFigures) -> None:
        self._figures = figures
        self._probe("before-barrier", {"checkpoint_id": barrier.checkpoint_id})
        self.on(m.SnapshotRequested(barrier))

    def on(self, event: m.SnapshotEvent) -> None:
        for command in self._coordinator.on(event, self._clock.now_ms()):
            self._carry_out(command)

    def decline(self, command: m.Decline) -> None:
        self._port.decline(command.checkpoint_id, command.reason, command.error)

    def stop(self) -> None:
        """Nothing is acknowledged or committed from now on."""
        self.on(m.SubtaskStopped())

    def close(self) -> None:
        """Give frozen states back, after the background thread is done with them."""
        self.stop()
        if self._writer.close(CLOSE_TIMEOUT_MS):
            for write in list(self._writes.values()):
                self._release(write)

    def _carry_out(self, command: m.SnapshotCommand) -> None:
        match command:
            case m.PrepareSnapshot(checkpoint_id):
                self._sync_began_ms = self._clock.monotonic_ms()
                self._on_started(checkpoint_id)
                self._chain.prepare_snapshot(checkpoint_id)
            case m.BroadcastBarrier(barrier):
                for partition in self._partitions:
                    partition.broadcast(barrier)
                self._probe("barrier-sent", {"checkpoint_id": barrier.checkpoint_id})
            case m.FreezeState(barrier):
                self._freeze(barrier)
            case m.BroadcastCancelBarrier(checkpoint_id):
                for partition in self._partitions:
                    partition.broadcast(CancelBarrier(checkpoint_id))
            case m.Acknowledge(checkpoint_id, snapshot, metrics):
                told = {"checkpoint_id": checkpoint_id}
                self._probe("before-ack", told)
                self._port.acknowledge(Acknowledgement(self._attempt, CheckpointId(checkpoint_id), snapshot, metrics))
                self._probe("after-ack", told)
            case m.Decline():
                self.decline(command)
            case m.CancelWrite(checkpoint_id):
                if checkpoint_id in self._writes:
                    self._writes[checkpoint_id].canceled = True
            case m.NotifyComplete(checkpoint_id):
                self.commit(checkpoint_id)
                if self._copies is not None:
                    self._tidy(partial(self._copies.on_confirmed, checkpoint_id))
            case m.NotifyAborted(checkpoint_id):
                self._chain.notify_aborted(checkpoint_id)
                if self._copies is not None:
                    self._tidy(partial(self._copies.on_aborted, checkpoint_id))
            case _:
                assert_never(command)

    def commit(self, checkpoint_id: int) -> None:
        """Operators make everything up to ``checkpoint_id`` visible. What they raise fails the attempt."""
        told = {"checkpoint_id": checkpoint_id}
        self._probe("before-commit", told)
        self._chain.notify_complete(
            checkpoint_id, lambda name: self._probe("during-commit", {**told, "operator": name})
        )
        self._probe("after-commit", told)

    def _freeze(self, barrier: Barrier) -> None:
        checkpoint_id, figures = barrier.checkpoint_id, self._figures
        frozen = self._chain.freeze(checkpoint_id, barrier.timestamp_ms, barrier.options)
        now_ms = self._clock.monotonic_ms()
        metrics = CheckpointMetrics(
            start_delay_ms=figures.start_delay_ms,
            alignment_ms=figures.alignment_ms,
            sync_ms=now_ms - self._sync_began_ms,
            bytes_processed_during_alignment=figures.bytes_processed,
            barrier_timestamp_ms=self._clock.now_ms(),
        )
        write = _Write(checkpoint_id, barrier.options, frozen, metrics, now_ms)
        self._writes[checkpoint_id] = write
        self._probe("frozen", {"checkpoint_id": checkpoint_id})
        if frozen:
            self._writer.submit(lambda: self._write(write), lambda error: self._on_written(write, error))
        else:
            write.snapshot = SubtaskSnapshot()
            self._on_written(write, None)

    def _write(self, write: _Write) -> None:
        """Background thread. What takes long is waiting for disks, so the operators are written at the same time."""
        if write.canceled:
            return
        store = self._open_store(write.options, self._attempt, write.checkpoint_id)
        copies = None if write.options.snapshot_type.is_savepoint else self._copies
        if copies is not None:
            store = copies.store(store, write.checkpoint_id)
        snapshots = write_all([frozen for _, frozen in write.frozen], store)
        written = zip((operator_id for operator_id, _ in write.frozen), snapshots, strict=True)
        write.snapshot = SubtaskSnapshot({i: found for i, found in written if found.keyed or found.operator})
        write.written_bytes = store.written_bytes
        if copies is not None:
            copies.complete(write.checkpoint_id, write.snapshot)

    def _on_written(self, write: _Write, error: BaseException | None) -> None:
        self._release(write)
        if error is not None:
            self.on(m.SnapshotFailed(write.checkpoint_id, _storage_info(error)))
        elif write.snapshot is not None:
            self.on(m.SnapshotWritten(write.checkpoint_id, write.snapshot, self._final_metrics(write)))

    def _final_metrics(self, write: _Write) -> CheckpointMetrics:
        begun = write.metrics
        return CheckpointMetrics(
            start_delay_ms=begun.start_delay_ms,
            alignment_ms=begun.alignment_ms,
            sync_ms=begun.sync_ms,
            async_ms=self._clock.monotonic_ms() - write.began_ms,
            bytes_processed_during_alignment=begun.bytes_processed_during_alignment,
            bytes_persisted=write.written_bytes,
            barrier_timestamp_ms=begun.barrier_timestamp_ms,
        )

    def _tidy(self, work: Callable[[], None]) -> None:
        """Behind the writes that are under way."""
        self._writer.submit(work, lambda error: None)

    def _release(self, write: _Write) -> None:
        if self._writes.pop(write.checkpoint_id, None) is not None:
            for _, frozen in write.frozen:
                frozen.release()


def write_all(states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
    """Each state in a thread of its own, the first in the caller's. Returns, or raises the first error, when all are done."""
    found: list[OperatorSnapshot | BaseException | None] = [None] * len(states)

    def write(index: int) -> None:
        try:
            found[index] = states[index].write(store)
        except BaseException as error:  # noqa: BLE001  driver: raised again below
            found[index] = error

    threads = [
        threading.Thread(target=write, args=(index,), name=f"snapshot-writer-{index}", daemon=True)
        for index in range(1, len(states))
    ]
    for thread in threads:
        thread.start()
    write(0)
    for thread in threads:
        thread.join()
    snapshots: list[OperatorSnapshot] = []
    for one in found:
        if isinstance(one, BaseException):
            raise one
        assert one is not None
        snapshots.append(one)
    return snapshots


def _storage_info(error: BaseException) -> ErrorInfo:
    if isinstance(error, TidegateError):
        return ErrorInfo.of(error)
    return ErrorInfo("storage", "external", f"writing the snapshot failed: {type(error).__name__}: {error}")
