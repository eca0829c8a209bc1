"""Cells of SQL in a notebook: ``%%tidegate_sql``.

    %load_ext tidegate.table

    %%tidegate_sql [--environment t_env] [--rows 20] [--seconds 5] [--output totals]
    SELECT station, COUNT(*) AS taps FROM trips GROUP BY station

Statements run one after the other in one environment: a variable of the notebook, or one that all cells without a name share. A query shows its first
rows, and ends; INSERT starts a job that goes on, with a view of it.
"""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

import pyarrow as pa

from tidegate.model.errors import InvalidJob, Misuse, TidegateError
from tidegate.notebook.display import show_html
from tidegate.table.environment import TableEnvironment
from tidegate.table.environment_settings import EnvironmentSettings
from tidegate.table.sql_script import split_statements, with_place
from tidegate.table.table_result import ResultKind, TableResult

MAGIC = "tidegate_sql"
SHARED = "tidegate_sql_environment"
"""The notebook variable that holds the environment of cells without ``--environment``."""


def register(shell: Any) -> None:
    """Registers the magic with an IPython shell."""

    def run(line: str, cell: str) -> None:
        run_cell(line, cell, shell.user_ns)

    shell.register_magic_function(run, magic_kind="cell", magic_name=MAGIC)


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raises ``Misuse`` instead of exiting the process."""
        raise Misuse(f"%%{MAGIC}: {message}; {self.format_usage().strip()}")


def _parser() -> _Options:
    parser = _Options(prog=f"%%{MAGIC}", add_help=False, exit_on_error=False)
    parser.add_argument("-e", "--environment", metavar="NAME", help="variable with a TableEnvironment")
    parser.add_argument("-n", "--rows", type=int, default=20)
    parser.add_argument("-s", "--seconds", type=float, default=5.0)
    parser.add_argument(
        "-o", "--output", metavar="NAME", help="variable for the rows of the last query, as an Arrow table"
    )
    return parser


def run_cell(line: str, cell: str, variables: dict[str, Any]) -> None:
    """Runs the statements of a cell and shows their results. ``line``: the magic's options; ``variables``: of the notebook. Raises ``Misuse`` for
    invalid options, and the error of the first statement that fails, with its line and column."""
    try:
        options = _parser().parse_args(shlex.split(line))
    except (ValueError, argparse.ArgumentError) as error:
        raise Misuse(f"%%{MAGIC}: {error}") from None
    environment = _environment(options.environment, variables)
    try:
        statements = split_statements(cell)
    except InvalidJob as error:
        raise InvalidJob(f"this cell, {error.message}") from None
    for statement in statements:
        try:
            found = _show(environment.execute_sql(statement.placed), options.rows, options.seconds)
        except TidegateError as error:
            raise with_place(error, statement, "this cell") from error
        if options.output and found is not None:
            variables[options.output] = found


def _environment(name: str | None, variables: dict[str, Any]) -> TableEnvironment:
    if name is None:
        return variables.setdefault(SHARED, TableEnvironment.create(EnvironmentSettings.in_streaming_mode()))  # type: ignore[no-any-return]
    found = variables.get(name)
    if not isinstance(found, TableEnvironment):
        what = "no variable" if name not in variables else f"a {type(found).__name__}"
        raise Misuse(f"%%{MAGIC}: --environment {name} names {what}, and needs a TableEnvironment")
    return found


def _show(result: TableResult, rows: int, seconds: float) -> pa.Table | None:
    """Shows the result of one statement; returns the rows of a query."""
    job = result.get_job_client()
    if result.writes_tables:
        if job is not None:
            job._ipython_display_()
        return None
    if result.get_result_kind() is ResultKind.SUCCESS:
        show_html("<div>OK</div>", "OK")
        return None
    return result.show(rows, seconds)
