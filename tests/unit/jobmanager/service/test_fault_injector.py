"""Faults on purpose: who is asked to make them, what is refused, and what is said of what followed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.jobmanager.machines.cluster_kit import (
    JOB,
    Cluster,
    checkpointed,
    graph,
    running_job,
    until_triggered,
    vertex,
)
from tidegate.jobmanager.rest.fault_service import FaultKind, FaultRequest, MadeFault, followed
from tidegate.jobmanager.service.fault_injector import FaultInjector, vertex_named
from tidegate.jobmanager.service.storage import faulty_storage
from tidegate.jobmanager.service.storage.faulty_storage import FaultyStorage
from tidegate.model.checkpoint import CheckpointManifest, SnapshotType
from tidegate.model.errors import ErrorInfo, Misuse, StorageError, UnknownJob
from tidegate.model.ids import CheckpointId, JobId
from tidegate.model.states import ExecutionState
from tidegate.pb import taskmanager_pb2 as pb
from tidegate.pb.common_pb2 import SubtaskFault

LAG = pb.InjectFaultRequest.Lag(delay_ms=20, for_ms=3_000)


class FaultTarget:
    """TaskManagers that do whatever they are asked for."""

    def __init__(self, cluster: Cluster) -> None:
        self.sent: list[tuple[str, pb.InjectFaultRequest]] = []
        self.storage = FaultyStorage()
        self.maker = FaultInjector(cluster.machine, self.storage, self._send, lambda: cluster.now_ms)

    async def _send(self, address: str, request: pb.InjectFaultRequest) -> None:
        self.sent.append((address, request))


async def test_the_taskmanager_of_a_subtask_is_asked_to_kill_it() -> None:
    cluster = running_job(task_managers=2)
    target = FaultTarget(cluster)
    made = await target.maker.make(FaultRequest(FaultKind.KILL_SUBTASK, JOB, "sin", 1))
    attempt = cluster.attempt("sink", 1)
    view = cluster.job().vertices[1].subtasks[1].current
    assert view.task_manager_id is not None
    assert target.sent == [(f"{view.task_manager_id}:1", pb.InjectFaultRequest(kill_subtask=str(attempt)))]
    assert made.text == f"on purpose: sink (2) was killed on TaskManager {view.task_manager_id}"
    assert (list(target.maker.made()), made.job_ids) == ([made], (JOB,))


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        (FaultKind.KILL_TASK_MANAGER, pb.InjectFaultRequest(kill_task_manager=True)),
        (FaultKind.DELAY_CHANNELS, pb.InjectFaultRequest(delay_channels=LAG)),
        (FaultKind.CUT_CHANNELS, pb.InjectFaultRequest(cut_channels=True)),
        (FaultKind.DELAY_MESSAGES, pb.InjectFaultRequest(delay_messages=LAG)),
        (FaultKind.DROP_ACKNOWLEDGEMENTS, pb.InjectFaultRequest(drop_acknowledgements=2)),
        (
            FaultKind.SKEW_CLOCK,
            pb.InjectFaultRequest(of_subtasks=SubtaskFault(skew_clock_ms=-7_000, for_ms=3_000)),
        ),
    ],
)
async def test_a_taskmanager_is_named_or_found_by_a_subtask_or_the_only_one(
    kind: FaultKind, request_: pb.InjectFaultRequest
) -> None:
    target = FaultTarget(running_job())
    alone = FaultRequest(kind, delay_ms=20, for_ms=3_000, count=2, skew_ms=-7_000)
    for one in (replace(alone, task_manager="TM-1"), replace(alone, job_id=JOB, vertex="source"), alone):
        made = await target.maker.make(one)
        assert target.sent[-1] == ("tm-1:1", request_)
        assert "tm-1" in made.text
        assert made.job_ids == (JOB,)


@pytest.mark.parametrize(
    ("refused", "error", "words"),
    [
        (FaultRequest(FaultKind.KILL_SUBTASK, JobId("f" * 32), "sink"), UnknownJob, "is not known"),
        (FaultRequest(FaultKind.KILL_SUBTASK, JOB, "nowhere"), Misuse, "no vertex of the job: source; sink"),
        (FaultRequest(FaultKind.KILL_SUBTASK, JOB, "s"), Misuse, "the name of several vertices: source; sink"),
        (FaultRequest(FaultKind.KILL_SUBTASK, JOB, "sink", 2), Misuse, "sink has the subtasks 0 to 1, not 2"),
        (FaultRequest(FaultKind.CUT_CHANNELS), Misuse, "registered are: tm-1, tm-2"),
        (FaultRequest(FaultKind.CUT_CHANNELS, task_manager="x"), Misuse, "TaskManager 'x' is not registered"),
    ],
)
async def test_what_is_not_there_is_refused_with_what_is(
    refused: FaultRequest, error: type[Exception], words: str
) -> None:
    target = FaultTarget(running_job(task_managers=2))
    with pytest.raises(error, match=words):
        await target.maker.make(refused)
    assert (target.sent, list(target.maker.made())) == ([], [])


async def test_the_state_of_subtasks_is_spoiled_on_one_taskmanager_or_on_all_that_have_some() -> None:
    cluster = running_job(task_managers=2)
    cluster.register("tm-idle", 1)
    target = FaultTarget(cluster)
    slow = FaultRequest(FaultKind.SLOW_STATE, delay_ms=20, for_ms=3_000)
    request = pb.InjectFaultRequest(of_subtasks=SubtaskFault(slow_state_ms=20, for_ms=3_000))
    made = await target.maker.make(replace(slow, task_manager="tm-2"))
    assert target.sent == [("tm-2:1", request)]
    assert made.text == (
        "on purpose: files in the checkpoint directory take 20ms longer, for 3.0s, for the subtasks on tm-2"
    )
    target.sent.clear()
    used = {s.current.task_manager_id for v in cluster.job().vertices for s in v.subtasks}
    await target.maker.make(slow)
    assert target.sent == [(f"{name}:1", request) for name in sorted(map(str, used))]
    target.sent.clear()
    await target.maker.make(FaultRequest(FaultKind.FULL_STATE, for_ms=3_000))
    assert [sent.of_subtasks.full_state for _, sent in target.sent] == [True] * len(used)


async def test_the_executor_of_a_subtask_is_killed_by_way_of_its_taskmanager() -> None:
    target = FaultTarget(running_job())
    made = await target.maker.make(FaultRequest(FaultKind.KILL_EXECUTOR, JOB, "SINK", 1))
    ((address, request),) = target.sent
    assert (address, request.WhichOneof("fault")) == ("tm-1:1", "kill_executor")
    assert made.text.startswith("on purpose: the executor of sink (2) was killed on ")


def test_capitals_in_a_name_do_not_matter_unless_they_tell_two_vertices_apart() -> None:
    cluster = running_job(graph([vertex("Count", 1, source=True), vertex("count", 1), vertex("Sink", 1)]))
    names = {text: vertex_named(cluster.job(), text).name for text in ("Count", "count", "SINK", "sin")}
    assert names == {"Count": "Count", "count": "count", "SINK": "Sink", "sin": "Sink"}
    with pytest.raises(Misuse, match="the name of several vertices: Count; count"):
        vertex_named(cluster.job(), "COUNT")


async def test_storage_that_is_full_or_slow_is_so_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now_s = 100.0

        def monotonic(self) -> float:
            return self.now_s

        def sleep(self, for_s: float) -> None:
            self.now_s += for_s

    clock = Clock()
    monkeypatch.setattr(faulty_storage, "time", clock)
    target = FaultTarget(running_job())
    manifest = CheckpointManifest(JOB, "job", CheckpointId(1), 10, SnapshotType.CHECKPOINT, ())
    made = await target.maker.make(FaultRequest(FaultKind.FULL_STATE, for_ms=1_000))
    assert made.text == "on purpose: the checkpoint directory is full for the JobManager and all subtasks, for 1.0s"
    with pytest.raises(StorageError, match="no space left on device"):
        target.storage.create_location(None, JOB, CheckpointId(1))
    assert target.storage.write_manifest("memory:/x", manifest).error is not None
    clock.now_s += 1
    await target.maker.make(FaultRequest(FaultKind.SLOW_STATE, delay_ms=500, for_ms=600))
    for after_s in (101.5, 102.0, 102.0):
        assert target.storage.create_location(None, JOB, CheckpointId(1)).endswith("/chk-1")
        assert clock.now_s == after_s


def test_what_followed_is_said_up_to_the_next_checkpoint() -> None:
    cluster = checkpointed(tolerable_failed_checkpoints="9")
    cluster.complete_checkpoint(1)
    until_triggered(cluster, 2)
    fault = MadeFault(cluster.now_ms, FaultKind.KILL_SUBTASK, "x", (JOB,))
    cluster.pass_time(100)
    cluster.fail(cluster.attempt("sink"), ErrorInfo("task", "external", "exit by SIGKILL\nmore"))
    cluster.cancel_tasks()
    cluster.pass_time(2_000)
    cluster.start_tasks()
    assert cluster.states() == {ExecutionState.RUNNING}
    until_triggered(cluster, 3)
    lines = followed(fault, [fault], cluster.job())
    assert lines[0].startswith("+100ms: ")
    assert "+100ms: sink (1) failed: exit by SIGKILL" in lines
    assert any("checkpoint 2 failed: " in line for line in lines)
    assert lines[-1].endswith(": running again: source (1), source (2), sink (1) and 1 more")
    cluster.complete_checkpoint(3)
    until_triggered(cluster, 4)
    cluster.complete_checkpoint(4)
    lines = followed(fault, [fault], cluster.job())
    assert lines[-1].endswith(": checkpoint 3 completed")
    assert not any("checkpoint 1 " in line or "checkpoint 4 " in line for line in lines)


def test_a_fault_ends_what_followed_the_one_before() -> None:
    cluster = checkpointed()
    first = MadeFault(cluster.now_ms, FaultKind.SLOW_STATE, "x", (JOB,))
    cluster.pass_time(10)
    second = MadeFault(cluster.now_ms, FaultKind.FULL_STATE, "y", (JOB,))
    elsewhere = MadeFault(cluster.now_ms - 5, FaultKind.FULL_STATE, "z", ())
    cluster.complete_checkpoint(1)
    made = [first, elsewhere, second]
    assert followed(first, made, cluster.job()) == []
    assert len(followed(second, made, cluster.job())) == 1
