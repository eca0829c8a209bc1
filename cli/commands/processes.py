"""`tidegate jobmanager`, `tidegate taskmanager` and `tidegate historyserver`: run the processes themselves, in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from tidegate.cli.command_line import ProgramCommand
from tidegate.cli.errors import reporting
from tidegate.cli.options import (
    Command,
    configuration_options,
    job_manager_option,
    leader_definitions,
    load_configuration,
)
from tidegate.model.errors import ExternalError, Misuse, TidegateError
from tidegate.model.options import SecurityOptions

if TYPE_CHECKING:
    from tidegate.cli.cluster_files import ClusterFiles
    from tidegate.cli.embedded.application import Application
    from tidegate.cli.embedded.children import StartReport
    from tidegate.model.configuration import Configuration

_PATH = click.Path(path_type=Path)
_ANY_INTERFACE = ("0.0.0.0", "::")  # noqa: S104  (to be recognised)


def insecure_option(command: Command) -> Command:
    return click.option(
        "--insecure",
        is_flag=True,
        help="Listen beyond this machine without TLS: who reaches it runs programs as you (tidegate.security.insecure).",
    )(command)


def _allowing(definitions: tuple[str, ...], *, insecure: bool) -> tuple[str, ...]:
    return (*definitions, f"{SecurityOptions.INSECURE.key}=true") if insecure else definitions


class ProcessOptions(TypedDict):
    """The options of a command that starts a process of the cluster, as the decorator `process_options` parsed them."""

    log_file: Path | None
    pid_file: Path | None
    ready_fd: int | None
    exit_with_parent: bool


def process_options(command: Command) -> Command:
    """Adds the options that `cluster start` and the embedded cluster pass to their children."""
    for option in (
        click.option("--log-file", type=_PATH, help="Log into this file instead of the terminal."),
        click.option("--pid-file", type=_PATH, hidden=True),
        click.option("--ready-fd", type=int, hidden=True),
        click.option("--exit-with-parent", is_flag=True, hidden=True),
    ):
        command = option(command)
    return command


@click.command(cls=ProgramCommand)
@click.option("--host", metavar="H", help="Interface to listen on; default: localhost.")
@click.option("--rpc-port", type=int, metavar="PORT", help="Port of the gRPC service; default: 6123.")
@click.option("--rest-port", type=int, metavar="PORT", help="Port of the REST API; default: 8081.")
@click.option("--allow-faults", is_flag=True, help="Let `tidegate fault`, REST and the page make faults on purpose.")
@click.option("--job", type=_PATH, metavar="job.py", help="Run this job, and end with it (application mode).")
@insecure_option
@configuration_options
@process_options
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@reporting
def jobmanager(
    host: str | None,
    rpc_port: int | None,
    rest_port: int | None,
    allow_faults: bool,
    job: Path | None,
    insecure: bool,
    config: Path | None,
    definitions: tuple[str, ...],
    arguments: tuple[str, ...],
    **process: Unpack[ProcessOptions],
) -> None:
    """Run a JobManager until Ctrl-C or SIGTERM, or with --job until that job is over; ARGUMENTS are the job's."""
    from tidegate.cli.embedded.application import Application

    if arguments and job is None:
        raise Misuse(f"{' '.join(arguments)!r} are arguments of a job: give the job with --job job.py")
    if job is not None and not job.is_file():
        raise Misuse(f"cannot read the job file {job}: there is no such file")
    definitions = _allowing(definitions, insecure=insecure)
    forced = []
    if host is not None:
        forced += [f"jobmanager.bind-host={host}", f"rest.bind-address={host}"]
        if host not in _ANY_INTERFACE:
            forced.append(f"jobmanager.rpc.address={host}")
    if rpc_port is not None:
        forced.append(f"jobmanager.rpc.port={rpc_port}")
    if rest_port is not None:
        forced.append(f"rest.port={rest_port}")
    if allow_faults:
        forced.append("tidegate.testing.allow-faults=true")
    configuration = load_configuration(config, definitions, *forced)
    is_by_hand = process["ready_fd"] is None
    at_home = _checkpoints_at_home(configuration) if is_by_hand else None
    if at_home is not None:
        configuration = load_configuration(config, definitions, *forced, *at_home.checkpoint_definitions(configuration))
    options = [] if config is None else [f"--config={config}"]
    application = None if job is None else Application(job, arguments, options, definitions)
    serve_job_manager(configuration, application, at_home, **process)


def _checkpoints_at_home(configuration: Configuration) -> ClusterFiles | None:
    """Makes this process own the files of this machine's cluster for the checkpoints of a JobManager whose configuration names no directory.

    Returns ``None`` when it does. Raises ``ExternalError`` when they cannot be created.
    """
    from tidegate.aio.homes import home_of, own_only
    from tidegate.cli.cluster_files import ClusterFiles

    files = ClusterFiles.of(home_of(configuration), configuration)
    if not files.checkpoint_definitions(configuration):
        return None
    files.own(configuration)  # until the process ends
    own_only(files.directory)
    click.echo(f"Checkpoints: {files.checkpoints}", err=True)
    return files


def serve_job_manager(
    configuration: Configuration,
    application: Application | None,
    at_home: ClusterFiles | None = None,
    **process: Unpack[ProcessOptions],
) -> None:
    """Runs a JobManager, with a job that it starts and ends with if there is one.

    ``at_home``: the files of a process that was started by hand, in which it is noted so that `tidegate cluster status` shows it.
    """
    from tidegate.cli.embedded.application import ApplicationRun
    from tidegate.model.options import JobManagerOptions

    running = None if application is None else ApplicationRun(application, configuration)
    if at_home is not None:
        at_home.note_by_hand()

    def run(report: StartReport) -> int:
        from tidegate.jobmanager.service.app import Listening
        from tidegate.jobmanager.service.process import run as run_job_manager

        def on_ready(at: Listening) -> None:
            report.ready({"rpc_port": at.rpc_port, "rest_port": at.rest_port})
            if at_home is not None:
                host = configuration.get(JobManagerOptions.RPC_ADDRESS)
                at_home.note_by_hand(host, {"rpc_port": at.rpc_port, "rest_port": at.rest_port})
            if running is not None:
                running.begin(f"{configuration.get(JobManagerOptions.RPC_ADDRESS)}:{at.rpc_port}")

        code = run_job_manager(configuration, on_ready)
        return code or (0 if running is None else running.exit_code)

    _serve(run, configuration, **process)


@click.command()
@click.option("--slots", type=click.IntRange(1, 1024), metavar="N", help="Slots to offer; default: 1.")
@job_manager_option
@insecure_option
@configuration_options
@process_options
@reporting
def taskmanager(
    slots: int | None,
    job_manager: str | None,
    insecure: bool,
    config: Path | None,
    definitions: tuple[str, ...],
    **process: Unpack[ProcessOptions],
) -> None:
    """Run a TaskManager until Ctrl-C or SIGTERM."""
    definitions = _allowing(definitions, insecure=insecure)
    forced = leader_definitions(job_manager)
    if slots is not None:
        forced.append(f"taskmanager.numberOfTaskSlots={slots}")
    configuration = load_configuration(config, definitions, *forced)

    def run(report: StartReport) -> int:
        from tidegate.taskmanager.service import app

        return app.run(configuration, lambda identity: report.ready({"id": str(identity.task_manager_id)}), report.step)

    _serve(run, configuration, **process)


@click.command()
@click.option("--port", type=int, metavar="PORT", help="Port to listen on; default: 8082.")
@insecure_option
@configuration_options
@process_options
@reporting
def historyserver(
    port: int | None,
    insecure: bool,
    config: Path | None,
    definitions: tuple[str, ...],
    **process: Unpack[ProcessOptions],
) -> None:
    """Show jobs that have ended, from the archives of JobManagers, until Ctrl-C or SIGTERM."""
    definitions = _allowing(definitions, insecure=insecure)
    forced = [] if port is None else [f"historyserver.web.port={port}"]
    configuration = load_configuration(config, definitions, *forced)

    def run(report: StartReport) -> int:
        from tidegate.jobmanager.service import history_server

        return history_server.run(configuration, lambda bound: report.ready({"rest_port": bound}))

    _serve(run, configuration, **process)


def _serve(
    run: Callable[[StartReport], int],
    configuration: Configuration,
    log_file: Path | None,
    pid_file: Path | None,
    ready_fd: int | None,
    exit_with_parent: bool,
) -> None:
    """Runs the process, with log, pid file and a report to the process that started it."""
    from tidegate.aio.logs import set_up_logging
    from tidegate.aio.process import remove_pid_file, write_pid_file
    from tidegate.aio.rolling import Rolling
    from tidegate.cli.embedded.children import StartReport, end_with_parent
    from tidegate.model.options import FileOptions, LogFormat

    if exit_with_parent:
        end_with_parent()
    try:
        level = configuration.get(FileOptions.LOG_LEVEL).value
        is_json = configuration.get(FileOptions.LOG_FORMAT) is LogFormat.JSON
        set_up_logging(
            level, log_file, None if log_file else sys.stderr, is_json=is_json, rolling=Rolling.of(configuration)
        )
        if pid_file is not None:
            write_pid_file(pid_file)
    except OSError as error:
        raise ExternalError(f"cannot write {error.filename}: {error.strerror}") from None
    report = StartReport(ready_fd)
    try:
        code = run(report)
    except TidegateError as error:
        if not report.failure(error):
            raise
        code = 1
    finally:
        if pid_file is not None:
            remove_pid_file(pid_file)
    sys.exit(code)
