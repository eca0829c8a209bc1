"""The program of a vertex: a chain (a tree) of operator specs, which the client builds and a subtask runs.

This is vocabulary only. User objects (functions, sources, sinks, types) are held as ``UserObject``: they are pickled with
cloudpickle by the client, stored as a blob, and unpickled in subtask processes alone.

    network inputs ─▶ operators[0] ─▶ operators[1] ─▶ ... ─▶ outputs (one for each outgoing edge)
                            └─ side output "late" ─▶ operators[2]
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from tidegate.model.graph import Partitioner
from tidegate.model.ids import OperatorId
from tidegate.model.values import UserObject

OperatorKind = Literal[
    "source",
    "enumerated_source",
    "map",
    "flat_map",
    "filter",
    "process",
    "keyed_process",
    "keyed_reduce",
    "co_process",
    "keyed_co_process",
    "broadcast_process",
    "keyed_broadcast_process",
    "async_wait",
    "async_batches",
    "interval_join",
    "cep",
    "window",
    "timestamps_watermarks",
    "sink",
    "committer",
    "select",
    "filter_columns",
    "map_batches",
    "columnar_window",
    "columnar_window_local",
    "columnar_session",
    "columnar_session_local",
    "columnar_aggregate",
    "relational",
]
"""The kinds of operators that ``tidegate.taskmanager.runtime.operator_factory`` can build. The client makes, and so validates, their options when the
graph is built."""


@dataclass(frozen=True, slots=True)
class KeySpec:
    """How the key of a record is computed: by column names (columnar: ``columns``), or by a function of one record (``selector``, a callable ``record
    -> key``). Exactly one is set. ``key_type`` is a TypeInformation or ``None``."""

    columns: tuple[str, ...] = ()
    selector: UserObject = None
    key_type: UserObject = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """The options of an operator; there is a class for each kind in ``tidegate.operator_options``. ``batch_inputs``: in BATCH execution mode, how each
    input of an operator with state is read (``InputMode`` by name)."""

    batch_inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """One operator of a chain."""

    kind: OperatorKind
    operator_id: OperatorId
    name: str
    input_types: tuple[UserObject, ...] = ()
    """The TypeInformation of each input (none for a source)."""
    output_type: UserObject = None
    """The TypeInformation of the main output; ``None`` for a sink."""
    key: KeySpec | None = None
    second_key: KeySpec | None = None
    """The key of input 1 of a keyed two-input operator."""
    options: OperatorOptions = OperatorOptions()
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A link inside a chain: what ``operators[source]`` emits (with ``tag``, or on its main output) goes to ``operators[target]``."""

    source: int
    target: int
    tag: str = ""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """An outgoing edge of the vertex, fed by ``operators[operator]``. ``key`` is set for HASH edges."""

    edge_id: int
    operator: int
    partitioner: Partitioner
    type_info: UserObject
    key: KeySpec | None = None
    tag: str = ""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An incoming edge of the vertex; its records go to input ``input_index`` of ``operators[0]``."""

    edge_id: int
    input_index: int
    type_info: UserObject
    key: KeySpec | None = None
    """The key of the producers' ``OutputSpec``, by which in-flight rows are redistributed after a rescale."""


@dataclass(frozen=True, slots=True)
class VertexProgram:
    """The program that a subtask of a vertex runs. ``operators[0]`` is the head."""

    operators: tuple[OperatorSpec, ...]
    links: tuple[ChainLink, ...] = ()
    inputs: tuple[InputSpec, ...] = ()
    outputs: tuple[OutputSpec, ...] = ()
    buffer_timeout_ms: int | None = None
    """How long a record waits for its batch to fill; -1: until it is full; ``None``: as the job says."""
    events: tuple[tuple[str, UserObject], ...] = ()
    """The names and types of user events that other processes cannot import (``tidegate.wire.user_events``)."""

    def __setstate__(self, state: list[object]) -> None:
        """Restores a pickled program; one of an earlier version lacks fields that were added later, which get their defaults."""
        for position, found in enumerate(fields(self)):
            object.__setattr__(self, found.name, state[position] if position < len(state) else found.default)

    def flush_ms(self, of_job: int | None) -> int | None:
        """Returns the buffer timeout in effect; ``None``: batches are sent when they are full."""
        if self.buffer_timeout_ms is None:
            return of_job
        return self.buffer_timeout_ms if self.buffer_timeout_ms >= 0 else None
