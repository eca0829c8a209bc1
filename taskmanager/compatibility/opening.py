"""Opens user functions in a separate process to find out which state they request.

`tidegate savepoint check` runs on developers' machines and in CI, where ``open`` must neither reach a database nor take long.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.model.ids import OperatorId
from tidegate.records.pickling import dumps, loads
from tidegate.taskmanager.compatibility.declared_states import DeclaredStates
from tidegate.taskmanager.compatibility.opening_process import LENGTH

__all__ = ["DEFAULT_LIMITS", "NotOpened", "OpeningLimits", "Question", "open_apart"]

Question: TypeAlias = tuple[bytes, OperatorId]
"""The program of a vertex, pickled, and the operator in it whose function is opened."""


@dataclass(frozen=True, slots=True)
class OpeningLimits:
    """Limits on the process: seconds for all of its answers, and bytes of memory."""

    seconds: float = 30.0
    bytes: int = 2 << 30


DEFAULT_LIMITS = OpeningLimits()
"""Default limits: the process starts within seconds on a busy machine, and an ``open`` that reads a model takes some more; the memory is that of a slot.
Chosen, not measured.
"""


@dataclass(frozen=True, slots=True)
class NotOpened:
    """The reason why the state that a function requests is not known."""

    reason: str


def open_apart(
    questions: Sequence[Question], limits: OpeningLimits = DEFAULT_LIMITS
) -> list[DeclaredStates | NotOpened]:
    """Returns the states that each operator's function requests when it is opened, in the order of the questions.

    If a function does not return, its process is killed, and a new process continues with the next question. Errors of functions are returned, not raised.
    """
    found: list[DeclaredStates | NotOpened] = []
    while len(found) < len(questions):
        answers, why = _ask(questions[len(found) :], limits)
        found += [NotOpened(answer) if isinstance(answer, str) else answer for answer in answers]
        if why and len(found) < len(questions):
            found.append(NotOpened(why))
    return found


def _ask(questions: Sequence[Question], limits: OpeningLimits) -> tuple[list[DeclaredStates | str], str]:
    """Returns the answers of one process, and the reason why later ones are missing."""
    command = [sys.executable, "-m", "tidegate.taskmanager.compatibility.opening_process", str(limits.bytes)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as process:
        why = ""
        try:
            written, _ = process.communicate(dumps(([*sys.path], list(questions))), timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            why = f"it takes longer than {limits.seconds:g} s"
            _kill(process)
            written, _ = process.communicate()
        finally:
            _kill(process)
    return _answers_in(written), why or f"its process ended with {process.returncode}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and the processes that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _answers_in(written: bytes) -> list[DeclaredStates | str]:
    found, at = [], 0
    while at + LENGTH.size <= len(written):
        (length,) = LENGTH.unpack_from(written, at)
        at += LENGTH.size
        if at + length > len(written):
            break
        found.append(loads(written[at : at + length]))
        at += length
    return found
