"""The embedded clusters of this process: one for all its jobs, as long as their processes need the same configuration.

    first job ─▶ a cluster starts ─▶ later jobs run on it, at the same time too ─▶ the process ends, and the cluster with it
                                       └─ a job does not fit: one more TaskManager
                                       └─ its cluster would be configured otherwise: one more cluster

The first cluster is the warm one of `tidegate cluster keep`, where there is one like it (``cli/embedded/warm``).
Threads may submit at the same time. A forked process starts clusters of its own: these belong to its parent.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from tidegate.cli.client import JobManagerClient
from tidegate.cli.embedded.local_cluster import LocalCluster
from tidegate.cli.embedded.sizing import decide_added_slots, settings_of_processes, slots_of
from tidegate.cli.embedded.warm.borrowed import WarmCluster, borrow
from tidegate.cli.options import client_at, load_configuration
from tidegate.model.errors import UnknownJob, Unreachable
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey, JobId
from tidegate.model.states import JobState

Settle = Callable[[], None]
"""Returns when what jobs have printed is on the terminal."""


class ProcessClusters:
    """The clusters of one process, by the configuration of their processes."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._running: dict[frozenset[tuple[str, str]], _RunningCluster] = {}
        self._has_looked = False

    @property
    def is_ours(self) -> bool:
        """Tells whether this is the process that started the clusters, and not a fork of it."""
        return self._owner == os.getpid()

    def submit(
        self,
        graph: JobGraph,
        blobs: Mapping[BlobKey, bytes],
        restore_path: str,
        allow_non_restored_state: bool,
        of_processes: Mapping[str, str],
    ) -> tuple[JobManagerClient, Settle]:
        """Submits a job to the cluster with its configuration and ``of_processes``, started if need be; returns that cluster's client, and a function
        that returns when what its jobs have printed is on the terminal.

        Raises the error that keeps the cluster from starting, or that refuses the job.
        """
        settings = settings_of_processes({**graph.configuration, **of_processes})
        definitions = [f"{key}={text}" for key, text in settings.items()]
        # Environment and file count as well: a program may change them between two jobs.
        place = frozenset(load_configuration(None, definitions).to_strings().items())
        with self._lock:
            cluster = self._running.get(place)
            if cluster is None or not cluster.has_room(graph):
                if cluster is not None:
                    del self._running[place]
                    cluster.close()
                cluster = self._running[place] = self._make_cluster(dict(place), definitions, graph)
            cluster.client.submit(graph, blobs, restore_path, allow_non_restored_state)
            return cluster.client, cluster.settle

    def _make_cluster(
        self, settings: Mapping[str, str], definitions: Sequence[str], graph: JobGraph
    ) -> _RunningCluster:
        if not self._has_looked:
            self._has_looked = True
            if (warm := borrow(settings, definitions)) is not None:
                running = _RunningCluster(warm)
                if running.has_room(graph):
                    return running
                running.close()
        running = _RunningCluster(LocalCluster(definitions, slots_of(graph)))
        running.make_room(graph)
        return running

    def close(self) -> None:
        """Stops all clusters with the jobs that still run. Idempotent; does nothing in a forked process."""
        while self.is_ours and self._running:
            self._running.popitem()[1].close()


class _RunningCluster:
    def __init__(self, cluster: LocalCluster | WarmCluster) -> None:
        self._cluster = cluster
        self.settle: Settle = cluster.settle
        self._slots_by_job: dict[JobId, int] = {}
        self.client = client_at(cluster.configuration, cluster.address)

    def has_room(self, graph: JobGraph) -> bool:
        """Provides slots for one more job like ``make_room``; returns ``False`` when the JobManager is gone, or ending."""
        if not self._cluster.is_alive():
            return False
        try:
            self.make_room(graph)
        except Unreachable:
            return False
        return True

    def make_room(self, graph: JobGraph) -> None:
        """Provides slots for one more job; jobs that are over have given theirs back."""
        self._slots_by_job = {job_id: n for job_id, n in self._slots_by_job.items() if not self._is_over(job_id)}
        wanted = slots_of(graph)
        self._cluster.add_slots(decide_added_slots(self._cluster.slots, self._slots_by_job.values(), wanted))
        self._slots_by_job[graph.job_id] = wanted

    def close(self) -> None:
        self.client.close()
        self._cluster.close()

    def _is_over(self, job_id: JobId) -> bool:
        try:
            return JobState(self.client.status(job_id).state).is_terminal
        except UnknownJob:  # refused, or over for so long that it was forgotten
            return True


_clusters: list[ProcessClusters] = []


def clusters_of_this_process() -> ProcessClusters:
    """Returns the clusters of this process, which are stopped when it ends."""
    if not _clusters or not _clusters[-1].is_ours:
        _clusters[:] = [ProcessClusters()]
        atexit.register(_clusters[-1].close)
    return _clusters[-1]
