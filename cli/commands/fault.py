"""`tidegate fault`: injects faults to test a job; only at a JobManager that was started with `--allow-faults`."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import click

from tidegate.cli.errors import reporting
from tidegate.cli.json_output import LINES, json_option, print_all_json
from tidegate.cli.options import (
    address_definitions,
    address_of,
    client_of,
    configuration_options,
    job_manager_option,
    load_configuration,
)
from tidegate.model.errors import Misuse, Unreachable
from tidegate.model.values import JsonObject

TIMEOUT_S = 20
"""The timeout of the REST call, in seconds: longer than the JobManager waits for a TaskManager."""
_DELAY = click.option("--delay", metavar="DURATION", default="200 ms", show_default=True, help="By how much.")
_FOR = click.option("--for", "lasts", metavar="DURATION", default="10 s", show_default=True, help="For how long.")
_TASK_MANAGER = click.argument("taskmanager", metavar="[TASKMANAGER]", default="")


def cluster_options(command: Callable[..., object]) -> Callable[..., object]:
    return job_manager_option(configuration_options(reporting(command)))


@click.group()
def fault() -> None:
    """Make a fault on purpose and see what follows. The JobManager must run with --allow-faults. TASKMANAGER may be left out where there is one."""


@fault.command("list")
@json_option(LINES)
@cluster_options
def list_faults(as_json: bool, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]) -> None:
    """Show the faults that were made, newest first, and what followed."""
    from tidegate.cli.tables import moment

    answer = _ask(job_manager, config, definitions, None)
    if as_json:
        print_all_json(answer["faults"])
        return
    if not answer["faults"]:
        click.echo(
            "No fault was made."
            if answer["allowed"]
            else "Faults are not allowed here; start the JobManager with --allow-faults."
        )
    for made in answer["faults"]:
        click.echo(f"{moment(made['timestamp'])}  {made['text']}")
        for job in made["jobs"]:
            click.echo(f"  job {job['id']}: {'' if job['followed'] else 'nothing followed yet'}")
            for line in job["followed"]:
                click.echo(f"    {line}")


@fault.command("kill-subtask")
@click.argument("job", metavar="JOB")
@click.argument("vertex", metavar="VERTEX")
@click.argument("subtask", type=click.IntRange(0), default=0, metavar="[SUBTASK]")
@cluster_options
def kill_subtask(
    job: str, vertex: str, subtask: int, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Kill the process of a subtask, counted from 0, by SIGKILL. VERTEX: its id, or a part of its name that no other has."""
    _make(job_manager, config, definitions, {"kind": "kill-subtask", "job": job, "vertex": vertex, "subtask": subtask})


@fault.command("kill-taskmanager")
@_TASK_MANAGER
@cluster_options
def kill_task_manager(
    taskmanager: str, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Kill a TaskManager, with its subtasks, by SIGKILL."""
    _make(job_manager, config, definitions, {"kind": "kill-taskmanager", "taskmanager": taskmanager})


@fault.command("kill-executor")
@click.argument("job", metavar="JOB")
@click.argument("vertex", metavar="VERTEX")
@click.argument("subtask", type=click.IntRange(0), default=0, metavar="[SUBTASK]")
@cluster_options
def kill_executor(
    job: str, vertex: str, subtask: int, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Kill the executor of a Spark cluster in which a subtask runs, by SIGKILL."""
    _make(job_manager, config, definitions, {"kind": "kill-executor", "job": job, "vertex": vertex, "subtask": subtask})


@fault.command("skew-clock")
@_TASK_MANAGER
@click.option("--by", "skew", default="5 s", show_default=True, metavar="DURATION", help="Ahead, or behind: -5s.")
@_FOR
@cluster_options
def skew_clock(
    taskmanager: str, skew: str, lasts: str, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Set the clock that the runtime gives the subtasks of a TaskManager ahead or back. Functions that ask the system are not affected."""
    is_negative = skew.strip().startswith("-")
    skew_ms = _milliseconds("--by", skew.strip().removeprefix("-"))
    request = {"kind": "skew-clock", "taskmanager": taskmanager, "skew-ms": -skew_ms if is_negative else skew_ms}
    _make(job_manager, config, definitions, {**request, "for-ms": _milliseconds("--for", lasts)})


@fault.command("delay-channels")
@_TASK_MANAGER
@_DELAY
@_FOR
@cluster_options
def delay_channels(
    taskmanager: str, delay: str, lasts: str, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Delay what the subtasks of a TaskManager receive from others, barriers included."""
    _make(
        job_manager, config, definitions, {"kind": "delay-channels", "taskmanager": taskmanager, **_lag(delay, lasts)}
    )


@fault.command("cut-channels")
@_TASK_MANAGER
@cluster_options
def cut_channels(taskmanager: str, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]) -> None:
    """Break the connections from other subtasks to those of a TaskManager."""
    _make(job_manager, config, definitions, {"kind": "cut-channels", "taskmanager": taskmanager})


@fault.command("delay-messages")
@_TASK_MANAGER
@_DELAY
@_FOR
@cluster_options
def delay_messages(
    taskmanager: str, delay: str, lasts: str, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Delay what a TaskManager reports to the JobManager, such as acknowledgements. Heartbeats are on time."""
    _make(
        job_manager, config, definitions, {"kind": "delay-messages", "taskmanager": taskmanager, **_lag(delay, lasts)}
    )


@fault.command("drop-acknowledgements")
@_TASK_MANAGER
@click.option("--count", type=click.IntRange(1, 1000), default=1, show_default=True, help="Of so many checkpoints.")
@cluster_options
def drop_acknowledgements(
    taskmanager: str, count: int, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Drop what a TaskManager acknowledges of the next checkpoints: they expire."""
    request = {"kind": "drop-acknowledgements", "taskmanager": taskmanager, "count": count}
    _make(job_manager, config, definitions, request)


@fault.command("slow-state")
@_TASK_MANAGER
@_DELAY
@_FOR
@cluster_options
def slow_state(
    taskmanager: str, delay: str, lasts: str, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Make each file in the checkpoint directory slow, for the JobManager and all subtasks, or for those of a TaskManager."""
    _make(job_manager, config, definitions, {"kind": "slow-state", "taskmanager": taskmanager, **_lag(delay, lasts)})


@fault.command("full-state")
@_TASK_MANAGER
@_FOR
@cluster_options
def full_state(
    taskmanager: str, lasts: str, job_manager: str | None, config: Path | None, definitions: tuple[str, ...]
) -> None:
    """Refuse writes into the checkpoint directory, by the JobManager and all subtasks, or by those of a TaskManager."""
    request = {"kind": "full-state", "taskmanager": taskmanager, "for-ms": _milliseconds("--for", lasts)}
    _make(job_manager, config, definitions, request)


def _lag(delay: str, lasts: str) -> JsonObject:
    return {"delay-ms": _milliseconds("--delay", delay), "for-ms": _milliseconds("--for", lasts)}


def _milliseconds(name: str, text: str) -> int:
    from tidegate.model.units import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise Misuse(f"{name}: {error}") from None


def _make(job_manager: str | None, config: Path | None, definitions: tuple[str, ...], request: JsonObject) -> None:
    made = _ask(job_manager, config, definitions, request)
    click.echo(f"Done {made['text']}. `tidegate fault list` says what follows.")


def _ask(
    job_manager: str | None, config: Path | None, definitions: tuple[str, ...], body: JsonObject | None
) -> JsonObject:
    """Sends a request about injected faults to REST (`/faults`): asks for one where there is a body, else returns the list of them. Raises `Misuse` when it
    was refused, and `Unreachable`.
    """
    from tidegate.aio.admission import call_metadata
    from tidegate.aio.https import https_client, rest_url

    configuration = load_configuration(config, [*definitions, *address_definitions(job_manager)])
    host = address_of(configuration, job_manager).rpartition(":")[0]
    with client_of(configuration, job_manager) as client:
        port = client.cluster().rest_port
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", **dict(call_metadata(configuration))}
    request = urllib.request.Request(f"{rest_url(configuration, host, port)}/faults", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=https_client(configuration)) as answer:
            found: JsonObject = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        raise Misuse(json.load(error)["errors"][0]) from None
    except OSError as error:
        raise Unreachable(f"the REST port {host}:{port} does not answer: {error}") from None
