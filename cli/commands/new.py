"""`tidegate new`: creates a project with a job that runs at once."""

from __future__ import annotations

from pathlib import Path

import click

from tidegate.cli.errors import reporting
from tidegate.model.errors import ExternalError, Misuse


@click.command()
@click.argument("name", metavar="NAME")
@reporting
def new(name: str) -> None:
    """Make a project in a new folder NAME: a job, data for it, and tests, which run at once.

    Then: cd NAME, python job.py, pytest. A folder that is there must be empty.
    """
    from tidegate.cli.new_project import check_name, files_of

    check_name(name)
    folder = Path(name)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            what = "a folder that is not empty" if folder.is_dir() else "a file"
            raise Misuse(f"{name} is {what}; nothing was written. Choose another name, or remove it")
        for path, text in files_of(name).items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ExternalError(f"cannot write {error.filename}: {error.strerror}") from None
    for path in files_of(name):
        click.echo(f"{name}/{path}")
    click.echo(f"\nNext:  cd {name}\n       python job.py\n       pytest")
