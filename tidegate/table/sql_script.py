"""SQL scripts: statements that end with ``;`` and run in order, as Flink's SQL client runs a file.

    text ─▶ statements, with their places ─▶ Flink's planner, or the script's own (SET, QUIT, BEGIN STATEMENT SET) ─▶ results are printed

Comments and texts in quotes may hold a ``;``. Between ``STATEMENT SET BEGIN`` and ``END`` it ends nothing.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.common.job_client import JobClient
from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidegate.model.errors import InvalidJob, TidegateError
from tidegate.table.environment import StatementSet, TableEnvironment
from tidegate.table.environment_settings import EnvironmentSettings
from tidegate.table.table_result import ResultKind, TableResult

_MODE = "execution.runtime-mode"
_SYNC = "table.dml-sync"
_TIME_COST = "sql-client.display.print-time-cost"
_TOKEN = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | '(?:[^']|'')*' | `(?:[^`]|``)*` | "(?:[^"]|"")*" | [A-Za-z_][\w$]* | \s+ | .""",
    re.DOTALL | re.VERBOSE,
)
_OPENED = {"'": "a text in quotes (')", "`": "a name in quotes (`)", "/*": "a comment (/*)"}
_DEFINITIONS = ("CREATE", "DROP", "ALTER", "USE", "LOAD", "UNLOAD")


@dataclass(frozen=True)
class Statement:
    """A statement of a script. ``line`` and ``column``, from 1: the place of its first word. ``words``: its first words, in capitals."""

    number: int
    line: int
    column: int
    text: str
    words: tuple[str, ...]

    @property
    def placed(self) -> str:
        """Returns the text preceded by blank lines and columns, so that error positions in it are positions in the script."""
        return "\n" * (self.line - 1) + " " * (self.column - 1) + self.text

    @property
    def underlined(self) -> str:
        """Returns the first line with marks below it."""
        first = self.text.split("\n", 1)[0].rstrip()
        blanks = " " * (self.column - 1)
        return f"{blanks}{first}\n{blanks}{'^' * len(first)}"


def split_statements(script: str) -> list[Statement]:
    """Splits a script into statements, without the ``;`` at their ends. Raises ``InvalidJob`` with the place of a quote or comment that is not closed."""
    found: list[Statement] = []
    start: int | None = None
    end = 0
    words: list[str] = []
    is_set, cases = False, 0

    def finish() -> None:
        nonlocal start
        if start is not None:
            line, column = _place(script, start)
            found.append(Statement(len(found) + 1, line, column, script[start:end], tuple(words[:4])))
        start = None
        words.clear()

    for token in _TOKEN.finditer(script):
        text = token[0]
        opened = "/*" if script.startswith("/*", token.start()) else text
        if opened in _OPENED and not (opened == "/*" and text.endswith("*/") and len(text) >= 4):
            line, column = _place(script, token.start())
            raise InvalidJob(f"line {line}, column {column}: {_OPENED[opened]} does not end")
        if text.isspace() or text.startswith(("--", "/*")):
            continue
        if text == ";" and not is_set:
            finish()
            continue
        if start is None:
            start = token.start()
        end = token.end()
        word = text.upper()
        if word[0].isalpha():
            words.append(word)
            if words[-3:] == ["STATEMENT", "SET", "BEGIN"]:
                is_set, cases = True, 0
            elif is_set and word == "CASE":
                cases += 1
            elif is_set and word == "END":
                is_set = cases > 0
                cases -= 1
    finish()
    return found


def run_script(
    script: str, name: str, configuration: Mapping[str, str], tell: Callable[[str], None], *, waits: bool = True
) -> None:
    """Runs the statements of an SQL script.

    ``name`` names the script in messages; ``configuration``: options that lie below what it sets. An INSERT is waited for, unless
    ``table.dml-sync`` is ``false``: then it is at the end, if ``waits``. ``tell`` prints a line of what is no result.

    Raises the error of the first statement that fails, with its number, line and column in front.
    """
    run = _Run(configuration, tell)
    try:
        statements = split_statements(script)
    except InvalidJob as error:
        raise InvalidJob(f"{name}: {error.message}") from None
    for statement in statements:
        try:
            if not run.execute(statement):
                break
        except TidegateError as error:
            raise with_place(error, statement, name) from error
    run.check_ended()
    if waits:
        run.wait()


def run_plan(path: Path) -> None:
    """Runs the compiled plan in a file as ``run_script`` runs an INSERT. Needs neither Java nor jars. Raises ``InvalidJob`` for an invalid plan, or one
    that cannot run."""
    environment = _ScriptEnvironment(EnvironmentSettings(), [], print)
    try:
        environment.load_plan(path).execute()
    except InvalidJob as error:
        raise type(error)(f"{path.name}: {error.message}", details=error.details) from error


class _ScriptEnvironment(TableEnvironment):
    """A table environment that waits for jobs as ``tidegate run`` does; those that it does not wait for are added to ``unfinished``."""

    def __init__(self, settings: EnvironmentSettings, unfinished: list[JobClient], tell: Callable[[str], None]) -> None:
        super().__init__(settings)
        self._unfinished = unfinished
        self._tell = tell

    def _submit(self, env: StreamExecutionEnvironment, name: str) -> JobClient | None:
        if self._options.get(_SYNC, "true").lower() == "true":
            env.execute(name)
            return None
        job = env.execute_async(name)
        self._tell(f"Job has been submitted with JobID {job.get_job_id()}")
        self._unfinished.append(job)
        return job


class _Run:
    def __init__(self, configuration: Mapping[str, str], tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._unfinished: list[JobClient] = []
        self._definitions: list[Statement] = []
        self._set: StatementSet | None = None
        is_streaming = configuration.get(_MODE, "STREAMING").upper() != "BATCH"
        self._environment = self._new_environment(is_streaming, {})

    def execute(self, statement: Statement) -> bool:
        """Runs a statement; returns ``False`` if it ends the script."""
        environment, words = self._environment, statement.words
        began = time.monotonic()
        if words in (("QUIT",), ("EXIT",)):
            return False
        if words == ("BEGIN", "STATEMENT", "SET"):
            self._begin_set()
            self._tell_done()
            return True
        if words == ("END",):
            self._end_set()
            return True
        if self._set is not None:
            if words[:1] != ("INSERT",):
                raise InvalidJob(
                    f"a statement set takes only INSERT statements until END, and this statement is {' '.join(words[:2])}"
                )
            self._set.add_insert_sql(statement.placed)
            self._tell_done()
            return True
        before = environment._options.get(_MODE)
        result = environment.execute_sql(statement.placed)
        if environment._options.get(_MODE) != before:
            self._change_mode()
        if words[:1] and words[0] in _DEFINITIONS:
            self._definitions.append(statement)
        self._show(result, began)
        return True

    def check_ended(self) -> None:
        """Raises ``InvalidJob`` if a statement set is not ended."""
        if self._set is not None:
            raise InvalidJob("the statement set that BEGIN STATEMENT SET began does not end: write END;")

    def wait(self) -> None:
        """Waits for the jobs not yet waited for. Raises the error of the first that did not finish."""
        for job in self._unfinished:
            job.get_job_execution_result().result()

    def _begin_set(self) -> None:
        if self._set is not None:
            raise InvalidJob("a statement set is open already: write END; before the next")
        self._set = self._environment.create_statement_set()

    def _end_set(self) -> None:
        if self._set is None:
            raise InvalidJob("END; ends no statement set: write BEGIN STATEMENT SET; before its INSERTs")
        ended, self._set = self._set, None
        ended.execute()

    def _change_mode(self) -> None:
        """Creates a new environment for a changed runtime mode and repeats the definitions in it."""
        options = self._environment._options
        mode = options.get(_MODE, "streaming").lower()
        if mode not in ("streaming", "batch"):
            raise InvalidJob(f"'{_MODE}' must be 'streaming' or 'batch', not {mode!r}")
        self._environment = self._new_environment(mode == "streaming", dict(options))
        for definition in self._definitions:
            self._environment.execute_sql(definition.placed)

    def _new_environment(self, is_streaming: bool, options: dict[str, str]) -> _ScriptEnvironment:
        return _ScriptEnvironment(EnvironmentSettings(is_streaming, options), self._unfinished, self._tell)

    def _show(self, result: TableResult, began: float) -> None:
        if result.get_result_kind() is ResultKind.SUCCESS:
            self._tell_done()
        elif not result.writes_tables:
            options = self._environment._options
            result.print_for_client(began if options.get(_TIME_COST, "true").lower() == "true" else None)

    def _tell_done(self) -> None:
        sys.stdout.flush()
        self._tell("[INFO] Execute statement succeeded.")


def with_place(error: TidegateError, statement: Statement, name: str) -> TidegateError:
    """Returns the error with the statement's number, line and column in the script ``name`` prepended."""
    message = f"{name}, statement {statement.number}, line {statement.line}, column {statement.column}: {error.message}"
    if isinstance(error, InvalidJob) and not error.message.endswith("^"):
        message += f"\n{statement.underlined}"
    placed = type(error)(message, details=error.details)
    placed.__cause__ = error.__cause__
    return placed


def _place(script: str, position: int) -> tuple[int, int]:
    before = script[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
