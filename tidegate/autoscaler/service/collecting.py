"""Collects a sample of a job from REST (Flink: ``RestApiMetricsCollector.java``), and requests its new parallelism."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tidegate.autoscaler.machines.autoscaler_settings import AutoscalerSettings
from tidegate.autoscaler.machines.derived import (
    GC_TIME,
    HEAP_MAX,
    HEAP_USED,
    Read,
    global_metrics,
    vertex_metrics,
    wanted_names,
)
from tidegate.autoscaler.machines.job_autoscaler import JobSample
from tidegate.autoscaler.machines.samples import Collected, Topology, Vertex
from tidegate.autoscaler.service.rest import RestClient
from tidegate.model.errors import ExternalError
from tidegate.model.values import Json

_PARTITION = re.compile(r"^.*[._]KafkaSourceReader[._]topic[._](.+)[._]partition[._](\d+)\.currentOffset$")
"""Matches the metrics of Kafka partitions. Some REST APIs replace dots in an operator's scope by underscores."""
Observed = Callable[[str], float]
"""Returns the average of the observed true processing rates of a vertex."""


def collect(rest: RestClient, job_id: str, settings: AutoscalerSettings, observed: Observed) -> JobSample | None:
    """Collects a sample of a job; ``None`` when it is not running. Raises ``ExternalError`` and ``Unreachable``."""
    details = rest.job(job_id)
    if details["state"] != "RUNNING":
        return None
    inputs = _inputs_of(details["plan"])
    vertices, metrics = [], {}
    for found in details["vertices"]:
        vertex_id, is_finished = str(found["id"]), found["status"] == "FINISHED"
        names = [] if is_finished else rest.metric_names(job_id, vertex_id)
        vertex = Vertex(
            vertex_id,
            parallelism=int(found["parallelism"]),
            max_parallelism=int(found["maxParallelism"]),
            inputs=inputs[vertex_id],
            partitions=len({match.groups() for name in names if (match := _PARTITION.match(name))}),
            is_finished=is_finished,
            name=str(found["name"]),
        )
        wanted = wanted_names(names, is_source=vertex.is_source)
        counted = found["metrics"]
        read = Read(
            float(counted["read-records"]),
            float(counted["write-records"]),
            float(counted["accumulated-busy-time"]),
            rest.vertex_metrics(job_id, vertex_id, wanted),
        )
        vertices.append(vertex)
        metrics[vertex_id] = vertex_metrics(
            settings,
            read,
            is_source=vertex.is_source,
            is_finished=is_finished,
            observed=lambda of=vertex_id: observed(of),  # type: ignore[misc]
        )
    of_all = global_metrics(rest.task_manager_metrics([GC_TIME, HEAP_USED, HEAP_MAX]))
    running_ms = int(details["timestamps"]["RUNNING"])
    return JobSample(running_ms, Topology.of(vertices), Collected(metrics, of_all))


def realize(rest: RestClient, job_id: str, parallelism: Mapping[str, int]) -> bool:
    """Requests the parallelisms of a job unless they were requested before; returns whether it did. The lower bound is 1, as in Flink's
    ``RescaleApiScalingRealizer``: a job that gets fewer slots runs with those. Raises ``ExternalError`` and ``Unreachable``."""
    requirements = rest.upper_bounds(job_id)
    if not parallelism.keys() <= requirements.keys():
        raise ExternalError(
            f"the vertices of job {job_id} have changed since its parallelism was decided, so nothing is changed"
        )
    wanted = {
        vertex_id: {"parallelism": {"lowerBound": 1, "upperBound": parallelism[vertex_id]}}
        if vertex_id in parallelism
        else before
        for vertex_id, before in requirements.items()
    }
    if wanted == requirements:
        return False
    rest.require(job_id, wanted)
    return True


def _inputs_of(plan: Json) -> Mapping[str, Mapping[str, str]]:
    """Returns the ship strategy of each input, by vertex and by the vertex from which it comes."""
    return {
        str(node["id"]): {str(edge["id"]): str(edge["ship_strategy"]) for edge in node.get("inputs", ())}
        for node in plan["nodes"]
    }
