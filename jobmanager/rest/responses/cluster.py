"""The cluster as Flink's JSON: overview, configuration, TaskManagers, applications."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.jobmanager.machines.views import ClusterView, JobView, TaskManagerView
from tidegate.jobmanager.rest.responses.java_throwable import exception_name, stack_trace
from tidegate.jobmanager.rest.responses.jobs import job_item, job_times
from tidegate.model.configuration import Configuration
from tidegate.model.ids import AllocationId, TaskManagerId
from tidegate.model.masking import HIDDEN, is_sensitive
from tidegate.model.options import RestOptions, WebOptions
from tidegate.model.states import JobState
from tidegate.model.values import JsonObject
from tidegate.wire.versions import VERSION

FLINK_VERSION = "2.3.0"
"""The version of Flink whose REST API this is; clients choose their behaviour by it."""
NOT_KNOWN = -1
_APPLICATION_STATES = {
    JobState.FAILING: "FAILING",
    JobState.FAILED: "FAILED",
    JobState.CANCELLING: "CANCELING",
    JobState.CANCELED: "CANCELED",
    JobState.FINISHED: "FINISHED",
}
_JVM_METRICS = {
    "heapUsed": "Heap.Used", "heapCommitted": "Heap.Committed", "heapMax": "Heap.Max",
    "nonHeapUsed": "NonHeap.Used", "nonHeapCommitted": "NonHeap.Committed", "nonHeapMax": "NonHeap.Max",
    "directCount": "Direct.Count", "directUsed": "Direct.MemoryUsed", "directMax": "Direct.TotalCapacity",
    "mappedCount": "Mapped.Count", "mappedUsed": "Mapped.MemoryUsed", "mappedMax": "Mapped.TotalCapacity",
}  # fmt: skip
_NETTY_METRICS = (
    "nettyShuffleMemorySegmentsAvailable", "nettyShuffleMemorySegmentsUsed", "nettyShuffleMemorySegmentsTotal",
    "nettyShuffleMemoryAvailable", "nettyShuffleMemoryUsed", "nettyShuffleMemoryTotal",
)  # fmt: skip
_LONG_NAMES = {"UTC": "Coordinated Universal Time"}
"""Java's long names of time zones, by the system's short ones."""
_COLLECTOR = "Status.JVM.GarbageCollector."

ProcessMetrics = Mapping[str, float]
"""The metrics of a TaskManager process, by name; empty before its first report."""


@dataclass(frozen=True, slots=True)
class AssignedTasks:
    """The number of deployed tasks, by TaskManager and by allocation; ``None`` counts those that have none."""

    by_task_manager: Mapping[TaskManagerId | None, int]
    by_allocation: Mapping[AllocationId | None, int]


def dashboard_config(configuration: Configuration, now_ms: int) -> JsonObject:
    """Answers ``/config``; the time zone is the server's, as in Flink."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone()
    name, offset = moment.tzname() or "UTC", moment.utcoffset()
    return {
        "refresh-interval": configuration.get(RestOptions.REFRESH_INTERVAL),
        "timezone-name": _LONG_NAMES.get(name, name),
        "timezone-offset": int(offset.total_seconds() * 1000) if offset else 0,
        "flink-version": FLINK_VERSION,
        "flink-revision": f"tidegate {VERSION}",
        "features": {
            "web-submit": configuration.get(WebOptions.SUBMIT_ENABLE),
            "web-cancel": configuration.get(RestOptions.CANCEL_ENABLED),
            "web-rescale": False,
            "web-history": False,
        },
    }


def overview(cluster: ClusterView, jobs: Sequence[JobView], archived: Sequence[JsonObject] = ()) -> JsonObject:
    """Answers ``/overview``. ``archived``: items of ended jobs that are only in the archive."""
    states = Counter([job.state.value for job in jobs] + [str(item["state"]) for item in archived])
    return {
        "taskmanagers": len(cluster.task_managers),
        "slots-total": cluster.slots_total,
        "slots-available": cluster.slots_free,
        "jobs-running": sum(not job.state.is_terminal for job in jobs),
        "jobs-finished": states[JobState.FINISHED.value],
        "jobs-cancelled": states[JobState.CANCELED.value],
        "jobs-failed": states[JobState.FAILED.value],
        "flink-version": FLINK_VERSION,
        "flink-commit": f"tidegate {VERSION}",
    }


def workers(cluster: ClusterView, jobs: Sequence[JobView]) -> JsonObject:
    """Answers ``/workers``: TaskManagers that this JobManager started or is about to, and jobs that wait for slots. Flink's API has no such path."""
    return {
        "workers": [
            {"id": worker.worker_id, "state": worker.state, "since": worker.since_ms, "reason": worker.reason}
            for worker in cluster.workers
        ],
        "waiting": [
            {
                "jid": job.job_id,
                "name": job.name,
                "waiting-for": job.waiting_for,
                "starting-since": job.starting_since_ms,
            }
            for job in jobs
            if job.waiting_for and not job.state.is_terminal
        ],
    }


def configuration_entries(configuration: Configuration) -> list[JsonObject]:
    """Returns the options that are set, with sensitive values hidden."""
    return [
        {"key": key, "value": HIDDEN if is_sensitive(key) else text} for key, text in configuration.to_strings().items()
    ]


def environment() -> JsonObject:
    """Describes the process in the fields that Flink has for a JVM."""
    return {
        "jvm": {
            "version": f"{platform.python_implementation()} {platform.python_version()}",
            "arch": platform.machine(),
            "options": [],
        },
        "classpath": [path for path in sys.path if path],
    }


# ---- applications: one for each job, as in Flink's session mode --------------------------------------------------------


def application_item(job: JobView, now_ms: int) -> JsonObject:
    return {
        "id": job.job_id,
        "name": f"SingleJobApplication({job.name})",
        **job_times(job, now_ms),
        "status": _application_state(job),
        "jobs": {job.state.value: 1},
    }


def application_details(job: JobView, now_ms: int) -> JsonObject:
    times = {"CREATED": job.start_ms, "RUNNING": job.start_ms}
    ends = {name: job.state_timestamps_ms.get(state, 0) for state, name in _APPLICATION_STATES.items()}
    item = application_item(job, now_ms)
    return {**item, "timestamps": {**times, **ends}, "jobs": [job_item(job, now_ms)]}


def application_exceptions(job: JobView) -> JsonObject:
    """Returns why the application failed: the failure that ended the job, or its last one when it was canceled."""
    entries = []
    if job.state in (JobState.FAILED, JobState.CANCELED) and job.failures:
        failure = job.failures[-1]
        entries.append(
            {
                "exceptionName": exception_name(failure.error),
                "stacktrace": stack_trace(failure.error),
                "timestamp": failure.at_ms,
                "jobId": job.job_id,
            }
        )
    return {"exceptionHistory": {"entries": entries}}


def _application_state(job: JobView) -> str:
    return _APPLICATION_STATES.get(job.state, "RUNNING")


# ---- TaskManagers ------------------------------------------------------------------------------------------------------


def assigned_tasks(jobs: Sequence[JobView]) -> AssignedTasks:
    """Counts the tasks that are not terminal, by TaskManager and by slot."""
    attempts = [
        subtask.current
        for job in jobs
        for vertex in job.vertices
        for subtask in vertex.subtasks
        if not subtask.current.state.is_terminal
    ]
    return AssignedTasks(Counter(a.task_manager_id for a in attempts), Counter(a.allocation_id for a in attempts))


def task_manager_item(view: TaskManagerView, tasks: AssignedTasks, process_metrics: ProcessMetrics) -> JsonObject:
    """Returns one TaskManager. Parts of Flink's memory model that do not exist here are ``null`` or -1."""
    free = sum(slot.allocation_id is None for slot in view.slots)
    managed = _bytes(process_metrics, "Status.Flink.Memory.Managed.Total")
    return {
        "id": view.task_manager_id,
        "path": view.address,
        "dataPort": NOT_KNOWN,
        "jmxPort": NOT_KNOWN,
        "timeSinceLastHeartbeat": view.last_heartbeat_ms,
        "slotsNumber": len(view.slots),
        "freeSlots": free,
        "assignedTasks": tasks.by_task_manager.get(view.task_manager_id, 0),
        "totalResource": _resource(len(view.slots), len(view.slots), managed),
        "freeResource": _resource(free, len(view.slots), managed),
        "hardware": {
            "cpuCores": int(process_metrics.get("System.CPU.Count", NOT_KNOWN)),
            "physicalMemory": _bytes(process_metrics, "System.Memory.Total"),
            "freeMemory": _bytes(process_metrics, "Status.JVM.Memory.Heap.Max"),  # what Flink means by it, too
            "managedMemory": managed,
        },
        "memoryConfiguration": _memory(view.memory_bytes, process_metrics),
    }


def task_manager_details(view: TaskManagerView, tasks: AssignedTasks, process_metrics: ProcessMetrics) -> JsonObject:
    """Returns one TaskManager with its used slots and the memory of its JVM, which is Spark's."""
    managed = _bytes(process_metrics, "Status.Flink.Memory.Managed.Total")
    slots = [
        {
            "jobId": slot.job_id,
            "resource": _resource(1, len(view.slots), managed),
            "assignedTasks": tasks.by_allocation.get(slot.allocation_id, 0),
        }
        for slot in view.slots
        if slot.job_id is not None
    ]
    jvm = {key: int(process_metrics.get(f"Status.JVM.Memory.{name}", NOT_KNOWN)) for key, name in _JVM_METRICS.items()}
    metrics: JsonObject = {
        **jvm,
        **dict.fromkeys(_NETTY_METRICS, NOT_KNOWN),
        "garbageCollectors": _collectors(process_metrics),
    }
    return {**task_manager_item(view, tasks, process_metrics), "allocatedSlots": slots, "metrics": metrics}


def _memory(process_bytes: int, process_metrics: ProcessMetrics) -> JsonObject:
    """Returns a TaskManager's memory by the parts of Flink's model.

    ``taskmanager.memory.process.size`` is the memory of all subtasks together: managed, network, and the rest as ``taskHeap``; ``None`` when it is
    unlimited. The JVM, which is Spark's, comes in addition (``framework...``, ``jvm...``).
    """
    managed = _bytes(process_metrics, "Status.Flink.Memory.Managed.Total")
    network = (_bytes(process_metrics, "Status.Flink.Memory.Network.Total") or None) if process_bytes else None
    rest = None if managed is None or network is None else max(0, process_bytes - managed - network)
    return {
        "frameworkHeap": _bytes(process_metrics, "Status.JVM.Memory.Heap.Max"),
        "taskHeap": rest,
        "frameworkOffHeap": _bytes(process_metrics, "Status.JVM.Memory.Direct.TotalCapacity"),
        "taskOffHeap": None if rest is None else 0,
        "networkMemory": network,
        "managedMemory": managed,
        "jvmMetaspace": _bytes(process_metrics, "Status.JVM.Memory.Metaspace.Committed"),
        "jvmOverhead": None,
        "totalFlinkMemory": process_bytes or None,
        "totalProcessMemory": process_bytes or None,
    }


def _collectors(process_metrics: ProcessMetrics) -> list[JsonObject]:
    names = [
        name.removesuffix(".Count")
        for name in process_metrics
        if name.startswith(_COLLECTOR) and name.endswith(".Count")
    ]
    return [
        {
            "name": name.removeprefix(_COLLECTOR),
            "count": int(process_metrics[f"{name}.Count"]),
            "time": int(process_metrics.get(f"{name}.Time", NOT_KNOWN)),
        }
        for name in names
    ]


def _bytes(process_metrics: ProcessMetrics, name: str) -> int | None:
    return int(process_metrics[name]) if name in process_metrics else None


def _resource(slots: int, of: int, managed_bytes: int | None) -> JsonObject:
    """Returns the resources of slots as Flink counts by default: one core a slot, equal shares of managed memory (MiB). Other parts are
    unknown here.
    """
    managed = NOT_KNOWN if managed_bytes is None else managed_bytes * slots // max(1, of) >> 20
    return {
        "cpuCores": float(slots),
        "taskHeapMemory": NOT_KNOWN,
        "taskOffHeapMemory": NOT_KNOWN,
        "managedMemory": managed,
        "networkMemory": NOT_KNOWN,
        "extendedResources": {},
    }
