"""Checks the resources of a slot sharing group against what Spark has, and makes a Spark resource profile of them.

    SlotResources ─▶ check_resources ─┬─ less is there ─▶ one error, and nothing waits for ever
                                      └─ on a cluster ─▶ TaskResourceProfile of each subtask's Spark job

Spark assigns whole CPUs and amounts of other resources to a task, but memory only to executors, so a slot's memory is enforced by a limit on its processes
(``tidegate.taskmanager.spark.memory.limits``). Spark supports task profiles only on clusters: standalone, YARN, Kubernetes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.model.errors import ConfigurationError
from tidegate.model.graph import SlotResources

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile

_EXECUTOR_RESOURCE, _AMOUNT = "spark.executor.resource.", ".amount"


@dataclass(frozen=True, slots=True)
class Available:
    """Resources of one machine or executor; an attempt needs all of its resources on the same one. ``external``: amounts of external resources by name.
    ``slot_bytes``: memory of a slot, 0 if not bounded.
    """

    where: str
    cores: int
    external: Mapping[str, float]
    slot_bytes: int
    is_cluster: bool


def embedded_resources(found: str, slot_bytes: int) -> Available:
    """Returns the resources of this machine, for Spark in ``local`` mode. ``found``: its external resources by name, as JSON."""
    amounts = {name: float(len(pieces)) for name, pieces in json.loads(found).items()}
    return Available("this machine", os.cpu_count() or 1, amounts, slot_bytes, is_cluster=False)


def executor_resources(properties: Mapping[str, str], cores: int, slot_bytes: int) -> Available:
    """Returns the resources of an executor of a cluster. ``properties``: of the Spark context. ``cores``: those of the largest executor."""
    amounts = {
        key.removeprefix(_EXECUTOR_RESOURCE).removesuffix(_AMOUNT): float(text)
        for key, text in properties.items()
        if key.startswith(_EXECUTOR_RESOURCE) and key.endswith(_AMOUNT)
    }
    return Available("an executor", cores, amounts, slot_bytes, is_cluster=True)


def check_resources(resources: SlotResources, there: Available) -> None:
    """Raises ``ConfigurationError`` if ``there`` can never satisfy the resources that a slot sharing group asks for."""
    cpus = resources.cpus_of_subtask if there.is_cluster else resources.cpu_cores
    lacking = []
    if cpus > there.cores:
        lacking.append(f"{cpus:g} CPU cores{_share(resources, there)}, and {there.where} has {there.cores}")
    for name, amount in (resources.external_of_subtask if there.is_cluster else resources.external).items():
        has = there.external.get(name, 0)
        if amount > has:
            how = (
                f"set spark.executor.resource.{name}.amount" if there.is_cluster else "declare it in external-resources"
            )
            lacking.append(f"{amount:g} {name}{_share(resources, there)}, and {there.where} has {has:g}; {how}")
        elif there.is_cluster and amount > 1 and amount % 1:
            lacking.append(f"{amount:g} {name} for each subtask, which Spark gives as a whole number, or at most 1")
    if 0 < there.slot_bytes < resources.memory_bytes:
        lacking.append(
            f"{resources.memory_bytes >> 20} MiB of memory, and a slot of this TaskManager has {there.slot_bytes >> 20}; raise "
            "taskmanager.memory.process.size, or lower taskmanager.numberOfTaskSlots"
        )
    if lacking:
        raise ConfigurationError(f"slot sharing group {resources.group!r} asks for {'; for '.join(lacking)}")


def profile_of(resources: SlotResources) -> ResourceProfile:
    """Returns the Spark resource profile for the task of one subtask: its share of the slot's CPUs and external resources."""
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

    requests = TaskResourceRequests().cpus(resources.cpus_of_subtask)
    for name, amount in resources.external_of_subtask.items():
        requests = requests.resource(name, amount)
    built: ResourceProfile = ResourceProfileBuilder().require(requests).build
    return built


def _share(resources: SlotResources, there: Available) -> str:
    return (
        f" for each of {resources.vertices} subtasks in a slot" if there.is_cluster and resources.vertices > 1 else ""
    )
