"""What `--help` promises. A change here is a change that users see: write it into the changelog.

To accept one: `python -m tests.contract.test_cli_help` writes the file anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click import Command, Context, Group

from tidegate.cli.commands.savepoint_check import check
from tidegate.cli.main import main

GOLDEN = Path(__file__).with_name("cli_help.txt")


def help_texts(command: Command, name: str, parent: Context | None = None) -> str:
    settings = {**command.context_settings, "terminal_width": 100, "max_content_width": 100}
    context = Context(command, info_name=name, parent=parent, **settings)
    text = f"$ {context.command_path} --help\n{command.get_help(context)}\n"
    if isinstance(command, Group):
        text += "".join(f"\n{help_texts(command.commands[name], name, context)}" for name in sorted(command.commands))
    return text


def all_help_texts() -> str:
    return help_texts(main, "tidegate") + "\n" + help_texts(check, "tidegate savepoint check")


def test_help_is_what_was_promised() -> None:
    assert all_help_texts() == GOLDEN.read_text(encoding="utf-8")


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    heavy = "{'grpc', 'pyarrow', 'pyspark', 'rich', 'aiohttp', 'numpy'}"
    script = f"import sys, tidegate.cli.main; sys.exit(str(sorted({heavy} & set(sys.modules))) if {heavy} & set(sys.modules) else 0)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env={**os.environ}, timeout=60
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    GOLDEN.write_text(all_help_texts(), encoding="utf-8")
