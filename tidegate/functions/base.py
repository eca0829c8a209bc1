"""The base of all user functions, and what ``open`` gives them (PyFlink: ``pyflink.datastream.functions``, which re-exports it)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from tidegate.common.accumulators import DoubleCounter, Histogram, IntCounter, LongCounter
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

__all__ = ["Function", "KeyedStateStore", "RuntimeContext"]


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


class Function(ABC):  # noqa: B024  (its methods are hooks)
    """Base of all user functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027  (optional hook)
        """Before the first record, in the subtask."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """After the last record, also when the subtask failed."""


UserCode: TypeAlias = Function | Callable[..., Any]
"""What a user gives where a function is wanted: an object of its kind, or a callable where one method is enough."""
