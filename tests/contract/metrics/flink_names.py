"""The names and labels that Flink's own reporters serve, recorded from a running job, and why some are not here."""

from __future__ import annotations

import re
from pathlib import Path

_RECORDED = Path(__file__).with_name("flink_2.3_names.txt")

ABSENT = {
    r"jobmanager_Status_JVM_(ClassLoader|GarbageCollector_G1|Memory_(Direct|Mapped|Metaspace|NonHeap|Heap_Committed))":
        "the JobManager has no JVM",
    r"taskmanager_Status_JVM_GarbageCollector_G1": "the collectors of the JVM have the names of those that it runs",
    r"taskmanager_Status_Flink_Memory_Managed_Used": "RocksDB takes it in the subtask's process, and does not say how much",
    r"taskmanager_job_task_changelogBusyTimeMsPerSecond": "there is no changelog of state",
    r"taskmanager_job_task_operator_numBytesSend": "what a record has in bytes is known to the system that a sink writes to",
}  # fmt: skip
"""Patterns of names, behind `flink_`, with the reason."""


def recorded(scope: str) -> dict[str, frozenset[str]]:
    """Labels by name, of those names that begin with a scope and have a meaning here."""
    lines = [line.split() for line in _RECORDED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    absent = [re.compile(f"flink_{pattern}") for pattern in ABSENT]
    return {
        name: frozenset(labels.split(","))
        for name, labels in lines
        if name.startswith(f"flink_{scope}_") and not any(pattern.match(name) for pattern in absent)
    }


def served() -> int:
    """How many of the recorded names have a meaning here."""
    return sum(len(recorded(scope)) for scope in ("jobmanager", "taskmanager"))


def unused_reasons() -> list[str]:
    """Patterns that match no recorded name."""
    names = [line.split()[0] for line in _RECORDED.read_text(encoding="utf-8").splitlines()]
    return [pattern for pattern in ABSENT if not any(re.match(f"flink_{pattern}", name) for name in names)]
