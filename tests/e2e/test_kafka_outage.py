"""Kafka is away while a job runs: nothing fails, so what says so are figures and logs, and nothing is lost."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.soak_run import PARTITIONS, Feeder, Plan, check
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_reading import read_topic

ROWS = 500
NEVER_MS = 3_600_000
"""The test triggers each checkpoint itself, so that it knows what is not committed when the broker is killed."""


def test_commits_that_fail_are_seen_while_the_list_of_exceptions_stays_empty(
    cluster: Cluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    plan = Plan("outage", ROWS, 0, ())
    feeder = Feeder(broker, plan.topics)
    broker.create_topic(plan.output, PARTITIONS)
    arguments = ["--servers", broker.servers, "--inputs", *plan.topics, "--output", plan.output]
    arguments += ["--group", "outage", "--interval", str(NEVER_MS), "--notes", str(tmp_path)]
    places = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    watch = cluster.submit(str(JOBS / "kafka_copy.py"), *arguments, parallelism=1, settings=places)
    watch.wait_running()
    seen = Seen(cluster, watch.job_id)

    feeder.feed(ROWS)
    wait_until(lambda: seen.received_by_the_sink() == ROWS, HANG_LIMIT_S, "the sink has all rows")
    broker.kill9()
    taken = cluster.cli("checkpoint", watch.job_id, "-m", cluster.address)
    assert taken.returncode == 0, taken.stdout + taken.stderr
    job_manager = cluster.job_manager
    assert job_manager is not None
    wait_until(
        lambda: job_manager.says("have not succeeded for"), HANG_LIMIT_S, "the JobManager says that commits fail"
    )
    for name in (
        "failingCommitTime",
        "pendingCommittables",
    ):  # they come with the next report of the TaskManager's metrics
        wait_until(partial(seen.shows, name), HANG_LIMIT_S, f"{name} is shown")
    assert seen.exceptions() == [], "no attempt has failed"

    broker.start()
    wait_until(lambda: seen.is_logged("succeed again"), HANG_LIMIT_S, "the JobManager says that commits succeed")
    assert seen.exceptions() == []
    messages = read_topic(broker.servers, plan.output)
    rows = [json.loads(message.value) for message in messages]
    check(plan, [(r["key"], r["from"], r["n"], r["twice"]) for r in rows], [message.partition for message in messages])
    assert cluster.cli("cancel", watch.job_id, "-m", cluster.address).returncode == 0


class Seen:
    """What REST and the JobManager's log show of a job with one sink."""

    def __init__(self, cluster: Cluster, job_id: str) -> None:
        assert cluster.job_manager is not None
        self._log = cluster.job_manager.log
        self._job_id = job_id
        self._base = f"http://127.0.0.1:{cluster.rest_port}/jobs/{job_id}"

    def is_logged(self, text: str) -> bool:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return any(self._job_id in line and text in line for line in lines)

    def received_by_the_sink(self) -> int:
        return int(self._sink()["metrics"]["read-records"])

    def shows(self, name: str) -> bool:
        return self.figure(name) > 0

    def figure(self, name: str) -> float:
        """The highest of a metric that the sink's operator has."""
        metrics = f"/vertices/{self._sink()['id']}/subtasks/metrics"
        [metric] = [found["id"] for found in self._get(metrics) if found["id"].endswith(f".{name}")]
        [values] = self._get(f"{metrics}?get={metric}")
        return float(values["max"])

    def exceptions(self) -> list[Any]:
        return list(self._get("/exceptions")["exceptionHistory"]["entries"])

    def _sink(self) -> Any:
        [sink] = [vertex for vertex in self._get("")["vertices"] if "Sink" in vertex["name"]]
        return sink

    def _get(self, path: str) -> Any:
        with urlopen(self._base + path, timeout=HANG_LIMIT_S) as answer:
            return json.load(answer)
