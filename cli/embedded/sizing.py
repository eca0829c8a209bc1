"""Decides the size and configuration of an embedded cluster from the jobs that it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tidegate.model.configuration import SPARK_PREFIX, Configuration
from tidegate.model.graph import JobGraph
from tidegate.model.options import CheckpointingOptions, CheckpointStorageKind, declared, is_of_a_job


def slots_of(graph: JobGraph) -> int:
    """Returns how many slots a job needs: the sum of the highest parallelism of each slot-sharing group."""
    groups: defaultdict[str, int] = defaultdict(int)
    for vertex in graph.vertices:
        groups[vertex.slot_sharing_group] = max(groups[vertex.slot_sharing_group], vertex.parallelism)
    return sum(groups.values())


def decide_added_slots(offered: int, used: Iterable[int], wanted: int) -> int:
    """Returns the slots of one more TaskManager, so that a job finds `wanted` besides those that are `used`; 0 when there are enough.

    It has at least as many as all before it: so the number of TaskManagers grows with the logarithm of the slots.
    """
    missing = sum(used) + wanted - offered
    return max(missing, offered) if missing > 0 else 0


def settings_of_processes(texts: Mapping[str, str]) -> dict[str, str]:
    """Returns the part of a job's configuration with which its cluster has to be started.

    The rest travels with the job, so that the next job on the cluster does not get it.
    """
    configuration = Configuration.from_strings(texts)
    in_memory = configuration.get(CheckpointingOptions.STORAGE) is CheckpointStorageKind.JOBMANAGER
    return {key: text for key, text in configuration.to_strings().items() if _is_of_processes(key, in_memory)}


def _is_of_processes(key: str, in_memory: bool) -> bool:
    if key == CheckpointingOptions.STORAGE.key:
        return in_memory  # such a cluster gets no directory for checkpoints
    return key.startswith(SPARK_PREFIX) or (key in declared() and not is_of_a_job(key))
