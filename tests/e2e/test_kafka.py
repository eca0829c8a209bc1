"""Kafka to Kafka, exactly once, with a real broker: kills of a subtask, a TaskManager and the broker itself."""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import psutil

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.conftest import ensure_taskmanagers
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.watching import JobWatch
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_reading import Message, read_topic

ROWS, KEYS, PARTITIONS = 30_000, 50, 3


def fill(broker: KafkaBroker, topic: str, rows: int) -> None:
    from confluent_kafka import Producer

    broker.create_topic(topic, PARTITIONS)
    # without idempotence a first batch that meets a topic too young for a leader is sent again behind later ones
    settings = {"enable.idempotence": True, "queue.buffering.max.messages": 1_000_000}
    client = Producer({"bootstrap.servers": broker.servers, **settings})
    for n in range(rows):
        key = f"{topic}-{n % KEYS}"
        client.produce(topic, key=key, value=json.dumps({"key": key, "n": n, "from": topic}))
    assert client.flush(60) == 0


def submit(cluster: Cluster, broker: KafkaBroker, name: str, directory: Path, pause: float) -> JobWatch:
    inputs = [f"{name}-a", f"{name}-b"]
    for topic in inputs:
        fill(broker, topic, ROWS // 2)
    broker.create_topic(f"{name}-out", PARTITIONS)
    arguments = [
        "--servers",
        broker.servers,
        "--inputs",
        *inputs,
        "--output",
        f"{name}-out",
        "--group",
        f"{name}-group",
    ]
    settings = {"execution.checkpointing.dir": str(directory / "checkpoints"), **QUICK_RESTART}
    return cluster.submit(
        JOBS / "kafka_copy.py",
        *arguments,
        "--pause",
        str(pause),
        "--notes",
        str(directory),
        parallelism=2,
        settings=settings,
    )


def assert_exactly_once(broker: KafkaBroker, name: str) -> None:
    """Each record once, and the records of a key in their order."""
    messages = read_topic(broker.servers, f"{name}-out")
    found = [json.loads(message.value) for message in messages]
    times = Counter((row["from"], row["n"]) for row in found)
    wanted = {(f"{name}-{which}", n) for which in "ab" for n in range(ROWS // 2)}
    assert {record: count for record, count in times.items() if count > 1} == {}
    assert wanted - set(times) == set()
    assert all(row["twice"] == 2 * row["n"] for row in found)
    by_key: dict[str | None, list[tuple[int, Message]]] = defaultdict(list)
    for row, message in zip(found, messages, strict=True):
        by_key[message.key].append((row["n"], message))
    disorder = [pair for rows in by_key.values() for pair in pairwise(rows) if pair[1][0] < pair[0][0]]
    assert not disorder, f"{len(disorder)} records came before an older one of their key: {disorder[:3]}"


def kill_a_source(notes: Path) -> None:
    """One that still works, of those that noted themselves."""
    for note in notes.glob("source-*"):
        with contextlib.suppress(psutil.Error):
            psutil.Process(int(note.name.removeprefix("source-"))).kill()
            return
    raise AssertionError("no source process is left to be killed")


def test_every_record_arrives_once_although_everything_is_killed(
    cluster: Cluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    ensure_taskmanagers(cluster, 3)
    watch = submit(cluster, broker, "kills", tmp_path, pause=0.0015)
    watch.wait_running()
    for victim in ("subtask", "taskmanager", "broker"):
        before = watch.last
        assert before is not None
        watch.wait_checkpoints(before.status.checkpoints_completed + 3)
        last = watch.last
        assert last is not None
        if victim == "subtask":
            kill_a_source(tmp_path)
            watch.wait_running_again(last.status.restarts, last.at)
        elif victim == "taskmanager":
            cluster.kill9(cluster.task_manager_of(watch, "Sink", 0))
            watch.wait_running_again(last.status.restarts, last.at)
        else:
            broker.kill9()
            broker.start()
    watch.wait_finished(180)
    assert_exactly_once(broker, "kills")
