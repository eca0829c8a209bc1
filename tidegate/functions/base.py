"""The base class of user functions, the runtime context that ``open`` receives, and state with its descriptors (PyFlink:
``pyflink.datastream.functions`` and ``pyflink.datastream.state``, which re-export it).

They name each other, so they are one module: ``Function.open`` takes a ``RuntimeContext``, whose ``get_reducing_state`` takes a
``ReducingStateDescriptor``, which holds a ``ReduceFunction``, which is a ``Function``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import pyarrow as pa

from tidegate.common.accumulators import DoubleCounter, Histogram, IntCounter, LongCounter
from tidegate.common.externalresource import ExternalResourceInfo
from tidegate.common.typeinfo import ListTypeInfo, MapTypeInfo, TypeInformation
from tidegate.functions.state_ttl import StateTtlConfig
from tidegate.metrics import MetricGroup
from tidegate.model.accumulators import UserAccumulator
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Accumulated, MapKey, Record, StateValue

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "EventListener",
    "Function",
    "KeyedStateStore",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RuntimeContext",
    "State",
    "StateDescriptor",
    "TaskEventListener",
    "ValueState",
    "ValueStateDescriptor",
]

_TTL_IS_NOT_QUERYABLE = (
    "expires, and queryable state with a time-to-live is not supported (as in Flink): take one of the two away"
)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class Function(ABC):  # noqa: B024  (its methods are hooks)
    """The base class of all user functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027  (optional hook)
        """Is called in the subtask before the first record."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Is called after the last record, also when the subtask failed."""


@runtime_checkable
class TimedBatches(Protocol):
    """A function of record batches (``map_batches``) that also returns the event times of its rows."""

    def event_time(self, batch: pa.RecordBatch) -> pa.Array:
        """Returns the event time of each row of a batch that the function returned, in ms since 1970, int64."""


class ReduceFunction(Function):
    """Combines two values of one key into one (PyFlink: ``ReduceFunction``)."""

    @abstractmethod
    def reduce(self, value1: Record, value2: Record) -> Record:
        """Returns the combination of what was reduced so far and the next value."""


class AggregateFunction(Function):
    """Folds records into an accumulator for each key and window (PyFlink: ``AggregateFunction``).

    Methods may change the accumulator and return it, or return a new one::

        class Mean(AggregateFunction):
            def create_accumulator(self):
                return 0, 0

            def add(self, value, accumulator):
                return accumulator[0] + value, accumulator[1] + 1

            def get_result(self, accumulator):
                return accumulator[0] / accumulator[1]

            def merge(self, acc_a, acc_b):
                return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
    """

    @abstractmethod
    def create_accumulator(self) -> Accumulated:
        """Returns the accumulator of no records."""

    @abstractmethod
    def add(self, value: Record, accumulator: Accumulated) -> Accumulated:
        """Returns the accumulator with one more record."""

    @abstractmethod
    def get_result(self, accumulator: Accumulated) -> Record:
        """Returns what is emitted for an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Accumulated, acc_b: Accumulated) -> Accumulated:
        """Returns one accumulator for two; only windows that merge, such as sessions, call it."""


class State(ABC):
    """State of the current key."""

    @abstractmethod
    def clear(self) -> None:
        """Removes the state of the current key."""


class ValueState(State, Generic[T]):
    """Keyed state of one value; ``None`` when there is none."""

    @abstractmethod
    def value(self) -> T | None:
        """Returns the value, or ``None`` when there is none."""

    @abstractmethod
    def update(self, value: T) -> None:
        """Sets the value; ``None`` removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """Keyed state to which values are added, with a result of them (PyFlink: ``AppendingState``)."""

    @abstractmethod
    def get(self) -> OUT:
        """Returns the result of all added values, or ``None`` when there are none."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds a value."""


class MergingState(AppendingState[IN, OUT]):
    """AppendingState that can be merged, as session windows require."""


class ReducingState(MergingState[T, T]):
    """Keyed state that combines added values by a ReduceFunction."""


class AggregatingState(MergingState[IN, OUT]):
    """Keyed state that adds values to an accumulator of an AggregateFunction; ``get`` returns its result."""


class ListState(MergingState[T, Iterable[T]]):
    """Keyed state of a list (PyFlink: ``ListState``). ``get`` returns an empty iterable when it has no elements."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replaces the elements. ``None`` raises ``TypeError``: ``update([])`` and ``clear`` remove them."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Appends the elements. ``None`` raises ``TypeError``."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapState(State, Generic[K, V]):
    """Keyed state of a map, whose entries are read and written one by one (PyFlink: ``MapState``)."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns the value at a map key, or ``None``."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets the value at a map key; a value may be ``None`` and then exists. Raises ``TypeError`` for the key ``None``."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Sets all entries of a dict, or of pairs. Raises ``TypeError`` for anything else, and for the key ``None``."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes the entry at a map key, if there is one."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Returns whether there is an entry at a map key."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Returns all pairs of map key and value."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Returns all map keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Returns all values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Returns whether there is no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """Broadcast state as the side that is not broadcast sees it (PyFlink: ``ReadOnlyBroadcastState``): every subtask has a copy, and entries belong to
    no key."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns the value of an entry, or ``None``."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Returns whether there is an entry of this name."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Returns all pairs of name and value."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Returns the names of all entries."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Returns the values of all entries."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Returns whether there is no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """Broadcast state as the broadcast side sees it (PyFlink: ``BroadcastState``). All subtasks must make the same changes in the same order."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets an entry."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Sets all entries of a mapping."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes an entry, if there is one."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class StateDescriptor:
    """The name and type of a state. ``type_info``: of what is kept for one key."""

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        if not name:
            raise InvalidJob(f"a {type(self).__name__} needs a name that is not empty")
        if not isinstance(type_info, TypeInformation):
            raise InvalidJob(f"state {name!r}: {type_info!r} is not a TypeInformation; use one of Types")
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None
        self._queryable_name: str | None = None

    def get_name(self) -> str:
        """Returns the name, which is unique among the states of an operator."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Sets the time-to-live: values expire some time after they were written, each element of a collection by itself. Raises ``InvalidJob`` for
        state that is queryable."""
        if ttl_config.is_enabled() and self._queryable_name is not None:
            raise InvalidJob(f"state {self.name!r} {_TTL_IS_NOT_QUERYABLE}")
        self._ttl_config = ttl_config if ttl_config.is_enabled() else None

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """Returns the time-to-live configuration; ``None``: the state does not expire."""
        return self._ttl_config

    def set_queryable(self, queryable_state_name: str) -> None:
        """Makes the state queryable by clients while the job runs, under a name that is unique in the job (Flink: ``StateDescriptor.setQueryable``).
        Raises ``InvalidJob`` when it has another such name or expires."""
        if not queryable_state_name:
            raise InvalidJob(f"state {self.name!r}: the name by which clients ask for it is empty")
        if self._ttl_config is not None:
            raise InvalidJob(f"state {self.name!r} {_TTL_IS_NOT_QUERYABLE}")
        if self._queryable_name not in (None, queryable_state_name):
            raise InvalidJob(
                f"state {self.name!r} is queryable as {self._queryable_name!r} already, not as {queryable_state_name!r}"
            )
        self._queryable_name = queryable_state_name

    def is_queryable(self) -> bool:
        """Returns whether the state is queryable."""
        return self._queryable_name is not None

    def get_queryable_state_name(self) -> str | None:
        """Returns the name under which clients query the state; ``None`` when it is not queryable."""
        return self._queryable_name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """The name and type of a state of one value per key."""

    def __init__(self, name: str, value_type_info: TypeInformation) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """The name of a state of a list per key, and the type of its elements."""

    def __init__(self, name: str, elem_type_info: TypeInformation) -> None:
        super().__init__(name, ListTypeInfo(elem_type_info))
        self.elem_type_info = elem_type_info


class MapStateDescriptor(StateDescriptor):
    """The name of a state of a map per key, or of a broadcast state, and the types of its keys and values."""

    def __init__(self, name: str, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        super().__init__(name, MapTypeInfo(key_type_info, value_type_info))
        self.key_type_info = key_type_info
        self.value_type_info = value_type_info


class ReducingStateDescriptor(StateDescriptor):
    """The name and type of a reducing state. ``reduce_function`` is a ReduceFunction or a callable of two values."""

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction | Callable[[Record, Record], Record],
        type_info: TypeInformation,
    ) -> None:
        super().__init__(name, type_info)
        if not callable(getattr(reduce_function, "reduce", reduce_function)):
            raise InvalidJob(f"state {name!r} needs a ReduceFunction or a function, not {reduce_function!r}")
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> ReduceFunction | Callable[[Record, Record], Record]:
        """Returns the function that combines two values."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """The name and type of an aggregating state. ``state_type_info``: of the accumulator."""

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: TypeInformation) -> None:
        super().__init__(name, state_type_info)
        if not hasattr(agg_function, "create_accumulator"):
            raise InvalidJob(f"state {name!r} needs an AggregateFunction, not {agg_function!r}")
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """Returns the function that folds values into the accumulator."""
        return self._agg_function


class OperatorStateStore(ABC):
    """Operator state by descriptor. Elements are stored in the type of the descriptor; with ``Types.PICKLED_BYTE_ARRAY()`` they may be any picklable
    objects."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[StateValue]:
        """Returns a list whose elements are redistributed evenly to the subtasks when the parallelism changes."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[StateValue]:
        """Returns a list of which every subtask gets all elements at a restore."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[MapKey, StateValue]:
        """Returns a map of which every subtask has an equal copy."""

    @abstractmethod
    def get_registered_state_names(self) -> Set[str]:
        """Returns the names of list and union states that were restored or requested."""

    @abstractmethod
    def get_registered_broadcast_state_names(self) -> Set[str]:
        """Returns the names of the broadcast states that were requested so far."""


class KeyedStateStore(ABC):
    """Access to the state of the current key, by descriptor (Flink: ``KeyedStateStore.java``)."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[StateValue]:
        """Returns a state of one value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[StateValue]:
        """Returns a state of a list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[MapKey, StateValue]:
        """Returns a state of a map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[StateValue]:
        """Returns a state that combines values by a ReduceFunction."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Record, Record]:
        """Returns a state that aggregates values by an AggregateFunction."""


class RuntimeContext(KeyedStateStore):
    """The context that ``open`` receives: the subtask's place in the job, its metrics, and keyed state, which exists for functions on a KeyedStream
    only (PyFlink: ``RuntimeContext``)."""

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
        """Returns the external resources, such as GPUs, that the TaskManager has under a name; empty for a name that its configuration does not declare."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Returns the group in which the function registers metrics."""

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: UserAccumulator) -> None:
        """Registers an accumulator; the sum of those of all subtasks is in the job's result under the name. Raises ``InvalidJob`` when this function
        has one of that name, or another operator of the task one of another type."""

    @abstractmethod
    def get_accumulator(self, name: str) -> UserAccumulator:
        """Returns an accumulator that this function registered. Raises ``InvalidJob`` when there is none."""

    @abstractmethod
    def get_int_counter(self, name: str) -> IntCounter:
        """Returns the accumulator of whole numbers (int) with this name, and creates it when it is new. Raises ``InvalidJob`` when it has another type."""

    @abstractmethod
    def get_long_counter(self, name: str) -> LongCounter:
        """Returns the accumulator of whole numbers (long) with this name, and creates it when it is new."""

    @abstractmethod
    def get_double_counter(self, name: str) -> DoubleCounter:
        """Returns the accumulator of floats with this name, and creates it when it is new."""

    @abstractmethod
    def get_histogram(self, name: str) -> Histogram:
        """Returns the accumulator that counts equal values, and creates it when it is new."""

    @abstractmethod
    def emit_event(self, event: object) -> None:
        """Emits an event down the stream, to every downstream subtask, in order with the records that this function emits.

        For process functions; the event is of a type that was registered (``register_user_event``). It is handled as a record is:
        checkpoints hold it while it is on its way. Functions that are no ``EventListener`` pass it on. After the end of data it
        does nothing. Raises ``UnknownEvent`` for another type, ``InvalidJob`` outside of process functions.
        """

    @abstractmethod
    def send_task_event(self, event: object, input_index: int = 0) -> None:
        """Sends an event up the stream, to every subtask that feeds this input (1: the second input of connected streams).

        For process functions; the event is of a type that was registered, and takes less than 4 KB. It travels beside the
        records and is in no checkpoint: it comes at most once, and is lost when either subtask fails meanwhile. Functions that are no
        ``TaskEventListener`` pass it on up. Raises ``UnknownEvent`` for another type, ``UserError`` for one that is too large,
        ``InvalidJob`` outside of process functions.
        """


class EventListener(ABC):
    """A process function that handles events which upstream functions emit (``RuntimeContext.emit_event``). Flink's runtime has such events
    (``EventSerializer.java``) but does not offer them to users; its ``onWatermark`` (FLIP-467) comes nearest.

    A function that goes by the latest price list::

        class Prices(ProcessFunction, EventListener, CheckpointedFunction):
            def on_event(self, event):
                self.version.update([event.version])
    """

    @abstractmethod
    def on_event(self, event: object) -> Iterable[Record] | None:
        """Handles one event, after all records that its sender had emitted before it; yields or returns what is emitted.

        The event goes no further: ``emit_event`` it again for functions further down. It belongs to no key, so there is no keyed state
        here; operator state is as exact as it is for records. An event comes once from each subtask that passes it on.
        """


class TaskEventListener(ABC):
    """A process function that handles events which downstream functions send (``RuntimeContext.send_task_event``). Flink has them in its runtime only
    (``TaskEventDispatcher.java``)."""

    @abstractmethod
    def on_task_event(self, event: object) -> Iterable[Record] | None:
        """Handles one event between two records; yields or returns what is emitted.

        The event goes no further. It comes at most once: what is on its way when a subtask fails, or when this one has ended, is lost.
        """


UserCode: TypeAlias = Function | Callable[..., Any]
"""A user's function: an object of the right kind, or a callable where one method is enough."""
