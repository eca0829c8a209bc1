"""The interface by which a TaskManager starts and ends the processes of attempts."""

from __future__ import annotations

from typing import Protocol

from tidegate.model.ids import AllocationId, AttemptId
from tidegate.taskmanager.machines import task_events as tv
from tidegate.taskmanager.spark.deploy import OnEnd


class Deployer(Protocol):
    """Runs attempts as Spark jobs (``tidegate.taskmanager.service.subtasks.processes``)."""

    def start(self, task: tv.SubmittedTask, token: str, on_end: OnEnd) -> None: ...

    def kill(self, attempt: AttemptId, pid: int, host: str) -> None: ...

    def exit_status(self, pid: int, *, is_lost: bool) -> int | None:
        """Returns how a process of this machine ended, if it did not end by itself, once for each; otherwise ``None``.

        ``is_lost``: its Spark job has failed, so that it is waited for until its end is noted.
        """

    def remove(self, attempt: AttemptId) -> None:
        """Removes the files of an attempt whose process is gone."""

    def release(self, allocation_id: AllocationId) -> None:
        """Removes what was kept for the next attempts in a slot that is free."""
