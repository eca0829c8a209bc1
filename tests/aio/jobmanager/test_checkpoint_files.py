"""Storage commands under slow and failing disks: what the machines hear of them."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tidegate.aio.pool import Pool
from tidegate.jobmanager.machines.commands import (
    CreateLocation,
    DiscardCheckpoint,
    DiscardSharedFiles,
    InspectCheckpoints,
    ReadBackManifest,
    WriteManifest,
)
from tidegate.jobmanager.machines.events import (
    CheckpointDiscarded,
    CheckpointsInspected,
    Event,
    LocationCreated,
    ManifestWriteFailed,
    ManifestWritten,
    SharedFilesDiscarded,
)
from tidegate.jobmanager.service.high_availability.kept_jobs import NoJobStore
from tidegate.jobmanager.service.storage.checkpoint_files import CheckpointFiles, JobDirectories
from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    SegmentHandle,
    SnapshotType,
    StateHandle,
)
from tidegate.model.errors import CheckpointFilesMissing
from tidegate.model.ids import CheckpointId, JobId, OperatorId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.files import LocalCalls, LocalFiles

JOB, N = JobId("a" * 32), CheckpointId(1)
MANIFEST = CheckpointManifest(JOB, "x", N, 0, SnapshotType.CHECKPOINT, ())


class Disk(LocalCalls):
    """Renames wait for ``go``, and then fail when ``fails``; removals wait until as many are there as are to be ``together``."""

    def __init__(self) -> None:
        self.together: threading.Barrier | None = None
        self.most_at_once = 0
        self._at_once = 0
        self.go = threading.Event()
        self.go.set()
        self.fails = False

    def rename(self, source: str, target: str) -> None:
        assert self.go.wait(20)
        if self.fails:
            raise OSError(errno.EIO, "injected")
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        if self.together is not None:
            self.together.wait(20)
        super().unlink(path)
        self._at_once -= 1


class World:
    def __init__(self, directory: Path, timeout_ms: int) -> None:
        self.disk = Disk()
        self.events: list[Event] = []
        self.pool = Pool(2, "test")
        storage = CheckpointStorage(LocalFiles(self.disk))
        self.held: list[str] = []
        self.files = CheckpointFiles(
            storage,
            self.pool,
            self.events.append,
            timeout_ms,
            NoJobStore(),
            lambda location, _: self.held.append(location),
        )
        self.files.add_job(JOB, JobDirectories(str(directory), None))
        self.location = f"{directory}/{JOB}/chk-1"
        self.shared = f"{directory}/{JOB}/shared"

    async def next_event(self) -> Event:
        while True:
            if self.events:
                return self.events.pop()
            await asyncio.sleep(0.005)

    def has_location(self) -> bool:
        return Path(self.location).exists()

    def two_shared_files(self) -> tuple[str, ...]:
        paths = tuple(f"{self.shared}/count-{JOB}_{'b' * 32}_0_0-1-{number:016x}" for number in range(2))
        for path in paths:
            Path(path).write_bytes(b"1")
        return paths

    def has_shared_files(self) -> bool:
        return any(Path(self.shared).iterdir())

    async def create(self) -> None:
        self.files.execute(CreateLocation(JOB, N, SnapshotType.CHECKPOINT))
        await self.files.settled()
        assert self.events == [LocationCreated(JOB, N, self.location, shared_location=self.shared)]
        self.events.clear()


@pytest.fixture
def timeout_ms() -> int:
    """No write of a test takes so long, unless the test holds the disk."""
    return 60_000


@pytest.fixture
async def world(tmp_path: Path, timeout_ms: int) -> AsyncIterator[World]:
    world = World(tmp_path, timeout_ms)
    yield world
    world.disk.go.set()
    world.pool.close()


async def test_a_write_is_durable_then_told(world: World) -> None:
    await world.create()
    world.files.execute(WriteManifest(JOB, N, world.location, MANIFEST))
    world.files.execute(DiscardCheckpoint(JOB, N, world.location))
    await world.files.settled()
    written, discarded = world.events
    assert isinstance(written, ManifestWritten)
    assert written.size_bytes > 0
    assert discarded == CheckpointDiscarded(JOB, N)
    assert not world.has_location()


@pytest.mark.parametrize("timeout_ms", [50])
@pytest.mark.parametrize("fails", [False, True])
async def test_a_write_that_takes_too_long_is_settled_by_reading_back_after_its_end(world: World, fails: bool) -> None:
    await world.create()
    world.disk.fails = fails
    world.disk.go.clear()
    world.files.execute(WriteManifest(JOB, N, world.location, MANIFEST))
    await world.files.settled()
    unknown = world.events.pop()
    assert isinstance(unknown, ManifestWriteFailed)
    assert unknown.outcome_unknown
    assert "takes longer than 50 ms" in unknown.error.message
    world.files.execute(ReadBackManifest(JOB, N, world.location))
    await asyncio.sleep(0)
    assert world.events == []  # the write may still arrive: nothing is settled
    world.disk.go.set()
    await world.files.settled()
    settled = world.events.pop()
    if fails:
        assert isinstance(settled, ManifestWriteFailed)
        assert not settled.outcome_unknown
    else:
        assert isinstance(settled, ManifestWritten)


def naming(*paths: str, is_shared: bool = False) -> CheckpointManifest:
    """A manifest that names these files, of one byte each."""
    keyed = tuple(
        SegmentHandle("s", KeyGroupRange(0, 0), (0, 1), StateHandle(1, "0" * 16, path, is_shared=is_shared))
        for path in paths
    )
    operator = OperatorState(OperatorId("c" * 32), "count", "count", 1, 128, {0: OperatorSnapshot(keyed=keyed)})
    return CheckpointManifest(JOB, "x", N, 0, SnapshotType.CHECKPOINT, (operator,))


async def test_a_checkpoint_of_which_a_file_was_removed_is_not_complete(world: World) -> None:
    await world.create()
    kept, gone = world.two_shared_files()
    os.unlink(gone)
    world.files.execute(WriteManifest(JOB, N, world.location, naming(kept, gone, is_shared=True)))
    await world.files.settled()
    failed = world.events.pop()
    assert isinstance(failed, ManifestWriteFailed)
    assert not failed.outcome_unknown
    assert failed.error.code == CheckpointFilesMissing.code
    assert f"state file {gone} of operator 'count' is missing" in failed.error.message
    assert world.held == []


@pytest.mark.parametrize("timeout_ms", [50])
async def test_so_is_one_that_is_read_back(world: World) -> None:
    await world.create()
    world.disk.go.clear()
    world.files.execute(WriteManifest(JOB, N, world.location, naming("s-1")))
    world.files.execute(ReadBackManifest(JOB, N, world.location))
    unknown = await world.next_event()
    assert isinstance(unknown, ManifestWriteFailed)
    assert unknown.outcome_unknown
    world.disk.go.set()
    await world.files.settled()
    failed = world.events.pop()
    assert isinstance(failed, ManifestWriteFailed)
    assert failed.error.code == CheckpointFilesMissing.code


async def test_a_directory_that_was_removed_is_told_as_that(world: World) -> None:
    await world.create()
    shutil.rmtree(world.location)
    world.files.execute(WriteManifest(JOB, N, world.location, MANIFEST))
    await world.files.settled()
    failed = world.events.pop()
    assert isinstance(failed, ManifestWriteFailed)
    assert failed.error.code == CheckpointFilesMissing.code


async def test_what_a_job_goes_on_from_is_held_before_it_is_told(world: World) -> None:
    await world.create()
    world.files.execute(WriteManifest(JOB, N, world.location, MANIFEST))
    await world.files.settled()
    assert world.held == [world.location]


async def test_of_others_those_are_told_that_are_whole(world: World) -> None:
    await world.create()
    world.files.execute(WriteManifest(JOB, N, world.location, MANIFEST))
    world.files.execute(InspectCheckpoints(JOB, N, (world.location, f"{world.shared}/../chk-7")))
    await world.files.settled()
    assert world.events[-1] == CheckpointsInspected(JOB, (world.location,))


async def test_a_directory_that_cannot_be_made_is_told(world: World, tmp_path: Path) -> None:
    (tmp_path / JOB).write_text("in the way")
    world.files.execute(CreateLocation(JOB, N, SnapshotType.CHECKPOINT))
    await world.files.settled()
    failed = world.events.pop()
    assert isinstance(failed, LocationCreated)
    assert failed.error is not None
    assert f"{tmp_path / JOB} is a file" in failed.error.message


async def test_a_savepoint_needs_a_directory(world: World) -> None:
    world.files.execute(CreateLocation(JOB, N, SnapshotType.SAVEPOINT))
    await world.files.settled()
    failed = world.events.pop()
    assert isinstance(failed, LocationCreated)
    assert failed.error is not None
    assert "execution.checkpointing.savepoint-dir" in failed.error.message


@pytest.mark.parametrize("parallel", [True, False])
async def test_shared_files_go_in_parallel_or_one_after_the_other(world: World, tmp_path: Path, parallel: bool) -> None:
    world.files.add_job(JOB, JobDirectories(str(tmp_path), None, cleans_in_parallel=parallel))
    await world.create()
    if parallel:
        world.disk.together = threading.Barrier(2)
    world.files.execute(DiscardSharedFiles(JOB, N, world.two_shared_files()))
    await world.files.settled()
    assert world.events == [SharedFilesDiscarded(JOB, N)]
    assert world.disk.most_at_once == (2 if parallel else 1)
    assert not world.has_shared_files()


async def test_the_directories_of_a_job_go_with_it_where_they_hold_nothing(world: World, tmp_path: Path) -> None:
    await world.create()
    kept = world.two_shared_files()
    world.files.job_terminated(JOB)
    await world.files.settled()
    assert names_in(tmp_path / JOB) == ["chk-1", "shared"]
    world.files.execute(DiscardSharedFiles(JOB, N, kept))
    world.files.execute(DiscardCheckpoint(JOB, N, world.location))
    await world.files.settled()
    world.files.job_terminated(JOB)
    await world.files.settled()
    assert names_in(tmp_path) == []


async def test_a_directory_that_jobs_share_stays(world: World, tmp_path: Path) -> None:
    world.files.add_job(JOB, JobDirectories(str(tmp_path), None, create_subdir=False))
    world.files.execute(CreateLocation(JOB, N, SnapshotType.CHECKPOINT))
    await world.files.settled()
    world.files.execute(DiscardCheckpoint(JOB, N, f"{tmp_path}/chk-1"))
    await world.files.settled()
    world.files.job_terminated(JOB)
    await world.files.settled()
    assert names_in(tmp_path) == ["shared", "taskowned"], "another may be about to write there"


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
