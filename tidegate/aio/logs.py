"""Sets up the logging of a process: one line a record, with time, level, logger and ids; to the console, to a file, or to both.

Ids (job, vertex, subtask, attempt, checkpoint) follow the message in a text, and in fields of their own in JSON; the last is the
number of the event that was being handled (``tidegate.aio.stimulus``):

    2026-11-21 06:14:29,123 INFO  jobmanager - checkpoint completed [job=ab12... checkpoint=7 stimulus=1204]
    {"time":"2026-11-21T06:14:29.123Z","level":"INFO","logger":"jobmanager","message":"checkpoint completed","job":"ab12...","checkpoint":"7","stimulus":"1204"}
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

from tidegate.aio.repetitions import Repetitions
from tidegate.aio.rolling import Rolling
from tidegate.aio.stimulus import current_stimulus
from tidegate.model.masking import SECRETS

_LEVELS = {"WARN": "WARNING"}
_QUIET = ("asyncio", "grpc", "py4j", "aiohttp.access")


MESSAGE_MAX, EXCEPTION_MAX = 32 << 10, 256 << 10
"""The most characters of a message and of a traceback in a log; the middle of longer ones is left out. Chosen, not measured."""


class LineFormatter(logging.Formatter):
    """Formats records as lines of text: ``2026-11-21 06:14:29,123 INFO tidegate.jobmanager.service - message``; tracebacks follow indented."""

    def format(self, record: logging.LogRecord) -> str:
        moment = self.formatTime(record)
        text = _with_stimulus(record).replace("\n", "\n    ")
        line = f"{moment} {_short(record.levelname):<5} {record.name} - {text}"
        if record.exc_info:
            line += "\n    " + _bounded(self.formatException(record.exc_info), EXCEPTION_MAX).replace("\n", "\n    ")
        return SECRETS.masked(line)


class JsonFormatter(logging.Formatter):
    """Formats each record as one line of JSON; times in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found = _identified(record)
        fields = {
            "time": moment,
            "level": _short(record.levelname),
            "logger": record.name,
            "message": _bounded(record.getMessage() if found is None else found.message, MESSAGE_MAX),
            **({} if found is None else found.ids),
        }
        if stimulus := current_stimulus():
            fields["stimulus"] = stimulus
        if record.exc_info:
            fields["exception"] = _bounded(self.formatException(record.exc_info), EXCEPTION_MAX)
        shown = {key: SECRETS.masked(value) if isinstance(value, str) else value for key, value in fields.items()}
        return json.dumps(shown, ensure_ascii=False)


class Identified(str):
    """A log message with its ids; a formatter can separate them."""

    message: str
    ids: dict[str, str]

    def __new__(cls, message: str, ids: dict[str, str]) -> Identified:
        shown = " ".join(f"{key}={value}" for key, value in ids.items())
        made = super().__new__(cls, f"{message} [{shown}]" if shown else message)
        made.message, made.ids = message, ids
        return made


def set_up_logging(
    level: str = "INFO",
    file: Path | None = None,
    console: TextIO | None = sys.stderr,
    *,
    is_json: bool = False,
    rolling: Rolling | None = None,
) -> None:
    """Replaces the handlers of the root logger. ``level``: DEBUG, INFO, WARN or ERROR. Raises ``OSError`` when the file cannot be opened."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    handlers: list[logging.Handler] = []
    if console is not None:
        handlers.append(logging.StreamHandler(console))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        rolls = rolling or Rolling()
        handlers.append(RotatingFileHandler(file, maxBytes=rolls.max_bytes, backupCount=rolls.keep, encoding="utf-8"))
    for handler in handlers:
        handler.setFormatter(JsonFormatter() if is_json else LineFormatter())
        handler.addFilter(Repetitions(handler.emit))
        root.addHandler(handler)
    root.setLevel(_LEVELS.get(level, level))
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def with_ids(message: str, **ids: object) -> Identified:
    """Returns a message followed by its ids: ``checkpoint completed [job=... checkpoint=7]``. Pass it as the only argument of ``"%s"``."""
    return Identified(message, {key: str(value) for key, value in ids.items() if value not in (None, "")})


def _identified(record: logging.LogRecord) -> Identified | None:
    """Returns the message with ids of a record, whether it is the record's text or its one argument; ``None`` for other messages."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return next((part for part in (record.msg, *arguments) if isinstance(part, Identified)), None)


def _bounded(text: str, most: int) -> str:
    """Shortens a text to ``most`` characters in its middle, since exceptions say at their end what went wrong."""
    left_out = len(text) - most
    return (
        text if left_out <= 0 else f"{text[: most // 2]} ... ({left_out} characters left out) ... {text[-most // 2 :]}"
    )


def _with_stimulus(record: logging.LogRecord) -> str:
    """Returns the record's bounded text, with the number of the event in progress as its last id."""
    text, stimulus = record.getMessage(), current_stimulus()
    found = _identified(record)
    if stimulus and found is not None and text == found:
        return _bounded(Identified(found.message, {**found.ids, "stimulus": stimulus}), MESSAGE_MAX)
    return _bounded(text, MESSAGE_MAX) + (f" [stimulus={stimulus}]" if stimulus else "")


def _short(level: str) -> str:
    return "WARN" if level == "WARNING" else level
