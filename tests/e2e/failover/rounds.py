"""A file job and a Kafka-to-Kafka job, both exactly once, while the leader of their cluster is struck again and again.

No round submits or restores anything for them: whatever it does, they go on, and in the end readers see each record once.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import grpc

from tests.e2e.cluster import JOBS
from tests.e2e.counts_run import QUICK_RESTART, CountsRun
from tests.e2e.failover.cluster import FailoverCluster
from tests.e2e.soak_run import PARTITIONS, Feeder, Plan, check
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import TERMINAL, JobWatch
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_reading import read_topic
from tidegate.pb import jobmanager_pb2 as pb

JOB_LIMIT_S = 300
NOT_RECOVERED = "job is not recovered"
"""In the log of a JobManager, of a job that it leaves alone."""
Attempts = dict[tuple[str, int], int]


class Feeding:
    """Records, as long as the context lasts: a few hundred a second, so that every transaction has some."""

    def __init__(self, feeder: Feeder, pace: int = 20) -> None:
        self._feeder, self._pace = feeder, pace
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeding", daemon=True)

    def __enter__(self) -> Feeding:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(HANG_LIMIT_S)

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            self._feeder.feed(self._feeder.fed + 2 * self._pace)


class Rounds:
    def __init__(self, cluster: FailoverCluster, broker: KafkaBroker, directory: Path, name: str) -> None:
        self.cluster = cluster
        self.broker = broker
        self.directory = directory
        self.plan = Plan(name, 0, 0, ())
        self.feeder = Feeder(broker, self.plan.topics)
        broker.create_topic(self.plan.output, PARTITIONS)
        self.files: list[CountsRun] = []
        self.file_job = self.kafka_job = ""

    # --- jobs ----------------------------------------------------------------------------------------

    def start_file_job(self, seconds: int = 20, interval: int = 300) -> None:
        """``interval``: of checkpoints, in ms."""
        place = self.directory / f"file-{len(self.files)}"
        run = CountsRun(place, seconds=seconds, rows=2_000 * seconds, interval=interval)
        self.files.append(run)
        self.file_job = run.submit(self.cluster).job_id

    def start_kafka_job(self, restore: str | None = None) -> None:
        plan, notes = self.plan, self.directory / "notes"
        notes.mkdir(parents=True, exist_ok=True)
        arguments = ["--servers", self.broker.servers, "--inputs", *plan.topics, "--output", plan.output]
        arguments += ["--group", f"{plan.name}-group", "--notes", str(notes), "--interval", "300"]
        settings = {"execution.checkpointing.dir": str(self.directory / "kafka-checkpoints"), **QUICK_RESTART}
        job = str(JOBS / "kafka_copy.py")
        watch = self.cluster.submit(job, *arguments, parallelism=2, settings=settings, restore=restore)
        self.kafka_job = watch.job_id
        watch.wait_running()

    def ensure_jobs(self) -> None:
        """The file job ends by itself: the next one begins."""
        if not self.kafka_job:
            self.start_kafka_job()
        if self.has_ended(self.file_job):
            self.start_file_job()
        for job_id in (self.file_job, self.kafka_job):
            self.progresses(job_id)

    def has_ended(self, job_id: str) -> bool:
        """A job that has a result may not be known to the next leader; one that a leader could not go on with is not either. No job at all has ended, too."""
        logs = [log for log in self.cluster.directory.glob("*.log") if NOT_RECOVERED in log.read_text(errors="replace")]
        assert not logs, f"a job was not recovered: {logs}"
        return self.jobs().get(job_id, "FINISHED") in TERMINAL

    def jobs(self) -> dict[str, str]:
        """The state of each job that the leader knows, which is another one when a busy machine let its session expire."""
        request = pb.ListJobsRequest(include_terminal=True)

        def answer() -> pb.ListJobsResponse | None:
            try:
                return self.cluster.stub.ListJobs(request, timeout=HANG_LIMIT_S)
            except grpc.RpcError:
                self.cluster.find_leader()
                return None

        found = wait_until(answer, JOB_LIMIT_S, "the leader lists its jobs")
        assert found is not None
        return {job.job_id: job.state for job in found.jobs}

    def progresses(self, job_id: str) -> JobWatch:
        """It runs, and completes two more checkpoints under this leader; or it has ended well."""
        watch = self.cluster.watch(job_id)
        first = watch.wait_for(lambda m: m.is_running or m.status.state == "FINISHED", JOB_LIMIT_S, "it runs")
        completed = first.status.checkpoints_completed
        watch.wait_for(
            lambda m: m.status.state == "FINISHED" or m.status.checkpoints_completed >= completed + 2,
            JOB_LIMIT_S,
            "it completes checkpoints",
        )
        assert watch.last is not None
        assert watch.last.status.state in ("RUNNING", "FINISHED"), watch.summary()
        return watch

    def attempts(self) -> Attempts:
        """The Kafka job's: it never ends."""
        watch = self.cluster.watch(self.kafka_job)
        last = watch.wait_for(lambda m: m.is_running, JOB_LIMIT_S, "it runs")
        return {(v.name, s.index): s.attempt for v in last.status.vertices for s in v.subtasks}

    # --- what is asked -------------------------------------------------------------------------------

    def next_leader(self) -> float:
        """Seconds until another one leads and both jobs go on under it."""
        began = time.monotonic()
        self.cluster.wait_led()
        for job_id in (self.file_job, self.kafka_job):
            if job_id == self.kafka_job or not self.has_ended(job_id):
                self.progresses(job_id)
        return time.monotonic() - began

    def end(self) -> None:
        """The jobs end, and what readers see is exact."""
        others = [job_id for job_id in self.jobs() if job_id != self.kafka_job]
        wait_until(lambda: all(map(self.has_ended, others)), JOB_LIMIT_S, "the other jobs have ended")
        done = self.cluster.cli("stop", self.kafka_job, "-p", str(self.directory / "sp"), "-m", self.cluster.address)
        assert done.returncode == 0, done.stdout + done.stderr
        self.assert_exact()

    def assert_exact(self) -> None:
        for run in self.files:
            run.assert_exact()
        messages = read_topic(self.broker.servers, self.plan.output)
        rows = [json.loads(message.value) for message in messages]
        found = [(row["key"], row["from"], row["n"], row["twice"]) for row in rows]
        read = Plan(self.plan.name, len(found), 0, ())
        check(read, found, [message.partition for message in messages])
        missing = {topic: self._gaps(topic, found) for topic in self.plan.topics}
        assert not any(missing.values()), f"records are missing: {missing}"

    def _gaps(self, topic: str, found: list[tuple[str, str, int, int]]) -> list[int]:
        """Numbers that are not there, of those below the highest that was fed."""
        there = {n for _, one, n, _ in found if one == topic}
        return sorted(set(range(self.feeder.fed // 2)) - there)[:5]

    def wait_all_read(self) -> None:
        """Everything that was fed is committed to the output."""
        wait_until(
            lambda: len(read_topic(self.broker.servers, self.plan.output)) >= self.feeder.fed,
            JOB_LIMIT_S,
            "all is copied",
        )
