"""The stream of changes: what each view gets, that nothing is sent twice, and who is refused."""

from __future__ import annotations

import re

import pytest

from tests.contract.rest.asking import Client, ask, serving
from tests.contract.rest.scene import Scene, failed_job, recorded_scene, waiting_for_three
from tests.contract.web.listening import listen
from tests.unit.jobmanager.machines.cluster_kit import JOB, vertex_id
from tests.unit.jobmanager.machines.job.test_rescale_history import adaptive, rescaled
from tidegate.jobmanager.machines.commands import StartWorker
from tidegate.jobmanager.web import live
from tidegate.jobmanager.web.pages import STATIC
from tidegate.pb.common_pb2 import Accumulator


@pytest.fixture
async def scene() -> Scene:
    return recorded_scene()


@pytest.fixture
async def client(scene: Scene) -> Client:
    return serving(scene)


def change(scene: Scene) -> None:
    scene.watchers.changed(JOB)


async def test_the_cluster_with_its_slots_and_who_uses_them(scene: Scene, client: Client) -> None:
    async with client:
        stream = await listen(client)
        found = await stream.parts("hello", "cluster", "jobs")
        (machine,) = found["cluster"]["task_managers"]
        assert [slot["tasks"] for slot in machine["slots"]] == [[[0, 0], [1, 0]], [[0, 1], [1, 1]]]
        assert found["cluster"]["jobs"][0]["vertices"] == [["source", 2], ["sink", 2]]
        (job,) = found["jobs"]
        assert (job["id"], job["state"], job["checkpoints"][0]) == (JOB, "RUNNING", 2)
        stream.close()


async def test_task_managers_that_are_on_their_way_are_parts_of_the_cluster() -> None:
    cluster = waiting_for_three()
    async with serving(Scene(cluster)) as client:
        stream = await listen(client)
        found = await stream.parts("hello", "cluster", "jobs")
        stream.close()
    ids = [command.worker_id for command in cluster.of(StartWorker)]
    assert [worker["id"] for worker in found["cluster"]["workers"]] == ids
    assert {worker["state"] for worker in found["cluster"]["workers"]} == {"STARTING"}
    assert found["cluster"]["workers"][0]["reason"] == "slots: job lacks 9"


async def test_a_job_says_how_it_took_its_parallelism() -> None:
    cluster = rescaled(adaptive(4), 3)
    async with serving(Scene(cluster)) as client:
        stream = await listen(client, f"?job={JOB}")
        (newest, first) = (await stream.parts("job"))["job"]["rescales"]
        stream.close()
    assert newest["vertices"][0] == {"name": "source", "before": 2, "after": 3, "upper": 3}
    assert (newest["trigger"], newest["outcome"]) == ("another parallelism was asked for", "COMPLETED")
    assert first["trigger"] == "the job is started"


async def test_a_job_with_one_vertex_and_one_checkpoint_opened(scene: Scene, client: Client) -> None:
    async with client:
        stream = await listen(client, f"?job={JOB}&vertex={vertex_id('sink')}&checkpoint=2")
        found = await stream.parts("job", "rates", "checkpoints", "exceptions", "subtasks", "checkpoint")
        assert [vertex["state"] for vertex in found["job"]["vertices"]] == ["RUNNING", "RUNNING"]
        assert found["job"]["edges"][0]["partitioner"] == "HASH"
        assert found["rates"][vertex_id("sink")]["busy"] == [0.25, 0.25]
        assert [row["index"] for row in found["subtasks"]["rows"]] == [0, 1]
        listed = await ask(client, "GET", f"/jobs/{JOB}/checkpoints", 200)
        assert [item["id"] for item in found["checkpoints"]["history"]] == [item["id"] for item in listed["history"]]
        assert found["checkpoint"]["id"] == 2
        assert len(found["checkpoint"]["tracks"]) == 4
        assert "the acknowledgement of source (1) was on its way" in found["checkpoint"]["words"]
        stream.close()


@pytest.mark.parametrize("query", ["", f"?job={JOB}&vertex={vertex_id('sink')}&checkpoint=2", f"?job={'0' * 32}"])
async def test_the_page_listens_to_every_part(query: str, scene: Scene, client: Client) -> None:
    listened = re.findall(r'"(\w+)"', re.findall(r"const PARTS = (.*);", (STATIC / "live.js").read_text())[0])
    last = {"": "jobs", f"?job={'0' * 32}": "gone"}.get(query, "checkpoint")
    async with client:
        stream = await listen(client, query)
        names = set(await stream.parts(last))
        stream.close()
    assert names <= set(listened)


async def test_only_what_changed_is_sent(scene: Scene, client: Client) -> None:
    async with client:
        stream = await listen(client, f"?job={JOB}")
        await stream.parts("job", "rates", "checkpoints", "exceptions", "findings")
        scene.cluster.pass_time(1_000)
        change(scene)
        assert (await stream.next()).name == "checkpoints"
        stream.close()


async def test_a_stream_goes_on_where_it_was(scene: Scene, client: Client) -> None:
    async with client:
        stream = await listen(client, f"?job={JOB}")
        while (last := await stream.next()).name != "findings":
            continue
        stream.close()
        scene.cluster.fail(scene.cluster.attempt("sink", 1))
        again = await listen(client, f"?job={JOB}", **{"Last-Event-ID": last.event_id})
        names = [(await again.next()).name for _ in range(4)]
        assert names == ["hello", "job", "rates", "exceptions"]  # what has failed has no rates
        again.close()


async def test_a_job_that_is_not_there(scene: Scene, client: Client) -> None:
    async with client:
        stream = await listen(client, f"?job={'0' * 32}")
        assert (await stream.parts("gone"))["gone"] == {"id": "0" * 32}
        stream.close()


async def test_a_checkpoint_that_the_history_does_not_have(scene: Scene, client: Client) -> None:
    async with client:
        stream = await listen(client, f"?job={JOB}&checkpoint=77")
        assert (await stream.parts("checkpoint"))["checkpoint"] is None
        stream.close()


async def test_accumulators_of_the_job_and_of_each_vertex(scene: Scene, client: Client) -> None:
    scene.attempts.accumulators = {"seen": Accumulator(type="IntCounter", value="3")}
    async with client:
        stream = await listen(client, f"?job={JOB}")
        found = (await stream.parts("accumulators"))["accumulators"]
        stream.close()
    assert found["job"] == [{"name": "seen", "type": "IntCounter", "value": "12"}]
    assert {part[0]["value"] for part in found["vertices"].values()} == {"6"}
    assert len(found["vertices"]) == 2


async def test_why_a_job_failed() -> None:
    async with serving(Scene(failed_job())) as client:
        stream = await listen(client, f"?job={JOB}")
        found = await stream.parts("job", "exceptions")
        assert found["job"]["failure"].startswith("killed by the test")
        assert found["exceptions"]["entries"][0]["taskName"].startswith("sink (2/2)")
        stream.close()


async def test_one_in_progress_says_whom_it_waits_for(scene: Scene, client: Client) -> None:
    scene.cluster.pass_time(1_000)
    scene.cluster.acknowledge(scene.cluster.attempt("source", 0), 3)
    async with client:
        stream = await listen(client, f"?job={JOB}&checkpoint=3")
        found = (await stream.parts("checkpoint"))["checkpoint"]
        assert found["missing"] == ["source (2)", "sink (1)", "sink (2)"]
        assert "it waits for source (2), sink (1), sink (2). source (2): the trigger waits" in found["words"]
        assert found["manager"] is None
        stream.close()


@pytest.mark.parametrize("query", ["?job=xyz", f"?job={JOB}&checkpoint=-1", f"?job={JOB}&checkpoint=1e3"])
async def test_a_bad_query_is_refused(client: Client, query: str) -> None:
    async with client:
        await ask(client, "GET", f"/web/events{query}", 400)


async def test_foreign_pages_cannot_listen(client: Client) -> None:
    async with client:
        await ask(client, "GET", "/web/events", 403, headers={"Sec-Fetch-Site": "cross-site"})


async def test_there_is_a_limit_of_open_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS", 2)
    async with client:
        streams = [await listen(client), await listen(client)]
        for stream in streams:
            await stream.parts("hello")
        await ask(client, "GET", "/web/events", 503)
        for stream in streams:
            stream.close()
