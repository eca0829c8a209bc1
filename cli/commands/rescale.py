"""`tidegate rescale`: changes the parallelism of a running job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.command_line import JOB_ID, FlinkCommand
from tidegate.cli.commands.snapshots import TIMEOUT, connect
from tidegate.cli.errors import reporting
from tidegate.cli.options import configuration_options, job_manager_option
from tidegate.model.errors import ExternalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidegate.pb import jobmanager_pb2 as pb


@click.command(cls=FlinkCommand)
@click.argument("job", metavar="JOB", type=JOB_ID)
@click.option(
    "-p",
    "--parallelism",
    required=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="How many subtasks there are to be.",
)
@click.option(
    "--vertex",
    "vertices",
    multiple=True,
    metavar="NAME",
    help="Of this vertex only, by its id, its name or the name of one of its operators; may be repeated.",
)
@TIMEOUT
@job_manager_option
@configuration_options
@reporting
def rescale(
    job: str,
    parallelism: int,
    vertices: tuple[str, ...],
    timeout_s: float,
    job_manager: str | None,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """Change the parallelism of a running job: it takes a checkpoint and goes on from it, exactly once.

    Where TaskManagers have to be started first, the job runs as it is until they are there. Vertices between which rows go forward change together.
    """
    began_s = time.monotonic()
    with connect(job_manager, config, definitions) as client:
        wanted = client.rescale(job, parallelism, vertices)
        click.echo(f"Rescaling job {job}.\nWaiting for response...")
        _wait(client.watch_beyond(job), wanted, began_s + timeout_s)
    click.echo(f"Rescaled job {job} in {time.monotonic() - began_s:.1f} s.")


def _wait(statuses: Iterable[pb.JobStatus], wanted: Mapping[str, int], until_s: float) -> None:
    """Waits until the job runs as wanted. Raises ``ExternalError`` when it has ended, or takes longer."""
    state = ""
    for status in statuses:
        state = status.state
        if all(_runs(vertex, wanted.get(vertex.vertex_id, 0)) for vertex in status.vertices):
            return
        if time.monotonic() > until_s:
            raise ExternalError(
                "the job does not run with that parallelism yet; the change continues, --timeout waits longer"
            )
    raise ExternalError(f"the job is {state}, and its parallelism was not changed")


def _runs(vertex: pb.VertexStatus, parallelism: int) -> bool:
    return vertex.parallelism == parallelism == vertex.task_counts.get("RUNNING", 0)
