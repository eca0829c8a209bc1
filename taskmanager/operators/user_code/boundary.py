"""Calls of user functions: the context that they get, the collector of what they emit, and the errors that they raise.

An exception of a user function becomes a ``UserFunctionError`` with the operator's name; ``details`` is the traceback with the user's frames only.
``TidegateError`` passes through unchanged.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any, Protocol

import tidegate
from tidegate.common.accumulators import DoubleCounter, Histogram, IntCounter, LongCounter
from tidegate.common.configuration import Configuration
from tidegate.common.execution_config import ExecutionConfig
from tidegate.common.externalresource import ExternalResourceInfo
from tidegate.functions.base import UserCode
from tidegate.functions.interfaces import Function, RuntimeContext
from tidegate.functions.output_tag import OutputTag
from tidegate.functions.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from tidegate.functions.time_domain import TimeDomain
from tidegate.metrics import MetricGroup
from tidegate.model.accumulators import UserAccumulator
from tidegate.model.errors import InvalidJob, TidegateError, UserError, UserFunctionError, blamed
from tidegate.model.values import MapKey, Record, StateValue
from tidegate.records.batch import Batch, RecordsBatch
from tidegate.records.canonical.forms import value_of
from tidegate.records.shown_values import rows_to_show
from tidegate.taskmanager.keyed_state.handles import StateStore
from tidegate.taskmanager.keyed_state.timers import Timer
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.operators.user_code.accumulators import FunctionAccumulators
from tidegate.taskmanager.operators.user_code.user_metrics import OperatorMetricGroup
from tidegate.wire.channel_messages import MAX_TASK_EVENT_BYTES
from tidegate.wire.user_events import user_event

EMIT_RECORDS = 4096
"""The size, in records, of the batches in which emitted records are passed on."""

_NUMBERS = frozenset({bool, int, float})
_OUR_FRAMES = (os.path.dirname(os.path.abspath(str(tidegate.__file__))) + os.sep,)


def user_error(operator: str, error: BaseException, *record: Record) -> TidegateError:
    """Returns the error to raise for an exception of a user function. ``record``: what it was called with, if known: one record, or the two of a join."""
    if isinstance(error, TidegateError):
        return error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    raised = UserFunctionError(f"operator '{operator}': {text}", details=user_traceback(error))
    raised.inputs = record
    return raised


def timer_error(operator: str, error: Exception, timer: Timer, domain: TimeDomain) -> TidegateError:
    """Returns the error to raise for an exception of a user function's timer. It names the timer's key and time instead of a record."""
    raised = user_error(operator, error, value_of(timer.key))
    if isinstance(raised, UserFunctionError) and raised is not error:
        kind = "event" if domain is TimeDomain.EVENT_TIME else "processing"
        window = "" if timer.namespace is None else " of a window"
        raised.inputs_words = (
            f"it was called for a timer{window} at {timer.timestamp} in {kind} time, with the key {{}}"
        )
    return raised


def batch_error(operator: str, error: Exception, batch: Batch) -> TidegateError:
    """Returns the error to raise for an exception of a function of whole batches, or of a sink. It shows the record if only one can be meant, otherwise the
    number of records with the first and the last.
    """
    found = blamed(error)
    if found or len(batch) <= 1:
        return user_error(operator, error, *(found or _ends(batch)))
    raised = user_error(operator, error, *_ends(batch))
    if isinstance(raised, UserFunctionError) and raised is not error:
        raised.inputs_words = f"it was given {len(batch)} records together, the first {{}}, the last {{}}"
    return raised


def _ends(batch: Batch) -> tuple[Record, ...]:
    """Returns the first record and the last; one if there is only one."""
    places = sorted({0, len(batch) - 1} - {-1}) if len(batch) else []
    if isinstance(batch, RecordsBatch):
        return tuple(batch.values[place] for place in places)
    return tuple(record for place in places for record in rows_to_show(batch.data.slice(place, 1)))


class Blamed:
    """Iterates over records in a list comprehension or the like, and tells afterwards at which record it failed. It adds no cost to the loop."""

    def __init__(self, values: Sequence[Record]) -> None:
        self._values = values
        self._iterator = iter(values)

    def __iter__(self) -> Iterator[Record]:
        return self._iterator

    def record(self) -> tuple[Record, ...]:
        """Returns the record that was taken last, as an argument of ``user_error``; none before the first."""
        taken = len(self._values) - length_hint(self._iterator)
        return (self._values[taken - 1],) if taken else ()


def user_traceback(error: BaseException) -> str:
    """Returns the traceback of an exception without frames of this code (with them when there are no others), causes included."""
    current: traceback.TracebackException | None = traceback.TracebackException.from_exception(error)
    first = current
    while current is not None:
        theirs = [frame for frame in current.stack if not frame.filename.startswith(_OUR_FRAMES)]
        if theirs:
            current.stack = traceback.StackSummary.from_list(theirs)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    assert first is not None
    return "".join(first.format())


def method_of(func: UserCode, name: str) -> Callable[..., Any]:
    """Returns ``func.name`` of a function object, or the callable itself. Raises ``InvalidJob`` if it is neither."""
    found = getattr(func, name) if hasattr(func, name) else func
    if not callable(found):
        raise InvalidJob(f"{func!r} is neither callable nor has a method '{name}'")
    return found


def open_function(func: UserCode | None, context: OperatorContext, runtime_context: RuntimeContext) -> None:
    if isinstance(func, Function):
        try:
            func.open(runtime_context)
        except Exception as error:
            raise user_error(context.operator_name, error) from error


def close_function(func: UserCode | None, operator: str) -> None:
    if isinstance(func, Function):
        try:
            func.close()
        except Exception as error:
            raise user_error(operator, error) from error


class Stamped(Protocol):
    """The context of a function, whose ``stamp`` is set to the timestamp of each record (milliseconds) before the call."""

    stamp: int | None


def stamped(batch: RecordsBatch) -> Iterable[tuple[Record, int | None]]:
    """Yields the records of ``batch``, each with its timestamp."""
    return zip(batch.values, batch.timestamps or repeat(None, len(batch.values)), strict=True)


class Collector:
    """Gathers what functions emit, separately for main and side outputs, and passes it on in batches. What it gathers has the value that it had when it was
    emitted: of what a function may change later there is a copy.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._output = context.output
        copies = context.emitted_copies()
        self._shared, self._copy = copies.shared, copies.copy
        self._side_copy = context.copies_of(None).copy
        self._values: list[Record] = []
        self._stamps: list[int | None] = []
        self._sides: dict[str, tuple[list[Record], list[int | None]]] = {}

    def add_all(self, items: Iterable[Record] | None, stamp: int | None) -> None:
        """Adds what a function returned: values, or ``(OutputTag, value)`` for a side output. Nothing for ``None``, ``False`` and 0, as in PyFlink.

        Runs user code when ``items`` is a generator.
        """
        if items is None or (items.__class__ in _NUMBERS and not items):
            return
        shared = self._shared
        for item in items:
            kind = item.__class__
            if kind is tuple and len(item) == 2 and item[0].__class__ not in shared and isinstance(item[0], OutputTag):
                self.add_to_side(item[0].tag_id, item[1], stamp)
            else:
                self._values.append(item if kind in shared else self._copy(item))
                self._stamps.append(stamp)

    def add_own(self, items: Iterable[Record], stamp: int | None) -> None:
        """Adds records as ``add_all`` does, without copies: records that are immutable, or that no function holds."""
        for item in items:
            if item.__class__ is tuple and len(item) == 2 and isinstance(item[0], OutputTag):
                values, stamps = self._sides.setdefault(item[0].tag_id, ([], []))
                values.append(item[1])
                stamps.append(stamp)
            else:
                self._values.append(item)
                self._stamps.append(stamp)

    def add_each(
        self,
        call: Callable[[Record, Any], Iterable[Record] | None],
        context: Stamped,
        records: Iterable[tuple[Record, int | None]],
        operator: str,
    ) -> None:
        """Adds what ``call(value, context)`` emits for each of ``records``, passing full batches on. Errors name ``operator``."""
        for value, stamp in records:
            context.stamp = stamp
            try:
                self.add_all(call(value, context), stamp)
            except Exception as error:
                raise user_error(operator, error, value) from error
            if self.is_full():
                self.flush()

    def add_to_side(self, tag: str, value: Record, stamp: int | None) -> None:
        """Adds a record to a side output."""
        values, stamps = self._sides.setdefault(tag, ([], []))
        values.append(self._side_copy(value))
        stamps.append(stamp)

    def is_full(self) -> bool:
        return len(self._values) >= EMIT_RECORDS

    def flush(self) -> None:
        if self._values:
            values, stamps = self._values, self._stamps
            self._values, self._stamps = [], []
            self._output.emit(_batch(values, stamps))
        if self._sides:
            sides, self._sides = self._sides, {}
            for tag, (values, stamps) in sides.items():
                self._output.emit_side(tag, _batch(values, stamps))


def _batch(values: list[Record], stamps: list[int | None]) -> RecordsBatch:
    return RecordsBatch(values, None if all(stamp is None for stamp in stamps) else stamps)


class FunctionContext(RuntimeContext):
    """The ``RuntimeContext`` of a user function. ``store``: ``None`` where there are no keys; ``collector``: ``None`` where no events are sent."""

    def __init__(
        self, context: OperatorContext, store: StateStore | None = None, collector: Collector | None = None
    ) -> None:
        self._context = context
        self._store = store
        self._collector = collector
        self._job_parameters: dict[str, str] | None = None
        self._metrics = OperatorMetricGroup(context.metrics, context.clock)
        self._accumulators = FunctionAccumulators(context.metrics, context.operator_name)

    def get_task_name(self) -> str:
        return self._context.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._context.subtask_index

    def get_attempt_number(self) -> int:
        return self._context.attempt.attempt

    def get_task_name_with_subtasks(self) -> str:
        context = self._context
        return f"{context.task_name} ({context.subtask_index + 1}/{context.parallelism})#{context.attempt.attempt}"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        if self._job_parameters is None:
            config = ExecutionConfig(Configuration(dict(self._context.configuration)))
            self._job_parameters = config.get_global_job_parameters()
        return self._job_parameters.get(key, default_value)

    def get_external_resource_infos(self, resource_name: str) -> set[ExternalResourceInfo]:
        return {
            ExternalResourceInfo(found) for found in self._context.resources.external_resources.get(resource_name, ())
        }

    def get_metrics_group(self) -> MetricGroup:
        return self._metrics

    def add_accumulator(self, name: str, accumulator: UserAccumulator) -> None:
        self._accumulators.add(name, accumulator)

    def get_accumulator(self, name: str) -> UserAccumulator:
        return self._accumulators.get(name)

    def get_int_counter(self, name: str) -> IntCounter:
        return self._accumulators.get_or_add(name, IntCounter)

    def get_long_counter(self, name: str) -> LongCounter:
        return self._accumulators.get_or_add(name, LongCounter)

    def get_double_counter(self, name: str) -> DoubleCounter:
        return self._accumulators.get_or_add(name, DoubleCounter)

    def get_histogram(self, name: str) -> Histogram:
        return self._accumulators.get_or_add(name, Histogram)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[StateValue]:
        return self._keyed(state_descriptor).get_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[StateValue]:
        return self._keyed(state_descriptor).get_list_state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[MapKey, StateValue]:
        return self._keyed(state_descriptor).get_map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[StateValue]:
        return self._keyed(state_descriptor).get_reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Record, Record]:
        return self._keyed(state_descriptor).get_aggregating_state(state_descriptor)

    def emit_event(self, event: object) -> None:
        emitted, sent = self._emitted("emit_event"), user_event(event)
        if not self._context.has_ended:
            emitted.flush()
            self._context.output.emit_event(sent)

    def send_task_event(self, event: object, input_index: int = 0) -> None:
        self._emitted("send_task_event")
        sent = user_event(event)
        if len(sent.content) > MAX_TASK_EVENT_BYTES:
            raise UserError(
                f"operator '{self._context.operator_name}': a {type(event).__qualname__} of {len(sent.content)} bytes is too large to be sent "
                f"against the stream, where an event may take {MAX_TASK_EVENT_BYTES} bytes: send a reference, such as a path or a key, instead of the data"
            )
        if self._context.coordination.send_task_event is not None:
            self._context.coordination.send_task_event(sent, input_index)

    def _emitted(self, method: str) -> Collector:
        if self._collector is None:
            raise InvalidJob(
                f"operator '{self._context.operator_name}': {method} is for process functions alone, since only they emit rows and events "
                "in one order: call it in a process() before or after this operator"
            )
        return self._collector

    def _keyed(self, descriptor: StateDescriptor) -> StateStore:
        if self._store is None:
            raise InvalidJob(
                f"operator '{self._context.operator_name}': state '{descriptor.name}' is kept by key, but the stream has no "
                "keys: put key_by before this function"
            )
        return self._store
