"""The shared buffer: the events of partial matches, each stored once (Flink: ``SharedBuffer``).

    event ◀── node (stage) ──▶ node before ──▶ ... ──▶ first node

A node records that a stage took an event, and which node precedes it. Partial matches with the same beginning share their nodes. Events and nodes count the
references to them, and are removed when the last one is dropped.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar

from tidegate.functions.cep.after_match_skip_strategy import EventId

NodeId: TypeAlias = int
Node: TypeAlias = tuple[str, EventId, NodeId | None, int]
"""A node: stage, event, previous node, number of references."""
KeptEvent: TypeAlias = tuple[Any, int]
"""A stored event and its number of references."""
K = TypeVar("K", contravariant=True)
V = TypeVar("V")


class KeptEntries(Protocol[K, V]):
    """Entries by key: a dict, or keyed state. Values are never changed in place."""

    def __getitem__(self, name: K, /) -> V: ...

    def __setitem__(self, name: K, value: V, /) -> None: ...

    def __delitem__(self, name: K, /) -> None: ...


class SharedBuffer:
    """Stores events and nodes with reference counts, in dicts or keyed state. ``next_node`` and ``counts`` (how many events were stored, by time) must
    be stored too."""

    __slots__ = ("counts", "events", "next_node", "nodes")

    def __init__(
        self,
        events: KeptEntries[EventId, KeptEvent],
        nodes: KeptEntries[NodeId, Node],
        next_node: NodeId = 0,
        counts: dict[int, int] | None = None,
    ) -> None:
        self.events, self.nodes = events, nodes
        self.next_node = next_node
        self.counts: dict[int, int] = counts if counts is not None else {}

    def register(self, value: Any, timestamp: int) -> EventId:
        """Stores an event until ``release_event``, and as long as a node refers to it."""
        number = self.counts.get(timestamp, 0)
        self.counts[timestamp] = number + 1
        event = (timestamp, number)
        self.events[event] = (value, 1)
        return event

    def release_event(self, event: EventId) -> None:
        """Drops a reference to an event, and the event with its last one."""
        value, references = self.events[event]
        if references == 1:
            del self.events[event]
        else:
            self.events[event] = (value, references - 1)

    def put(self, stage: str, event: EventId, previous: NodeId | None) -> NodeId:
        """Creates a node without references."""
        if previous is not None:
            self.lock(previous)
        value, references = self.events[event]
        self.events[event] = (value, references + 1)
        node = self.next_node
        self.next_node = node + 1
        self.nodes[node] = (stage, event, previous, 0)
        return node

    def lock(self, node: NodeId) -> None:
        """Adds a reference to a node."""
        stage, event, previous, references = self.nodes[node]
        self.nodes[node] = (stage, event, previous, references + 1)

    def release(self, node: NodeId | None) -> None:
        """Drops a reference to a node. Nodes without references are removed, with what they alone refer to."""
        while node is not None:
            stage, event, previous, references = self.nodes[node]
            if references > 1:
                self.nodes[node] = (stage, event, previous, references - 1)
                return
            del self.nodes[node]
            self.release_event(event)
            node = previous

    def match_of(self, node: NodeId | None) -> dict[str, list[EventId]]:
        """Returns the events up to a node by stage, in the order in which they were taken."""
        path = []
        while node is not None:
            stage, event, node, _ = self.nodes[node]
            path.append((stage, event))
        found: dict[str, list[EventId]] = {}
        for stage, event in reversed(path):
            found.setdefault(stage, []).append(event)
        return found

    def values_of(self, match: dict[str, list[EventId]]) -> dict[str, list[Any]]:
        """Returns the events of a match by stage."""
        events = self.events
        return {stage: [events[event][0] for event in ids] for stage, ids in match.items()}

    def advance_time(self, timestamp: int) -> None:
        """Drops the counts of events before this time, since no earlier events follow."""
        if self.counts:
            for time in [time for time in self.counts if time < timestamp]:
                del self.counts[time]


__all__ = ["KeptEntries", "KeptEvent", "Node", "NodeId", "SharedBuffer"]
