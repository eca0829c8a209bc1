"""The names and labels that Flink's own reporters serve, recorded from a running job, and why some are not here."""

from __future__ import annotations

import re
from pathlib import Path

_RECORDED = Path(__file__).with_name("flink_2.3_names.txt")

ABSENT = {
    r"jobmanager_Status_JVM_(ClassLoader|GarbageCollector_G1|Memory_(Direct|Mapped|Metaspace|NonHeap|Heap_Committed))":
        "the JobManager has no JVM",
    r"jobmanager_job_lastCheckpointExternalPath": "a text is no figure; Flink's reporter writes 0",
    r"taskmanager_Status_JVM_GarbageCollector_G1": "the collectors of the JVM have the names of those that it runs",
    r"taskmanager_Status_Flink_Memory_Managed_Used": "RocksDB takes it in the subtask's process, and does not say how much",
    r"taskmanager_Status_Shuffle_Netty": "there is no pool of network memory: credit bounds what is in flight",
    r"taskmanager_job_task_Shuffle_Netty_Input_Buffers_input(Exclusive|Floating)BuffersUsage": "no such buffers",
    r"taskmanager_job_task_changelogBusyTimeMsPerSecond": "there is no changelog of state",
    r"taskmanager_job_task_operator_numBytes": "bytes are counted where a subtask's channels are, not between its operators",
    r"taskmanager_job_task_operator_num\w+Errors": "a record that a sink cannot write fails the attempt",
    r"taskmanager_job_task_operator_num\w+Send": "sinks count what they were given, numRecordsIn",
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


def unused_reasons() -> list[str]:
    """Patterns that match no recorded name."""
    names = [line.split()[0] for line in _RECORDED.read_text(encoding="utf-8").splitlines()]
    return [pattern for pattern in ABSENT if not any(re.match(f"flink_{pattern}", name) for name in names)]
