"""TaskManagers and slots: registration, loss, reports that correct what was believed, and waiting for slots."""

from __future__ import annotations

import pytest

from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    JOB,
    Cluster,
    graph,
    running_job,
    two_stage,
    vertex,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.resources.slots import AllocationGone, FreeIt, Slot, SlotState, decide_report
from tidegate.model.errors import ErrorInfo, InternalError, Unreachable
from tidegate.model.ids import AllocationId, AttemptId, JobId, TaskManagerId, hex_id
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

A, B = AllocationId("a"), AllocationId("b")
TM = TaskManagerId("tm-1")


# ---- one slot, every state and report ---------------------------------------------------------------------------------------


def slot(state: SlotState, allocation: AllocationId | None) -> Slot:
    return Slot(0, state, allocation, JOB if allocation else None)


@pytest.mark.parametrize(
    ("state", "held", "reported", "after", "corrections"),
    [
        (SlotState.FREE, None, None, SlotState.FREE, []),
        (SlotState.FREE, None, A, SlotState.FREEING, [FreeIt(A)]),
        (SlotState.PENDING, A, None, SlotState.PENDING, []),
        (SlotState.PENDING, A, B, SlotState.PENDING, []),
        (SlotState.ALLOCATED, A, A, SlotState.ALLOCATED, []),
        (SlotState.ALLOCATED, A, None, SlotState.ALLOCATED, []),
        (SlotState.FREEING, A, None, SlotState.FREE, []),
        (SlotState.FREEING, A, A, SlotState.FREEING, [FreeIt(A)]),
        (SlotState.FREEING, A, B, SlotState.FREEING, [FreeIt(B)]),
        (SlotState.UNKNOWN, None, None, SlotState.FREE, []),
        (SlotState.UNKNOWN, None, A, SlotState.FREEING, [FreeIt(A)]),
    ],
)
def test_a_report_corrects_a_slot(
    state: SlotState,
    held: AllocationId | None,
    reported: AllocationId | None,
    after: SlotState,
    corrections: list[FreeIt],
) -> None:
    it = slot(state, held)
    assert decide_report(it, e.ReportedSlot(0, reported)) == corrections
    assert it.state is after


@pytest.mark.parametrize(("reported", "after"), [(None, SlotState.FREE), (B, SlotState.FREEING)])
def test_an_allocation_is_gone_when_two_reports_in_a_row_say_so(
    reported: AllocationId | None, after: SlotState
) -> None:
    it = slot(SlotState.ALLOCATED, A)
    assert decide_report(it, e.ReportedSlot(0, reported)) == []
    assert decide_report(it, e.ReportedSlot(0, A)) == [], "an old report: forgotten"
    assert decide_report(it, e.ReportedSlot(0, reported)) == []
    assert decide_report(it, e.ReportedSlot(0, reported))[0] == AllocationGone(A, JOB)
    assert it.state is after


def test_a_free_order_on_its_way_is_not_repeated() -> None:
    it = slot(SlotState.FREEING, A)
    it.free_is_open = True
    assert decide_report(it, e.ReportedSlot(0, A)) == []


# ---- registration and loss ---------------------------------------------------------------------------------------------------


def heartbeat(
    cluster: Cluster, *attempts: AttemptId, slots: tuple[e.ReportedSlot, ...] | None = None
) -> list[c.Command]:
    if slots is None:
        [view] = cluster.machine.cluster().task_managers
        slots = tuple(e.ReportedSlot(s.index, s.allocation_id, s.job_id) for s in view.slots)
    told = cluster.tell(e.TaskManagerHeartbeat(TM, cluster.sessions["tm-1"], slots, attempts))
    return told + cluster.settle()


def test_registration_with_the_same_session_changes_nothing() -> None:
    cluster = running_job()
    view = cluster.machine.cluster().task_managers[0]
    slots = tuple(e.ReportedSlot(s.index, s.allocation_id, s.job_id) for s in view.slots)
    commands = cluster.tell(e.TaskManagerRegistered(TM, "s1", "tm-1:1", "tm-1", slots))
    assert not cluster.of(c.FreeSlot, commands)
    assert cluster.states() == {E.RUNNING}


def test_another_session_replaces_the_old_one_whose_tasks_are_lost() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    commands = cluster.register("tm-1", 2, session="s2")
    assert [x.session for x in cluster.of(c.CloseTaskManager, commands)] == ["s1"]
    assert cluster.job_state() is J.RESTARTING
    cluster.pass_time(1_100)
    assert cluster.states() == {E.DEPLOYING}


def test_a_broken_connection_fails_the_tasks_at_once_and_a_spare_takes_over() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.register("tm-2", 2)
    commands = cluster.tell(e.TaskManagerConnectionLost(TM, "s1", "reset", is_gone=True))
    assert cluster.of(c.CloseTaskManager, commands)
    assert cluster.job_state() is J.RESTARTING
    assert not cluster.of(c.CancelTask, commands), "nobody is there to cancel"
    failure = cluster.job().failure
    assert failure is not None
    assert failure.code == "subtask-lost"
    cluster.pass_time(1_100)
    assert {s.current.task_manager_id for v in cluster.job().vertices for s in v.subtasks} == {"tm-2"}


BROKE = e.TaskManagerConnectionLost(TM, "s1", "reset")


def test_a_task_manager_whose_connection_broke_has_time_to_come_back_and_nothing_is_placed_there() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    assert not cluster.of(c.CloseTaskManager, cluster.tell(BROKE))
    cluster.pass_time(4_999)
    assert cluster.states() == {E.RUNNING}
    heartbeat(cluster, *cluster.attempts())
    cluster.pass_time(49_999)
    assert cluster.states() == {E.RUNNING}, "it is back, and silent for less than heartbeat.timeout"


def test_free_slots_of_a_task_manager_are_free_again_when_it_is_back() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    cluster.tell(BROKE)
    cluster.submit(two_stage())
    assert cluster.states() == {E.SCHEDULED}
    heartbeat(cluster)
    assert E.SCHEDULED not in cluster.states()


def test_one_that_does_not_come_back_in_time_is_lost() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.tell(BROKE)
    cluster.pass_time(3_000)
    cluster.tell(BROKE)  # the time began with the first
    cluster.pass_time(2_000)
    assert cluster.job_state() is J.RESTARTING
    failure = cluster.job().failure
    assert failure is not None
    assert "it did not reconnect (tidegate.taskmanager.reconnect-timeout)" in failure.message


STANDS_STILL = e.TaskManagerStoodStill(TM, "s1")


def test_one_whose_process_stands_still_has_until_the_heartbeat_timeout() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.tell(STANDS_STILL)  # its connection is whole: of no meaning
    cluster.tell(BROKE)
    cluster.pass_time(1_000)
    cluster.tell(STANDS_STILL, STANDS_STILL)
    cluster.pass_time(48_000)
    assert cluster.states() == {E.RUNNING}
    cluster.pass_time(2_000)
    assert cluster.job_state() is J.RESTARTING
    failure = cluster.job().failure
    assert failure is not None
    assert "it did not reconnect (heartbeat.timeout)" in failure.message


def test_one_whose_process_is_gone_is_lost_at_once_while_it_is_waited_for() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.tell(BROKE)
    cluster.tell(e.TaskManagerConnectionLost(TM, "s1", "nothing listens", is_gone=True))
    assert cluster.job_state() is J.RESTARTING


def test_without_a_time_to_come_back_every_broken_connection_is_a_loss() -> None:
    cluster = Cluster({"tidegate.taskmanager.reconnect-timeout": "0 s"})
    cluster.register("tm-1", 2)
    cluster.submit(two_stage(), CHECKPOINTED)
    cluster.start_tasks()
    cluster.tell(BROKE)
    assert cluster.job_state() is J.RESTARTING


def test_a_jobmanager_that_stood_still_waits_once_more_before_it_calls_others_silent() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.now_ms += 60_000  # its process was stopped, and its timers fire before it has read anything
    cluster.pass_time(0)
    assert cluster.states() == {E.RUNNING}
    cluster.pass_time(5_000)
    assert cluster.job_state() is J.RESTARTING


def test_the_loss_of_an_old_session_means_nothing() -> None:
    cluster = running_job()
    cluster.tell(e.TaskManagerConnectionLost(TM, "s0", "reset", is_gone=True))
    assert cluster.states() == {E.RUNNING}


def test_a_silent_task_manager_is_lost_after_the_timeout() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.pass_time(30_000)
    heartbeat(cluster, *cluster.attempts())
    cluster.pass_time(49_999)
    assert len(cluster.machine.cluster().task_managers) == 1
    cluster.pass_time(1)
    assert not cluster.machine.cluster().task_managers


def test_a_heartbeat_of_a_stranger_closes_its_connection() -> None:
    cluster = Cluster()
    [close] = cluster.tell(e.TaskManagerHeartbeat(TM, "s1", (), ()))
    assert isinstance(close, c.CloseTaskManager)


# ---- heartbeats reconcile ------------------------------------------------------------------------------------------------------


def test_attempts_nobody_knows_are_canceled_once() -> None:
    cluster = running_job()
    stray = AttemptId(JobId(hex_id("old job")), cluster.attempts()[0].vertex_id, 0, 0)
    cluster.answers_calls = False
    assert [x.attempt for x in cluster.of(c.CancelTask, heartbeat(cluster, *cluster.attempts(), stray))] == [stray]
    assert not cluster.of(c.CancelTask, heartbeat(cluster, *cluster.attempts(), stray)), "one is on its way"


def test_a_task_missing_in_two_reports_is_lost() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    rest = cluster.attempts()[1:]
    heartbeat(cluster, *rest)
    heartbeat(cluster, *cluster.attempts())
    heartbeat(cluster, *rest)
    assert cluster.job_state() is J.RUNNING
    heartbeat(cluster, *rest)
    assert cluster.job_state() is J.RESTARTING


def test_a_cancellation_that_did_not_arrive_is_repeated_by_the_next_report() -> None:
    cluster = running_job()
    cluster.refusal = lambda command: ErrorInfo.of(Unreachable("no")) if isinstance(command, c.CancelTask) else None
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.settle()
    commands = heartbeat(cluster, *cluster.attempts())
    assert len(cluster.of(c.CancelTask, commands)) == 4


def test_a_slot_that_was_lost_takes_its_tasks_along() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    view = cluster.machine.cluster().task_managers[0]
    slots = (e.ReportedSlot(0), e.ReportedSlot(1, view.slots[1].allocation_id, JOB))
    heartbeat(cluster, *cluster.attempts(), slots=slots)
    assert cluster.job_state() is J.RUNNING
    heartbeat(cluster, *cluster.attempts(), slots=slots)
    assert cluster.job_state() is J.RESTARTING


def test_a_slot_that_its_task_manager_freed_is_asked_for_again() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    allocation = cluster.of(c.AllocateSlot)[0].allocation_id
    cluster.tell(e.SlotFreed(TM, allocation))
    assert cluster.job_state() is J.RESTARTING
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    assert len(cluster.of(c.AllocateSlot)) == 3
    assert cluster.states() == {E.DEPLOYING}


# ---- waiting for slots -----------------------------------------------------------------------------------------------------------


def test_a_job_takes_all_its_slots_or_none() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 1)
    cluster.submit(two_stage())
    assert not cluster.of(c.AllocateSlot)
    assert cluster.job().waiting_for == "1 of 2 slots"
    cluster.register("tm-2", 1)
    assert cluster.states() == {E.DEPLOYING}
    assert cluster.job().waiting_for == ""


def test_waiting_too_long_fails_and_says_how_many_are_missing() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    cluster.submit(two_stage(4))
    for _ in range(10):
        cluster.pass_time(30_000)
        heartbeat(cluster)
    assert cluster.job_state() is J.FAILED
    failure = cluster.job().failure
    assert failure is not None
    assert failure.code == "no-resource-available"
    assert failure.message.startswith("2 of 4 slots are missing; registered: 1 TaskManager with 2 slots;")


def test_without_any_task_manager_that_is_said() -> None:
    cluster = Cluster()
    cluster.submit(two_stage(1), {"slot.request.timeout": "2 s"})
    cluster.pass_time(2_000)
    assert "1 of 1 slots are missing; registered: no TaskManager;" in str(cluster.job().failure)


def test_a_job_that_never_had_its_slots_is_not_restarted_for_ever() -> None:
    cluster = Cluster()
    cluster.submit(two_stage(1), {**CHECKPOINTED, "slot.request.timeout": "2 s"})
    cluster.pass_time(2_000)
    assert cluster.job_state() is J.FAILED


def test_a_job_that_ran_leaves_it_to_its_restart_strategy() -> None:
    cluster = running_job(configuration={**CHECKPOINTED, "slot.request.timeout": "2 s"})
    cluster.tell(e.TaskManagerConnectionLost(TaskManagerId("tm-1"), "s1", "gone", is_gone=True))
    cluster.pass_time(30_000)
    assert not cluster.job_state().is_terminal


def test_a_refused_allocation_is_tried_elsewhere() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 1)
    refused = ErrorInfo.of(InternalError("taken"))
    cluster.refusal = lambda command: refused if getattr(command, "task_manager_id", "") == "tm-1" else None
    cluster.submit(two_stage(1))
    assert cluster.states() == {E.SCHEDULED}
    cluster.register("tm-2", 1)
    assert cluster.attempts(E.DEPLOYING)


def test_slots_are_spread_where_that_is_configured() -> None:
    for mode, expected in (("NONE", {"tm-1"}), ("SLOTS", {"tm-1", "tm-2"})):
        cluster = Cluster({"taskmanager.load-balance.mode": mode})
        cluster.register("tm-1", 2)
        cluster.register("tm-2", 2)
        cluster.submit(two_stage(2))
        assert {a.task_manager_id for a in cluster.of(c.AllocateSlot)} == expected


def test_groups_do_not_share_slots() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 5)
    cluster.submit(graph([vertex("a", 2, source=True), vertex("b", 3, source=True, group="other")]))
    assert len(cluster.of(c.AllocateSlot)) == 5


def test_a_restarted_task_returns_to_its_slot() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    before = [s.deployment.allocation_id for s in cluster.of(c.SubmitTask)]
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    assert [s.deployment.allocation_id for s in cluster.of(c.SubmitTask)][4:] == before


def test_a_slot_in_which_everything_finished_is_given_back_after_a_while() -> None:
    cluster = running_job(
        graph([vertex("a", 1, source=True), vertex("b", 1, source=True, group="other")]),
        {"slot.idle.timeout": "10 s"},
    )
    cluster.state(cluster.attempt("a"), E.FINISHED)
    cluster.pass_time(9_999)
    assert not cluster.of(c.FreeSlot)
    cluster.pass_time(1)
    assert len(cluster.of(c.FreeSlot)) == 1


def test_the_next_job_gets_what_the_first_one_leaves() -> None:
    cluster = running_job()
    second = two_stage()
    other = JobId(hex_id("second"))
    second = graph(second.vertices, (), job_id=other)
    cluster.submit(second)
    assert cluster.job(other).waiting_for == "2 of 2 slots"
    for attempt in cluster.attempts():
        cluster.state(attempt, E.FINISHED)
    for free in cluster.of(c.FreeSlot):
        cluster.tell(e.SlotFreed(TM, free.allocation_id))
    cluster.settle()
    assert cluster.job(other).waiting_for == ""


def test_the_cluster_view_counts_slots() -> None:
    cluster = running_job(slots=3)
    view = cluster.machine.cluster()
    assert (view.slots_total, view.slots_free) == (3, 1)
    assert view.task_managers[0].slots[0].job_id == JOB
