"""`tidegate savepoint`, `tidegate checkpoint`, `tidegate stop`: snapshots of a running job that a user requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.command_line import JOB_ID, SNAPSHOT, FlinkCommand
from tidegate.cli.commands.savepoint_check import check
from tidegate.cli.errors import reporting
from tidegate.cli.options import (
    address_definitions,
    client_of,
    configuration_options,
    job_manager_option,
    load_configuration,
    timeout_option,
)
from tidegate.model.errors import Misuse

if TYPE_CHECKING:
    from tidegate.cli.client import JobManagerClient

_FORMAT = click.option(
    "-type",
    "--type",
    "format_type",
    type=click.Choice(["canonical", "native"], case_sensitive=False),
    help="As in Flink; a savepoint has one format here.",
    expose_value=False,
)
_DETACHED = click.option(
    "-detached", "--detached", is_flag=True, help="Print the id of the trigger, and wait for nothing."
)
TIMEOUT = timeout_option(60.0, "Longest wait; the operation goes on.", click.FloatRange(min=0, min_open=True))


class _Savepoint(FlinkCommand):
    """Dispatches `tidegate savepoint check ...` to a command of its own: no job has the id "check"."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] == [check.name]:
            return check.make_context(f"{info_name} {check.name}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=_Savepoint)
@click.argument("job", metavar="[JOB]", type=JOB_ID, required=False)
@click.argument("directory", metavar="[DIR]", required=False)
@click.option(
    "-d",
    "--dispose",
    type=SNAPSHOT,
    metavar="PATH",
    help="Remove this savepoint with its files, instead of taking one.",
)
@_FORMAT
@_DETACHED
@TIMEOUT
@job_manager_option
@configuration_options
@reporting
def savepoint(
    job: str | None,
    directory: str | None,
    dispose: str | None,
    detached: bool,
    timeout_s: float,
    job_manager: str | None,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """Take a savepoint of a running job, below DIR or the configured directory; or remove one.

    `tidegate savepoint check job.py PATH` tells what a job file would restore from PATH: see its --help.
    """
    from tidegate.cli.submission import absolute

    if (job is None) == (dispose is None):
        raise Misuse("savepoint takes the id of a job, or --dispose with the path of a savepoint")
    with connect(job_manager, config, definitions) as client:
        if dispose is not None:
            click.echo(f"Disposing savepoint '{dispose}'.\nWaiting for response...")
            client.dispose_savepoint(absolute(dispose))
            click.echo(f"Savepoint '{dispose}' disposed.")
            return
        assert job is not None
        if detached:
            click.echo(f"Triggering savepoint in detached mode for job {job}.\nWaiting for response...")
            trigger_id = client.trigger_savepoint(job, absolute(directory) if directory else "")
            click.echo(f"Successfully trigger manual savepoint, triggerId: {trigger_id}")
            return
        click.echo(f"Triggering savepoint for job {job}.\nWaiting for response...")
        taken = client.savepoint(job, absolute(directory) if directory else "", timeout_s)
    click.echo(f"Savepoint completed. Path: {taken.path}")
    click.echo("You can resume your program from this savepoint with the run command.")


@click.command(cls=FlinkCommand)
@click.argument("job", metavar="JOB", type=JOB_ID)
@click.option("--full", is_flag=True, help="Write everything, and refer to no earlier checkpoint.")
@TIMEOUT
@job_manager_option
@configuration_options
@reporting
def checkpoint(
    job: str,
    full: bool,
    timeout_s: float,
    job_manager: str | None,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """Trigger a checkpoint of a running job now."""
    with connect(job_manager, config, definitions) as client:
        click.echo(f"Triggering checkpoint for job {job}.\nWaiting for response...")
        taken = client.checkpoint(job, full, timeout_s)
    click.echo(f"Checkpoint{'(FULL)' if full else ''} {taken.checkpoint_id} for job {job} completed.")
    click.echo("You can resume your program from this checkpoint with the run command.")


@click.command(cls=FlinkCommand)
@click.argument("job", metavar="JOB", type=JOB_ID)
@click.option(
    "-d",
    "--drain",
    is_flag=True,
    help="End event time first, so that all timers fire; not for a job that goes on later.",
)
@click.option("-p", "--savepoint-path", "directory", metavar="DIR", help="Where to; default: the configured directory.")
@_FORMAT
@_DETACHED
@TIMEOUT
@job_manager_option
@configuration_options
@reporting
def stop(
    job: str,
    drain: bool,
    directory: str | None,
    detached: bool,
    timeout_s: float,
    job_manager: str | None,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """Stop a job with a savepoint: what its sinks wrote is committed, and the job ends as FINISHED."""
    from tidegate.cli.submission import absolute

    with connect(job_manager, config, definitions) as client:
        click.echo(f'{"Draining job" if drain else "Suspending job"} "{job}" with a savepoint.')
        if detached:
            click.echo(f"Triggering stop-with-savepoint in detached mode for job {job}.\nWaiting for response...")
            trigger_id = client.trigger_stop(job, absolute(directory) if directory else "", drain)
            click.echo(f"Successfully trigger stop-with-savepoint in detached mode, triggerId: {trigger_id}")
            return
        click.echo(f"Triggering stop-with-savepoint for job {job}.\nWaiting for response...")
        taken = client.stop(job, absolute(directory) if directory else "", drain, timeout_s)
    click.echo(f"Savepoint completed. Path: {taken.path}")


def connect(job_manager: str | None, config: Path | None, definitions: tuple[str, ...]) -> JobManagerClient:
    configuration = load_configuration(config, definitions, *address_definitions(job_manager))
    return client_of(configuration, job_manager)
