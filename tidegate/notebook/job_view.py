"""Renders a job for a notebook: its state, rates, checkpoints and vertices as HTML, from the status of the JobManager."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tidegate.model.states import JobState
from tidegate.notebook.graph_svg import DrawnEdge, DrawnNode, graph_svg
from tidegate.pb import jobmanager_pb2 as pb

_COLORS = {
    "RUNNING": "#3f9a5a", "FINISHED": "#3b76c4", "FAILED": "#b8443f", "FAILING": "#b8443f", "RESTARTING": "#d9722e",
    "CANCELED": "#8a8f98", "CANCELLING": "#8a8f98", "CREATED": "#8a8f98", "INITIALIZING": "#d9722e",
}  # fmt: skip
_OTHER = "#8a8f98"
_TASK_STATES = ("FAILED", "INITIALIZING", "DEPLOYING", "SCHEDULED", "RUNNING", "CANCELING", "CANCELED", "FINISHED")
"""States of subtasks: the first one that a subtask of a vertex has determines the vertex's color, as in Flink's web UI."""
_PENDING = ".pendingRecords"


def job_html(
    status: pb.JobStatus,
    edges: Sequence[DrawnEdge],
    sources: frozenset[str],
    rate: float | None,
    page: str,
    now_ms: int,
) -> str:
    """Renders a job as HTML. ``edges``: from vertex to vertex, by their ids; ``sources``: ids of vertices; ``rate``: records that these read per
    second; ``page``: the URL of the job's page, or empty."""
    color = _COLORS.get(status.state, _OTHER)
    end_ms = status.end_ms if status.HasField("end_ms") else now_ms
    link = f' <a href="{escape(page, quote=True)}" target="_blank" rel="noopener">page</a>' if page else ""
    failure = ""
    if status.HasField("failure"):
        over = JobState(status.state).is_terminal
        text = status.failure.message.splitlines()[0][:300] if status.failure.message else status.failure.code
        failure = f'<div style="color:#b8443f;margin-top:4px">{"" if over else "last failure: "}{escape(text)}</div>'
    nodes = [_node(vertex) for vertex in status.vertices]
    return (
        '<div style="border:1px solid rgba(128,128,128,.35);border-radius:8px;padding:8px 12px;font-family:system-ui,sans-serif;font-size:13px">'
        f'<div><b>{escape(status.name)}</b> <span style="background:{color};color:#fff;border-radius:4px;padding:1px 7px;font-size:11px">'
        f'{escape(status.state)}</span> <span style="opacity:.7">{_seconds(end_ms - status.start_ms)}</span>{link}</div>'
        f'<div style="margin:4px 0 6px">{escape(" · ".join(facts(status, sources, rate)))}</div>'
        f"{graph_svg(nodes, edges)}{failure}</div>"
    )


def facts(status: pb.JobStatus, sources: frozenset[str], rate: float | None) -> list[str]:
    """Returns short texts about a job: rate, records, pending records, checkpoints, restarts, and what it waits for."""
    subtasks = [subtask for vertex in status.vertices if vertex.vertex_id in sources for subtask in vertex.subtasks]
    found = [] if rate is None else [f"{rate:,.0f} records/s"]
    found.append(f"{_counted(sum(subtask.metrics.records_in for subtask in subtasks))} read")
    pending = [value for one in subtasks for name, value in one.metrics.user.items() if name.endswith(_PENDING)]
    if pending:
        found.append(f"{sum(pending):,.0f} records behind")
    if status.checkpoints_completed or status.checkpoints_failed:
        failed = f", {status.checkpoints_failed} failed" if status.checkpoints_failed else ""
        found.append(f"{status.checkpoints_completed} checkpoints{failed}")
    if status.restarts:
        found.append(f"{status.restarts} restart{'s' if status.restarts > 1 else ''}")
    dropped = sum(late.dropped + late.dropped_before for late in status.late_records)
    if dropped:
        found.append(f"{dropped:,} late records dropped")
    if status.waiting_for:
        found.append(f"waiting for {status.waiting_for}")
    return found


def _node(vertex: pb.VertexStatus) -> DrawnNode:
    counts = vertex.task_counts
    state = next((name for name in _TASK_STATES if counts.get(name)), "CREATED")
    records = sum(subtask.metrics.records_in for subtask in vertex.subtasks)
    lines = (f"{counts.get(state, 0)} of {vertex.parallelism} {state}", f"{_counted(records)} in")
    return DrawnNode(vertex.vertex_id, vertex.name, lines, _COLORS.get(state, _OTHER))


def _counted(records: int) -> str:
    return f"{records:,} record{'' if records == 1 else 's'}"


def _seconds(duration_ms: int) -> str:
    seconds = max(0, duration_ms) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
