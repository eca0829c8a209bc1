"""`tidegate sql`: runs a script of SQL, from a file or the command line."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from tidegate.cli.errors import reporting
from tidegate.cli.options import (
    address_definitions,
    client_of,
    configuration_options,
    job_manager_option,
    load_configuration,
    taking,
)
from tidegate.model.errors import Misuse


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """The parameters of `tidegate sql`; its options say what each field is."""

    files: tuple[Path, ...]
    texts: tuple[str, ...]
    detached: bool
    parallelism: int | None
    python_files: str | None
    job_manager: str | None
    local: bool
    config: Path | None
    definitions: tuple[str, ...]

    def script(self) -> tuple[str, str]:
        """Returns the script's name and text. Raises `Misuse` when none or several are given, or it cannot be read."""
        if len(self.files) + (1 if self.texts else 0) != 1:
            raise Misuse("give one script: a file with -f, or statements with -e")
        if self.texts:
            return "-e", ";\n".join(self.texts)
        path = self.files[0]
        if str(path) == "-":
            return "standard input", sys.stdin.read()
        try:
            return path.name, path.read_text(encoding="utf-8")
        except OSError as error:
            raise Misuse(f"cannot read the script {path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise Misuse(f"cannot read the script {path}: byte {error.start} is not UTF-8") from None


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Script to run; - is the standard input.",
)
@click.option("-e", "--execute", "texts", multiple=True, metavar="SQL", help="Statements to run; may be repeated.")
@click.option("-d", "--detached", is_flag=True, help="Print the ids of jobs that write tables, and wait for none.")
@click.option(
    "-p", "--parallelism", type=click.IntRange(min=1), metavar="N", help="Subtasks of operators that set none."
)
@click.option("-pyfs", "--pyFiles", "python_files", metavar="a.py,b.zip,dir", help="Files that functions import.")
@job_manager_option
@click.option("--local", is_flag=True, help="Run in a cluster of its own, for the length of the script.")
@configuration_options
@reporting
@taking(SqlOptions)
def sql(options: SqlOptions) -> None:
    """Run statements of SQL, each ended by a semicolon. A query prints its rows as Flink's SQL client does. An INSERT is a job: it is waited
    for before the next statement, with progress, or after the last one where 'table.dml-sync' is set to 'false'. The first statement that
    fails ends the script with exit code 1, and is named with its line and column."""
    from tidegate.cli.python_options import Brought
    from tidegate.datastream._graph.executor import installed
    from tidegate.table.sql_script import run_script

    if options.local and (options.job_manager is not None or options.detached):
        raise Misuse(
            "--local starts a cluster that ends with the script: it cannot be combined with --jobmanager or --detached"
        )
    name, script = options.script()
    brought = Brought(options.python_files, None, None, None, None, None)
    forced = address_definitions(options.job_manager) + brought.definitions()
    forced += [] if options.parallelism is None else [f"parallelism.default={options.parallelism}"]
    configuration = load_configuration(options.config, options.definitions, *forced)
    texts = configuration.to_strings()
    if options.local:
        from tidegate.cli.embedded.local import LocalClusterExecutor

        with installed(LocalClusterExecutor(), texts):
            run_script(script, name, texts, click.echo)
        return
    from tidegate.cli.executor import ClusterExecutor

    with client_of(configuration, options.job_manager) as client:
        client.cluster()  # no cluster: say so before the planner starts
        with installed(ClusterExecutor(client, detached=options.detached, names_async=False), texts):
            run_script(script, name, texts, click.echo, waits=not options.detached)
