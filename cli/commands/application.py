"""`tidegate run-application`: runs a cluster for one job in the foreground, which ends with it."""

from __future__ import annotations

from pathlib import Path

import click

from tidegate.cli.command_line import SNAPSHOT, ProgramCommand
from tidegate.cli.commands.processes import ProcessOptions, process_options, serve_job_manager
from tidegate.cli.errors import reporting
from tidegate.cli.options import configuration_options, load_configuration
from tidegate.model.errors import Misuse

DRIVER = "tidegate.resourcemanager.driver"


@click.command("run-application", cls=ProgramCommand)
@click.option(
    "-p", "--parallelism", type=click.IntRange(min=1), metavar="N", help="Subtasks of operators that set none."
)
@click.option(
    "-s", "--from-savepoint", "restore", type=SNAPSHOT, metavar="PATH", help="Start from this checkpoint or savepoint."
)
@click.option(
    "-n", "--allow-non-restored-state", is_flag=True, help="Skip state of operators that the job no longer has."
)
@click.option("--slots", type=click.IntRange(1, 1024), metavar="N", help="Slots of each TaskManager that is started.")
@configuration_options
@process_options
@click.argument("job", metavar="job.py", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@reporting
def run_application(
    parallelism: int | None,
    restore: str | None,
    allow_non_restored_state: bool,
    slots: int | None,
    config: Path | None,
    definitions: tuple[str, ...],
    job: Path,
    arguments: tuple[str, ...],
    log_file: Path | None,
    pid_file: Path | None,
    ready_fd: int | None,
    exit_with_parent: bool,
) -> None:
    """Run a job in a cluster of its own, on this machine: a JobManager, which starts TaskManagers as the job needs slots, and ends with the job. Exit
    code 0 when it FINISHED or was CANCELED, 1 when it FAILED. With high-availability.type it goes on with the job when it is started again."""
    from tidegate.cli.embedded.application import Application

    if not job.is_file():
        raise Misuse(f"cannot read the job file {job}: there is no such file")
    options = [] if config is None else [f"--config={config}"]
    options += [] if parallelism is None else [f"--parallelism={parallelism}"]
    options += [] if restore is None else [f"--from-savepoint={restore}"]
    options += ["--allow-non-restored-state"] if allow_non_restored_state else []
    forced = [] if slots is None else [f"taskmanager.numberOfTaskSlots={slots}"]
    if DRIVER not in load_configuration(config, definitions).to_strings():
        forced.append(f"{DRIVER}=process")
    configuration = load_configuration(config, definitions, *forced)
    process: ProcessOptions = {
        "log_file": log_file,
        "pid_file": pid_file,
        "ready_fd": ready_fd,
        "exit_with_parent": exit_with_parent,
    }
    serve_job_manager(configuration, Application(job, arguments, options, definitions), **process)
