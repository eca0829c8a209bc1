"""What a slot bounds, inside the subtask's process, and how the settings for it get there.

    taskmanager.memory.process.size / slots ─┬─ managed part   the state cache (``SubtaskEnvironment``)
                                             ├─ network part   bytes in flight: credit of the channels together
                                             └─ all of it      resident memory of the slot's processes

Resident memory is watched by the TaskManager (``tidegate.taskmanager.service.subtasks.slot_memory``), which also sees a slot's other processes,
and on a Spark cluster by the subtask itself (``watching``). Both look at what the machine has left, too (``machine``).
Here the kernel gets a limit far above it, so that one huge allocation fails at once, as ``MemoryError``, and cannot
bring the machine down between two looks. (It counts address space, of which Arrow's allocator takes 1 GiB at once.)
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tidegate.model.configuration import Configuration
from tidegate.model.deployment import TaskDeployment
from tidegate.model.options import RuntimeOptions, TaskOptions

HEADROOM_BYTES = 2 << 30
LEAST_CREDIT_BYTES = 64 << 10
_M_TRIM_THRESHOLD = -1  # of glibc's malloc.h
_KEPT_SHARE = 16
"""A sixteenth of the slot stays when it is freed: used again, it costs no page faults (docs/adr/0064)."""
_KEPT_BYTES = 512 << 20
"""As ``daemon`` sets it."""
_KEPT_SHARE_OF_MACHINE = 64
"""Chosen, not measured: what sixteen subtasks keep is a quarter of the machine at most, and does not count as memory that runs short."""
_ENDS_BEFORE_OTHERS = 300
"""Thousandths of the machine's memory by which the kernel takes a subtask for larger than it is. So it ends a leaking subtask, and not the
TaskManager or the JVM of all subtasks; a process beside them that has filled most of the machine still goes first."""
_MOST_BADNESS = 1000
"""The most that Linux takes."""
_INT_MAX = (1 << 31) - 1
"""`mallopt` takes a C int."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a TaskManager wants its subtasks to run. Sizes of 0 mean: not bounded."""

    listen: str
    """``unix:<directory>``, or the host to bind."""
    directory: str = ""
    """For temporary files; empty: wherever the executor is."""
    slot_memory_bytes: int = 0
    managed_memory_bytes: int = 0
    network_memory_bytes: int = 0
    local_state_dir: str = ""
    """For copies of state, which outlive a subtask; empty: its process is not on the TaskManager's machine."""
    spark_service: str = ""
    """Where the Spark driver answers the subtask's sources and sinks that are Spark's; empty: there are none."""
    cancellation_interval_ms: int = 30_000
    """``task.cancellation.interval`` of the TaskManager, where the job has none."""
    external_resources: str = "{}"
    """Properties of what the TaskManager's machine has, by name of the resource, as JSON."""
    machine_bytes: int = 0
    """``tidegate.taskmanager.memory.machine-size``; 0: not set."""
    reserve_bytes: int = -1
    """``tidegate.taskmanager.memory.reserve``; -1: not set."""
    tls_directory: str = ""
    """That of ``TlsFiles``, for connections by TCP, where the TaskManager is on the same machine; empty: there is none."""
    tls_identity: str = ""
    """Key and certificates as PEM, for a subtask on another machine; empty: connections are plain, or there is a directory."""
    tls_trusted: str = ""
    """The certificates that it believes, as PEM."""
    tls_pins: str = ""
    """Fingerprints between commas."""

    def to_texts(self) -> dict[str, str]:
        return {name: str(value) for name, value in dataclasses.asdict(self).items()}

    @staticmethod
    def from_texts(texts: Mapping[str, str]) -> WorkerSettings:
        """The inverse of ``to_texts``."""
        return WorkerSettings(
            texts["listen"],
            texts["directory"],
            int(texts["slot_memory_bytes"]),
            int(texts["managed_memory_bytes"]),
            int(texts["network_memory_bytes"]),
            texts["local_state_dir"],
            texts["spark_service"],
            int(texts["cancellation_interval_ms"]),
            texts["external_resources"],
            int(texts["machine_bytes"]),
            int(texts["reserve_bytes"]),
            texts["tls_directory"],
            texts["tls_identity"],
            texts["tls_trusted"],
            texts["tls_pins"],
        )


def limit_memory(slot_memory_bytes: int, machine_bytes: int = 0) -> None:
    """Make an allocation that is beyond the slot's bound fail in this process, and let it keep only a part of its slot, or of the machine,
    free for itself (see ``daemon``). Without effect where kernel and C library have no such limits (macOS)."""
    taken = data_bytes()
    if taken is None:
        return
    kept = slot_memory_bytes // _KEPT_SHARE if slot_memory_bytes else machine_bytes // _KEPT_SHARE_OF_MACHINE
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and (slot_memory_bytes or 0 < kept < _KEPT_BYTES):
        mallopt(_M_TRIM_THRESHOLD, min(kept, _INT_MAX))
    if slot_memory_bytes:
        _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = taken + slot_memory_bytes + HEADROOM_BYTES
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def end_before_others() -> None:
    """Should the kernel have to end a process for want of memory, let it be this one rather than one that all subtasks need. Linux."""
    path = Path("/proc/self/oom_score_adj")
    with contextlib.suppress(OSError, ValueError):
        path.write_text(
            str(min(_MOST_BADNESS, int(path.read_text(encoding="ascii")) + _ENDS_BEFORE_OTHERS)), encoding="ascii"
        )


def data_bytes() -> int | None:
    """Writable private address space of this process; ``None`` where the kernel does not tell."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:"))


def unshared_bytes(pid: int | str = "self") -> int | None:
    """Memory of a process without what it maps from files; ``None`` where the kernel does not tell. Raises ``OSError`` when the
    process is gone meanwhile."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except FileNotFoundError:
        return None
    return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES


def resident_bytes(pid: int) -> int:
    """Memory of a process without what it maps from files; 0 when it is gone."""
    try:
        found = unshared_bytes(pid)
        if found is not None:
            return found
    except (OSError, IndexError, ValueError):
        return 0
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def limit_exchange(deployment: TaskDeployment, settings: WorkerSettings) -> TaskDeployment:
    """The deployment with the credit of a channel cut so that all channels together stay within the network memory."""
    channels = sum(len(edge.producers) for edge in deployment.inputs)
    channels += sum(len(edge.consumers) for edge in deployment.outputs)
    if not settings.network_memory_bytes or not channels:
        return deployment
    option = RuntimeOptions.CHANNEL_CREDIT
    text = deployment.configuration.get(option.key)
    wanted = option.default if text is None else option.parse(text)
    share = max(LEAST_CREDIT_BYTES, settings.network_memory_bytes // channels)
    if share >= wanted:
        return deployment
    configuration = {**deployment.configuration, option.key: option.format(share)}
    return dataclasses.replace(deployment, configuration=configuration)


def cancellation_interval_s(of_job: Mapping[str, str], settings: WorkerSettings) -> float:
    """``task.cancellation.interval``: the job's, as far as it has one of its own, else the TaskManager's."""
    option = TaskOptions.CANCELLATION_INTERVAL
    configuration = Configuration.from_strings(of_job)
    interval_ms = configuration.get(option) if configuration.is_set(option) else settings.cancellation_interval_ms
    return interval_ms / 1000
