"""What subtasks print, on this process's own standard output and error: lines of user code with the task's name."""

from __future__ import annotations

import sys


def print_lines(task_name: str, text: str, is_error: bool) -> None:
    """Write whole lines, as they are without a name. May block; called from a thread of its own."""
    stream = sys.stderr if is_error else sys.stdout
    try:
        stream.write("".join(f"[{task_name}] {line}\n" for line in text.splitlines()) if task_name else text)
        stream.flush()
    except (OSError, ValueError):
        return  # the reader is gone
