"""Changes of the job store: in order, granted when durable, never after the end of the term."""

from __future__ import annotations

from tidegate.jobmanager.machines.fenced_writes import (
    RETRY_MS,
    Abandon,
    FencedWrites,
    Grant,
    Resign,
    TermOver,
    WakeUp,
    Write,
    WriteDone,
    WriteDue,
    WriteRefused,
    WriteRequested,
    WritesCommand,
    WritesEvent,
    WritesPaused,
    WritesResumed,
    WriteUnanswered,
)


def told(writes: FencedWrites, *events: WritesEvent) -> list[WritesCommand]:
    """The commands of the last event."""
    commands: list[WritesCommand] = []
    for event in events:
        commands = list(writes.on(event, 0))
        writes.check_invariants()
    return commands


def test_writes_of_a_job_keep_their_order_and_those_of_others_do_not_wait() -> None:
    writes = FencedWrites()
    assert told(writes, WriteRequested("a", 1)) == [Write(1)]
    assert told(writes, WriteRequested("a", 2)) == []
    assert told(writes, WriteRequested("b", 3)) == [Write(3)]
    assert told(writes, WriteDone(1)) == [Grant(1), Write(2)]
    assert told(writes, WriteDone(2)) == [Grant(2)]


def test_an_unanswered_write_is_made_again_and_what_is_behind_it_waits() -> None:
    writes = FencedWrites()
    told(writes, WriteRequested("a", 1), WriteRequested("a", 2))
    assert told(writes, WriteUnanswered(1)) == [WakeUp(1, RETRY_MS)]
    assert told(writes, WriteDue(1)) == [Write(1)]
    assert told(writes, WriteDue(1)) == []
    assert told(writes, WriteDone(1)) == [Grant(1), Write(2)]


def test_while_paused_nothing_is_begun_or_granted() -> None:
    writes = FencedWrites()
    told(writes, WriteRequested("a", 1), WriteRequested("b", 2), WriteUnanswered(2), WritesPaused())
    assert told(writes, WriteDone(1)) == []
    assert told(writes, WriteDue(2)) == []
    assert told(writes, WriteRequested("c", 3)) == []
    assert told(writes, WritesResumed()) == [Grant(1), Write(2), Write(3)]


def test_a_refusal_ends_the_term() -> None:
    writes = FencedWrites()
    told(writes, WriteRequested("a", 1), WriteRequested("a", 2), WriteRequested("b", 3))
    assert told(writes, WriteRefused(1)) == [Resign(), Abandon(1), Abandon(2), Abandon(3)]
    assert told(writes, WriteDone(3)) == []
    assert told(writes, WriteRequested("a", 4)) == [Abandon(4)]


def test_after_the_term_nothing_is_granted_although_it_was_written() -> None:
    writes = FencedWrites()
    told(writes, WriteRequested("a", 1), WritesPaused(), WriteDone(1))
    assert told(writes, TermOver()) == [Abandon(1)]
    assert told(writes, WritesResumed()) == []
    assert told(writes, WriteUnanswered(1)) == []
