"""The JobManager's calls of the storage in the simulation: slow, refused, torn, of unknown outcome, or cut by a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.storage import Storage
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.errors import ErrorInfo, StorageError

if TYPE_CHECKING:
    from tests.sim.shell import Shell

Work = (
    c.CreateLocation
    | c.WriteManifest
    | c.ReadBackManifest
    | c.DiscardCheckpoint
    | c.DiscardSharedFiles
    | c.InspectCheckpoints
    | c.WriteShape
)
READ_BACK_AFTER = 20
"""A write that hangs is read back only much later."""


class FileWork:
    def __init__(self, shell: Shell, storage: Storage) -> None:
        self._shell = shell
        self._storage = storage
        self._open: dict[int, Work] = {}
        self._number = 0

    def start(self, work: Work) -> None:
        self._number += 1
        number = self._number
        self._open[number] = work
        delay_ms = self._storage.delay_ms(1, 10) * (READ_BACK_AFTER if isinstance(work, c.ReadBackManifest) else 1)
        self._shell.world.later(delay_ms, lambda: self._finish(number))

    def _finish(self, number: int) -> None:
        work = self._open.pop(number, None)
        if work is not None:
            self._shell.tell(self._carry_out(work))

    def crash(self) -> None:
        """Of what was asked, some has happened; a write of ``_metadata`` may have been cut in the middle."""
        for work in self._open.values():
            draw = self._shell.world.rng.random()
            if isinstance(work, c.WriteManifest) and draw < 0.3:
                self._tear(work)
            elif draw < 0.65:
                self._carry_out(work)
        self._open.clear()

    def _carry_out(self, work: Work) -> e.Event:
        if isinstance(work, c.WriteShape):
            return self._write_shape(work)
        storage, job_id, checkpoint_id = self._storage, work.job_id, work.checkpoint_id
        match work:
            case c.CreateLocation():
                failed = storage.refuses_write()
                directory = work.target_directory or f"/cp/{job_id}"
                name = f"chk-{checkpoint_id}"
                if work.target_directory:
                    name = f"savepoint-{job_id[:6]}-{self._shell.world.rng.getrandbits(48):012x}"
                location = "" if failed else storage.create(f"{directory}/{name}")
                shared = "" if failed or work.target_directory else f"/cp/{job_id}/shared"
                return e.LocationCreated(job_id, checkpoint_id, location, failed, shared)
            case c.WriteManifest():
                return self._write(work)
            case c.ReadBackManifest():
                return self._what_is_there(work)
            case c.DiscardCheckpoint():
                failed = storage.refuses_delete()
                if failed is None:
                    storage.discard(work.location)
                return e.CheckpointDiscarded(job_id, checkpoint_id, failed)
            case c.DiscardSharedFiles():
                failed = storage.refuses_delete()
                for path in work.paths if failed is None else ():
                    storage.shared.pop(path, None)
                return e.SharedFilesDiscarded(job_id, checkpoint_id, failed)
            case c.InspectCheckpoints():
                return e.CheckpointsInspected(job_id, tuple(p for p in work.locations if p in storage.manifests))

    def _write(self, work: c.WriteManifest) -> e.Event:
        world = self._shell.world
        unknown = world.chance(world.plan.storage_unknown)
        if world.chance(world.plan.storage_torn):
            self._tear(work)
            unknown = True
        elif self._storage.refuses_write() is None:
            self._storage.put_manifest(work.location, work.manifest)
        if unknown:
            error = ErrorInfo.of(StorageError("the write timed out"))
            return e.ManifestWriteFailed(work.job_id, work.checkpoint_id, error, outcome_unknown=True)
        return self._what_is_there(work)

    def _write_shape(self, work: c.WriteShape) -> e.Event:
        """The job store has it, whatever it answers, or has it not."""
        world, is_refused = self._shell.world, self._storage.refuses_write() is not None
        if not is_refused:
            self._storage.shapes[work.job_id] = work.shape
        if is_refused or world.chance(world.plan.storage_unknown):
            return e.ShapeWritten(
                work.job_id, ErrorInfo.of(StorageError("the store did not say that it has the shape"))
            )
        return e.ShapeWritten(work.job_id)

    def _tear(self, work: c.WriteManifest) -> None:
        self._storage.torn.add(work.location)

    def _what_is_there(self, work: c.WriteManifest | c.ReadBackManifest) -> e.Event:
        if work.location in self._storage.manifests:
            return e.ManifestWritten(work.job_id, work.checkpoint_id, 100)
        error = ErrorInfo.of(StorageError("it is not there, or not whole"))
        return e.ManifestWriteFailed(work.job_id, work.checkpoint_id, error)
