"""Options of ``run`` for the files and packages of a Python program, as in ``flink run``: they become Flink's ``python.*`` keys."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from tidegate.model.errors import Misuse

_OPTIONS = (
    click.option("-pyfs", "--pyFiles", "python_files", metavar="a.py,b.zip,dir", help="Files that functions import."),
    click.option(
        "-pyreq",
        "--pyRequirements",
        "requirements",
        metavar="FILE[#DIR]",
        help="Requirements file to install where the job runs; DIR: its packages.",
    ),
    click.option(
        "-pyarch", "--pyArchives", "archives", metavar="FILE[#NAME],...", help="Archives to unpack where the job runs."
    ),
    click.option("-pyexec", "--pyExecutable", "executable", metavar="PYTHON", help="Interpreter that the job needs."),
    click.option("-pym", "--pyModule", "module", metavar="a.b", help="Run this module instead of a job file."),
    click.option("-py", "--python", "python", metavar="job.py", help="The job file, as `flink run` has it."),
)


@dataclass(frozen=True)
class Brought:
    """The values of these options; ``None``: not given."""

    python_files: str | None
    requirements: str | None
    archives: str | None
    executable: str | None
    module: str | None
    python: str | None

    def definitions(self) -> list[str]:
        """Returns ``key=value`` definitions, with absolute paths. Also puts the files on this process's module path, for the program."""
        paths = [Path(part).expanduser().absolute() for part in (self.python_files or "").split(",") if part]
        sys.path[:0] = [str(path.parent if path.suffix == ".py" else path) for path in paths]
        found = {
            "python.files": ",".join(map(str, paths)),
            "python.requirements": self.requirements,
            "python.archives": self.archives,
            "python.executable": self.executable,
        }
        return [f"{key}={text}" for key, text in found.items() if text]

    def program(self, job: Path | None, arguments: tuple[str, ...]) -> tuple[Path, tuple[str, ...]]:
        """Returns the file to run and its arguments. Raises `Misuse` when none or several are named."""
        if self.module is not None and self.python is not None:
            raise Misuse("-pym and -py both name a program: give one of them")
        given = arguments if job is None else (str(job), *arguments)
        if self.python is not None:
            return Path(self.python), given
        if self.module is not None:
            return self._module_file(self.module), given
        if job is None:
            raise Misuse("no program: give a job file (tidegate run job.py), or a module with -pym")
        return job, arguments

    def _module_file(self, module: str) -> Path:
        places = [Path(part) for part in (self.python_files or "").split(",") if part] + [Path()]
        relative = Path(*module.split("."))
        for place in places:
            root = place.parent if place.suffix == ".py" else place
            for candidate in (root / relative.with_suffix(".py"), root / relative / "__main__.py"):
                if candidate.is_file():
                    return candidate
        raise Misuse(f"module {module!r} is in none of {', '.join(map(str, places))}; name its directory with -pyfs")


def python_options(command: Callable[..., object]) -> Callable[..., object]:
    """Adds the options; the command gets them as one argument, ``brought``."""

    @functools.wraps(command)
    def gathered(**options: Any) -> object:
        brought = Brought(**{field.name: options.pop(field.name) for field in fields(Brought)})
        return command(brought=brought, **options)

    made: Callable[..., object] = gathered
    for option in reversed(_OPTIONS):
        made = option(made)
    return made
