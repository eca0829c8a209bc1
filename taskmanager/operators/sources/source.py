"""The source operator: reads splits, emits their records in slices, and keeps their positions.

    reader.poll() ─▶ batch ─▶ slice ─▶ timestamps ─▶ emit ─▶ reader.advance(n)      freeze: all splits, done ones included

Laws: the position in a snapshot is that after the last emitted record. Splits that are assigned in advance go to subtask ``i mod parallelism``, i being the
split's index among all splits sorted by id; a source that discovers splits later determines each split's subtask from the split alone (``Source.owner_of``). A
source with a coordinator in the JobManager requests splits from it, and keeps them. Restored splits are taken from the union of all subtasks' states
(``restored_splits``), not from a new listing. Every unfinished split takes part in the watermark from the start. At the end of its splits the runtime ends
event time, and the source still takes part in checkpoints with all its splits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import assert_never

import msgspec

from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState
from tidegate.connectors.split_discovery import SplitDiscovery, source_split
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.checkpoint import StateRedistribution
from tidegate.model.coordinators.operator_events import (
    ANY_READER,
    DISCOVERING_SUBTASK,
    AddSplits,
    DiscoveryNoted,
    NoMoreSplits,
    OperatorEvent,
    ReaderEvent,
    ReportBacklog,
    RequestDiscovery,
    RequestSplit,
    SourceSplit,
    SplitsDiscovered,
    StartDiscovery,
)
from tidegate.model.errors import InternalError
from tidegate.model.values import UserObject
from tidegate.records.batch import Batch
from tidegate.taskmanager.operators.operator import Operator, OperatorContext
from tidegate.taskmanager.operators.sources.restored_splits import elements_of, own_splits, split_ids_in, splits_in
from tidegate.taskmanager.operators.sources.source_alignment import SourceAlignment
from tidegate.taskmanager.operators.sources.watermarks import EventTimes
from tidegate.taskmanager.operators.user_code.boundary import user_error
from tidegate.taskmanager.state.operator_state import freeze_elements, has_state, restore_elements
from tidegate.taskmanager.state.ports import FrozenState

STATE_NAME = "splits"
RECORDS_IN_ERRORS = "numRecordsInErrors"
"""Flink's name of the metric for records that a source could not read."""


class SourceOperator(Operator):
    """Reads the splits of a source, and makes timestamps and watermarks (Flink: ``SourceOperator.java``)."""

    works_on = "any"

    def __init__(
        self,
        name: str,
        source: Source,
        splits: Sequence[Split],
        strategy: WatermarkStrategy | None,
        output_type: TypeInformation,
        *,
        is_coordinated: bool = False,
    ) -> None:
        self._name = name
        self._source = source
        self._splits = splits
        self._strategy = strategy
        self._output_type = output_type
        self._is_coordinated = is_coordinated
        self._last_event = 0
        self._states: list[SplitState] = []
        self._reader: SourceReader | None = None
        self._polled: Polled | None = None
        self._at = 0
        self._times: EventTimes | None = None
        self._alignment: SourceAlignment | None = None
        self._discovers = False
        self._known: list[str] = []
        """Ids of the splits that any reader had when this one started."""
        self._discovery: SplitDiscovery | None = None

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        discovers = self._is_coordinated and self._source.discovery_ms is not None
        self._discovers = discovers and context.subtask_index == DISCOVERING_SUBTASK
        self._known = [split.split_id for split in self._splits]
        if has_state(context.restore, STATE_NAME):
            stored = restore_elements(context.restore, STATE_NAME)
            self._known = split_ids_in(stored)
            self._states = splits_in(stored, self._source, context.subtask_index, context.parallelism)
        else:
            states = [SplitState(split) for split in self._splits]
            self._states = own_splits(self._source, states, context.subtask_index, context.parallelism)

    def open(self) -> None:
        context = self.context
        if self._strategy is not None:
            self._times = EventTimes(context, self._strategy, self._output_type, self._finished_splits)
            self._times.open()
            for state in self._states:
                if not state.done and not self._source.hides_splits:
                    self._times.assigned(state.split.split_id)
            if self._strategy.alignment is not None and self._times.makes_watermarks:
                self._alignment = SourceAlignment(context, self._strategy.alignment, self._times)
                self._alignment.open()
        try:
            self._reader = self._source.make_reader(
                ReaderContext(
                    subtask_index=context.subtask_index,
                    parallelism=context.parallelism,
                    max_parallelism=context.max_parallelism,
                    job_id=context.attempt.job_id,
                    attempt=str(context.attempt),
                    operator_id=context.operator_id,
                    configuration=dict(context.configuration),
                    is_restored=has_state(context.restore, STATE_NAME),
                    request_split=self._split_request(),
                    send_source_event=self._event_sender(),
                    report_backlog=self._backlog_reporter(),
                    wakeup=context.background.wakeup,
                    spark_rows=context.resources.spark_rows,
                    spark_service=context.resources.spark_service,
                    watch=context.metrics.watch,
                    times=self._times if self._times is not None and self._times.makes_watermarks else None,
                    operator_name=self._name,
                )
            )
            self._reader.open(self._states)
        except Exception as error:
            raise user_error(self._name, error) from error
        self._ask_what_is_known()

    def _ask_what_is_known(self) -> None:
        """Requests the known splits from the coordinator in the one subtask that discovers new ones."""
        send = self.context.coordination.send_operator_event
        if self._discovers and send is not None:
            send(RequestDiscovery())
        else:
            self._known.clear()

    def _start_discovery(self, known: Sequence[SourceSplit]) -> None:
        ids = [*self._known, *(split.split_id for split in known)]
        self._discovery = SplitDiscovery(self._source, self._name, ids, self._report_splits)
        self._discovery.start()

    def _report_splits(self, found: Sequence[Split]) -> None:
        """Reports discovered splits to the coordinator. Called by the discovery thread.

        Any reader that requests a split may get them, unless the source or the watermarks need to know who reads each.
        """
        send, of_reader = self.context.coordination.send_operator_event, defaultdict[int, list[SourceSplit]](list)
        assert send is not None
        names_readers = self._source.deals_in_advance or (self._times is not None and self._times.makes_watermarks)
        for split in found:
            owner = self._source.owner_of(split, self.context.parallelism) if names_readers else None
            of_reader[ANY_READER if owner is None else owner].append(source_split(self._source, split))
        for reader, splits in of_reader.items():
            send(SplitsDiscovered(tuple(splits), reader))

    def on_operator_event(self, event: OperatorEvent) -> None:
        """Takes an event of the coordinator. Raises ``InternalError`` when an event before it is missing."""
        reader, self._last_event = self._reader, self._last_event + 1
        assert reader is not None
        if event.number != self._last_event:
            raise InternalError(
                f"source '{self._name}': event {event.number} of its coordinator came where event {self._last_event} was expected: "
                "one was lost, or came twice"
            )
        match event.event:
            case AddSplits(splits):
                reader.add_splits([Split(s.split_id, msgspec.msgpack.decode(s.content)) for s in splits])
            case NoMoreSplits():
                reader.no_more_splits()
            case ReaderEvent(subtask=subtask, content=content):
                try:
                    reader.on_reader_event(subtask, content)
                except Exception as error:
                    raise user_error(self._name, error) from error
            case StartDiscovery(known):
                self._start_discovery(known)
            case DiscoveryNoted():
                pass  # for the TaskManager, which remembers until then what was found
            case RequestSplit() | RequestDiscovery() | SplitsDiscovered() | ReportBacklog():
                raise InternalError(
                    f"source '{self._name}' received {type(event.event).__name__}, which readers send to their coordinator and never receive"
                )
            case _:
                assert_never(event.event)

    def _split_request(self) -> Callable[[], None] | None:
        send = self.context.coordination.send_operator_event
        if not self._is_coordinated or send is None:
            return None
        return lambda: send(RequestSplit())

    def _backlog_reporter(self) -> Callable[[bool], None] | None:
        send = self.context.coordination.send_operator_event
        return None if send is None else lambda is_processing: send(ReportBacklog(is_processing))

    def _event_sender(self) -> Callable[[UserObject], None] | None:
        """Returns the function that sends events to the enumerator; ``None`` for a source without one."""
        return None

    def poll_next(self, max_records: int) -> bool:
        """Emits at most so many records. Returns whether there were any."""
        reader = self._reader
        assert reader is not None
        if self._alignment is not None and self._times is not None and self._alignment.is_paused():
            self._times.note_busy()
            return False
        return self._read(reader, max_records)

    def _read(self, reader: SourceReader, max_records: int) -> bool:
        if self._polled is None:
            try:
                if self._discovery is not None:
                    self._discovery.check()
                polled = reader.poll()
            except Exception as error:
                raise user_error(self._name, error) from error
            if polled is not None and polled.errors:
                self.context.metrics.add(RECORDS_IN_ERRORS, polled.errors)
            if polled is None or not len(polled.batch):
                if self._times is not None:
                    self._times.note_quiet()
                return False
            self._polled, self._at = polled, 0
        split_id, side = self._polled.split_id, self._polled.side
        part = self._next_part(self._polled, max_records)
        if side:
            self.context.output.emit_side(side, part)
            reader.advance(len(part))
            return True
        if self._times is None:
            self.context.output.emit(part)
            reader.advance(len(part))
            return True
        self._times.emit(part, split_id)
        reader.advance(len(part))
        self._times.note_busy()
        return True

    def is_finished(self) -> bool:
        assert self._reader is not None
        return self._polled is None and self._reader.is_finished()

    def process(self, batch: Batch, input_index: int) -> None:
        raise InternalError(f"source '{self._name}' has no input, but was given {len(batch)} records")

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        states = self._states
        if self._reader is not None:
            states = self._snapshot(self._reader, checkpoint_id)
            self._reader.note_snapshot(checkpoint_id, states)
        owner = (self.context.subtask_index, self.context.parallelism) if self._is_coordinated else None
        elements = elements_of(states, owner)
        return freeze_elements(self._name, STATE_NAME, elements, StateRedistribution.UNION, is_kept_empty=True)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        assert self._reader is not None
        try:
            self._reader.notify_checkpoint_complete(checkpoint_id)
        except Exception as error:
            raise user_error(self._name, error) from error

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        assert self._reader is not None
        try:
            self._reader.notify_checkpoint_aborted(checkpoint_id)
        except Exception as error:
            raise user_error(self._name, error) from error

    def on_watermark(self, timestamp_ms: int) -> None:
        """Takes the end of event time, by which the runtime ends a source after all its splits."""
        if self._alignment is not None and timestamp_ms == END_OF_TIME:
            self._alignment.ended()
        super().on_watermark(timestamp_ms)

    def close(self) -> None:
        if self._alignment is not None:
            self._alignment.close()
        if self._times is not None:
            self._times.close()
        if self._discovery is not None:
            self._discovery.close()
        if self._reader is not None:
            self._reader.close()

    def _snapshot(self, reader: SourceReader, checkpoint_id: int) -> list[SplitState]:
        try:
            return reader.snapshot_for(checkpoint_id)
        except Exception as error:
            raise user_error(self._name, error) from error

    def _next_part(self, polled: Polled, max_records: int) -> Batch:
        batch, start = polled.batch, self._at
        is_whole = self._reader is not None and self._reader.emits_whole_batches
        stop = len(batch) if is_whole else min(start + max_records, len(batch))
        self._at = stop
        if stop == len(batch):
            self._polled = None
        return batch if stop - start == len(batch) else batch.slice(start, stop)

    def _finished_splits(self) -> set[str]:
        assert self._reader is not None
        return self._reader.finished_splits()
