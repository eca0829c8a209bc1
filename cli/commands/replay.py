"""`tidegate replay`: replays a failed subtask from its kept failure with the same records, and reports whether it fails again.

no FAILURE ─▶ those that were kept │ FAILURE ─▶ a process with the hash seed of the subtask ─▶ signature ─▶ replay ─▶ report
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.errors import FAILED, reporting
from tidegate.cli.json_output import DOCUMENT, LINES, json_option, print_json
from tidegate.cli.options import configuration_options, load_configuration
from tidegate.model.errors import InvalidJob, Misuse
from tidegate.model.values import JsonObject

if TYPE_CHECKING:
    from tidegate.model.configuration import Configuration
    from tidegate.model.program import VertexProgram
    from tidegate.taskmanager.recording.failures import Failure
    from tidegate.taskmanager.replaying.observers import BreakAt, WatchState
    from tidegate.taskmanager.replaying.redacted_replay import RedactedReplay
    from tidegate.taskmanager.replaying.replay import ReplayOutcome

_SEED = "PYTHONHASHSEED"
_OTHER_SEED = "4711"
"""The hash seed of the second run of `--check`: any that subtasks do not have."""


@click.command()
@click.argument("failure", required=False)
@click.option("--pdb", "in_debugger", is_flag=True, help="Stop in a debugger where the function fails.")
@click.option(
    "--break-at",
    type=click.IntRange(min=1),
    metavar="RECORD",
    help="Stop in a debugger in the function when it gets this record (its number).",
)
@click.option("--watch", metavar="STATE", help="Show this state of the record's key before and after each record.")
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Records that --watch shows, up to the failure.",
)
@click.option(
    "--program",
    type=click.Path(path_type=Path),
    metavar="job.py",
    help="Try the functions of this job file, in the place of those that failed.",
)
@click.option(
    "--check", is_flag=True, help="Run it a second time, with sets in another order, and compare the outputs."
)
@click.option(
    "--redact",
    "folder",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Write a copy into this folder in which the data is replaced by stand-ins, and replay it too.",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="FIELD",
    help="A field or state that --redact leaves as it is; 'key' for the keys of all state. May be repeated.",
)
@json_option(f"{LINES[:-1]}, or {DOCUMENT[0].lower()}{DOCUMENT[1:]}")
@configuration_options
@reporting
def replay(
    failure: str | None,
    in_debugger: bool,
    break_at: int | None,
    watch: str | None,
    last: int,
    program: Path | None,
    check: bool,
    folder: Path | None,
    keep: tuple[str, ...],
    as_json: bool,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """Run a subtask that failed again here, from its checkpoint and with the same records.

    FAILURE is the id of a failure that was kept, the beginning of one, or its folder. Without it those that were kept are listed. Failures are kept with
    tidegate.replay.enabled=true. Sinks write nothing, and what the subtask emits goes nowhere.

    Exits with 0 when it fails as it did, with 1 when it does not; with --program with 0 when it does not fail any longer, with 1 when it does;
    with --redact with 0 when the copy fails as the original does.
    """
    from tidegate.aio.homes import failures_of

    configuration = load_configuration(config, definitions)
    place = failures_of(configuration)
    if failure is None:
        if in_debugger or break_at or watch or program or check or folder or keep:
            raise Misuse("say which failure to replay; `tidegate replay` lists those that were kept")
        _list(place, as_json=as_json)
        return
    if as_json and (in_debugger or break_at or watch):
        raise Misuse("--json has no debugger and shows no state: leave --pdb, --break-at and --watch out")
    if keep and folder is None:
        raise Misuse("--keep is for --redact: say where the copy is to be written")
    if folder is not None and (in_debugger or break_at or watch or program or check):
        raise Misuse("--redact writes a copy; replay that with the other options")
    from tidegate.taskmanager.replaying.opening import find_failure

    found = find_failure(place, failure)
    _use_seed(found)
    tell: Callable[[str], None] = _nothing if as_json else click.echo
    _introduce(found, tell)
    if folder is not None:
        sys.exit(0 if _redact(found, configuration, folder, frozenset(keep), tell, as_json=as_json) else FAILED)
    outcome, watched = _run(found, configuration, in_debugger, break_at, watch, last, program)
    other = _digest_of_other(found, config, definitions) if check else ""
    if check and other != _summary(outcome):
        outcome.differences.append(
            "with sets in another order (another PYTHONHASHSEED) it emits or raises something else: the function depends on the order of a set"
        )
    if as_json:
        print_json(_as_json(found, outcome))
    else:
        for line in _report(outcome, watched, changed=program is not None):
            click.echo(line)
    succeeded = outcome.error is None if program is not None else outcome.reproduced
    sys.exit(0 if succeeded else FAILED)


def _nothing(text: str) -> None:
    del text


def _list(place: Path, *, as_json: bool) -> None:
    from tidegate.cli.tables import make_table, moment, show
    from tidegate.taskmanager.recording.failures import list_failures

    found = list_failures(place)
    if as_json:
        print_json(*(one.to_json() for one in found))
        return
    if not found:
        click.echo(f"No failures are kept in {place}. Run jobs with -D tidegate.replay.enabled=true to keep them.")
        return
    table = make_table("id", "failed", "job", "subtask", "records", "message")
    for one in found:
        message = one.message if len(one.message) <= 100 else one.message[:97] + "..."
        table.add_row(one.failure_id, moment(one.failed_ms), one.job_name, one.label, str(one.calls_records), message)
    show(table)


def _use_seed(failure: Failure) -> None:
    """Restarts this command with the hash seed of the subtask, so that sets have the same order."""
    if failure.hash_seed in ("random", os.environ.get(_SEED, "random")) or os.environ.get(_SEED) == _OTHER_SEED:
        return
    sys.stdout.flush()
    os.execve(  # noqa: S606  (this program, again)
        sys.executable,
        [sys.executable, "-m", "tidegate.cli.main", *sys.argv[1:]],
        {**os.environ, _SEED: failure.hash_seed},
    )


def _introduce(failure: Failure, tell: Callable[[str], None]) -> None:
    import platform

    from tidegate.cli.tables import moment

    since = f"checkpoint {failure.checkpoint_id}" if failure.checkpoint_id else "the start of the job"
    tell(
        f"{failure.label} of job '{failure.job_name}' failed at {moment(failure.failed_ms)}; replaying it from {since}"
    )
    if failure.python != platform.python_version():
        tell(f"It ran with Python {failure.python}; this is {platform.python_version()}.")


def _run(
    failure: Failure,
    configuration: Configuration,
    in_debugger: bool,
    break_at: int | None,
    watch: str | None,
    last: int,
    job: Path | None,
) -> tuple[ReplayOutcome, WatchState | None]:
    from tidegate.aio.signing import signing_of
    from tidegate.taskmanager.replaying.observers import Both, BreakAt, WatchState
    from tidegate.taskmanager.replaying.opening import open_program
    from tidegate.taskmanager.replaying.replay import FailureReplay

    observers: list[BreakAt | WatchState] = []
    watched = None if watch is None else WatchState(watch, last)
    stop = None if break_at is None else BreakAt(break_at, click.echo)
    observers += [found for found in (watched, stop) if found is not None]
    signing = signing_of(configuration)
    with tempfile.TemporaryDirectory(prefix="tidegate-replay-") as name:
        directory = Path(name)
        program = open_program(failure, None if signing is None else signing(), directory)
        if job is not None:
            program = _changed(failure, program, job, configuration)
        run = FailureReplay(
            failure,
            program,
            directory,
            observer=Both(observers) if observers else None,
            exact=job is None,
            examine=_debug if in_debugger else None,
        )
        outcome = run.run()
    if stop is not None and not stop.was_reached:
        raise InvalidJob(f"there is no record {break_at}: the recording ends after {outcome.records}")
    return outcome, watched


def _redact(
    failure: Failure,
    configuration: Configuration,
    folder: Path,
    keep: frozenset[str],
    tell: Callable[[str], None],
    *,
    as_json: bool,
) -> bool:
    """Writes a redacted copy and says what came of its replay. Returns whether it fails as the original does."""
    from tidegate.aio.signing import signing_of
    from tidegate.taskmanager.recording.failures import PROGRAM, read_content
    from tidegate.taskmanager.replaying.opening import open_program
    from tidegate.taskmanager.replaying.redacted_replay import find_needed, redact_and_replay
    from tidegate.taskmanager.spark.user_code import load_program

    signing = signing_of(configuration)
    with tempfile.TemporaryDirectory(prefix="tidegate-replay-") as name:
        directory = Path(name)
        open_program(failure, None if signing is None else signing(), directory)

        def load() -> VertexProgram:
            return load_program(read_content(failure, PROGRAM), failure.task_name)

        found = redact_and_replay(failure, load, folder, keep, directory)
        needed = None if found.is_same or found.original.error is None else find_needed(failure, load, keep, directory)
    if as_json:
        print_json(
            {
                "id": failure.failure_id,
                "copy": str(folder),
                "reproduced": found.is_same,
                "failed": found.outcome.error is not None,
                "at": found.outcome.at or None,
                "record": found.outcome.record,
                "message": found.copy.message,
                "merged": found.redacted.merged,
                "left_out": list(found.redacted.left_out),
                "needed": needed,
            }
        )
        return found.is_same
    for line in _of_copy(found, needed, folder):
        tell(line)
    return found.is_same


def _of_copy(found: RedactedReplay, needed: list[str] | None, folder: Path) -> list[str]:
    outcome, redacted = found.outcome, found.redacted
    lines = [f"The copy is in {folder}, with stand-ins in the place of the data of records and state.", ""]
    if found.original.error is None:
        lines.append("The original did not fail when it was replayed, so nothing can be said of the copy.")
    elif found.is_same:
        lines.append(f"The copy fails with the same exception, {outcome.at}")
        lines.append(found.copy.message)
    elif outcome.error is None:
        lines.append("The copy does not fail.")
    else:
        lines += [f"The copy fails, but not as the original does: {outcome.at}", found.copy.message]
    if needed:
        lines.append(f"It comes again if these stay as they are: {' '.join(f'--keep {name}' for name in needed)}")
    elif not found.is_same and found.original.error is not None:
        again = (
            "not known, try it once more"
            if needed is not None
            else "not known: it does not come with all fields kept either"
        )
        lines.append(f"What would have to stay for it is {again}.")
    lines += [
        "",
        "As they are: the program, the job's files and options, the names of fields. Look whether others may see them.",
    ]
    if redacted.left_out:
        lines.append(f"Left out, since a replay does not need it: the state of {', '.join(redacted.left_out)}.")
    if redacted.merged:
        lines.append(f"There are too few values of their length: {redacted.merged} values are now equal to others.")
    return lines


def _debug(outcome: ReplayOutcome) -> None:
    import pdb

    error = outcome.user_error
    click.echo(f"{type(error).__name__}: {error}")
    pdb.post_mortem(None if error is None else error.__traceback__)


def _changed(failure: Failure, program: VertexProgram, job: Path, configuration: Configuration) -> VertexProgram:
    """Returns the vertex program of a job file with the operators of the failed one. Raises ``InvalidJob`` when there is none."""
    import contextlib

    from tidegate.cli.program import check_readable, run_program
    from tidegate.datastream._graph.executor import PlanRecorded, PlanRecorder
    from tidegate.taskmanager.spark.user_code import load_program

    check_readable(job)
    recorder = PlanRecorder()
    with contextlib.suppress(PlanRecorded):
        run_program(job, (), recorder, configuration.to_strings())
    if recorder.graph is None:
        raise InvalidJob(f"{job.name} ended without a job; call env.execute() at its end")
    wanted = [spec.operator_id for spec in program.operators]
    for vertex in recorder.graph.vertices:
        if [operator.operator_id for operator in vertex.operators] == wanted:
            return load_program(recorder.blobs[vertex.program], vertex.name)
    names = ", ".join(repr(spec.name) for spec in program.operators)
    raise InvalidJob(
        f"{job.name} has no vertex with the operators of {failure.label} ({names}): give operators a uid, and keep the graph as it was"
    )


def _digest_of_other(failure: Failure, config: Path | None, definitions: Sequence[str]) -> str:
    """Returns the outputs and the error message of a second run, in a process whose sets have another order."""
    import json

    command = [sys.executable, "-m", "tidegate.cli.main", "replay", str(failure.folder), "--json"]
    command += [] if config is None else ["--config", str(config)]
    command += [part for definition in definitions for part in ("-D", definition)]
    environment = {**os.environ, _SEED: _OTHER_SEED}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    try:
        said = json.loads(ended.stdout)
    except ValueError:
        raise InvalidJob(f"the second run did not complete: {ended.stderr.strip() or ended.returncode}") from None
    return f"{said['outputs']} {said['digest']} {said['message']}"


def _summary(outcome: ReplayOutcome) -> str:
    message = None if outcome.error is None else outcome.error.message
    return f"{outcome.outputs.count} {outcome.outputs.digest} {message}"


def _as_json(failure: Failure, outcome: ReplayOutcome) -> JsonObject:
    return {
        "id": failure.failure_id,
        "reproduced": outcome.reproduced,
        "failed": outcome.error is not None,
        "at": outcome.at or None,
        "record": outcome.record,
        "value": outcome.shown_value or None,
        "message": None if outcome.error is None else outcome.error.message,
        "records": outcome.records,
        "outputs": outcome.outputs.count,
        "digest": outcome.outputs.digest,
        "differences": list(outcome.differences),
        "chance": list(outcome.chance),
    }


def _report(outcome: ReplayOutcome, watched: WatchState | None, *, changed: bool) -> list[str]:
    from tidegate.cli.tables import lines_of, make_table

    lines: list[str] = []
    if watched is not None and watched.rows:
        table = make_table("record", "value", "key", "before", "after")
        for row in watched.rows:
            table.add_row(str(row.number), row.value, row.key, row.before, row.after)
        lines += lines_of(table)
    if outcome.outputs.count:
        lines.append(f"It emitted {outcome.outputs.count} records; the last ones:")
        lines += [f"  {text}" for text in outcome.shown_outputs]
    if outcome.error is not None:
        lines += ["", *outcome.error.details.rstrip().splitlines()]
        at = outcome.at if outcome.record is None else f"{outcome.at}: {outcome.shown_value}"
        lines += ["", f"{_verdict(outcome, changed=changed)}, {at}"]
        lines.append(outcome.error.message)
    else:
        lines += ["", f"It does not fail: all {outcome.records} records of the recording went through."]
    if outcome.differences:
        lines += ["", "The replay is not what the subtask did:"]
        lines += [f"  {text}" for text in outcome.differences]
    if outcome.chance and (outcome.differences or not outcome.reproduced or changed):
        lines += [
            "",
            "These answers are not recorded, so they differ in every run (ask the timer service for the time, and keep seeds in state):",
        ]
    elif outcome.chance:
        lines += ["", "It failed in the same way, although these answers are not recorded:"]
    lines += [f"  {text}" for text in outcome.chance]
    return lines


def _verdict(outcome: ReplayOutcome, *, changed: bool) -> str:
    if changed:
        return "It still fails" if outcome.reproduced else "It fails, but not as before"
    return "It failed again with the same exception" if outcome.reproduced else "It failed, but not as it did"
