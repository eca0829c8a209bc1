"""`tidegate cluster start|stop|status`: a JobManager and TaskManagers on this machine, in the background.

<dir>/pid/jobmanager.pid  taskmanager-1.pid ...     (or below env.pid.dir)
<dir>/log/jobmanager.log  jobmanager.out ...        (or below env.log.dir)
<dir>/jobmanager.json                               its ports
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.errors import reporting
from tidegate.cli.options import configuration_options, load_configuration
from tidegate.model.errors import ExternalError, Misuse, TidegateError, Unreachable

if TYPE_CHECKING:
    from tidegate.cli.embedded.children import Child
    from tidegate.model.configuration import Configuration
    from tidegate.pb import jobmanager_pb2 as pb

START_TIMEOUT_S = 90.0
JOB_MANAGER = "jobmanager"


def directory_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dir",
        "directory",
        type=click.Path(path_type=Path, file_okay=False),
        default=lambda: Path.home() / ".tidegate",
        show_default="~/.tidegate",
        help="Where the cluster keeps its pid and log files.",
    )(command)


@dataclass(frozen=True, slots=True)
class Places:
    """The files of a cluster."""

    directory: Path
    pids: Path
    logs: Path

    @staticmethod
    def of(directory: Path, configuration: Configuration) -> Places:
        from tidegate.model.options import FileOptions

        pids = Path(configuration.get(FileOptions.PID_DIR)) if configuration.is_set(FileOptions.PID_DIR) else None
        logs = configuration.get(FileOptions.LOG_DIR)
        root = directory.expanduser().absolute()
        return Places(root, pids or root / "pid", Path(logs) if logs else root / "log")

    def make(self) -> None:
        """Raises `ExternalError`."""
        try:
            for path in (self.directory, self.pids, self.logs):
                path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExternalError(f"cannot make {error.filename}: {error.strerror}; give another --dir") from None

    def running(self) -> dict[str, int]:
        """Pids by name of the processes that are alive."""
        from tidegate.aio.process import read_pid_file

        found = {path.stem: read_pid_file(path) for path in sorted(self.pids.glob("*manager*.pid"))}
        return {name: pid for name, pid in found.items() if pid is not None}

    def known(self) -> list[str]:
        return sorted(path.stem for path in self.pids.glob("*manager*.pid"))

    def forget(self, name: str) -> None:
        (self.pids / f"{name}.pid").unlink(missing_ok=True)

    def address(self) -> str | None:
        """Of the JobManager that was started last."""
        try:
            ports = json.loads((self.directory / f"{JOB_MANAGER}.json").read_text(encoding="utf-8"))
            return f"{ports['host']}:{ports['rpc_port']}"
        except (OSError, ValueError, KeyError):
            return None


@click.group()
def cluster() -> None:
    """Start, stop or look at a cluster on this machine."""


@cluster.command()
@click.option("--taskmanagers", type=click.IntRange(0, 256), default=1, show_default=True, metavar="N")
@click.option("--slots", type=click.IntRange(1, 1024), metavar="N", help="Slots of each TaskManager; default: 1.")
@directory_option
@configuration_options
@reporting
def start(
    taskmanagers: int, slots: int | None, directory: Path, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Start a JobManager and TaskManagers in the background."""
    from tidegate.cli.embedded.children import end_processes
    from tidegate.model.options import JobManagerOptions

    configuration = load_configuration(config, definitions)
    places = Places.of(directory, configuration)
    places.make()
    if places.running():
        names = ", ".join(f"{name} (pid {pid})" for name, pid in places.running().items())
        raise Misuse(f"a cluster is running already in {places.directory}: {names}; `tidegate cluster stop` ends it")
    common = [*(["--config", str(config.absolute())] if config else [])]
    for definition in definitions:
        common += ["-D", definition]
    children: list[Child] = []
    try:
        job_manager = _start(places, JOB_MANAGER, JOB_MANAGER, common)
        children.append(job_manager)
        ports = job_manager.wait_ready(START_TIMEOUT_S)
        host = configuration.get(JobManagerOptions.RPC_ADDRESS)
        (places.directory / f"{JOB_MANAGER}.json").write_text(json.dumps({**ports, "host": host}), encoding="utf-8")
        address = f"{host}:{ports['rpc_port']}"
        own = [*common, "--jobmanager", address, *(["--slots", str(slots)] if slots else [])]
        task_managers = [_start(places, f"taskmanager-{n}", "taskmanager", own) for n in range(1, taskmanagers + 1)]
        children += task_managers
        for task_manager in task_managers:
            task_manager.wait_ready(START_TIMEOUT_S)
        status = _wait_registered(address, taskmanagers)
    except BaseException:
        end_processes(child.pid for child in children if child.is_alive())
        raise
    slot_count = sum(len(task_manager.slots) for task_manager in status.task_managers)
    click.echo(
        f"JobManager at {address} (REST port {ports['rest_port']}), {taskmanagers} TaskManagers, {slot_count} slots."
    )
    click.echo(f"Logs: {places.logs}")


@cluster.command()
@directory_option
@configuration_options
@reporting
def stop(directory: Path, config: Path | None, definitions: tuple[str, ...]) -> None:
    """Stop the cluster and everything that it started."""
    from tidegate.cli.embedded.children import end_processes

    places = Places.of(directory, load_configuration(config, definitions))
    running = places.running()
    task_managers = [pid for name, pid in running.items() if name != JOB_MANAGER]
    end_processes(task_managers)
    end_processes(pid for name, pid in running.items() if name == JOB_MANAGER)
    for name in places.known():
        places.forget(name)
    (places.directory / f"{JOB_MANAGER}.json").unlink(missing_ok=True)
    for name, pid in running.items():
        click.echo(f"Stopped {name} (pid {pid}).")
    if not running:
        click.echo(f"No cluster is running in {places.directory}.")


@cluster.command()
@directory_option
@configuration_options
@reporting
def status(directory: Path, config: Path | None, definitions: tuple[str, ...]) -> None:
    """Show what is alive. Exit code 0: everything that was started; 1: not."""
    from tidegate.cli.tables import make_table, show

    places = Places.of(directory, load_configuration(config, definitions))
    running, known = places.running(), places.known()
    if not known:
        click.echo(f"No cluster in {places.directory}.")
        sys.exit(1)
    table = make_table("process", "pid", "state")
    for name in known:
        table.add_row(name, str(running.get(name, "-")), "alive" if name in running else "dead")
    show(table)
    address = places.address()
    is_up = False
    if JOB_MANAGER in running and address is not None:
        is_up = _show_cluster(address)
    sys.exit(0 if is_up and len(running) == len(known) else 1)


def _start(places: Places, name: str, command: str, options: list[str]) -> Child:
    from tidegate.cli.embedded.children import Child

    log = places.logs / f"{name}.log"
    files = ["--log-file", str(log), "--pid-file", str(places.pids / f"{name}.pid")]
    ready = places.directory / f"{name}.ready"
    return Child(name, [command, *options, *files], ready, places.logs / f"{name}.out", log)


def _wait_registered(address: str, expected: int) -> pb.ClusterStatus:
    from tidegate.cli.client import JobManagerClient

    deadline = time.monotonic() + START_TIMEOUT_S
    with JobManagerClient(address) as client:
        while True:
            status = client.cluster()
            if len(status.task_managers) >= expected:
                return status
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"only {len(status.task_managers)} of {expected} TaskManagers registered; see their logs"
                )
            time.sleep(0.1)


def _show_cluster(address: str) -> bool:
    from tidegate.cli.client import JobManagerClient

    try:
        with JobManagerClient(address) as client:
            status, jobs = client.cluster(timeout_s=5), client.list_jobs(include_terminal=False)
    except TidegateError as error:
        click.echo(f"The JobManager at {address} does not answer: {error.message}")
        return False
    slots = [slot for task_manager in status.task_managers for slot in task_manager.slots]
    free = sum(not slot.allocation_id for slot in slots)
    click.echo(
        f"JobManager at {address} (REST port {status.rest_port}): {len(status.task_managers)} TaskManagers, "
        f"{free} of {len(slots)} slots free, {len(jobs)} jobs running."
    )
    return True
