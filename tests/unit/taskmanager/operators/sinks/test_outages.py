"""Commits that fail, or have no answer: warnings, again and again, and gauges."""

from __future__ import annotations

import pytest

from tests.unit.taskmanager.operators.harness import Pool, Running
from tests.unit.taskmanager.operators.sinks.test_sink import World, sink
from tidegate.model.errors import StorageError


def committing(world: World) -> tuple[Running, Pool]:
    """A commit of two votes is on its way: one is tried, the other waits."""
    pool = Pool()
    one = sink(world)
    one.operator.context.background.run_async = pool.submit
    for n in (1, 2):
        one.feed([n])
        one.snapshot(n)
        one.operator.notify_checkpoint_complete(n)
        one.clock.ms += 1000
    return one, pool


def read(one: Running, name: str) -> float:
    return one.out.watched[name]()


def test_gauges_tell_what_waits_and_since_when() -> None:
    one, pool = committing(World())
    assert (read(one, "pendingCommittables"), read(one, "oldestPendingCommitAge")) == (2, 2000)
    pool.run_one()
    assert (read(one, "pendingCommittables"), read(one, "oldestPendingCommitAge")) == (1, 1000)
    pool.run_one()
    assert (read(one, "pendingCommittables"), read(one, "oldestPendingCommitAge")) == (0, 0)
    assert read(one, "failingCommitTime") == 0


def test_the_first_commit_that_fails_is_a_warning_and_so_is_the_recovery(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    one, pool = committing(world)
    world.failures = 3
    pool.run_one()
    failed, recovered = caplog.messages
    assert "operator 'op': what checkpoint 1 holds cannot be committed: the disk is away" in failed
    assert "commits succeed again, after 2 s" in recovered
    assert read(one, "failingCommitTime") == 0


def test_a_commit_without_an_answer_is_a_warning_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    one, pool = committing(World())  # at 0 ms
    one.timers.advance_to(9_999)
    assert (caplog.messages, read(one, "failingCommitTime")) == ([], 0)
    one.timers.advance_to(10_000)
    (first,) = caplog.messages
    assert "what checkpoint 1 holds is being committed, and its system does not answer" in first
    assert read(one, "failingCommitTime") == 10_000
    one.timers.advance_to(39_999)
    assert len(caplog.messages) == 1
    one.timers.advance_to(40_000)
    assert len(caplog.messages) == 2
    pool.run_one()
    assert read(one, "failingCommitTime") == 0
    assert "succeed again, after 40 s" in caplog.messages[-1]


def test_a_commit_that_ends_the_attempt_leaves_no_timer_behind() -> None:
    world, pool = World(), Pool()
    one = sink(world, configuration={"sink.committer.retries": "0"})
    one.operator.context.background.run_async = pool.submit
    one.feed([1])
    one.snapshot(1)
    one.operator.notify_checkpoint_complete(1)
    world.failures = 1
    with pytest.raises(StorageError):
        pool.run_one()
    assert one.timers.waiting == []
