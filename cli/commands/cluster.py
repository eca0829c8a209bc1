"""`tidegate cluster start|stop|status`: a JobManager and TaskManagers on this machine, in the background.

Their files are those of `cli/cluster_files.py`, below `<dir>/clusters/default`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.commands.keep import found_in, keep, warm_as_json, warm_line
from tidegate.cli.errors import reporting
from tidegate.cli.json_output import DOCUMENT, json_option, print_json
from tidegate.cli.options import Command, client_at, configuration_options, load_configuration
from tidegate.model.errors import Misuse, TidegateError, Unreachable
from tidegate.model.values import JsonObject

if TYPE_CHECKING:
    from tidegate.aio.working_directories import OwnedDirectory
    from tidegate.cli.cluster_files import ByHand, ClusterFiles
    from tidegate.cli.embedded.children import Child
    from tidegate.model.configuration import Configuration
    from tidegate.pb import jobmanager_pb2 as pb

JOB_MANAGER = "jobmanager"
TASK_MANAGER = "taskmanager-"
"""The prefix of the names of TaskManagers that `cluster start` starts; a number follows."""
STARTED_BY_IT = ("taskmanager-worker-", "taskmanager-spark-host")
"""Prefixes of the pid files of TaskManagers that the JobManager starts when jobs need slots."""
LOST_SHOWN_S = 600
"""How long a lost process is shown, in seconds.

Chosen, not measured: Flink drops a lost TaskManager after its heartbeat timeout of 50 s; a person who comes back from a break should still
see that one is missing.
"""
NOT_SEEN = (
    "neither `tidegate cluster start` nor a JobManager that was started by hand has left anything there. One that writes its checkpoints "
    "elsewhere or has another tidegate.home is not seen here; `tidegate list -m HOST:PORT` asks it."
)
IN_MEMORY = "in the JobManager's memory, up to 5 MiB for each state of a subtask; set execution.checkpointing.dir"


def directory_option(command: Command) -> Command:
    return click.option(
        "--dir",
        "directory",
        type=click.Path(path_type=Path, file_okay=False),
        help="Keep pid files, logs and checkpoints below clusters/default here; default: tidegate.home, ~/.tidegate.",
    )(command)


def files_of(directory: Path | None, configuration: Configuration) -> ClusterFiles:
    """Returns the files of the cluster of these commands. Raises `ExternalError`."""
    from tidegate.aio.homes import home_of
    from tidegate.cli.cluster_files import ClusterFiles

    return ClusterFiles.of(directory or home_of(configuration), configuration)


@click.group()
def cluster() -> None:
    """Start, stop or look at a cluster on this machine."""


cluster.add_command(keep)


@cluster.command()
@click.option("--taskmanagers", type=click.IntRange(0, 256), default=1, show_default=True, metavar="N")
@click.option("--slots", type=click.IntRange(1, 1024), metavar="N", help="Slots of each TaskManager; default: 1.")
@click.option(
    "--fresh", is_flag=True, help="Forget the jobs of the cluster that ran here before; their checkpoints stay."
)
@directory_option
@configuration_options
@reporting
def start(
    taskmanagers: int,
    slots: int | None,
    fresh: bool,
    directory: Path | None,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """Start a JobManager and TaskManagers in the background; more TaskManagers are started when jobs need slots. Jobs
    that were running when the cluster was stopped, or when its JobManager was killed, go on from their last checkpoint.
    What is alive stays as it is: where TaskManagers are still alive, only the JobManager is started, and where the
    JobManager is, the TaskManagers that are lost, or that --taskmanagers asks for."""
    from tidegate.cli.embedded.children import end_processes
    from tidegate.model.options import FileOptions, JobManagerOptions

    configuration = load_configuration(config, definitions)
    files = files_of(directory, configuration)
    files.make()
    running = files.running()
    is_given = (
        click.get_current_context().get_parameter_source("taskmanagers") is not click.core.ParameterSource.DEFAULT
    )
    missing = _missing(files, running, taskmanagers if is_given else 0)
    if JOB_MANAGER in running and missing and not fresh and (address := files.address()) is not None:
        own = [*(["--config", str(config.absolute())] if config else []), "--jobmanager", address]
        own += ["--slots", str(slots)] if slots else []
        _start_missing(files, configuration, missing, address, own, definitions)
        return
    if running and (JOB_MANAGER in running or not files.ports()):
        names = ", ".join(f"{name} (pid {pid})" for name, pid in running.items())
        raise Misuse(f"a cluster is running already in {files.directory}: {names}; `tidegate cluster stop` ends it")
    owned = files.own(configuration)
    if fresh and files.forget_jobs():
        click.echo("The jobs of the earlier cluster are forgotten.")
    common = [*(["--config", str(config.absolute())] if config else [])]
    defaults = _definitions(files, configuration, slots, 0 if running else taskmanagers)
    if running:  # its TaskManagers look for it where it was
        taskmanagers, ports = 0, files.ports()
        defaults += [f"jobmanager.rpc.port={ports['rpc_port']}", f"rest.port={ports['rest_port']}"]
    children: list[Child] = []
    timeout_s, notice = configuration.get(FileOptions.START_TIMEOUT) / 1000, partial(click.echo, err=True)
    try:
        job_manager = _start(files, owned, JOB_MANAGER, JOB_MANAGER, common, [*definitions, *defaults])
        children.append(job_manager)
        ports = job_manager.wait_ready(timeout_s, notice)
        host = configuration.get(JobManagerOptions.RPC_ADDRESS)
        files.listens(host, ports)
        address = f"{host}:{ports['rpc_port']}"
        own = [*common, "--jobmanager", address, *(["--slots", str(slots)] if slots else [])]
        children += [
            _start(files, owned, f"taskmanager-{n}", "taskmanager", own, definitions)
            for n in range(1, taskmanagers + 1)
        ]
        for task_manager in children[1:]:
            task_manager.wait_ready(timeout_s, notice)
        status = _wait_registered(configuration, address, taskmanagers or _count_own(running), timeout_s)
    except BaseException:
        end_processes(child.pid for child in children if child.is_alive())
        if not running:
            owned.release()
            files.withdraw()
        raise
    _tell_started(configuration, address, status)
    click.echo(f"Logs: {files.logs}")
    click.echo(f"Checkpoints: {files.where_checkpoints_go(configuration) or IN_MEMORY}")


def _missing(files: ClusterFiles, running: Iterable[str], wanted: int) -> list[str]:
    """Returns the TaskManagers that this command started before and that are lost, and those of the first ``wanted`` that do not run."""
    known = {name for name in files.known() if name.removeprefix(TASK_MANAGER).isdecimal()}
    return sorted((known | {f"{TASK_MANAGER}{n}" for n in range(1, wanted + 1)}) - set(running))


def _start_missing(
    files: ClusterFiles,
    configuration: Configuration,
    missing: Sequence[str],
    address: str,
    options: list[str],
    definitions: Sequence[str],
) -> None:
    """Starts TaskManagers for a running JobManager. If one does not start, those started here are stopped; the cluster goes on."""
    from tidegate.cli.embedded.children import end_processes
    from tidegate.cli.tables import counted
    from tidegate.model.options import FileOptions

    owned = files.own(configuration)
    timeout_s, notice = configuration.get(FileOptions.START_TIMEOUT) / 1000, partial(click.echo, err=True)
    children: list[Child] = []
    try:
        children += [_start(files, owned, name, "taskmanager", options, definitions) for name in missing]
        for child in children:
            child.wait_ready(timeout_s, notice)
        status = _wait_registered(configuration, address, _count_own(files.running()) - 1, timeout_s)
    except BaseException:
        end_processes(child.pid for child in children if child.is_alive())
        raise
    click.echo(f"The JobManager was running; started {', '.join(missing)}.")
    slots = sum(len(task_manager.slots) for task_manager in status.task_managers)
    there = f"{counted(len(status.task_managers), 'TaskManager')}, {counted(slots, 'slot')}"
    click.echo(f"JobManager at {address} (REST port {status.rest_port}), {there}.")
    click.echo(f"Logs: {files.logs}")


def _count_own(running: Iterable[str]) -> int:
    """Returns how many running TaskManagers were not started by the JobManager."""
    return sum(not name.startswith(STARTED_BY_IT) for name in running)


def _definitions(files: ClusterFiles, configuration: Configuration, slots: int | None, taskmanagers: int) -> list[str]:
    """Returns defaults of the JobManager, which does not start TaskManagers in place of those that this command is about to start."""
    from tidegate.model.options import TaskManagerOptions

    each = slots or configuration.get(TaskManagerOptions.NUM_SLOTS)
    own = [f"taskmanager.numberOfTaskSlots={each}", f"tidegate.resourcemanager.expected-slots={taskmanagers * each}"]
    return files.definitions(configuration) + own


def _tell_started(configuration: Configuration, address: str, status: pb.ClusterStatus) -> None:
    from tidegate.cli.tables import counted

    slots = sum(len(task_manager.slots) for task_manager in status.task_managers)
    managers = len(status.task_managers)
    there = f"{counted(managers, 'TaskManager')}, {counted(slots, 'slot')}"
    click.echo(f"JobManager at {address} (REST port {status.rest_port}), {there}.")
    for job in _jobs_of(configuration, address):
        click.echo(f"Going on with job {job.job_id} ({job.name}).")


@cluster.command()
@directory_option
@configuration_options
@reporting
def stop(directory: Path | None, config: Path | None, definitions: tuple[str, ...]) -> None:
    """Stop the cluster and everything that it started."""
    from tidegate.cli.embedded.children import end_processes

    configuration = load_configuration(config, definitions)
    files = files_of(directory, configuration)
    running, address = files.running(), files.address()
    suspended = (
        _jobs_of(configuration, address, only_kept=True) if JOB_MANAGER in running and address is not None else []
    )
    # The JobManager first: otherwise it would count the end of TaskManagers as failures of its jobs.
    end_processes(pid for name, pid in running.items() if name == JOB_MANAGER)
    running |= files.running()  # with those that it started meanwhile
    end_processes(pid for name, pid in running.items() if name != JOB_MANAGER)
    files.forget()
    for name, pid in running.items():
        click.echo(f"Stopped {name} (pid {pid}).")
    for job in suspended:
        click.echo(
            f"Suspended job {job.job_id} ({job.name}); the next `tidegate cluster start` goes on with it, unless with --fresh."
        )
    if not running:
        click.echo(f"No cluster is running in {files.directory}.")
    if directory is None and (kept := warm_line(found_in(configuration))):
        click.echo(kept)
    for other in files.by_hand():
        click.echo(
            f"The JobManager of pid {other.pid} was started by hand and goes on; end it by Ctrl-C, or by: kill {other.pid}"
        )


@cluster.command()
@json_option(DOCUMENT)
@directory_option
@configuration_options
@reporting
def status(as_json: bool, directory: Path | None, config: Path | None, definitions: tuple[str, ...]) -> None:
    """Show what is alive, and what was lost in the last ten minutes. Exit code 0: all of it is alive; 1: not."""
    from tidegate.cli.tables import duration, make_table, moment, show

    configuration = load_configuration(config, definitions)
    files = files_of(directory, configuration)
    lost = files.lost(LOST_SHOWN_S)
    running = files.running()
    known = sorted({*running, *lost})
    address = files.address()
    by_hand = files.by_hand()
    warm = 0 if directory is not None else found_in(configuration)
    if as_json:
        shown, is_up = _status_as_json(configuration, address if JOB_MANAGER in running else None)
        others = [_by_hand_as_json(configuration, other) for other in by_hand]
        processes = _processes_as_json(running, lost)
        own = {"directory": str(files.directory), "processes": processes, **shown, "by-hand": others}
        print_json({**own, "warm-cluster": warm_as_json(warm)})
        is_up = is_up if known else all("error" not in other["jobmanager"] for other in others) and bool(others)
        sys.exit(0 if is_up and len(running) == len(known) else 1)
    kept = warm_line(warm)
    if not known and not by_hand:
        click.echo(f"No cluster in {files.directory}: {NOT_SEEN}")
        if kept:
            click.echo(kept)
        sys.exit(1)
    table = make_table("process", "pid", "state")
    for other in by_hand:
        table.add_row(f"{JOB_MANAGER}, started by hand", str(other.pid), "alive" if other.address else "starting")
    for name in known:
        if name in lost:
            ago = duration(max(0, round(1000 * (time.time() - lost[name]))))
            table.add_row(name, "-", f"lost since {moment(round(1000 * lost[name]))}, {ago} ago")
        else:
            table.add_row(name, str(running.get(name, "-")), "alive")
    show(table)
    is_up = not known
    if JOB_MANAGER in running and address is not None:
        is_up = _show_cluster(configuration, address)
    for other in by_hand:
        is_up = other.address is not None and _show_cluster(configuration, other.address) and is_up
    if kept:
        click.echo(kept)
    sys.exit(0 if is_up and len(running) == len(known) else 1)


def _by_hand_as_json(configuration: Configuration, other: ByHand) -> JsonObject:
    shown, _ = _status_as_json(configuration, other.address)
    return {"pid": other.pid, "jobmanager": shown["jobmanager"] or {"error": "it is starting"}}


def _jobs_of(configuration: Configuration, address: str, *, only_kept: bool = False) -> list[pb.JobStatus]:
    """Returns the jobs that have not ended; empty when the JobManager does not answer. ``only_kept``: empty if they end with the JobManager."""
    try:
        with client_at(configuration, address) as client:
            if only_kept and client.cluster(timeout_s=5).high_availability in ("", "NONE"):
                return []
            return client.list_jobs(include_terminal=False)
    except TidegateError:
        return []


def _start(
    files: ClusterFiles, owned: OwnedDirectory, name: str, command: str, options: list[str], definitions: Sequence[str]
) -> Child:
    from tidegate.cli.embedded.children import Child

    log = files.logs / f"{name}.log"
    own_options = ["--log-file", str(log), "--pid-file", str(files.pids / f"{name}.pid")]
    output = files.logs / f"{name}.out"
    return Child(name, [command, *options, *own_options], output, log, [owned.descriptor], definitions)


def _wait_registered(configuration: Configuration, address: str, expected: int, timeout_s: float) -> pb.ClusterStatus:
    deadline = time.monotonic() + timeout_s
    with client_at(configuration, address) as client:
        while True:
            status = client.cluster()
            if len(status.task_managers) >= expected:
                return status
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"only {len(status.task_managers)} of {expected} TaskManagers registered within {timeout_s:g} s "
                    "(tidegate.start-timeout); see their logs"
                )
            time.sleep(0.1)


def _show_cluster(configuration: Configuration, address: str) -> bool:
    from tidegate.cli.tables import counted

    try:
        with client_at(configuration, address) as client:
            status, jobs = client.cluster(timeout_s=5), client.list_jobs(include_terminal=False)
    except TidegateError as error:
        click.echo(f"The JobManager at {address} does not answer: {error.message}")
        return False
    slots = [slot for task_manager in status.task_managers for slot in task_manager.slots]
    free = sum(not slot.allocation_id for slot in slots)
    click.echo(
        f"JobManager at {address} (REST port {status.rest_port}): {counted(len(status.task_managers), 'TaskManager')}, "
        f"{free} of {counted(len(slots), 'slot')} free, {counted(len(jobs), 'job')} running."
    )
    _show_workers(status)
    if status.term:
        waiting = [f"{standby.process} at {standby.rpc or 'a port of its choice'}" for standby in status.standbys]
        click.echo(
            f"{status.process} leads in term {status.term}; "
            + (f"standby: {', '.join(waiting)}." if waiting else "no standby.")
        )
    return True


def _processes_as_json(running: Mapping[str, int], lost: Mapping[str, float]) -> list[JsonObject]:
    return [
        {
            "name": name,
            "pid": running.get(name),
            "state": "lost" if name in lost else "alive",
            "lost-since": round(1000 * lost[name]) if name in lost else None,
        }
        for name in sorted({*running, *lost})
    ]


def _status_as_json(configuration: Configuration, address: str | None) -> tuple[JsonObject, bool]:
    """Returns the cluster status, with the names of `/overview`, and whether the JobManager answers."""
    if address is None:
        return {"jobmanager": None}, False
    try:
        with client_at(configuration, address) as client:
            status, jobs = client.cluster(timeout_s=5), client.list_jobs(include_terminal=False)
    except TidegateError as error:
        return {"jobmanager": {"address": address, "error": error.message}}, False
    slots = [slot for task_manager in status.task_managers for slot in task_manager.slots]
    said: JsonObject = {
        "address": address,
        "rest-port": status.rest_port,
        "taskmanagers": len(status.task_managers),
        "slots-total": len(slots),
        "slots-available": sum(not slot.allocation_id for slot in slots),
        "jobs-running": len(jobs),
        "leader": status.process or None,
        "term": status.term or None,
        "standbys": [{"process": standby.process, "address": standby.rpc or None} for standby in status.standbys],
        "workers": [
            {"id": worker.worker_id, "state": worker.state, "since": worker.since_ms, "reason": worker.reason}
            for worker in status.workers
        ],
    }
    return {"jobmanager": said}, True


def _show_workers(status: pb.ClusterStatus) -> None:
    """Prints the TaskManagers that the JobManager started: each with its state, for how long, and why."""
    from tidegate.cli.tables import duration, make_table, show

    if not status.workers:
        return
    table = make_table("started when needed", "state", "for", "why")
    for worker in status.workers:
        since = duration(max(0, time.time_ns() // 1_000_000 - worker.since_ms))
        table.add_row(worker.worker_id, worker.state, since, worker.reason)
    show(table)
