"""A job that runs takes another parallelism, and the result is exact: by the command line, by REST, and when processes are killed in the middle."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import cancel_what_is_left
from tests.e2e.counts_run import CountsRun
from tests.e2e.jobs import counts
from tests.e2e.pool import made_ready
from tests.e2e.test_high_availability import WAITS_LONG, kept_in
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch, Moment

HELD = (str(Path(__file__).with_name("held_shapes.py")),)
_JOB_LIMIT_S = 240


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a test holds the JobManager at a write."""
    return tmp_path_factory.mktemp("doors")


@pytest.fixture(scope="module")
def shaped(tmp_path_factory: pytest.TempPathFactory, doors: Path) -> Iterator[Cluster]:
    """One cluster for all tests of this file: a JobManager whose jobs outlive it."""
    directory = tmp_path_factory.mktemp("rescaling")
    cluster = Cluster(directory / "cluster", {**kept_in(directory / "ha"), **WAITS_LONG})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("E2E_HOLD", str(doors))
        cluster.start_job_manager(entry=HELD)
        with cluster:
            yield cluster


@pytest.fixture
def cluster(shaped: Cluster, doors: Path) -> Iterator[Cluster]:
    """With two TaskManagers of two slots, and no job of the test before."""
    made_ready(shaped, 2)
    yield shaped
    for left in doors.iterdir():
        left.unlink()
    if shaped.job_manager is not None:
        cancel_what_is_left(shaped)


def held_run(directory: Path) -> CountsRun:
    return CountsRun(directory / "run", held=True, seconds=8, rows=32_000, splits=4, disorder=counts.SPAN_MS)


def end_exactly(run: CountsRun, watch: JobWatch) -> None:
    run.release()
    watch.wait_finished(_JOB_LIMIT_S)
    run.assert_exact()


def shape_of(moment: Moment) -> set[int]:
    return {vertex.parallelism for vertex in moment.status.vertices}


def wait_shape(watch: JobWatch, parallelism: int, since: float = 0.0) -> Moment:
    def has_it(moment: Moment) -> bool:
        counts = [dict(vertex.task_counts) for vertex in moment.status.vertices]
        return all(found == {"RUNNING": parallelism} for found in counts)

    return watch.wait_for(has_it, HANG_LIMIT_S, f"everything runs with parallelism {parallelism}", since)


def rescale(cluster: Cluster, watch: JobWatch, parallelism: int) -> str:
    done = cluster.cli("rescale", watch.job_id, "-p", str(parallelism), "--jobmanager", cluster.address)
    return str(done.stdout) if done.returncode == 0 else f"refused: {done.stderr}"


def rescaled(cluster: Cluster, watch: JobWatch, parallelism: int) -> None:
    """Asks for this parallelism, which must not be refused, and waits until every vertex runs with it."""
    answer = rescale(cluster, watch, parallelism)
    assert not answer.startswith("refused"), answer
    wait_shape(watch, parallelism)


def asked(cluster: Cluster, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{cluster.rest_port}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=HANG_LIMIT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None


def test_a_job_is_rescaled_up_and_down_and_the_result_is_exact(cluster: Cluster, tmp_path: Path) -> None:
    run = held_run(tmp_path)
    watch = run.submit(cluster, parallelism=2)
    watch.wait_running()
    watch.wait_checkpoints(1)
    assert "needs 9 slots, and the job can have 4" in rescale(cluster, watch, 9)
    rescaled(cluster, watch, 4)
    path = f"/jobs/{watch.job_id}/resource-requirements"
    bounds = asked(cluster, "GET", path)
    assert {both["parallelism"]["upperBound"] for both in bounds.values()} == {4}
    lower = {vertex: {"parallelism": {"lowerBound": 1, "upperBound": 1}} for vertex in bounds}
    assert asked(cluster, "PUT", path, lower) == {}
    told = wait_shape(watch, 1)
    assert told.status.restarts == 0
    assert cluster.checkpoints(watch.job_id).restored == 2
    end_exactly(run, watch)


@pytest.mark.parametrize(("door", "next_shape"), [("before", 4), ("after", 2)])
def test_the_jobmanager_is_killed_beside_the_write_of_the_shape(
    door: str, next_shape: int, cluster: Cluster, doors: Path, tmp_path: Path
) -> None:
    """The next one goes on in the old shape, with subtasks that run, or in the new one; and in either case towards what was asked for."""
    run = held_run(tmp_path)
    watch = run.submit(cluster, parallelism=4)
    watch.wait_running()
    (doors / door).touch()
    bounds = {v: {"parallelism": {"lowerBound": 1, "upperBound": 2}} for v in asked(cluster, "GET", _path(watch))}
    assert asked(cluster, "PUT", _path(watch), bounds) == {}
    wait_until((doors / "held").exists, HANG_LIMIT_S, "the store is about to know the shape, or knows it")
    assert cluster.job_manager is not None
    cluster.kill9(cluster.job_manager)
    cluster.start_job_manager(entry=HELD)
    watch = cluster.watch(watch.job_id)
    assert shape_of(watch.wait_for(lambda m: True, HANG_LIMIT_S, "it tells of the job")) == {next_shape}
    (doors / door).unlink()
    wait_shape(watch, 2)
    assert asked(cluster, "GET", _path(watch)) == bounds
    end_exactly(run, watch)


def _path(watch: JobWatch) -> str:
    return f"/jobs/{watch.job_id}/resource-requirements"


def test_a_taskmanager_is_killed_while_the_shape_is_written(cluster: Cluster, doors: Path, tmp_path: Path) -> None:
    """What is left restarts in the new shape, which fits into one TaskManager."""
    run = held_run(tmp_path)
    watch = run.submit(cluster, parallelism=4)
    watch.wait_running()
    watch.wait_checkpoints(1)
    (doors / "after").touch()
    bounds = {v: {"parallelism": {"lowerBound": 1, "upperBound": 2}} for v in asked(cluster, "GET", _path(watch))}
    assert asked(cluster, "PUT", _path(watch), bounds) == {}
    wait_until((doors / "held").exists, HANG_LIMIT_S, "the store knows the shape")
    victim = cluster.task_managers[0]
    cluster.kill9(victim)
    watch.wait_for(lambda m: m.status.state == "RESTARTING", HANG_LIMIT_S, "the loss is noticed")
    (doors / "after").unlink()
    wait_shape(watch, 2)
    end_exactly(run, watch)
