"""What subtasks print, on this process's own standard output and error: lines of user code with the task's name."""

from __future__ import annotations

import sys

from tidegate.aio import inspection
from tidegate.aio.rolling import Rolling, RollingOutput


class Printer:
    """Called from one thread: a file that is full rolls first."""

    def __init__(self, rolling: Rolling) -> None:
        self._output = RollingOutput(inspection.stdout_file(), rolling)

    def __call__(self, task_name: str, text: str, is_error: bool) -> None:
        try:
            self._output.roll_when_full()
        except OSError as error:  # what is printed is worth more than the limit
            sys.stderr.write(f"The log cannot roll: {error}\n")
        print_lines(task_name, text, is_error)


def print_lines(task_name: str, text: str, is_error: bool) -> None:
    """Write whole lines, as they are without a name. May block; called from a thread of its own."""
    stream = sys.stderr if is_error else sys.stdout
    try:
        stream.write("".join(f"[{task_name}] {line}\n" for line in text.splitlines()) if task_name else text)
        stream.flush()
    except (OSError, ValueError):
        return  # the reader is gone
