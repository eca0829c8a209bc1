"""Events of readers, checkpoints and restarts meet in the coordinators of a job."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.jobmanager.machines.cluster_kit import FAULT, Cluster, operator_id, running_job, two_stage
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import COORDINATED_VERSION, MANIFEST_VERSION
from tidegate.model.coordinators.operator_events import (
    AddSplits,
    CoordinatorEvent,
    CoordinatorState,
    DiscoveryNoted,
    NoMoreSplits,
    OperatorEvent,
    ReaderEvent,
    ReportBacklog,
    RequestDiscovery,
    RequestSplit,
    SourceSplit,
    SplitsDiscovered,
    StartDiscovery,
)
from tidegate.model.errors import ErrorInfo, UnknownAttempt, Unreachable
from tidegate.model.graph import JobGraph, Partitioner
from tidegate.model.ids import AttemptId
from tidegate.model.states import ExecutionState, JobState

SPLITS = tuple(SourceSplit(str(number), b"", 100 << 20) for number in range(4))
SOURCE = operator_id("source")
PERIODIC = {"execution.checkpointing.interval": "1 s", "restart-strategy.fixed-delay.delay": "10 ms"}
PERIODIC |= {"restart-strategy.type": "fixed-delay"}


def coordinated(partitioner: Partitioner = Partitioner.FORWARD, *, discovers: bool = False) -> JobGraph:
    job = two_stage(2, partitioner)
    source = job.vertices[0]
    operators = (replace(source.operators[0], splits=() if discovers else SPLITS, discovers_splits=discovers),)
    return replace(job, vertices=(replace(source, operators=operators), *job.vertices[1:]))


def ask(cluster: Cluster, attempt: AttemptId, number: int) -> list[OperatorEvent]:
    """Returns all events that are sent because a reader asks."""
    return [command.event for command in tell(cluster, attempt, number, RequestSplit())]


def tell(cluster: Cluster, attempt: AttemptId, number: int, event: CoordinatorEvent) -> list[c.SendOperatorEvent]:
    """Returns what is sent because of this."""
    told = e.OperatorEventReceived(attempt, OperatorEvent(SOURCE, number, event))
    return cluster.of(c.SendOperatorEvent, [*cluster.tell(told), *cluster.settle()])


BACKLOG = {**PERIODIC, "execution.checkpointing.interval-during-backlog": "30 s"}


def triggered(cluster: Cluster) -> int:
    """Returns how many checkpoints have started."""
    return len({trigger.checkpoint_id for trigger in cluster.of(c.TriggerCheckpoint)})


def take_checkpoints(cluster: Cluster, duration_ms: int) -> int:
    """Returns how many start in this time, when each completes at once."""
    before = triggered(cluster)
    for _ in range(duration_ms // 100):
        cluster.pass_time(100)
        for number in sorted({t.checkpoint_id for t in cluster.of(c.TriggerCheckpoint)})[before:]:
            if cluster.checkpoints().in_progress:
                cluster.complete_checkpoint(number)
    return triggered(cluster) - before


def test_checkpoints_are_rarer_while_a_source_works_off_a_backlog() -> None:
    cluster = running_job(two_stage(2), BACKLOG)
    reader = cluster.attempt("source", 0)
    assert take_checkpoints(cluster, 10_000) in (10, 11)
    tell(cluster, reader, 1, ReportBacklog(True))
    assert take_checkpoints(cluster, 1_000) == 1, "it was planned before"
    assert take_checkpoints(cluster, 20_000) == 0
    tell(cluster, reader, 2, ReportBacklog(False))
    assert take_checkpoints(cluster, 10_000) in (10, 11)


def test_any_source_that_works_off_a_backlog_counts_and_a_restart_forgets_it() -> None:
    cluster = running_job(two_stage(2), {**BACKLOG, "execution.checkpointing.interval-during-backlog": "0"})
    reader = cluster.attempt("source", 0)
    tell(cluster, reader, 1, ReportBacklog(True))
    take_checkpoints(cluster, 2_000)
    assert take_checkpoints(cluster, 20_000) == 0
    assert tell(cluster, reader, 1, ReportBacklog(False)) == [], "it came before"
    assert take_checkpoints(cluster, 5_000) == 0
    cluster.fail(reader)
    cluster.cancel_tasks()
    cluster.pass_time(1_000)
    cluster.start_tasks()
    assert cluster.job_state() is JobState.RUNNING
    assert take_checkpoints(cluster, 10_000) >= 9, "the new enumerator has not said anything"


def test_what_one_reader_finds_is_noted_and_goes_to_the_one_that_waits() -> None:
    cluster = running_job(coordinated(discovers=True), PERIODIC)
    looks, waits = cluster.attempt("source", 0), cluster.attempt("source", 1)
    assert ask(cluster, waits, 1) == [], "no end: some may come"
    (started,) = tell(cluster, looks, 1, RequestDiscovery())
    assert (started.attempt, started.event) == (looks, OperatorEvent(SOURCE, 1, StartDiscovery(())))
    noted, given = tell(cluster, looks, 2, SplitsDiscovered(SPLITS[:1]))
    assert (noted.attempt, noted.event) == (looks, OperatorEvent(SOURCE, 2, DiscoveryNoted(2)))
    assert (given.attempt, given.event) == (waits, OperatorEvent(SOURCE, 1, AddSplits(SPLITS[:1])))
    assert tell(cluster, looks, 2, SplitsDiscovered(SPLITS[:1])) == [], "the same message"


def test_what_names_a_reader_that_restarts_goes_to_it_before_the_next_trigger() -> None:
    cluster = running_job(coordinated(discovers=True), PERIODIC)
    looks, named = cluster.attempt("source", 0), cluster.attempt("source", 1)
    cluster.fail(named)
    (noted,) = tell(cluster, looks, 1, SplitsDiscovered(SPLITS[:1], 1))
    assert noted.event.event == DiscoveryNoted(1)
    cluster.cancel_tasks()
    cluster.pass_time(100)
    cluster.start_tasks()
    commands = cluster.pass_time(1_000)
    (given,) = cluster.of(c.SendOperatorEvent, commands)
    assert (given.attempt, given.event.event) == (cluster.attempt("source", 1), AddSplits(SPLITS[:1]))
    trigger = next(command for command in commands if isinstance(command, c.TriggerCheckpoint))
    assert commands.index(given) < commands.index(trigger)


def test_a_reader_that_asks_is_answered_and_events_are_numbered() -> None:
    cluster = running_job(coordinated(), PERIODIC)
    first, second = cluster.attempt("source", 0), cluster.attempt("source", 1)
    assert ask(cluster, first, 1) == [OperatorEvent(SOURCE, 1, AddSplits(SPLITS[:1]))]
    assert ask(cluster, second, 1) == [OperatorEvent(SOURCE, 1, AddSplits(SPLITS[1:2]))]
    assert ask(cluster, first, 2) == [OperatorEvent(SOURCE, 2, AddSplits(SPLITS[2:3]))]
    ask(cluster, first, 3)
    assert ask(cluster, second, 2) == [OperatorEvent(SOURCE, 2, NoMoreSplits())]


def test_a_request_that_comes_again_changes_nothing() -> None:
    cluster = running_job(coordinated(), PERIODIC)
    reader = cluster.attempt("source", 0)
    ask(cluster, reader, 1)
    assert ask(cluster, reader, 1) == []


def test_who_is_over_or_has_no_coordinator_gets_nothing() -> None:
    cluster = running_job(coordinated(), PERIODIC)
    old = cluster.attempt("source", 0)
    assert ask(cluster, replace(old, attempt=7), 1) == []
    stranger = OperatorEvent(operator_id("sink"), 1, RequestSplit())
    assert cluster.tell(e.OperatorEventReceived(cluster.attempt("sink"), stranger)) == []
    cluster.tell(e.JobCancelRequested(cluster.job().job_id))
    assert ask(cluster, old, 1) == []


def test_a_checkpoint_holds_what_was_unassigned_when_its_sources_were_triggered() -> None:
    cluster = running_job(coordinated(), PERIODIC)
    reader = cluster.attempt("source", 0)
    ask(cluster, reader, 1)
    cluster.pass_time(1_000)
    ask(cluster, reader, 2)
    (written,) = cluster.of(c.WriteManifest, cluster.complete_checkpoint(1))
    (source,) = (state for state in written.manifest.operators if state.operator_id == SOURCE)
    assert source.coordinator == CoordinatorState(SPLITS[1:])
    assert written.manifest.version == COORDINATED_VERSION


def test_a_checkpoint_without_unassigned_splits_is_as_it_was_before_there_were_coordinators() -> None:
    cluster = running_job(coordinated(), PERIODIC)
    for number in range(1, 5):
        ask(cluster, cluster.attempt("source", 0), number)
    cluster.pass_time(1_000)
    (written,) = cluster.of(c.WriteManifest, cluster.complete_checkpoint(1))
    assert written.manifest.version == MANIFEST_VERSION
    assert written.manifest.operators == ()


def test_what_was_handed_out_since_the_checkpoint_goes_to_whoever_asks_when_its_reader_restarts() -> None:
    cluster = running_job(coordinated(), PERIODIC)
    first, second = cluster.attempt("source", 0), cluster.attempt("source", 1)
    ask(cluster, first, 1)
    cluster.pass_time(1_000)
    cluster.complete_checkpoint(1)
    ask(cluster, first, 2)
    cluster.fail(first)
    assert ask(cluster, second, 1) == [OperatorEvent(SOURCE, 1, AddSplits(SPLITS[2:3]))], "it is not given up yet"
    cluster.cancel_tasks()
    cluster.pass_time(100)
    cluster.start_tasks()
    assert cluster.job_state() is JobState.RUNNING
    again = cluster.attempt("source", 0)
    assert ask(cluster, again, 1) == [OperatorEvent(SOURCE, 1, AddSplits(SPLITS[1:2]))], "numbers begin anew"


def said(cluster: Cluster, attempt: AttemptId, number: int, event: ReaderEvent) -> list[c.SendOperatorEvent]:
    """Returns what is passed on because a reader speaks. In these jobs the enumerator is the source, and the sink its reader."""
    told = e.OperatorEventReceived(attempt, OperatorEvent(operator_id("sink"), number, event))
    return cluster.of(c.SendOperatorEvent, [*cluster.tell(told), *cluster.settle()])


def test_what_a_reader_says_is_passed_on_unread_under_the_name_of_its_own_subtask() -> None:
    cluster = running_job(two_stage(1, Partitioner.CUSTOM), PERIODIC)
    enumerator, reader = cluster.attempt("source", 0), cluster.attempt("sink", 0)
    (passed,) = said(cluster, reader, 1, ReaderEvent(SOURCE, 7, b"hello"))
    assert (passed.attempt, passed.event) == (enumerator, OperatorEvent(SOURCE, 1, ReaderEvent(SOURCE, 0, b"hello")))
    (passed,) = said(cluster, reader, 2, ReaderEvent(SOURCE, 0, b"again"))
    assert passed.event.number == 2
    assert said(cluster, reader, 2, ReaderEvent(SOURCE, 0, b"again")) == [], "the same message"


def test_what_a_reader_says_to_an_enumerator_that_does_not_run_or_is_unknown_is_dropped() -> None:
    cluster = running_job(two_stage(1, Partitioner.CUSTOM), PERIODIC)
    reader = cluster.attempt("sink", 0)
    assert said(cluster, reader, 1, ReaderEvent(operator_id("nobody"), 0, b"")) == []
    cluster.fail(cluster.attempt("source", 0))
    assert said(cluster, reader, 2, ReaderEvent(SOURCE, 0, b"")) == []


def test_an_event_that_does_not_arrive_fails_the_attempt() -> None:
    cluster = running_job(coordinated(), PERIODIC)
    unreachable = ErrorInfo.of(Unreachable("no answer"))
    cluster.refusal = lambda command: unreachable if isinstance(command, c.SendOperatorEvent) else None
    reader = cluster.attempt("source", 0)
    ask(cluster, reader, 1)
    assert cluster.job_state() is JobState.RESTARTING
    assert reader not in cluster.attempts(ExecutionState.RUNNING)


def test_an_event_for_an_attempt_that_has_ended_waits_for_its_last_word() -> None:
    cluster = running_job(coordinated(), PERIODIC)
    gone = ErrorInfo.of(UnknownAttempt("not here"))
    cluster.refusal = lambda command: gone if isinstance(command, c.SendOperatorEvent) else None
    reader = cluster.attempt("source", 0)
    ask(cluster, reader, 1)
    assert cluster.job_state() is JobState.RUNNING
    cluster.refusal = lambda command: None
    cluster.fail(reader, FAULT)
    cluster.cancel_tasks()
    cluster.pass_time(100)
    cluster.start_tasks()
    assert ask(cluster, cluster.attempt("source", 1), 1) == [OperatorEvent(SOURCE, 1, AddSplits(SPLITS[:1]))]
