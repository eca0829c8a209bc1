"""Reads the state in a savepoint as tables, batch by batch (Flink: ``SavepointReader.java``).

Nothing is read before it is asked for, a batch is a view of a mapped file, and nothing is unpickled. So the memory that reading takes does not depend on
the size of the state; a state with levels, of an incremental checkpoint, is read key group range by key group range.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidegate.functions.time_domain import TimeDomain
from tidegate.model.checkpoint import StateRedistribution
from tidegate.model.errors import Misuse
from tidegate.state_processor.identifier import OperatorIdentifier
from tidegate.state_reader import Checkpoint, Operator, State, open_checkpoint

__all__ = ["SavepointReader"]

BATCH_ROWS = 65_536
"""The most rows of a table: as many as a batch of a stream has (``tidegate.exchange.batch-rows``)."""
TIMERS = {TimeDomain.EVENT_TIME: "_timers.event", TimeDomain.PROCESSING_TIME: "_timers.processing"}
_WINDOWS = ("reduce", "aggregate", "process", "columnar_windows")
"""The kinds of window state (docs/state-format.md)."""


class SavepointReader:
    """Reads a savepoint or checkpoint. Reading methods yield tables of at most ``BATCH_ROWS`` rows, with the columns of docs/state-format.md.

    Each raises ``Misuse`` when there is no such operator or state, ``CorruptData`` and ``StorageError``.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    @staticmethod
    def read(path: str) -> SavepointReader:
        """Opens the savepoint at ``path``: its directory or ``_metadata``, local or a URI. Raises ``StorageError``, ``CorruptData``, ``VersionMismatch``."""
        return SavepointReader(open_checkpoint(path))

    @property
    def checkpoint(self) -> Checkpoint:
        """The savepoint's metadata and files, as ``tidegate.state_reader`` opens them."""
        return self._checkpoint

    def get_operators(self) -> list[OperatorIdentifier]:
        """Returns the operators that have state."""
        return [OperatorIdentifier(o.described.operator_id, o.described.uid) for o in self._checkpoint.operators]

    def get_state_names(self, identifier: OperatorIdentifier) -> list[str]:
        """Returns the names of an operator's states."""
        return [state.name for state in self.operator(identifier).states]

    def read_keyed_state(self, identifier: OperatorIdentifier, state_name: str) -> Iterator[pa.Table]:
        """Yields the rows of a keyed state: ``key_group``, ``key`` (or ``key.<column>``), and ``value`` (or ``value.<column>``)."""
        state = self.state(identifier, state_name)
        if not state.is_keyed:
            raise Misuse(
                f"state {state_name!r} of operator {identifier} is not keyed: read it with read_list_state, read_union_state or "
                "read_broadcast_state"
            )
        return self._batches(state)

    def read_window_state(self, identifier: OperatorIdentifier) -> Iterator[pa.Table]:
        """Yields the state of an operator's windows: as keyed state, with ``window_start`` and ``window_end``, or ``window_id``."""
        states = [s for s in self.operator(identifier).states if s.is_keyed and self._checkpoint.kind_of(s) in _WINDOWS]
        if not states:
            raise Misuse(
                f"operator {identifier} has no state of windows in this savepoint: get_state_names() lists what it has"
            )
        return (batch for state in states for batch in self._batches(state))

    def read_timers(
        self, identifier: OperatorIdentifier, domain: TimeDomain = TimeDomain.EVENT_TIME
    ) -> Iterator[pa.Table]:
        """Yields the timers of an operator: ``key_group``, ``key``, ``timestamp``, and the window's columns; nothing where it has none."""
        states = [state for state in self.operator(identifier).states if state.name == TIMERS[domain]]
        return (batch for state in states for batch in self._batches(state))

    def read_list_state(self, identifier: OperatorIdentifier, state_name: str) -> Iterator[pa.Table]:
        """Yields list state of the operator itself (not keyed): ``subtask`` and ``element``."""
        return self._elements(identifier, state_name, StateRedistribution.SPLIT)

    def read_union_state(self, identifier: OperatorIdentifier, state_name: str) -> Iterator[pa.Table]:
        """Yields union list state: ``subtask`` and ``element``."""
        return self._elements(identifier, state_name, StateRedistribution.UNION)

    def read_broadcast_state(self, identifier: OperatorIdentifier, state_name: str) -> Iterator[pa.Table]:
        """Yields broadcast state once, since all subtasks have equal copies: ``subtask`` and ``element``."""
        return self._elements(identifier, state_name, StateRedistribution.BROADCAST)

    def operator(self, identifier: OperatorIdentifier) -> Operator:
        """Returns an operator of the savepoint."""
        for operator in self._checkpoint.operators:
            if operator.described.operator_id == identifier.operator_id:
                return operator
        known = ", ".join(f"'{operator.title}'" for operator in self._checkpoint.operators) or "no operator with state"
        raise Misuse(f"no operator {identifier} in {self._checkpoint.location}; it has {known}")

    def state(self, identifier: OperatorIdentifier, state_name: str) -> State:
        """Returns one state of an operator."""
        return self.operator(identifier).state(state_name)

    def schema_of(self, identifier: OperatorIdentifier, state_name: str) -> pa.Schema:
        """Returns the columns of a state with the metadata of its file."""
        return self._checkpoint.schema_of(self.state(identifier, state_name))

    def _batches(self, state: State) -> Iterator[pa.Table]:
        for table in self._checkpoint.tables_of(state, type_names=False):
            for at in range(0, table.num_rows, BATCH_ROWS):
                yield table.slice(at, BATCH_ROWS)

    def _elements(
        self, identifier: OperatorIdentifier, state_name: str, redistribution: StateRedistribution
    ) -> Iterator[pa.Table]:
        state = self.state(identifier, state_name)
        if state.is_keyed or state.channels or state.redistribution != redistribution.value:
            raise Misuse(
                f"state {state_name!r} of operator {identifier} is {'keyed' if state.is_keyed else state.redistribution}, not {redistribution.value}: "
                "read it by the method of its kind"
            )
        if redistribution is StateRedistribution.BROADCAST:
            state = State(state.name, elements=state.elements[:1])
        return (table.select(["subtask", "element"]) for table in self._batches(state))
