"""The table of `tidegate run --profile`: on what each vertex spent the time of its subtasks."""

from __future__ import annotations

from collections import defaultdict

from rich.console import Console
from rich.table import Table

from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.task_metrics import PROFILE

_LEAST_SHARE = 0.005
"""The least share that is shown, half a percent: less is noise of the sampling."""
_WAITS = ("backpressured", "idle")


def show_profile(status: pb.JobStatus, console: Console) -> None:
    """Prints the table. The last attempt of each subtask counts. Kinds of work below half a percent everywhere are left out."""
    shares = {vertex.name: _shares(vertex) for vertex in status.vertices}
    total = {
        kind: max(found.get(kind, 0.0) for found in shares.values()) for found in shares.values() for kind in found
    }
    kinds = [kind for kind in total if total[kind] >= _LEAST_SHARE]
    kinds = [kind for kind in kinds if kind not in _WAITS] + [kind for kind in _WAITS if kind in kinds]
    table = Table(
        "time of all subtasks in", *(f"{i + 1}" for i in range(len(shares))), title=f"profile of {status.name}"
    )
    for kind in kinds:
        style = "dim" if kind in _WAITS else ""
        table.add_row(kind, *(_percent(found.get(kind, 0.0)) for found in shares.values()), style=style)
    console.print(table)
    for i, name in enumerate(shares):
        console.print(f"  {i + 1}: {name}", highlight=False)


def _shares(vertex: pb.VertexStatus) -> dict[str, float]:
    """Returns the share of each kind of work in a vertex's time, the largest first."""
    spent: defaultdict[str, float] = defaultdict(float)
    for subtask in vertex.subtasks:
        for name, ms in subtask.metrics.user.items():
            if name.startswith(PROFILE):
                spent[name.removeprefix(PROFILE)] += ms
    whole = sum(spent.values()) or 1.0
    return dict(sorted(((kind, ms / whole) for kind, ms in spent.items()), key=lambda pair: -pair[1]))


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= _LEAST_SHARE else "-"
