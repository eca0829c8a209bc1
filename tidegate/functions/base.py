"""The base of all user functions, and what ``open`` gives them (PyFlink: ``pyflink.datastream.functions``, which re-exports it)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from tidegate.common.accumulators import DoubleCounter, Histogram, IntCounter, LongCounter
from tidegate.common.externalresource import ExternalResourceInfo
from tidegate.functions.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from tidegate.metrics import MetricGroup
from tidegate.model.accumulators import UserAccumulator
from tidegate.model.values import MapKey, Record, StateValue

__all__ = ["EventListener", "Function", "KeyedStateStore", "RuntimeContext", "TaskEventListener"]


class KeyedStateStore(ABC):
    """Gives access to the state of the current key, by descriptor (Flink: ``KeyedStateStore.java``)."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[StateValue]:
        """Returns the state of one value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[StateValue]:
        """Returns the state of a list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[MapKey, StateValue]:
        """Returns the state of a map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[StateValue]:
        """Returns the state that folds what is added with a ReduceFunction."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Record, Record]:
        """Returns the state that folds what is added with an AggregateFunction."""


class RuntimeContext(KeyedStateStore):
    """What ``open`` receives: the subtask's place in the job, its metrics, and keyed state, which exists in functions
    on a KeyedStream only (PyFlink: ``RuntimeContext``)."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Returns the name of the task to which the operator is chained."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Returns the parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Returns the number of key groups, which is the limit of the parallelism."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Returns the index of the subtask, counted from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Returns the number of the attempt, counted from 0; it grows with every restart."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Returns the task's name with its place among the subtasks, such as ``Map (3/8)#0``."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Returns a global job parameter, or the default."""

    @abstractmethod
    def get_external_resource_infos(self, resource_name: str) -> set[ExternalResourceInfo]:
        """Returns what the TaskManager has of an external resource, such as GPUs; nothing for a name that its configuration does
        not declare."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Returns the group in which the function registers metrics."""

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: UserAccumulator) -> None:
        """What all subtasks add to theirs is in the job's result under the name. Raises ``InvalidJob`` when this function has one
        of that name, or another operator of the task one of another type."""

    @abstractmethod
    def get_accumulator(self, name: str) -> UserAccumulator:
        """The one that this function has added. Raises ``InvalidJob`` when there is none."""

    @abstractmethod
    def get_int_counter(self, name: str) -> IntCounter:
        """Added when it is not there yet, as the next ones. Raises ``InvalidJob`` when it has another type."""

    @abstractmethod
    def get_long_counter(self, name: str) -> LongCounter:
        """Returns the accumulator of whole numbers with this name, and creates it when it is new."""

    @abstractmethod
    def get_double_counter(self, name: str) -> DoubleCounter:
        """Returns the accumulator of floats with this name, and creates it when it is new."""

    @abstractmethod
    def get_histogram(self, name: str) -> Histogram:
        """Returns the accumulator that counts equal values, and creates it when it is new."""

    @abstractmethod
    def emit_event(self, event: object) -> None:
        """Sends an event along the stream, to every subtask behind this one, in order with what this function emits.

        For process functions; the event is of a type that was registered (``register_user_event``). It is handled as a record is:
        checkpoints hold it while it is on its way. Functions that are no ``EventListener`` pass it on. After the end of data it
        does nothing. Raises ``UnknownEvent`` for another type, ``InvalidJob`` outside of process functions.
        """

    @abstractmethod
    def send_task_event(self, event: object, input_index: int = 0) -> None:
        """Sends an event against the stream, to every subtask that feeds this input (1: the second one of connected streams).

        For process functions; the event is of a type that was registered, and takes less than 4 KB. It travels beside the
        records and is in no checkpoint: it comes at most once, and is lost when either subtask fails meanwhile. Functions that are no
        ``TaskEventListener`` pass it on up. Raises ``UnknownEvent`` for another type, ``UserError`` for one that is too large,
        ``InvalidJob`` outside of process functions.
        """


class Function(ABC):  # noqa: B024  (its methods are hooks)
    """Base of all user functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027  (optional hook)
        """Before the first record, in the subtask."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """After the last record, also when the subtask failed."""


class EventListener(ABC):
    """A process function that hears of events which functions further up emit (``RuntimeContext.emit_event``). Flink's runtime has such
    events (``EventSerializer.java``) and gives none to users; its ``onWatermark`` (FLIP-467) comes nearest.

    A function that goes by the latest price list::

        class Prices(ProcessFunction, EventListener, CheckpointedFunction):
            def on_event(self, event):
                self.version.update([event.version])
    """

    @abstractmethod
    def on_event(self, event: object) -> Iterable[Record] | None:
        """Handles one event, behind all records that its sender had emitted before it; yields or returns what is emitted.

        The event goes no further: ``emit_event`` it again for functions further down. It belongs to no key, so there is no keyed state
        here; operator state is as exact as it is for records. An event comes once from each subtask that passes it on.
        """


class TaskEventListener(ABC):
    """A process function that hears of events which functions further down send to it (``RuntimeContext.send_task_event``). Flink has them
    in its runtime only (``TaskEventDispatcher.java``)."""

    @abstractmethod
    def on_task_event(self, event: object) -> Iterable[Record] | None:
        """Handles one event between two records; yields or returns what is emitted.

        The event goes no further. It comes at most once: what is on its way when a subtask fails, or when this one has ended, is lost.
        """


UserCode: TypeAlias = Function | Callable[..., Any]
"""What a user gives where a function is wanted: an object of its kind, or a callable where one method is enough."""
