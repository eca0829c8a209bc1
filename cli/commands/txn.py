"""`tidegate txn`: shows and resolves transactions that a job left in Kafka, PostgreSQL and files between vote and commit.

The given checkpoints say what is pending and to which checkpoint it belongs; the systems say what became of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from tidegate.cli.command_line import SNAPSHOT
from tidegate.cli.errors import FAILED, reporting
from tidegate.cli.json_output import LINES, json_option, print_all_json
from tidegate.cli.options import Command
from tidegate.model.errors import Misuse, TidegateError
from tidegate.model.masking import SECRETS
from tidegate.model.values import JsonObject

if TYPE_CHECKING:
    from tidegate.connectors.transactions import Listed, Transaction, TransactionLog


@click.group()
def txn() -> None:
    """Show and resolve transactions that a job left in Kafka, PostgreSQL and files.

    PATH is the directory of a checkpoint or savepoint of the job, or its _metadata; several may be given. Nothing of the job
    is run or unpickled.
    """


class Systems(TypedDict):
    """The values of the arguments that all commands share."""

    paths: tuple[str, ...]
    kafka: str
    prefix: str
    properties: tuple[str, ...]
    postgres: str
    directories: tuple[str, ...]


def _several(flag: str, name: str, metavar: str, what: str) -> Callable[[Command], Command]:
    """Returns an option that may be repeated."""
    return click.option(flag, name, multiple=True, metavar=metavar, help=f"{what}; may be repeated.")


def _systems(command: Command) -> Command:
    """Adds the arguments that all commands share."""
    for option in (
        click.argument("paths", metavar="[PATH]...", nargs=-1, type=SNAPSHOT),
        click.option("--kafka", metavar="HOST:PORT", default="", help="The brokers of the sink."),
        click.option(
            "--transactional-id-prefix",
            "prefix",
            metavar="PREFIX",
            default="",
            help="Also the open transactions of Kafka sinks with this prefix that no checkpoint given lists.",
        ),
        _several("--property", "properties", "NAME=VALUE", "Of the Kafka client (security, say)"),
        click.option("--postgres", metavar="CONNINFO", default="", help="Connection string or URI of the database."),
        _several("--files", "directories", "DIRECTORY", "An output directory, besides those that the checkpoints name"),
    ):
        command = option(command)
    return command


def _resolving(command: Command) -> Command:
    for option in (
        _several("--only", "only", "NAME", "Only the transaction of this name"),
        click.option("-y", "--yes", is_flag=True, help="Do not ask."),
    ):
        command = option(command)
    return _systems(command)


@txn.command("list")
@_systems
@json_option(LINES)
@click.option("--exit-code", is_flag=True, help="Exit with 1 when something is pending or lost.")
@reporting
def list_transactions(as_json: bool, exit_code: bool, **where: Unpack[Systems]) -> None:
    """List transactions, each with its checkpoint and its status.

    \b
    pending    voted for, not visible; a job restored from the checkpoint commits it
    committed  visible
    aborted    given up with `tidegate txn abort`
    lost       neither pending nor committed: it was removed
    uncertain  too old for the broker to tell
    unknown    the system was not asked: give --kafka or --postgres; those of a sink function always are
    """
    _, found = _found(**where)
    if as_json:
        print_all_json(_as_json(one) for one in found)
    else:
        _show(found)
    if exit_code and any(one.status.is_open for one in found):
        sys.exit(FAILED)


@txn.command("commit")
@_resolving
@reporting
def commit(only: tuple[str, ...], yes: bool, **where: Unpack[Systems]) -> None:
    """Commit what is pending in the checkpoints given, as a job restored from them would.

    Exits with 1 when one of them could not be committed. What no checkpoint lists is committed only by its name (--only).
    """
    logs, found = _found(**where)
    chosen = [one for one in _chosen(logs, found, only) if one.listed or only]
    _resolve(logs, chosen, "commit", "It becomes visible now; stop the job first.", yes)


@txn.command("abort")
@_resolving
@reporting
def abort(only: tuple[str, ...], yes: bool, **where: Unpack[Systems]) -> None:
    """Give up what is pending: its records are never shown, by no job that is restored later either.

    Exits with 1 when one of them could not be aborted. Without --only also everything pending that none of the checkpoints
    given lists, in the systems given.
    """
    logs, found = _found(**where)
    warning = "Its records are lost for good, also for a job restored from these checkpoints; stop the job first."
    _resolve(logs, _chosen(logs, found, only), "abort", warning, yes)


def _found(
    paths: Sequence[str],
    kafka: str,
    prefix: str,
    properties: Sequence[str],
    postgres: str,
    directories: Sequence[str],
) -> tuple[dict[str, TransactionLog], list[Transaction]]:
    """Returns the systems by name, and all transactions: by checkpoint, listed ones first."""
    from tidegate.connectors.transactions import listed_in, operators_in

    if not (paths or postgres or directories or (kafka and prefix)):
        raise Misuse(
            "give a checkpoint or savepoint, --postgres CONNINFO, --files DIRECTORY, or --kafka HOST:PORT with --transactional-id-prefix PREFIX"
        )
    logs = _logs(kafka, prefix, properties, postgres, directories)
    listed: list[Listed] = []
    operators: dict[tuple[str, str], str] = {}
    for path in paths:
        listed += [one for one in listed_in(path) if one not in listed]
        operators.update(operators_in(path))
    found: list[Transaction] = []
    for log in logs:
        own = [one for one in listed if log.takes(one.committable)]
        found += log.transactions(own) if own else []
    known = frozenset(one.name for one in found)
    for log in logs:
        found += log.unlisted(known, operators)
    in_order = sorted(found, key=lambda one: (one.checkpoint_id, one.system, one.operator, one.subtask, one.name))
    return {log.system: log for log in logs}, in_order


def _logs(
    kafka: str, prefix: str, properties: Sequence[str], postgres: str, directories: Sequence[str]
) -> list[TransactionLog]:
    from tidegate.connectors.file_transactions import FileTransactions
    from tidegate.connectors.kafka.transactions import KafkaTransactions
    from tidegate.connectors.postgres.open_transactions import PostgresTransactions
    from tidegate.connectors.spark.epochs import SparkEpochs
    from tidegate.connectors.two_phase_commit import FunctionTransactions

    pairs = [text.partition("=") for text in properties]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise Misuse(f"--property {wrong[0]!r} is not NAME=VALUE")
    settings = {name: value for name, _, value in pairs}
    return [
        FileTransactions(directories),
        KafkaTransactions(kafka, settings, prefix),
        PostgresTransactions(postgres),
        FunctionTransactions(),
        SparkEpochs(),
    ]


def _chosen(logs: Mapping[str, TransactionLog], found: Sequence[Transaction], only: Sequence[str]) -> list[Transaction]:
    """Returns the transactions that can be resolved. Raises ``Misuse`` for a name that is not among them."""
    by_name = {one.name: one for one in found}
    if missing := [name for name in only if name not in by_name]:
        raise Misuse(f"there is no transaction {missing[0]!r}; `tidegate txn list` shows them all")
    if silent := [one for one in found if one.status.value == "unknown" and (not only or one.name in only)]:
        raise Misuse(logs[silent[0].system].refusal(silent[0]))
    return [one for one in found if one.status.is_open and (not only or one.name in only)]


def _resolve(
    logs: dict[str, TransactionLog], chosen: Sequence[Transaction], verb: str, warning: str, yes: bool
) -> None:
    if not chosen:
        click.echo(f"Nothing to {verb}.")
        return
    if not yes:
        _show(chosen)
        click.confirm(f"{warning} {verb.capitalize()} {len(chosen)} transactions?", abort=True)
    failed = 0
    for one in chosen:
        try:
            getattr(logs[one.system], verb)(one)
        except TidegateError as error:
            failed += 1
            click.echo(SECRETS.masked(f"error: {one.name}: {error.message}"), err=True)
        else:
            click.echo(f"{'committed' if verb == 'commit' else 'aborted'} {one.name}")
    if failed:
        click.echo(f"error: {failed} of {len(chosen)} transactions failed", err=True)
        sys.exit(FAILED)


def _show(found: Sequence[Transaction]) -> None:
    from tidegate.cli.tables import make_table, show, size

    if not found:
        click.echo("No transactions.")
        return
    table = make_table("checkpoint", "system", "operator", "subtask", "status", "size", "transaction", "place")
    for one in found:
        checkpoint = str(one.checkpoint_id) if one.listed else f"{one.checkpoint_id}, not listed"
        table.add_row(
            checkpoint,
            one.system,
            one.operator or "?",
            str(one.subtask),
            one.status.value,
            "-" if one.size_bytes is None else size(one.size_bytes),
            one.name,
            one.place,
        )
    show(table)


def _as_json(one: Transaction) -> JsonObject:
    return {
        "checkpoint": one.checkpoint_id,
        "listed": one.listed,
        "system": one.system,
        "operator": one.operator or None,
        "subtask": one.subtask,
        "status": one.status.value,
        "sizeBytes": one.size_bytes,
        "transaction": one.name,
        "place": one.place,
    }
