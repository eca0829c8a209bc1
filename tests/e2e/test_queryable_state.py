"""Clients ask a job for its state while it runs, is rescaled, and loses subtasks, TaskManagers and its JobManager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.conftest import cancel_what_is_left
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs import queried
from tests.e2e.test_high_availability import WAITS_LONG, kept_in
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch, Moment
from tidegate.queryablestate import QueryableStateClient
from tidegate.state_reader import open_checkpoint

SERVED = {"queryable-state.enable": "true", "queryable-state.server.ports": "0"}
KEYS = list(range(queried.KEYS))


@contextmanager
def served_cluster(directory: Path) -> Iterator[Cluster]:
    """A JobManager whose jobs outlive it, and two TaskManagers."""
    with Cluster(directory / "cluster", {**SERVED, **kept_in(directory / "ha"), **WAITS_LONG}) as cluster:
        for _ in range(2):
            cluster.add_taskmanager(4)
        yield cluster


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with served_cluster(tmp_path_factory.mktemp("queryable")) as cluster:
        yield cluster


@contextmanager
def asked_job(cluster: Cluster, directory: Path) -> Iterator[tuple[JobWatch, QueryableStateClient]]:
    """The job with parallelism 2, and a client."""
    cluster.wait_slots(8)
    settings = {"execution.checkpointing.dir": str(directory / "checkpoints"), **QUICK_RESTART}
    watch = cluster.submit(JOBS / "queried.py", parallelism=2, settings=settings)
    try:
        watch.wait_running()
        with QueryableStateClient("127.0.0.1", cluster.port) as client:
            yield watch, client
    finally:
        cancel_what_is_left(cluster)


def counts(client: QueryableStateClient, watch: JobWatch) -> list[int]:
    """The live values of all keys, once each has one."""
    found: list[int | None] = []

    def has_all() -> bool:
        found[:] = client.get_kv_states(watch.job_id, "counts", KEYS, timeout_s=HANG_LIMIT_S).values()
        return None not in found

    wait_until(has_all, HANG_LIMIT_S, "every key has a count")
    return [count for count in found if count is not None]


def checkpointed(client: QueryableStateClient, watch: JobWatch) -> list[int]:
    """The values of a checkpoint, which are what its files say."""
    found = client.get_kv_states(watch.job_id, "counts", KEYS, consistent=True, timeout_s=HANG_LIMIT_S)
    assert found.checkpoint_id is not None
    return [count or 0 for count in found.values()]


def test_live_and_consistent_values_across_kills_and_another_parallelism(served: Cluster, tmp_path: Path) -> None:
    cluster = served
    with asked_job(cluster, tmp_path) as (watch, client):
        before = counts(client, watch)
        watch.wait_checkpoints(1)
        consistent = checkpointed(client, watch)
        assert all(a <= b for a, b in zip(consistent, counts(client, watch), strict=True)), "read uncommitted is ahead"
        assert sum(counts(client, watch)) > sum(before), "live values follow the job"

        consistent = checkpointed(client, watch)
        cluster.subtask_of(watch, "numbers", 0).kill()
        after = counts(client, watch)
        assert all(a <= b for a, b in zip(consistent, after, strict=True)), "a restart loses nothing that was completed"
        watch.wait_for(lambda moment: moment.status.restarts == 1, HANG_LIMIT_S, "the job restarted")

        done = cluster.cli("rescale", watch.job_id, "-p", "4", "--jobmanager", cluster.address)
        assert done.returncode == 0, done.stderr
        watch.wait_for(_has_shape(4), HANG_LIMIT_S, "it runs with parallelism 4")
        assert all(a <= b for a, b in zip(consistent, counts(client, watch), strict=True))

        consistent = checkpointed(client, watch)
        cluster.kill9(cluster.task_managers[0])
        cluster.add_taskmanager(4)
        assert all(a <= b for a, b in zip(consistent, counts(client, watch), strict=True)), "on another TaskManager"


def _has_shape(parallelism: int) -> Callable[[Moment], bool]:
    return lambda moment: all(dict(v.task_counts) == {"RUNNING": parallelism} for v in moment.status.vertices)


def test_the_next_jobmanager_knows_where_the_state_is(served: Cluster, tmp_path: Path) -> None:
    cluster = served
    with asked_job(cluster, tmp_path) as (watch, client):
        counts(client, watch)
        watch.wait_checkpoints(1)
        assert cluster.job_manager is not None
        cluster.kill9(cluster.job_manager)
        assert len(counts(client, watch)) == len(KEYS), "clients that know the place need no JobManager"
        cluster.start_job_manager()
        watch = cluster.watch(watch.job_id)
        watch.wait_running()
        with QueryableStateClient("127.0.0.1", cluster.port) as newcomer:
            assert sum(counts(newcomer, watch)) > 0
        assert watch.last is not None
        assert watch.last.status.restarts == 0, "its subtasks went on"
        cluster.cancel(watch)
        watch_of_ended = client.get_kv_state(watch.job_id, "counts", 1)
        assert watch_of_ended.exception(HANG_LIMIT_S) is not None


def test_what_a_client_reads_of_a_checkpoint_is_what_its_files_say(served: Cluster, tmp_path: Path) -> None:
    cluster = served
    with asked_job(cluster, tmp_path) as (watch, client):
        counts(client, watch)
        watch.wait_checkpoints(1)
        done = cluster.cli("savepoint", watch.job_id, str(tmp_path / "savepoints"), "-m", cluster.address)
        assert done.returncode == 0, done.stderr
        (savepoint,) = (tmp_path / "savepoints").iterdir()
        count = next(o for o in open_checkpoint(str(savepoint)).operators if any(s.name == "count" for s in o.states))
        table = open_checkpoint(str(savepoint)).table(count.described.operator_id, "count")
        of_files = dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
        live = dict(zip(KEYS, counts(client, watch), strict=True))
        assert all(of_files[key] <= live[key] for key in KEYS)
        recent = client.get_kv_states(watch.job_id, "recent", [7]).values()[0]
        assert len(recent) == queried.RECENT
        assert all(number % queried.KEYS == 7 for number in recent)
        of_pair = client.get_kv_state(watch.job_id, "sums", ("even", 4), state_descriptor=queried.sums())
        assert str(of_pair.result(HANG_LIMIT_S)).startswith("sum ")


def test_the_command_line_and_its_errors(served: Cluster, tmp_path: Path) -> None:
    cluster = served
    with asked_job(cluster, tmp_path) as (watch, client):
        counts(client, watch)
        watch.wait_checkpoints(1)

        def get(*arguments: str) -> tuple[int, str]:
            done = cluster.cli("state", "get", *arguments, "-m", cluster.address, "--timeout", str(HANG_LIMIT_S))
            return done.returncode, (done.stdout or done.stderr).strip()

        code, text = get(watch.job_id, "counts", "7")
        assert (code, int(text) > 0) == (0, True)
        code, text = get(watch.job_id, "counts", "7", "--consistent")
        assert (code, int(text) > 0) == (0, True)
        code, text = get(watch.job_id, "sums", '["odd", 3]')
        assert (code, int(text) > 0) == (0, True)
        assert get(watch.job_id, "counts", "4711") == (1, "error: state 'counts' has no value for key '4711'")
        assert "this cluster has no job ffffffff" in get("f" * 32, "counts", "7")[1]
        assert get(watch.job_id, "nothing", "7")[1] == (
            f"error: job {watch.job_id} has no queryable state 'nothing'; it has 'counts', 'recent', 'sums'"
        )
        code, text = get(watch.job_id, "counts", "seven")
        assert code == 2
        assert text == "error: no key of state 'counts' can be 'seven': its keys are of type Long"
        future = client.get_kv_state(watch.job_id, "counts", "seven")
        assert "keys of this state are of type Long" in str(future.exception(HANG_LIMIT_S))


def test_two_states_of_one_name_fail_the_job_with_both_operators(served: Cluster, tmp_path: Path) -> None:
    settings = {"restart-strategy.type": "none", "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    served.wait_slots(8)
    watch = served.submit(JOBS / "queried.py", "--clash", parallelism=1, settings=settings)
    failed = watch.wait_for(lambda moment: moment.status.state == "FAILED", HANG_LIMIT_S, "the job failed")
    assert "both have a queryable state 'counts'" in failed.status.failure.message
