"""The cluster parts of the page: TaskManagers with their slots and the tasks in them, and the jobs.

Nothing in a part depends on the clock, so that a part is sent again only when something changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.jobmanager.machines.views import AttemptView, ClusterView, JobView, TaskManagerView
from tidegate.jobmanager.rest.backend import Backend, MetricStore
from tidegate.jobmanager.rest.responses.cluster import configuration_entries
from tidegate.jobmanager.web.job_parts import job_head
from tidegate.model.configuration import Configuration
from tidegate.model.ids import AllocationId
from tidegate.model.options import Kind, RestOptions, declared
from tidegate.model.values import JsonObject
from tidegate.wire.task_metrics import failing_commits
from tidegate.wire.versions import PYTHON_VERSION, VERSION

_HEARTBEAT_STEP_MS = 10_000
"""The resolution at which the last heartbeat is shown."""
_MIB = 1024 * 1024
_MEMORY = {
    "process": ("Status.Process.Memory.Resident",),
    "JVM": ("Status.JVM.Memory.Heap.Used", "Status.JVM.Memory.NonHeap.Used"),
    "subtasks": ("Status.Subtasks.Memory.Resident",),
}
_Users = Mapping[AllocationId, list[tuple[int, int, int]]]
"""The tasks in each slot: numbers of job, vertex and subtask."""


def hello(backend: Backend) -> JsonObject:
    """Returns the first event of every stream; ``now_ms`` lets the page set its clock by the JobManager's."""
    cluster = backend.views.cluster()
    return {
        "now_ms": backend.now_ms(),
        "generation": cluster.generation,
        "start_ms": cluster.start_ms,
        "version": VERSION,
        "python": PYTHON_VERSION,
        "may_cancel": backend.configuration.get(RestOptions.CANCEL_ENABLED),
        "may_fault": backend.faults is not None,
    }


def cluster_part(cluster: ClusterView, jobs: Sequence[JobView], backend: Backend) -> JsonObject:
    running = [job for job in jobs if not job.state.is_terminal]
    users = _users(running)
    numbers: dict[str, int] = {job.job_id: number for number, job in enumerate(running)}
    return {
        "slots_total": cluster.slots_total,
        "slots_free": cluster.slots_free,
        "jobs": [
            {"id": job.job_id, "name": job.name, "vertices": [[v.name, v.parallelism] for v in job.vertices]}
            for job in running
        ],
        "task_managers": [_task_manager(view, numbers, users, backend) for view in cluster.task_managers],
        "workers": [
            {"id": worker.worker_id, "state": worker.state, "since_ms": worker.since_ms, "reason": worker.reason}
            for worker in cluster.workers
        ],
    }


def jobs_part(jobs: Sequence[JobView], archived: Sequence[JsonObject], measures: MetricStore) -> list[JsonObject]:
    """Returns the jobs, newest first. ``archived``: entries of jobs that are only in the archive."""
    known = [{**job_item(job), "commits_fail": _commits_fail(job, measures)} for job in jobs]
    return sorted([*known, *archived], key=lambda item: -item["start_ms"])


def _commits_fail(job: JobView, measures: MetricStore) -> bool:
    """Tells whether a sink of a running job has commits that fail."""
    sinks = {
        vertex.vertex_id for vertex in job.graph.vertices if any(operator.is_sink for operator in vertex.operators)
    }
    attempts = (s.current.attempt for vertex in job.vertices if vertex.vertex_id in sinks for s in vertex.subtasks)
    counters = () if job.state.is_terminal else map(measures.metrics_of, attempts)
    return any(found is not None and failing_commits(found) for found in counters)


def settings(configuration: Configuration, job: JobView | None) -> list[JsonObject]:
    """Returns every effective option and all others that are set: value, default, origin, description."""
    cluster = {entry["key"]: entry["value"] for entry in configuration_entries(configuration)}
    merged, own = cluster, frozenset[str]()
    if job is not None:
        merged = {e["key"]: e["value"] for e in configuration_entries(Configuration.from_strings(job.configuration))}
        own = frozenset(job.graph.configuration)
    found = []
    for key, option in declared().items():
        if option.kind is Kind.EFFECTIVE:
            name = next((k for k in (key, *option.fallback_keys) if k in merged), None)
            origin = "default" if name is None else "job" if name in own else "cluster"
            default = option.format(option.default)
            value = default if name is None else merged[name]
            found.append({"key": key, "value": value, "default": default, "origin": origin, "doc": option.doc})
    known = {entry["key"] for entry in found}
    for key, text in merged.items():
        if key not in known and not any(key in option.fallback_keys for option in declared().values()):
            origin = "job" if key in own else "cluster"
            found.append({"key": key, "value": text, "default": "", "origin": origin, "doc": "Passed on as it is."})
    return sorted(found, key=lambda entry: entry["key"])


def _users(jobs: Sequence[JobView]) -> _Users:
    users: dict[AllocationId, list[tuple[int, int, int]]] = {}
    for job_number, job in enumerate(jobs):
        for vertex_number, vertex in enumerate(job.vertices):
            for subtask in vertex.subtasks:
                current: AttemptView = subtask.current
                if current.allocation_id is not None and not current.state.is_terminal:
                    users.setdefault(current.allocation_id, []).append((job_number, vertex_number, subtask.index))
    return users


def _task_manager(view: TaskManagerView, numbers: Mapping[str, int], users: _Users, backend: Backend) -> JsonObject:
    return {
        "id": view.task_manager_id,
        "address": view.address,
        "host": view.host,
        "pid": view.pid,
        "memory_bytes": view.memory_bytes,
        "used_mib": _used_mib(backend.measures.process_metrics_of(view.task_manager_id)),
        "registered_ms": view.registered_ms,
        "heard_ms": view.last_heartbeat_ms - view.last_heartbeat_ms % _HEARTBEAT_STEP_MS,
        "slots": [
            {
                "index": slot.index,
                "state": slot.state,
                "job": numbers.get(slot.job_id, -1) if slot.job_id is not None else -1,
                "tasks": [task[1:] for task in users.get(slot.allocation_id, ())] if slot.allocation_id else [],
            }
            for slot in view.slots
        ],
    }


def _used_mib(measured: Mapping[str, float]) -> dict[str, int]:
    """Returns used memory in whole MiB, so that it does not change all the time; empty before the first report."""
    found = {part: [measured[name] for name in names if name in measured] for part, names in _MEMORY.items()}
    return {part: round(sum(values) / _MIB) for part, values in found.items() if values}


def job_item(job: JobView) -> JsonObject:
    """Returns one job as in the list."""
    checkpoints = job.checkpoints
    last = checkpoints.last_completed
    tasks: dict[str, int] = {}
    for vertex in job.vertices:
        for state, count in vertex.tasks.items():
            tasks[state.value] = tasks.get(state.value, 0) + count
    return {
        **job_head(job),
        "tasks": tasks,
        "checkpoints": [checkpoints.completed, checkpoints.failed, checkpoints.in_progress],
        "last_checkpoint": None if last is None else [last.checkpoint_id, last.trigger_ms, last.end_ms],
    }
