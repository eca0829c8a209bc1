"""`tidegate run` and `tidegate info`: execute a job file or a compiled plan, or only show its plan."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.command_line import SNAPSHOT, ProgramCommand
from tidegate.cli.errors import reporting
from tidegate.cli.json_output import DOCUMENT, json_option, print_json
from tidegate.cli.options import (
    address_definitions,
    client_of,
    configuration_options,
    job_manager_option,
    load_configuration,
    taking,
)
from tidegate.cli.python_options import Brought, python_options
from tidegate.model.errors import InvalidJob, Misuse
from tidegate.model.ids import JobId
from tidegate.model.values import JsonObject

if TYPE_CHECKING:
    from tidegate.model.graph import JobGraph

_PARALLELISM = click.option(
    "-p", "--parallelism", type=click.IntRange(min=1), metavar="N", help="Subtasks of operators that set none."
)


class _ClaimMode(click.Choice[str]):
    """A choice that also accepts Flink's spelling: `no_claim` and `NO_CLAIM`."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(value.lower().replace("_", "-"), param, ctx)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The parameters of `tidegate run`; its options say what each field is."""

    detached: bool
    shutdown_on_attached_exit: bool
    parallelism: int | None
    restore: str | None
    allow_non_restored_state: bool
    claim_mode: str | None
    job_manager: str | None
    local: bool
    target: str | None
    brought: Brought
    profile: bool
    job_id: str | None
    submitted_file: Path | None
    config: Path | None
    definitions: tuple[str, ...]
    job: Path | None
    arguments: tuple[str, ...]

    def forced(self) -> list[str]:
        """Returns the definitions (KEY=VALUE) that follow from the other options. Raises `Misuse` for an address that is none."""
        forced = address_definitions(self.job_manager) + self.brought.definitions()
        forced += [] if self.parallelism is None else [f"parallelism.default={self.parallelism}"]
        forced += ["execution.shutdown-on-attached-exit=true"] if self.shutdown_on_attached_exit else []
        forced += ["tidegate.profile=true"] if self.profile else []
        if self.claim_mode is not None:
            forced.append(f"execution.state-recovery.claim-mode={self.claim_mode.replace('-', '_').upper()}")
        return forced


@click.command(cls=ProgramCommand)
@click.option("-d", "--detached", is_flag=True, help="Print the job's id and leave.")
@click.option(
    "-sae",
    "--shutdownOnAttachedExit",
    "shutdown_on_attached_exit",
    is_flag=True,
    help="Attached: Ctrl-C cancels the job; else the job goes on.",
)
@_PARALLELISM
@click.option(
    "-s", "--from-savepoint", "restore", type=SNAPSHOT, metavar="PATH", help="Start from this checkpoint or savepoint."
)
@click.option(
    "-n", "--allow-non-restored-state", is_flag=True, help="Skip state of operators that the job no longer has."
)
@click.option(
    "-cm",
    "--claim-mode",
    type=_ClaimMode(["claim", "no-claim", "legacy"]),
    help="Who owns the files of -s: the job (claim), or you (no-claim, as configured).",
)
@job_manager_option
@click.option("--local", is_flag=True, help="Run in a cluster of its own, for the length of the program.")
@click.option(
    "-t",
    "--target",
    type=click.Choice(["remote", "local"]),
    help="As in Flink: local is --local, remote the cluster of -m; `tidegate run-application` is a target of its own.",
)
@python_options
@click.option("--profile", is_flag=True, help="Print at the end what the subtasks' time went into.")
@click.option("--job-id", hidden=True)
@click.option("--submitted-file", type=click.Path(path_type=Path), hidden=True)
@configuration_options
@click.argument("job", metavar="job.py|plan.json", required=False, type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@reporting
@taking(RunOptions)
def run(options: RunOptions) -> None:
    """Run a job file, or a compiled plan of tables, which needs no Java. Attached, it shows progress and exits with 0 when the
    job FINISHED, 1 when it FAILED or was CANCELED. A program that ends well and submits no job exits with 0, too.
    Ctrl-C leaves the job running, unless -sae is given; with --local it ends both."""
    from tidegate.cli.program import check_readable, run_program

    is_local = options.local or options.target == "local"
    if options.local and options.target == "remote":
        raise Misuse("--local and -t remote are two targets: give only one of them")
    if is_local and (options.job_manager is not None or options.detached):
        raise Misuse(
            "--local starts a cluster that ends with the program: it cannot be combined with --jobmanager or --detached"
        )
    program, arguments = options.brought.program(options.job, options.arguments)
    check_readable(program)
    configuration = load_configuration(options.config, options.definitions, *options.forced())
    texts = configuration.to_strings()
    restore, allow_non_restored_state = options.restore or "", options.allow_non_restored_state
    if is_local:
        from tidegate.cli.embedded.local import LocalClusterExecutor

        local_executor = LocalClusterExecutor(restore, allow_non_restored_state)
        run_program(program, arguments, local_executor, texts)
        _tell_submitted(program, local_executor.submitted)
        return
    from tidegate.cli.executor import ClusterExecutor

    with client_of(configuration, options.job_manager) as client:
        client.cluster()  # no cluster: say so before the program does its work
        given = None if options.job_id is None else JobId(options.job_id)
        executor = ClusterExecutor(
            client, restore, allow_non_restored_state, options.detached, given, options.submitted_file
        )
        run_program(program, arguments, executor, texts)
        if given is not None or options.submitted_file is not None:  # an application, and REST, need the job
            _check_submitted(program, executor.submitted)
        _tell_submitted(program, executor.submitted)


@click.command(cls=ProgramCommand)
@_PARALLELISM
@click.option("--graph-file", type=click.Path(path_type=Path), hidden=True)
@json_option(DOCUMENT)
@configuration_options
@click.argument("job", metavar="job.py|plan.json", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@reporting
def info(
    parallelism: int | None,
    graph_file: Path | None,
    as_json: bool,
    config: Path | None,
    definitions: tuple[str, ...],
    job: Path,
    arguments: tuple[str, ...],
) -> None:
    """Show the plan of a job file, or of a compiled plan of tables, without running it."""
    from tidegate.cli.program import run_program
    from tidegate.connectors.spark.query import tell_start
    from tidegate.datastream._graph.executor import PlanRecorded, PlanRecorder

    forced = [] if parallelism is None else [f"parallelism.default={parallelism}"]
    tell_start.set(partial(click.echo, err=True))
    recorder = PlanRecorder()
    texts = load_configuration(config, definitions, *forced).to_strings()
    with contextlib.suppress(PlanRecorded):
        run_program(job, arguments, recorder, texts)
    if recorder.graph is None:
        _check_submitted(job, 0)
    elif graph_file is not None:
        from tidegate.cli.submission import make_submission
        from tidegate.wire.convert import graph_to_pb

        graph_file.write_bytes(graph_to_pb(make_submission(recorder.graph).graph).SerializeToString())
    elif as_json:
        print_json(_plan_as_json(recorder.graph))
    else:
        _show_plan(recorder.graph)


def _check_submitted(job: Path, submitted: int) -> None:
    if submitted == 0:
        raise InvalidJob(f"{job.name} ended without a job; call env.execute() at its end")


def _tell_submitted(job: Path, submitted: int) -> None:
    """Prints that a program has submitted no job. That is no failure: `flink run` of Flink 2.3 (run with PyFlink, 2026-11-28) exits with 0,
    without a message.
    """
    if submitted == 0:
        click.echo(f"{job.name} has ended and submitted no job: it did not call env.execute().", err=True)


def _plan_as_json(graph: JobGraph) -> JsonObject:
    """Returns the plan with the names of `/jobs/:jobid/plan`, and the slots that the job needs."""
    from tidegate.cli.embedded.sizing import slots_of

    nodes: list[JsonObject] = [
        {
            "id": vertex.vertex_id,
            "description": vertex.name,
            "parallelism": vertex.parallelism,
            "maxParallelism": vertex.max_parallelism,
            "slotSharingGroup": vertex.slot_sharing_group,
            "inputs": [
                {"num": number, "id": edge.source, "ship_strategy": edge.partitioner.value}
                for number, edge in enumerate(graph.inputs_of(vertex.vertex_id))
            ],
        }
        for vertex in graph.vertices
    ]
    return {"jid": graph.job_id, "name": graph.name, "slots": slots_of(graph), "nodes": nodes}


def _show_plan(graph: JobGraph) -> None:
    from rich.table import Table

    from tidegate.cli.embedded.sizing import slots_of
    from tidegate.cli.tables import make_table, show

    numbers = {vertex.vertex_id: number for number, vertex in enumerate(graph.vertices, start=1)}
    table: Table = make_table("", "vertex", "parallelism", "max", "inputs", "slot group")
    for vertex in graph.vertices:
        inputs = ", ".join(
            f"{edge.partitioner.value} from {numbers[edge.source]}" for edge in graph.inputs_of(vertex.vertex_id)
        )
        row: list[object] = [numbers[vertex.vertex_id], vertex.name, vertex.parallelism, vertex.max_parallelism]
        table.add_row(*(str(cell) for cell in row), inputs or "-", vertex.slot_sharing_group)
    click.echo(f"Job {graph.name!r}: {len(graph.vertices)} vertices, {slots_of(graph)} slots")
    show(table)
    sys.stdout.flush()
