"""What a real TaskManager, with a real JVM, says of itself: every name of Flink's that has a meaning here."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import urlopen

from tests.contract.metrics.flink_names import recorded
from tests.e2e.cluster import Cluster
from tests.e2e.waiting import wait_until

PREFIX = "flink_taskmanager_"


def test_a_task_manager_reports_flinks_names_by_rest(cluster: Cluster) -> None:
    def api(path: str) -> Any:
        with urlopen(f"http://127.0.0.1:{cluster.rest_port}/{path}", timeout=30) as answer:
            return json.load(answer)

    task_manager = api("taskmanagers")["taskmanagers"][0]["id"]
    wanted = {name.removeprefix(PREFIX) for name in recorded("taskmanager_Status")}
    assert len(wanted) > 25

    def found() -> set[str]:
        return {item["id"].replace(".", "_") for item in api(f"taskmanagers/{task_manager}/metrics")}

    wait_until(lambda: wanted <= found(), 60, lambda: f"reports {sorted(wanted - found())}, too")
