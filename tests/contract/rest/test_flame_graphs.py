"""Flame graphs, in Flink's shape."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.rest.asking import Client, ask, serving
from tests.contract.rest.scene import Scene, recorded_scene


async def graph(client: Client, scene: Scene, query: str = "") -> Any:
    """What is answered once stacks were sampled."""
    job = scene.machine.jobs()[0]
    path = f"/jobs/{job.job_id}/vertices/{job.vertices[1].vertex_id}/flamegraph{query}"
    for _ in range(100):
        told = await ask(client, "GET", path, 200)
        if told["endTimestamp"] != -3:
            return told
        await asyncio.sleep(0)
    raise AssertionError("nothing was sampled")


async def test_a_vertex_is_sampled_when_somebody_asks_and_not_again_within_the_interval() -> None:
    scene = recorded_scene()
    async with serving(scene) as client:
        told = await graph(client, scene)
        assert told["endTimestamp"] == scene.now_ms()
        root = told["data"]
        assert (root["name"], root["value"]) == ("root", 200)  # two subtasks
        (loop,) = root["children"]
        assert {child["name"]: child["value"] for child in loop["children"]} == {
            "job.Slow.map:12": 140,
            "tidegate.taskmanager.runtime.mailbox.Mailbox.wait:77": 60,
        }
        scene.cluster.now_ms += 59_000
        assert (await graph(client, scene))["endTimestamp"] == told["endTimestamp"]


@pytest.mark.parametrize(("query", "value"), [("?subtaskindex=1", 100), ("?type=ON_CPU", 120), ("?type=off_cpu", 80)])
async def test_of_one_subtask_and_by_what_the_thread_does(query: str, value: int) -> None:
    scene = recorded_scene()
    async with serving(scene) as client:
        assert (await graph(client, scene, query))["data"]["value"] == value


async def test_it_can_be_switched_off() -> None:
    scene = Scene(recorded_scene().cluster, {"rest.flamegraph.enabled": "false"})
    async with serving(scene) as client:
        assert await graph(client, scene) == {"endTimestamp": -2}
