"""Seeded schedules of a hybrid source. ``pytest tests/sim/enumerated --sim-seed N`` repeats one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.sim.enumerated.hybrid_world import HybridWorld
from tests.sim.laws import Law, LawBroken
from tests.sim.plant import Plant, patched
from tests.sim.sweep import caught_by, sweep
from tidegate.connectors.base import SplitState
from tidegate.connectors.hybrid.enumerator import HybridEnumerator
from tidegate.connectors.hybrid.parts import HybridCheckpoint, HybridSplit, Switch
from tidegate.connectors.hybrid.reader import HybridReader

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS, WITHIN = 900, 6, 200


def run(seed: int) -> HybridWorld:
    return HybridWorld(seed).run()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_number_is_with_one_owner_and_no_part_begins_before_the_one_before_it_has_ended(
    block: int, pytestconfig: pytest.Config
) -> None:
    size = SCHEDULES // BLOCKS
    worlds = sweep(run, "enumerated", block, size, pytestconfig)
    if not worlds:
        return
    for happened in ("crashes", "lost", "repeated", "rescaled", "checkpoints"):
        assert sum(getattr(world, happened) for world in worlds) > size // 4, (
            f"schedules without {happened} show little"
        )


_on_event = HybridEnumerator.handle_source_event
_snapshot_state = HybridEnumerator.snapshot_state


def _switches_with_the_first_reader(enumerator: HybridEnumerator, subtask: int, event: Any) -> None:
    enumerator._ended.update(range(enumerator._context.current_parallelism()))
    _on_event(enumerator, subtask, event)


def _forgets_one_that_waits(enumerator: HybridEnumerator, checkpoint_id: int) -> HybridCheckpoint:
    found = _snapshot_state(enumerator, checkpoint_id)
    return replace(found, unassigned=found.unassigned[1:]) if found.unassigned else found


def _forgets_its_part(enumerator: HybridEnumerator, checkpoint_id: int) -> HybridCheckpoint:
    return replace(_snapshot_state(enumerator, checkpoint_id), part=0)


def _drops_what_comes_back(enumerator: HybridEnumerator, splits: Sequence[HybridSplit], subtask: int) -> None:
    pass


def _keeps_what_waits_to_itself(reader: HybridReader) -> list[SplitState]:
    states = [] if reader._reader is None else reader._reader.snapshot_state()
    return [reader._encoded(state) for state in states]


_obey = HybridReader.handle_source_event


def _opens_again(reader: HybridReader, event: Switch) -> None:
    reader._open = None
    _obey(reader, event)


PLANTS = (
    Plant(
        "a part begins when the first reader has ended the one before it",
        frozenset({Law.PARTS}),
        patched(HybridEnumerator, "handle_source_event", _switches_with_the_first_reader),
    ),
    Plant(
        "a split that waits is assigned in no checkpoint",
        frozenset({Law.SPLITS}),
        patched(HybridEnumerator, "snapshot_state", _forgets_one_that_waits),
    ),
    Plant(
        "a checkpoint does not hold which part is read",
        frozenset({Law.SPLITS}),
        patched(HybridEnumerator, "snapshot_state", _forgets_its_part),
    ),
    Plant(
        "a split that comes back is lost",
        frozenset({Law.SPLITS}),
        patched(HybridEnumerator, "add_splits_back", _drops_what_comes_back),
    ),
    Plant(
        "a split whose part is not open is not in its reader's state",
        frozenset({Law.SPLITS}),
        patched(HybridReader, "snapshot_state", _keeps_what_waits_to_itself),
    ),
    Plant(
        "a part is opened twice", frozenset({Law.SPLITS}), patched(HybridReader, "handle_source_event", _opens_again)
    ),
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_planted_bugs_are_caught(plant: Plant) -> None:
    broken = caught_by(plant, run, WITHIN)
    assert broken is not None, f"not caught within {WITHIN} schedules"
    law = broken.law if isinstance(broken, LawBroken) else Law.INVARIANT
    assert law in plant.laws, f"caught by another law: {broken}"
