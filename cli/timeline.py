"""One checkpoint as a timeline, and what made it slow.

    trigger ─ start delay ─▶ first barrier ─ alignment ─▶ sync ─▶ async ─▶ acknowledged ┄▶ last one ─ _metadata ─▶ completed
               ·······           ▒▒▒▒▒▒▒▒      ████       ▓▓▓▓▓      ─────                                  ─ confirm ─▶ told

A subtask's bar is laid out from its own durations, one behind the other; what is left until its acknowledgement came is
the way there. The JobManager's bar is the time until sources were told, from the last acknowledgement to the durable
``_metadata``, and until tasks were told that it is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from rich.table import Table
from rich.text import Text

from cli.tables import duration, make_table, size
from tidegate.pb import jobmanager_pb2 as pb

SUBTASKS_SHOWN = 40
MIN_BAR, MAX_BAR = 12, 72
_FIGURES_WIDTH = 50
"""Characters of a line that are neither name nor bar."""
_NAME_CHARACTERS = 32
_NARROW, _NARROW_NAME_CHARACTERS = 110, 12
_UNALIGNED = " U"
_LEAST_WAIT_MS = 0.1
_WAITED_CHARACTERS = len(" waited 12.3ms for ")


class Phase(Enum):
    """Name, character and colour of a part of a bar."""

    START_DELAY = ("start delay", "·", "yellow")
    ALIGNMENT = ("alignment", "▒", "red")
    SYNC = ("sync", "█", "magenta")
    ASYNC = ("async", "▓", "blue")
    ACK = ("ack", "─", "cyan")
    SENT = ("trigger", "─", "cyan")
    WAITING = ("", " ", "")
    """The JobManager has nothing to do."""
    METADATA = ("_metadata", "▓", "green")
    CONFIRM = ("confirm", "─", "green")

    @property
    def label(self) -> str:
        return self.value[0]


Span = tuple[Phase, float]
"""A phase and how long it took, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Track:
    """One line of the picture. ``spans`` follow each other from ``start_ms`` on (after the trigger)."""

    name: str
    spans: tuple[Span, ...]
    size_bytes: int | None
    start_ms: float = 0.0
    unaligned: bool = False
    waited_for: str = ""
    """The channel whose barrier came last."""
    in_flight_bytes: int = 0

    @property
    def end_ms(self) -> float:
        return self.start_ms + sum(span_ms for _, span_ms in self.spans)


def tracks_of(checkpoint: pb.CheckpointStatus, vertex_names: Mapping[str, str]) -> list[Track]:
    """One for each subtask that acknowledged, in the order of the vertices, then the JobManager's."""
    order = {vertex_id: at for at, vertex_id in enumerate(vertex_names)}
    acknowledged = sorted(checkpoint.subtasks, key=lambda s: (order.get(s.vertex_id, len(order)), s.index))
    tracks = [_track(s, checkpoint.trigger_ms, vertex_names) for s in acknowledged if s.ack_ms]
    if checkpoint.HasField("completed_ms"):
        last_ms = max((track.end_ms for track in tracks), default=0.0)
        tracks.append(_job_manager(checkpoint, last_ms))
    return tracks


def _job_manager(checkpoint: pb.CheckpointStatus, last_ms: float) -> Track:
    """``last_ms``: when the last acknowledgement came, after the trigger."""
    trigger_ms = checkpoint.trigger_ms
    sent_ms = float(max(0, checkpoint.sent_ms - trigger_ms)) if checkpoint.HasField("sent_ms") else 0.0
    sealed_ms = float(checkpoint.sealed_ms - trigger_ms) if checkpoint.HasField("sealed_ms") else last_ms
    completed_ms = max(sealed_ms, float(checkpoint.completed_ms - trigger_ms))
    confirmed_ms = float(checkpoint.confirmed_ms - trigger_ms) if checkpoint.HasField("confirmed_ms") else completed_ms
    spans = (
        (Phase.SENT, sent_ms),
        (Phase.WAITING, max(0.0, sealed_ms - sent_ms)),
        (Phase.METADATA, completed_ms - sealed_ms),
        (Phase.CONFIRM, max(0.0, confirmed_ms - completed_ms)),
    )
    return Track("JobManager", spans, None)


def waits(tracks: Sequence[Track], width: int, most: int = 5) -> list[str]:
    """Which channels were waited for, the longest waits first."""
    fits = max(_NARROW_NAME_CHARACTERS, (width - _WAITED_CHARACTERS) // 2)
    waited = [(dict(track.spans).get(Phase.ALIGNMENT, 0.0), track) for track in tracks if track.waited_for]
    waited = sorted((w for w in waited if w[0] >= _LEAST_WAIT_MS), key=lambda w: -w[0])
    lines = [
        f"{_shortened(track.name, fits)} waited {milliseconds(wait_ms)} for {_shortened(track.waited_for, fits)}"
        for wait_ms, track in waited[:most]
    ]
    more = len(waited) - most
    return [*lines, f"... and {more} more waits"] if more > 0 else lines


def missing_of(checkpoint: pb.CheckpointStatus, vertices: Sequence[pb.VertexStatus]) -> list[str]:
    """Subtasks that run and have not acknowledged."""
    there = {(s.vertex_id, s.index) for s in checkpoint.subtasks if s.ack_ms}
    return [
        _name(vertex.name, subtask.index)
        for vertex in vertices
        for subtask in vertex.subtasks
        if subtask.state != "FINISHED" and (vertex.vertex_id, subtask.index) not in there
    ]


def make_timeline(tracks: Sequence[Track], width: int) -> Table:
    """``width``: of the terminal. Of many subtasks those that took longest are shown."""
    subtasks = sorted(tracks, key=lambda track: -track.end_ms)[:SUBTASKS_SHOWN]
    total_ms = max((track.end_ms for track in tracks), default=0.0)
    names = _NAME_CHARACTERS if width >= _NARROW else _NARROW_NAME_CHARACTERS
    longest = min(names, max((len(track.name) for track in tracks), default=0)) + len(_UNALIGNED)
    cells = min(MAX_BAR, max(MIN_BAR, width - _FIGURES_WIDTH - longest))
    table = make_table("subtask", "start", "align", "sync", "async", "ack at", "size", f"0 to {milliseconds(total_ms)}")
    table.padding = (0, 0, 0, 1)
    for column in table.columns[1:7]:
        column.justify, column.no_wrap = "right", True
    table.columns[0].no_wrap = table.columns[7].no_wrap = True
    for track in tracks:
        if track in subtasks:
            spans = dict(track.spans)
            figures = [
                milliseconds(spans[phase]) if phase in spans else ""
                for phase in (Phase.START_DELAY, Phase.ALIGNMENT, Phase.SYNC, Phase.ASYNC)
            ]
            size_text = "" if track.size_bytes is None else size(track.size_bytes)
            name = Text(_shortened(track.name, names) + (_UNALIGNED if track.unaligned else ""))
            table.add_row(name, *figures, milliseconds(track.end_ms), size_text, bar(track, total_ms, cells))
    return table


def bar(track: Track, total_ms: float, cells: int) -> Text:
    """The track at its place; a phase that is shorter than half a cell may not be seen."""
    text = Text()
    if total_ms <= 0:
        return text
    ends_ms = [0.0, track.start_ms]
    for _, span_ms in track.spans:
        ends_ms.append(ends_ms[-1] + span_ms)
    edges = [round(end_ms / total_ms * cells) for end_ms in ends_ms]
    looks = [(" ", ""), *((phase.value[1], phase.value[2]) for phase, _ in track.spans)]
    for (start, end), (character, colour) in zip(pairwise(edges), looks, strict=True):
        text.append(character * (end - start), style=colour)
    return text


def legend(tracks: Sequence[Track]) -> Text:
    text = Text()
    for phase in Phase:
        if phase is Phase.WAITING:
            continue
        label, character, colour = phase.value
        text.append(character, style=colour)
        text.append(f" {label} ")
    if any(track.unaligned for track in tracks):
        text.append("\nU unaligned: the barrier overtook data")
    return text


def explained(checkpoint: pb.CheckpointStatus, tracks: Sequence[Track], missing: Sequence[str], now_ms: int) -> str:
    """In one line: where the time went, or what it waits for."""
    if checkpoint.status == "FAILED":
        waited = f"; no acknowledgement of {_listed(missing)}" if checkpoint.acknowledged < checkpoint.expected else ""
        return f"It failed: {checkpoint.failure or 'no reason is known'}{waited}."
    if not checkpoint.HasField("completed_ms"):
        waits_for = _listed(missing) if checkpoint.acknowledged < checkpoint.expected else "_metadata to be written"
        return f"In progress for {duration(max(0, now_ms - checkpoint.trigger_ms))}: it waits for {waits_for}."
    subtasks = [track for track in tracks if track.name != "JobManager"]
    total_ms = float(checkpoint.completed_ms - checkpoint.trigger_ms)
    if not subtasks or total_ms <= 0:
        return f"It took {milliseconds(max(0.0, total_ms))}."
    last = max(subtasks, key=lambda track: track.end_ms)
    sent_ms = dict(tracks[-1].spans).get(Phase.SENT, 0.0)
    spans = [(phase, span_ms - sent_ms if phase is Phase.START_DELAY else span_ms) for phase, span_ms in last.spans]
    spans += [span for span in tracks[-1].spans if span[0] in (Phase.SENT, Phase.METADATA)]
    phase, span_ms = max(spans, key=lambda span: span[1])
    share = min(100, round(100 * span_ms / total_ms))
    return f"{milliseconds(span_ms)} of {milliseconds(total_ms)} ({share} %): {_reason(phase, last)}."


def milliseconds(span_ms: float) -> str:
    """As ``duration``, with tenths below 10 ms."""
    return f"{span_ms:.1f}ms" if 0 < span_ms < 10 else duration(round(span_ms))


def _track(subtask: pb.SubtaskCheckpoint, trigger_ms: int, vertex_names: Mapping[str, str]) -> Track:
    metrics = subtask.metrics
    spans = [
        (Phase.START_DELAY, max(0.0, metrics.start_delay_ms)),
        (Phase.ALIGNMENT, max(0.0, metrics.alignment_ms)),
        (Phase.SYNC, max(0.0, metrics.sync_ms)),
        (Phase.ASYNC, max(0.0, metrics.async_ms)),
    ]
    way_ms = subtask.ack_ms - trigger_ms - sum(span_ms for _, span_ms in spans)
    spans.append((Phase.ACK, max(0.0, way_ms)))
    name = _name(vertex_names.get(subtask.vertex_id, subtask.vertex_id[:8]), subtask.index)
    return Track(
        name,
        tuple(spans),
        subtask.size_bytes,
        unaligned=metrics.unaligned,
        waited_for=metrics.waited_for,
        in_flight_bytes=metrics.in_flight_bytes,
    )


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
            in_flight = f", {size(last.in_flight_bytes)} of it in flight" if last.in_flight_bytes else ""
            return f"{last.name} wrote {size(last.size_bytes or 0)} of state{in_flight}"
        case Phase.ACK:
            return f"the acknowledgement of {last.name} was on its way to the JobManager"
        case Phase.SENT:
            return "the JobManager made the checkpoint's directory before it told the sources"
        case _:
            return "the JobManager wrote _metadata after the last acknowledgement"


def _name(vertex: str, index: int) -> str:
    """As Flink counts: from 1."""
    return f"{vertex} ({index + 1})"


def _shortened(name: str, characters: int) -> str:
    """Its subtask's number stays."""
    if len(name) > characters:
        name = name.removeprefix("Source: ")  # what comes behind it tells more
    if len(name) <= characters:
        return name
    head, _, number = name.rpartition(" ")
    return f"{head[: max(1, characters - len(number) - 4)]}... {number}"


def _listed(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "a subtask") + more
