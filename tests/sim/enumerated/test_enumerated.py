"""Seeded schedules of an enumerator and its readers. ``pytest tests/sim/enumerated --sim-seed N`` repeats one."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from tests.sim.enumerated.world import World
from tests.sim.laws import Law, LawBroken
from tests.sim.plant import Plant, patched
from tests.sim.sweep import caught_by, sweep
from tidegate.connectors.base import SplitState
from tidegate.connectors.source.enumerator_host import EnumeratorHost
from tidegate.connectors.source.protocol import Arrivals, Heard, ReaderLink
from tidegate.connectors.source.reader_host import ReaderHost

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS, WITHIN = 1_200, 6, 200


def run(seed: int) -> World:
    return World(seed).run()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_number_is_with_one_owner_in_every_checkpoint(block: int, pytestconfig: pytest.Config) -> None:
    size = SCHEDULES // BLOCKS
    worlds = sweep(run, "enumerated", block, size, pytestconfig)
    if not worlds:
        return
    for happened in ("crashes", "lost", "repeated", "rescaled", "checkpoints"):
        assert sum(getattr(world, happened) for world in worlds) > size // 4, (
            f"schedules without {happened} show little"
        )


_snapshot_for = EnumeratorHost.snapshot_for
_open = ReaderHost.open


def _without_its_outbox(host: EnumeratorHost, checkpoint_id: int) -> list[SplitState]:
    outbox = list(host._outbox)
    host._outbox.clear()
    states = _snapshot_for(host, checkpoint_id)
    host._outbox.extend(outbox)
    return states


def _keeps_what_was_emitted(host: EnumeratorHost, records: int) -> None:
    host._outbox.rotate(-records)


def _forgets_what_has_no_reader(host: EnumeratorHost) -> None:
    if host._restored_readers != host._readers:
        host._outbox.clear()


def _begins_without_its_splits(host: ReaderHost, states: Sequence[SplitState]) -> None:
    _open(host, ())


def _takes_everything(arrivals: Arrivals, subtask: int, content: bytes) -> tuple[Any, Heard]:
    number, message = pickle.loads(content)
    return message, Heard(number)


PLANTS = (
    Plant(
        "a split that was said and not sent is assigned in no checkpoint",
        frozenset({Law.SPLITS}),
        patched(EnumeratorHost, "snapshot_for", _without_its_outbox),
    ),
    Plant(
        "a split is assigned twice",
        frozenset({Law.SPLITS}),
        patched(EnumeratorHost, "advance", _keeps_what_was_emitted),
    ),
    Plant(
        "a split whose reader is no more is lost",
        frozenset({Law.SPLITS}),
        patched(EnumeratorHost, "give_back", _forgets_what_has_no_reader),
    ),
    Plant(
        "the splits of a restored reader are lost",
        frozenset({Law.SPLITS}),
        patched(ReaderHost, "open", _begins_without_its_splits),
    ),
    Plant(
        "an event of a reader that got lost is not repeated",
        frozenset({Law.LIVENESS}),
        patched(ReaderLink, "repeat_when_due", lambda link: None),
    ),
    Plant(
        "an event that comes again is obeyed", frozenset({Law.INVARIANT}), patched(Arrivals, "take", _takes_everything)
    ),
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_planted_bugs_are_caught(plant: Plant) -> None:
    broken = caught_by(plant, run, WITHIN)
    assert broken is not None, f"not caught within {WITHIN} schedules"
    law = broken.law if isinstance(broken, LawBroken) else Law.INVARIANT
    assert law in plant.laws, f"caught by another law: {broken}"
