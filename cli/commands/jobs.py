"""`tidegate list`, `tidegate cancel`, `tidegate checkpoints`: jobs of a running cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.command_line import JOB_ID, FlinkCommand
from tidegate.cli.commands.snapshots import TIMEOUT, connect
from tidegate.cli.errors import reporting
from tidegate.cli.json_output import DOCUMENT, LINES, json_option, print_all_json, print_json
from tidegate.cli.options import configuration_options, job_manager_option
from tidegate.model.errors import UserError
from tidegate.model.values import JsonObject

if TYPE_CHECKING:
    from tidegate.pb import jobmanager_pb2 as pb


@click.command("list", cls=FlinkCommand)
@click.option("-a", "--all", "include_terminal", is_flag=True, help="Also jobs that have ended.")
@click.option("-r", "--running", is_flag=True, help="Only jobs that run, or have begun to.")
@click.option("-s", "--scheduled", is_flag=True, help="Only jobs that have not begun.")
@json_option(LINES)
@job_manager_option
@configuration_options
@reporting
def list_jobs(
    include_terminal: bool,
    running: bool,
    scheduled: bool,
    as_json: bool,
    job_manager: str | None,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """List the jobs of a cluster, and what is wrong with how they work."""
    from tidegate.cli.progress import waiting_of
    from tidegate.cli.tables import duration, make_table, moment, show

    with connect(job_manager, config, definitions) as client:
        jobs = client.list_jobs(include_terminal, with_findings=True)
    if running != scheduled and not include_terminal:
        jobs = [job for job in jobs if (job.state == "CREATED") == scheduled]
    jobs = sorted(jobs, key=lambda job: job.start_ms)
    if as_json:
        print_all_json(_job_as_json(job) for job in jobs)
        return
    if not jobs:
        kind = "scheduled" if scheduled and not running else "running"
        click.echo("No jobs." if include_terminal else f"No {kind} jobs; `tidegate list -a` shows those that are over.")
        return
    table = make_table("job", "name", "state", "start", "duration", "tasks", "restarts", "checkpoints")
    for job in jobs:
        now_ms = time.time_ns() // 1_000_000
        end_ms = job.end_ms if job.HasField("end_ms") else now_ms
        state = f"{job.state}, waiting for {waiting_of(job, now_ms)}" if job.waiting_for else job.state
        table.add_row(
            job.job_id,
            job.name,
            state,
            moment(job.start_ms),
            duration(max(0, end_ms - job.start_ms)),
            _tasks_of(job),
            str(job.restarts),
            str(job.checkpoints_completed),
        )
    show(table)
    for line in findings_of(jobs):
        click.echo(line)


def findings_of(jobs: Sequence[pb.JobStatus]) -> Iterator[str]:
    """Yields what is wrong with how running jobs work: for each job its name, and two lines for each finding."""
    for job in jobs:
        if job.findings:
            yield f"\n{job.name} ({job.job_id}):"
        for finding in job.findings:
            yield f"  {finding.sentence}"
            yield f"    {finding.advice}"


@click.command(cls=FlinkCommand)
@click.argument("job", metavar="JOB", required=False, shell_complete=JOB_ID.shell_complete)
@click.option(
    "-s",
    "--with-savepoint",
    "directory",
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    help="Take a savepoint first, below DIR or the configured directory. Deprecated in Flink: `tidegate stop` leaves no gap between the two.",
)
@TIMEOUT
@job_manager_option
@configuration_options
@reporting
def cancel(
    job: str | None,
    directory: str | None,
    timeout_s: float,
    job_manager: str | None,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """Cancel a job."""
    from tidegate.cli.submission import absolute

    if job is None and directory:  # as Flink reads `cancel -s JOB`
        job, directory = directory, ""
    context = click.get_current_context()
    parameter = next(one for one in context.command.params if one.name == "job")
    if job is None:
        raise click.MissingParameter(ctx=context, param=parameter)
    job = JOB_ID.convert(job, parameter, context)
    with connect(job_manager, config, definitions) as client:
        if directory is None:
            click.echo(f"Cancelling job {job}.")
            client.cancel(job)
            click.echo(f"Cancelled job {job}.")
            return
        place = f"to {directory}" if directory else "to default savepoint directory"
        click.echo('DEPRECATION WARNING: Cancelling a job with savepoint is deprecated. Use "stop" instead.', err=True)
        click.echo(f"Cancelling job {job} with savepoint {place}.")
        taken = client.savepoint(job, absolute(directory) if directory else "", timeout_s)
        client.cancel(job)
    click.echo(f"Cancelled job {job}. Savepoint stored in {taken.path}.")


@click.command(cls=FlinkCommand)
@click.argument("job", metavar="JOB", type=JOB_ID)
@click.option("--id", "checkpoint_id", type=click.IntRange(min=1), metavar="N", help="Draw checkpoint N as a timeline.")
@json_option(DOCUMENT)
@job_manager_option
@configuration_options
@reporting
def checkpoints(
    job: str,
    checkpoint_id: int | None,
    as_json: bool,
    job_manager: str | None,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """Show the last checkpoints of a job, newest first."""
    from tidegate.cli.tables import duration, make_table, moment, show, size

    with connect(job_manager, config, definitions) as client:
        listed = client.checkpoints(job, subtasks_of=checkpoint_id or 0)
        if checkpoint_id is not None and as_json:
            print_json(_checkpoint_as_json(_chosen(listed, checkpoint_id, job)))
            return
        if checkpoint_id is not None:
            _draw(_chosen(listed, checkpoint_id, job), client.status(job))
            return
    if as_json:
        counts = {name: getattr(listed, name) for name in ("restored", "in_progress", "completed", "failed")}
        print_json({"counts": counts, "history": [_checkpoint_as_json(one) for one in listed.checkpoints]})
        return
    click.echo(
        f"completed {listed.completed}, failed {listed.failed}, in progress {listed.in_progress}, restored {listed.restored}"
    )
    if not listed.checkpoints:
        return
    table = make_table("id", "status", "type", "trigger", "duration", "size", "acknowledged", "path or failure")
    for checkpoint in listed.checkpoints:
        taken = checkpoint.completed_ms - checkpoint.trigger_ms if checkpoint.HasField("completed_ms") else None
        table.add_row(
            str(checkpoint.checkpoint_id),
            _status_of(checkpoint),
            checkpoint.snapshot_type,
            moment(checkpoint.trigger_ms),
            "-" if taken is None else duration(taken),
            size(checkpoint.size_bytes),
            f"{checkpoint.acknowledged}/{checkpoint.expected}",
            checkpoint.failure or checkpoint.path,
        )
    show(table)


def _chosen(listed: pb.CheckpointList, checkpoint_id: int, job: str) -> pb.CheckpointStatus:
    for checkpoint in listed.checkpoints:
        if checkpoint.checkpoint_id == checkpoint_id:
            return checkpoint
    ids = [checkpoint.checkpoint_id for checkpoint in listed.checkpoints]
    kept = f"ids {min(ids)} to {max(ids)} are" if ids else "nothing is"
    raise UserError(
        f"checkpoint {checkpoint_id} of job {job} is not in the history: {kept}; web.checkpoints.history sets its length"
    )


def _draw(checkpoint: pb.CheckpointStatus, job: pb.JobStatus) -> None:
    from tidegate.cli.commands.timeline import (
        SUBTASKS_SHOWN,
        explained,
        legend,
        make_timeline,
        missing_of,
        tracks_of,
        waits,
    )
    from tidegate.cli.tables import duration, lines_of, moment, screen_width, show, size

    took = ""
    if checkpoint.HasField("completed_ms"):
        took = f", took {duration(checkpoint.completed_ms - checkpoint.trigger_ms)}"
    tracks = tracks_of(checkpoint, {vertex.vertex_id: vertex.name for vertex in job.vertices})
    click.echo(
        f"{checkpoint.snapshot_type} {checkpoint.checkpoint_id} of job '{job.name}': {_status_of(checkpoint)}\n"
        f"triggered {moment(checkpoint.trigger_ms)}, {checkpoint.acknowledged}/{checkpoint.expected} acknowledged, "
        f"{size(checkpoint.size_bytes)}{took}"
    )
    if tracks:
        show(make_timeline(tracks, screen_width()), keeps_columns=True)
        if len(checkpoint.subtasks) > SUBTASKS_SHOWN:
            click.echo(f"... the {SUBTASKS_SHOWN} slowest of {len(checkpoint.subtasks)}")
        for line in [*lines_of(legend(tracks)), *waits(tracks, screen_width())]:
            click.echo(line)
    click.echo(explained(checkpoint, tracks, missing_of(checkpoint, job.vertices), int(time.time() * 1000)))


def _job_as_json(job: pb.JobStatus) -> JsonObject:
    """Returns a job with the names of `/jobs/overview`, and the other columns of the table."""
    tasks = _counts_of(job)
    end_ms = job.end_ms if job.HasField("end_ms") else None
    until_ms = time.time_ns() // 1_000_000 if end_ms is None else end_ms
    return {
        "jid": job.job_id,
        "name": job.name,
        "state": job.state,
        "start-time": job.start_ms,
        "end-time": -1 if end_ms is None else end_ms,
        "duration": max(0, until_ms - job.start_ms),
        "tasks": {"total": tasks.total(), **{state.lower(): number for state, number in sorted(tasks.items())}},
        "waiting-for": job.waiting_for or None,
        "restarts": job.restarts,
        "checkpoints": job.checkpoints_completed,
        "findings": [
            {
                "kind": finding.kind,
                "vertex": finding.vertex_id,
                "subtask": finding.subtask if finding.HasField("subtask") else None,
                "sentence": finding.sentence,
                "advice": finding.advice,
            }
            for finding in job.findings
        ],
    }


def _checkpoint_as_json(checkpoint: pb.CheckpointStatus) -> JsonObject:
    """Returns a checkpoint with the names of `/jobs/:jobid/checkpoints`."""
    taken = checkpoint.completed_ms - checkpoint.trigger_ms if checkpoint.HasField("completed_ms") else None
    shown: JsonObject = {
        "id": checkpoint.checkpoint_id,
        "status": checkpoint.status,
        "checkpoint_type": checkpoint.snapshot_type,
        "trigger_timestamp": checkpoint.trigger_ms,
        "end_to_end_duration": taken,
        "state_size": checkpoint.size_bytes,
        "num_subtasks": checkpoint.expected,
        "num_acknowledged_subtasks": checkpoint.acknowledged,
        "discarded": checkpoint.discarded,
        "restored": checkpoint.restored,
        "external_path": checkpoint.path or None,
        "failure_message": checkpoint.failure or None,
    }
    if checkpoint.subtasks:
        shown["subtasks"] = [
            {
                "vertex": subtask.vertex_id,
                "index": subtask.index,
                "ack_timestamp": subtask.ack_ms or None,
                "state_size": subtask.size_bytes,
            }
            for subtask in checkpoint.subtasks
        ]
    return shown


def _counts_of(job: pb.JobStatus) -> Counter[str]:
    states: Counter[str] = Counter()
    for vertex in job.vertices:
        states.update(vertex.task_counts)
    return states


def _tasks_of(job: pb.JobStatus) -> str:
    states = _counts_of(job)
    return ", ".join(f"{number} {state}" for state, number in sorted(states.items()))


def _status_of(checkpoint: pb.CheckpointStatus) -> str:
    marks = [
        mark for mark, is_set in (("discarded", checkpoint.discarded), ("restored", checkpoint.restored)) if is_set
    ]
    return f"{checkpoint.status} ({', '.join(marks)})" if marks else checkpoint.status
