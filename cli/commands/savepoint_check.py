"""`tidegate savepoint check`: reports what would happen to each operator's state if a job started from a checkpoint.

    job file ── run here, up to its job graph ──▶ graph, programs ─┐
    PATH ── _metadata, and the schema of each state ───────────────┴─▶ a verdict for each operator ─▶ exit code

Matching and parallelism are judged by the rule that the JobManager applies (``restore_check``), types by the one with which
a subtask restores; see ``tidegate.taskmanager.compatibility``.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.command_line import SNAPSHOT, ProgramCommand
from tidegate.cli.errors import reporting
from tidegate.cli.json_output import DOCUMENT, json_option, print_json
from tidegate.cli.options import configuration_options, load_configuration
from tidegate.model.errors import InvalidJob
from tidegate.model.restore_check import RestoreOutcome
from tidegate.model.values import JsonObject

if TYPE_CHECKING:
    from tidegate.datastream._graph.executor import PlanRecorder
    from tidegate.state_reader import Checkpoint
    from tidegate.taskmanager.compatibility.operators import Finding, Opening

ALL_RESTORES, SOME_DROPPED, CANNOT, NOT_KNOWN = 0, 1, 2, 3
"""Exit codes: the worst operator counts, and only what restores as a whole is 0 (docs/adr/0115)."""
OPEN_HELP = (
    "Open functions in this process, with network and files; --no-open: nowhere. Default: in a process without network, "
    "to learn what state they ask for."
)
_HELP = {"help_option_names": ["-h", "--help"]}
_WORDS = {
    "RESTORES": "restores",
    "DROPPED": "dropped",
    "CANNOT_BE_READ": "cannot be read",
    "STARTS_EMPTY": "nothing stored",
    "UNKNOWN": "not known",
}
_WORST_FIRST = ("CANNOT_BE_READ", "DROPPED", "UNKNOWN")


def _failing_with(exit_code: int) -> Callable[[Any], Any]:
    def mark(command: Any) -> Any:
        command.failed_with = exit_code
        return command

    return mark


@click.command(cls=ProgramCommand, context_settings=_HELP)
@click.option("-p", "--parallelism", type=click.IntRange(min=1), metavar="N", help="As for `tidegate run`.")
@click.option("-n", "--allow-non-restored-state", is_flag=True, help="Dropped state is fine: exit with 0.")
@click.option("--open/--no-open", "opened", default=None, help=OPEN_HELP)
@click.option(
    "--verify/--no-verify", default=True, help="Read all state that restores, and verify it [default: verify]."
)
@json_option(DOCUMENT)
@configuration_options
@click.argument("job", metavar="job.py", type=click.Path(path_type=Path))
@click.argument("path", metavar="PATH", type=SNAPSHOT)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@reporting
@_failing_with(CANNOT)
def check(
    parallelism: int | None,
    allow_non_restored_state: bool,
    opened: bool | None,
    verify: bool,
    as_json: bool,
    config: Path | None,
    definitions: tuple[str, ...],
    job: Path,
    path: str,
    arguments: tuple[str, ...],
) -> None:
    """Tell what a job file would restore from the checkpoint or savepoint at PATH, without running the job.

    All state that restores is read, and its checksums are verified (--no-verify: names and types alone).

    Exits with 0 when everything restores, 1 when state is dropped (with -n: 0), 2 when something cannot be read or checked,
    3 when it is not known whether everything restores, since only a function that runs declares it, or it could not be opened (see --open).
    """
    from tidegate.cli.program import check_readable, run_program
    from tidegate.datastream._graph.executor import PlanRecorded, PlanRecorder
    from tidegate.state_reader import open_checkpoint
    from tidegate.taskmanager.compatibility.operators import examine_operators

    check_readable(job)
    forced = [] if parallelism is None else [f"parallelism.default={parallelism}"]
    recorder = PlanRecorder()
    with contextlib.suppress(PlanRecorded):
        run_program(job, arguments, recorder, load_configuration(config, definitions, *forced).to_strings())
    if recorder.graph is None:
        raise InvalidJob(f"{job.name} ended without a job; call env.execute() at its end")
    checkpoint = open_checkpoint(path)
    findings = examine_operators(recorder.graph, recorder.blobs, checkpoint, opening=opening_of(opened), verify=verify)
    if as_json:
        print_json(_as_json(recorder.graph.name, checkpoint, findings))
    else:
        for line in report(recorder, checkpoint, findings):
            click.echo(line)
    sys.exit(exit_code(findings, allow_non_restored_state))


def opening_of(opened: bool | None) -> Opening:
    """Returns the opening that ``--open``, ``--no-open`` or neither of them selects."""
    from tidegate.taskmanager.compatibility.operators import Opening

    return {None: Opening.APART, True: Opening.HERE, False: Opening.NOT}[opened]


def _as_json(job_name: str, checkpoint: Checkpoint, findings: Sequence[Finding]) -> JsonObject:
    manifest = checkpoint.manifest
    return {
        "job": job_name,
        "checkpoint": {
            "id": manifest.checkpoint_id,
            "type": manifest.snapshot_type.value,
            "job": manifest.job_name,
            "timestamp": manifest.timestamp_ms,
        },
        "operators": [
            {
                "name": finding.verdict.name,
                "uid": finding.verdict.uid or None,
                "verdict": _worst(finding),
                "reason": finding.verdict.reason or None,
                "states": [
                    {"name": state.name, "verdict": state.outcome.name, "reason": state.text or None}
                    for state in finding.states
                ],
            }
            for finding in findings
        ],
        "summary": _summary(findings),
    }


def report(recorder: PlanRecorder, checkpoint: Checkpoint, findings: Sequence[Finding]) -> Iterator[str]:
    """Yields the lines to print."""
    from tidegate.cli.tables import lines_of, make_table, moment

    manifest = checkpoint.manifest
    assert recorder.graph is not None
    yield (
        f"Job '{recorder.graph.name}' from {manifest.snapshot_type.value.lower()} {manifest.checkpoint_id} of job "
        f"'{manifest.job_name}' ({moment(manifest.timestamp_ms)}):"
    )
    table = make_table("operator", "uid", "subtasks", "verdict")
    for finding in findings:
        verdict = finding.verdict
        table.add_row(verdict.name, verdict.uid or "-", finding.parallelism or "-", _WORDS[_worst(finding)])
    yield from lines_of(table)
    for finding in findings:
        yield from _lines_of(finding)
    yield _summary(findings)


def _worst(finding: Finding) -> str:
    return next((name for name in _WORST_FIRST if name in finding.outcomes), finding.verdict.outcome.name)


def exit_code(findings: Sequence[Finding], allow_dropped: bool) -> int:
    """Returns the exit code: what is certain takes precedence over what is not known."""
    outcomes = {name for finding in findings for name in finding.outcomes}
    if "CANNOT_BE_READ" in outcomes:
        return CANNOT
    if "DROPPED" in outcomes and not allow_dropped:
        return SOME_DROPPED
    return NOT_KNOWN if "UNKNOWN" in outcomes else ALL_RESTORES


def _lines_of(finding: Finding) -> Iterator[str]:
    """Yields a line for everything that needs an explanation."""
    if finding.verdict.reason:
        yield f"{finding.verdict.name}: {finding.verdict.reason}"
    for state in finding.states:
        if state.text:
            said = "" if state.outcome.name == "RESTORES" else f"{_WORDS[state.outcome.name]}: "
            yield f"{finding.verdict.name}, state '{state.name}': {said}{state.text}"
    is_restored = finding.verdict.outcome is RestoreOutcome.RESTORES and finding.states
    if is_restored and not finding.verdict.uid:
        yield (
            f"{finding.verdict.name}: it has no uid and was found by its place in the graph; give it one with uid(...) "
            "before the graph changes"
        )


def _summary(findings: Sequence[Finding]) -> str:
    unreadable, dropped, unknown = ([f for f in findings if name in f.outcomes] for name in _WORST_FIRST)
    if unreadable:
        return f"The job cannot start from it: state of {_named(unreadable)} cannot be read."
    said = []
    if dropped:
        is_refused = any(f.verdict.outcome is RestoreOutcome.DROPPED for f in dropped)
        said.append(f"State of {_named(dropped)} is dropped" + (": the job needs -n to start." if is_refused else "."))
    if unknown:
        said.append(f"Whether state of {_named(unknown)} restores is not known.")
    return " ".join(said) or "All state restores."


def _named(findings: Sequence[Finding]) -> str:
    return ", ".join(repr(finding.verdict.name) for finding in findings)
