"""A running subtask reports what Flink's reports, under its names: held against what a real Flink served."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.contract.metrics.flink_names import recorded
from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.tidegate.datastream.graph_kit import make_env, numbers
from tidegate.common import Types
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.measuring.subtask_metrics import TaskCounters
from tidegate.taskmanager.runtime.ports import CancelTask
from tidegate.taskmanager.service.reporting.prometheus_samples import samples_of
from tidegate.wire.convert_deployment import task_metrics_to_pb
from tidegate.wire.task_metrics import ReadingSpan

TASK = {"job_id": "", "job_name": "", "task_id": "", "task_name": "", "task_attempt_id": "", "task_attempt_num": "",
        "subtask_index": "", "host": "", "tm_id": ""}  # fmt: skip


def finished() -> dict[str, list[TaskMetrics]]:
    """The last words of the subtasks of source -> map | sink, by vertex."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        env = make_env(2)
        mapped = numbers(env).map(lambda n: n + 1, Types.LONG()).name("plus")
        mapped.key_by(lambda n: n, Types.LONG()).map(lambda n: n, Types.LONG()).sink_to(CollectingSink("names"))
        job = InProcessJob(env.build(), Path(path))
        job.start()
        job.finish()
        found: dict[str, list[TaskMetrics]] = {}
        for task in job.tasks.values():
            found.setdefault(task.vertex.name, []).append(task_metrics_to_pb(task.port.last_metrics))
        return found


def wanted_of(*, has_inputs: bool) -> dict[str, frozenset[str]]:
    """A TaskManager knows two more from acknowledgements; a source has no channels to read from, and its chain no sink here."""
    elsewhere = ("checkpointAlignmentTime", "checkpointStartDelayNanos")
    of_inputs = () if has_inputs else ("_Input_", "InLocal", "InRemote", "RecordsSend", "Errors")
    return {
        name: labels
        for name, labels in recorded("taskmanager_job_task").items()
        if not name.endswith(elsewhere) and not any(part in name for part in of_inputs)
    }


def test_names_and_labels_are_those_of_flink() -> None:
    source, keyed = finished().values()
    for counters in (*source, *keyed):
        samples = samples_of(counters, ReadingSpan(counters, counters, 5_000, 5_000), TASK)
        labels = {sample.family: frozenset(sample.labels) for sample in samples}
        wanted = wanted_of(has_inputs=counters in keyed)
        assert {name: labels.get(name) for name in wanted} == wanted


def test_what_was_received_and_sent_adds_up() -> None:
    source, keyed = finished().values()
    received = sum(found.figures["numBuffersInLocal"] + found.figures["numBuffersInRemote"] for found in keyed)
    assert received == sum(found.figures["numBuffersOut"] for found in source) > 0
    assert sum(found.user["plus.numRecordsIn"] for found in source) == 100
    assert sum(found.user["plus.numRecordsOut"] for found in source) == sum(found.records_in for found in keyed) == 100
    [sink] = {name.rpartition(".")[0] for found in keyed for name in found.user if name.endswith("numRecordsSend")}
    assert sum(found.user[f"{sink}.numRecordsSend"] for found in keyed) == 100
    assert sum(found.user["plus.numBytesOut"] for found in source) == sum(found.bytes_out for found in source) > 0
    heads = {name for found in keyed for name, value in found.user.items() if name.endswith(".numBytesIn") and value}
    assert len(heads) == 1, "bytes come to the head of the chain"
    assert all(found.figures["initializationTime"] > 0 for found in (*source, *keyed))


def test_mails_are_counted_with_the_time_that_they_waited() -> None:
    now_ms = [0.0]
    mailbox = Mailbox(lambda: now_ms[0])
    mailbox.put(CancelTask())
    now_ms[0] = 7.0
    assert (mailbox.size(), len(mailbox.take_all()), mailbox.taken, list(mailbox.waits_ms)) == (1, 1, 1, [7.0])


def test_the_longest_time_without_room_is_of_one_report() -> None:
    counters = TaskCounters()
    for waited_ms in (5.0, 30.0, 10.0):
        counters.backpressured(waited_ms)
    assert [counters.report().figures["maxSoftBackPressureTimeMs"] for _ in range(2)] == [30.0, 0.0]
    assert counters.backpressured_ms == 45.0
