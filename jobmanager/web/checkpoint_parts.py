"""The checkpoint parts of the page: the history, and how one checkpoint travelled (``tidegate.model.checkpoint_travel``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tidegate.jobmanager.machines.views import CheckpointView, JobView
from tidegate.jobmanager.rest.responses.checkpoints import find_checkpoint
from tidegate.jobmanager.web.checkpoint_causes import CheckpointCauses, missing_places
from tidegate.model.checkpoint_travel import (
    Phase,
    Track,
    critical_path,
    explained,
    job_manager_track,
    kept_aligned,
    longest_phase,
    subtask_name,
    subtask_track,
)
from tidegate.model.configuration import Configuration
from tidegate.model.options import CheckpointingOptions
from tidegate.model.values import JsonObject

MAX_MISSING = 50
"""How many missing subtasks are shown: of a thousand that wait for one the first few say as much."""
LEAST_WAIT_MS = 0.1
"""Shorter waits are noise of the clock, and are not shown."""
MAX_WAITS = 8
"""How many of the longest waits are shown."""


def checkpoints_part(job: JobView) -> JsonObject:
    """Returns the checkpoints of a job, newest first."""
    view = job.checkpoints
    option = Configuration.from_strings(job.configuration).get
    return {
        "counts": {
            "completed": view.completed,
            "failed": view.failed,
            "in_progress": view.in_progress,
            "restored": view.restored,
        },
        "interval_ms": option(CheckpointingOptions.INTERVAL),
        "timeout_ms": option(CheckpointingOptions.TIMEOUT),
        "history": [_item(checkpoint) for checkpoint in view.history],
        "beyond": [_item(checkpoint) for checkpoint in view.beyond],
        "latest": {
            "completed": _id(view.last_completed),
            "failed": _id(view.last_failed),
            "savepoint": None if view.last_savepoint is None else view.last_savepoint.location,
            "restored": None if view.last_restored is None else [view.last_restored.location, view.last_restored_ms],
        },
    }


def checkpoint_part(job: JobView, checkpoint_id: int, now_ms: int, causes: CheckpointCauses) -> JsonObject | None:
    """Returns one checkpoint as JSON for the page, with the phases of the checkpoint in each subtask that acknowledged it and in the JobManager
    (``Track``); ``None`` when the history has dropped it. Times are in ms after the trigger.
    """
    view = find_checkpoint(job.checkpoints, checkpoint_id)
    if view is None:
        return None
    numbers: dict[str, int] = {vertex.vertex_id: number for number, vertex in enumerate(job.vertices)}
    tracks = _tracks(view, job, numbers)
    manager = job_manager_track(view, max((track.end_ms for track in tracks), default=0.0))
    everybody = tracks if manager is None else [*tracks, manager]
    missing = [] if view.acknowledged >= view.expected else missing_places(job, view)
    names = [subtask_name(vertex.name, subtask.index) for vertex, subtask in missing]
    noted = causes.of(job, view)
    reasons = [noted.get((vertex.vertex_id, subtask.index), "") for vertex, subtask in missing[:MAX_MISSING]]
    return {
        **_item(view),
        "words": _words(job, tracks, explained(view, everybody, names, now_ms, _root(names, reasons))),
        "missing": names[:MAX_MISSING],
        "missing_count": len(names),
        "missing_of": {
            numbers[vertex_id]: n for vertex_id, n in Counter(vertex.vertex_id for vertex, _ in missing).items()
        },
        "open": [
            [numbers[vertex.vertex_id], subtask.index, cause]
            for (vertex, subtask), cause in zip(missing, reasons, strict=False)
        ],
        "total_ms": max([_given_up_ms(view), *(track.end_ms for track in everybody)]),
        "longest": _longest(tracks, manager),
        "manager": None if manager is None else [[phase.value, round(ms, 2)] for phase, ms in manager.spans],
        "tracks": [_track(track, numbers) for track in tracks],
        "path": [_place(track, numbers) for track in critical_path(tracks, job.graph)],
        "waits": _waits(tracks),
    }


def _words(job: JobView, tracks: Sequence[Track], explanation: str) -> str:
    is_unaligned = Configuration.from_strings(job.configuration).get(CheckpointingOptions.UNALIGNED)
    kept = kept_aligned(tracks, job.graph) if is_unaligned else ""
    return f"{explanation} {kept}." if kept else explanation


def _item(view: CheckpointView) -> JsonObject:
    return {
        "id": view.checkpoint_id,
        "type": view.snapshot_type.value,
        "status": view.status,
        "is_periodic": view.is_periodic,
        "trigger_ms": view.trigger_ms,
        "end_ms": view.end_ms,
        "size_bytes": view.size_bytes,
        "location": view.location,
        "failure": view.failure,
        "acknowledged": view.acknowledged,
        "expected": view.expected,
        "discarded": view.discarded,
        "restored": view.restored,
        "moments_ms": {
            name: None if at_ms is None else at_ms - view.trigger_ms
            for name, at_ms in (
                ("sent", view.sent_ms),
                ("sealed", view.sealed_ms),
                ("completed", view.completed_ms),
                ("confirmed", view.confirmed_ms),
            )
        },
    }


def _id(view: CheckpointView | None) -> int | None:
    return None if view is None else view.checkpoint_id


def _tracks(view: CheckpointView, job: JobView, numbers: Mapping[str, int]) -> list[Track]:
    """Returns the phases of a checkpoint (start delay, alignment, synchronous and asynchronous part, acknowledgement) in each subtask
    that acknowledged it, in the order of vertices and subtasks. ``numbers``: the position of each vertex in the job, by vertex id.
    """
    acknowledged = [part for part in view.subtasks if part.attempt.vertex_id in numbers]
    acknowledged.sort(key=lambda part: (numbers[part.attempt.vertex_id], part.attempt.subtask))
    return [
        subtask_track(
            job.vertices[numbers[part.attempt.vertex_id]].name,
            (part.attempt.vertex_id, part.attempt.subtask),
            view.trigger_ms,
            part.ack_ms,
            part.metrics,
            part.size_bytes,
        )
        for part in acknowledged
    ]


def _root(names: Sequence[str], causes: Sequence[str]) -> str:
    """Returns the cause of the first missing subtask in the order of the data, for which those after it wait."""
    return f"{names[0]}: {causes[0]}" if causes and causes[0] else ""


def _given_up_ms(view: CheckpointView) -> float:
    """Returns when a checkpoint failed, in ms after the trigger; 0 when it did not."""
    return float(view.end_ms - view.trigger_ms) if view.status == "FAILED" and view.end_ms is not None else 0.0


def _longest(tracks: Sequence[Track], manager: Track | None) -> str:
    if not tracks or manager is None:
        return ""
    return longest_phase(max(tracks, key=lambda track: track.end_ms), manager)[0].value


def _track(track: Track, numbers: Mapping[str, int]) -> list[object]:
    """Returns the numbers of vertex and subtask, five durations, bytes of state and in flight, unaligned, the channel waited for."""
    return [
        *_place(track, numbers),
        *(round(span_ms, 2) for _, span_ms in track.spans),
        track.size_bytes,
        track.in_flight_bytes,
        track.unaligned,
        track.waited_for,
    ]


def _place(track: Track, numbers: Mapping[str, int]) -> list[int]:
    assert track.place is not None
    return [numbers[track.place[0]], track.place[1]]


def _waits(tracks: Sequence[Track]) -> list[JsonObject]:
    """Returns the longest waits for a barrier, longest first."""
    waits = [(dict(track.spans)[Phase.ALIGNMENT], track) for track in tracks if track.waited_for]
    longest = sorted((wait for wait in waits if wait[0] >= LEAST_WAIT_MS), key=lambda wait: -wait[0])
    return [{"name": track.name, "wait_ms": round(ms, 2), "for": track.waited_for} for ms, track in longest[:MAX_WAITS]]
