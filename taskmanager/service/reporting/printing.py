"""What user code prints, on this process's own standard output and error, line by line with the task's name."""

from __future__ import annotations

import sys


def print_lines(task_name: str, text: str, is_error: bool) -> None:
    """Write whole lines. May block; called from a thread of its own."""
    stream = sys.stderr if is_error else sys.stdout
    prefix = f"[{task_name}] "
    try:
        stream.write("".join(f"{prefix}{line}\n" for line in text.splitlines()))
        stream.flush()
    except (OSError, ValueError):
        return  # nobody reads it any more
