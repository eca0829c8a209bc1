"""The bench of the control plane is a test as well: the real service, and one message for each TaskManager and phase."""

from __future__ import annotations

from pathlib import Path

from benchmarks.control_plane_cluster import INLINE_BYTES, JOB, SLOTS, STAGES, simulated_cluster
from tidegate.model.states import ExecutionState
from tidegate.wire.manifest import METADATA_FILE, manifest_from_bytes

TASK_MANAGERS = 3
SUBTASKS = TASK_MANAGERS * SLOTS * len(STAGES)


async def test_a_checkpoint_is_one_message_for_each_task_manager_and_phase(tmp_path: Path) -> None:
    async with simulated_cluster(SUBTASKS, tmp_path) as cluster:
        await cluster.deploy()
        for number in (1, 2):
            await cluster.checkpoint(number)
            assert cluster.messages == {"TriggerCheckpoint": TASK_MANAGERS, "ConfirmCheckpoint": TASK_MANAGERS}
        view = cluster.core.machine.checkpoints(JOB)
        assert view is not None
        assert view.last_completed is not None
        assert (view.completed, view.failed, view.last_completed.acknowledged) == (2, 0, SUBTASKS)
        metadata = Path(view.last_completed.location) / METADATA_FILE
        manifest = manifest_from_bytes(metadata.read_bytes(), str(metadata))
        snapshots = [snapshot for operator in manifest.operators for snapshot in operator.subtasks.values()]
        assert len(snapshots) == SUBTASKS
        assert {snapshot.size_bytes for snapshot in snapshots} == {INLINE_BYTES}
        assert all(handle.data is not None for snapshot in snapshots for handle in snapshot.handles)
        for beat in cluster.heartbeats():
            cluster.beat(beat)
        (job,) = cluster.core.machine.summaries()
        assert [vertex.tasks for vertex in job.vertices] == [{ExecutionState.RUNNING: TASK_MANAGERS * SLOTS}] * len(
            STAGES
        )
