"""The source operator of readers whose splits come from an enumerator: its input is what the enumerator sends, its output the records that it reads.

    enumerator ─▶ ForReader ─▶ process ─▶ reader            reader ─▶ poll_next ─▶ records
    reader asks, sends an event, is at its end ─▶ ReaderLink ─▶ JobManager ─▶ enumerator, which acknowledges by ForReader

Barriers arrive through the same edge as the splits, so splits that were sent before a barrier are in the reader's state. The edge ends when the enumerator
knows that all readers are at their ends, or when the job is stopped.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from typing import assert_never

from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.base import Source, Split
from tidegate.connectors.source.protocol import (
    SAID,
    AskForSplit,
    EndSplits,
    EnumeratorMessage,
    ForReader,
    GiveSplits,
    Heard,
    ReachEnd,
    ReaderLink,
    Register,
    TellEnumerator,
    TellReader,
)
from tidegate.connectors.source.reader_host import MOST_RECORDS
from tidegate.model.coordinators.operator_events import ReaderEvent
from tidegate.model.errors import InternalError
from tidegate.model.ids import OperatorId
from tidegate.model.values import UserObject
from tidegate.records.batch import Batch, RecordsBatch
from tidegate.records.pickling import dumps
from tidegate.records.record_codec import decode
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.operators.sources.source import SourceOperator
from tidegate.taskmanager.operators.user_code.boundary import user_error


class EnumeratedSourceOperator(SourceOperator):
    """Reads the splits that the enumerator of its source, which runs in a vertex of its own, assigns to it."""

    def __init__(
        self,
        name: str,
        source: Source,
        enumerator: OperatorId,
        strategy: WatermarkStrategy | None,
        output_type: TypeInformation,
    ) -> None:
        super().__init__(name, source, (), strategy, output_type, is_coordinated=True)
        self._enumerator = enumerator
        self._is_at_end = False

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        self._host = socket.gethostname()
        self._link = ReaderLink(self._send, context.clock.monotonic_ms)

    def open(self) -> None:
        self._link.say(Register(self._host))
        super().open()

    def process(self, batch: Batch, input_index: int) -> None:
        values = batch.values if isinstance(batch, RecordsBatch) else decode(SAID, batch.data, self._name)
        for addressed in values:
            if not isinstance(addressed, ForReader) or addressed.subtask != self.context.subtask_index:
                raise InternalError(
                    f"source '{self._name}': its enumerator sent subtask {self.context.subtask_index} a {type(addressed).__name__} that is not for it"
                )
            try:
                self._obey(addressed.message)
            except Exception as error:
                raise user_error(self._name, error) from error

    def poll_next(self, max_records: int) -> bool:
        self._link.repeat_when_due()
        emitted = super().poll_next(max_records)
        if not emitted and not self._is_at_end and self.is_finished():
            self._is_at_end = True
            self._link.say(ReachEnd())
        return emitted

    def on_watermark(self, timestamp_ms: int) -> None:
        self._flush()
        super().on_watermark(timestamp_ms)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._flush()

    def finish(self) -> None:
        self._flush()

    def _flush(self) -> None:
        """Emits the records that the reader's position already includes."""
        while self._reader is not None and self._reader.has_records():
            self._read(self._reader, MOST_RECORDS)

    def _obey(self, message: EnumeratorMessage) -> None:
        reader = self._reader
        assert reader is not None
        match message:
            case GiveSplits(splits):
                reader.add_splits([Split(split.split_id, split.payload) for split in splits])
            case EndSplits():
                reader.no_more_splits()
            case TellReader(content):
                reader.handle_source_event(pickle.loads(content))
            case Heard(number):
                self._link.on_acknowledged(number)
            case _:
                assert_never(message)

    def _split_request(self) -> Callable[[], None] | None:
        return lambda: self._link.say(AskForSplit(self._host))

    def _event_sender(self) -> Callable[[UserObject], None] | None:
        return lambda event: self._link.say(TellEnumerator(dumps(event)))

    def _send(self, content: bytes) -> None:
        send = self.context.coordination.send_operator_event
        assert send is not None, "a subtask has a way to the JobManager"
        send(ReaderEvent(self._enumerator, self.context.subtask_index, content))
