"""Seeded schedules of leaders that a bucket elects. ``pytest tests/sim/bucket --sim-seed N`` repeats one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import pytest

from tests.sim.bucket.world import Register, World
from tests.sim.laws import Law, LawBroken
from tests.sim.plant import Plant, patched
from tests.sim.sweep import sweep
from tidegate.high_availability.object_store import lease
from tidegate.high_availability.object_store.ledger import LEADER, Change, Ledger
from tidegate.model.leadership import LockAcquired

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS, WITHIN = 2_000, 10, 300


def run(seed: int) -> World:
    return World(seed).run()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_one_leader_has_written_no_other_one_undoes(block: int, pytestconfig: pytest.Config) -> None:
    size = SCHEDULES // BLOCKS
    worlds = sweep(run, "bucket", block, size, pytestconfig)
    if not worlds:
        return
    faults = Counter(fault for world in worlds for fault in world.faults)
    assert min(faults[kind] for kind in ("kill", "stop", "cut", "jump", "resign")) > size // 2, faults
    assert sum(len(world.terms) for world in worlds) > 3 * size, "schedules without a failover show nothing"


_on = lease.Lease.on


def _takes_silence_for_success(self: lease.Lease, event: lease.LeaseEvent, now_ms: int) -> Sequence[lease.LeaseCommand]:
    if isinstance(event, lease.NotAnswered) and isinstance(self._in_flight, lease.Swap):
        event = lease.Swapped(lease.Version("unknown"))
    return _on(self, event, now_ms)


def _keeps_its_term(found: Ledger | None, holder: str, term: int, lease_ms: int) -> Ledger:
    kept = 1 if found is None else found.term
    return Ledger(
        kept, 1 if found is None else found.revision + 1, holder, lease_ms, {} if found is None else found.entries
    )


def _starts_empty(found: Ledger | None, holder: str, term: int, lease_ms: int) -> Ledger:
    return Ledger(term, 1 if found is None else found.revision + 1, holder, lease_ms)


def _goes_on_where_another_is(self: lease.Lease, event: lease.LeaseEvent, now_ms: int) -> Sequence[lease.LeaseCommand]:
    if isinstance(event, lease.Looked) and self.leads and event.seen is not None:
        found = event.seen.ledger
        mine = Ledger(self.term, found.revision, self._holder, found.lease_ms, found.entries)
        event = lease.Looked(lease.Seen(mine, event.seen.version))
    return _on(self, event, now_ms)


def _reads_before_it_leads(self: lease.Lease, event: lease.LeaseEvent, now_ms: int) -> Sequence[lease.LeaseCommand]:
    """Writes what it knew when it got in line, instead of what it has just read."""
    known = self._base
    commands = _on(self, event, now_ms)
    if isinstance(event, lease.Looked) and known is not None and not self.leads:
        kept = {name: value for name, value in known.ledger.entries.items() if name != LEADER}
        return [
            lease.Swap(Ledger(c.ledger.term, c.ledger.revision, c.ledger.holder, c.ledger.lease_ms, kept), c.expected)
            if isinstance(c, lease.Swap)
            else c
            for c in commands
        ]
    return commands


def _keeps_what_waits(self: lease.Lease, event: lease.LeaseEvent, now_ms: int) -> Sequence[lease.LeaseCommand]:
    """What was asked for in a term is not answered when that ends, and asked for in the next one."""
    waits = _waits.setdefault(self, {})
    if isinstance(event, lease.ChangeRequested):
        waits[event.number] = event.change
    kept: list[lease.LeaseCommand] = []
    for command in _on(self, event, now_ms):
        if isinstance(command, lease.Done):
            waits.pop(command.number, None)
        if not isinstance(command, lease.ChangeRefused | lease.ChangeUnknown):
            kept.append(command)
        if isinstance(command, lease.Tell) and isinstance(command.event, LockAcquired):
            for number, change in waits.items():
                kept += _on(self, lease.ChangeRequested(number, self.term, change), now_ms)
    return kept


_waits: WeakKeyDictionary[lease.Lease, dict[int, Change]] = WeakKeyDictionary()


PLANTS = (
    Plant(
        "the store ignores the condition",
        frozenset({Law.TERMS, Law.LEDGER, Law.ONE_LEADER}),
        patched(Register, "fits", lambda *_: True),
    ),
    Plant(
        "silence is taken for success",
        frozenset({Law.INVARIANT, Law.TERMS, Law.LEDGER, Law.ONE_LEADER, Law.LEADERSHIP}),
        patched(lease.Lease, "on", _takes_silence_for_success),
    ),
    Plant(
        "a new leader keeps the term",
        frozenset({Law.TERMS, Law.ONE_LEADER}),
        patched(lease, "claimed", _keeps_its_term),
    ),
    Plant("a new leader starts empty", frozenset({Law.LEDGER}), patched(lease, "claimed", _starts_empty)),
    Plant(
        "it goes on where another leads",
        frozenset({Law.TERMS, Law.LEDGER}),
        patched(lease.Lease, "on", _goes_on_where_another_is),
    ),
    Plant(
        "a claim writes what was known before",
        frozenset({Law.LEDGER}),
        patched(lease.Lease, "on", _reads_before_it_leads),
    ),
    Plant(
        "what waits outlives its term",
        frozenset({Law.INVARIANT, Law.LEDGER, Law.OWN_CHANGES}),
        patched(lease.Lease, "on", _keeps_what_waits),
    ),
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_the_planted_bug_is_caught(plant: Plant) -> None:
    broken = caught_by(plant)
    assert broken is not None, f"nobody noticed in {WITHIN} schedules"
    assert broken in plant.laws, f"caught by law {broken}"


def caught_by(plant: Plant) -> Law | None:
    """Returns the law that catches it; ``INVARIANT``: one of the machine itself."""
    with plant.plant():
        for seed in range(WITHIN):
            try:
                World(seed).run()
            except LawBroken as broken:
                return broken.law
            except AssertionError:
                return Law.INVARIANT
    return None
