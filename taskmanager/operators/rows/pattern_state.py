"""The state of patterns by key: partial matches, their events and nodes, and the queue of events that wait for the watermark.

The partial matches of a key are one value; nodes, events and queued events are separate entries, so that an incremental checkpoint writes only the changed
ones. docs/state-format.md has the layout of each state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from tidegate.common.typeinfo import Types
from tidegate.functions.cep.after_match_skip_strategy import EventId
from tidegate.functions.cep.matcher import KeyMatcher, enqueue
from tidegate.functions.cep.nfa import NFA
from tidegate.functions.cep.shared_buffer import KeptEvent, Node, NodeId, SharedBuffer
from tidegate.model.values import Key
from tidegate.taskmanager.keyed_state.backend import KeyedBackend, KeyedEntries

NFA_STATE: Final = "nfaStateName"
EVENTS: Final = "sharedBuffer-events"
NODES: Final = "sharedBuffer-entries"
QUEUE: Final = "eventQueuesStateName"
_GONE: Final = object()


class _Entries:
    """Entries of one key, read when needed and written by ``flush``."""

    __slots__ = ("_changed", "_group", "_key", "_table")

    def __init__(self, table: KeyedEntries, group: int, key: Key) -> None:
        self._table, self._group, self._key = table, group, key
        self._changed: dict[Any, Any] = {}

    def _find(self, name: Any) -> Any:
        found = self._changed.get(name)
        if found is None:
            found = self._table.peek(self._group, (self._key, name))
        return None if found is _GONE else found

    def _write(self, name: Any, value: Any) -> None:
        self._changed[name] = value

    def _remove(self, name: Any) -> None:
        self._changed[name] = _GONE

    def flush(self) -> None:
        for name, value in self._changed.items():
            if value is _GONE:
                self._table.delete(self._group, (self._key, name))
            else:
                self._table.write(self._group, (self._key, name), value)
        self._changed.clear()


class _Events(_Entries):
    def __getitem__(self, event: EventId) -> KeptEvent:
        found: KeptEvent = self._find(event)
        return found

    def __setitem__(self, event: EventId, kept: KeptEvent) -> None:
        self._write(event, kept)

    def __delitem__(self, event: EventId) -> None:
        self._remove(event)


class _Nodes(_Entries):
    def __getitem__(self, node: NodeId) -> Node:
        found: Node = self._find((node,))
        return found

    def __setitem__(self, node: NodeId, kept: Node) -> None:
        self._write((node,), kept)

    def __delitem__(self, node: NodeId) -> None:
        self._remove((node,))


class _Queue(_Entries):
    def get(self, time: int) -> list[Any] | None:
        found: list[Any] | None = self._find((time,))
        return found

    def __setitem__(self, time: int, events: list[Any]) -> None:
        self._write((time,), events)

    def __delitem__(self, time: int) -> None:
        self._remove((time,))

    def __iter__(self) -> Iterator[int]:
        """Yields the times in state. Used before anything is changed."""
        return iter([time for (time,) in self._table.of_key(self._group, self._key)])


class PatternState:
    """The state of all keys' patterns. Each method uses the current key of the backend. ``register``: registers a timer for it."""

    def __init__(
        self,
        backend: KeyedBackend,
        nfa: NFA,
        register: Callable[[int], None],
        compare: Callable[[Any, Any], int] | None = None,
    ) -> None:
        self._backend, self._nfa, self._register, self._compare = backend, nfa, register, compare
        kind = Types.PICKLED_BYTE_ARRAY()
        self._states = backend.table(NFA_STATE, "value", kind)
        self._events = backend.entries_by_key(EVENTS, kind)
        self._nodes = backend.entries_by_key(NODES, kind)
        self._queue = backend.entries_by_key(QUEUE, kind)

    def enqueue(self, value: Any, timestamp: int) -> None:
        """Keeps an event until the watermark has reached its time."""
        queue = _Queue(self._queue, self._backend.group, self._backend.key)
        enqueue(queue, value, timestamp, self._register)
        queue.flush()

    def read(self) -> KeyMatcher:
        group, key = self._backend.group, self._backend.key
        kept = self._states.peek(group, (key, None))
        next_node, counts, value = (0, {}, None) if kept is None else kept
        state = self._nfa.initial_state() if value is None else self._nfa.state_of(value)
        events, nodes = _Events(self._events, group, key), _Nodes(self._nodes, group, key)
        buffer = SharedBuffer(events, nodes, next_node, dict(counts))
        return KeyMatcher(self._nfa, state, buffer, _Queue(self._queue, group, key), self._register, self._compare)

    def write(self, matcher: KeyMatcher) -> None:
        entry = (self._backend.key, None)
        if matcher.state.is_changed:
            if matcher.has_begun:
                kept = (matcher.buffer.next_node, matcher.buffer.counts, matcher.state.to_value())
                self._states.write(self._backend.group, entry, kept)
            else:
                self._states.delete(self._backend.group, entry)
        for entries in (matcher.buffer.events, matcher.buffer.nodes, matcher.queue):
            assert isinstance(entries, _Entries)
            entries.flush()


__all__ = ["EVENTS", "NFA_STATE", "NODES", "QUEUE", "PatternState"]
