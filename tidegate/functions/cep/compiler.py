"""The compiler from patterns to automata (behaves as Flink's ``NFACompiler``).

    stages, last to first ─▶ for each its states, whose edges lead to the states of the following stages ─▶ start state

A stage of ``times(3)`` is three states, one of ``one_or_more`` two: the first event, and a loop. If a state can ignore an event and can also proceed
without one, ignoring leads to a copy of the state that cannot proceed; otherwise two branches would reach the same state.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.functions.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from tidegate.functions.cep.conditions import AndCondition, Condition, NotCondition, TrueCondition
from tidegate.functions.cep.errors import MalformedPatternException
from tidegate.functions.cep.pattern import GroupPattern, Pattern, WithinType
from tidegate.functions.cep.quantifier import ConsumingStrategy, QuantifierProperty, Times
from tidegate.functions.cep.states import Action, State, StateKind

END = "$endState$"
_TRUE = TrueCondition()


@dataclass(frozen=True, slots=True)
class Automaton:
    """A compiled pattern. ``window_ms``: the time from the first to the last event must be less; 0: unlimited."""

    start: State
    states: dict[str, State]
    window_ms: int
    skip: AfterMatchSkipStrategy
    simple_conditions: int
    """The number of conditions that are evaluated once for an event and not for each partial match."""

    def can_match_nothing(self) -> bool:
        """Returns whether a match may have no events."""
        seen: set[str] = set()
        waiting = [self.start]
        while waiting:
            state = waiting.pop()
            if state.name in seen:
                continue
            seen.add(state.name)
            for edge in state.edges:
                if edge.action is Action.PROCEED:
                    if edge.target.kind is StateKind.FINAL:
                        return True
                    waiting.append(edge.target)
        return False


def compile_pattern(pattern: Pattern) -> Automaton:
    """Compiles a pattern. Raises ``MalformedPatternException``."""
    return _Compiler(pattern).compile()


class _Compiler:
    def __init__(self, pattern: Pattern) -> None:
        self._current = pattern
        self._last = pattern
        self._following: Pattern | None = None
        self._group: GroupPattern | None = None
        self._first_of_loop: dict[int, bool] = {}
        self._states: dict[str, State] = {}
        self._stops: dict[str, State] = {}
        self._before_greedy: dict[str, State] = {}
        """For each state that follows a greedy stage, by its name: a copy from before its edges were restricted to events that the stage does not take."""
        self._window_ms: int | None = None

    def compile(self) -> Automaton:
        self._check_names()
        self._check_skip_strategy()
        sink = self._state(END, StateKind.FINAL)
        self._window_ms = self._last.get_window_size()
        start = self._convert(self._middle_states(sink))
        start.is_start = True
        window_ms = self._window_ms
        if window_ms is not None and any(state.window_ms > window_ms for state in self._states.values()):
            raise MalformedPatternException(
                "The window length between the previous and current event cannot be larger than the window length "
                "between the first and last event for a Pattern."
            )
        if self._last.get_quantifier().get_consuming_strategy() is ConsumingStrategy.NOT_FOLLOW:
            named = self._states.get(self._last.get_name())
            if (named is None or named.window_ms <= 0) and not window_ms:
                raise MalformedPatternException(
                    "NotFollowedBy is not supported without windowTime as a last part of a Pattern!"
                )
        self._check_ends()
        numbers: list[Condition] = []
        for state in self._states.values():
            for edge in state.edges:
                edge.holds = edge.condition.compiled(numbers)
        return Automaton(start, self._states, window_ms or 0, self._last.get_after_match_skip_strategy(), len(numbers))

    def _check_names(self) -> None:
        seen = {END}
        stage: Pattern | None = self._last
        while stage is not None:
            inner: Pattern | None = stage.get_raw_pattern() if isinstance(stage, GroupPattern) else stage
            while inner is not None:
                if inner.get_name() in seen:
                    raise MalformedPatternException(
                        f"Duplicate pattern name: {inner.get_name()}. Names must be unique."
                    )
                seen.add(inner.get_name())
                inner = inner.get_previous() if inner is not stage else None
            stage = stage.get_previous()

    def _check_skip_strategy(self) -> None:
        wanted = self._last.get_after_match_skip_strategy().pattern_name
        if wanted is None:
            return
        stage: Pattern | None = self._last
        while stage is not None and stage.get_name() != wanted:
            stage = stage.get_previous()
        if stage is None:
            raise MalformedPatternException(
                "The pattern name specified in AfterMatchSkipStrategy can not be found in the given Pattern"
            )

    def _check_ends(self) -> None:
        """Raises ``MalformedPatternException`` for a cycle of proceeding edges. A group that repeats without limit and may take no event has one; Flink
        loops endlessly there.
        """
        done: set[str] = set()
        for state in self._states.values():
            path: list[tuple[State, list[State]]] = [(state, _proceeding(state))]
            on_path = {state.name}
            while path:
                current, targets = path[-1]
                if not targets:
                    path.pop()
                    on_path.discard(current.name)
                    done.add(current.name)
                    continue
                target = targets.pop()
                if target.name in on_path:
                    raise MalformedPatternException(
                        f"a group of the pattern repeats without end although all of its stages may take no event ('{current.stage}' and "
                        f"'{target.stage}' are in it): no event would ever be decided; make a stage of the group one that takes an event"
                    )
                if target.name not in done:
                    on_path.add(target.name)
                    path.append((target, _proceeding(target)))

    def _state(self, name: str, kind: StateKind, stage: str | None = None) -> State:
        found, number = name, 0
        while found in self._states:
            found, number = f"{name}:{number}", number + 1
        state = self._states[found] = State(found, name if stage is None else stage, kind)
        return state

    def _state_of_stage(self, kind: StateKind, *, takes: bool) -> State:
        """Creates a state for the stage that is compiled, with the time within which its next event has to come."""
        state = self._state(self._current.get_name(), kind)
        if takes:
            times = self._current.get_times()
            if times is None:
                state.window_ms = self._current.get_window_size(WithinType.PREVIOUS_AND_CURRENT) or 0
            elif state.name != self._current.get_name():
                state.window_ms = times.window_ms or 0
        return state

    def _stop_state(self, condition: Condition, name: str) -> State:
        """Returns the stop state of a negated stage."""
        state = self._stops.get(name)
        if state is None:
            state = self._stops[name] = self._state(name, StateKind.STOP)
            state.add(Action.TAKE, state, condition)
        return state

    def _middle_states(self, sink: State) -> State:
        """Creates the states of all stages but the first."""
        while (previous := self._current.get_previous()) is not None:
            match self._current.get_quantifier().get_consuming_strategy():
                case ConsumingStrategy.NOT_FOLLOW:  # otherwise the stages behind have conditions for it
                    has_time = self._current.get_window_size(WithinType.PREVIOUS_AND_CURRENT) is not None
                    if (has_time or (self._window_ms or 0) > 0) and sink.kind is StateKind.FINAL:
                        pending = self._state_of_stage(StateKind.PENDING, takes=True)
                        refused = self._take_condition(self._current)
                        pending.add(Action.PROCEED, self._stop_state(refused, self._current.get_name()), refused)
                        pending.add(Action.IGNORE, pending, NotCondition(refused))
                        sink = pending
                case ConsumingStrategy.NOT_NEXT:
                    state = self._state_of_stage(StateKind.NORMAL, takes=True)
                    refused = self._take_condition(self._current)
                    stop = self._stop_state(refused, self._current.get_name())
                    onward = Action.IGNORE if sink.kind is StateKind.FINAL else Action.PROCEED
                    state.add(onward, sink, NotCondition(refused))
                    state.add(Action.PROCEED, stop, refused)
                    sink = state
                case _:
                    sink = self._convert(sink)
            self._following, self._current = self._current, previous
            own = previous.get_window_size()
            if own is not None and (self._window_ms is None or own < self._window_ms):
                self._window_ms = own
        return sink

    def _convert(self, sink: State) -> State:
        """Creates the states of the current stage; returns its entry state."""
        quantifier, times = self._current.get_quantifier(), self._current.get_times()
        if quantifier.has_property(QuantifierProperty.LOOPING):
            assert times is not None
            self._set_first_of_loop(False)
            looping = self._looping(self._without_nots(sink))
            self._set_first_of_loop(True)
            state = self._repeated(looping, sink, times)
        elif quantifier.has_property(QuantifierProperty.TIMES):
            assert times is not None
            state = self._repeated(sink, sink, times)
        else:
            current = self._current
            state = self._single(
                sink,
                sink,
                self._take_condition(current),
                self._ignore_condition(current),
                is_optional=self._is_optional(current),
            )
        self._add_stops(state)
        return state

    def _repeated(self, sink: State, proceed: State, times: Times) -> State:
        """Creates the states of a stage of ``times``: as many as events at most; those beyond the minimum are optional."""
        current = self._current
        self._set_first_of_loop(False)
        until = current.get_until_condition()
        inner = _until(self._inner_ignore_condition(current), until)
        take = _until_of_take(self._take_condition(current), until)
        if current.get_quantifier().has_property(QuantifierProperty.GREEDY) and times.from_ != times.to:
            if until is not None:
                self._before_greedy[sink.name] = self._copy(sink)
            _wait_for(sink, take)
        for _ in range(times.from_, times.to):
            sink = self._single(sink, proceed, take, inner, is_optional=True)
            self._add_stop_after_loop(sink)
        for _ in range(times.from_ - 1):
            sink = self._single(sink, None, take, inner, is_optional=False)
            self._add_stop_after_loop(sink)
        self._set_first_of_loop(True)
        return self._single(
            sink, proceed, take, self._ignore_condition(current), is_optional=self._is_optional(current)
        )

    def _single(
        self, sink: State, proceed: State | None, take: Condition, ignore: Condition | None, *, is_optional: bool
    ) -> State:
        """Creates a state for one event of the stage, or the states of a group."""
        current = self._current
        if isinstance(current, GroupPattern):
            return self._of_group(current, sink, proceed, is_optional=is_optional)
        state = self._state_of_stage(StateKind.NORMAL, takes=True)
        following = self._without_nots(sink)
        state.add(Action.TAKE, following, take)
        if is_optional:
            assert proceed is not None
            self._add_proceed(state, proceed)
        if ignore is not None:
            ignoring = state
            if is_optional or self._is_head_of_optional_group(current):
                ignoring = self._state_of_stage(StateKind.NORMAL, takes=False)
                ignoring.add(Action.TAKE, following, take)
                ignoring.add(Action.IGNORE, ignoring, ignore)
                self._add_stops(ignoring)
            state.add(Action.IGNORE, ignoring, ignore)
        return state

    def _add_proceed(self, state: State, proceed: State) -> None:
        always, until = self._always(), self._current.get_until_condition()
        if until is None or not self._current.get_quantifier().has_property(QuantifierProperty.GREEDY):
            state.add(Action.PROCEED, proceed, always)
            return
        state.add(Action.PROCEED, self._before_greedy[proceed.name], AndCondition(always, until))
        state.add(Action.PROCEED, proceed, AndCondition(always, NotCondition(until)))

    def _looping(self, sink: State) -> State:
        """Creates a state of the pattern's automaton that takes any number of events."""
        current = self._current
        if isinstance(current, GroupPattern):
            return self._looping_group(current, sink)
        until = current.get_until_condition()
        ignore = _until(self._inner_ignore_condition(current), until)
        take = _until_of_take(self._take_condition(current), until)
        state = self._state_of_stage(StateKind.NORMAL, takes=True)
        is_greedy = current.get_quantifier().has_property(QuantifierProperty.GREEDY)
        if is_greedy and until is not None:
            self._before_greedy[sink.name] = self._copy(sink)
        self._add_proceed(state, sink)
        if is_greedy:
            _wait_for(sink, self._take_condition(current))
        state.add(Action.TAKE, state, take)
        self._add_stop_after_loop(state)
        if ignore is not None:
            ignoring = self._state_of_stage(StateKind.NORMAL, takes=False)
            ignoring.add(Action.TAKE, state, take)
            ignoring.add(Action.IGNORE, ignoring, ignore)
            state.add(Action.IGNORE, ignoring, ignore)
            self._add_stop_after_loop(ignoring)
        return state

    def _of_group(self, group: GroupPattern, sink: State, proceed: State | None, *, is_optional: bool) -> State:
        always = self._always()
        state = self._within_group(group, sink)
        if is_optional:
            assert proceed is not None
            state.add(Action.PROCEED, proceed, always)
        return state

    def _looping_group(self, group: GroupPattern, sink: State) -> State:
        always = self._always()
        again = self._state_of_stage(StateKind.NORMAL, takes=True)
        state = self._within_group(group, again)
        state.add(Action.PROCEED, sink, always)
        again.add(Action.PROCEED, state, always)
        return state

    def _within_group(self, group: GroupPattern, sink: State) -> State:
        outer = self._current, self._following, self._group
        self._group, self._current = group, group.get_raw_pattern()
        state = self._convert(self._middle_states(sink))
        self._current, self._following, self._group = outer
        return state

    def _without_nots(self, sink: State) -> State:
        """Returns a copy of the following states without the negated stages before an optional stage, which do not apply once the optional stage took an
        event.
        """
        nots = self._nots_before()
        if not nots or not self._current.get_quantifier().has_property(QuantifierProperty.OPTIONAL):
            return sink
        copy = self._state(sink.name, sink.kind, sink.stage)
        names = {name for _, name in nots}
        for edge in sink.edges:
            target = edge.target
            if edge.action is not Action.PROCEED:
                copy.add(edge.action, copy if target is sink else target, edge.condition)
            elif target.kind is not StateKind.STOP:
                copy.add(edge.action, self._without_nots(target), edge.condition)
            elif target.name not in names:
                copy.add(edge.action, target, edge.condition)
        return copy

    def _copy(self, state: State) -> State:
        copy = self._state(state.stage, state.kind)
        for edge in state.edges:
            copy.add(edge.action, copy if edge.target is state else edge.target, edge.condition)
        return copy

    def _nots_before(self) -> list[tuple[Condition, str]]:
        """Returns the conditions and names of negated stages between the previous stage that took an event and this one."""
        found = []
        stage = self._current
        while (previous := stage.get_previous()) is not None:
            is_not = previous.get_quantifier().get_consuming_strategy() is ConsumingStrategy.NOT_FOLLOW
            if not is_not and not previous.get_quantifier().has_property(QuantifierProperty.OPTIONAL):
                break
            stage = previous
            if is_not:
                found.append((self._take_condition(stage), stage.get_name()))
        return found

    def _add_stops(self, state: State) -> None:
        for condition, name in self._nots_before():
            state.add(Action.PROCEED, self._stop_state(condition, name), condition)

    def _add_stop_after_loop(self, state: State) -> None:
        following = self._following
        if following and following.get_quantifier().get_consuming_strategy() is ConsumingStrategy.NOT_FOLLOW:
            condition = self._take_condition(following)
            state.add(Action.PROCEED, self._stop_state(condition, following.get_name()), condition)

    def _set_first_of_loop(self, is_first: bool) -> None:
        if isinstance(self._current, GroupPattern):
            self._first_of_loop[id(self._current)] = is_first

    def _is_first_of_loop(self) -> bool:
        return self._first_of_loop.get(id(self._group), True)

    def _is_head_of_group(self, stage: Pattern) -> bool:
        return self._group is not None and stage.get_previous() is None

    @staticmethod
    def _is_optional(stage: Pattern) -> bool:
        return stage.get_quantifier().has_property(QuantifierProperty.OPTIONAL)

    def _is_head_of_optional_group(self, stage: Pattern) -> bool:
        group = self._group
        return (
            group is not None
            and self._is_head_of_group(stage)
            and self._is_first_of_loop()
            and group.get_quantifier().has_property(QuantifierProperty.OPTIONAL)
        )

    def _inner_ignore_condition(self, stage: Pattern) -> Condition | None:
        quantifier = stage.get_quantifier()
        if self._group is not None and self._is_head_of_group(stage):
            quantifier = self._group.get_quantifier()
        return self._ignored(stage, quantifier.get_inner_consuming_strategy())

    def _ignore_condition(self, stage: Pattern) -> Condition | None:
        strategy = stage.get_quantifier().get_consuming_strategy()
        if self._group is not None and self._is_head_of_group(stage):
            quantifier = self._group.get_quantifier()
            is_first = self._is_first_of_loop()
            strategy = quantifier.get_consuming_strategy() if is_first else quantifier.get_inner_consuming_strategy()
        return self._ignored(stage, strategy)

    def _ignored(self, stage: Pattern, strategy: ConsumingStrategy) -> Condition | None:
        """Returns the condition of events that a strategy ignores; ``None``: none."""
        match strategy:
            case ConsumingStrategy.SKIP_TILL_NEXT:
                ignored: Condition | None = NotCondition(stage.get_condition())
            case ConsumingStrategy.SKIP_TILL_ANY:
                ignored = _TRUE
            case _:
                ignored = None
        return _until(ignored, self._group_until())

    def _take_condition(self, stage: Pattern) -> Condition:
        return _until_of_take(stage.get_condition(), self._group_until())

    def _always(self) -> Condition:
        return _until_of_take(_TRUE, self._group_until())

    def _group_until(self) -> Condition | None:
        return None if self._group is None else self._group.get_until_condition()


def _until(condition: Condition | None, until: Condition | None) -> Condition | None:
    return condition if condition is None else _until_of_take(condition, until)


def _until_of_take(condition: Condition, until: Condition | None) -> Condition:
    return condition if until is None else AndCondition(NotCondition(until), condition)


def _proceeding(state: State) -> list[State]:
    return [edge.target for edge in state.edges if edge.action is Action.PROCEED]


def _wait_for(state: State, take: Condition) -> None:
    """Restricts the edges of a state that follows a greedy stage to events that the stage does not take."""
    for edge in state.edges:
        edge.unless(take)


__all__ = ["Automaton", "compile_pattern"]
