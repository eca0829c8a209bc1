"""The real data plane on a disk that is full for a while: subtasks decline, leave nothing half written, and go on exactly."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.taskmanager.runtime.test_data_plane import as_counter, directory, expected_windows, windows
from tidegate.model.checkpoint import DeclineReason
from tidegate.model.states import ExecutionState
from tidegate.store.files import LocalCalls, Part

__all__ = ["directory"]

TOTAL = 40_000


class Disk:
    """Every write of a state file goes through it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reason = 0
        self.met = threading.Event()

        def write(calls: LocalCalls, descriptor: int, data: Part) -> int:
            if self.reason:
                self.met.set()
                raise OSError(self.reason, os.strerror(self.reason))
            return os.write(descriptor, data)

        monkeypatch.setattr(LocalCalls, "write", write)


def job_with_files(world: str, directory: Path) -> InProcessJob:
    built = windows(world, TOTAL, rate=20_000.0)
    configuration = {**built.graph.configuration, "execution.checkpointing.data-inline-threshold": "0"}
    return InProcessJob(replace(built, graph=replace(built.graph, configuration=configuration)), directory)


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get)
def test_subtasks_decline_while_the_disk_takes_nothing_and_the_next_checkpoint_is_whole(
    directory: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    disk = Disk(monkeypatch)
    job = job_with_files(f"full-{reason}", directory)
    job.start()
    whole = job.checkpoint()
    assert any(Path(whole.location).iterdir()), "state is in files"
    disk.reason = reason
    number = job.trigger()
    job.until(lambda: len(job.acks[number]) + len(job.declined) >= len(job.tasks), "everybody has answered")
    assert disk.met.is_set()
    assert {why for _, _, why in job.declined} == {DeclineReason.ASYNC_EXCEPTION}
    assert {n for _, n, _ in job.declined} == {number}
    assert job.states == {ExecutionState.RUNNING}
    remains = [path.name for path in Path(job._location(number)).iterdir()]
    assert remains == [], "nothing half written is left"
    disk.reason = 0
    job.abort(number)
    job.declined.clear()
    job.checkpoint()
    job.finish()
    assert as_counter(f"full-{reason}") == expected_windows(TOTAL)
