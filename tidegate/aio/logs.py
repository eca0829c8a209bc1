"""Logging of a process: one line a record, with time, level, logger and ids; to the console, to a file, or to both."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TextIO

_LEVELS = {"WARN": "WARNING"}
_QUIET = ("asyncio", "grpc", "py4j", "aiohttp.access")


class LineFormatter(logging.Formatter):
    """``2026-11-21 06:14:29,123 INFO  jobmanager.service - message``; a traceback follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        moment = self.formatTime(record)
        text = record.getMessage().replace("\n", "\n    ")
        line = f"{moment} {_short(record.levelname):<5} {record.name} - {text}"
        if record.exc_info:
            line += "\n    " + self.formatException(record.exc_info).replace("\n", "\n    ")
        return line


def set_up_logging(level: str = "INFO", file: Path | None = None, console: TextIO | None = sys.stderr) -> None:
    """Replace the handlers of the root logger. ``level``: DEBUG, INFO, WARN or ERROR. Raises ``OSError`` of the file."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    handlers: list[logging.Handler] = []
    if console is not None:
        handlers.append(logging.StreamHandler(console))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(file, encoding="utf-8"))
    for handler in handlers:
        handler.setFormatter(LineFormatter())
        root.addHandler(handler)
    root.setLevel(_LEVELS.get(level, level))
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def with_ids(message: str, **ids: object) -> str:
    """A message with its ids behind it: ``checkpoint completed [job=... checkpoint=7]``."""
    shown = " ".join(f"{key}={value}" for key, value in ids.items() if value not in (None, ""))
    return f"{message} [{shown}]" if shown else message


def _short(level: str) -> str:
    return "WARN" if level == "WARNING" else level
