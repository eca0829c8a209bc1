"""TaskManagers that come when they are needed: what is started, when it is stopped, and what a job says when nothing comes."""

from __future__ import annotations

import pytest

from tests.unit.jobmanager.machines.cluster_kit import JOB, Cluster, graph, vertex
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.ids import JobId, TaskManagerId
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

PATIENT = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "1 s",
}


def cluster_of(*found: TaskManagerId, **settings: str) -> Cluster:
    """With three slots for each TaskManager; underscores stand for dots and hyphens as in the keys below."""
    keys = {
        "minimum": "slotmanager.number-of-slots.min",
        "maximum": "slotmanager.number-of-slots.max",
        "redundant": "slotmanager.redundant-taskmanager-num",
        "processes": "tidegate.resourcemanager.process.max-taskmanagers",
        "expected": "tidegate.resourcemanager.expected-slots",
        "rate": "resourcemanager.start-worker.max-failure-rate",
    }
    configuration = {"tidegate.resourcemanager.driver": "process", "taskmanager.numberOfTaskSlots": "3"}
    cluster = Cluster({**configuration, **{keys[name]: text for name, text in settings.items()}})
    cluster.tell(e.WorkersFound(found))
    return cluster


def submit(cluster: Cluster, parallelism: int) -> None:
    cluster.submit(graph([vertex("source", parallelism, source=True)]), PATIENT)


def started(cluster: Cluster) -> list[TaskManagerId]:
    return [command.worker_id for command in cluster.of(c.StartWorker)]


def stopped(cluster: Cluster) -> list[TaskManagerId]:
    return [command.worker_id for command in cluster.of(c.StopWorker)]


def states(cluster: Cluster) -> dict[str, str]:
    cluster.machine.check_invariants()
    return {worker.worker_id: worker.state for worker in cluster.machine.cluster().workers}


def come(cluster: Cluster, *workers: TaskManagerId) -> None:
    for worker in workers:
        cluster.register(worker, 3)
    cluster.start_tasks()


def end(cluster: Cluster) -> None:
    for attempt in cluster.attempts():
        cluster.state(attempt, E.FINISHED)
    for slot in cluster.of(c.FreeSlot):
        cluster.tell(e.SlotFreed(slot.task_manager_id, slot.allocation_id))


def running_on_three() -> Cluster:
    cluster = cluster_of()
    submit(cluster, 9)
    cluster.pass_time(50)
    come(cluster, *started(cluster))
    assert cluster.states() == {E.RUNNING}
    return cluster


def test_a_job_of_nine_gets_three_task_managers_of_three_slots() -> None:
    cluster = running_on_three()
    assert len(started(cluster)) == 3
    cluster.pass_time(20_000)
    assert len(started(cluster)) == 3, "and no more while it runs"
    assert set(states(cluster).values()) == {"REGISTERED"}


def test_a_need_is_told_once_however_many_events_there_are() -> None:
    cluster = cluster_of()
    submit(cluster, 4)
    for _ in range(5):
        cluster.tell(e.TimerFired("nothing"))
    assert not started(cluster), "several changes are one, a moment later"
    cluster.pass_time(50)
    assert len(started(cluster)) == 2
    cluster.pass_time(60_000)
    assert len(started(cluster)) == 2, "what is on its way counts as there"


def test_slots_that_somebody_else_brought_are_used_first() -> None:
    cluster = cluster_of()
    cluster.register("by-hand", 4)
    submit(cluster, 6)
    cluster.pass_time(50)
    assert len(started(cluster)) == 1
    assert cluster.job().waiting_for == "2 of 6 slots; 1 TaskManager starting"


def test_a_worker_that_is_idle_goes_after_the_timeout_and_one_by_hand_stays() -> None:
    cluster = running_on_three()
    cluster.register("by-hand", 3)
    end(cluster)
    cluster.pass_time(29_000)
    assert not stopped(cluster)
    cluster.pass_time(2_000)
    assert set(stopped(cluster)) == set(started(cluster))
    for worker in stopped(cluster):
        cluster.tell(e.WorkerEnded(worker, "as told"))
    assert states(cluster) == {}
    assert [one.task_manager_id for one in cluster.machine.cluster().task_managers] == ["by-hand"]


def test_nothing_is_placed_on_a_worker_that_was_told_to_stop() -> None:
    cluster = running_on_three()
    end(cluster)
    cluster.pass_time(31_000)
    cluster.submit(graph([vertex("next", 3, source=True)], job_id=JobId(JOB[::-1])), PATIENT)
    cluster.pass_time(50)
    assert len(started(cluster)) == 4


def test_a_worker_is_kept_for_the_minimum() -> None:
    cluster = cluster_of(minimum="4")
    cluster.pass_time(50)
    for worker in started(cluster):
        cluster.register(worker, 3)
    assert len(started(cluster)) == 2
    cluster.pass_time(45_000)
    assert not stopped(cluster)


def test_a_redundant_worker_is_there_while_a_job_runs_and_only_then() -> None:
    cluster = cluster_of(redundant="1")
    cluster.pass_time(1_000)
    assert not started(cluster), "nothing runs"
    submit(cluster, 3)
    cluster.pass_time(50)
    come(cluster, *started(cluster))
    assert len(started(cluster)) == 2
    used = {s.current.task_manager_id for v in cluster.job().vertices for s in v.subtasks}
    [lost] = used
    assert lost is not None
    cluster.tell(
        e.TaskManagerConnectionLost(lost, "s1", "killed", is_gone=True), e.WorkerEnded(lost, "killed by signal 9")
    )
    cluster.pass_time(1_100)
    cluster.start_tasks()
    assert cluster.states() == {E.RUNNING}, "on the redundant one"
    assert len(started(cluster)) == 3, "and another one is on its way"
    end(cluster)
    come(cluster, started(cluster)[-1])
    cluster.pass_time(31_000)
    assert len(stopped(cluster)) == 3, "the lost one, and both that are idle"


def test_a_worker_that_is_lost_is_replaced_before_its_job_restarts() -> None:
    cluster = running_on_three()
    lost = started(cluster)[1]
    cluster.tell(e.TaskManagerConnectionLost(lost, "s1", "reset", is_gone=True))
    assert stopped(cluster) == [lost], "whatever is left of it"
    cluster.pass_time(60)
    assert cluster.job_state() is J.RESTARTING
    assert len(started(cluster)) == 4


@pytest.mark.parametrize("breaks_first", [True, False])
def test_a_worker_whose_end_is_seen_is_not_waited_for(breaks_first: bool) -> None:
    """Its connection may break before or after that, and whether its port is closed is not known yet."""
    cluster = running_on_three()
    lost = started(cluster)[1]
    broke, ended = e.TaskManagerConnectionLost(lost, "s1", "reset"), e.WorkerEnded(lost, "killed by signal 9")
    cluster.tell(*((broke,) if breaks_first else ()))
    assert cluster.states() == {E.RUNNING}
    cluster.tell(ended)
    assert cluster.job_state() is J.RESTARTING
    failure = cluster.job().failure
    assert failure is not None
    assert failure.message.endswith("its process has ended: killed by signal 9")
    assert ("its connection broke (reset), and" in failure.message) is breaks_first
    cluster.tell(broke)
    assert cluster.job_state() is J.RESTARTING


def test_the_end_of_another_worker_is_not_the_end_of_one_that_may_come_back() -> None:
    cluster = running_on_three()
    cluster.tell(e.TaskManagerConnectionLost(started(cluster)[1], "s1", "reset"))
    cluster.tell(e.WorkerEnded(TaskManagerId("another"), "exit code 1"))
    assert cluster.states() == {E.RUNNING}


def test_starts_that_crash_again_and_again_end_in_one_error_on_the_job() -> None:
    cluster = cluster_of(rate="4")
    submit(cluster, 3)
    for number in range(5):
        cluster.pass_time(50)
        assert len(started(cluster)) == number + 1
        cluster.tell(e.WorkerEnded(started(cluster)[-1], "exit code 1: no such module"))
        cluster.settle()
    failure = cluster.job().failure
    assert failure is not None
    assert "5 starts have failed within a minute" in failure.message
    assert "exit code 1: no such module" in failure.message
    assert cluster.job_state() is J.FAILED, "it never had its slots"
    cluster.pass_time(60_000)
    assert len(started(cluster)) == 5, "and nobody needs another one"


def test_too_many_failures_hold_the_next_start_back() -> None:
    cluster = running_on_three()
    for worker in started(cluster):
        cluster.tell(e.TaskManagerConnectionLost(worker, "s1", "killed", is_gone=True), e.WorkerEnded(worker, "killed"))
    for number in range(11):
        cluster.pass_time(50)
        cluster.tell(e.WorkerEnded(started(cluster)[3 + number], "exit code 1"))
        cluster.settle()
    before = len(started(cluster))
    cluster.pass_time(2_900)
    assert len(started(cluster)) == before
    cluster.pass_time(3_000)
    assert len(started(cluster)) > before
    assert cluster.job_state() in (J.RUNNING, J.RESTARTING), "it ran before, so its restart strategy decides"


def test_a_job_that_waits_says_why_the_last_start_failed_until_one_succeeds() -> None:
    cluster = cluster_of()
    submit(cluster, 6)
    cluster.pass_time(50)
    first, second = started(cluster)
    cluster.tell(e.WorkerEnded(first, "no Spark at spark://a:7077"))
    cluster.pass_time(50)
    assert cluster.job().waiting_for == (
        "6 of 6 slots; the last start failed (no Spark at spark://a:7077); 2 TaskManagers starting"
    )
    cluster.pass_time(1)
    cluster.register(second, 3)
    assert cluster.job().waiting_for == "3 of 6 slots; 1 TaskManager starting"


def test_a_start_without_registration_is_given_up() -> None:
    cluster = cluster_of()
    submit(cluster, 1)
    cluster.pass_time(50)
    [hangs] = started(cluster)
    cluster.pass_time(299_000)
    assert not stopped(cluster)
    cluster.pass_time(2_000)
    assert stopped(cluster) == [hangs]
    cluster.register(hangs, 3)
    assert stopped(cluster) == [hangs, hangs], "it comes too late: told once more"
    assert states(cluster)[hangs] == "STOPPING"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"maximum": "6"}, "slotmanager.number-of-slots.max is 6"),
        ({"processes": "2"}, "this machine runs at most 2 TaskManagers"),
    ],
)
def test_a_job_that_needs_more_than_may_ever_be_is_refused_at_once(settings: dict[str, str], says: str) -> None:
    cluster = cluster_of(**settings)
    submit(cluster, 9)
    cluster.pass_time(50)
    failure = cluster.job().failure
    assert cluster.job_state() is J.FAILED
    assert failure is not None
    assert says in failure.message
    assert not started(cluster)


def test_no_more_slots_than_the_maximum() -> None:
    cluster = cluster_of(maximum="6")
    cluster.submit(graph([vertex("one", 5, source=True)]), PATIENT)
    cluster.submit(graph([vertex("two", 5, source=True)], job_id=JobId(JOB[::-1])), PATIENT)
    cluster.pass_time(1_000)
    assert len(started(cluster)) == 2
    assert cluster.job_state() is J.RUNNING


def test_no_worker_is_started_in_the_stead_of_one_by_hand_that_is_on_its_way() -> None:
    cluster = cluster_of(expected="4")
    submit(cluster, 4)
    cluster.pass_time(20_000)
    assert not started(cluster)
    cluster.register("by-hand", 4)
    cluster.start_tasks()
    assert cluster.states() == {E.RUNNING}
    cluster.pass_time(60)
    cluster.tell(e.TaskManagerConnectionLost(TaskManagerId("by-hand"), "s1", "killed", is_gone=True))
    cluster.pass_time(60)
    assert len(started(cluster)) == 2, "it came once, and is replaced"


def test_one_by_hand_that_does_not_come_is_replaced_in_the_end() -> None:
    cluster = cluster_of(expected="2")
    submit(cluster, 2)
    cluster.pass_time(59_000)
    assert not started(cluster)
    cluster.pass_time(2_000)
    assert len(started(cluster)) == 1


def test_a_job_manager_that_comes_back_takes_over_the_workers_of_the_one_before() -> None:
    workers = tuple(TaskManagerId(f"worker-000000-{number}") for number in (1, 2, 3))
    cluster = cluster_of(*workers)
    submit(cluster, 9)
    cluster.pass_time(1_000)
    assert not started(cluster), "they are on their way"
    come(cluster, *workers[:2])
    cluster.pass_time(49_000)  # within heartbeat.timeout
    for worker in workers[:2]:
        cluster.register(worker, 3)
    cluster.pass_time(11_000)
    assert stopped(cluster) == [workers[2]], "this one runs, and does not register"
    assert len(started(cluster)) == 1
    come(cluster, *started(cluster))
    assert cluster.states() == {E.RUNNING}


def test_a_job_is_not_refused_while_workers_of_an_earlier_job_manager_may_bring_its_slots() -> None:
    workers = tuple(TaskManagerId(f"worker-000000-{number}") for number in (1, 2, 3))
    cluster = cluster_of(*workers, maximum="4")
    submit(cluster, 9)
    cluster.pass_time(1_000)
    assert cluster.job_state() is J.RUNNING
    come(cluster, *workers)
    assert cluster.states() == {E.RUNNING}


def test_a_worker_that_was_not_found_is_known_by_its_name_when_it_registers() -> None:
    cluster = cluster_of()
    come_back = TaskManagerId("worker-abcdef-7")
    cluster.register(come_back, 3)
    assert states(cluster) == {come_back: "REGISTERED"}
    cluster.pass_time(31_000)
    assert stopped(cluster) == [come_back]


def test_nothing_is_started_before_it_is_known_what_runs() -> None:
    cluster = Cluster({"tidegate.resourcemanager.driver": "process"})
    submit(cluster, 1)
    cluster.pass_time(10_000)
    assert not started(cluster)
    cluster.tell(e.WorkersFound(()))
    cluster.pass_time(50)
    assert len(started(cluster)) == 1


def test_without_a_driver_nothing_is_started() -> None:
    cluster = Cluster()
    submit(cluster, 2)
    cluster.pass_time(60_000)
    assert not started(cluster)
    assert cluster.job().waiting_for == "2 of 2 slots"
