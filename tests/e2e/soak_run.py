"""Two topics, a union, a map, a sink, and random kills: each record once, in order per key.

    thresholds of progress ─▶ next victim (seeded): subtask process │ TaskManager │ broker │ JobManager's connections
    all the while: the group's committed offsets are read, then the last completed checkpoint: never ahead of it

Progress is what the group committed, so it is that of confirmed checkpoints. A failure names the seed.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.waiting import wait_until
from tests.e2e.watching import JobWatch
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.tcp_proxy import TcpProxy
from tidegate.model.errors import TidegateError
from tidegate.state_reader import open_checkpoint

PARTITIONS, KEYS = 3, 50
VICTIMS = ("subtask", "taskmanager", "broker", "connection")
CUT_S = (0.2, 3.0)
STEP_LIMIT_S = 120

Offsets = dict[tuple[str, int], int]


@dataclass(frozen=True)
class Plan:
    name: str
    rows: int
    seed: int
    victims: tuple[str, ...]
    pause: float = 0.0
    postgres: str = ""
    limit_s: float = 240

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


def fill(broker: KafkaBroker, topic: str, rows: int) -> None:
    from confluent_kafka import Producer

    broker.create_topic(topic, PARTITIONS)
    # without idempotence a first batch that meets a topic too young for a leader is sent again behind later ones
    settings = {"enable.idempotence": True, "queue.buffering.max.messages": 1_000_000, "linger.ms": 20}
    client = Producer({"bootstrap.servers": broker.servers, **settings})
    for n in range(rows):
        key = f"{topic}-{n % KEYS}"
        value = json.dumps({"key": key, "n": n, "from": topic})
        while True:
            try:
                client.produce(topic, key=key, value=value)
                break
            except BufferError:
                client.poll(0.1)
    assert client.flush(120) == 0


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
        self._thread.join(STEP_LIMIT_S)

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
        told = last_positions(self.checkpoints)
        if told is None:
            return
        positions, finished = told
        self.looks += 1
        self.ahead += [
            f"{part}: {offset} > {positions.get(part)}"
            for part, offset in committed.items()
            if offset > positions.get(part, 0) and part[0] not in finished
        ]


def last_positions(checkpoints: Path) -> tuple[Offsets, set[str]] | None:
    """Of the newest completed checkpoint, and the topics that are read to their end (their operator is called as they are,
    and is finished there); ``None`` when it is removed meanwhile."""
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
                    _, (topic, number, start, _), position, _ = json.loads(text)
                    positions[topic, number] = start if position is None else position
    except TidegateError:
        return None
    finished = {vertex.title for vertex in checkpoint.operators if vertex.described.finished}
    return positions, finished


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

    def run(self) -> Outcome:
        plan, outcome = self._plan, Outcome(self._plan)
        for topic in plan.topics:
            fill(self._broker, topic, plan.rows // 2)
        begun = time.monotonic()
        watch = self._submit()
        watch.wait_running(STEP_LIMIT_S)
        checkpoints = self._directory / "checkpoints"
        group = f"{plan.name}-group"
        with OffsetsWatch(self._broker.servers, group, plan.topics, checkpoints) as offsets:
            for number, victim in enumerate(plan.victims, start=1):
                threshold = plan.rows * number // (len(plan.victims) + 1)
                wait_until(partial(offsets.reached, threshold), plan.limit_s, f"{threshold} rows are confirmed")
                self._strike(victim, watch)
                outcome.kills[victim] += 1
            last = watch.wait_finished(plan.limit_s)
        outcome.seconds = time.monotonic() - begun
        outcome.restarts = last.status.restarts
        outcome.checkpoints = last.status.checkpoints_completed
        outcome.looks = offsets.looks
        assert not offsets.ahead, f"seed {plan.seed}: committed ahead of the last checkpoint: {offsets.ahead[:5]}"
        assert offsets.looks, "no offset was ever compared"
        return outcome

    def _submit(self) -> JobWatch:
        plan = self._plan
        arguments = ["--servers", self._broker.servers, "--inputs", *plan.topics, "--output", plan.output]
        arguments += ["--group", f"{plan.name}-group", "--pause", str(plan.pause), "--notes", str(self._directory)]
        arguments += ["--postgres", plan.postgres] if plan.postgres else []
        settings = {"execution.checkpointing.dir": str(self._directory / "checkpoints"), **QUICK_RESTART}
        return self._cluster.submit(JOBS / "kafka_copy.py", *arguments, parallelism=2, settings=settings)

    def _strike(self, victim: str, watch: JobWatch) -> None:
        watch.wait_for(lambda m: m.is_running or m.status.state == "FINISHED", STEP_LIMIT_S, "it runs before a kill")
        last = watch.last
        assert last is not None
        assert last.status.state == "RUNNING", f"it was over before the {victim} was killed: {watch.summary()}"
        if victim == "subtask":
            self._kill_a_subtask()
            watch.wait_running_again(last.status.restarts, last.at, STEP_LIMIT_S)
        elif victim == "taskmanager":
            process = self._random.choice(self._cluster.task_managers)
            self._cluster.kill9(process)
            self._cluster.add_taskmanager(2, "--jobmanager", self._proxy.address)
        elif victim == "broker":
            self._broker.kill9()
            self._broker.start()
        else:
            self._proxy.cut()
            threading.Event().wait(self._random.uniform(*CUT_S))
            self._proxy.mend()

    def _kill_a_subtask(self) -> None:
        """One that works now, of those that noted themselves."""
        notes = [int(path.name.removeprefix("source-")) for path in self._directory.glob("source-*")]
        living = sorted(pid for pid in notes if psutil.pid_exists(pid))
        assert living, "no source process is left to be killed"
        with contextlib.suppress(psutil.Error):
            psutil.Process(self._random.choice(living)).kill()


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
