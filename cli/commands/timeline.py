"""Draws one checkpoint as a timeline in the terminal (``tidegate.model.checkpoint_travel`` defines what is drawn).

subtask  ·······           ▒▒▒▒▒▒▒▒      ████       ▓▓▓▓▓      ─────
         start delay       alignment     sync       async      way of the acknowledgement
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from rich.table import Table
from rich.text import Text

from tidegate.cli.tables import make_table, size
from tidegate.model import checkpoint_travel as travel
from tidegate.model.checkpoint_travel import Phase, Track, milliseconds, subtask_name
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.convert import checkpoint_metrics_from_pb

SUBTASKS_SHOWN = 40
"""How many of the slowest subtasks are shown: a screen of bars."""
MIN_BAR, MAX_BAR = 12, 72
_METRICS_WIDTH = 50
"""Characters of a line that are neither name nor bar."""
_NAME_CHARACTERS = 32
"""The longest name: that of a vertex of a few chained operators."""
_NARROW, _NARROW_NAME_CHARACTERS = 110, 12
_UNALIGNED = " U"
_LEAST_WAIT_MS = 0.1
"""Shorter waits are noise of the clock, and are not shown."""
_WAITED_CHARACTERS = len(" waited 12.3ms for ")


_LOOKS = {
    Phase.START_DELAY: ("·", "yellow"),
    Phase.ALIGNMENT: ("▒", "red"),
    Phase.SYNC: ("█", "magenta"),
    Phase.ASYNC: ("▓", "blue"),
    Phase.ACK: ("─", "cyan"),
    Phase.SENT: ("─", "cyan"),
    Phase.WAITING: (" ", ""),
    Phase.METADATA: ("▓", "green"),
    Phase.CONFIRM: ("─", "green"),
}
"""The character and colour of each phase in a bar."""


def tracks_of(checkpoint: pb.CheckpointStatus, vertex_names: Mapping[str, str]) -> list[Track]:
    """Returns a track for each subtask that acknowledged, in the order of the vertices, then the JobManager's."""
    order = {vertex_id: at for at, vertex_id in enumerate(vertex_names)}
    acknowledged = sorted(checkpoint.subtasks, key=lambda s: (order.get(s.vertex_id, len(order)), s.index))
    tracks = [
        travel.subtask_track(
            vertex_names.get(s.vertex_id, s.vertex_id[:8]),
            (s.vertex_id, s.index),
            checkpoint.trigger_ms,
            s.ack_ms,
            checkpoint_metrics_from_pb(s.metrics),
            s.size_bytes,
        )
        for s in acknowledged
        if s.ack_ms
    ]
    last = travel.job_manager_track(_Moments(checkpoint), max((track.end_ms for track in tracks), default=0.0))
    return [*tracks, last] if last is not None else tracks


def waits(tracks: Sequence[Track], width: int, most: int = 5) -> list[str]:
    """Describes which channels were waited for, the longest waits first."""
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
    """Returns the names of running subtasks that have not acknowledged."""
    there = {(s.vertex_id, s.index) for s in checkpoint.subtasks if s.ack_ms}
    return [
        subtask_name(vertex.name, subtask.index)
        for vertex in vertices
        for subtask in vertex.subtasks
        if subtask.state != "FINISHED" and (vertex.vertex_id, subtask.index) not in there
    ]


def make_timeline(tracks: Sequence[Track], width: int) -> Table:
    """Returns the table of bars. ``width``: of the terminal. Of many subtasks those that took longest are shown."""
    subtasks = sorted(tracks, key=lambda track: -track.end_ms)[:SUBTASKS_SHOWN]
    total_ms = max((track.end_ms for track in tracks), default=0.0)
    names = _NAME_CHARACTERS if width >= _NARROW else _NARROW_NAME_CHARACTERS
    longest = min(names, max((len(track.name) for track in tracks), default=0)) + len(_UNALIGNED)
    cells = min(MAX_BAR, max(MIN_BAR, width - _METRICS_WIDTH - longest))
    table = make_table("subtask", "start", "align", "sync", "async", "ack at", "size", f"0 to {milliseconds(total_ms)}")
    table.padding = (0, 0, 0, 1)
    for column in table.columns[1:7]:
        column.justify, column.no_wrap = "right", True
    table.columns[0].no_wrap = table.columns[7].no_wrap = True
    for track in tracks:
        if track in subtasks:
            spans = dict(track.spans)
            durations = [
                milliseconds(spans[phase]) if phase in spans else ""
                for phase in (Phase.START_DELAY, Phase.ALIGNMENT, Phase.SYNC, Phase.ASYNC)
            ]
            size_text = "" if track.size_bytes is None else size(track.size_bytes)
            name = Text(_shortened(track.name, names) + (_UNALIGNED if track.unaligned else ""))
            table.add_row(name, *durations, milliseconds(track.end_ms), size_text, bar(track, total_ms, cells))
    return table


def bar(track: Track, total_ms: float, cells: int) -> Text:
    """Draws a track at its position; a phase that is shorter than half a cell may be invisible."""
    text = Text()
    if total_ms <= 0:
        return text
    ends_ms = [0.0, track.start_ms]
    for _, span_ms in track.spans:
        ends_ms.append(ends_ms[-1] + span_ms)
    edges = [round(end_ms / total_ms * cells) for end_ms in ends_ms]
    looks = [(" ", ""), *(_LOOKS[phase] for phase, _ in track.spans)]
    for (start, end), (character, colour) in zip(pairwise(edges), looks, strict=True):
        text.append(character * (end - start), style=colour)
    return text


def legend(tracks: Sequence[Track]) -> Text:
    text = Text()
    for phase in Phase:
        if phase is Phase.WAITING:
            continue
        character, colour = _LOOKS[phase]
        text.append(character, style=colour)
        text.append(f" {phase.value} ")
    if any(track.unaligned for track in tracks):
        text.append("\nU unaligned: the barrier overtook data")
    return text


def explained(checkpoint: pb.CheckpointStatus, tracks: Sequence[Track], missing: Sequence[str], now_ms: int) -> str:
    """Explains in one line where the time went, or what the checkpoint waits for."""
    return travel.explained(_Moments(checkpoint), tracks, missing, now_ms)


class _Moments:
    """Adapts a status to `travel.Moments`; absent times are ``None``."""

    def __init__(self, checkpoint: pb.CheckpointStatus) -> None:
        self.status, self.failure = checkpoint.status, checkpoint.failure
        self.acknowledged, self.expected = checkpoint.acknowledged, checkpoint.expected
        self.trigger_ms = checkpoint.trigger_ms
        self.sent_ms = checkpoint.sent_ms if checkpoint.HasField("sent_ms") else None
        self.sealed_ms = checkpoint.sealed_ms if checkpoint.HasField("sealed_ms") else None
        self.completed_ms = checkpoint.completed_ms if checkpoint.HasField("completed_ms") else None
        self.confirmed_ms = checkpoint.confirmed_ms if checkpoint.HasField("confirmed_ms") else None


def _shortened(name: str, characters: int) -> str:
    """Shortens a name; the number of its subtask stays."""
    if len(name) > characters:
        name = name.removeprefix("Source: ")  # the rest of the name says more
    if len(name) <= characters:
        return name
    head, _, number = name.rpartition(" ")
    return f"{head[: max(1, characters - len(number) - 4)]}... {number}"
