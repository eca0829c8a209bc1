"""The registry of shared files against a model that knows everything: what goes is exactly what nobody can need any more.

A history is drawn: checkpoints are triggered, acknowledged, completed, aborted, subsumed, retired at the end. Its subtask
builds as subtasks may: on any checkpoint that completed, from the oldest base of its options on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.jobmanager.machines.checkpoint.shared_state import SharedStateRegistry
from tidegate.model.ids import CheckpointId

FOREIGN = "/theirs/shared/f"


class History:
    """Random but for its seed. ``run`` raises ``AssertionError`` where the registry is wrong."""

    def __init__(self, seed: int, registry: SharedStateRegistry) -> None:
        self.draw = random.Random(seed)
        self.registry = registry
        self.last_id = 0
        self.files = 0
        self.alive: set[str] = set()
        self.pending: dict[int, tuple[int, set[str]]] = {}
        self.retained: dict[int, set[str]] = {}
        self.confirmed: dict[int, set[str]] = {}

    def run(self, steps: int) -> None:
        if self.draw.random() < 0.5:
            self.last_id = 7
            self.registry.register(CheckpointId(7), [FOREIGN], is_ours=False)
            self.retained[7] = self.confirmed[7] = {FOREIGN}
        for _ in range(steps):
            self.draw.choice([self.trigger, self.acknowledge, self.acknowledge, self.complete, self.abort, self.late])()
            self.check()
        for checkpoint_id in list(self.pending):
            self.end(checkpoint_id, self.registry.abandon(CheckpointId(checkpoint_id)))
        for checkpoint_id in sorted(self.retained):
            del self.retained[checkpoint_id]
            self.gone(self.registry.retire(CheckpointId(checkpoint_id)))
        self.check()
        assert not self.alive, f"leaked: {self.alive}"
        assert len(self.registry) == 0

    def trigger(self) -> None:
        if len(self.pending) == 3:
            return
        self.last_id += 1
        base = min(self.retained, default=0)
        self.registry.hold(CheckpointId(self.last_id), base)
        self.pending[self.last_id] = (base, set())

    def acknowledge(self) -> None:
        if not self.pending:
            return
        checkpoint_id = self.draw.choice(sorted(self.pending))
        oldest_base, used = self.pending[checkpoint_id]
        named = self.new_files()
        bases = [b for b in self.confirmed if oldest_base <= b < checkpoint_id]
        if bases:
            named |= {f for f in self.confirmed[self.draw.choice(bases)] if self.draw.random() < 0.7}
        missing = named - self.alive - {FOREIGN}
        assert not missing, f"{checkpoint_id} may build on {missing}, which were deleted"
        used |= named
        self.registry.register(CheckpointId(checkpoint_id), sorted(named))

    def complete(self) -> None:
        if not self.pending:
            return
        checkpoint_id = self.draw.choice(sorted(self.pending))
        self.retained[checkpoint_id] = self.confirmed[checkpoint_id] = self.pending.pop(checkpoint_id)[1]
        self.gone(self.registry.decided(CheckpointId(checkpoint_id)))
        for older in [p for p in self.pending if p < checkpoint_id]:
            self.end(older, self.registry.abandon(CheckpointId(older)))
        while len(self.retained) > 2:
            oldest = min(self.retained)
            del self.retained[oldest]
            self.gone(self.registry.retire(CheckpointId(oldest)))

    def abort(self) -> None:
        if self.pending:
            checkpoint_id = self.draw.choice(sorted(self.pending))
            self.end(checkpoint_id, self.registry.abandon(CheckpointId(checkpoint_id)))

    def late(self) -> None:
        """An acknowledgement that counts no more: what it wrote goes at once, what others use stays."""
        named = self.new_files() | {f for used in self.retained.values() for f in used}
        self.gone(self.registry.unknown(sorted(named)))

    def end(self, checkpoint_id: int, gone: list[str]) -> None:
        del self.pending[checkpoint_id]
        self.gone([*gone, *self.registry.decided(CheckpointId(checkpoint_id))])

    def new_files(self) -> set[str]:
        made = {f"/cp/shared/{self.files + i}" for i in range(self.draw.randrange(3))}
        self.files += len(made)
        self.alive |= made
        return made

    def gone(self, paths: list[str]) -> None:
        assert len(set(paths)) == len(paths)
        for path in paths:
            assert path in self.alive, f"{path} deleted twice, or not ours"
        self.alive -= set(paths)

    def check(self) -> None:
        """Nothing that is used is deleted; what nobody uses or holds is."""
        used = {f for files in self.retained.values() for f in files} | {f for _, u in self.pending.values() for f in u}
        assert used - {FOREIGN} <= self.alive, f"in use but deleted: {used - self.alive}"
        held_from = min((base for base, _ in self.pending.values()), default=None)
        held = {f for c, fs in self.confirmed.items() if held_from is not None and c >= held_from for f in fs}
        assert self.alive <= used | held, f"kept for nobody: {self.alive - used - held}"


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_exactly_what_nobody_uses_is_deleted(seed: int) -> None:
    History(seed, SharedStateRegistry()).run(60)


def _never_holds(registry: SharedStateRegistry) -> None:
    registry.hold = lambda pending, oldest_base_id: None  # type: ignore[method-assign]


def _forgets_late_users(registry: SharedStateRegistry) -> None:
    register = registry.register

    def once(checkpoint_id: CheckpointId, paths: Any, *, is_ours: bool = True) -> None:
        register(checkpoint_id, [p for p in paths if p not in registry], is_ours=is_ours)

    registry.register = once  # type: ignore[method-assign]


def _keeps_what_was_aborted(registry: SharedStateRegistry) -> None:
    registry.abandon = lambda checkpoint_id: []  # type: ignore[method-assign]


def _deletes_what_is_not_ours(registry: SharedStateRegistry) -> None:
    register = registry.register

    def ours(checkpoint_id: CheckpointId, paths: Any, *, is_ours: bool = True) -> None:
        register(checkpoint_id, paths)

    registry.register = ours  # type: ignore[method-assign]


def _keeps_late_files(registry: SharedStateRegistry) -> None:
    registry.unknown = lambda paths: []  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "plant", [_never_holds, _forgets_late_users, _keeps_what_was_aborted, _deletes_what_is_not_ours, _keeps_late_files]
)
def test_a_planted_bug_is_found(plant: Callable[[SharedStateRegistry], None]) -> None:
    for seed in range(300):
        registry = SharedStateRegistry()
        plant(registry)
        try:
            History(seed, registry).run(60)
        except AssertionError:
            return
    raise AssertionError("the model did not notice")
