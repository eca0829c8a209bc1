"""Files, then a topic from where they end: every line once, whichever process dies on either side of the switch, at any parallelism."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from confluent_kafka.cimpl import NewPartitions

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.pool import made_ready
from tests.e2e.test_enumerated_source import process_of, replace_task_manager, runs_again
from tests.e2e.test_kafka_source import send
from tests.e2e.test_savepoints import finished, taken_by
from tests.e2e.test_split_assignment import lines_in, write_files
from tests.e2e.waiting import wait_until
from tests.servers.kafka_broker import KafkaBroker

_JOB_LIMIT_S = 120
SEAM_MS = 1_000_000
"""Messages from this time on are in no file."""
PARTITIONS, MESSAGES = 3, 400


def write_topic(broker: KafkaBroker, topic: str, files: Counter[str]) -> Counter[str]:
    """First what is in the files too, as in a topic that is archived. Returns all lines."""
    broker.create_topic(topic, PARTITIONS)
    archived = list(files)[: PARTITIONS * 100]
    send(broker, topic, {p: archived[p::PARTITIONS] for p in range(PARTITIONS)}, timestamp=1_000)
    return send_live(broker, topic, range(PARTITIONS)) + files


def send_live(broker: KafkaBroker, topic: str, partitions: range) -> Counter[str]:
    live = {p: [f"live {p}-{n}" for n in range(MESSAGES)] for p in partitions}
    send(broker, topic, live, timestamp=SEAM_MS)
    return Counter(line for lines in live.values() for line in lines)


def until_committed(output: Path, condition: int) -> None:
    wait_until(lambda: lines_in(output).total() >= condition, _JOB_LIMIT_S, f"{condition} lines are committed")


def arguments_of(broker: KafkaBroker, tmp_path: Path, topic: str, rate: int) -> list[str]:
    places = [f"--input={tmp_path / 'input'}", f"--output={tmp_path / 'output'}", f"--servers={broker.servers}"]
    return [str(JOBS / "hybrid_lines.py"), *places, f"--topic={topic}", f"--from-ms={SEAM_MS}", f"--rate={rate}"]


def test_every_line_is_read_once_although_processes_die_in_the_files_and_in_the_topic(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    files = write_files(tmp_path / "input")
    expected = write_topic(broker, "hybrid-kills", files)
    output = tmp_path / "output"
    with Cluster(tmp_path / "cluster") as cluster:
        made_ready(cluster, 2)
        settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **QUICK_RESTART}
        job = arguments_of(broker, tmp_path, "hybrid-kills", rate=2_000)
        watch = cluster.submit(*job, parallelism=3, settings=settings)
        watch.wait_running()
        until_committed(output, files.total() // 4)
        for is_enumerator in (True, False):
            runs_again(watch, process_of(cluster, is_enumerator=is_enumerator).kill)
        until_committed(output, files.total() + 1)
        runs_again(watch, process_of(cluster, is_enumerator=True).kill)
        runs_again(watch, lambda: replace_task_manager(cluster))
        expected += send_live(broker, "hybrid-kills", range(1))
        until_committed(output, expected.total())
        cluster.cancel(watch)
    assert lines_in(output) == expected


def test_a_job_is_stopped_behind_the_switch_and_goes_on_at_another_parallelism_with_partitions_that_are_new(
    cluster: Cluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    """A partition that is found later belongs to one reader, although the splits of the others were dealt anew."""
    files = write_files(tmp_path / "input")
    expected = write_topic(broker, "hybrid-stop", files)
    output = tmp_path / "output"
    job = arguments_of(broker, tmp_path, "hybrid-stop", rate=20_000)
    watch = cluster.submit(*job, parallelism=2)
    watch.wait_running()
    until_committed(output, expected.total())
    path = taken_by(cluster, "stop", watch.job_id, "-p", str(tmp_path / "savepoints"))
    finished(watch)
    client = broker.admin()
    client.create_partitions([NewPartitions("hybrid-stop", PARTITIONS + 3)])["hybrid-stop"].result(30)
    expected += send_live(broker, "hybrid-stop", range(PARTITIONS, PARTITIONS + 3))
    watch = cluster.submit(*job, parallelism=4, restore=str(path))
    watch.wait_running()
    until_committed(output, expected.total())
    watch.wait_checkpoints(2)
    cluster.cancel(watch)
    assert lines_in(output) == expected
