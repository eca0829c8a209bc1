"""The coordinator on a disk that fails: real machine, real files, tasks that acknowledge. What was complete stays, what failed
leaves nothing, and the job goes on, or fails over when it was too often."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, JOB, Cluster, P, two_stage
from tidegate.aio.pool import Pool
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines.events import Event
from tidegate.jobmanager.service.high_availability.kept_jobs import NoJobStore
from tidegate.jobmanager.service.storage.checkpoint_files import CheckpointFiles, JobDirectories
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.files import LocalCalls, LocalFiles, Part

StorageCommand = c.CreateLocation | c.WriteManifest | c.ReadBackManifest | c.DiscardCheckpoint | c.DiscardSharedFiles


class Disk(LocalCalls):
    def __init__(self) -> None:
        self.broken: dict[str, int] = {}

    def _meet(self, call: str) -> None:
        if call in self.broken:
            raise OSError(self.broken[call], os.strerror(self.broken[call]))

    def write(self, descriptor: int, data: Part) -> int:
        self._meet("write")
        return super().write(descriptor, data)

    def rename(self, source: str, target: str) -> None:
        self._meet("rename")
        super().rename(source, target)
        self._meet("after rename")

    def unlink(self, path: str) -> None:
        self._meet("unlink")
        super().unlink(path)


class Job:
    """A running job whose checkpoints lie in a real directory."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.disk, self.events, self.pool = Disk(), list[Event](), Pool(2, "test")
        self.storage = CheckpointStorage(LocalFiles(self.disk))
        self.files = CheckpointFiles(self.storage, self.pool, self.events.append, 10_000, NoJobStore())
        self.files.add_job(JOB, JobDirectories(str(directory), None))
        self.home = directory / JOB
        self.cluster = Cluster()
        self.cluster.makes_locations = self.cluster.writes_manifests = self.cluster.removes_files = False
        self.cluster.register("tm-1", 2)
        options = {f"{P}.{key.replace('_', '-')}": text for key, text in settings.items()}
        self.cluster.submit(two_stage(), {**CHECKPOINTED, **options})
        self.cluster.start_tasks()

    async def use_storage(self) -> None:
        """Until the storage has nothing more to do."""
        while work := [command for command in self.cluster.inbox if isinstance(command, StorageCommand)]:
            self.cluster.inbox = [command for command in self.cluster.inbox if not isinstance(command, StorageCommand)]
            for command in work:
                self.files.execute(command)
            await self.files.settled()
            told, self.events[:] = list(self.events), []
            self.cluster.tell(*told)
            self.cluster.settle()

    async def checkpoint(self) -> int:
        """One more is triggered, or fails before; all tasks acknowledge it. Its id."""
        started = len(self.cluster.of(c.CreateLocation))
        while len(self.cluster.of(c.CreateLocation)) == started:
            self.cluster.pass_time(100)
        number = self.cluster.of(c.CreateLocation)[-1].checkpoint_id
        await self.use_storage()
        for attempt in self.cluster.attempts(E.RUNNING):
            self.cluster.acknowledge(attempt, number)
        await self.use_storage()
        return number

    @property
    def latest(self) -> int | None:
        return self.cluster.checkpoints().latest_completed_id

    @property
    def failure(self) -> str:
        return self.cluster.checkpoints().history[0].failure

    def on_disk(self) -> list[str]:
        """Checkpoints that can be read, and remains of others."""
        found = []
        for place in sorted(self.home.glob("chk-*")):
            is_whole = (place / "_metadata").exists() and self.storage.read_checkpoint(str(place))
            found.append(place.name if is_whole else f"remains of {place.name}")
        return found


@pytest.fixture
async def job(tmp_path: Path) -> AsyncIterator[Job]:
    made = Job(tmp_path, tolerable_failed_checkpoints="3")
    assert await made.checkpoint() == made.latest == 1
    yield made
    made.disk.broken.clear()
    await made.files.settled()
    made.pool.close()


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EACCES, errno.EROFS], ids=errno.errorcode.get)
async def test_while_the_disk_takes_nothing_checkpoints_fail_and_the_job_goes_on(job: Job, reason: int) -> None:
    job.disk.broken["write"] = reason
    for _ in range(2):
        number = await job.checkpoint()
        assert "Failure to finalize checkpoint." in job.failure
        assert f"chk-{number}/_metadata: {os.strerror(reason)}" in job.failure
    assert (job.cluster.job_state(), job.latest, job.on_disk()) == (J.RUNNING, 1, ["chk-1"])
    job.disk.broken.clear()
    number = await job.checkpoint()
    assert job.latest == number
    assert job.on_disk() == [f"chk-{number}"]


async def test_more_failures_than_tolerable_restart_the_job_from_what_is_there(job: Job) -> None:
    job.disk.broken["write"] = errno.ENOSPC
    for _ in range(4):
        await job.checkpoint()
    assert job.cluster.job_state() is J.RESTARTING
    failure = job.cluster.job().failure
    assert failure is not None
    assert failure.message.startswith("Exceeded checkpoint tolerable failure threshold.")
    assert "No space left on device" in failure.message
    job.cluster.cancel_tasks()
    job.cluster.pass_time(2_000)
    restored = [s.deployment.restore for s in job.cluster.of(c.SubmitTask)][-4:]
    assert {r.location for r in restored if r} == {str(job.home / "chk-1")}
    assert job.on_disk() == ["chk-1"]


async def test_a_directory_that_cannot_be_made_fails_the_checkpoint_by_name(job: Job) -> None:
    job.home.rename(job.home.with_name("elsewhere"))
    job.home.write_text("in the way")
    await job.checkpoint()
    assert "IO-problem detected." in job.failure
    assert str(job.home) in job.failure
    assert job.cluster.job_state() is J.RUNNING
    job.home.unlink()
    job.home.with_name("elsewhere").rename(job.home)
    number = await job.checkpoint()
    assert (job.latest, job.on_disk()) == (number, [f"chk-{number}"])


@pytest.mark.parametrize(("call", "is_there"), [("rename", False), ("after rename", True)])
async def test_a_write_whose_outcome_is_unknown_is_settled_by_what_is_there(
    job: Job, call: str, is_there: bool
) -> None:
    job.disk.broken[call] = errno.EIO
    number = await job.checkpoint()
    assert job.cluster.of(c.ReadBackManifest)
    assert job.latest == (number if is_there else 1)
    assert job.on_disk() == [f"chk-{number}" if is_there else "chk-1"]
    confirmed = [command.checkpoint_id for command in job.cluster.of(c.ConfirmCheckpoint)]
    aborted = [command.checkpoint_id for command in job.cluster.of(c.AbortCheckpoint)]
    assert (number in confirmed, number in aborted) == (is_there, not is_there)


async def test_an_old_checkpoint_that_may_not_be_removed_stays_whole_and_disturbs_nobody(job: Job) -> None:
    job.disk.broken["unlink"] = errno.EACCES
    number = await job.checkpoint()
    assert job.latest == number
    assert job.on_disk() == ["chk-1", f"chk-{number}"]
    job.disk.broken.clear()
    later = await job.checkpoint()
    assert job.on_disk() == ["chk-1", f"chk-{later}"]
    assert job.cluster.job_state() is J.RUNNING
