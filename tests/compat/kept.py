"""Kept checkpoints: an archive each, ``<commit>/<case>.tar.gz``, written by ``write`` with the code of that commit.

chk/ and shared/, place/, what was outside of the job, and committed.json, what its sinks had made visible
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.taskmanager.runtime.in_process import Completed
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.jobmanager.machines.checkpoint.pending_checkpoint import PendingCheckpoint
from tidegate.jobmanager.machines.checkpoint.plan import CheckpointPlan
from tidegate.jobmanager.machines.checkpoint.trigger import CheckpointRequest
from tidegate.jobmanager.machines.restore.state_assignment import StateAssignment, check_restore
from tidegate.model.checkpoint import CheckpointManifest, RestoredOperator, SnapshotType
from tidegate.model.graph import JobGraph
from tidegate.model.ids import CheckpointId, OperatorId, SubtaskId
from tidegate.store.checkpoints import CheckpointStorage

HERE = Path(__file__).parent
VISIBLE = "committed.json"
Visible = dict[str, list[Any]]
"""By part of the job."""
PLACES = Path("/tmp/tidegate-compat")
"""What is outside of a job is at the same path again: sources and sinks have it in their state."""


def archives() -> list[Path]:
    return sorted(HERE.glob("*/*.tar.gz"))


@contextmanager
def place_of(case: str) -> Iterator[Path]:
    """The empty place of a case, which no other run of the tests uses meanwhile."""
    PLACES.mkdir(exist_ok=True)
    with (PLACES / f"{case}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place = PLACES / case
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


def pack(archive: Path, location: Path, shared: Path, place: Path, visible: Visible) -> None:
    archive.parent.mkdir(exist_ok=True)
    told = location.parent / VISIBLE
    told.write_text(json.dumps(visible))
    with tarfile.open(archive, "w:gz", compresslevel=9) as file:
        file.add(told, VISIBLE)
        for path, name in ((location, "chk"), (shared, "shared"), (place, "place")):
            if path.is_dir():
                file.add(path, name)


def unpack(archive: Path, directory: Path, place: Path) -> tuple[str, Visible]:
    """The location of the checkpoint, somewhere else than where it was written, and what was visible."""
    with tarfile.open(archive) as file:
        file.extractall(directory, filter="data")
    shutil.copytree(directory / "place", place, dirs_exist_ok=True)
    return str(directory / "chk"), json.loads((directory / VISIBLE).read_text())


def write_manifest(graph: JobGraph, completed: Completed, snapshot: SnapshotType) -> None:
    """``_metadata``, as the JobManager makes it of what was acknowledged."""
    plan = CheckpointPlan((), tuple(completed.acks), frozenset(), frozenset())
    request = CheckpointRequest(snapshot, 1_700_000_000_000, 1)
    pending = PendingCheckpoint(CheckpointId(completed.checkpoint_id), 1_700_000_000_000, request, plan)
    pending.on_located(completed.location)
    for attempt, ack in completed.acks.items():
        pending.acknowledge(attempt, ack.snapshot)
    assert CheckpointStorage().write_manifest(completed.location, pending.seal(graph, "0" * 32)).error is None


@dataclass
class Kept(Completed):
    """A checkpoint from the disk, dealt as the JobManager does."""

    built: BuiltJob | None = None
    manifest: CheckpointManifest | None = None

    @staticmethod
    def read(path: str, built: BuiltJob) -> Kept:
        """Raises what a submission would be refused with."""
        location, manifest = CheckpointStorage().read_checkpoint(path)
        check_restore(built.graph, manifest, allow_non_restored=False)
        return Kept(manifest.checkpoint_id, location, {}, built=built, manifest=manifest)

    def restored(self, operator_id: OperatorId, subtask: int, parallelism: int) -> RestoredOperator:
        assert self.built is not None
        assert self.manifest is not None
        assignment = StateAssignment(self.built.graph, self.manifest, self.location)
        vertices = self.built.graph.vertices
        (vertex,) = [v for v in vertices if any(op.operator_id == operator_id for op in v.operators)]
        task = assignment.restore_of(SubtaskId(vertex.vertex_id, subtask)).task
        return task.operators.get(operator_id, RestoredOperator())
