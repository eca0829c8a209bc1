"""The rescale history of a job as in Flink's REST API (``JobRescaleDetails.java`` and related classes).

Vertices, slots and states are only in the details of one rescale, not in lists.
"""

from __future__ import annotations

from tidegate.jobmanager.rest.numbers import distribution
from tidegate.jobmanager.rest.responses.java_throwable import stack_trace
from tidegate.model.graph import JobGraph, SlotResources
from tidegate.model.ids import hex_id
from tidegate.model.rescaling.history import Rescale, Rescales, SchedulerStateSpan, TerminalState, VertexRescale
from tidegate.model.stats_summary import NO_SAMPLES
from tidegate.model.values import JsonObject

_NOT_ASKED = -1
_DEFAULT_CPUS = 1.0
"""The cores of a slot without requested resources, as in the answers about TaskManagers."""


def overview(rescales: Rescales) -> JsonObject:
    latest = {state.name.lower(): rescales.latest.get(state) for state in TerminalState}
    return {
        "rescalesCounts": _counts(rescales),
        "latest": {name: None if one is None else item(one) for name, one in latest.items()},
    }


def summary(rescales: Rescales) -> JsonObject:
    durations = {
        f"{state.name.lower()}RescalesDurationStatsInMillis": distribution(rescales.durations.get(state, NO_SAMPLES))
        for state in TerminalState
    }
    return {
        "rescalesCounts": _counts(rescales),
        "rescalesDurationStatsInMillis": distribution(rescales.all_durations),
        **durations,
    }


def item(rescale: Rescale) -> JsonObject:
    """Returns a rescale without vertices, slots and states."""
    return {
        "rescaleUuid": rescale.rescale_id,
        "resourceRequirementsUuid": rescale.requirements_id,
        "rescaleAttemptId": rescale.attempt,
        "vertices": {},
        "slots": {},
        "schedulerStates": [],
        "startTimestampInMillis": rescale.started_ms,
        "endTimestampInMillis": rescale.ended_ms,
        "terminalState": None if rescale.reason is None else rescale.reason.terminal_state.name,
        "triggerCause": rescale.trigger.name,
        "terminatedReason": None if rescale.reason is None else rescale.reason.name,
    }


def details(rescale: Rescale, graph: JobGraph) -> JsonObject:
    groups: dict[str, list[VertexRescale]] = {}
    for vertex in rescale.vertices:
        groups.setdefault(vertex.slot_sharing_group, []).append(vertex)
    resources = {vertex.slot_sharing_group: vertex.slot_resources for vertex in graph.vertices}
    return {
        **item(rescale),
        "vertices": {vertex.vertex_id: _vertex(vertex) for vertex in rescale.vertices},
        "slots": {_group_id(name): _slots(name, vertices, resources.get(name)) for name, vertices in groups.items()},
        "schedulerStates": [_span(span) for span in rescale.spans if span.left_ms is not None],
    }


def _counts(rescales: Rescales) -> JsonObject:
    over = {state.name.lower(): rescales.counts.get(state, 0) for state in TerminalState}
    return {"inProgress": rescales.in_progress, **over}


def _vertex(vertex: VertexRescale) -> JsonObject:
    return {
        "jobVertexId": vertex.vertex_id,
        "jobVertexName": vertex.name,
        "slotSharingGroupId": _group_id(vertex.slot_sharing_group),
        "slotSharingGroupName": vertex.slot_sharing_group,
        "desiredParallelism": vertex.bounds.upper,
        "sufficientParallelism": vertex.bounds.lower,
        "preRescaleParallelism": vertex.before,
        "postRescaleParallelism": vertex.after,
    }


def _slots(name: str, vertices: list[VertexRescale], resources: SlotResources | None) -> JsonObject:
    """Returns the slots of a slot sharing group: as many as its widest vertex has subtasks."""
    before = [vertex.before for vertex in vertices if vertex.before is not None]
    after = [vertex.after for vertex in vertices if vertex.after is not None]
    requested = _profile(resources)
    acquired = {**requested, "cpuCores": _DEFAULT_CPUS} if after and resources is None else requested
    return {
        "slotSharingGroupId": _group_id(name),
        "slotSharingGroupName": name,
        "requestResourceProfile": requested,
        "desiredSlots": max(vertex.bounds.upper for vertex in vertices),
        "minimalRequiredSlots": max(vertex.bounds.lower for vertex in vertices),
        "preRescaleSlots": max(before, default=None),
        "postRescaleSlots": max(after, default=None),
        "acquiredResourceProfile": acquired,
    }


def _profile(resources: SlotResources | None) -> JsonObject:
    """Returns requested resources; memory in MiB, -1 when not requested."""
    if resources is None:
        memory = ("taskHeapMemory", "taskOffHeapMemory", "managedMemory", "networkMemory")
        return {"cpuCores": float(_NOT_ASKED), **dict.fromkeys(memory, _NOT_ASKED), "extendedResources": {}}
    return {
        "cpuCores": resources.cpu_cores,
        "taskHeapMemory": resources.task_heap_bytes >> 20,
        "taskOffHeapMemory": resources.task_off_heap_bytes >> 20,
        "managedMemory": resources.managed_bytes >> 20,
        "networkMemory": _NOT_ASKED,
        "extendedResources": dict(resources.external),
    }


def _span(span: SchedulerStateSpan) -> JsonObject:
    return {
        "state": span.state.value,
        "enterTimestampInMillis": span.entered_ms,
        "leaveTimestampInMillis": span.left_ms,
        "durationInMillis": (span.left_ms or span.entered_ms) - span.entered_ms,
        "stringifiedException": None if span.error is None else stack_trace(span.error),
    }


def _group_id(name: str) -> str:
    """Returns the id of a slot sharing group, which depends on its name; Flink's are random."""
    return hex_id("slot sharing group", name)
