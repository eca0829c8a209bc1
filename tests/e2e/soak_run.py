"""Two topics, a union, a map, a sink, and random kills: each record once, in order per key.

    stage: more records ─▶ some of them are confirmed ─▶ the victim: subtask process │ TaskManager │ broker │ connections
                           (or a permission, which is given again when somebody has failed for the lack of it)
    after the last stage: all are confirmed ─▶ stop with a savepoint ─▶ what readers see is compared
    all the while: the group's committed offsets are read, then the last completed checkpoint: never ahead of it

Progress is what the group committed, so it is that of confirmed checkpoints. The job never ends by itself and every step
waits for the one before, so neither a quick nor a slow machine changes what is tested. A failure names the seed.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.waiting import wait_until
from tests.e2e.watching import JobWatch, Moment
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.tcp_proxy import TcpProxy
from tidegate.model.errors import TidegateError
from tidegate.state_reader import open_checkpoint

PARTITIONS, KEYS = 3, 50
VICTIMS = ("subtask", "taskmanager", "broker", "connection")
CUT_S = (0.2, 3.0)
LACKS = "lacks this permission"
STOP_LIMIT_S = 120

Offsets = dict[tuple[str, int], int]


@dataclass(frozen=True)
class Plan:
    name: str
    rows: int
    seed: int
    victims: tuple[str, ...]
    postgres: str = ""
    strategy: str = ""
    """Of naming transactions that the Kafka sink keeps open; empty: epochs travel in the checkpoint."""
    limit_s: float = 180
    """For each step."""

    @property
    def topics(self) -> tuple[str, str]:
        return f"{self.name}-a", f"{self.name}-b"

    @property
    def output(self) -> str:
        return f"{self.name}-out" if not self.postgres else f"{self.name}_out".replace("-", "_")


def random_victims(seed: int, count: int) -> tuple[str, ...]:
    """All of them about equally often."""
    victims = [VICTIMS[n % len(VICTIMS)] for n in range(count)]
    random.Random(seed).shuffle(victims)
    return tuple(victims)


class Feeder:
    """Fills the topics: record n of each, with the keys in turn."""

    def __init__(self, broker: KafkaBroker, topics: tuple[str, ...]) -> None:
        from confluent_kafka import Producer

        for topic in topics:
            broker.create_topic(topic, PARTITIONS)
        self._topics = topics
        # without idempotence a first batch that meets a topic too young for a leader is sent again behind later ones
        settings = {"enable.idempotence": True, "queue.buffering.max.messages": 1_000_000, "linger.ms": 20}
        self._client = Producer({"bootstrap.servers": broker.servers, "log_level": 0, **settings})
        self.fed = 0
        """Records in all topics together."""

    def feed(self, total: int) -> None:
        """Until there are so many records in all."""
        for n in range(self.fed // len(self._topics), total // len(self._topics)):
            for topic in self._topics:
                key = f"{topic}-{n % KEYS}"
                self._produce(topic, key, json.dumps({"key": key, "n": n, "from": topic}))
            self.fed = (n + 1) * len(self._topics)
        assert self._client.flush(120) == 0

    def _produce(self, topic: str, key: str, value: str) -> None:
        while True:
            try:
                self._client.produce(topic, key=key, value=value)
                return
            except BufferError:
                self._client.poll(0.1)


@dataclass
class OffsetsWatch:
    """Compares, in a thread of its own, what the group committed with the last completed checkpoint."""

    servers: str
    group: str
    topics: tuple[str, ...]
    checkpoints: Path
    looks: int = 0
    ahead: list[str] = field(default_factory=list)
    progress: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> OffsetsWatch:
        self._thread = threading.Thread(target=self._run, name="offsets", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(STOP_LIMIT_S)

    def reached(self, rows: int) -> bool:
        return self.progress >= rows

    def _run(self) -> None:
        import confluent_kafka as kafka

        client = kafka.Consumer({"bootstrap.servers": self.servers, "group.id": self.group, "log_level": 0})
        asked = [kafka.TopicPartition(topic, n) for topic in self.topics for n in range(PARTITIONS)]
        try:
            while not self._ended.wait(0.2):
                with contextlib.suppress(kafka.KafkaException):
                    told = {(t.topic, t.partition): t.offset for t in client.committed(asked, timeout=5)}
                    self._compare({part: offset for part, offset in told.items() if offset >= 0})
        finally:
            client.close()

    def _compare(self, committed: Offsets) -> None:
        self.progress = max(self.progress, sum(committed.values()))
        if not committed:
            return
        positions = last_positions(self.checkpoints)
        if positions is None:
            return
        self.looks += 1
        self.ahead += [
            f"{part}: {offset} > {positions.get(part)}"
            for part, offset in committed.items()
            if offset > positions.get(part, 0)
        ]


def last_positions(checkpoints: Path) -> Offsets | None:
    """Of the newest completed checkpoint; ``None`` when it is removed meanwhile."""
    completed = [path.parent for path in checkpoints.glob("*/chk-*/_metadata")]
    if not completed:
        return None
    newest = max(completed, key=lambda path: int(path.name.removeprefix("chk-")))
    positions: Offsets = {}
    try:
        checkpoint = open_checkpoint(str(newest))
        for operator in checkpoint.operators:
            for state in (state for state in operator.states if state.name == "splits"):
                for text in checkpoint.table_of(state).column("element_json").to_pylist():
                    _, (topic, number, start, *_), position, *_ = json.loads(text)  # done, and whose it is
                    positions[topic, number] = start if position is None else position
    except TidegateError:
        return None
    return positions


@dataclass
class Outcome:
    """For the report."""

    plan: Plan
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    checkpoints: int = 0
    looks: int = 0
    rows: int = 0


class SoakRun:
    def __init__(self, plan: Plan, cluster: Cluster, proxy: TcpProxy, broker: KafkaBroker, directory: Path) -> None:
        self._plan = plan
        self._cluster = cluster
        self._proxy = proxy
        self._broker = broker
        self._directory = directory
        self._random = random.Random(plan.seed)
        self._feeder = Feeder(broker, plan.topics)

    def run(self) -> Outcome:
        plan, outcome = self._plan, Outcome(self._plan)
        watch = self._submit()
        begun = time.monotonic()
        checkpoints = self._directory / "checkpoints"
        group = f"{plan.name}-group"
        with OffsetsWatch(self._broker.servers, group, plan.topics, checkpoints) as offsets:
            stage = plan.rows // (len(plan.victims) + 1)
            for number, victim in enumerate(plan.victims):
                self._feeder.feed((number + 1) * stage)
                some = number * stage + int(self._random.uniform(0.05, 0.95) * stage)
                wait_until(
                    partial(offsets.reached, some), plan.limit_s, self._told(f"{some} rows are confirmed", watch)
                )
                self._strike(victim, watch)
                outcome.kills[victim] += 1
            self._feeder.feed(plan.rows)
            wait_until(partial(offsets.reached, plan.rows), plan.limit_s, self._told("all rows are confirmed", watch))
        outcome.seconds = time.monotonic() - begun
        last = self._stop(watch)
        outcome.restarts = last.status.restarts
        outcome.checkpoints = last.status.checkpoints_completed
        outcome.looks = offsets.looks
        assert not offsets.ahead, f"seed {plan.seed}: committed ahead of the last checkpoint: {offsets.ahead[:5]}"
        assert offsets.looks, "no offset was ever compared"
        return outcome

    def _told(self, what: str, watch: JobWatch) -> Callable[[], str]:
        return lambda: f"seed {self._plan.seed}: {what}; the job is {watch.summary()}"

    def _stop(self, watch: JobWatch) -> Moment:
        self._wait_running(watch)
        place = str(self._directory / "savepoints")
        done = self._cluster.cli("stop", watch.job_id, "-p", place, "--jobmanager", self._cluster.address)
        assert done.returncode == 0, done.stdout + done.stderr
        return watch.wait_finished(self._plan.limit_s)

    def _submit(self) -> JobWatch:
        plan = self._plan
        arguments = ["--servers", self._broker.servers, "--inputs", *plan.topics, "--output", plan.output]
        arguments += ["--group", f"{plan.name}-group", "--notes", str(self._directory)]
        arguments += ["--postgres", plan.postgres] if plan.postgres else []
        arguments += ["--strategy", plan.strategy] if plan.strategy else []
        settings = {"execution.checkpointing.dir": str(self._directory / "checkpoints"), **QUICK_RESTART}
        return self._cluster.submit(JOBS / "kafka_copy.py", *arguments, parallelism=2, settings=settings)

    def _strike(self, victim: str, watch: JobWatch) -> None:
        last = self._wait_running(watch)
        if victim == "subtask":
            self._kill_a_subtask()
            watch.wait_running_again(last.status.restarts, last.at, self._plan.limit_s)
        elif victim == "taskmanager":
            self._cluster.wait_slots(2 * len(self._cluster.task_managers), self._plan.limit_s)
            self._cluster.kill9(self._cluster.task_manager_of(watch, self._plan.topics[0], self._random.randrange(2)))
            self._cluster.add_taskmanager(2, "--jobmanager", self._proxy.address)
        elif victim == "broker":
            self._broker.kill9()
            self._broker.start()
        elif victim == "read permission":
            self._revoke("read", self._plan.topics[0], watch)
        elif victim == "write permission":
            self._revoke("write", self._plan.output, watch)
        else:
            self._proxy.cut()
            threading.Event().wait(self._random.uniform(*CUT_S))
            self._proxy.mend()

    def _revoke(self, operation: str, topic: str, watch: JobWatch) -> None:
        """Until somebody has failed, and said why."""
        self._broker.deny(topic, operation)
        since = time.monotonic()
        self._feeder.feed(self._feeder.fed + 2 * KEYS)

        def refused(moment: Moment) -> bool:
            failure = moment.status.failure
            return topic in failure.message + failure.details and LACKS in failure.message + failure.details

        watch.wait_for(refused, self._plan.limit_s, f"it fails for want of the permission to {operation}", since)
        self._broker.allow(topic, operation)

    def _wait_running(self, watch: JobWatch) -> Moment:
        """As it is now, not as it was once."""

        def running() -> Moment | None:
            last = watch.last
            return last if last is not None and last.is_running else None

        found = wait_until(running, self._plan.limit_s, self._told("every subtask runs", watch))
        assert found is not None
        return found

    def _kill_a_subtask(self) -> None:
        """One that works now, of those that noted themselves."""
        noted = {int(path.name.removeprefix("source-")) for path in self._directory.glob("source-*")}
        living = sorted((p for p in self._cluster.subtask_processes() if p.pid in noted), key=lambda p: p.pid)
        assert living, "no source process is left to be killed"
        with contextlib.suppress(psutil.Error):
            self._random.choice(living).kill()


def check(plan: Plan, found: list[tuple[str, str, int, int]], lanes: list[Any]) -> None:
    """``found``: (key, topic, n, twice) as readers see them, in order within each lane (a partition, say)."""
    times = Counter((topic, n) for _, topic, n, _ in found)
    twice = [record for record, count in times.items() if count > 1]
    assert not twice, f"seed {plan.seed}: {len(twice)} records more than once: {twice[:5]}"
    missing = plan.rows // 2 * 2 - len(times)
    assert not missing, f"seed {plan.seed}: {missing} records are missing"
    assert all(doubled == 2 * n for _, _, n, doubled in found)
    last: dict[tuple[Any, str], int] = {}
    disorder = 0
    for (key, _, n, _), lane in zip(found, lanes, strict=True):
        disorder += n < last.get((lane, key), -1)
        last[lane, key] = n
    assert not disorder, f"seed {plan.seed}: {disorder} records came before an older one of their key"
    assert len(last) == 2 * KEYS, f"a key is in several lanes: {len(last)}"
