"""What is remembered of a job's parallelisms; the reasons and causes are those that Flink 2.3 recorded in the same situations."""

from __future__ import annotations

from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, JOB, Cluster, running_job, two_stage
from tests.unit.jobmanager.machines.job.test_adaptive import ADAPTIVE, PREFIX, checkpointed, lose, submitted
from tests.unit.jobmanager.machines.job.test_rescaling import changing, over, wanted
from tidegate.jobmanager.machines import events as e
from tidegate.model.rescaling.history import Rescale, Rescales, SchedulerState, TerminalState
from tidegate.model.rescaling.history import TriggerCause as T

AT_ONCE = {
    **ADAPTIVE,
    f"{PREFIX}.executing.cooldown-after-rescaling": "0 s",
    f"{PREFIX}.executing.resource-stabilization-timeout": "0 s",
}


def history_of(cluster: Cluster) -> Rescales:
    found = cluster.job().rescale_history
    assert found is not None
    return found


def told(cluster: Cluster) -> list[tuple[str, str, int]]:
    """Newest first."""
    history = history_of(cluster).history
    return [(one.trigger.name, one.reason.name if one.reason else "", one.attempt) for one in history]


def adaptive(*slots: int, parallelism: int = 2) -> Cluster:
    cluster = submitted(*slots, settings=AT_ONCE, parallelism=parallelism)
    cluster.start_tasks()
    return cluster


def states_of(rescale: Rescale) -> list[str]:
    return [span.state.value for span in rescale.spans]


def rescaled(cluster: Cluster, parallelism: int) -> Cluster:
    cluster.tell(wanted(parallelism))
    checkpointed(cluster)
    over(cluster).start_tasks()
    return cluster


def test_the_start_of_an_adaptive_job_is_the_first() -> None:
    cluster = adaptive(4)
    assert told(cluster) == [("INITIAL_SCHEDULE", "SUCCEEDED", 1)]
    (first,) = history_of(cluster).history
    assert [(one.before, one.after, one.bounds.upper) for one in first.vertices] == [(None, 2, 2), (None, 2, 2)]
    assert states_of(first) == ["Created", "CreatingExecutionGraph", "Executing"]
    assert all(span.left_ms is not None for span in first.spans)


def test_other_requirements_are_followed_and_counted_anew() -> None:
    cluster = rescaled(adaptive(4), 3)
    assert told(cluster) == [("UPDATE_REQUIREMENT", "SUCCEEDED", 1), ("INITIAL_SCHEDULE", "SUCCEEDED", 1)]
    newest, first = history_of(cluster).history
    assert {(one.before, one.after) for one in newest.vertices} == {(2, 3)}
    assert states_of(newest) == ["Executing", "Restarting", "CreatingExecutionGraph", "Executing"]
    assert newest.requirements_id != first.requirements_id
    assert history_of(cluster).counts[TerminalState.COMPLETED] == 2


def test_the_same_requirements_again_are_nothing_new() -> None:
    cluster = rescaled(adaptive(4), 3)
    before = told(cluster)
    cluster.tell(wanted(3))
    cluster.settle()
    assert told(cluster) == before


def test_what_does_not_fit_is_taken_as_far_as_it_fits() -> None:
    newest = history_of(rescaled(adaptive(4), 8)).history[0]
    assert {(one.bounds.upper, one.before, one.after) for one in newest.vertices} == {(8, 2, 4)}


def test_requirements_that_change_nothing_are_ignored() -> None:
    cluster = adaptive(2)
    cluster.tell(wanted(8))
    assert told(cluster)[0] == ("UPDATE_REQUIREMENT", "NO_RESOURCES_OR_PARALLELISMS_CHANGE", 1)
    assert history_of(cluster).latest.keys() == {TerminalState.COMPLETED, TerminalState.IGNORED}


def test_requirements_that_are_overtaken_are_ignored() -> None:
    cluster = adaptive(4)
    cluster.tell(wanted(3))
    cluster.tell(wanted(4))
    assert [reason for _, reason, _ in told(cluster)] == ["", "RESOURCE_REQUIREMENTS_UPDATED", "SUCCEEDED"]
    assert history_of(cluster).in_progress == 1


def test_new_slots_are_a_cause_of_their_own() -> None:
    cluster = rescaled(adaptive(2), 4)
    cluster.register("tm-later", 2)
    checkpointed(cluster)
    over(cluster).start_tasks()
    assert cluster.job().vertices[0].parallelism == 4
    assert told(cluster)[0] == ("NEW_RESOURCE_AVAILABLE", "SUCCEEDED", 2), "the second for the same requirements"


def test_a_failure_is_another_attempt_and_says_why_it_restarted() -> None:
    cluster = adaptive(2, 2, parallelism=4)
    lose(cluster, "tm-1")
    newest = history_of(cluster).history[0]
    assert (newest.trigger, newest.attempt) == (T.RECOVERABLE_FAILOVER, 2)
    (restarting,) = [span for span in newest.spans if span.state is SchedulerState.RESTARTING]
    assert restarting.error is not None
    assert "tm-1" in restarting.error.message


def test_a_job_that_ends_takes_what_is_under_way_with_it() -> None:
    cluster = adaptive(4)
    cluster.tell(wanted(3))
    cluster.tell(e.JobCancelRequested(JOB))
    assert told(cluster)[0] == ("UPDATE_REQUIREMENT", "JOB_CANCELED", 1)


def test_a_job_without_the_adaptive_scheduler_has_one_once_it_is_asked() -> None:
    assert running_job(two_stage(), CHECKPOINTED, slots=4).job().rescale_history is None
    cluster = over(changing())
    assert told(cluster) == [("UPDATE_REQUIREMENT", "", 1)]
    cluster.start_tasks()
    assert told(cluster) == [("UPDATE_REQUIREMENT", "SUCCEEDED", 1)]


def test_what_an_earlier_job_manager_was_asked_for_is_the_cause_of_the_next_ones_change() -> None:
    cluster = Cluster()
    cluster.register("tm", 4)
    settings = {**CHECKPOINTED, "tidegate.jobmanager.adoption-timeout": "1 s"}
    cluster.tell(e.JobRecovered(e.JobSubmitted(two_stage(), settings), first_attempt=1, requests=(wanted(4),)))
    cluster.pass_time(1_000)
    cluster.start_tasks()
    cluster.settle()
    assert told(cluster)[0] == ("UPDATE_REQUIREMENT", "", 1)


def test_a_job_that_waits_for_the_slots_of_its_new_shape_is_still_on_its_way() -> None:
    cluster = running_job(two_stage(), CHECKPOINTED, slots=2)
    cluster.tell(wanted(4))
    assert told(cluster) == [("UPDATE_REQUIREMENT", "", 1)]


def test_only_so_many_are_kept_and_all_are_counted() -> None:
    settings = {**AT_ONCE, "web.adaptive-scheduler.rescale-history.size": "2"}
    cluster = submitted(4, settings=settings, parallelism=2)
    cluster.start_tasks()
    for parallelism in (3, 4, 3):
        rescaled(cluster, parallelism)
    found = history_of(cluster)
    assert [one.vertices[0].after for one in found.history] == [3, 4]
    assert (found.counts[TerminalState.COMPLETED], found.all_durations.count) == (4, 4)


def test_none_is_kept_where_nobody_wants_any() -> None:
    settings = {**AT_ONCE, "web.adaptive-scheduler.rescale-history.size": "0"}
    cluster = submitted(4, settings=settings, parallelism=2)
    cluster.start_tasks()
    assert cluster.job().rescale_history is None
