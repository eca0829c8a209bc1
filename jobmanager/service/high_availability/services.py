"""High availability as it is configured: who leads, and where jobs are kept.

Of several JobManagers of one cluster one leads. The others are standbys, which take over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.aio.pool import Pool
from tidegate.aio.process import Shutdown
from tidegate.coordination.drivers import make_election, storage_directory
from tidegate.coordination.filesystem import led_by
from tidegate.jobmanager.service.high_availability.election import ElectionService, Term
from tidegate.jobmanager.service.high_availability.job_store import JobStore
from tidegate.jobmanager.service.high_availability.kept_jobs import Jobs, KeptJobs, NoJobStore
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.model.fencing import UNORDERED, make_generation
from tidegate.model.ids import Generation
from tidegate.model.leadership import Contact
from tidegate.model.options import HighAvailabilityOptions, HighAvailabilityType

STORE_THREADS = 4  # chosen, not measured: they wait for the store

_log = logging.getLogger("jobmanager")


@dataclass(frozen=True, slots=True)
class HighAvailability:
    """One term of a leader. ``store`` is ``None`` when jobs end with their JobManager."""

    type: HighAvailabilityType
    generation: Generation
    term: Term
    jobs: Jobs
    store: JobStore | None
    release: Callable[[], Awaitable[None]]
    publish: Callable[[Contact], Awaitable[None]]
    """Tells TaskManagers and clients where the leader is."""
    blobs: Path | None = field(default=None)
    """Where programs of jobs are kept."""

    @property
    def process(self) -> str:
        """Names this one to people."""
        return _process()

    @property
    def told(self) -> str:
        """For the log."""
        return f"kept in {self.store.directory}" if self.store is not None else "end with this process"


class StandbyEnded(Exception):
    """The process was asked to end before it led (again)."""


def without_high_availability() -> HighAvailability:
    """Jobs end with this process, which leads alone."""

    async def nothing() -> None: ...

    async def publish(contact: Contact) -> None:
        del contact

    generation = make_generation(UNORDERED, secrets.token_hex(12))
    return HighAvailability(
        HighAvailabilityType.NONE, generation, Term(UNORDERED), NoJobStore(), None, nothing, publish
    )


async def open_high_availability(configuration: Configuration, shutdown: Shutdown) -> HighAvailability:
    """Take the lead, as soon as it is this process's turn. Raises ``ConfigurationError``, ``ExternalError`` when the store cannot be used,
    or ``StandbyEnded``."""
    kind = configuration.get(HighAvailabilityOptions.TYPE)
    if kind is HighAvailabilityType.NONE:
        return without_high_availability()
    directory = storage_directory(configuration)
    service = ElectionService(make_election(configuration))
    pool = Pool(STORE_THREADS, "job-store")

    async def release() -> None:
        await service.resign()
        pool.close()

    try:
        _check_writable(Path(directory))
        await asyncio.to_thread(service.seek, Contact(_process()))
        term = await service.wait_to_lead(shutdown, lambda: _tell_standby(kind, directory))
        if term is None:
            raise StandbyEnded
    except BaseException:
        await release()
        raise
    store = JobStore(directory, service.election.entries(term.number))
    jobs = KeptJobs(store, pool, lambda reason: service.refused(term.number, reason))
    term.followers.append(jobs)

    async def publish(contact: Contact) -> None:
        await pool.submit(lambda: service.election.publish(term.number, contact))

    generation = make_generation(term.number, secrets.token_hex(8))
    return HighAvailability(kind, generation, term, jobs, store, release, publish, Path(directory) / "blobs")


def _check_writable(directory: Path) -> None:
    """Raises ``ExternalError``."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f".writable-{os.getpid()}").write_bytes(b"?")
        (directory / f".writable-{os.getpid()}").unlink()
    except OSError as error:
        raise ExternalError(
            f"cannot keep jobs in {directory}: {error.strerror}; set high-availability.storageDir to a directory that can be written"
        ) from None


def _process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _tell_standby(kind: HighAvailabilityType, directory: str) -> None:
    led = led_by(Path(directory)) if kind is HighAvailabilityType.FILESYSTEM else "another JobManager leads the cluster"
    _log.info("standby: %s; this one takes over when that ends", led)
