"""Writes what subtasks print to this process's standard output and error, with the task's name in front of each line."""

from __future__ import annotations

import sys

from tidegate.aio import inspection
from tidegate.aio.rolling import Rolling, RollingOutput


class Printer:
    """Prints for subtasks; a file that is full is rolled first. Called from one thread."""

    def __init__(self, rolling: Rolling) -> None:
        self._output = RollingOutput(inspection.stdout_file(), rolling)

    def __call__(self, task_name: str, text: str, is_error: bool) -> None:
        try:
            self._output.roll_when_full()
        except OSError as error:  # what is printed is worth more than the limit
            sys.stderr.write(f"The log cannot roll: {error}\n")
        print_lines(task_name, text, is_error)


def print_lines(task_name: str, text: str, is_error: bool) -> None:
    """Writes whole lines with the task's name in front; unchanged if the name is empty. May block, so it is called from a thread of its own."""
    stream = sys.stderr if is_error else sys.stdout
    try:
        stream.write("".join(f"[{task_name}] {line}\n" for line in text.splitlines()) if task_name else text)
        stream.flush()
    except (OSError, ValueError):
        return  # the reader is gone
