"""Shows the state in a completed checkpoint of a job on the page.

    job, checkpoint ─▶ its place, which the job's own history names ─▶ a process that reads it ─▶ operators, or rows of a state

The JobManager reads no state and unpickles nothing: each answer is made by a process of its own, with bounded memory and time, which
ends with this one (``tidegate.state_reader.browsing``). No request names a path: only checkpoints that the JobManager knows are read.
Rows are refused where the job's records must not be shown (``tidegate.failure.show-record``).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping

from tidegate.aio.parents import dying_with_this
from tidegate.jobmanager.machines.views import CheckpointView, JobView
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.http.errors import RestError, bad_request, not_found
from tidegate.model.configuration import Configuration
from tidegate.model.ids import parse_job_id
from tidegate.model.options import RuntimeOptions, ShownRecord
from tidegate.model.values import Json, JsonObject
from tidegate.store.locations import is_memory

READER = "tidegate.state_reader.browsing"
AT_ONCE = 2
"""How many answers are made at once. Chosen, not measured: each is a process with an interpreter of its own."""
WAITING = 8
"""How many requests may wait; more are refused. Chosen, not measured."""
TIMEOUT_S = 60.0
"""The time limit of an answer, in seconds. Chosen, not measured: some gigabytes of state are read for a key, and on a busy host the start
alone takes ten seconds.
"""


class StateBrowser:
    """Answers the page's requests for the state in a checkpoint, by a reader in a process of its own. At most ``AT_ONCE`` readers run at a time."""

    def __init__(self, backend: Backend, timeout_s: float = TIMEOUT_S) -> None:
        self._backend = backend
        self._timeout_s = timeout_s
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._requested = 0

    async def answer(self, query: Mapping[str, str]) -> Json:
        """Answers a request for state.

        Raises ``RestError``: 400 for a bad query, 403 when records must not be shown, 404 for an unknown checkpoint, 409 for what the reader
        cannot show, 503 when too many requests wait.
        """
        job, checkpoint = self._found(query)
        operator = query.get("operator", "")
        if operator and _shown_record(job) is not ShownRecord.VALUE:
            key = RuntimeOptions.SHOW_RECORD.key
            raise RestError(403, f"The configuration forbids showing values of this job's records ({key}).")
        request = {
            "path": checkpoint.location,
            "operator": operator,
            "state": query.get("state", ""),
            "key": query.get("key", ""),
            "first": _number(query, "from"),
        }
        if self._requested >= AT_ONCE + WAITING:
            raise RestError(503, f"{self._requested} requests for state wait already; try again later.")
        self._requested += 1
        try:
            async with self._turn:
                said = await self._read(json.dumps(request))
        finally:
            self._requested -= 1
        if "error" in said:
            raise RestError(409, str(said["error"]))
        return {"checkpoint": checkpoint.checkpoint_id, **said}

    def _found(self, query: Mapping[str, str]) -> tuple[JobView, CheckpointView]:
        try:
            job_id = parse_job_id(query.get("job", ""))
        except ValueError as error:
            raise bad_request(f"Cannot resolve query parameter (job): {error}") from None
        job, checkpoint_id = self._backend.views.job(job_id), _number(query, "checkpoint")
        if job is None:
            raise not_found(f"Job {job_id} not found")
        known = (*job.checkpoints.history, job.checkpoints.last_completed, job.checkpoints.last_savepoint)
        for view in known:
            if view is not None and view.checkpoint_id == checkpoint_id and view.status == "COMPLETED":
                break
        else:
            raise not_found(f"Job {job_id} has no completed checkpoint {checkpoint_id}.")
        if view.discarded:
            raise not_found(f"Checkpoint {checkpoint_id} was removed: newer ones have taken its place.")
        if is_memory(view.location):
            raise RestError(
                409,
                "This checkpoint is in the JobManager's memory only; set execution.checkpointing.dir to look into it.",
            )
        return job, view

    async def _read(self, request: str) -> JsonObject:
        process = await asyncio.create_subprocess_exec(
            *dying_with_this([sys.executable, "-P", "-m", READER, request]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                said, errors = await process.communicate()
        except TimeoutError:
            raise RestError(
                409, f"Reading it took longer than {self._timeout_s:.0f} s and was given up; use `tidegate state show`."
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode != 0:
            last = errors.decode(errors="replace").strip().splitlines()[-1:]
            raise RestError(500, f"The process that reads state ended with {process.returncode}: {''.join(last)}")
        found: JsonObject = json.loads(said)
        return found


def _shown_record(job: JobView) -> ShownRecord:
    return Configuration.from_strings(job.configuration).get(RuntimeOptions.SHOW_RECORD)


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise bad_request(f"Cannot resolve query parameter ({name}) from value {text!r}: expected a number.")
    return int(text)
