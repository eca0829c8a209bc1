"""Tasks leave executors that go, at any moment and whatever else fails: the laws hold, and the job ends."""

from __future__ import annotations

import pytest

from tests.sim.schedule import Mix
from tests.sim.test_discovery import run
from tidegate.jobmanager.machines.job.rescaling import JobNow
from tidegate.jobmanager.machines.job.subtask_migration import SubtaskMigration
from tidegate.model.ids import SubtaskId

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS = 300, 3
LEAVING = Mix(leaving=0.3)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_tasks_that_leave_break_no_law(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[int] = []
    take = SubtaskMigration.take

    def counted(self: SubtaskMigration, now: JobNow) -> tuple[SubtaskId, ...]:
        taken = take(self, now)
        moved.extend([len(taken)] if taken else [])
        return taken

    monkeypatch.setattr(SubtaskMigration, "take", counted)
    size = SCHEDULES // BLOCKS
    outcomes = [run(block * size + i, LEAVING) for i in range(size)]
    assert len(moved) > size // 4, "schedules in which nothing moves show nothing"
    assert sum(o.checkpoints for o in outcomes) > 2 * size
