"""Runs a user's job file in this process, with an executor installed for it."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.errors import ProgramFailed
from tidegate.model.errors import Misuse, TidegateError

if TYPE_CHECKING:
    from tidegate.datastream._graph.executor import Executor


def run_program(path: Path, arguments: Sequence[str], executor: Executor, configuration: Mapping[str, str]) -> None:
    """Runs the file as `__main__`, or the compiled plan of tables in a `.json` file.

    Raises `Misuse` when it cannot be read, `ProgramFailed` for exceptions of the program; `TidegateError`s and `SystemExit` pass through.
    """
    from tidegate.datastream._graph.executor import installed

    check_readable(path)
    if path.suffix == ".json":
        _run_plan(path, arguments, executor, configuration)
        return
    with installed(executor, configuration), _as_a_script(path, arguments):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except TidegateError:
            raise
        except SyntaxError as error:
            place = f"{error.filename}, line {error.lineno}"
            raise ProgramFailed(f"{path.name} is not a Python program: {error.msg} ({place})") from None
        except Exception as error:  # noqa: BLE001  (around the user's program)
            raise _program_error(path, error) from None


def _run_plan(path: Path, arguments: Sequence[str], executor: Executor, configuration: Mapping[str, str]) -> None:
    from tidegate.datastream._graph.executor import installed
    from tidegate.table.sql_script import run_plan

    if arguments:
        raise Misuse(f"the plan {path.name} takes no arguments: {' '.join(arguments)}")
    with installed(executor, configuration):
        run_plan(path)


def check_readable(path: Path) -> None:
    """Raises `Misuse` for a job file that cannot be read."""
    try:
        with path.open("rb") as file:
            file.read(1)
    except IsADirectoryError:
        raise Misuse(f"job file {path} is a directory; give a Python file") from None
    except OSError as error:
        raise Misuse(f"cannot read the job file {path}: {error.strerror}") from None


def _program_error(path: Path, error: Exception) -> ProgramFailed:
    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, frame in enumerate(frames) if Path(frame.filename).resolve() == path.resolve()), len(frames))
    own = frames[first:]
    inside = [frame for frame in own if Path(frame.filename).parent.resolve() == path.parent.resolve()]
    place = f" ({Path(inside[-1].filename).name}, line {inside[-1].lineno})" if inside else ""
    details = "".join(["Traceback (most recent call last):\n", *traceback.format_list(own)])
    details += "".join(traceback.format_exception_only(error))
    return ProgramFailed(f"{path.name} raised {type(error).__name__}: {error}{place}", details=details)


@contextmanager
def _as_a_script(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Sets `sys.argv` and `sys.path` as if Python itself had started the file."""
    argv, search = sys.argv[:], sys.path[:]
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, search
