"""Finds the state that an operator of a program declares, as far as it can be known without running the job.

spec ─┬─ states of the operator itself (splits, committables, windows, reduced values)
      ├─ descriptors that its function shows: attributes of it or of its class, globals and closures of its methods
      └─ opened=True: what ``initialize_state`` and ``open`` ask for, called with a context that keeps nothing
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.adapters import user_function_of
from tidegate.functions.checkpointed_function import CheckpointedFunction
from tidegate.functions.interfaces import Function
from tidegate.functions.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.functions.windows import MergingWindowAssigner, Trigger
from tidegate.model.accumulators import UserAccumulator
from tidegate.model.channel_events import UserEvent
from tidegate.model.checkpoint import StateRedistribution
from tidegate.model.ids import AttemptId, JobId, VertexId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.program import OperatorSpec
from tidegate.model.values import UserObject
from tidegate.operator_options import (
    AsyncBatchesOptions,
    AsyncWaitOptions,
    BroadcastOptions,
    CepOptions,
    FunctionOptions,
    IntervalJoinOptions,
    MapBatchesOptions,
    SinkOptions,
    WindowOptions,
)
from tidegate.records.batch import Batch
from tidegate.taskmanager.keyed_state.handles import StateStore
from tidegate.taskmanager.keyed_state.heap.backend import KeyedStateBackend
from tidegate.taskmanager.keyed_state.heap.copy_on_write_table import StateTable
from tidegate.taskmanager.keyed_state.heap.entries import EntryFormat
from tidegate.taskmanager.keyed_state.timers import EVENT_TIMERS, PROCESSING_TIMERS
from tidegate.taskmanager.keyed_state.ttl import Ttl
from tidegate.taskmanager.operators.columns.async_batches import IN_FLIGHT_STATE
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.operators.rows.async_wait import EVENTS_STATE
from tidegate.taskmanager.operators.rows.async_wait import STATE_NAME as ASYNC_STATE
from tidegate.taskmanager.operators.rows.async_wait import state_descriptor as async_state
from tidegate.taskmanager.operators.rows.interval_join import buffer_descriptors
from tidegate.taskmanager.operators.rows.pattern_state import EVENTS, NFA_STATE, NODES, QUEUE
from tidegate.taskmanager.operators.sinks.sink import SINK_STATES
from tidegate.taskmanager.operators.sources.source import STATE_NAME as SPLITS
from tidegate.taskmanager.operators.user_code.user_function import UserFunction
from tidegate.taskmanager.runtime.operator_factory import key_of
from tidegate.taskmanager.state.function_state import entry_type
from tidegate.taskmanager.windows.rows.contents import STATE_NAME as CONTENTS
from tidegate.taskmanager.windows.rows.contents import contents_type
from tidegate.taskmanager.windows.rows.sessions import MERGING_WINDOWS, merging_windows_type
from tidegate.taskmanager.windows.rows.window import TRIGGER_STATES

KEYED_KINDS = frozenset(
    {
        "keyed_process",
        "keyed_co_process",
        "keyed_broadcast_process",
        "keyed_reduce",
        "interval_join",
        "cep",
        "window",
    }
)
_NO_GROUPS = KeyGroupRange(0, 0)
_ELEMENTS = {"source": frozenset({SPLITS}), "enumerated_source": frozenset({SPLITS}), "sink": SINK_STATES}
_KINDS: dict[type[StateDescriptor], str] = {
    ValueStateDescriptor: "value",
    ListStateDescriptor: "list",
    MapStateDescriptor: "map",
    ReducingStateDescriptor: "reducing",
    AggregatingStateDescriptor: "aggregating",
}


@dataclass(slots=True)
class DeclaredStates:
    """The states that an operator of a program declares, as far as they can be seen without running it."""

    keyed: dict[str, EntryFormat] = field(default_factory=dict)
    """Keyed state by name."""
    elements: dict[str, tuple[StateRedistribution, TypeInformation]] = field(default_factory=dict)
    """Operator state that the function requested, with the type of an element."""
    own_elements: frozenset[str] = frozenset()
    """Names of the operator state of the operator itself."""
    shown: dict[str, StateDescriptor] = field(default_factory=dict)
    """Descriptors that can be seen in the function. They do not say whether they are for keyed or for operator state."""
    key_type: TypeInformation | None = None
    is_opened: bool = False
    keeps_operator_state: bool = False
    """Whether the function inherits from CheckpointedFunction."""


def declared_states(spec: OperatorSpec, *, opened: bool = False) -> DeclaredStates:
    """Returns the states that an operator declares. ``opened``: calls the function's ``initialize_state`` and ``open``; raises what they raise, as
    ``UserFunctionError``.
    """
    found = DeclaredStates(own_elements=_ELEMENTS.get(spec.kind, frozenset()))
    function = _function_of(spec)
    if spec.kind in KEYED_KINDS:
        found.key_type = key_of(spec, spec.key).key_type or Types.PICKLED_BYTE_ARRAY()
        for name, (kind, value_type) in _own_states(spec).items():
            found.keyed[name] = EntryFormat(spec.name, name, kind, found.key_type, value_type)
    found.keeps_operator_state = isinstance(user_function_of(function), CheckpointedFunction)
    if spec.kind == "async_wait":
        found.elements[ASYNC_STATE] = (StateRedistribution.SPLIT, async_state(spec.input_types[0]).elem_type_info)
        found.elements[EVENTS_STATE.name] = (StateRedistribution.SPLIT, EVENTS_STATE.elem_type_info)
    if spec.kind == "async_batches":
        found.elements[IN_FLIGHT_STATE.name] = (StateRedistribution.SPLIT, IN_FLIGHT_STATE.elem_type_info)
    for broadcast in spec.options.states if isinstance(spec.options, BroadcastOptions) else ():
        found.elements[broadcast.name] = (StateRedistribution.BROADCAST, entry_type(broadcast))
    for name, descriptor in _shown_by(spec, user_function_of(function)):
        found.shown.setdefault(name, descriptor)
    if opened:
        _open(spec, function, found)
    return found


def asks_when_opened(spec: OperatorSpec) -> bool:
    """Whether the operator has a function that could ask for state when it opens."""
    return isinstance(_function_of(spec), Function)


def entry_format(operator: str, descriptor: StateDescriptor, key_type: TypeInformation) -> EntryFormat:
    """Returns the format in which keyed state of a descriptor is written."""
    ttl = Ttl.of(descriptor.ttl_config)
    return EntryFormat(operator, descriptor.name, _KINDS[type(descriptor)], key_type, descriptor.type_info, ttl)


def element_types(descriptor: StateDescriptor) -> tuple[StateRedistribution, TypeInformation] | None:
    """Returns redistribution and element type of operator state of a descriptor; ``None`` for other descriptors. List state may be union state as well."""
    match descriptor:
        case ListStateDescriptor():
            return StateRedistribution.SPLIT, descriptor.elem_type_info
        case MapStateDescriptor():
            return StateRedistribution.BROADCAST, entry_type(descriptor)
    return None


def _shown_by(spec: OperatorSpec, function: UserObject) -> Iterator[tuple[str, StateDescriptor]]:
    """Yields the descriptors that can be seen in the functions of an operator, with the names of their states. Triggers and assigners request state only when a
    record comes, by descriptors that are their attributes.
    """
    yield from ((descriptor.name, descriptor) for descriptor in shown_descriptors(function))
    if isinstance(spec.options, WindowOptions):
        assigner = spec.options.assigner
        yield from ((shown.name, shown) for shown in shown_descriptors(assigner))
        trigger = spec.options.trigger or assigner.get_default_trigger(None)
        for part in (trigger, *(inner for inner in vars(trigger).values() if isinstance(inner, Trigger))):
            yield from ((f"{TRIGGER_STATES}{shown.name}", shown) for shown in shown_descriptors(part))


def shown_descriptors(function: UserObject) -> Iterator[StateDescriptor]:
    """Yields the descriptors that can be seen in a function from outside."""
    if function is None:
        return
    kinds = type(function).__mro__ if isinstance(function, Function) else ()
    places = [vars(function) if hasattr(function, "__dict__") else {}, *(vars(kind) for kind in kinds)]
    for place in places:
        for value in place.values():
            if isinstance(value, StateDescriptor):
                yield value
            elif isinstance(value, types.FunctionType):
                yield from _used_by(value)


def _used_by(method: types.FunctionType) -> Iterator[StateDescriptor]:
    seen = [method.__globals__.get(name) for name in method.__code__.co_names]
    for cell in method.__closure__ or ():
        try:
            seen.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    yield from (value for value in seen if isinstance(value, StateDescriptor))


def _function_of(spec: OperatorSpec) -> UserObject:
    match spec.options:
        case WindowOptions(function=function):
            return function[-1]
        case (
            FunctionOptions(func=func)
            | MapBatchesOptions(func=func)
            | AsyncBatchesOptions(func=func)
            | AsyncWaitOptions(func=func)
            | IntervalJoinOptions(func=func)
            | CepOptions(func=func)
        ):
            return func
        case SinkOptions(sink=sink):
            return sink.function
        case _:
            return None


def _own_states(spec: OperatorSpec) -> dict[str, tuple[str, TypeInformation | None]]:
    """Returns kind and type of the keyed states that the operator itself keeps."""
    found: dict[str, tuple[str, TypeInformation | None]] = dict.fromkeys(
        (EVENT_TIMERS, PROCESSING_TIMERS), ("timers", None)
    )
    if spec.kind == "keyed_reduce":
        found["_reduced"] = ("reducing", spec.input_types[0])
    if spec.kind == "interval_join":
        found.update({d.name: ("map", d.type_info) for d in buffer_descriptors(spec.input_types)})
    if spec.kind == "cep":
        found.update(dict.fromkeys((NFA_STATE, EVENTS, NODES, QUEUE), ("value", Types.PICKLED_BYTE_ARRAY())))
    if isinstance(spec.options, WindowOptions):
        options = spec.options
        found[CONTENTS] = contents_type(
            options.function[0],
            spec.input_types[0],
            options.accumulator_type,
            is_timed=options.evictor is not None,
        )
        if isinstance(options.assigner, MergingWindowAssigner):
            found[MERGING_WINDOWS] = ("value", merging_windows_type(options.assigner))
    return found


def _open(spec: OperatorSpec, function: UserObject, found: DeclaredStates) -> None:
    found.is_opened = True
    if not isinstance(function, Function):
        return
    keyed = None if found.key_type is None else _RecordingBackend(spec.name, _NO_GROUPS, found.key_type)
    store = None if keyed is None else StateStore(keyed)
    user, context = UserFunction(function, spec.name), _context_of(spec)
    try:
        user.open(context, store)
    finally:
        user.close()
    found.elements.update(user.requested_states())
    found.keyed.update({} if keyed is None else keyed.requested)


class _RecordingBackend(KeyedStateBackend):
    """A backend that records which states were requested."""

    def __init__(self, operator: str, owned: KeyGroupRange, key_type: TypeInformation) -> None:
        super().__init__(operator, owned, key_type)
        self.requested: dict[str, EntryFormat] = {}

    def table(
        self, state_name: str, kind: str, value_type: TypeInformation | None, ttl: Ttl | None = None
    ) -> StateTable:
        self.requested[state_name] = EntryFormat(self.operator, state_name, kind, self._key_type, value_type, ttl)
        return super().table(state_name, kind, value_type, ttl)


class _Nowhere:
    """Output, timers and metrics that drop everything."""

    def emit(self, batch: Batch) -> None: ...

    def emit_side(self, tag: str, batch: Batch) -> None: ...

    def emit_watermark(self, timestamp_ms: int) -> None: ...

    def emit_idle(self, idle: bool) -> None: ...

    def emit_event(self, event: UserEvent) -> None: ...

    def schedule(self, at_ms: int, callback: Callable[[int], None]) -> object:
        return None

    def cancel(self, token: object) -> None: ...

    def add(self, name: str, amount: int = 1) -> None: ...

    def gauge(self, name: str, value: float) -> None: ...

    def watch(self, name: str, read: Callable[[], float]) -> None: ...

    def accumulate(self, name: str, accumulator: UserAccumulator) -> None: ...

    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> float:
        return 0.0


def _context_of(spec: OperatorSpec) -> OperatorContext:
    nowhere = _Nowhere()
    vertex = VertexId(spec.operator_id)
    return OperatorContext(
        attempt=AttemptId(JobId("0" * 32), vertex, 0, 0),
        operator_id=spec.operator_id,
        operator_name=spec.name,
        job_name="",
        task_name=spec.name,
        parallelism=1,
        max_parallelism=1,
        output=nowhere,
        clock=nowhere,
        timers=nowhere,
        metrics=nowhere,
    )
