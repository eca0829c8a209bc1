"""``/faults``: refused unless the JobManager was started for it; and what is made stands among the exceptions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.rest.asking import ask, serving
from tests.contract.rest.scene import Scene
from tests.unit.jobmanager.machines.cluster_kit import JOB, running_job
from tidegate.jobmanager.rest.fault_service import NOT_ALLOWED
from tidegate.jobmanager.service.fault_injector import FaultInjector
from tidegate.jobmanager.service.storage.faulty_storage import FaultyStorage
from tidegate.model.errors import ErrorInfo, Unreachable
from tidegate.pb import taskmanager_pb2 as pb


async def done(address: str, request: pb.InjectFaultRequest) -> None:
    if request.HasField("cut_channels"):
        raise Unreachable(f"{address} does not answer")


def scene_with_faults() -> Scene:
    scene = Scene(running_job())
    scene.faults = FaultInjector(scene.machine, FaultyStorage(), done, lambda: scene.cluster.now_ms)
    return scene


async def test_they_are_refused_in_one_sentence_unless_the_jobmanager_allows_them() -> None:
    async with serving(Scene(running_job())) as client:
        assert await ask(client, "GET", "/faults", 200) == {"allowed": False, "faults": []}
        refused = await ask(client, "POST", "/faults", 403, json={"kind": "full-state"})
        assert refused["errors"] == [NOT_ALLOWED]
        assert "--allow-faults" in NOT_ALLOWED


async def test_one_is_made_and_stands_behind_the_failure_that_it_made() -> None:
    scene = scene_with_faults()
    async with serving(scene) as client:
        asked = {"kind": "kill-subtask", "job": JOB, "vertex": "sink", "subtask": 1}
        made = await ask(client, "POST", "/faults", 200, json=asked)
        assert made["text"] == "on purpose: sink (2) was killed on TaskManager tm-1"
        cluster = scene.cluster
        cluster.fail(cluster.attempt("sink", 1), ErrorInfo("task", "external", "exit by SIGKILL"))
        [listed] = (await ask(client, "GET", "/faults", 200))["faults"]
        assert (listed["kind"], listed["jobs"][0]["id"]) == ("kill-subtask", JOB)
        assert any("sink (2) failed: exit by SIGKILL" in line for line in listed["jobs"][0]["followed"])
        entries = (await ask(client, "GET", f"/jobs/{JOB}/exceptions", 200))["exceptionHistory"]["entries"]
        assert [entry["exceptionName"] == "tidegate.FaultOnPurpose" for entry in entries] == [False, True]
        assert "sink (2) failed" in entries[1]["stacktrace"]
        assert entries[0].keys() - {"taskName", "endpoint", "taskManagerId"} == entries[1].keys()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "kind None is not a kind of fault; known are kill-subtask, "),
        ({"kind": "explode"}, "kind 'explode' is not a kind of fault"),
        ({"kind": "kill-subtask", "job": "x"}, "job: "),
        ({"kind": "kill-subtask", "job": JOB, "vertex": 7}, "vertex 7 is not a string"),
        ({"kind": "kill-subtask", "job": JOB, "vertex": "sink", "subtask": 9}, "sink has the subtasks 0 to 1"),
        ({"kind": "slow-state", "delay-ms": -1}, "delay-ms -1 is not a whole number from 0 to 3600000"),
        ({"kind": "cut-channels"}, "The fault was not injected: tm-1:1 does not answer"),
    ],
)
async def test_what_cannot_be_made_says_why(body: Any, words: str) -> None:
    async with serving(scene_with_faults()) as client:
        refused = await ask(client, "POST", "/faults", 400, json=body)
        assert words in refused["errors"][0]
        assert (await ask(client, "GET", "/faults", 200))["faults"] == []
