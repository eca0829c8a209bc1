"""Functions ask what their TaskManager has of an external resource."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.staged_job import StagedJob
from tests.unit.tidegate.datastream.graph_kit import make_env
from tidegate.common import Types
from tidegate.datastream import MapFunction, RuntimeContext, RuntimeExecutionMode


class OnGpus(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        found = runtime_context.get_external_resource_infos("gpu")
        self.gpus = sorted(info.get_property("index") or "" for info in found)
        assert runtime_context.get_external_resource_infos("fpga") == set()

    def map(self, value: Any) -> str:
        return f"{value} on {self.gpus}"


def test_every_function_sees_all_that_the_taskmanager_has() -> None:
    env = make_env(1).set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([1], Types.LONG()).map(OnGpus(), Types.STRING()).sink_to(CollectingSink("gpus", "records"))
    with tempfile.TemporaryDirectory(prefix="tg-") as directory:
        job = StagedJob(env.build(), Path(directory))
        job.external_resources = {"gpu": [{"index": "0"}, {"index": "3"}]}
        job.run()
    assert committed("gpus") == ["1 on ['0', '3']"]
