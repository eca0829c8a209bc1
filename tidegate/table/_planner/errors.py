"""Errors of the planner, with Flink's messages and the place in the statement underlined."""

from __future__ import annotations

import re
from typing import Any

from tidegate.model.errors import ExternalError, InvalidJob


class InvalidStatement(InvalidJob):
    """The error of a statement or a Table program that Flink's planner refuses. The message is Flink's, with line, column and text where Flink names
    them; ``details``: Java's stack trace."""


class PlannerUnavailable(ExternalError):
    """The planner cannot be started, has exited, or does not answer."""

    code, is_lasting = "external", True


_PLACE = re.compile(r"(?:From )?line (\d+), column (\d+)(?: to line (\d+), column (\d+))?")


def underlined(sql: str, message: str) -> str:
    """Returns the line of the statement that a message's first position names, with marks below the text; empty without a position, or with one outside
    of the statement. Lines and columns count from 1."""
    found = _PLACE.search(message)
    if found is None:
        return ""
    line, column = int(found[1]), int(found[2])
    lines = sql.split("\n")
    if not 1 <= line <= len(lines) or not 1 <= column <= len(lines[line - 1]) + 1:
        return ""
    text = lines[line - 1].rstrip("\r")
    last = min(int(found[4]), len(text)) if found[3] is not None and int(found[3]) == line else column
    if found[3] is not None and int(found[3]) > line:
        last = len(text)
    blanks = "".join("\t" if sign == "\t" else " " for sign in text[: column - 1])
    return f"{text}\n{blanks}{'^' * max(1, last - column + 1)}"


def chain_of(error: Any) -> list[tuple[str, str]]:
    """Returns class and message of a Java exception and of its causes, outermost first."""
    found: list[tuple[str, str]] = []
    while error is not None and len(found) < 16:
        found.append((str(error.getClass().getName()), str(error.getMessage() or "")))
        error = error.getCause()
    return found


def message_of(chain: list[tuple[str, str]]) -> str:
    """Joins the messages of a chain of exceptions, without those that another one contains. An exception without a message is named by its class."""
    parts: list[str] = []
    for _kind, message in chain:
        if not message:
            continue
        named = re.sub(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error): ", "", message)
        if named and not any(named in part for part in parts):
            parts = [part for part in parts if part not in named]
            parts.append(named)
    return "\n".join(parts) if parts else chain[0][0] if chain else "the planner failed"


def refusal(chain: list[tuple[str, str]], sql: str = "", trace: str = "") -> InvalidStatement:
    """Builds the error for a statement that the planner refused."""
    message = message_of(chain)
    if "BatchExecPython" in message:  # Flink has no plan for it
        message = "asynchronous functions, and aggregate functions of windows, of your own, do not run in batch mode yet: use streaming mode"
    if "ExecLegacy" in message:  # Flink still plans tables of CSV files with these
        message = (
            "tables with the connector properties of old ('connector.type', 'format.type', ...) do not run: say WITH ('connector' = 'filesystem', "
            "'path' = '...', 'format' = 'csv')"
        )
    marks = underlined(sql, message)
    return InvalidStatement(f"{message}\n{marks}" if marks else message, details=trace)
