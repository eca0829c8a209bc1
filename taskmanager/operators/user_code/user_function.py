"""One user function inside an operator: its lifecycle, its operator state, and its checkpoint notifications.

    initialize_state ─▶ open ─▶ { calls · snapshot_state at the barrier · notifications }* ─▶ close

Restored state that the function does not request is kept and written again. Follows Flink's ``AbstractUdfStreamOperator.java`` and
``StreamingFunctionUtils.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.common.typeinfo import TypeInformation
from tidegate.functions.adapters import user_function_of
from tidegate.functions.base import EventListener, TaskEventListener, UserCode
from tidegate.functions.checkpointed_function import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStateStore,
)
from tidegate.functions.interfaces import KeyedStateStore
from tidegate.model.checkpoint import RestoredOperator, StateRedistribution
from tidegate.model.errors import InvalidJob
from tidegate.taskmanager.keyed_state.handles import StateStore
from tidegate.taskmanager.machines.subtask import EOI_CHECKPOINT_ID
from tidegate.taskmanager.operators.operator import Operator, OperatorContext
from tidegate.taskmanager.operators.user_code.boundary import (
    Collector,
    FunctionContext,
    close_function,
    open_function,
    user_error,
)
from tidegate.taskmanager.state.function_state import FunctionStateBackend
from tidegate.taskmanager.state.operator_state import FrozenParts
from tidegate.taskmanager.state.ports import FrozenState


class UserFunction:
    """A user's function with its lifecycle in an operator: restore, open, snapshot, notifications and close."""

    def __init__(
        self,
        func: UserCode,
        operator: str,
        *,
        keeps_operator_state: bool = False,
        own_states: frozenset[str] = frozenset(),
    ) -> None:
        """Wraps a function. ``func``: the program's function, perhaps inside an adapter. ``operator``: the operator's name, for messages.
        ``keeps_operator_state``: its operator keeps operator state, through ``restore``. ``own_states``: names of operator state that belong to the operator,
        not the function.
        """
        self._own_states = own_states
        self._keeps = keeps_operator_state
        self._func = func
        self._given: UserCode = user_function_of(func)
        self._operator = operator
        self._context: OperatorContext | None = None
        self._backend: FunctionStateBackend | None = None

    def restore(self, context: OperatorContext) -> FunctionStateBackend:
        """Restores operator state, before the function is opened. Raises ``CorruptData``, ``StorageError``."""
        if self._backend is None:
            self._backend = FunctionStateBackend(self._operator, context.subtask_index)
            if (restore := context.restore) and restore.operator:
                self._backend.restore(self._of_function(restore.operator), restore.segments)
        return self._backend

    @property
    def given(self) -> UserCode:
        """The user's own object."""
        return self._given

    def open(
        self, context: OperatorContext, store: StateStore | None = None, collector: Collector | None = None
    ) -> None:
        """Initializes the state of the function and opens it. Raises ``CorruptData``, ``StorageError`` and what the function raises.

        ``store``: keyed state, where there are keys. ``collector``: takes what the function emits, in order with its events.
        """
        if collector is None and isinstance(self._given, (EventListener, TaskEventListener)):
            raise InvalidJob(
                f"operator '{self._operator}': {type(self._given).__qualname__} listens to events, which only process functions can: "
                "put a process() with this listener in front of it"
            )
        self._context = context
        restored = context.restore.operator if context.restore else None
        if self._keeps or isinstance(self._given, CheckpointedFunction) or (restored is not None and restored.operator):
            self.restore(context)
        if isinstance(self._given, CheckpointedFunction):
            given = InitializationContext(context, self.restore(context), store)
            self._call(lambda: self._given.initialize_state(given))
        open_function(self._func, context, FunctionContext(context, store, collector))

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        """Lets the function update its state, then encodes that."""
        assert self._context is not None
        if self._backend is None:
            return None
        if isinstance(self._given, CheckpointedFunction):
            given = _SnapshotContext(checkpoint_id, self._context.checkpoint_timestamp_ms)
            self._call(lambda: self._given.snapshot_state(given))
        return self._backend.freeze()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if isinstance(self._given, CheckpointListener) and checkpoint_id != EOI_CHECKPOINT_ID:
            self._call(lambda: self._given.notify_checkpoint_complete(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if isinstance(self._given, CheckpointListener):
            self._call(lambda: self._given.notify_checkpoint_aborted(checkpoint_id))

    def requested_states(self) -> dict[str, tuple[StateRedistribution, TypeInformation]]:
        """Returns the operator state that the function has requested, with its kind and the type of an element."""
        return {} if self._backend is None else self._backend.registered()

    def close(self) -> None:
        close_function(self._func, self._operator)

    def _of_function(self, restored: RestoredOperator) -> RestoredOperator:
        pairs = zip(restored.operator, restored.slices, strict=True)
        theirs = [pair for pair in pairs if pair[0].state_name not in self._own_states]
        return replace(
            restored, operator=tuple(handle for handle, _ in theirs), slices=tuple(part for _, part in theirs)
        )

    def _call(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            raise user_error(self._operator, error) from error


class FunctionOperatorBase(Operator):
    """Base class of operators that pass checkpoint calls on to their user function. Subclasses open the function."""

    _user: UserFunction

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        return joined(self._user.freeze(checkpoint_id), super().freeze(checkpoint_id))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        self._user.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_aborted(checkpoint_id)
        self._user.notify_checkpoint_aborted(checkpoint_id)


def joined(*parts: FrozenState | None) -> FrozenState | None:
    there = [part for part in parts if part is not None]
    if len(there) > 1:
        return FrozenParts(there)
    return there[0] if there else None


class InitializationContext(FunctionInitializationContext):
    """The argument of ``CheckpointedFunction.initialize_state``."""

    def __init__(self, context: OperatorContext, backend: FunctionStateBackend, store: StateStore | None) -> None:
        self._context = context
        self._backend = backend
        self._store = store

    def is_restored(self) -> bool:
        return self._context.restore is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._context.restore.checkpoint_id if self._context.restore else None

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._backend

    def get_keyed_state_store(self) -> KeyedStateStore:
        if self._store is None:
            raise InvalidJob(
                f"operator '{self._context.operator_name}' has no keyed state, since the stream has no keys: put key_by before "
                "this function"
            )
        return self._store


class _SnapshotContext(FunctionSnapshotContext):
    def __init__(self, checkpoint_id: int, timestamp_ms: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._timestamp_ms = timestamp_ms

    def get_checkpoint_id(self) -> int:
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        return self._timestamp_ms
