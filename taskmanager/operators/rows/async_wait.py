"""The operator of asynchronous I/O, ``async_wait`` (Flink: ``AsyncWaitOperator.java``).

    record ─▶ AsyncWaitQueue ── Invoke ─▶ event loop of the subtask ─▶ answer, as a mail ─▶ queue ─▶ results, marks ─▶ emit
                   └ freeze: the records whose results were not emitted ─▶ operator state ─▶ invoked again after a restore

The operator never blocks: records beyond the capacity stay in the queue, and the operator takes no input until they are invoked. Watermarks, statuses and user
events pass through the queue as marks; the frozen state keeps the events among its records. After ``suspend`` nothing is emitted: elements in flight belong to
the snapshot.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from tidegate.common.typeinfo import RowTypeInfo, TypeInformation, Types
from tidegate.functions.async_functions import AsyncFunction
from tidegate.functions.async_retry_strategies import AsyncRetryStrategy
from tidegate.functions.state import ListStateDescriptor
from tidegate.model.channel_events import UserEvent
from tidegate.model.errors import InvalidJob, UserFunctionError
from tidegate.model.values import Record
from tidegate.records.batch import Batch, RecordsBatch
from tidegate.taskmanager.machines.async_wait import (
    AsyncWaitCommand,
    AsyncWaitEvent,
    AsyncWaitQueue,
    EmitResults,
    Invoke,
    MarkArrived,
    PassMark,
    RecordArrived,
    RecordCompleted,
)
from tidegate.taskmanager.operators.operator import AsyncCallsPort, Ending, OperatorContext
from tidegate.taskmanager.operators.user_code.boundary import Collector, user_error
from tidegate.taskmanager.operators.user_code.user_function import FunctionOperatorBase, UserFunction
from tidegate.taskmanager.state.ports import FrozenState

STATE_NAME = "_async_wait_operator_state_"
EVENTS_STATE = ListStateDescriptor(
    "_async_wait_events_", RowTypeInfo([Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE())], ["records", "event"])
)
"""State of the user events among the records in flight, each with the number of records in front of it."""


@dataclass(slots=True)
class _Held:
    value: Record
    stamp: int | None
    results: list[Record] | None = None


class AsyncWaitOperator(FunctionOperatorBase):
    """Calls an asynchronous function for each record, with retries and a timeout, and emits its results (Flink: ``AsyncWaitOperator.java``)."""

    works_on = "records"

    def __init__(
        self,
        name: str,
        func: AsyncFunction[Record, Record],
        input_type: TypeInformation,
        *,
        timeout_ms: int,
        strategy: AsyncRetryStrategy[Record],
        capacity: int,
        ordered: bool,
    ) -> None:
        self._name = name
        self._func = func
        self._user = UserFunction(func, name, keeps_operator_state=True)
        self._descriptor = state_descriptor(input_type)
        self._timeout_ms = timeout_ms
        self._strategy = strategy
        self._capacity = capacity
        self._queue = AsyncWaitQueue(capacity=capacity, ordered=ordered)
        self._records: dict[int, _Held] = {}
        self._marks: dict[int, Callable[[], None]] = {}
        self._events: dict[int, UserEvent] = {}
        """The queued marks that are user events. They are not sent again, so they are part of the state."""
        self._next = 0
        self._is_suspended = False
        self._calls: AsyncCallsPort | None = None

    @property
    def slice_records(self) -> int | None:
        return self._capacity

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        self._collector = Collector(context)
        self._copies = context.emitted_copies()
        self._given = context.copies_of(None).copy
        """Copies a record for the function, which must not change what is kept for a snapshot or another attempt."""

    def open(self) -> None:
        context = self.context
        if context.background.open_async_calls is None:
            raise InvalidJob(
                f"operator '{self._name}': the coroutines of its AsyncFunction need the event loop of a TaskManager, and this operator runs without one"
            )
        self._calls = context.background.open_async_calls(self._on_answers)
        self._kept = self._user.restore(context).get_list_state(self._descriptor)
        self._kept_events = self._user.restore(context).get_list_state(EVENTS_STATE)
        self._user.open(context)
        events = deque(sorted((int(place), bytes(content)) for place, content in self._kept_events.get()))
        for place, (value, stamp) in enumerate(self._kept.get()):
            while events and events[0][0] <= place:
                self._pass_in_turn(UserEvent(events.popleft()[1]))
            self._accept(value, stamp)
        for _, content in events:
            self._pass_in_turn(UserEvent(content))

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        for value, stamp in zip(batch.values, batch.timestamps or [None] * len(batch), strict=True):
            self._accept(value, stamp)

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
        numbers = self._queue.in_flight
        held = (self._records[number] for number in numbers)
        self._kept.update([(record.value, record.stamp) for record in held])
        events = sorted(self._events.items())
        self._kept_events.update([(bisect(numbers, number), event.content) for number, event in events])
        return super().freeze(checkpoint_id)

    def close(self) -> None:
        if self._calls is not None:
            self._calls.close()
        self._user.close()

    def _accept(self, value: Record, stamp: int | None) -> None:
        self._next += 1
        self._records[self._next] = _Held(value, stamp)
        self._on(RecordArrived(self._next))

    def _mark(self, passes: Callable[[], None]) -> None:
        self._next += 1
        self._marks[self._next] = passes
        self._on(MarkArrived(self._next))

    def _pass_in_turn(self, event: UserEvent) -> None:
        number = self._next + 1
        self._events[number] = event
        self._mark(lambda: self.context.output.emit_event(self._events.pop(number)))

    def _on_answers(self) -> None:
        """Handles the results of the asynchronous calls, which the event loop has completed. Runs in the mailbox."""
        if self._calls is None or self._is_suspended:
            return
        for answer in self._calls.take():
            record = self._records[answer.number]
            if answer.error is not None:
                raise user_error(self._name, answer.error, record.value) from answer.error
            if not isinstance(answer.result, Iterable) or isinstance(answer.result, (str, bytes, dict)):
                wrong = "cannot be none" if answer.result is None else "should be of list type"
                raise UserFunctionError(
                    f"operator '{self._name}': The result of AsyncFunction {wrong}, please check the methods 'async_invoke' and "
                    f"'timeout' of class '{type(self._func).__qualname__}' (it was {answer.result!r} for the record "
                    f"{record.value!r})"
                )
            record.results = list(answer.result)
            self._on(RecordCompleted(answer.number))
        self._collector.flush()

    def _on(self, event: AsyncWaitEvent) -> None:
        for command in self._queue.on(event):
            self._carry_out(command)

    def _carry_out(self, command: AsyncWaitCommand) -> None:
        match command:
            case Invoke(number):
                self._invoke(number, self._records[number].value)
            case EmitResults(number):
                record = self._records.pop(number)
                self._collector.add_own(record.results or (), record.stamp)
                if self._collector.is_full():
                    self._collector.flush()
            case PassMark(number):
                self._collector.flush()
                self._marks.pop(number)()

    def _invoke(self, number: int, value: Record) -> None:
        assert self._calls is not None
        function = self._func
        predicate = self._strategy.get_retry_predicate()
        self._calls.submit(
            number,
            lambda: self._called(function.async_invoke, value),
            lambda: self._own(function.timeout(self._given(value))),
            timeout_ms=self._timeout_ms,
            backoff_ms=self._backoff_ms,
            retries_result=predicate.result_predicate(),
            retries_error=predicate.exception_predicate(),
        )

    async def _called(self, invoke: Callable[[Record], Awaitable[list[Record]]], value: Record) -> list[Record]:
        """Calls the function in the event loop. Its results are copied at once, whatever other coroutines do meanwhile."""
        return self._own(await invoke(self._given(value)))

    def _own(self, results: list[Record]) -> list[Record]:
        """Copies the results of the function. They are returned as they are if they are not a list."""
        return self._copies.all(list(results)) if isinstance(results, (list, tuple)) else results

    def _backoff_ms(self, attempts: int) -> int | None:
        strategy = self._strategy
        return strategy.get_backoff_time_millis(attempts) if strategy.can_retry(attempts) else None


def state_descriptor(input_type: TypeInformation) -> ListStateDescriptor:
    """Returns the descriptor of the state of records in flight, with their timestamps."""
    return ListStateDescriptor(STATE_NAME, RowTypeInfo([input_type, Types.LONG()], ["record", "timestamp"]))
