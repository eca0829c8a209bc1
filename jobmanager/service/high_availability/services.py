"""Opens high availability as configured: the leader election and the job store.

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
from functools import partial
from pathlib import Path

from tidegate.aio.pool import Pool
from tidegate.aio.process import Shutdown
from tidegate.high_availability.drivers import make_election, make_retrieval, storage_directory
from tidegate.high_availability.filesystem import led_by
from tidegate.jobmanager.programs.blobs import BlobStore
from tidegate.jobmanager.programs.kept_blobs import KeptBlobs
from tidegate.jobmanager.service.high_availability.election import ElectionService, Term
from tidegate.jobmanager.service.high_availability.job_store import JobStore
from tidegate.jobmanager.service.high_availability.kept_jobs import Jobs, KeptJobs, NoJobStore
from tidegate.jobmanager.service.high_availability.leader_lookup import LeaderLookup
from tidegate.jobmanager.service.high_availability.standby import Standby
from tidegate.jobmanager.service.high_availability.store_check import check_store
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.model.fencing import UNORDERED, make_generation
from tidegate.model.ids import Generation
from tidegate.model.leadership import Contact
from tidegate.model.options import (
    FileOptions,
    HighAvailabilityOptions,
    HighAvailabilityType,
    JobManagerOptions,
    RestOptions,
)
from tidegate.store.locations import is_local

STORE_THREADS = 4  # chosen, not measured: they wait for the store

_log = logging.getLogger("jobmanager")


@dataclass(frozen=True, slots=True)
class HighAvailability:
    """The high-availability services of one term of a leader: job store, election and histories. ``store`` is ``None`` when jobs end with their JobManager."""

    type: HighAvailabilityType
    generation: Generation
    term: Term
    jobs: Jobs
    store: JobStore | None
    release: Callable[[], Awaitable[None]]
    publish: Callable[[Contact], Awaitable[None]]
    """Publishes the leader's addresses to TaskManagers and clients."""
    lookup: LeaderLookup | None = None
    """Finds the standbys; ``None`` when there are none."""
    blobs: Path | None = field(default=None)
    """The directory in which programs of jobs are stored, if it is a local one."""
    kept_blobs: KeptBlobs | None = field(default=None)
    """The object store in which programs of jobs are stored, if it is one."""

    def open_blobs(self, configuration: Configuration, working: Path) -> BlobStore:
        """Opens the store for programs of jobs; it is in ``working`` when jobs end with their JobManager. Raises ``ExternalError``."""
        directory, most_bytes = (
            configuration.get(FileOptions.BLOB_DIRECTORY),
            configuration.get(FileOptions.BLOB_MAX_SIZE),
        )
        return BlobStore(directory, working, self.blobs, self.kept_blobs, self.term.number, most_bytes)

    @property
    def process(self) -> str:
        """Returns the name of this process for humans."""
        return _process()

    @property
    def description(self) -> str:
        """Describes for the log where jobs are stored."""
        return f"kept in {self.store.directory}" if self.store is not None else "end with this process"


class StandbyEnded(Exception):
    """Raised when the process is to end before it leads (again)."""


def without_high_availability() -> HighAvailability:
    """Returns the services of a JobManager that leads alone and whose jobs end with it."""

    async def nothing() -> None: ...

    async def publish(contact: Contact) -> None:
        del contact

    generation = make_generation(UNORDERED, secrets.token_hex(12))
    return HighAvailability(
        HighAvailabilityType.NONE, generation, Term(UNORDERED), NoJobStore(), None, nothing, publish
    )


async def open_high_availability(configuration: Configuration, shutdown: Shutdown) -> HighAvailability:
    """Waits until this process leads; returns the services of its term.

    Raises ``ConfigurationError``, ``ExternalError`` when the store cannot be used, or ``StandbyEnded``.
    """
    kind = configuration.get(HighAvailabilityOptions.TYPE)
    if kind is HighAvailabilityType.NONE:
        return without_high_availability()
    directory = storage_directory(configuration)
    service = ElectionService(make_election(configuration))
    pool = Pool(STORE_THREADS, "job-store")
    lookup = LeaderLookup(make_retrieval(configuration))

    async def release() -> None:
        await service.resign()
        await lookup.close()
        pool.close()

    try:
        if is_local(directory):
            _check_writable(Path(directory))
        await asyncio.to_thread(service.seek, _contact_of_a_standby(configuration))
        term = await _wait_to_lead(service, configuration, shutdown)
        if term is None:
            raise StandbyEnded
        entries = service.election.entries(term.number)
        elsewhere = kind is HighAvailabilityType.ZOOKEEPER
        check = partial(check_store, entries, directory, has_files_elsewhere=elsewhere)
        await term.answered(lambda: pool.submit(check))
    except BaseException:
        await release()
        raise
    store = JobStore(directory, entries)
    jobs = KeptJobs(store, pool, lambda reason: service.refused(term.number, reason))
    term.followers.append(jobs)

    async def publish(contact: Contact) -> None:
        await term.answered(lambda: pool.submit(lambda: service.election.publish(term.number, contact)))

    generation = make_generation(term.number, secrets.token_hex(8))
    blobs = f"{directory}/blobs"
    kept = (Path(blobs), None) if is_local(directory) else (None, KeptBlobs(blobs, term.number))
    return HighAvailability(kind, generation, term, jobs, store, release, publish, lookup, *kept)


async def _wait_to_lead(service: ElectionService, configuration: Configuration, shutdown: Shutdown) -> Term | None:
    """Waits for the next term while a ``Standby`` redirects clients to the leader. Its ports are free again when this returns."""
    standby = Standby(configuration, make_retrieval(configuration))
    starting: list[asyncio.Task[None]] = []

    def on_standby() -> None:
        _tell_standby(configuration)
        starting.append(asyncio.create_task(standby.start()))

    try:
        return await service.wait_to_lead(shutdown, on_standby)
    finally:
        await asyncio.gather(*starting)
        await standby.stop()


def _contact_of_a_standby(configuration: Configuration) -> Contact:
    """Returns the addresses of this process as far as they are configured: ports chosen by the system are known only later."""
    option = configuration.get
    host, port, rest = (
        option(JobManagerOptions.RPC_ADDRESS),
        option(JobManagerOptions.RPC_PORT),
        option(RestOptions.PORT),
    )
    rest_host = option(RestOptions.ADDRESS) or host
    return Contact(_process(), f"{host}:{port}" if port else "", f"{rest_host}:{rest}" if rest else "")


def _check_writable(directory: Path) -> None:
    """Raises ``ExternalError`` when the directory cannot be written."""
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


def _tell_standby(configuration: Configuration) -> None:
    on_disk = configuration.get(HighAvailabilityOptions.TYPE) is HighAvailabilityType.FILESYSTEM
    led = led_by(Path(storage_directory(configuration))) if on_disk else "another JobManager leads the cluster"
    _log.info("standby: %s; this one takes over when that ends", led)
