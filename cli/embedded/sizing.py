"""What an embedded cluster is made of, decided from the jobs that it has to run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tidegate.model.configuration import SPARK_PREFIX, Configuration
from tidegate.model.graph import JobGraph
from tidegate.model.options import CheckpointingOptions, CheckpointStorageKind, declared, is_of_a_job


def slots_of(graph: JobGraph) -> int:
    """Returns the slots that a job needs: the greatest parallelism of each slot-sharing group."""
    groups: defaultdict[str, int] = defaultdict(int)
    for vertex in graph.vertices:
        groups[vertex.slot_sharing_group] = max(groups[vertex.slot_sharing_group], vertex.parallelism)
    return sum(groups.values())


def decide_added_slots(offered: int, used: Iterable[int], wanted: int) -> int:
    """Returns the slots of one more TaskManager, so that a job finds `wanted` beside those that `used` some, or 0 when there are enough.

    It has no fewer than all before it: their number grows with the logarithm of the slots, however programs grow.
    """
    missing = sum(used) + wanted - offered
    return max(missing, offered) if missing > 0 else 0


def settings_of_processes(texts: Mapping[str, str]) -> dict[str, str]:
    """Returns what of a job's configuration its cluster has to be started with. The rest travels with the job and is nobody else's: the next
    job on the cluster must not find it."""
    configuration = Configuration.from_strings(texts)
    in_memory = configuration.get(CheckpointingOptions.STORAGE) is CheckpointStorageKind.JOBMANAGER
    return {key: text for key, text in configuration.to_strings().items() if _is_of_processes(key, in_memory)}


def _is_of_processes(key: str, in_memory: bool) -> bool:
    if key == CheckpointingOptions.STORAGE.key:
        return in_memory  # such a cluster gets no directory for checkpoints
    return key.startswith(SPARK_PREFIX) or (key in declared() and not is_of_a_job(key))
