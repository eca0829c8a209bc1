"""What is used again, and for how long."""

from __future__ import annotations

from tests.unit.jobmanager.machines.cluster_kit import JOB, Cluster, running_job, two_stage
from tidegate.jobmanager.rest.response_cache import MAX_ANSWERS, ResponseCache, ViewCache
from tidegate.jobmanager.rest.routes import Kept


def test_an_answer_is_kept_for_its_time() -> None:
    now = [0]
    keeper = ResponseCache({Kept.GRAPH: 100, Kept.CHECKPOINTS: 0}, lambda: now[0])
    keeper.keep(Kept.GRAPH, "a", b"1")
    keeper.keep(Kept.CHECKPOINTS, "b", b"2")
    now[0] = 99
    assert (keeper.find("a"), keeper.find("b")) == (b"1", None)
    now[0] = 100
    assert keeper.find("a") is None


def test_many_queries_cannot_fill_the_memory() -> None:
    now = [0]
    keeper = ResponseCache({Kept.GRAPH: 100}, lambda: now[0])
    for number in range(2 * MAX_ANSWERS):
        keeper.keep(Kept.GRAPH, str(number), b"")
    assert keeper.find(str(MAX_ANSWERS - 1)) == b""
    assert keeper.find(str(MAX_ANSWERS)) is None
    now[0] = 100
    keeper.keep(Kept.GRAPH, "new", b"")
    assert keeper.find("new") == b""


def kept(cluster: Cluster) -> ViewCache:
    return ViewCache(cluster.machine, lambda: cluster.now_ms)


def test_small_jobs_are_always_fresh() -> None:
    cluster = running_job(two_stage(2))
    views = kept(cluster)
    assert views.job(JOB) is not views.job(JOB)


def test_views_of_large_jobs_are_kept_a_little() -> None:
    cluster = running_job(two_stage(100), slots=100)
    views = kept(cluster)
    first, listed = views.job(JOB), views.jobs()
    cluster.now_ms += 39
    assert views.job(JOB) is first
    assert views.jobs() is listed
    cluster.now_ms += 1
    assert views.job(JOB) is not first
    assert views.jobs() is not listed
    again = views.job(JOB)
    views.drop()
    assert views.job(JOB) is not again
