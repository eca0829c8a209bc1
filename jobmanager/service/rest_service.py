"""Builds the REST endpoint with the services that it needs: TaskManagers, uploaded programs, disposal, shutdown.

It listens after the jobs of an earlier JobManager are recovered: before that a list would lack them.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc.aio

from tidegate.aio.admission import Admission, checks_of
from tidegate.aio.pool import Pool
from tidegate.aio.process import Services, Shutdown
from tidegate.aio.transport import Transport
from tidegate.jobmanager.programs.runs import ProgramRuns
from tidegate.jobmanager.rest.backend_services import BackendServices
from tidegate.jobmanager.rest.history import History
from tidegate.jobmanager.service.core import JobManagerCore
from tidegate.jobmanager.service.fault_injector import FaultInjector, send_fault
from tidegate.jobmanager.service.high_availability.job_store import JobStore
from tidegate.jobmanager.service.rest_endpoint import RestEndpoint
from tidegate.jobmanager.service.rpc.snapshot_servicer import Disposal
from tidegate.jobmanager.service.storage.archiving import Archiving
from tidegate.jobmanager.service.storage.faulty_storage import FaultyStorage
from tidegate.jobmanager.service.task_managers.inspection import Inspector
from tidegate.jobmanager.web.findings import JobFinding
from tidegate.model.configuration import Configuration
from tidegate.model.ids import JobId
from tidegate.model.options import HistoryOptions, JobManagerOptions, RestOptions
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.job_archives import JobArchives

PROGRAM_THREADS = 2
"""Threads for work on program files: as many as may run at once (`runs.AT_ONCE`)."""
RETAINED_JOBS = 100
"""How many ended jobs are archived in the job store's directory when no archive directory is set.

Chosen, not measured. An archive is some hundred kilobytes.
"""
_ARCHIVE = "archive"
_ANY_INTERFACE = ("0.0.0.0", "::")  # noqa: S104  (to be recognised)


@dataclass(frozen=True, slots=True)
class RestResources:
    """What the REST endpoint is built from. ``working``: the process's own directory.

    With a job store, ended jobs are archived in its directory, unless another directory is set.
    """

    disposal: Disposal
    working: Path
    shutdown: Shutdown
    job_store: JobStore | None
    storage: CheckpointStorage


@dataclass(frozen=True, slots=True)
class RestService:
    """The REST endpoint before and after it listens. ``secured``: the transport and interceptors of the gRPC server of this process."""

    history: History | None
    secured: tuple[Transport, tuple[grpc.aio.ServerInterceptor, ...]]
    _endpoint: RestEndpoint
    _programs: ProgramRuns | None
    _host: str

    def findings_of(self, job_id: JobId) -> Sequence[JobFinding]:
        """Returns what is wrong with how a running job works; of one that is unknown or over, nothing."""
        return self._endpoint.pages.plots.findings_of(job_id)

    async def listen(self, configuration: Configuration, services: Services) -> int:
        """Starts to listen; returns the port. Raises ``ExternalError`` when it cannot bind the port."""
        port = await self._endpoint.start(
            configuration.get(RestOptions.BIND_ADDRESS), configuration.get(RestOptions.PORT)
        )
        services.started(f"REST endpoint: port {port}", self._endpoint.stop)
        return port

    def clients_may_dial(self, rpc_port: int) -> None:
        """Sets the gRPC port to which uploaded programs submit their jobs."""
        if self._programs is not None:
            self._programs.address = f"{self._host}:{rpc_port}"


async def make_rest(
    configuration: Configuration,
    core: JobManagerCore,
    around: RestResources,
    services: Services,
) -> RestService:
    """Builds the REST endpoint, which does not listen yet. Raises ``StorageError`` when the directory of uploads cannot be used."""
    option = configuration.get
    pool = Pool(PROGRAM_THREADS, "programs")
    admission = Admission.of(configuration, secrets.token_hex(16))
    programs = ProgramRuns.of(configuration, pool, around.working)
    if programs is not None:
        programs.token = "" if admission is None else admission.own_token
        services.started(f"uploaded programs: {programs.files.directory}", programs.close)
    services.started("pool of programs: up", pool.close)
    directory, retained = option(HistoryOptions.ARCHIVE_DIR), None
    if directory is None and around.job_store is not None:
        directory, retained = f"{around.job_store.directory}/{_ARCHIVE}", RETAINED_JOBS
    archives = JobArchives(directory) if directory is not None else None
    history = History([archives], pool) if archives is not None else None
    storage = around.storage
    faults = (
        FaultInjector(core.machine, storage, partial(send_fault, core.transport))
        if isinstance(storage, FaultyStorage)
        else None
    )
    inspector = Inspector(core.transport)
    outside = BackendServices(
        around.shutdown.ask, around.disposal.dispose, inspector, programs, history, faults, admission
    )
    endpoint = RestEndpoint(core, outside)
    core.on_changed = endpoint.drop
    core.on_deposed = endpoint.pages.live.close
    if archives is not None and history is not None:
        archiving = Archiving(archives, pool, endpoint.answers_to_archive, partial(history.refresh, retained))
        core.on_terminated = archiving.job_terminated
        services.started(f"archive of jobs: {archives.directory}", archiving.settled)
        await history.refresh(retained)
    bound = option(JobManagerOptions.BIND_HOST)
    secured = core.transport, checks_of(admission, core.transport)
    return RestService(history, secured, endpoint, programs, "localhost" if bound in _ANY_INTERFACE else bound)
