"""Bugs planted in what joins two inputs, and in what brings both to it: each replaces one named function of a module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.sim.laws import Law
from tests.sim.plant import Plant, patched
from tidegate.functions.sql.changelog import adds
from tidegate.taskmanager.exchange.input_gate import ChannelInputGate
from tidegate.taskmanager.keyed_state.heap import backend, entries
from tidegate.taskmanager.keyed_state.heap.backend import KeyedStateBackend
from tidegate.taskmanager.machines import watermarks as w
from tidegate.taskmanager.operators.relational.join import Join
from tidegate.taskmanager.runtime.checkpointing import replay

_freeze, _block, _from_columns = KeyedStateBackend.freeze, ChannelInputGate.block, entries.from_columns
_change, _valve_on, _take_persisted = Join.change, w.WatermarkValve.on, ChannelInputGate.take_persisted


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
        first_seed=29,
    ),
    Plant(
        "what had arrived of one input is not persisted",
        _EXACT,
        patched(ChannelInputGate, "take_persisted", _persists_the_first_input),
    ),
    Plant("what is replayed comes from the first input", _FAILS, patched(replay, "first_channel", lambda *_: 0)),
    Plant("a retraction is for the other side", _FAILS, patched(Join, "change", _takes_back_from_the_other_side)),
    Plant("a key is dropped on restore", _EXACT, patched(backend, "from_columns", _drops_a_key)),
    Plant(
        "timers of a join are not restored",
        _EXACT,
        patched(backend, "from_columns", _restores_no_timers),
        first_seed=11,
    ),
)
