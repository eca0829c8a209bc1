from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tidegate.cli.embedded.sizing import slots_of
from tidegate.cli.errors import cause_in_a_few_lines
from tidegate.cli.executor import (
    JobCanceled,
    SubmittedJob,
    job_error,
    tell_accumulators,
    tell_late_records,
    wait_attached,
)
from tidegate.cli.job_displays import JobDisplay
from tidegate.cli.progress import Progress, line_of, records_of
from tidegate.cli.submission import absolute, make_submission
from tidegate.cli.tables import duration, size
from tidegate.common.job_execution_result import JobExecutionResult
from tidegate.model.errors import ErrorInfo, UserFunctionError
from tidegate.model.graph import JobGraph, JobVertex
from tidegate.model.ids import BlobKey, JobId, VertexId
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb

JOB = JobId("a" * 32)
PLAIN = JobGraph(JOB, "tiny", (), ())


class RecordedClient:
    """A JobManager that has only this to tell."""

    address = "somewhere:1"

    def __init__(self, *statuses: pb.JobStatus) -> None:
        self.statuses = statuses

    def watch(self, job_id: str):  # type: ignore[no-untyped-def]
        assert job_id == JOB
        yield from self.statuses

    watch_beyond = watch


def submitted(*statuses: pb.JobStatus) -> SubmittedJob:
    client: Any = RecordedClient(*statuses)
    return SubmittedJob(client, PLAIN)


def wait_for(*statuses: pb.JobStatus) -> int:
    return submitted(*statuses).wait().net_runtime_ms


def test_a_finished_job_has_a_runtime() -> None:
    assert wait_for(pb.JobStatus(state="RUNNING"), pb.JobStatus(state="FINISHED", start_ms=5, end_ms=12)) == 7


def test_accumulators_of_a_finished_job_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        "seen": common_pb2.Accumulator(type="IntCounter", value="7"),
        "bad": common_pb2.Accumulator(type="ListAccumulator", value='["x"]'),
    }
    finished = pb.JobStatus(state="FINISHED", start_ms=5, end_ms=12, accumulators=found)
    result = submitted(finished).wait()
    tell_accumulators(result)
    assert capsys.readouterr().out == "Accumulator Results:\n- bad (ListAccumulator): ['x']\n- seen (IntCounter): 7\n"
    assert result.get_all_accumulator_results() == {"bad": ["x"], "seen": 7}
    assert result.get_accumulator_result("other") is None
    tell_accumulators(JobExecutionResult(JOB, 7))
    assert capsys.readouterr().out == ""


def test_late_records_are_told_at_the_end_whatever_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    late = [pb.LateRecords(operator="windows", dropped=500_000), pb.LateRecords(operator="join", dropped_before=1)]
    status = pb.JobStatus(state="FINISHED", start_ms=5, end_ms=12, late_records=late)
    submitted(pb.JobStatus(state="RUNNING", late_records=late), status).wait()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: 500,000 late records dropped at operator 'windows': ")
    assert second.startswith(
        "warning: 0 late records dropped at operator 'join' since the last restart, and up to 1 before"
    )
    with pytest.raises(JobCanceled):
        submitted(pb.JobStatus(state="CANCELED", late_records=late[:1])).wait()
    assert "500,000 late records dropped" in capsys.readouterr().err
    tell_late_records(None)
    tell_late_records(pb.JobStatus(state="FINISHED"))
    assert capsys.readouterr().err == ""


def test_with_a_progress_line_they_are_told_behind_it(capsys: pytest.CaptureFixture[str]) -> None:
    late = pb.LateRecords(operator="windows", dropped=1)
    job = submitted(pb.JobStatus(state="FINISHED", name="tiny", late_records=[late]))
    with Progress(set()) as progress:
        job.wait(progress)
    assert "late record" not in capsys.readouterr().err
    tell_late_records(job.last_status)
    assert capsys.readouterr().err.startswith("warning: 1 late record dropped at operator 'windows': ")


def test_a_failed_job_raises_its_cause_in_a_few_lines() -> None:
    trace = "\n".join(f"line {number}" for number in range(20))
    failure = common_pb2.Error(
        code="user-function", domain="user", message="Map: ValueError: 3", details=trace, origin="map (2/4) on tm-1"
    )
    with pytest.raises(UserFunctionError) as raised:
        wait_for(pb.JobStatus(state="FAILED", failure=failure))
    lines = raised.value.message.splitlines()
    assert lines[0] == f"job 'tiny' ({JOB}) failed: Map: ValueError: 3 in map (2/4) on tm-1"
    assert lines[1:3] == ["  ...", "  line 12"]
    assert lines[-1] == "  line 19"


def test_a_canceled_job_says_so() -> None:
    with pytest.raises(JobCanceled, match=f"job 'tiny' \\({JOB}\\) was canceled"):
        wait_for(pb.JobStatus(state="CANCELED"))


def test_a_failure_without_a_cause_is_still_told() -> None:
    assert job_error("job x failed", None).message == "job x failed: the JobManager gave no cause"
    assert cause_in_a_few_lines(ErrorInfo("storage", "external", "disk full")) == "disk full"


def test_relative_directories_are_the_clients(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    graph = JobGraph(JOB, "x", (), (), {"execution.checkpointing.dir": "ck", "parallelism.default": "2"})
    assert make_submission(graph).graph.configuration == {
        "execution.checkpointing.dir": f"{tmp_path}/ck",
        "parallelism.default": "2",
    }
    assert absolute("s3://bucket/x") == "s3://bucket/x"


def test_a_job_carries_no_secrets_of_processes() -> None:
    """They are the client's own, from its file and environment, or the program's; an embedded cluster is started with them."""
    texts = {
        "security.ssl.internal.enabled": "true",
        "security.ssl.internal.keystore-password": "of-the-store",
        "tidegate.security.token": "tgu_of_the_user",
        "tidegate.security.token-file": "/etc/tidegate/token",
        "parallelism.default": "2",
    }
    submission = make_submission(JobGraph(JOB, "x", (), (), texts))
    assert submission.graph.configuration == {"parallelism.default": "2"}
    assert {**submission.of_processes, **submission.graph.configuration} == texts


def test_a_job_starts_from_what_the_command_says_or_else_its_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    ignore = "execution.state-recovery.ignore-unclaimed-state"
    configured = JobGraph(JOB, "x", (), (), {"execution.state-recovery.path": "chk-7", ignore: "true"})
    asked = [make_submission(configured), make_submission(configured, "/ck/chk-9"), make_submission(PLAIN)]
    assert [(s.restore_path, s.allow_non_restored_state) for s in asked] == [
        (f"{tmp_path}/chk-7", True),
        ("/ck/chk-9", True),
        ("", False),
    ]


def test_a_configuration_is_read_once_for_all_that_the_client_needs_of_it() -> None:
    texts = {"execution.shutdown-on-attached-exit": "true", "tidegate.profile": "true"}
    submission = make_submission(JobGraph(JOB, "x", (), (), texts))
    assert (submission.cancels_on_exit, submission.shows_profile) == (True, True)
    plain = make_submission(PLAIN)
    assert (plain.cancels_on_exit, plain.shows_profile, plain.warnings) == (False, False, ())


def test_a_key_without_effect_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {"execution.checkpointing.file-merging.enabled": "true"}
    make_submission(JobGraph(JOB, "x", (), (), texts)).print_warnings()
    assert capsys.readouterr().err == (
        "warning: known to Flink, without effect here: execution.checkpointing.file-merging.enabled\n"
    )


def test_slots_are_the_greatest_parallelism_of_each_group() -> None:
    def vertex(name: str, parallelism: int, group: str) -> JobVertex:
        return JobVertex(VertexId(name), name, parallelism, 128, (), BlobKey(""), slot_sharing_group=group)

    vertices = (vertex("a", 2, "x"), vertex("b", 3, "x"), vertex("c", 4, "y"))
    assert slots_of(JobGraph(JOB, "x", vertices, ())) == 7


def test_progress_tells_the_cause_of_restarts_when_it_changes_and_warns_of_one_that_lasts() -> None:
    out = io.StringIO()
    progress = Progress(["s"], Console(file=out, width=60))
    failure = common_pb2.Error(code="storage-unusable", domain="external", message="disk [full]", retriable=True)
    with progress:
        for restarts in (1, 1, 2, 3, 4):
            progress.show(pb.JobStatus(name="j", state="RESTARTING", restarts=restarts, failure=failure))
    said = out.getvalue()
    assert said.count("restart 1: disk [full]") == 1
    assert "restart 2" not in said
    assert said.count("WARNING: the job has restarted 3 times for the same cause") == 1


def test_progress_shows_what_matters() -> None:
    subtask = pb.SubtaskStatus(metrics=common_pb2.TaskMetrics(records_out=50, records_in=40))
    status = pb.JobStatus(
        name="tiny",
        state="RUNNING",
        restarts=2,
        waiting_for="1 of 2 slots",
        vertices=[pb.VertexStatus(vertex_id="s", subtasks=[subtask, subtask]), pb.VertexStatus(vertex_id="t")],
        last_completed=pb.CheckpointStatus(checkpoint_id=27),
    )
    assert records_of(status, {"s"}) == 80
    assert (
        line_of(status, 1234567.0)
        == "tiny: RUNNING  waiting for 1 of 2 slots  1,234,567 records/s  checkpoint 27  2 restarts"
    )
    status.starting_since_ms = 1
    assert "waiting for 1 of 2 slots for " in line_of(status, None)
    assert (
        line_of(status, None, is_lasting=True) == "tiny: RUNNING  waiting for 1 of 2 slots  checkpoint 27  2 restarts"
    )
    status.vertices[0].subtasks[0].metrics.user["totals.failingCommitTime"] = 12_000
    assert "checkpoint 27  commits fail at totals  2 restarts" in line_of(status, None, is_lasting=True)


def test_where_output_is_no_terminal_a_line_is_printed_for_each_tenth_checkpoint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress((), Console(file=io.StringIO()))
    status = pb.JobStatus(name="tiny", state="RUNNING")
    progress.show(status)
    for number in range(3, 24):
        status.last_completed.checkpoint_id = number
        progress.show(status)
    status.restarts = 1
    progress.show(status)
    assert capsys.readouterr().err.splitlines() == [
        "tiny: RUNNING",
        "tiny: RUNNING  checkpoint 3",
        "tiny: RUNNING  checkpoint 10",
        "tiny: RUNNING  checkpoint 20",
        "tiny: RUNNING  checkpoint 23  1 restart",
    ]


@pytest.mark.parametrize(
    ("span_ms", "text"), [(120, "120ms"), (3_400, "3.4s"), (123_000, "2m 03s"), (3_723_000, "1h 02m 03s")]
)
def test_durations(span_ms: int, text: str) -> None:
    assert duration(span_ms) == text


@pytest.mark.parametrize(("size_bytes", "text"), [(12, "12 B"), (3_500, "3.4 KiB"), (5 << 40, "5.0 TiB")])
def test_sizes(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text


class InterruptedJob(SubmittedJob):
    """Somebody presses Ctrl-C while it is waited for; once it is cancelled, it ends."""

    def __init__(self) -> None:
        client: Any = RecordedClient()
        super().__init__(client, PLAIN)
        self.is_canceled = False

    def wait(self, progress: Progress | JobDisplay | None = None) -> JobExecutionResult:
        if not self.is_canceled:
            raise KeyboardInterrupt
        return JobExecutionResult(JOB, 7)

    def cancel(self) -> None:
        self.is_canceled = True


def test_ctrl_c_leaves_a_job_on_a_cluster_running_and_says_how_to_reach_it(capsys: pytest.CaptureFixture[str]) -> None:
    job = InterruptedJob()
    with pytest.raises(KeyboardInterrupt):
        wait_attached(job, make_submission(PLAIN), cancels=False)
    assert not job.is_canceled
    said = capsys.readouterr().err
    assert f"Job {JOB} goes on at somewhere:1." in said
    assert f"tidegate cancel -m somewhere:1 {JOB}" in said


def test_ctrl_c_cancels_where_the_job_is_to_end_with_the_command() -> None:
    job = InterruptedJob()
    assert wait_attached(job, make_submission(PLAIN)).net_runtime_ms == 7
    assert job.is_canceled
