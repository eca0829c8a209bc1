"""Bugs planted in what joins two inputs, and in what brings both to it: each replaces one named function of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tests.sim.laws import Law
from tests.sim.plant import Plant, patched
from tidegate.functions.sql.changelog import adds
from tidegate.model.channel_events import END_OF_TIME
from tidegate.taskmanager.exchange.input_gate import ChannelInputGate
from tidegate.taskmanager.keyed_state.heap import backend, entries
from tidegate.taskmanager.keyed_state.heap.backend import KeyedStateBackend
from tidegate.taskmanager.machines import watermarks as w
from tidegate.taskmanager.operators.relational import temporal_join
from tidegate.taskmanager.operators.relational.join import Join
from tidegate.taskmanager.operators.relational.relational_operator import EntriesOfKey, TableOperator
from tidegate.taskmanager.operators.relational.temporal_join import TemporalJoin
from tidegate.taskmanager.operators.relational.timed import TimedOperator
from tidegate.taskmanager.operators.rows.pattern_state import QUEUE
from tidegate.taskmanager.runtime.checkpointing import replay

_freeze, _block, _from_columns = KeyedStateBackend.freeze, ChannelInputGate.block, entries.from_columns
_fire, _advance, _change, _valve_on, _take_persisted = (
    TemporalJoin.fire,
    TimedOperator.advance,
    Join.change,
    w.WatermarkValve.on,
    ChannelInputGate.take_persisted,
)


def _freezes_one_side(state: KeyedStateBackend, *when: Any) -> Any:
    frozen: Any = _freeze(state, *when)
    frozen.tables = [table for table in frozen.tables if table._layout.state_name != "right"]
    return frozen


def _forwards_the_first_input(valve: w.WatermarkValve, event: w.ValveEvent, now_ms: float) -> Sequence[Any]:
    if isinstance(event, w.WatermarkArrived) and event.channel < len(valve._channels) // 2:
        return [w.AdvanceWatermark(event.timestamp_ms)]
    return _valve_on(valve, event, now_ms)


def _blocks_the_first_input(gate: ChannelInputGate, channel: int) -> None:
    if gate.input_of(channel) == 0:
        _block(gate, channel)


def _persists_the_first_input(gate: ChannelInputGate, checkpoint_id: int) -> list[tuple[int, list[Any]]]:
    return [(channel, items) for channel, items in _take_persisted(gate, checkpoint_id) if gate.input_of(channel) == 0]


def _takes_back_from_the_other_side(join: Join, state: Any, kind: int, row: Any, input_index: int, out: Any) -> Any:
    return _change(join, state, kind, row, input_index if adds(kind) else 1 - input_index, out)


def _restores_no_timers(layout: Any, *rest: Any) -> Iterator[Any]:
    return iter(()) if layout.kind == "timers" else iter(_from_columns(layout, *rest))


def _drops_a_key(layout: Any, *rest: Any) -> Iterator[Any]:
    found = list(_from_columns(layout, *rest))
    last = max((group for group, _, _ in found), default=None)
    return iter([one for one in found if one[0] != last])


class _Kept:
    """The state of a key in which rows that a temporal join has emitted stay: only the operator that emitted them knows."""

    def __init__(self, state: EntriesOfKey, emitted: set[Any], key: Any) -> None:
        self._state, self._emitted, self._key = state, emitted, key

    def all(self) -> dict[Any, Any]:
        return {name: one for name, one in self._state.all().items() if (self._key, name) not in self._emitted}

    def put(self, name: Any, value: Any) -> None:
        if value is None and name[0] == "left":
            self._emitted.add((self._key, name))
        elif value is not None or name[0] != "next":
            self._state.put(name, value)

    def get(self, name: Any) -> Any:
        return self._state.get(name)


_emitted: WeakKeyDictionary[TemporalJoin, set[Any]] = WeakKeyDictionary()


def _emits_again_when_restored(join: TemporalJoin, state: Any, time_ms: int, out: Any) -> Any:
    kept: Any = _Kept(state, _emitted.setdefault(join, set()), join._backend.key)
    return _fire(join, kept, time_ms, out)


def _restores_without(left_out: Callable[[Any, Any], bool]) -> Callable[..., Iterator[Any]]:
    """``left_out``: of the layout and the name of an entry."""

    def restored(layout: Any, *rest: Any) -> Iterator[Any]:
        for group, entry, value in _from_columns(layout, *rest):
            if not left_out(layout, entry[1]):
                yield group, entry, value

    return restored


def _is_named(name: Any, at: int, what: Any) -> bool:
    return isinstance(name, tuple) and len(name) > at and name[at] == what


def _leaves_gathered_rows(operator: TableOperator, checkpoint_id: int) -> None:
    """Writes a snapshot without the rows of a mini-batch, which are neither in the state nor behind the barrier."""


def _advances_before_gathered_rows(operator: TimedOperator, timestamp_ms: int) -> None:
    if timestamp_ms < END_OF_TIME:
        operator._timers.watermark = timestamp_ms
    _advance(operator, timestamp_ms)


_EXACT = frozenset({Law.OUTPUT})
_FAILS = frozenset({Law.OUTPUT, Law.LIVENESS})
"""An operator may also fail, by a row that it does not expect."""

PLANTS = (
    Plant("a snapshot lacks the state of one side", _EXACT, patched(KeyedStateBackend, "freeze", _freezes_one_side)),
    Plant(
        "the watermark of one input is forwarded", _EXACT, patched(w.WatermarkValve, "on", _forwards_the_first_input)
    ),
    Plant(
        "a barrier of one input passes without alignment",
        _EXACT,
        patched(ChannelInputGate, "block", _blocks_the_first_input),
        first_seed=20,
    ),
    Plant(
        "what had arrived of one input is not persisted",
        _EXACT,
        patched(ChannelInputGate, "take_persisted", _persists_the_first_input),
        first_seed=11,
    ),
    Plant(
        "what is replayed comes from the first input",
        _FAILS,
        patched(replay, "first_channel", lambda *_: 0),
        first_seed=2,
    ),
    Plant("a retraction is for the other side", _FAILS, patched(Join, "change", _takes_back_from_the_other_side)),
    Plant(
        "rows of a mini-batch are not processed before a snapshot",
        _EXACT,
        patched(TableOperator, "prepare_snapshot", _leaves_gathered_rows),
    ),
    Plant(
        "rows of a mini-batch are late by the watermark behind them",
        _EXACT,
        patched(TimedOperator, "advance", _advances_before_gathered_rows),
    ),
    Plant("a key is dropped on restore", _EXACT, patched(backend, "from_columns", _drops_a_key)),
    Plant(
        "timers of a join are not restored",
        _EXACT,
        patched(backend, "from_columns", _restores_no_timers),
        first_seed=11,
    ),
)

PLANTS_OF_STATEMENTS = (
    (
        "temporal join",
        Plant(
            "a row that was emitted is emitted again when it is restored",
            _EXACT,
            patched(TemporalJoin, "fire", _emits_again_when_restored),
        ),
    ),
    (
        "left temporal join",
        Plant(
            "a row joins with the newest version",
            _EXACT,
            patched(temporal_join, "bisect_right", lambda times, _: len(times)),
        ),
    ),
    (
        "temporal join",
        Plant(
            "versions are not restored",
            _EXACT,
            patched(backend, "from_columns", _restores_without(lambda _, name: _is_named(name, 0, "right"))),
        ),
    ),
    (
        "join of windows",
        Plant(
            "rows of one side of a window are not restored",
            _EXACT,
            patched(backend, "from_columns", _restores_without(lambda _, name: _is_named(name, 2, 1))),
            first_seed=8,
        ),
    ),
    (
        "matches",
        Plant(
            "rows that wait for their watermark are not restored",
            _EXACT,
            patched(backend, "from_columns", _restores_without(lambda layout, _: layout.state_name == QUEUE)),
        ),
    ),
)
"""Bugs of one operator, each with the statement that runs it."""
