"""`tidegate upgrade`: replaces a running job by its next version, or lets it go on as it was."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.command_line import JOB_ID, ProgramCommand
from tidegate.cli.commands.savepoint_check import CANNOT, OPEN_HELP, SOME_DROPPED, exit_code, opening_of, report
from tidegate.cli.errors import reporting
from tidegate.cli.options import (
    address_definitions,
    client_of,
    configuration_options,
    job_manager_option,
    load_configuration,
    taking,
    timeout_option,
)
from tidegate.model.errors import InvalidJob

if TYPE_CHECKING:
    from tidegate.datastream._graph.executor import PlanRecorder
    from tidegate.model.configuration import Configuration

ROLLED_BACK = 3
"""The exit code when the old version goes on."""


@dataclass(frozen=True, slots=True)
class UpgradeOptions:
    """The parameters of `tidegate upgrade`; its options say what each field is."""

    parallelism: int | None
    allow_non_restored_state: bool
    opened: bool | None
    directory: str | None
    timeout_s: float
    job_manager: str | None
    config: Path | None
    definitions: tuple[str, ...]
    job_id: str
    job: Path
    arguments: tuple[str, ...]


@click.command(cls=ProgramCommand)
@click.option("-p", "--parallelism", type=click.IntRange(min=1), metavar="N", help="As for `tidegate run`.")
@click.option(
    "-n", "--allow-non-restored-state", is_flag=True, help="Skip state of operators that the new version no longer has."
)
@click.option("--open/--no-open", "opened", default=None, help=OPEN_HELP)
@click.option(
    "--savepoint-path", "directory", metavar="DIR", help="Where the savepoint goes; default: the configured directory."
)
@timeout_option(120.0, "For the savepoint, and for the first checkpoint of the new version.", click.FloatRange(min=1))
@job_manager_option
@configuration_options
@click.argument("job_id", metavar="JOB", type=JOB_ID)
@click.argument("job", metavar="job.py", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@reporting
@taking(UpgradeOptions)
def upgrade(options: UpgradeOptions) -> None:
    """Replace the running JOB by the version in job.py, which goes on from its state.

    First the new version is checked against the job's last checkpoint, as `savepoint check` does. Then the job is stopped with a savepoint, and the new
    version starts from it. When that does not reach its first checkpoint, it is cancelled, and the old version goes on from the savepoint.

    Exits with 0 when the new version runs, 3 when the old one goes on; 1 or 2 when state would be dropped or cannot be read, and nothing was touched.
    """
    from tidegate.cli.submission import absolute
    from tidegate.cli.upgrade import Upgrade
    from tidegate.taskmanager.compatibility.operators import examine_operators

    forced = address_definitions(options.job_manager)
    forced += [] if options.parallelism is None else [f"parallelism.default={options.parallelism}"]
    configuration = load_configuration(options.config, options.definitions, *forced)
    recorder = _planned(options.job, options.arguments, configuration)
    with client_of(configuration, options.job_manager) as client:
        upgrading = Upgrade(client, options.job_id, options.timeout_s, click.echo)
        graph, blobs = recorder.graph, recorder.blobs
        assert graph is not None
        checkpoint, findings = upgrading.examined(
            lambda found: examine_operators(graph, blobs, found, opening=opening_of(options.opened), verify=False)
        )
        for line in report(recorder, checkpoint, findings):
            click.echo(line)
        code = exit_code(findings, options.allow_non_restored_state)
        if code in (CANNOT, SOME_DROPPED):
            click.echo(f"error: job {options.job_id} was not touched: {_WHY[code]}", err=True)
            sys.exit(code)
        place = absolute(options.directory) if options.directory else ""
        done = upgrading.run((graph, dict(blobs)), place, allow_non_restored_state=options.allow_non_restored_state)
    if done.is_new:
        click.echo(
            f"Job {done.job_id} runs the new version from {done.savepoint}, and has completed its first checkpoint."
        )
        return
    click.echo(f"error: rolled back to the old version, now job {done.job_id}: {done.reason}", err=True)
    sys.exit(ROLLED_BACK)


def _planned(job: Path, arguments: tuple[str, ...], configuration: Configuration) -> PlanRecorder:
    from tidegate.cli.program import check_readable, run_program
    from tidegate.datastream._graph.executor import PlanRecorded, PlanRecorder

    check_readable(job)
    recorder = PlanRecorder()
    with contextlib.suppress(PlanRecorded):
        run_program(job, arguments, recorder, configuration.to_strings())
    if recorder.graph is None:
        raise InvalidJob(f"{job.name} ended without a job; call env.execute() at its end")
    return recorder


_WHY = {
    CANNOT: "the new version cannot read its state",
    SOME_DROPPED: "the new version would drop state; -n allows that",
}
