"""The automaton: takes events, returns matches (behaves as Flink's ``NFA``).

    event ─▶ for each partial match the edges whose conditions hold ─▶ new partial matches ─▶ those in the final state are matches
    time ──▶ partial matches that exceeded their time ──▶ timed out; those that had to see no further event in that time ──▶ matches

The automaton reads no clock and keeps nothing between two events: ``NFAState`` and the shared buffer do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from tidegate.functions.cep.after_match_skip_strategy import EventId
from tidegate.functions.cep.compiler import Automaton
from tidegate.functions.cep.conditions import IterativeCondition
from tidegate.functions.cep.match_queue import MatchQueue, PartialMatch
from tidegate.functions.cep.shared_buffer import NodeId, SharedBuffer
from tidegate.functions.cep.states import Action, Edge, State, StateKind
from tidegate.model.errors import InvalidJob

Found: TypeAlias = dict[str, list[Any]]
"""A match: events by stage."""
MatchValue: TypeAlias = tuple[str, NodeId | None, int, int, EventId | None]
StateValue: TypeAlias = tuple[list[MatchValue], list[MatchValue]]
_FINAL, _STOP, _PENDING = StateKind.FINAL, StateKind.STOP, StateKind.PENDING
_TAKE, _IGNORE, _PROCEED = Action.TAKE, Action.IGNORE, Action.PROCEED


class NFAState:
    """Partial matches, and matches that wait for earlier partial matches to be decided."""

    __slots__ = ("completed", "has_begun", "is_changed", "partial")

    def __init__(self, partial: MatchQueue, completed: MatchQueue) -> None:
        self.partial, self.completed = partial, completed
        self.is_changed = False
        self.has_begun = False
        """Whether a partial match has begun since this was last set to ``False``."""

    def to_value(self) -> StateValue:
        """Returns the state as plain values."""
        return [_plain(match) for match in self.partial], [_plain(match) for match in self.completed]


class _View(IterativeCondition.Context):
    """An event and a partial match, as conditions see them."""

    __slots__ = ("_buffer", "_events", "_now", "_partial", "_timestamp", "known", "value")

    def __init__(
        self, value: Any, timestamp: int, buffer: SharedBuffer, conditions: int, now: Callable[[], int]
    ) -> None:
        self.value = value
        self.known: list[bool | None] = [None] * conditions
        self._timestamp = timestamp
        self._buffer, self._now = buffer, now
        self._partial: NodeId | None = None
        self._events: Found | None = None

    @property
    def context(self) -> IterativeCondition.Context:
        return self

    def of(self, partial: PartialMatch) -> None:
        self._partial, self._events = partial.node, None

    def get_events_for_pattern(self, name: str) -> Iterable[Any]:
        if self._events is None:
            self._events = self._buffer.values_of(self._buffer.match_of(self._partial))
        return iter(self._events.get(name, ()))

    def timestamp(self) -> int:
        return self._timestamp

    def current_processing_time(self) -> int:
        return self._now()


class NFA:
    """Runs an automaton. ``handles_timeouts``: ``advance_time`` returns partial matches that timed out."""

    def __init__(
        self, automaton: Automaton, *, handles_timeouts: bool = False, now: Callable[[], int] = lambda: 0
    ) -> None:
        self._automaton = automaton
        self._skip = automaton.skip
        self._handles_timeouts = handles_timeouts
        self._now = now
        self._has_windows = automaton.window_ms > 0 or any(state.window_ms for state in automaton.states.values())

    @property
    def window_ms(self) -> int:
        """Returns the time limit of a whole match in ms; 0: unlimited."""
        return self._automaton.window_ms

    def initial_state(self) -> NFAState:
        """Returns the state before the first event: one partial match, at the start."""
        return NFAState(MatchQueue([PartialMatch(self._automaton.start, None, -1, -1, None)]), MatchQueue())

    def state_of(self, value: StateValue) -> NFAState:
        """Restores the state from plain values. Raises ``InvalidJob`` if the pattern has no such state."""
        partial, completed = value
        return NFAState(MatchQueue(map(self._match, partial)), MatchQueue(map(self._match, completed)))

    def _match(self, value: MatchValue) -> PartialMatch:
        name, node, start_ms, previous_ms, first = value
        state = self._automaton.states.get(name)
        if state is None:
            raise InvalidJob(
                f"a partial match was restored in the state '{name}' of the pattern, which has no such state any longer (its states are "
                f"{', '.join(self._automaton.states)}): start from a savepoint of the pattern as it is, or without one"
            )
        return PartialMatch(state, node, start_ms, previous_ms, first)

    def process(self, state: NFAState, buffer: SharedBuffer, value: Any, timestamp: int) -> list[Found]:
        """Processes an event; returns the matches that it completes. Events must come in the order of time."""
        view = _View(value, timestamp, buffer, self._automaton.simple_conditions, self._now)
        event: EventId | None = None
        partial, potential = MatchQueue(), MatchQueue()
        for match in state.partial:
            view.of(match)
            edges = self._edges(match.state, view)
            if not edges:  # the common case: nothing goes on from here
                if match.state.is_start:
                    partial.add(match)
                else:
                    buffer.release(match.node)
                    state.is_changed = True
                continue
            if event is None and any(edge.action is _TAKE for _, edge in edges):
                event = buffer.register(value, timestamp)
                state.is_changed = True
            kept: list[PartialMatch] = []
            is_stopped = False
            for new in self._next(match, edges, view, buffer, event):
                if match.state.is_start:
                    state.has_begun = True
                if new.state.kind is _FINAL:
                    potential.add(new)
                elif new.state.kind is _STOP:
                    is_stopped = True
                    buffer.release(new.node)
                else:
                    kept.append(new)
            if match.state.is_start:
                kept.append(match)
            if match.node is not None:
                buffer.release(match.node)
            if len(kept) != 1 or not kept[0].is_as(match):
                state.is_changed = True
            if is_stopped:
                for one in kept:
                    buffer.release(one.node)
            else:
                for one in kept:
                    partial.add(one)
        found = self._decide(state, buffer, potential, partial)
        state.partial = partial
        if event is not None:
            buffer.release_event(event)
        return found

    def advance_time(
        self, state: NFAState, buffer: SharedBuffer, timestamp: int
    ) -> tuple[list[Found], list[tuple[Found, int]]]:
        """Advances the time: returns matches that are complete because no event prevented them in time, and timed-out partial matches with the time of
        their timeout in ms. No earlier events may follow."""
        timed_out: list[tuple[Found, int]] = []
        partial, potential = state.partial, MatchQueue()
        if self._has_windows:
            partial = MatchQueue()
            for match in state.partial:
                ended = self._ended(match, timestamp)
                if ended is None:
                    partial.add(match)
                    continue
                state.is_changed = True
                if match.state.kind is _PENDING:
                    potential.add(match)
                    continue
                if self._handles_timeouts:
                    timed_out.append((buffer.values_of(buffer.match_of(match.node)), ended))
                buffer.release(match.node)
        found = self._decide(state, buffer, potential, partial)
        state.partial = partial
        buffer.advance_time(timestamp)
        return found, timed_out

    def _ended(self, match: PartialMatch, timestamp: int) -> int | None:
        """Returns when a partial match timed out; ``None``: it has not."""
        if match.state.is_start:
            return None
        own, whole = match.state.window_ms, self._automaton.window_ms
        if own > 0 and timestamp - match.previous_ms >= own:
            return match.previous_ms + own
        if whole > 0 and timestamp - match.start_ms >= whole:
            return match.start_ms + whole
        return None

    def _decide(self, state: NFAState, buffer: SharedBuffer, potential: MatchQueue, partial: MatchQueue) -> list[Found]:
        """Returns the complete matches that no earlier partial match can discard."""
        completed, skip = state.completed, self._skip
        for match in potential:
            completed.add(match)
        found: list[Found] = []
        while (earliest := completed.first()) is not None:
            if skip.is_skip_strategy:
                waiting = partial.first()
                if waiting is not None and earliest.order > waiting.order:
                    break
            state.is_changed = True
            completed.pop()
            events = buffer.match_of(earliest.node)
            if skip.is_skip_strategy and (bound := skip.first_kept(events)) is not None:
                self._prune(partial, bound, buffer)
                self._prune(completed, bound, buffer)
            found.append(buffer.values_of(events))
            buffer.release(earliest.node)
        return found

    @staticmethod
    def _prune(queue: MatchQueue, bound: tuple[EventId, bool], buffer: SharedBuffer) -> None:
        event, with_it = bound

        def goes(match: PartialMatch) -> bool:
            first = match.first
            return first is not None and (first < event or (with_it and first == event))

        for match in queue.remove(goes):
            buffer.release(match.node)

    def _edges(self, state: State, view: _View) -> list[tuple[State, Edge]]:
        """Returns the edges that take or ignore the event, with their source states, following edges that proceed."""
        found: list[tuple[State, Edge]] = []
        waiting = [state]
        while waiting:
            current = waiting.pop()
            for edge in current.edges:
                if edge.holds is None or edge.holds(view):
                    if edge.action is _PROCEED:
                        waiting.append(edge.target)
                    else:
                        found.append((current, edge))
        return found

    def _next(
        self,
        match: PartialMatch,
        edges: list[tuple[State, Edge]],
        view: _View,
        buffer: SharedBuffer,
        event: EventId | None,
    ) -> list[PartialMatch]:
        """Returns the partial matches that follow from one by an event."""
        found: list[PartialMatch] = []
        is_start = match.state.is_start
        timestamp = view.timestamp()
        for source, edge in edges:
            if edge.action is _IGNORE:
                if not is_start:
                    buffer_node = match.node
                    if buffer_node is not None:
                        buffer.lock(buffer_node)
                    found.append(PartialMatch(edge.target, buffer_node, match.start_ms, match.previous_ms, match.first))
                continue
            assert event is not None
            node = buffer.put(source.stage, event, match.node)
            start_ms, first = (timestamp, event) if is_start else (match.start_ms, match.first)
            final = self._final_after(edge.target, view)
            for target in (edge.target,) if final is None else (edge.target, final):
                buffer.lock(node)
                found.append(PartialMatch(target, node, start_ms, timestamp, first))
        return found

    @staticmethod
    def _final_after(state: State, view: _View) -> State | None:
        """Returns the final state, if edges that proceed lead to it; else ``None``."""
        waiting = [state]
        while waiting:
            for edge in waiting.pop().edges:
                if edge.action is _PROCEED and (edge.holds is None or edge.holds(view)):
                    if edge.target.kind is _FINAL:
                        return edge.target
                    waiting.append(edge.target)
        return None


def _plain(match: PartialMatch) -> MatchValue:
    return match.state.name, match.node, match.start_ms, match.previous_ms, match.first


__all__ = ["NFA", "Found", "NFAState", "StateValue"]
