"""The operator of calls for batches, ``async_batches``: an asynchronous lookup join (Flink: ``AsyncWaitOperator.java`` behind ``StreamExecLookupJoin``).

    batch ─▶ its calls ─▶ AsyncBatchesQueue ── InvokeCall ─▶ event loop of the subtask ─▶ answers, as a mail ─▶ queue ─▶ rows, marks ─▶ emit
                               └ freeze: the rows that were not emitted ─▶ operator state ─▶ asked again after a restore

As ``rows/async_wait``, but rows share calls and stay columns. The operator never blocks: calls of the next batches run beside those of the first, and it
takes no batch while as many rows wait as calls may run. After ``suspend`` nothing is emitted: rows in flight belong to the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidegate.common.typeinfo import RowTypeInfo, Types
from tidegate.functions.async_batches import AskedBatch, AsyncBatchFunction
from tidegate.functions.state import ListStateDescriptor
from tidegate.model.channel_events import UserEvent
from tidegate.model.errors import InvalidJob, TidegateError
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.columns.async_queue import (
    AsyncBatchesEvent,
    AsyncBatchesQueue,
    BatchArrived,
    BatchMarkArrived,
    CallsCompleted,
    EmitRows,
    InvokeCall,
    PassBatchMark,
    Positions,
)
from tidegate.taskmanager.operators.columns.stateless import conform
from tidegate.taskmanager.operators.operator import AsyncCallsPort, Ending
from tidegate.taskmanager.operators.user_code.boundary import batch_error, user_error
from tidegate.taskmanager.operators.user_code.user_function import FunctionOperatorBase, UserFunction
from tidegate.taskmanager.state.ports import FrozenState

IN_FLIGHT_STATE = ListStateDescriptor(
    "_async_batches_in_flight_",
    RowTypeInfo([Types.BOOLEAN(), Types.PRIMITIVE_ARRAY(Types.BYTE())], ["event", "content"]),
)
"""State of what is in flight, in its order: rows as an Arrow stream, or a user event."""
_ROWS_OF_ENTRY = 1_000
"""Rows of an entry of state; entries are divided among subtasks at another parallelism. Chosen, not measured."""


@dataclass(slots=True)
class _Held:
    asked: AskedBatch
    results: dict[int, list[Any]] = field(default_factory=dict)


class AsyncBatchesOperator(FunctionOperatorBase):
    """Calls an asynchronous function for the rows of batches, and emits the resulting rows; rows in flight are operator state."""

    works_on = "arrow"

    def __init__(self, name: str, func: AsyncBatchFunction, schema: pa.Schema) -> None:
        self._name = name
        self._func = func
        self._schema = schema
        self._user = UserFunction(func, name, keeps_operator_state=True)
        self._queue = AsyncBatchesQueue(capacity=func.capacity, ordered=func.ordered)
        self._batches: dict[int, _Held] = {}
        self._marks: dict[int, Callable[[], None]] = {}
        self._events: dict[int, UserEvent] = {}
        """The queued marks that are user events. They are not sent again, so they are part of the state."""
        self._places: dict[int, tuple[int, int]] = {}
        """By number of a running call: its batch, and its number there."""
        self._next = 0
        self._next_call = 0
        self._is_suspended = False
        self._calls: AsyncCallsPort | None = None

    def open(self) -> None:
        context = self.context
        if context.background.open_async_calls is None:
            raise InvalidJob(
                f"operator '{self._name}': the coroutines of its function need the event loop of a TaskManager, and this operator runs without one"
            )
        self._calls = context.background.open_async_calls(self._on_answers)
        self._kept = self._user.restore(context).get_list_state(IN_FLIGHT_STATE)
        self._user.open(context)
        for is_event, content in self._kept.get():
            if is_event:
                self._pass_in_turn(UserEvent(bytes(content)))
            else:
                with pa.ipc.open_stream(pa.py_buffer(bytes(content))) as rows:
                    for batch in rows:
                        self._accept(batch)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        self._accept(batch.data)

    def on_watermark(self, timestamp_ms: int) -> None:
        self._mark(lambda: self.context.output.emit_watermark(timestamp_ms))

    def on_idle(self, idle: bool) -> None:
        self._mark(lambda: self.context.output.emit_idle(idle))

    def on_user_event(self, event: UserEvent, input_index: int) -> None:
        self._pass_in_turn(event)

    def has_room(self) -> bool:
        return self._queue.has_room

    def ending(self) -> Ending:
        return Ending.DONE if self._queue.is_empty else Ending.IN_FLIGHT

    def suspend(self) -> None:
        self._is_suspended = True

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        entries: list[tuple[bool, bytes]] = []
        for number, rows in self._queue.in_flight:
            if rows is not None:
                data = self._batches[number].asked.batch.take(pa.array(rows))
                entries += [
                    (False, _stream(data.slice(at, _ROWS_OF_ENTRY))) for at in range(0, data.num_rows, _ROWS_OF_ENTRY)
                ]
            elif number in self._events:
                entries.append((True, self._events[number].content))
        self._kept.update(entries)
        return super().freeze(checkpoint_id)

    def close(self) -> None:
        if self._calls is not None:
            self._calls.close()
        self._user.close()

    def _accept(self, data: pa.RecordBatch) -> None:
        if not data.num_rows:
            return
        try:
            asked = self._func.ask(data)
        except Exception as error:
            raise batch_error(self._name, error, ArrowBatch(data, None)) from error
        self._next += 1
        self._batches[self._next] = _Held(asked, dict(asked.known))
        self._on(BatchArrived(self._next, asked.codes, len(asked.calls), tuple(asked.known)))

    def _mark(self, passes: Callable[[], None]) -> None:
        self._next += 1
        self._marks[self._next] = passes
        self._on(BatchMarkArrived(self._next))

    def _pass_in_turn(self, event: UserEvent) -> None:
        number = self._next + 1
        self._events[number] = event
        self._mark(lambda: self.context.output.emit_event(self._events.pop(number)))

    def _on_answers(self) -> None:
        """Takes the answers of the event loop. Called as a mail."""
        if self._calls is None or self._is_suspended:
            return
        completed: list[tuple[int, int]] = []
        for answer in self._calls.take():
            number, call = self._places.pop(answer.number)
            held = self._batches[number]
            if isinstance(answer.error, TidegateError):
                raise answer.error
            if answer.error is not None:
                raise user_error(self._name, answer.error) from answer.error
            held.results[call] = answer.result or []
            self._func.answered(held.asked, call, held.results[call])
            completed.append((number, call))
        if completed:
            self._on(CallsCompleted(completed))

    def _on(self, event: AsyncBatchesEvent) -> None:
        for command in self._queue.on(event):
            match command:
                case InvokeCall(number, call):
                    self._invoke(number, call)
                case EmitRows(number, rows, is_last):
                    self._emit(number, rows, is_last=is_last)
                case PassBatchMark(number):
                    self._marks.pop(number)()

    def _invoke(self, number: int, call: int) -> None:
        assert self._calls is not None
        func, made = self._func, self._batches[number].asked.calls[call]
        self._next_call = place = self._next_call + 1
        self._places[place] = number, call
        self._calls.submit(
            place,
            made.invoke,
            made.on_timeout,
            timeout_ms=func.timeout_ms,
            backoff_ms=lambda attempts: func.delay_ms if attempts <= func.attempts else None,
            retries_result=(lambda results: not results) if func.attempts else None,
            retries_error=None,
        )

    def _emit(self, number: int, rows: Positions, *, is_last: bool) -> None:
        held = self._batches.pop(number) if is_last else self._batches[number]
        try:
            found = self._func.result(held.asked, rows, held.results)
        except Exception as error:
            raise batch_error(self._name, error, ArrowBatch(held.asked.batch, None)) from error
        if found.num_rows:
            self.context.output.emit(ArrowBatch(conform(found, self._schema, self._name), None))


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


__all__ = ["IN_FLIGHT_STATE", "AsyncBatchesOperator"]
