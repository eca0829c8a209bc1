"""The producer's end of an exchange: distributes rows, gathers small pieces, and queues them as frames.

    emit ─▶ dealer ─▶ gatherer of lane i ─▶ frames ─▶ subpartition i ─▶ (I/O thread) ─▶ consumer i

BROADCAST has one lane for all subpartitions: a batch is framed once and the bytes are shared. An event flushes all lanes first, so that it follows all data
that was emitted before it; so does an unaligned barrier, which then overtakes the frames.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.model.channel_events import Barrier, BarrierAnnouncement, ChannelEvent, EndOfPartition
from tidegate.model.deployment import OutputDeployment
from tidegate.model.errors import UserError
from tidegate.model.graph import Partitioner
from tidegate.model.program import OutputSpec
from tidegate.model.values import Key
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.partitioners import Dealer, make_dealer
from tidegate.taskmanager.exchange.ports import Overtaken
from tidegate.taskmanager.exchange.subpartition import Subpartition
from tidegate.wire.frames import BatchEncoder, OutgoingFrame, event_frame


class PipelinedResultPartition:
    """Implements ``ResultPartition`` of ``tidegate.taskmanager.exchange.ports``, and ``emit_with_keys``. Used from the subtask's thread."""

    def __init__(
        self,
        output: OutputDeployment,
        spec: OutputSpec,
        producer_index: int,
        subpartitions: Sequence[Subpartition],
        settings: ExchangeSettings,
    ) -> None:
        assert len(subpartitions) == len(output.consumers), (len(subpartitions), output.consumers)
        self.edge_id = output.edge_id
        self.consumers = output.consumers
        self.supports_unaligned = output.supports_unaligned
        self._dealer: Dealer = make_dealer(output, spec, producer_index)
        self._subpartitions = tuple(subpartitions)
        self._broadcasts = output.partitioner is Partitioner.BROADCAST
        targets = [self._subpartitions] if self._broadcasts else [(s,) for s in subpartitions]
        self._lanes = [_Lane(target, settings) for target in targets]
        self._ended = False

    def emit(self, batch: ArrowBatch) -> None:
        """Distributes the rows of a batch. Raises ``SchemaMismatch`` when a key column is missing, and ``UserError`` for a record larger than any frame."""
        self._deal(batch, None)

    def emit_with_keys(self, batch: ArrowBatch, keys: Sequence[Key]) -> None:
        """Distributes the rows of a batch as ``emit`` does, for an edge whose key is a function of the record: ``keys[i]`` is the key of row i."""
        self._deal(batch, keys)

    def broadcast(self, event: ChannelEvent) -> None:
        """Sends an event to every subpartition, after everything that was emitted before."""
        assert not self._ended, f"{event} after the end of edge {self.edge_id}"
        self._ended = isinstance(event, EndOfPartition)
        frame = event_frame(event)
        if len(self._lanes) != len(self._subpartitions):  # one lane for all of them
            self.flush()
            gathered: list[list[OutgoingFrame]] = [[] for _ in self._subpartitions]
        else:
            gathered = [lane.take() for lane in self._lanes]
        for subpartition, frames in zip(self._subpartitions, gathered, strict=True):
            # At once with what comes before: the consumer is woken once, when all is there, and takes no processor away
            # from the rest of this.
            subpartition.push([*frames, frame])

    def overtake(self, barrier: Barrier) -> Overtaken:
        """Sends an unaligned barrier ahead of all queued data. Returns the data that it overtook, by consumer subtask."""
        assert self.supports_unaligned, f"edge {self.edge_id} forces alignment"
        self.flush()
        frame = event_frame(barrier, priority=True)
        return [(c, s.overtake(frame)) for c, s in zip(self.consumers, self._subpartitions, strict=True)]

    def announce(self, barrier: Barrier) -> None:
        """Sends an aligned barrier that may time out after all data, and its announcement ahead of all data."""
        assert self.supports_unaligned, f"edge {self.edge_id} forces alignment"
        self.flush()
        frame = event_frame(barrier)
        for subpartition in self._subpartitions:
            announcement = BarrierAnnouncement(barrier, subpartition.queued_frames)
            subpartition.push([event_frame(announcement, priority=True)], priority=True)
            subpartition.push_barrier(barrier.checkpoint_id, frame)

    def prioritise(self, barrier: Barrier) -> Overtaken:
        """Lets ``barrier``, which is unaligned, overtake queued data in place of the announced one, where that is still queued. Returns the data that it
        overtook.
        """
        frame, checkpoint_id = event_frame(barrier, priority=True), barrier.checkpoint_id
        pairs = zip(self.consumers, self._subpartitions, strict=True)
        return [(c, s.prioritise(checkpoint_id, frame)) for c, s in pairs]

    def holds(self, checkpoint_id: int) -> bool:
        """Tells whether the announced barrier of a checkpoint is still queued for some consumer."""
        return any(subpartition.holds(checkpoint_id) for subpartition in self._subpartitions)

    def flush(self) -> None:
        for lane in self._lanes:
            lane.flush()

    def is_available(self) -> bool:
        return all(s.is_available() for s in self._subpartitions)

    def is_drained(self) -> bool:
        return all(s.is_drained() for s in self._subpartitions)

    def queued_bytes(self) -> int:
        return sum(s.queued_bytes for s in self._subpartitions) + sum(lane.gathered_bytes for lane in self._lanes)

    def queued_frames(self) -> int:
        return sum(s.queued_frames for s in self._subpartitions)

    def used_share(self) -> float:
        return max((s.used_share for s in self._subpartitions), default=0.0)

    def slice_bytes(self) -> int | None:
        if all(s.short_bytes is None for s in self._subpartitions):
            return None
        limits = [s.limit_bytes for s in self._subpartitions]
        return min(limits) if self._broadcasts else sum(limits)

    @property
    def sent_frames(self) -> int:
        return sum(lane.sent_frames for lane in self._lanes)

    def close(self) -> None:
        """Drops what was gathered. Queued frames are dropped by the endpoint."""
        for lane in self._lanes:
            lane.drop()

    def _deal(self, batch: ArrowBatch, keys: Sequence[Key] | None) -> None:
        assert not self._ended, f"a batch after the end of edge {self.edge_id}"
        if len(batch):
            for target, piece in self._dealer.deal(batch, keys):
                self._lanes[target].add(piece)


class _Lane:
    """Gathers the pieces for one subpartition (for all of them when broadcasting) and frames them."""

    def __init__(self, targets: Sequence[Subpartition], settings: ExchangeSettings) -> None:
        self.gathered_bytes = 0
        self.sent_frames = 0
        """The number of frames of records, counted once for each target."""
        self._targets = targets
        self._settings = settings
        self._encoder = BatchEncoder(checksum=settings.checksum_batches)
        self._pieces: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, piece: pa.RecordBatch) -> None:
        if self._pieces and not self._pieces[0].schema.equals(piece.schema, check_metadata=True):
            self.flush()
        self._pieces.append(piece)
        self._rows += piece.num_rows
        self.gathered_bytes += piece.nbytes
        if self._rows >= self._settings.frame_rows or self.gathered_bytes >= min(
            self._settings.frame_bytes, self._cut_bytes()
        ):
            self.flush()

    def flush(self) -> None:
        frames = self.take()
        if frames:
            for target in self._targets:
                target.push(frames)

    def take(self) -> list[OutgoingFrame]:
        """Removes the gathered rows and returns them as frames for all targets."""
        if not self._pieces:
            return []
        batch = self._pieces[0] if len(self._pieces) == 1 else pa.concat_batches(self._pieces)
        pieces = min(-(-self.gathered_bytes // self._cut_bytes()), batch.num_rows)
        self.drop()
        each = -(-batch.num_rows // max(pieces, 1))
        frames: list[OutgoingFrame] = []
        for start in range(0, batch.num_rows, each):
            frames += self._framed(batch.slice(start, each) if each < batch.num_rows else batch)
            self.sent_frames += len(self._targets)
        return frames

    def _cut_bytes(self) -> int:
        limits = [short for target in self._targets if (short := target.short_bytes) is not None]
        return min(self._settings.cut_bytes, *limits) if limits else self._settings.cut_bytes

    def drop(self) -> None:
        self._pieces, self._rows, self.gathered_bytes = [], 0, 0

    def _framed(self, batch: pa.RecordBatch) -> Sequence[OutgoingFrame]:
        frames = self._encoder.encode(batch)
        if frames[-1].size_bytes > self._settings.max_payload_bytes:
            raise UserError(
                f"{batch.num_rows} records take {frames[-1].size_bytes} bytes; a frame between subtasks may take "
                f"{self._settings.max_payload_bytes} bytes: make the records smaller"
            )
        return frames
