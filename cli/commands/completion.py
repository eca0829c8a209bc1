"""`tidegate completion`: installs or prints the completion script of a shell."""

from __future__ import annotations

from pathlib import Path

import click

from tidegate.cli.completion import SHELLS
from tidegate.cli.errors import reporting
from tidegate.model.errors import ExternalError, Misuse

_SHELL = click.argument("shell", type=click.Choice(SHELLS), required=False, metavar="[bash|zsh|fish]")


@click.group()
def completion() -> None:
    """Complete commands, options, ids of jobs and savepoints by the Tab key."""


@completion.command()
@_SHELL
@reporting
def install(shell: str | None) -> None:
    """Install completion for a shell; default: your login shell. New terminals have it."""
    from tidegate.cli.completion import install as install_for

    chosen = _chosen(shell)
    try:
        written = install_for(chosen, click.get_current_context().find_root().command, Path.home())
    except OSError as error:
        raise ExternalError(f"cannot write {error.filename}: {error.strerror}") from None
    click.echo(f"Completion for {chosen} is in {' and '.join(map(str, written))}; open a new terminal to use it.")


@completion.command()
@_SHELL
@reporting
def show(shell: str | None) -> None:
    """Print the completion script of a shell; default: your login shell."""
    from tidegate.cli.completion import script

    click.echo(script(_chosen(shell), click.get_current_context().find_root().command))


def _chosen(shell: str | None) -> str:
    from tidegate.cli.completion import shell_of_user

    chosen = shell or shell_of_user()
    if chosen is None:
        raise Misuse(f"which shell? Name one of {', '.join(SHELLS)}")
    return chosen
