"""Fault schedules in which the job is stopped with a savepoint: the output is exactly what the savepoint has read, or, where the
stop failed, all of it."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from jobmanager.machines import events as e
from tests.sim.job import JOB, SOURCE_OP
from tests.sim.schedule import Schedule
from tests.sim.seeds import base_seed
from tests.sim.storage import Record
from tests.sim.watch import LawBroken
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.states import JobState

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS = 60, 2


class StopSchedule(Schedule):
    end = ""
    asked = 0

    def _plan_faults(self) -> None:
        super()._plan_faults()
        self._kind = self.world.rng.choice((SnapshotType.SUSPEND, SnapshotType.TERMINATE))
        for _ in range(3):  # the first ones may fail, or come while another runs
            at_ms = self.world.rng.randint(100, self.world.plan.chaos_ms + 400)
            self.world.later(at_ms, self._stop)

    def _stop(self) -> None:
        self.asked += 1
        self.shell.tell(e.SnapshotRequested(JOB, f"stop-{self.world.now_ms}", self._kind, "/sp"))

    def _check_end(self) -> None:
        job = self.machine.job(JOB)
        assert job is not None
        reports = [report for report in self.shell.reports if report.request_id.startswith("stop")]
        if len(reports) != self.asked:
            raise LawBroken(0, f"{len(reports)} of {self.asked} stops were told their end")
        stopped = [report for report in reports if report.path]
        if not stopped:
            self.end = "went on"
            super()._check_end()
            return
        if len(stopped) > 1 or stopped[0].checkpoint_id is None:
            raise LawBroken(0, f"stopped more than once: {stopped}")
        read, output = self._read_by(stopped[0].checkpoint_id), self.external.output
        if stopped[0].error is not None:
            self.end = "failed behind the savepoint"
            if job.state is not JobState.FAILED or output - read:
                raise LawBroken(0, f"{job.state.value}, beyond the savepoint: {dict(output - read)}")
            return
        self.end = "stopped"
        if job.state is not JobState.FINISHED or output != read:
            lost, twice = dict(read - output), dict(output - read)
            raise LawBroken(0, f"{job.state.value}; of what the savepoint has read: lost {lost}, too much {twice}")

    def _read_by(self, checkpoint_id: int) -> Counter[Record]:
        """The output of exactly the rows below the positions in a savepoint."""
        offsets: dict[int, int] = {}
        for operator in self.storage.manifests[checkpoint_id].operators:
            for snapshot in operator.subtasks.values() if operator.operator_id == SOURCE_OP else ():
                found = [h for h in snapshot.operator if h.state_name == "splits"]
                offsets.update(pickle.loads(handle.handle.data or b"") for handle in found)
            for subtask in operator.finished if operator.operator_id == SOURCE_OP else ():
                offsets[subtask] = self.job.rows[subtask]
        keys = Counter(self.job.key_of(split, i) for split, offset in offsets.items() for i in range(offset))
        return Counter((key, number) for key, count in keys.items() for number in range(1, count + 1))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_stopped_job_has_put_out_what_its_savepoint_has_read(block: int) -> None:
    ends: Counter[str] = Counter()
    size = SCHEDULES // BLOCKS
    for number in range(size):
        seed = base_seed() + block * size + number
        schedule = StopSchedule(seed)
        try:
            schedule.run()
        except (LawBroken, AssertionError) as error:
            raise AssertionError(f"{error}\nStopSchedule({seed})") from error
        ends[schedule.end] += 1
    assert ends["stopped"] > size // 10, ends
