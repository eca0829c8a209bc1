"""A checkpoint as a picture, and the line that says what made it slow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.test_commands import refused, tidegate
from tidegate.cli.commands.timeline import (
    SUBTASKS_SHOWN,
    bar,
    explained,
    legend,
    make_timeline,
    missing_of,
    tracks_of,
    waits,
)
from tidegate.cli.tables import lines_of
from tidegate.model.checkpoint_travel import milliseconds
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb

TRIGGER_MS = 1_700_000_000_000
NAMES = {"a" * 32: "source", "b" * 32: "window"}


def subtask(vertex: str, index: int, ack_ms: int, **metrics: Any) -> pb.SubtaskCheckpoint:
    return pb.SubtaskCheckpoint(
        vertex_id=vertex * 32,
        index=index,
        ack_ms=TRIGGER_MS + ack_ms,
        metrics=common_pb2.CheckpointMetrics(**metrics),
        size_bytes=2048,
    )


def checkpoint(*subtasks: pb.SubtaskCheckpoint, completed_ms: int | None = 400, **fields: Any) -> pb.CheckpointStatus:
    return pb.CheckpointStatus(
        checkpoint_id=7,
        status="COMPLETED" if completed_ms is not None else "IN_PROGRESS",
        trigger_ms=TRIGGER_MS,
        completed_ms=None if completed_ms is None else TRIGGER_MS + completed_ms,
        acknowledged=len(subtasks),
        expected=fields.pop("expected", len(subtasks)),
        subtasks=subtasks,
        **fields,
    )


def why(status: pb.CheckpointStatus, missing: list[str] | None = None, after_ms: int = 0) -> str:
    return explained(status, tracks_of(status, NAMES), missing or [], TRIGGER_MS + after_ms)


SOURCE = subtask("a", 0, 20, start_delay_ms=5, sync_ms=2, async_ms=10)


@pytest.mark.parametrize(
    ("metrics", "ack_ms", "completed_ms", "reason"),
    [
        ({"start_delay_ms": 300.0}, 310, 320, "300ms of 320ms (94 %): the barrier took so long to reach window (2)"),
        ({"alignment_ms": 300.0}, 310, 400, "300ms of 400ms (75 %): window (2) waited for the barriers of its other"),
        ({"sync_ms": 90.0}, 100, 110, "90ms of 110ms (82 %): window (2) stopped for so long to freeze its state"),
        ({"async_ms": 80.0}, 100, 110, "80ms of 110ms (73 %): window (2) wrote 2.0 KiB of state"),
        ({"async_ms": 20.0}, 100, 110, "80ms of 110ms (73 %): the acknowledgement of window (2) was on its way"),
        ({"async_ms": 20.0}, 30, 100, "70ms of 100ms (70 %): the JobManager wrote _metadata"),
    ],
)
def test_the_longest_phase_of_the_last_subtask_is_the_reason(
    metrics: dict[str, float], ack_ms: int, completed_ms: int, reason: str
) -> None:
    status = checkpoint(SOURCE, subtask("b", 1, ack_ms, **metrics), completed_ms=completed_ms)
    assert why(status).startswith(reason)


def test_one_in_progress_says_whom_it_waits_for() -> None:
    status = checkpoint(SOURCE, completed_ms=None, expected=3)
    assert why(status, ["window (1)", "window (2)"], 1500) == (
        "In progress for 1.5s: it waits for window (1), window (2)."
    )
    everybody = checkpoint(SOURCE, completed_ms=None)
    assert why(everybody, after_ms=20) == "In progress for 20ms: it waits for _metadata to be written."


def test_a_failed_one_says_why() -> None:
    status = checkpoint(SOURCE, completed_ms=None, expected=2, failure="Checkpoint expired before completing.")
    status.status = "FAILED"
    assert "It failed: Checkpoint expired before completing; no acknowledgement of window (1)." in why(
        status, ["window (1)"]
    )
    assert why(status, ["window (1)"]).endswith("no acknowledgement of window (1).")


def test_who_is_missing() -> None:
    states = [("RUNNING", 0), ("RUNNING", 1), ("FINISHED", 2)]
    vertex = pb.VertexStatus(vertex_id="a" * 32, name="source")
    vertex.subtasks.extend(pb.SubtaskStatus(index=index, state=state) for state, index in states)
    assert missing_of(checkpoint(SOURCE, completed_ms=None), [vertex]) == ["source (2)"]


def test_bars_lie_where_their_time_was() -> None:
    status = checkpoint(subtask("b", 0, 300, start_delay_ms=100, alignment_ms=100, async_ms=50), completed_ms=400)
    window, job_manager = tracks_of(status, NAMES)
    assert bar(window, 400, 16).plain == "····▒▒▒▒▓▓──"
    assert bar(job_manager, 400, 16).plain == " " * 12 + "▓▓▓▓"


def test_the_job_managers_bar_shows_trigger_metadata_and_confirm() -> None:
    times = {"sent_ms": TRIGGER_MS + 100, "sealed_ms": TRIGGER_MS + 200, "confirmed_ms": TRIGGER_MS + 400}
    status = checkpoint(subtask("b", 0, 200, async_ms=50), completed_ms=300, **times)
    _, job_manager = tracks_of(status, NAMES)
    assert bar(job_manager, 400, 16).plain == "────    ▓▓▓▓────"
    assert why(status) == "150ms of 300ms (50 %): the acknowledgement of window (1) was on its way to the JobManager."
    slow = checkpoint(subtask("b", 0, 210, start_delay_ms=200), completed_ms=220, sent_ms=TRIGGER_MS + 190)
    assert why(slow) == (
        "190ms of 220ms (86 %): the JobManager made the checkpoint's directory before it triggered the sources."
    )


def test_it_says_on_which_channel_was_waited() -> None:
    some = [
        subtask("b", i, 310, alignment_ms=wait, waited_for=f"source ({i + 1}/8)")
        for i, wait in enumerate([300.0, 0.0, 2.5, 9, 8, 7, 6, 5])
    ]
    status = checkpoint(SOURCE, *some, completed_ms=400)
    tracks = tracks_of(status, NAMES)
    lines = waits(tracks, 80)
    assert lines[0] == "window (1) waited 300ms for source (1/8)"
    assert lines[1] == "window (4) waited 9.0ms for source (4/8)"
    assert lines[-1] == "... and 2 more waits"
    assert len(lines) == 6
    assert why(status).endswith("window (1) waited for the barrier from source (1/8).")
    long = subtask("b", 0, 310, alignment_ms=300.0, waited_for=f"Source: {'x' * 90} (1/8)")
    (line,) = waits(tracks_of(checkpoint(long), NAMES), 80)
    assert len(line) <= 80
    assert line.endswith("... (1/8)")


def test_what_was_in_flight_is_told() -> None:
    status = checkpoint(subtask("b", 0, 310, async_ms=300.0, in_flight_bytes=1024), completed_ms=320)
    assert why(status).endswith("window (1) wrote 2.0 KiB of state, 1.0 KiB of it in flight.")


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_picture_has_a_line_for_each_subtask_and_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.cli.tables.PIPE_WIDTH", width)
    slow = subtask("b", 1, 300, start_delay_ms=12.5, alignment_ms=250, sync_ms=0.2, async_ms=30, unaligned=True)
    lines = list(lines_of(make_timeline(tracks_of(checkpoint(slow, SOURCE), NAMES), width)))
    assert [line.split()[0] for line in lines[2:] if line[0] != " "] == ["source", "window", "JobManager"]
    assert max(map(len, lines)) <= width
    text = " ".join(lines)
    assert "…" not in text
    assert "window (2) U" in text
    assert "U unaligned" in legend(tracks_of(checkpoint(slow), NAMES)).plain
    assert all(figure in text for figure in ("250ms", "0.2ms", "2.0 KiB", "300ms"))


def test_of_many_subtasks_the_slowest_are_drawn() -> None:
    many = [subtask("b", index, 10 + index, async_ms=float(index)) for index in range(100)]
    lines = list(lines_of(make_timeline(tracks_of(checkpoint(*many), NAMES), 120)))
    names = [line.split("  ")[0] for line in lines]
    assert "window (100)" in names
    assert "window (1)" not in names
    assert len(lines) == 2 + SUBTASKS_SHOWN


@pytest.mark.parametrize(
    ("span_ms", "text"), [(0, "0ms"), (0.25, "0.2ms"), (9.96, "10.0ms"), (12.4, "12ms"), (1500, "1.5s")]
)
def test_milliseconds(span_ms: float, text: str) -> None:
    assert milliseconds(span_ms) == text


class FakeClient:
    """One job with checkpoint 7."""

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def checkpoints(self, job_id: str, subtasks_of: int) -> pb.CheckpointList:
        assert subtasks_of in (7, 8)
        return pb.CheckpointList(checkpoints=[checkpoint(SOURCE, size_bytes=2048, snapshot_type="CHECKPOINT")])

    def status(self, job_id: str) -> pb.JobStatus:
        return pb.JobStatus(name="clicks", vertices=[pb.VertexStatus(vertex_id=i, name=n) for i, n in NAMES.items()])


def test_the_command_draws_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.cli.commands.jobs.connect", lambda *_: FakeClient())
    monkeypatch.setattr("tidegate.cli.tables.PIPE_WIDTH", 80)
    result = tidegate("checkpoints", "a" * 32, "--id", 7)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "CHECKPOINT 7 of job 'clicks': COMPLETED"
    assert lines[1].startswith("triggered ")
    assert lines[1].endswith(", 1/1 acknowledged, 2.0 KiB, took 400ms")
    assert lines[4].startswith("source (1)")
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-1] == "380ms of 400ms (95 %): the JobManager wrote _metadata after the last acknowledgement."


def test_a_checkpoint_that_is_not_in_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.cli.commands.jobs.connect", lambda *_: FakeClient())
    assert "is not in the history: ids 7 to 7 are" in refused(tidegate("checkpoints", "a" * 32, "--id", 8), 1)
