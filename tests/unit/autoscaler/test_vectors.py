"""The decisions of Flink's own autoscaler, recorded from its Java classes on random jobs: this one decides the same.

Each case is a job over five windows. Between them it was changed by what had been decided, so that history and delays count. Recorded with
flink-kubernetes-operator at 1.16-SNAPSHOT by ``ScalingMetricEvaluator.computeEvaluatedMetrics`` and ``ScalingExecutor.computeScalingSummary``.
"""

from __future__ import annotations

import gzip
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tidegate.autoscaler.machines.autoscaler_settings import AutoscalerSettings, autoscaler_settings
from tidegate.autoscaler.machines.job_autoscaler import Cycle, JobAutoscaler, JobSample
from tidegate.autoscaler.machines.samples import Collected, GlobalMetrics, Topology, Vertex, VertexMetrics
from tidegate.model.configuration import Configuration

RECORDED = Path(__file__).with_name("vectors.json.gz")
_NAMES = {
    "NUM_RECORDS_IN": "records_in",
    "NUM_RECORDS_OUT": "records_out",
    "NUM_RECORDS_IN_PER_SECOND": "records_in_per_second",
    "LOAD": "load",
    "ACCUMULATED_BUSY_TIME": "accumulated_busy_ms",
    "LAG": "lag",
    "OBSERVED_TPR": "observed_rate",
}


@cache
def recorded() -> list[dict[str, Any]]:
    with gzip.open(RECORDED, "rt") as file:
        found: list[dict[str, Any]] = json.load(file)
    return found


def topology_of(step: dict[str, Any]) -> Topology:
    return Topology.of(
        Vertex(v["id"], v["parallelism"], v["max"], inputs=v["inputs"], partitions=v["partitions"])
        for v in step["vertices"]
    )


def collected_of(sample: dict[str, Any]) -> Collected:
    vertices = {
        vertex_id: VertexMetrics(**{_NAMES[name]: value for name, value in metrics.items()})
        for vertex_id, metrics in sample["vertices"].items()
    }
    return Collected(vertices, GlobalMetrics(sample["gc"], sample["heap"]))


def play(autoscaler: JobAutoscaler, settings: AutoscalerSettings, step: dict[str, Any]) -> Cycle:
    """The last cycle of a window: the others decide nothing, since it was not full."""
    began = step["samples"][0]["at"]
    for sample in step["samples"]:
        cycle = autoscaler.on_sample(settings, JobSample(began, topology_of(step), collected_of(sample)), sample["at"])
        if sample is not step["samples"][-1]:
            assert not cycle.scaled
    return cycle


def same(found: float, recorded: float) -> bool:
    return math.isclose(found, recorded, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(found) and math.isnan(recorded))


@pytest.mark.parametrize("number", range(160))
def test_it_decides_as_flinks_autoscaler_does(number: int) -> None:
    case = recorded()[number]
    settings = autoscaler_settings(Configuration.from_strings(case["settings"]))
    autoscaler = JobAutoscaler()
    for step in case["steps"]:
        cycle = play(autoscaler, settings, step)
        for vertex_id, right in step["evaluated"].items():
            of = cycle.evaluated[vertex_id]
            found = {
                "target": of.target_data_rate,
                "catch_up": of.catch_up_data_rate,
                "rate": of.true_processing_rate,
                "load": of.load,
                "up": of.scale_up_threshold,
                "down": of.scale_down_threshold,
            }
            for name, value in found.items():
                assert same(value, right[name]), f"{vertex_id} {name}: {value}, and Flink's is {right[name]}"
        assert {vertex_id: scaling.new for vertex_id, scaling in cycle.scaled.items()} == step["decided"]


def test_the_recording_holds_changes_up_and_down_and_none() -> None:
    steps = [step for case in recorded() for step in case["steps"]]
    before = [{v["id"]: v["parallelism"] for v in step["vertices"]} for step in steps]
    pairs = [(old[v], new) for step, old in zip(steps, before, strict=True) for v, new in step["decided"].items()]
    assert sum(new > old for old, new in pairs) > 100
    assert sum(new < old for old, new in pairs) > 100
    assert sum(not step["decided"] for step in steps) > 100
