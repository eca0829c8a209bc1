"""Memory limits of a slot inside the subtask's process, and the settings that carry them there.

    taskmanager.memory.process.size / slots ─┬─ managed part   the state cache (``SubtaskEnvironment``)
                                             ├─ network part   bytes in flight: credit of the channels together
                                             └─ all of it      resident memory of the slot's processes

Resident memory is watched by the TaskManager (``tidegate.taskmanager.service.subtasks.slot_memory``), which also sees a slot's other processes, and on a Spark
cluster by the subtask itself (``watching``). Both also check the machine's free memory (``machine``). The kernel's limit is far above the slot's: it makes one
huge allocation fail at once with ``MemoryError``, before it can exhaust the machine between two checks. (The limit counts address space, of which Arrow's
allocator takes 1 GiB at once.)
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
"""Divisor of a slot: a sixteenth of it stays allocated after it is freed, so that its reuse costs no page faults (docs/internals/performance.md)."""
_KEPT_BYTES = 512 << 20
"""Bytes of freed memory that a process keeps by default, as ``daemon`` sets it."""
_KEPT_SHARE_OF_MACHINE = 64
"""Divisor of the machine's memory, for slots without a bound: what sixteen subtasks keep is a quarter of the machine at most, and does not count as a shortage.
Chosen, not measured.
"""
_ENDS_BEFORE_OTHERS = 300
"""Thousandths of the machine's memory that the kernel's OOM killer adds to the size of a subtask. It then ends a leaking subtask and not the TaskManager or the
JVM of all subtasks; another process that fills most of the machine is still ended first.
"""
_MOST_BADNESS = 1000
"""Largest value of ``oom_score_adj`` on Linux."""
_INT_MAX = (1 << 31) - 1
"""Largest C int, the type that `mallopt` takes."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings with which a TaskManager starts its subtasks. Sizes of 0: not bounded."""

    listen: str
    """Where the subtask listens: ``unix:<directory>``, or the host to bind."""
    directory: str = ""
    """Directory for temporary files; empty: the temporary directory of the executor's machine."""
    slot_memory_bytes: int = 0
    managed_memory_bytes: int = 0
    network_memory_bytes: int = 0
    local_state_dir: str = ""
    """Directory for local copies of state, which outlive a subtask; empty: the subtask is not on the TaskManager's machine."""
    spark_service: str = ""
    """Address of the Spark driver's service for the subtask's Spark sources and sinks; empty: it has none."""
    cancellation_interval_ms: int = 30_000
    """The TaskManager's ``task.cancellation.interval``, used if the job does not set it."""
    external_resources: str = "{}"
    """External resources of the TaskManager's machine: properties by resource name, as JSON."""
    machine_bytes: int = 0
    """Value of ``tidegate.taskmanager.memory.machine-size``; 0: not set."""
    reserve_bytes: int = -1
    """Value of ``tidegate.taskmanager.memory.reserve``; -1: not set."""
    tls_directory: str = ""
    """Directory of ``TlsFiles`` for TCP connections, if the TaskManager is on the same machine; empty: none."""
    tls_identity: str = ""
    """TLS key and certificates as PEM, for a subtask on another machine; empty: connections use no TLS, or ``tls_directory`` is set."""
    tls_trusted: str = ""
    """Trusted certificates as PEM."""
    tls_pins: str = ""
    """Pinned fingerprints, separated by commas."""
    failures_dir: str = ""
    """Where failures are kept for a replay, unless the job says; empty: nowhere."""

    def to_texts(self) -> dict[str, str]:
        return {name: str(value) for name, value in dataclasses.asdict(self).items()}

    @staticmethod
    def from_texts(texts: Mapping[str, str]) -> WorkerSettings:
        """Returns the settings from the texts of ``to_texts``."""
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
            texts["failures_dir"],
        )


def limit_memory(slot_memory_bytes: int, machine_bytes: int = 0) -> None:
    """Limits the address space of this process so that an allocation far beyond its slot fails, and the freed memory that it keeps to a share of the slot, or
    of the machine (see ``daemon``). No effect where kernel and C library have no such limits (macOS).
    """
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
    """Makes the kernel's OOM killer prefer this process over those that all subtasks need. Linux only."""
    path = Path("/proc/self/oom_score_adj")
    with contextlib.suppress(OSError, ValueError):
        path.write_text(
            str(min(_MOST_BADNESS, int(path.read_text(encoding="ascii")) + _ENDS_BEFORE_OTHERS)), encoding="ascii"
        )


def data_bytes() -> int | None:
    """Returns the bytes of writable private address space of this process; ``None`` where the kernel does not report it."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:"))


def unshared_bytes(pid: int | str = "self") -> int | None:
    """Returns the resident memory of a process in bytes, without file mappings; ``None`` if there is no such file in /proc. Raises ``OSError`` if the process
    ends meanwhile.
    """
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except FileNotFoundError:
        return None
    return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES


def resident_bytes(pid: int) -> int:
    """Returns the resident memory of a process in bytes, on Linux without file mappings; 0 when it is gone."""
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
    """Returns the deployment with a channel credit small enough that all channels together stay within the network memory."""
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
    """Returns ``task.cancellation.interval`` in seconds: the job's value if it sets one, else the TaskManager's."""
    option = TaskOptions.CANCELLATION_INTERVAL
    configuration = Configuration.from_strings(of_job)
    interval_ms = configuration.get(option) if configuration.is_set(option) else settings.cancellation_interval_ms
    return interval_ms / 1000
