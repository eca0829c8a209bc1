"""`tidegate state`: reads any checkpoint or savepoint, without a cluster and without the job's classes.

The command that asks a running job is in ``state_get``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.command_line import SNAPSHOT
from tidegate.cli.errors import FAILED, reporting
from tidegate.cli.json_output import LINES, json_option, print_all_json
from tidegate.model.errors import Misuse, StorageError
from tidegate.model.values import FieldValue, JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.state_reader import Checkpoint, Operator, State, StateDifference

TABLE_ROWS = 50
"""How many rows a table shows: a screen or two; `--limit` shows more."""
CELL_CHARACTERS = 120
"""The longest cell that is not cut, so that a table of a few columns stays readable."""
LINE_CHARACTERS = 200
"""The longest row that is not cut: two lines of most terminals."""


@click.group()
def state() -> None:
    """Read the state in a checkpoint or savepoint, or of a job that runs (get).

    PATH is its directory or its _metadata file, local or a URI such as s3://...
    """


@state.command("list")
@click.argument("path", type=SNAPSHOT)
@json_option(LINES)
@reporting
def list_states(path: str, as_json: bool) -> None:
    """List the operators in a checkpoint and their states."""
    from tidegate.cli.tables import make_table, moment, show, size
    from tidegate.state_reader import open_checkpoint

    checkpoint = open_checkpoint(path)
    if as_json:
        print_all_json(_as_json(checkpoint))
        return
    manifest = checkpoint.manifest
    rows, size_bytes = _totals(checkpoint)
    click.echo(
        f"{manifest.snapshot_type.value.lower()} {manifest.checkpoint_id} of job '{manifest.job_name}' ({manifest.job_id}), "
        f"{moment(manifest.timestamp_ms)}: {len(checkpoint.operators)} operators, {rows:,} rows, {size(size_bytes)}"
    )
    for operator in checkpoint.operators:
        click.echo(f"\n{_about(operator)}")
        if not operator.states:
            click.echo("  no state")
            continue
        table = make_table("  state", "kind", "redistribution", "rows", "size")
        for found in operator.states:
            kind = checkpoint.kind_of(found)
            table.add_row(
                f"  {found.name}", kind, found.redistribution, f"{checkpoint.rows_in(found):,}", size(found.size_bytes)
            )
        show(table)


@state.command("show")
@click.argument("path", type=SNAPSHOT)
@click.option("--operator", "operator_name", required=True, metavar="UID", help="The operator: its uid, id or name.")
@click.option("--name", metavar="STATE", help="The state; default: all of the operator.")
@click.option("--key", metavar="KEY", help='Only this key; several fields as JSON: \'["UA", "EWR"]\'.')
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help=f"At most N rows of a state; a table shows {TABLE_ROWS}."
)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["table", "json", "parquet"]),
    default="table",
    show_default=True,
    help="json: one object a line.",
)
@json_option("As --format json.")
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write there instead of to the terminal."
)
@reporting
def show_state(
    path: str,
    operator_name: str,
    name: str | None,
    key: str | None,
    limit: int | None,
    layout: str,
    as_json: bool,
    output: Path | None,
) -> None:
    """Show the content of an operator's states."""
    from tidegate.state_reader import open_checkpoint

    if as_json and layout == "parquet":
        raise Misuse("--json and --format parquet are two formats: give one of them")
    checkpoint = open_checkpoint(path)
    operator = checkpoint.operator(operator_name)
    states = _selected(operator, name, key)
    if layout == "parquet":
        _write_parquet(checkpoint, operator, states, key, limit, output)
        return
    lines = _json_lines if as_json or layout == "json" else _table_lines
    _write_lines((line for found in states for line in lines(checkpoint, found, key, limit)), output)


@state.command("diff")
@click.argument("first", metavar="PATH1", type=SNAPSHOT)
@click.argument("second", metavar="PATH2", type=SNAPSHOT)
@click.option(
    "--examples", type=click.IntRange(min=0), default=3, show_default=True, help="Entries to show of each sort."
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 when something differs.")
@json_option(LINES)
@reporting
def diff_states(first: str, second: str, examples: int, exit_code: bool, as_json: bool) -> None:
    """Compare two checkpoints: entries added, removed and changed in each state."""
    from tidegate.cli.tables import make_table, show
    from tidegate.state_reader import compare, open_checkpoint

    found = list(compare(open_checkpoint(first), open_checkpoint(second), examples))
    if as_json:
        print_all_json(_difference_as_json(one) for one in found)
        if exit_code and not all(one.is_same for one in found):
            sys.exit(FAILED)
        return
    table = make_table("operator", "state", "rows", "added", "removed", "changed")
    for one in found:
        rows = f"{one.before:,}" if one.before == one.after else f"{one.before:,} to {one.after:,}"
        table.add_row(one.operator, one.state, rows, *(f"{n:,}" for n in (one.added, one.removed, one.changed)))
    if found:
        show(table)
    differing = [one for one in found if not one.is_same]
    for one in differing:
        for line in _examples(one):
            click.echo(line)
    if not differing:
        click.echo("No state differs.")
    elif exit_code:
        sys.exit(FAILED)


def _as_json(checkpoint: Checkpoint) -> Iterator[JsonObject]:
    """Yields each state of each operator; an operator without state once."""
    for operator in checkpoint.operators:
        about = operator.described
        common: JsonObject = {
            "operator": about.name,
            "uid": about.uid or None,
            "id": about.operator_id,
            "parallelism": about.parallelism,
            "maxParallelism": about.max_parallelism,
        }
        for found in operator.states:
            yield {
                **common,
                "state": found.name,
                "kind": checkpoint.kind_of(found),
                "redistribution": found.redistribution,
                "rows": checkpoint.rows_in(found),
                "sizeBytes": found.size_bytes,
            }
        if not operator.states:
            yield {**common, "state": None}


def _difference_as_json(one: StateDifference) -> JsonObject:
    return {
        "operator": one.operator,
        "state": one.state,
        "before": one.before,
        "after": one.after,
        "added": one.added,
        "removed": one.removed,
        "changed": one.changed,
    }


def _totals(checkpoint: Checkpoint) -> tuple[int, int]:
    states = [found for operator in checkpoint.operators for found in operator.states]
    return sum(checkpoint.rows_in(found) for found in states), sum(found.size_bytes for found in states)


def _about(operator: Operator) -> str:
    about = operator.described
    uid = f"uid '{about.uid}'" if about.uid else "no uid"
    finished = f", {len(about.finished)} subtasks finished" if about.finished else ""
    return (
        f"{about.name}: {uid}, id {about.operator_id}, parallelism {about.parallelism} of at most "
        f"{about.max_parallelism}{finished}"
    )


def _selected(operator: Operator, name: str | None, key: str | None) -> list[State]:
    if name is not None:
        operator.state(name)  # raises when there is none
    states = [found for found in operator.states if name in (None, found.name) and (key is None or found.is_keyed)]
    if not states:
        what = f"state {name!r} of operator" if name else "operator"
        raise Misuse(f"{what} '{operator.title}' has no {'keyed state: leave --key out' if key else 'state'}")
    return states


def _tables(checkpoint: Checkpoint, found: State, key: str | None, limit: int | None) -> Iterator[pa.Table]:
    """Yields the rows of a state; reads only as much as is wanted."""
    from tidegate.state_reader.rows import of_key

    left = limit
    for table in checkpoint.tables_of(found, type_names=False):
        wanted = table if key is None else of_key(table, key)
        if left is not None:
            wanted = wanted.slice(0, left)
            left -= wanted.num_rows
        yield wanted
        if left == 0:
            return


def _table_lines(checkpoint: Checkpoint, found: State, key: str | None, limit: int | None) -> Iterator[str]:
    from rich.text import Text

    from tidegate.cli.tables import lines_of, make_table
    from tidegate.state_reader.rows import readable_rows, shown_times, to_text

    limit = limit or TABLE_ROWS
    rows = [
        shown_times(found.name, row) for table in _tables(checkpoint, found, key, limit) for row in readable_rows(table)
    ]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    total = checkpoint.rows_in(found)
    of = f"{len(rows):,} of {total:,} rows" if key is None else f"{len(rows):,} rows of key {key}"
    yield f"{found.name} ({checkpoint.kind_of(found)}): {of}"
    if not rows:
        return
    shown = make_table(*columns)
    for row in rows:
        shown.add_row(*(Text(_cut(to_text(row.get(name, "")), CELL_CHARACTERS)) for name in columns))
    yield from lines_of(shown)
    if key is None and len(rows) < total:
        yield f"... {total - len(rows):,} more; see them with --limit, --format json or --format parquet"


def _json_lines(checkpoint: Checkpoint, found: State, key: str | None, limit: int | None) -> Iterator[str]:
    from tidegate.state_reader.rows import readable_rows, to_json

    for table in _tables(checkpoint, found, key, limit):
        for row in readable_rows(table):
            if isinstance(text := row.get("element_json"), str):
                row["element_json"] = json.loads(text)
            yield json.dumps({"state": found.name, **to_json(row)}, ensure_ascii=False)


def _write_parquet(
    checkpoint: Checkpoint,
    operator: Operator,
    states: list[State],
    key: str | None,
    limit: int | None,
    output: Path | None,
) -> None:
    from pyarrow import parquet

    from tidegate.state_reader.checkpoint import joined, with_types

    if output is None:
        raise Misuse("--format parquet needs --output FILE")
    if len(states) > 1:
        names = ", ".join(repr(found.name) for found in states)
        raise Misuse(
            f"a Parquet file holds one state: choose one of {names} of operator '{operator.title}' with --name"
        )
    what = f"state '{states[0].name}' of {checkpoint.location}"
    table = with_types(joined(_tables(checkpoint, states[0], key, limit), what))
    try:
        parquet.write_table(table, str(output))
    except OSError as error:
        raise StorageError(f"cannot write {output}: {error.strerror or error}") from error
    click.echo(f"{table.num_rows:,} rows of '{states[0].name}' in {output}")


def _write_lines(lines: Iterator[str], output: Path | None) -> None:
    if output is None:
        for line in lines:
            click.echo(line)
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise StorageError(f"cannot write {output}: {error.strerror or error}") from error


def _examples(one: StateDifference) -> Iterator[str]:
    yield f"{one.operator}, {one.state}:"
    for mark, count, rows in (("+", one.added, one.added_examples), ("-", one.removed, one.removed_examples)):
        yield from (f"  {mark} {_row_text(one.state, row)}" for row in rows)
        if rows and count > len(rows):
            yield f"  {mark} ... {count - len(rows):,} more"
    for before, after in one.changed_examples:
        yield f"  ~ {_row_text(one.state, before)}"
        yield f"    {_row_text(one.state, after)}"
    if one.changed_examples and one.changed > len(one.changed_examples):
        yield f"  ~ ... {one.changed - len(one.changed_examples):,} more"


def _row_text(state: str, row: Mapping[str, FieldValue]) -> str:
    from tidegate.state_reader.rows import shown_times, to_text

    return _cut(
        ", ".join(f"{name} {to_text(value)}" for name, value in shown_times(state, row).items()), LINE_CHARACTERS
    )


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 3] + "..."
