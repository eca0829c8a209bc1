"""Checks a submission before its job exists: versions, id, blobs, configuration, checkpoint directory, restore path.

A refused job gets an error of one line, and nothing of it is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from tidegate.aio.pool import Pool
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import kept_manifest
from tidegate.jobmanager.machines.events import FoundCheckpoint, JobSubmitted, RestoreFrom
from tidegate.jobmanager.machines.settings import job_settings
from tidegate.jobmanager.programs.blobs import BlobStore
from tidegate.jobmanager.service.storage.checkpoint_files import JobDirectories
from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.configuration import Configuration
from tidegate.model.errors import DuplicateJob, InvalidJob, TidegateError, VersionMismatch
from tidegate.model.graph import JobGraph
from tidegate.model.handles.inline_state import drop_inline_state
from tidegate.model.ids import JobId, parse_job_id
from tidegate.model.job_configuration import drop_of_processes, hidden_keys, may_travel
from tidegate.model.masking import SECRETS
from tidegate.model.options import CheckpointingOptions, ClaimMode, ExecutionOptions, StateRecoveryOptions
from tidegate.model.options.job import RuntimeMode
from tidegate.model.restore_check import check_restore
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.security.signing import SigningNow
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.wire.convert import graph_from_pb
from tidegate.wire.versions import JOB_FORMAT, PYTHON_VERSION, VERSION

_log = logging.getLogger(__name__)

ReadCheckpoint = Callable[[str], tuple[str, CheckpointManifest]]


class Submission:
    """Checks submissions; holds no job."""

    def __init__(
        self,
        cluster: Configuration,
        blobs: BlobStore,
        storage: CheckpointStorage,
        pool: Pool,
        is_known: Callable[[JobId], bool],
        configuration_of: Callable[[JobId], Mapping[str, str] | None],
        signing: SigningNow | None = None,
    ) -> None:
        """Creates the checks of a cluster.

        ``configuration_of``: returns the submitted configuration of a known job. ``signing``: checks signatures; a program without a valid
        one is refused.
        """
        self._cluster = cluster
        self._cluster_of_jobs = cluster.only(may_travel)
        self._blobs = blobs
        self._storage = storage
        self._pool = pool
        self._is_known = is_known
        self._configuration_of = configuration_of
        self._signing = signing

    async def check(self, request: pb.SubmitJobRequest) -> tuple[JobSubmitted, JobDirectories]:
        """Checks a new submission; returns its event and directories. Raises the ``TidegateError`` that refuses it.

        Options that a job may not set are removed from the request, and secrets that ``GetJobGraph`` hid are filled in, before it is
        stored.
        """
        _check_versions(request)
        self._fill_in(request)
        graph, configuration, directories = self._read(request)
        await self._check_directories(directories)
        if directories.checkpoints is not None and configuration.get(CheckpointingOptions.INTERVAL) is not None:
            await self._pool.submit(partial(self._storage.check_writable, directories.checkpoints))
        mode = configuration.get(StateRecoveryOptions.CLAIM_MODE)
        restore = await self._read_restore(request, mode, self._storage.read_checkpoint_of_client)
        if restore is not None:
            kept = kept_manifest(restore.manifest, job_settings(configuration.to_strings()).checkpoints)
            check_restore(graph, kept, allow_non_restored=restore.allow_non_restored_state)
        if self._is_known(graph.job_id):  # again: the checks above took time
            raise _duplicate(graph)
        self._blobs.retain(graph)
        return JobSubmitted(graph, configuration.to_strings(), restore), directories

    async def check_again(
        self,
        request: pb.SubmitJobRequest,
        find: Callable[[JobId, JobDirectories], tuple[FoundCheckpoint, ...]],
    ) -> tuple[JobSubmitted, JobDirectories, tuple[FoundCheckpoint, ...]]:
        """Checks a stored submission of an earlier JobManager; returns it with the checkpoints found in storage.

        ``find`` runs in a thread. What the job was restored from at first may be missing when it has checkpoints of its own. Raises the
        ``TidegateError`` that keeps it from going on.
        """
        _check_format(request)
        graph, configuration, directories = self._read(request)
        found = await self._pool.submit(partial(find, graph.job_id, directories))
        try:
            mode = configuration.get(StateRecoveryOptions.CLAIM_MODE)
            restore = await self._read_restore(request, mode, self._storage.read_checkpoint)
        except TidegateError:
            if all(checkpoint.manifest is None for checkpoint in found):
                raise
            restore = None
        await self._blobs.fetch(graph)
        self._blobs.retain(graph)
        return JobSubmitted(graph, configuration.to_strings(), restore), directories, found

    def _read(self, request: pb.SubmitJobRequest) -> tuple[JobGraph, Configuration, JobDirectories]:
        _check_python(request)
        SECRETS.learn(request.graph.configuration)
        left_out = drop_of_processes(request.graph.configuration)
        if left_out:
            _log.info(
                "job %r sets options that only processes of the cluster read, so they are ignored: %s",
                request.graph.name,
                ", ".join(left_out),
            )
        graph = graph_from_pb(request.graph)
        self._check_graph(graph)
        if self._signing is not None:
            self._signing().check_graph(graph)
        own = Configuration.from_strings(graph.configuration, f"job {graph.name!r}")
        configuration = _as_its_mode_wants(self._cluster_of_jobs.merged(own))
        return graph, configuration, JobDirectories.of(configuration)

    def _fill_in(self, request: pb.SubmitJobRequest) -> None:
        """Fills in the secrets that ``GetJobGraph`` hid. Raises ``InvalidJob`` when the job that has them is unknown or lacks one."""
        texts = request.graph.configuration
        known = (self._configuration_of(JobId(request.hidden_in)) or {}) if request.hidden_in else {}
        for key in hidden_keys(texts):
            if key not in known:
                of = (
                    f"and job {request.hidden_in} on this cluster has none"
                    if request.hidden_in
                    else "as in the output that it comes from"
                )
                raise InvalidJob(
                    f"job {request.graph.name!r}: the value of {key} is hidden, {of}; submit it with its value"
                )
            texts[key] = known[key]
        request.ClearField("hidden_in")

    def _check_graph(self, graph: JobGraph) -> None:
        try:
            parse_job_id(graph.job_id)
        except ValueError as error:
            raise InvalidJob(str(error)) from None
        if not graph.vertices:
            raise InvalidJob(f"job {graph.name!r} has no operators; add a source and a sink")
        ids = {vertex.vertex_id for vertex in graph.vertices}
        for edge in graph.edges:
            if edge.source not in ids or edge.target not in ids:
                raise InvalidJob(
                    f"job {graph.name!r}: edge {edge.edge_id} goes from vertex {edge.source} to {edge.target}, and the graph lacks one of them; "
                    "build the job again"
                )
        for vertex in graph.vertices:
            if not 1 <= vertex.parallelism <= vertex.max_parallelism:
                raise InvalidJob(
                    f"{vertex.name}: parallelism {vertex.parallelism} is not between 1 and its maximum "
                    f"{vertex.max_parallelism}"
                )
        if self._is_known(graph.job_id):
            raise _duplicate(graph)

    async def _check_directories(self, directories: JobDirectories) -> None:
        """Checks that clients may use the directories that the job names. Raises ``Misuse``."""
        own = JobDirectories.of(self._cluster)
        for directory in {directories.checkpoints, directories.savepoints} - {own.checkpoints, own.savepoints}:
            if directory is not None:
                await self._pool.submit(partial(self._storage.place_of_client, directory))

    async def _read_restore(
        self, request: pb.SubmitJobRequest, claim_mode: ClaimMode, read: ReadCheckpoint
    ) -> RestoreFrom | None:
        if not request.restore_path:
            return None
        location, manifest = await self._pool.submit(partial(read, request.restore_path))
        manifest = drop_inline_state(manifest)
        return RestoreFrom(location, manifest, request.allow_non_restored_state, claim_mode)


def _check_format(request: pb.SubmitJobRequest) -> None:
    """Raises ``VersionMismatch`` for a stored job that this version cannot run."""
    if request.job_format != JOB_FORMAT:
        theirs = f"tidegate {request.client_version or 'of an unknown version'}"
        raise VersionMismatch(
            f"the job was submitted to {theirs} in job format {request.job_format}, and this JobManager, tidegate {VERSION}, reads format {JOB_FORMAT}; "
            f"start {theirs} again, stop the job with a savepoint, and run it with -s on this version"
        )


def _check_versions(request: pb.SubmitJobRequest) -> None:
    if (request.client_version, request.job_format) != (VERSION, JOB_FORMAT):
        raise VersionMismatch(
            f"this client is tidegate {request.client_version or 'of an unknown version'}, the JobManager is {VERSION}; "
            "install the same version on both sides"
        )


def _check_python(request: pb.SubmitJobRequest) -> None:
    if request.graph.python_version != PYTHON_VERSION:
        raise VersionMismatch(
            f"the job was built with Python {request.graph.python_version or '(unknown)'}, the cluster runs Python "
            f"{PYTHON_VERSION}; use the same minor version"
        )


def _as_its_mode_wants(configuration: Configuration) -> Configuration:
    """Removes the checkpoint interval from a job in BATCH mode, even one that the cluster sets for all jobs."""
    if configuration.get(ExecutionOptions.RUNTIME_MODE) is not RuntimeMode.BATCH:
        return configuration
    texts = configuration.to_strings()
    return Configuration.from_strings({k: text for k, text in texts.items() if k != CheckpointingOptions.INTERVAL.key})


def _duplicate(graph: JobGraph) -> DuplicateJob:
    return DuplicateJob(f"job {graph.job_id} was submitted before; build the graph again to get another id")
