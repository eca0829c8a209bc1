"""The word counts that do not end (``examples/streaming_word_count.py``), from a socket and from a topic."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.e2e.cluster import REPOSITORY, Cluster
from tests.e2e.pool import made_ready
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.servers.kafka_broker import KafkaBroker

JOB = REPOSITORY / "examples" / "streaming_word_count.py"
COUNT = re.compile(r"\((\w+),(\d+)\)")


class LineServer:
    """Serves one connection after the other, as ``nc -lk`` does."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(HANG_LIMIT_S)
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"

    def accept(self) -> socket.socket:
        return self._listening.accept()[0]

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def lines() -> Iterator[LineServer]:
    with closing(LineServer()) as server:
        yield server


class Printed:
    """What the job has printed to the logs of TaskManagers since the test began."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._before = {process.log: self._size(process.log) for process in cluster.task_managers}

    def counts(self) -> list[tuple[str, int]]:
        logs = [process.log for process in self._cluster.task_managers]
        texts = [log.read_bytes()[self._before.get(log, 0) :].decode(errors="replace") for log in logs if log.exists()]
        return [(word, int(count)) for text in texts for word, count in COUNT.findall(text)]

    @staticmethod
    def _size(log: Path) -> int:
        return log.stat().st_size if log.exists() else 0


def test_counts_of_a_socket_go_on_after_its_task_manager_was_killed(
    cluster: Cluster, lines: LineServer, tmp_path: Path
) -> None:
    made_ready(cluster, 3)
    printed = Printed(cluster)
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    watch = cluster.submit(JOB, "--socket", lines.address, parallelism=2, settings=settings)
    with lines.accept() as connection:
        connection.sendall(b"to be or\r\nnot to be\nthat is")  # the last line goes on
        wait_until(lambda: ("be", 2) in printed.counts(), HANG_LIMIT_S, "two lines are counted")
        moment = watch.wait_checkpoints(1)
        watch.wait_checkpoints(moment.status.checkpoints_completed + 2, since=moment.at)
        cluster.kill9(cluster.task_manager_of(watch, "pair", 0))
    with lines.accept() as connection:
        connection.sendall(b"to be\nor not")
    watch.wait_finished(HANG_LIMIT_S)
    counts = printed.counts()
    assert {("be", 3), ("to", 3), ("or", 2), ("not", 2)} <= set(counts)
    assert not any(word == "that" for word, _ in counts)


def test_what_is_in_a_topic_is_counted(cluster: Cluster, broker: KafkaBroker, tmp_path: Path) -> None:
    broker.create_topic("lines", 2)
    producer = Producer({"bootstrap.servers": broker.servers})
    for line in ("to be or", "not to be"):
        producer.produce("lines", line)
    producer.flush(HANG_LIMIT_S)
    printed = Printed(cluster)
    watch = cluster.submit(JOB, "--kafka", broker.servers, "--bounded", parallelism=2)
    watch.wait_finished(HANG_LIMIT_S)
    assert sorted(printed.counts()) == [("be", 1), ("be", 2), ("not", 1), ("or", 1), ("to", 1), ("to", 2)]


@pytest.mark.parametrize("address", ["localhost", "9999", "localhost:x"])
def test_an_address_that_is_none_is_refused(cluster: Cluster, address: str) -> None:
    refused = cluster.cli("run", "--jobmanager", cluster.address, str(JOB), "--socket", address)
    assert refused.returncode != 0
    assert f"'{address}' is not like localhost:9999" in refused.stderr
