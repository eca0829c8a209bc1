"""The JobManager with doors at the points of a failover where a mistake would lose or repeat something. A test holds one of them shut.

    python held_jobmanager.py jobmanager ...         the CLI's own command, with what is held wrapped

``$E2E_HOLD`` is a directory. While it holds a file with the name of a door, the next one who comes there stops, says so by ``held-<door>``, and goes
on when that file is gone. What the file holds must be part of what the call is about (a location, say): ``savepoint`` holds no checkpoint.

    before-plan │ after-plan                 a job is kept: before, and before its client is answered
    after-attempt                            the numbers of attempts are noted, and nothing of them is deployed
    between-deployments                      of the subtasks of a job some are deployed
    before-metadata                          all have acknowledged
    before-pointer │ after-pointer           the commit of a checkpoint; after it no confirm has left
    between-confirms                         of two TaskManagers one has been told
    before-result                            a job has ended, which nobody knows but this JobManager
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from tidegate.cli.main import main
from tidegate.jobmanager.machines.commands import ConfirmCheckpoint, SubmitTask
from tidegate.jobmanager.service.high_availability.job_store import JobStore
from tidegate.jobmanager.service.task_managers import outbox
from tidegate.jobmanager.service.task_managers.calls import send
from tidegate.store.checkpoints import CheckpointStorage


def hold(door: str, about: str = "") -> None:
    doors = Path(os.environ["E2E_HOLD"])
    try:
        asked = (doors / door).read_text()
    except FileNotFoundError:
        return
    if asked not in about:
        return
    (doors / f"held-{door}").touch()
    while (doors / door).exists():
        threading.Event().wait(0.01)


def held(function: Callable[..., Any], *, before: str = "", after: str = "") -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        about = " ".join(one for one in arguments if isinstance(one, str))
        if before:
            hold(before, about)
        answer = function(*arguments)
        if after:
            hold(after, about)
        return answer

    return call


async def _held_send(stub: Any, generation: str, call: Any, timeout_ms: int) -> Any:
    """The loop of the whole process stands still at its door, as that of a stopped one does."""
    answer = await send(stub, generation, call, timeout_ms)
    if isinstance(call, SubmitTask):
        hold("between-deployments")
    if isinstance(call, ConfirmCheckpoint):
        hold("between-confirms")
    return answer


if __name__ == "__main__":
    with (
        mock.patch.object(JobStore, "add", held(JobStore.add, before="before-plan", after="after-plan")),
        mock.patch.object(JobStore, "note_attempts", held(JobStore.note_attempts, after="after-attempt")),
        mock.patch.object(JobStore, "end", held(JobStore.end, before="before-result")),
        mock.patch.object(JobStore, "point", held(JobStore.point, before="before-pointer", after="after-pointer")),
        mock.patch.object(
            CheckpointStorage,
            "write_manifest",
            held(CheckpointStorage.write_manifest, before="before-metadata"),
        ),
        mock.patch.object(outbox, "send", _held_send),
    ):
        sys.exit(main())
