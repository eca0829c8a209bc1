"""Ended jobs read from their archives: those of earlier JobManagers or, for a history server, of any.

directory of archives ─refresh─▶ index: one item of /jobs/overview for each job        kept
                                 answers of a job, read when it is asked for            the last few kept
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from tidegate.jobmanager.programs.runs import Disk
from tidegate.model.errors import TidegateError
from tidegate.model.ids import JobId
from tidegate.model.values import JsonObject
from tidegate.store.job_archives import JobArchives

KEPT_JOBS = 16
"""How many archives are kept in memory: what a few open pages show."""
OVERVIEW, APPLICATIONS = "/jobs/overview", "/applications/overview"
PAGE_ITEMS = "/web/jobs"
"""The path in the archive of a job's entry in the page's own list."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class History:
    """The jobs in some directories of archives; without any directory there are none."""

    def __init__(self, archives: Sequence[JobArchives], disk: Disk) -> None:
        self._archives = archives
        self._disk = disk
        self._where: dict[JobId, JobArchives] = {}
        self._items: dict[str, dict[JobId, JsonObject]] = {OVERVIEW: {}, APPLICATIONS: {}, PAGE_ITEMS: {}}
        self._answers: OrderedDict[JobId, dict[str, str]] = OrderedDict()

    def knows(self, job_id: JobId) -> bool:
        return job_id in self._where

    def items(self, path: str, except_for: Iterable[JobId] = ()) -> list[JsonObject]:
        """Returns the entries of archived jobs for one list, the job that ended last first. ``path``: ``OVERVIEW``, ``APPLICATIONS``, or ``PAGE_ITEMS`` (the
        list on the web page). ``except_for``: jobs to leave out.
        """
        left_out = frozenset(except_for)
        known = sorted(self._items[path].keys() - left_out, key=lambda job_id: (-self._end_ms(job_id), job_id))
        return [self._items[path][job_id] for job_id in known]

    async def answer(self, job_id: JobId, path: str) -> bytes | None:
        """Returns what the job's REST answered at this path, or ``None``. Raises ``TidegateError`` when the archive
        cannot be read.
        """
        archive = self._where.get(job_id)
        if archive is None:
            return None
        answers = self._answers.get(job_id)
        if answers is None:
            answers = self._answers[job_id] = await self._disk.submit(partial(archive.read, job_id))
            while len(self._answers) > KEPT_JOBS:
                self._answers.popitem(last=False)
        self._answers.move_to_end(job_id)
        text = answers.get(path)
        return None if text is None else text.encode()

    async def refresh(self, retained: int | None = None) -> None:
        """Looks for new and removed archives. ``retained``: how many one directory may hold; the oldest are deleted.

        Unreadable archives are logged and left out.
        """
        for archive in self._archives:
            try:
                await self._refresh(archive, retained)
            except TidegateError as error:
                _log.warning("could not look for archives of jobs (this is tried again): %s", error.message)

    async def _refresh(self, archive: JobArchives, retained: int | None) -> None:
        there = set(await self._disk.submit(archive.job_ids))
        for job_id in [known for known, place in self._where.items() if place is archive and known not in there]:
            self._forget(job_id)
        for job_id in sorted(there - self._where.keys()):
            try:
                answers = await self._disk.submit(partial(archive.read, job_id))
                self._learn(job_id, archive, answers)
            except (TidegateError, ValueError, LookupError, TypeError) as error:
                _log.warning("the archive of job %s cannot be read and is ignored: %s", job_id, error)
        if retained is not None:
            ended = sorted((j for j, place in self._where.items() if place is archive), key=self._end_ms, reverse=True)
            for job_id in ended[retained:]:
                await self._disk.submit(partial(archive.delete, job_id))
                self._forget(job_id)

    def _learn(self, job_id: JobId, archive: JobArchives, answers: dict[str, str]) -> None:
        [job] = json.loads(answers[OVERVIEW])["jobs"]
        applications: list[JsonObject] = json.loads(answers.get(APPLICATIONS, '{"applications": []}'))["applications"]
        page_items: list[JsonObject] = json.loads(answers.get(PAGE_ITEMS, '{"jobs": []}'))["jobs"]
        int(job["end-time"])
        self._items[OVERVIEW][job_id] = job
        if applications:
            self._items[APPLICATIONS][job_id] = applications[0]
        if page_items:
            self._items[PAGE_ITEMS][job_id] = page_items[0]
        self._where[job_id] = archive

    def _forget(self, job_id: JobId) -> None:
        del self._where[job_id]
        self._answers.pop(job_id, None)
        for items in self._items.values():
            items.pop(job_id, None)

    def _end_ms(self, job_id: JobId) -> int:
        return int(self._items[OVERVIEW][job_id]["end-time"])
