"""Which executors are asked for, dealt out and given back; and a cluster that does what it likes, from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from tidegate.model.ids import TaskManagerId
from tidegate.taskmanager.machines.executor_pool import (
    CloseWorker,
    ExecutorPool,
    HostedState,
    KillExecutor,
    OpenWorker,
    PoolCommand,
    RequestTotal,
    SparkExecutor,
)

A, B, C = (TaskManagerId(f"worker-abcdef-{n}") for n in (1, 2, 3))


def executor(number: int, tasks: int = 0) -> SparkExecutor:
    return SparkExecutor(str(number), "10.0.0.1", 4, tasks)


def states(pool: ExecutorPool) -> dict[str, HostedState]:
    return {worker.worker_id: worker.state for worker in pool.workers()}


def open_pool(*worker_ids: TaskManagerId) -> ExecutorPool:
    pool = ExecutorPool()
    pool.on_declared(worker_ids)
    pool.on_seen([executor(n) for n in range(len(worker_ids))])
    return pool


def test_what_is_declared_is_asked_for_and_each_gets_one() -> None:
    pool = ExecutorPool()
    assert pool.on_declared([A, B]) == [RequestTotal(2)]
    assert pool.on_seen([executor(0)]) == [OpenWorker(A, executor(0))]
    assert pool.on_seen([executor(0), executor(1)]) == [OpenWorker(B, executor(1))]
    pool.check_invariants()


def test_the_same_declaration_again_changes_nothing() -> None:
    pool = open_pool(A)
    assert pool.on_declared([A]) == []
    assert pool.on_seen([executor(0)]) == []


def test_one_that_is_not_declared_any_longer_is_closed_and_then_its_executor_goes() -> None:
    pool = open_pool(A, B)
    assert pool.on_declared([B]) == [CloseWorker(A), RequestTotal(1)]
    assert pool.on_seen([executor(0), executor(1)]) == [], "it has subtasks to stop"
    assert pool.on_closed(A, "") == [KillExecutor("0")]
    assert states(pool) == {B: HostedState.OPEN}


def test_an_executor_on_which_a_task_runs_stays() -> None:
    pool = open_pool(A)
    pool.on_declared([])
    pool.on_seen([executor(0, tasks=1)])
    assert pool.on_closed(A, "") == []
    assert pool.on_seen([executor(0)]) == [KillExecutor("0")]


def test_one_that_waits_and_is_not_wanted_any_longer_is_forgotten() -> None:
    pool = ExecutorPool()
    pool.on_declared([A])
    assert pool.on_declared([]) == [RequestTotal(0)]
    assert pool.on_seen([executor(0)]) == [KillExecutor("0")], "it came too late"


def test_a_lost_executor_ends_its_worker_and_says_so_until_it_is_heard() -> None:
    pool = open_pool(A)
    assert pool.on_seen([]) == [CloseWorker(A), RequestTotal(0)]
    assert pool.on_closed(A, "hung up") == []
    [ended] = pool.workers()
    assert (ended.state, ended.detail) == (HostedState.ENDED, "Spark lost its executor 0")
    pool.on_declared([])
    assert pool.workers() == ()


def test_what_spark_starts_in_the_place_of_a_lost_one_goes_to_the_next_worker() -> None:
    pool = open_pool(A)
    pool.on_seen([])
    pool.on_closed(A, "")
    assert pool.on_declared([B]) == [RequestTotal(1)]
    assert pool.on_seen([executor(1)]) == [OpenWorker(B, executor(1))]


def test_no_other_worker_gets_an_executor_on_which_one_could_not_be_started() -> None:
    pool = open_pool(A)
    assert pool.on_closed(A, "no Python") == [RequestTotal(0), KillExecutor("0")]
    assert pool.on_declared([B]) == [RequestTotal(1), KillExecutor("0")]
    assert pool.on_seen([executor(0)]) == [KillExecutor("0")]
    assert pool.on_seen([executor(1)]) == [OpenWorker(B, executor(1))]


def test_an_executor_that_never_came_is_a_start_that_failed() -> None:
    pool = ExecutorPool()
    pool.on_declared([A, B])
    assert pool.on_executor_ended("0", "exit code 1") == [RequestTotal(1)]
    assert states(pool) == {A: HostedState.ENDED, B: HostedState.WAITING}
    assert pool.workers()[0].detail == "executor 0 did not start: exit code 1"
    assert pool.on_seen([executor(1)]) == [OpenWorker(B, executor(1))]


def test_why_an_executor_ended_is_why_its_worker_did() -> None:
    pool = open_pool(A)
    assert pool.on_executor_ended("0", "exit code 137") == []
    pool.on_seen([])
    assert pool.workers()[0].detail == "Spark lost its executor 0: exit code 137"


def test_the_end_of_an_executor_that_no_worker_waits_for_is_no_news() -> None:
    assert ExecutorPool().on_executor_ended("7", "exit code 1") == []


def test_a_member_that_is_not_known_or_has_ended_is_no_news() -> None:
    pool = open_pool(A)
    assert pool.on_closed(C, "") == []
    pool.on_closed(A, "no Python")
    assert pool.on_closed(A, "again") == []


class Cluster:
    """Gives what is asked for, sometimes late; loses executors; puts tasks where it likes."""

    def __init__(self, seed: int, pool: ExecutorPool) -> None:
        self.random = random.Random(seed)
        self.pool = pool
        self.target = 0
        self.executors: dict[str, int] = {}
        self.members: dict[TaskManagerId, str] = {}
        self.closing: set[TaskManagerId] = set()
        self.declared: list[TaskManagerId] = []
        self.numbers = iter(range(10**6))

    def carry_out(self, commands: Sequence[PoolCommand]) -> None:
        for command in commands:
            match command:
                case RequestTotal(count):
                    self.target = count
                case OpenWorker(worker_id, found):
                    assert worker_id in self.declared, "only what is wanted is started"
                    assert found.executor_id not in self.members.values(), "an executor has one worker"
                    self.members[worker_id] = found.executor_id
                case CloseWorker(worker_id):
                    assert worker_id in self.members
                    self.closing.add(worker_id)
                case KillExecutor(executor_id):
                    assert executor_id not in self.members.values(), "its worker is still there"
                    assert self.executors.get(executor_id, 0) == 0, "a task runs there"
                    self.executors.pop(executor_id, None)
        self.pool.check_invariants()

    def look(self) -> None:
        seen = [SparkExecutor(name, "h", 4, tasks) for name, tasks in self.executors.items()]
        self.carry_out(self.pool.on_seen(seen))

    def step(self) -> None:
        match self.random.randrange(7):
            case 0:
                self.declared = [TaskManagerId(f"worker-x-{next(self.numbers)}"), *self.declared]
                self.carry_out(self.pool.on_declared(self.declared))
            case 1 if self.declared:
                self.declared.remove(self.random.choice(self.declared))
                self.carry_out(self.pool.on_declared(self.declared))
            case 2 if len(self.executors) < self.target:
                self.executors[str(next(self.numbers))] = 0
            case 3 if self.executors:
                name = self.random.choice(sorted(self.executors))
                self.executors[name] = self.random.randrange(2)
                self.look()
            case 4 if len(self.executors) < self.target and self.random.random() < 0.5:
                self.carry_out(self.pool.on_executor_ended(str(next(self.numbers)), "it never came"))
            case 4 if self.executors and self.random.random() < 0.3:
                del self.executors[self.random.choice(sorted(self.executors))]
            case 5 if self.members:
                chosen = self.random.choice(sorted(self.closing) or sorted(self.members))
                self.end(chosen)
            case _:
                self.look()

    def end(self, worker_id: TaskManagerId) -> None:
        del self.members[worker_id]
        self.closing.discard(worker_id)
        self.carry_out(self.pool.on_closed(worker_id, "it ended"))

    def heal(self) -> None:
        """The JobManager takes away what has ended, Spark gives all that is asked for, and no stranger's task runs."""
        self.executors = dict.fromkeys(self.executors, 0)
        for _ in range(5):
            ended = {w.worker_id for w in self.pool.workers() if w.state is HostedState.ENDED}
            self.declared = [worker_id for worker_id in self.declared if worker_id not in ended]
            self.carry_out(self.pool.on_declared(self.declared))
            for worker_id in sorted(self.closing):
                self.end(worker_id)
            while len(self.executors) < self.target:
                self.executors[str(next(self.numbers))] = 0
            self.look()


def run(seed: int, make: Callable[[], ExecutorPool] = ExecutorPool) -> None:
    cluster = Cluster(seed, make())
    for _ in range(200):
        cluster.step()
    cluster.heal()
    assert sorted(cluster.members) == sorted(cluster.declared), "every worker that is wanted is there, and no other"
    assert len(cluster.executors) == len(cluster.declared), "and no executor more"


@pytest.mark.parametrize("seed", range(200))
def test_whatever_the_cluster_does_what_is_wanted_is_there_in_the_end(seed: int) -> None:
    run(seed)


class GivesBackTooEarly(ExecutorPool):
    """Planted: what is closing counts as gone."""

    def on_declared(self, worker_ids: Sequence[TaskManagerId]) -> Sequence[PoolCommand]:  # type: ignore[override]
        commands = list(super().on_declared(worker_ids))
        holders = {w.worker_id: w.executor_id for w in self.workers()}
        return commands + [KillExecutor(holders[c.worker_id]) for c in commands if isinstance(c, CloseWorker)]


class ForgetsTheLost(ExecutorPool):
    """Planted: an executor that is gone is not missed."""

    def on_seen(self, executors: Sequence[SparkExecutor]) -> Sequence[PoolCommand]:  # type: ignore[override]
        return [c for c in super().on_seen(executors) if not isinstance(c, CloseWorker)]


@pytest.mark.parametrize("bug", [GivesBackTooEarly, ForgetsTheLost])
def test_a_planted_bug_is_found(bug: Callable[[], ExecutorPool]) -> None:
    for seed in range(50):
        try:
            run(seed, bug)
        except AssertionError:
            return
    pytest.fail("no seed found it")
