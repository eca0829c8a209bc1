"""`tidegate ha check`: checks whether a bucket or directory can elect a leader. Several writers race for it, and in each round one may win."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import click

from tidegate.cli.errors import reporting

T = TypeVar("T")
_ANSWER_S = 30.0
"""The timeout of one request, in seconds: longer than object stores take before they answer that they are busy."""


@click.group()
def ha() -> None:
    """Check high availability."""


@ha.command()
@click.option("--rounds", type=click.IntRange(min=1), default=1_000, show_default=True, help="How often to race.")
@click.option("--writers", type=click.IntRange(min=2), default=4, show_default=True, help="How many write at a time.")
@click.argument("url", metavar="URL")
@reporting
def check(rounds: int, writers: int, url: str) -> None:
    """Race for a bucket or directory: exactly one writer may win each round.

    URL is s3://BUCKET/PATH or gs://BUCKET/PATH (credentials and endpoint from the environment), or a directory. What is
    written there is removed again. The exit code is 1 where two JobManagers could lead with it at the same time."""
    if "://" in url and not url.startswith("file://"):
        _check_bucket(url, rounds, writers)
    else:
        _check_directory(Path(url.removeprefix("file://")), rounds, writers)


def _check_bucket(url: str, rounds: int, writers: int) -> None:
    from tidegate.high_availability.object_store.bucket import open_bucket
    from tidegate.high_availability.object_store.conditions import full_check, refuse_broken

    tally = _last(full_check(lambda: open_bucket(url, _ANSWER_S), rounds, writers), rounds)
    refuse_broken(open_bucket(url, _ANSWER_S), tally)
    click.echo(
        f"{tally.rounds} rounds, {writers} writers at a time: never did two create the object, never did two replace the same version.\n"
        f"{url} can elect leaders: high-availability.type: object-store"
    )


def _check_directory(directory: Path, rounds: int, writers: int) -> None:
    from tidegate.high_availability.directory_conditions import race_in_directory, refuse_broken_locks

    tally = _last(race_in_directory(directory, rounds, writers), rounds)
    refuse_broken_locks(directory, tally)
    click.echo(
        f"{tally.rounds} rounds, {writers} writers at a time: exactly one had the lock in each, and no change under it was lost.\n"
        f"{directory} can elect leaders among the JobManagers of this machine: high-availability.type: filesystem"
    )


def _last(steps: Iterator[T], total: int) -> T:
    """Runs all steps with a progress bar on a terminal; returns the last one."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("racing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("racing", total=total)
        step = next(steps)
        progress.advance(task)
        for step in steps:  # noqa: B007  (the last one counts)
            progress.advance(task)
    return step
