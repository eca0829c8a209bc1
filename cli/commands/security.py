"""`tidegate security`: the users of a cluster and their tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.errors import reporting
from tidegate.cli.json_output import LINES, json_option, print_all_json
from tidegate.cli.options import configuration_options, load_configuration
from tidegate.model.errors import Misuse

if TYPE_CHECKING:
    from collections.abc import Callable

_ROLES = ("view", "data", "operate", "deploy")


@click.group()
def security() -> None:
    """Users of a cluster, what they may do, and their tokens."""


def _file_options(command: Callable[..., object]) -> Callable[..., object]:
    taken = click.option(
        "--file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="File of the users; default: tidegate.security.users.file.",
    )(command)
    return configuration_options(taken)


@security.command("add-user")
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), required=True, help="Each includes those before it.")
@_file_options
@reporting
def add_user(name: str, role: str, file: Path | None, config: Path | None, definitions: tuple[str, ...]) -> None:
    """Make a token for a user, add it to the file, and print it. It is shown only now: the file has its digest alone.

    It is valid in a running cluster at once. Repeated for the same name, this makes a further token.
    """
    from tidegate.security import user_file
    from tidegate.security.users import Role

    click.echo(user_file.add_user(_found(file, config, definitions), name, Role(role)))


@security.command("remove-user")
@click.argument("name")
@_file_options
@reporting
def remove_user(name: str, file: Path | None, config: Path | None, definitions: tuple[str, ...]) -> None:
    """Remove a user with all its tokens and certificates. A running cluster refuses the user at once."""
    from tidegate.security import user_file

    path = _found(file, config, definitions)
    if not user_file.remove_user(path, name):
        raise Misuse(f"there is no user {name} in {path}")
    click.echo(f"{name} is removed.")


@security.command("list-users")
@json_option(LINES)
@_file_options
@reporting
def list_users(as_json: bool, file: Path | None, config: Path | None, definitions: tuple[str, ...]) -> None:
    """Show the users and their roles."""
    from tidegate.security import user_file

    users = user_file.list_users(_found(file, config, definitions))
    if as_json:
        print_all_json({"name": user.name, "role": user.role.value} for user in users)
        return
    for user in users:
        click.echo(f"{user.name}\t{user.role.value}")


def _found(file: Path | None, config: Path | None, definitions: tuple[str, ...]) -> Path:
    from tidegate.model.options import SecurityOptions

    named = None if file is not None else load_configuration(config, definitions).get(SecurityOptions.USERS_FILE)
    if file is None and not named:
        raise Misuse(f"which file? Give --file, or set {SecurityOptions.USERS_FILE.key}")
    return file or Path(str(named))
