"""Analysis of one checkpoint's durations, and an explanation in words of what made it slow.

    trigger ─ start delay ─▶ first barrier ─ alignment ─▶ sync ─▶ async ─▶ acknowledged ┄▶ last one ─ _metadata ─▶ completed
                                                                                                     ─ confirm ─▶ known

A subtask's track is laid out from its own durations, one behind the other; what is left until its acknowledgement came is
the way there. The JobManager's track is the time until sources were triggered, from the last acknowledgement to the durable
``_metadata``, and until tasks were notified that it is complete. The command line and the web page draw the same tracks and say
the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tidegate.model.checkpoint import CheckpointMetrics
from tidegate.model.graph import JobGraph, producers_of
from tidegate.model.ids import VertexId
from tidegate.model.units import show_duration_ms, show_size_bytes

JOB_MANAGER = "JobManager"


class Phase(Enum):
    """A phase of a track."""

    START_DELAY = "start delay"
    ALIGNMENT = "alignment"
    SYNC = "sync"
    ASYNC = "async"
    ACK = "ack"
    SENT = "trigger"
    WAITING = ""
    """The JobManager waits for acknowledgements."""
    METADATA = "_metadata"
    CONFIRM = "confirm"


Span = tuple[Phase, float]
"""A phase and its duration in ms."""
Place = tuple[str, int]
"""The vertex id and index of a subtask."""


@dataclass(frozen=True, slots=True)
class Track:
    """The phases of one checkpoint in one subtask, or in the JobManager. ``spans`` follow each other, beginning ``start_ms`` after the trigger."""

    name: str
    spans: tuple[Span, ...]
    size_bytes: int | None
    start_ms: float = 0.0
    unaligned: bool = False
    waited_for: str = ""
    """The channel whose barrier came last."""
    in_flight_bytes: int = 0
    place: Place | None = None
    """The subtask; ``None``: the JobManager."""

    @property
    def end_ms(self) -> float:
        return self.start_ms + sum(span_ms for _, span_ms in self.spans)


class Moments(Protocol):
    """When the steps of a checkpoint happened at the JobManager (triggered, sent, completed, confirmed), in epoch ms; ``None``: not yet, or never."""

    @property
    def status(self) -> str: ...
    @property
    def trigger_ms(self) -> int: ...
    @property
    def sent_ms(self) -> int | None: ...
    @property
    def sealed_ms(self) -> int | None: ...
    @property
    def completed_ms(self) -> int | None: ...
    @property
    def confirmed_ms(self) -> int | None: ...
    @property
    def acknowledged(self) -> int: ...
    @property
    def expected(self) -> int: ...
    @property
    def failure(self) -> str: ...


def subtask_track(
    vertex: str, place: Place, trigger_ms: int, ack_ms: int, metrics: CheckpointMetrics, size_bytes: int
) -> Track:
    spans = [
        (Phase.START_DELAY, max(0.0, metrics.start_delay_ms)),
        (Phase.ALIGNMENT, max(0.0, metrics.alignment_ms)),
        (Phase.SYNC, max(0.0, metrics.sync_ms)),
        (Phase.ASYNC, max(0.0, metrics.async_ms)),
    ]
    way_ms = ack_ms - trigger_ms - sum(span_ms for _, span_ms in spans)
    spans.append((Phase.ACK, max(0.0, way_ms)))
    return Track(
        subtask_name(vertex, place[1]),
        tuple(spans),
        size_bytes,
        unaligned=metrics.unaligned,
        waited_for=metrics.waited_for,
        in_flight_bytes=metrics.in_flight_bytes,
        place=place,
    )


def job_manager_track(moments: Moments, last_ms: float) -> Track | None:
    """Returns the JobManager's track; ``None`` until the checkpoint is complete. ``last_ms``: when the last acknowledgement arrived, after the trigger."""
    if moments.completed_ms is None:
        return None
    trigger_ms = moments.trigger_ms
    sent_ms = 0.0 if moments.sent_ms is None else float(max(0, moments.sent_ms - trigger_ms))
    sealed_ms = last_ms if moments.sealed_ms is None else float(moments.sealed_ms - trigger_ms)
    completed_ms = max(sealed_ms, float(moments.completed_ms - trigger_ms))
    confirmed_ms = completed_ms if moments.confirmed_ms is None else float(moments.confirmed_ms - trigger_ms)
    spans = (
        (Phase.SENT, sent_ms),
        (Phase.WAITING, max(0.0, sealed_ms - sent_ms)),
        (Phase.METADATA, completed_ms - sealed_ms),
        (Phase.CONFIRM, max(0.0, confirmed_ms - completed_ms)),
    )
    return Track(JOB_MANAGER, spans, None)


def explained(moments: Moments, tracks: Sequence[Track], missing: Sequence[str], now_ms: int, cause: str = "") -> str:
    """Explains in one line what a checkpoint spent its time on, or what it waits for. ``tracks``: the JobManager's, if there is one, is the last.
    ``cause``: why the first of the missing subtasks has not acknowledged, if known."""
    why = f" {cause}." if cause else ""
    if moments.status == "FAILED":
        late = len([track for track in tracks if track.place is not None]) - moments.acknowledged
        waited = f"; {late} acknowledged too late" if late > 0 else ""
        if moments.acknowledged + max(0, late) < moments.expected:
            waited += f"; no acknowledgement of {_listed(missing)}"
        return f"It failed: {(moments.failure or 'no reason is known').rstrip('.')}{waited}.{why}"
    if moments.completed_ms is None:
        waits_for = "_metadata to be written" if moments.acknowledged >= moments.expected else _listed(missing)
        return (
            f"In progress for {show_duration_ms(max(0, now_ms - moments.trigger_ms))}: it waits for {waits_for}.{why}"
        )
    subtasks = [track for track in tracks if track.name != JOB_MANAGER]
    total_ms = float(moments.completed_ms - moments.trigger_ms)
    if not subtasks or total_ms <= 0:
        return f"It took {milliseconds(max(0.0, total_ms))}."
    last = max(subtasks, key=lambda track: track.end_ms)
    phase, span_ms = longest_phase(last, tracks[-1])
    share = min(100, round(100 * span_ms / total_ms))
    return f"{milliseconds(span_ms)} of {milliseconds(total_ms)} ({share} %): {_reason(phase, last)}."


def kept_aligned(tracks: Sequence[Track], graph: JobGraph) -> str:
    """Explains which input makes all inputs of a vertex aligned, where the last subtask of a job with unaligned checkpoints aligned for longer than
    anything else; empty otherwise. ``tracks``: of subtasks."""
    placed = [track for track in tracks if track.place is not None]
    last = max(placed, key=lambda track: track.end_ms, default=None)
    if last is None or last.place is None or not last.spans:
        return ""
    vertex_id = VertexId(last.place[0])
    if max(last.spans, key=lambda span: span[1])[0] is not Phase.ALIGNMENT:
        return ""
    inputs = graph.inputs_of(vertex_id)
    forcing = [edge for edge in inputs if edge.partitioner.forces_alignment]
    if not forcing or len(forcing) == len(inputs):
        return ""
    edge = forcing[0]
    return (
        f"All inputs of {graph.vertex(vertex_id).name} are aligned although unaligned checkpoints are on, since that from "
        f"{graph.vertex(edge.source).name} is {edge.partitioner.value.lower()}"
    )


def longest_phase(last: Track, job_manager: Track) -> Span:
    """Returns the longest phase of the subtask that acknowledged last and of the JobManager."""
    sent_ms = dict(job_manager.spans).get(Phase.SENT, 0.0)
    spans = [(phase, span_ms - sent_ms if phase is Phase.START_DELAY else span_ms) for phase, span_ms in last.spans]
    spans += [span for span in job_manager.spans if span[0] in (Phase.SENT, Phase.METADATA)]
    return max(spans, key=lambda span: span[1])


def critical_path(tracks: Sequence[Track], graph: JobGraph) -> list[Track]:
    """Returns the critical path: from a source to the subtask that acknowledged last, each waiting for the barrier of the previous one.

    A subtask with one channel waited for that one; with several it has said whose barrier came last. Where neither is known
    (one that did not align, a source) the path begins."""
    by_place = {track.place: track for track in tracks if track.place is not None}
    if not by_place:
        return []
    path = [max(by_place.values(), key=lambda track: track.end_ms)]
    while (found := _before(path[-1], by_place, graph)) is not None and found not in path:
        path.append(found)
    return path[::-1]


def _before(track: Track, by_place: Mapping[Place, Track], graph: JobGraph) -> Track | None:
    assert track.place is not None
    vertex_id, index = track.place
    target = next((vertex for vertex in graph.vertices if vertex.vertex_id == vertex_id), None)
    if target is None:
        return None
    channels: list[Track | None] = []
    for edge in graph.inputs_of(target.vertex_id):
        source = graph.vertex(edge.source)
        for producer in producers_of(edge.partitioner, source.parallelism, target.parallelism, index):
            channel = by_place.get((source.vertex_id, producer))
            if track.waited_for and track.waited_for == channel_name(source.name, producer, source.parallelism):
                return channel
            channels.append(channel)
    return channels[0] if len(channels) == 1 else None


def milliseconds(span_ms: float) -> str:
    """Formats a duration, with tenths below 10 ms."""
    return f"{span_ms:.1f}ms" if 0 < span_ms < 10 else show_duration_ms(round(span_ms))


def subtask_name(vertex: str, index: int) -> str:
    """Returns a subtask's name with its number from 1, as in Flink."""
    return f"{vertex} ({index + 1})"


def channel_name(vertex: str, index: int, parallelism: int) -> str:
    """Returns the name of a channel, by which subtasks say for which one they waited."""
    return f"{vertex} ({index + 1}/{parallelism})"


def _reason(phase: Phase, last: Track) -> str:
    match phase:
        case Phase.START_DELAY:
            return f"the barrier took so long to reach {last.name}, behind what was queued or in work before it"
        case Phase.ALIGNMENT:
            if last.waited_for:
                return f"{last.name} waited for the barrier from {last.waited_for}"
            return f"{last.name} waited for the barriers of its other input channels"
        case Phase.SYNC:
            return f"{last.name} stopped for so long to freeze its state"
        case Phase.ASYNC:
            in_flight = f", {show_size_bytes(last.in_flight_bytes)} of it in flight" if last.in_flight_bytes else ""
            return f"{last.name} wrote {show_size_bytes(last.size_bytes or 0)} of state{in_flight}"
        case Phase.ACK:
            return f"the acknowledgement of {last.name} was on its way to the JobManager"
        case Phase.SENT:
            return "the JobManager made the checkpoint's directory before it triggered the sources"
        case _:
            return "the JobManager wrote _metadata after the last acknowledgement"


def _listed(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "a subtask") + more
