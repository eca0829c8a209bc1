"""Starts the services of a JobManager process, in this order:

blob store -> storage pool -> dispatcher, slot manager, job masters (one machine) -> recovered jobs -> REST endpoint -> gRPC service
"""

from __future__ import annotations

from typing import NamedTuple

import grpc.aio

from tidegate.aio.listening import advertised_port
from tidegate.aio.pool import Pool
from tidegate.aio.process import Services, Shutdown
from tidegate.aio.rpc import start_server
from tidegate.aio.working_directories import make_working_directory
from tidegate.jobmanager.service.clients.submission import Submission
from tidegate.jobmanager.service.core import JobManagerCore
from tidegate.jobmanager.service.high_availability.election import Term
from tidegate.jobmanager.service.high_availability.services import open_high_availability
from tidegate.jobmanager.service.job_recovery import recover_jobs
from tidegate.jobmanager.service.reporting.reporters import start_reporters
from tidegate.jobmanager.service.reporting.startup_log import announced_signing
from tidegate.jobmanager.service.rest_service import RestResources, make_rest
from tidegate.jobmanager.service.rpc.client_servicer import ClientServicer
from tidegate.jobmanager.service.rpc.request_limits import request_limits
from tidegate.jobmanager.service.rpc.task_manager_servicer import TaskManagerServicer
from tidegate.jobmanager.service.storage.faulty_storage import make_storage
from tidegate.jobmanager.service.workers.launcher import make_launcher, with_process_limit
from tidegate.model.configuration import Configuration
from tidegate.model.leadership import Contact
from tidegate.model.options import ClusterOptions, JobManagerOptions, RestOptions
from tidegate.pb.jobmanager_pb2_grpc import (
    add_JobManagerClientServiceServicer_to_server,
    add_JobManagerServiceServicer_to_server,
)

WORKERS_END_MS = 15_000  # above the time after which a TaskManager that does not end is killed
STORAGE_THREADS = 4  # chosen, not measured: calls of the storage wait for disks, not for processors


class Listening(NamedTuple):
    """The ports of a started JobManager and the term in which it leads."""

    rpc_port: int
    rest_port: int
    term: Term


async def start_services(configuration: Configuration, services: Services, shutdown: Shutdown) -> Listening:
    """Starts all services. What was started is in ``services``, also when this raises ``TidegateError`` or ``StandbyEnded``."""
    configuration = with_process_limit(configuration)
    working = make_working_directory("jm", configuration)
    services.started(f"working directory: {working.directory}", working.remove)
    availability = await open_high_availability(configuration, shutdown)
    services.started(f"leader in term {availability.term.number}", availability.release)
    blobs = availability.open_blobs(configuration, working.directory)
    services.started(f"blob store: {blobs.directory}", blobs.close)
    threads = configuration.get(ClusterOptions.IO_POOL_SIZE) or STORAGE_THREADS
    pool, storage = Pool(threads, "storage"), make_storage(configuration)
    services.started("checkpoint storage: up", pool.close)
    core = JobManagerCore(configuration, availability, blobs, storage, pool, lambda _: shutdown.ask("fatal error", 1))
    services.started(f"dispatcher and slot manager: up in generation {core.generation}", core.close)
    availability.term.followers.append(core)
    workers = make_launcher(configuration, working.directory, core.post, core.transport)
    if workers is not None:
        core.on_worker = workers.execute
        services.started("TaskManagers: started when jobs need slots", workers.close, WORKERS_END_MS)
        await workers.open()
    signing = announced_signing(configuration)
    submission = Submission(configuration, blobs, storage, pool, core.is_known, core.configuration_of, signing)
    clients = ClientServicer(core, submission, blobs, storage, pool, shutdown, availability)
    resources = RestResources(clients.disposal, working.directory, shutdown, availability.store, storage)
    rest = await make_rest(configuration, core, resources, services)
    clients.history, clients.findings_of = rest.history, rest.findings_of
    await recover_jobs(availability, submission, core, blobs, storage, pool)
    clients.rest_port = rest_port = await rest.listen(configuration, services)

    def register(server: grpc.aio.Server) -> None:
        add_JobManagerClientServiceServicer_to_server(clients, server)
        add_JobManagerServiceServicer_to_server(TaskManagerServicer(core, blobs), server)

    own = configuration.get(JobManagerOptions.RPC_BIND_PORT)
    port = configuration.get(JobManagerOptions.RPC_PORT) if own is None else own
    port_option = (JobManagerOptions.RPC_PORT if own is None else JobManagerOptions.RPC_BIND_PORT).key
    bind_host, limits = configuration.get(JobManagerOptions.BIND_HOST), request_limits(configuration)
    server, bound = await start_server(
        bind_host, port, register, "JobManager", core.refusal, limits, *rest.secured, option=port_option
    )
    services.started(f"JobManager: gRPC port {bound}", lambda: server.stop(0.5))
    rest.clients_may_dial(bound)
    if workers is not None:
        workers.listens(f"{configuration.get(JobManagerOptions.RPC_ADDRESS)}:{bound}")
    await start_reporters(configuration, core, services)
    host = configuration.get(JobManagerOptions.RPC_ADDRESS)
    rest_host = configuration.get(RestOptions.ADDRESS) or host
    place = f"{host}:{advertised_port(configuration, bound)}"
    await availability.publish(Contact(availability.process, place, f"{rest_host}:{rest_port}"))
    services.started(f"jobs: {availability.description}", core.suspend)
    return Listening(bound, rest_port, availability.term)
