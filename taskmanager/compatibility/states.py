"""Examines whether an operator of a program can read its states in a checkpoint: names, kinds and types are compared, with the rule by which a subtask restores
them (``schema_evolution``). No state is read beyond the schema of a file.

| verdict        | when                                                                                            |
|----------------|-------------------------------------------------------------------------------------------------|
| RESTORES       | the job declares it, and the stored types can be read; ``text`` tells what changes              |
| UNKNOWN        | nothing seen declares it: it is kept for a function that asks, whose types are checked then     |
| DROPPED        | the operator keeps no state of this sort: it is gone with the next checkpoint                   |
| CANNOT_BE_READ | stored as something that the job's declaration does not hold                                    |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from tidegate.columnar.aggregates.names import internal_name
from tidegate.common.typeinfo import TypeInformation
from tidegate.model.checkpoint import SegmentHandle, StateRedistribution
from tidegate.model.errors import SchemaMismatch
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.program import OperatorSpec
from tidegate.operator_options import AggregateOptions, ColumnarWindowOptions, SessionOptions
from tidegate.records.schema_evolution import Refusal, evolve
from tidegate.taskmanager.compatibility.declared_states import (
    DeclaredStates,
    declared_states,
    element_types,
    entry_format,
)
from tidegate.taskmanager.operators.columns.aggregate import columns_in_state
from tidegate.taskmanager.runtime.operator_factory import options_of, windows_of
from tidegate.taskmanager.state.files.earlier_columns import KEY_PREFIX, VALUE_PREFIX, are_keys, as_written_now
from tidegate.taskmanager.state.files.segments import DELETED, ELEMENT, KEY_GROUP, metadata_of
from tidegate.taskmanager.state.ports import SegmentSource
from tidegate.taskmanager.windows.state.files import (
    WINDOW_COLUMNS,
    WINDOWS,
    PartialsFormat,
    WindowFormat,
    read_windows,
)
from tidegate.taskmanager.windows.state.sessions.rows import SessionFormat

_ANY_FUNCTION = frozenset(
    {
        "map",
        "flat_map",
        "filter",
        "process",
        "co_process",
        "broadcast_process",
        "async_wait",
        "async_batches",
        "map_batches",
    }
)


class StateOutcome(Enum):
    """The outcome for one stored state if the program is restored from it; the table at the top of this file says when."""

    RESTORES = "RESTORES"
    UNKNOWN = "UNKNOWN"
    DROPPED = "DROPPED"
    CANNOT_BE_READ = "CANNOT_BE_READ"


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state in a checkpoint. ``redistribution``: ``None`` for keyed state; ``schema``: of one of its files; ``segments`` and ``source``: the files of keyed
    state, for what their schema does not say.
    """

    name: str
    kind: str
    redistribution: StateRedistribution | None
    schema: pa.Schema
    segments: tuple[SegmentHandle, ...] = ()
    source: SegmentSource | None = None


@dataclass(frozen=True, slots=True)
class StateVerdict:
    """The outcome for one stored state. ``text``: the reason, or what changes, for the user."""

    name: str
    outcome: StateOutcome
    text: str = ""


def examine_states(spec: OperatorSpec, stored: Sequence[StoredState], *, opened: bool = False) -> list[StateVerdict]:
    """Returns the verdict on each stored state. ``opened``: calls ``initialize_state`` and ``open`` of the function to learn which state it requests; raises
    what they raise, as ``UserFunctionError``.
    """
    return judge_states(spec, stored, declared_states(spec, opened=opened))


def judge_states(
    spec: OperatorSpec, stored: Sequence[StoredState], declared: DeclaredStates, not_opened: str = ""
) -> list[StateVerdict]:
    """Compares what is stored with what the operator declares. ``not_opened``: why its function could not be opened."""
    found = [
        _examine_elements(spec, declared, state) if state.redistribution else _examine_keyed(spec, declared, state)
        for state in stored
    ]
    if not not_opened:
        return found
    text = f"the function could not be opened here to find what state it asks for: {not_opened}; see --open"
    return [replace(one, text=text) if one.outcome is StateOutcome.UNKNOWN else one for one in found]


def _examine_keyed(spec: OperatorSpec, declared: DeclaredStates, state: StoredState) -> StateVerdict:
    if spec.kind in ("columnar_window", "columnar_session"):
        return _examine_windows(spec, state)
    if spec.kind == "columnar_aggregate":
        return _examine_aggregates(spec, state)
    if declared.key_type is None:
        return StateVerdict(state.name, StateOutcome.DROPPED, "the operator has no keys now")
    columns = _without(state.schema, KEY_GROUP)
    layout = declared.keyed.get(state.name)
    if layout is None and state.name in declared.shown:
        layout = entry_format(spec.name, declared.shown[state.name], declared.key_type)
    if layout is None:
        keys = [name for name in columns.names if name == "key" or name.startswith(KEY_PREFIX)]
        wanted = pa.schema([declared.key_type.arrow_field("key")])
        found = _compared(state.name, pa.schema([columns.field(name) for name in keys]), wanted)
        return found if found.outcome is StateOutcome.CANNOT_BE_READ else _undeclared(declared, state)
    if layout.kind != state.kind:
        text = f"stored as {state.kind} state, the job declares {layout.kind} state"
        return StateVerdict(state.name, StateOutcome.CANNOT_BE_READ, text)
    return _compared(state.name, columns, layout.declared)


def _examine_elements(spec: OperatorSpec, declared: DeclaredStates, state: StoredState) -> StateVerdict:
    assert state.redistribution is not None
    if state.name in declared.own_elements:
        return StateVerdict(state.name, StateOutcome.RESTORES)
    has_function = spec.kind in _ANY_FUNCTION or declared.key_type is not None
    if not has_function:
        return StateVerdict(state.name, StateOutcome.DROPPED, f"a {spec.kind} keeps no such state")
    wanted = declared.elements.get(state.name)
    if wanted is None and declared.keeps_operator_state and state.name in declared.shown:
        return _examine_shown_elements(declared, state)
    if wanted is None:
        return _undeclared(declared, state)
    return _elements_of(state, *wanted)


def _examine_shown_elements(declared: DeclaredStates, state: StoredState) -> StateVerdict:
    """Examines operator state whose descriptor does not say whether list or union state is meant."""
    found = element_types(declared.shown[state.name])
    if found is None:
        return _undeclared(declared, state)
    mode, type_info = found
    broadcast = StateRedistribution.BROADCAST
    if broadcast in (mode, state.redistribution):
        return _elements_of(state, mode, type_info)
    assert state.redistribution is not None
    compared = _elements_of(state, state.redistribution, type_info)
    if compared.outcome is not StateOutcome.RESTORES:
        return compared
    text = f"it restores if the function asks for {state.kind} state, which is known only when the function is opened: see --open"
    return StateVerdict(state.name, StateOutcome.UNKNOWN, "; ".join(filter(None, (text, compared.text))))


def _elements_of(state: StoredState, mode: StateRedistribution, type_info: TypeInformation) -> StateVerdict:
    if mode is not state.redistribution:
        text = f"stored as {state.kind} state, the job asks for {mode.value.lower()} state"
        return StateVerdict(state.name, StateOutcome.CANNOT_BE_READ, text)
    return _compared(state.name, state.schema, pa.schema([type_info.arrow_field(ELEMENT)]))


def _examine_windows(spec: OperatorSpec, state: StoredState) -> StateVerdict:
    """Examines windows over columns: partial aggregates have to be those of the job, column by column."""
    if state.kind != "columnar_windows":
        return StateVerdict(
            state.name, StateOutcome.CANNOT_BE_READ, f"stored as {state.kind} state of another operator"
        )
    inside = list(map(internal_name, _windows_of(spec).keys))
    keys = [KEY_PREFIX + name for name in inside]
    kept = [name for name in state.schema.names if name.startswith(KEY_PREFIX)]
    if not are_keys([name.removeprefix(KEY_PREFIX) for name in kept], inside):
        text = f"stored with the keys {_names(kept, KEY_PREFIX)}, the job has {_names(keys, KEY_PREFIX)}"
        return StateVerdict(state.name, StateOutcome.CANNOT_BE_READ, text)
    wanted = _window_columns(spec, keys)
    schema = _written_now(spec, state.schema, wanted)
    stored = {f.name: f.type for f in schema if f.name not in (KEY_GROUP, *WINDOW_COLUMNS)}
    if stored != wanted:
        different = [name for name in [*stored, *wanted] if stored.get(name) != wanted.get(name)]
        name = different[0] if different else "their order"
        before, after = (f"{found.get(name, 'nothing')}" for found in (stored, wanted))
        text = (
            f"its aggregates differ: {name} is stored as {before}, the job has {after}; give the operator another uid"
        )
        return StateVerdict(state.name, StateOutcome.CANNOT_BE_READ, text)
    form = windows_of(spec)
    try:
        _read_as_restored(form, state)
    except SchemaMismatch as error:
        return StateVerdict(state.name, StateOutcome.CANNOT_BE_READ, error.message)
    return StateVerdict(state.name, StateOutcome.RESTORES, _other_gap(form, metadata_of(state.schema).get("gap_ms")))


def _read_as_restored(form: PartialsFormat, state: StoredState) -> None:
    """Raises ``SchemaMismatch`` where a subtask would. Rows are read only from files of earlier versions, whose metadata does not describe their windows."""
    form.check(state.schema)
    if not isinstance(form, WindowFormat) or state.source is None or not state.segments:
        return
    last = max(segment.key_groups.end for segment in state.segments)
    if WINDOWS not in metadata_of(state.schema):
        with closing(read_windows(form, KeyGroupRange(0, last), state.segments, state.source)) as read:
            for _ in read:
                pass


def _other_gap(form: PartialsFormat, stored: object) -> str:
    if not isinstance(form, SessionFormat) or not isinstance(stored, int) or stored == form.gap_ms:
        return ""
    return (
        f"written with a gap of {stored} ms, the job has {form.gap_ms} ms: a session that is open ends as it was written, unless a row comes "
        "before that"
    )


def _windows_of(spec: OperatorSpec) -> ColumnarWindowOptions | SessionOptions:
    is_session = isinstance(spec.options, SessionOptions)
    return options_of(spec, SessionOptions) if is_session else options_of(spec, ColumnarWindowOptions)


def _window_columns(spec: OperatorSpec, keys: Sequence[str]) -> dict[str, pa.DataType]:
    schema = spec.input_types[0].arrow_schema()
    options = _windows_of(spec)
    if options.input != "partial":
        plan = columns_in_state(spec.name, options.keys, options.aggregates, schema)
        return {f.name: f.type for f in plan}
    partials = [f for f in schema if f.name not in WINDOW_COLUMNS]
    return {(KEY_PREFIX if KEY_PREFIX + f.name in keys else VALUE_PREFIX) + f.name: f.type for f in partials}


def _examine_aggregates(spec: OperatorSpec, state: StoredState) -> StateVerdict:
    if state.kind != "columnar_keyed":
        return StateVerdict(
            state.name, StateOutcome.CANNOT_BE_READ, f"stored as {state.kind} state of another operator"
        )
    options, schema = options_of(spec, AggregateOptions), spec.input_types[0].arrow_schema()
    expires = options.ttl is not None
    wanted = columns_in_state(spec.name, options.keys, options.aggregates, schema, expires=expires)
    try:
        stored = _written_now(spec, _without(_without(state.schema, KEY_GROUP), DELETED), wanted.names)
    except SchemaMismatch as error:
        return StateVerdict(state.name, StateOutcome.CANNOT_BE_READ, error.message)
    return _compared(state.name, stored, wanted)


def _written_now(spec: OperatorSpec, stored: pa.Schema, wanted: Iterable[str]) -> pa.Schema:
    """Returns the columns to which a restore converts those of earlier versions. Raises ``SchemaMismatch``."""
    keys, values = (
        [name.removeprefix(prefix) for name in wanted if name.startswith(prefix)]
        for prefix in (KEY_PREFIX, VALUE_PREFIX)
    )
    empty = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in stored.types], schema=stored.remove_metadata())
    return as_written_now(empty, keys, values, spec.name).schema


def _compared(name: str, stored: pa.Schema, wanted: pa.Schema) -> StateVerdict:
    plan = evolve(stored.remove_metadata(), wanted)
    if isinstance(plan, Refusal):
        return StateVerdict(name, StateOutcome.CANNOT_BE_READ, "; ".join(plan.reasons))
    return StateVerdict(name, StateOutcome.RESTORES, "; ".join(plan.changes))


def _undeclared(declared: DeclaredStates, state: StoredState) -> StateVerdict:
    text = "declared when the function opens: see --open"
    if declared.is_opened:
        text = "the function does not ask for this state when it opens; the state is kept, and checked when a record makes the function ask for it"
    return StateVerdict(state.name, StateOutcome.UNKNOWN, text)


def _without(schema: pa.Schema, name: str) -> pa.Schema:
    return pa.schema([field for field in schema if field.name != name])


def _names(columns: Sequence[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in columns]
