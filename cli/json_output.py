"""`--json`: the output of a command for programs. Keys are those of Flink's REST API where it has them; unknown values are null."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import click

from tidegate.cli.options import Command
from tidegate.model.values import JsonObject

LINES = "One JSON object a line."
DOCUMENT = "One JSON object."


def json_option(text: str) -> Callable[[Command], Command]:
    """Adds `--json`: the parameter `as_json`. ``text``: its help, ``LINES`` or ``DOCUMENT``."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def print_json(*found: JsonObject) -> None:
    """Prints each object on a line of its own."""
    print_all_json(found)


def print_all_json(found: Iterable[JsonObject]) -> None:
    """Prints each object on a line of its own, as soon as it is there."""
    for one in found:
        click.echo(json.dumps(one, ensure_ascii=False))
