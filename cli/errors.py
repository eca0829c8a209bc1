"""Reports errors to the user: one line `error: what, where, what to do` on stderr, an exit code, and never a traceback
(`--verbose` shows it). Exit codes: 0 success, 1 failure, 2 misuse. A command may have others for its own errors.
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import click

from tidegate.model.errors import ErrorInfo, TidegateError
from tidegate.model.masking import SECRETS

FAILED = 1
"""The exit code of a failure, as in Flink's command line."""
MISUSE = 2
"""The exit code of wrong use, as in click and shells."""
_MISUSE_CODES = ("misuse", "configuration")
_DETAIL_LINES = 8
"""How many of the innermost lines of a traceback are shown; the whole one is in the log."""


class ProgramFailed(TidegateError):
    """The user's program raised an exception; `details` is its traceback."""

    code, domain = "program", "user"


def reporting(command: Callable[..., object]) -> Callable[..., object]:
    """Wraps a command so that its errors are reported as this module says. The wrapper takes the option `verbose` itself.

    If the command has an attribute `failed_with`, that is its exit code for all errors.
    """

    @click.option("-v", "--verbose", is_flag=True, help="Show the details of errors.")
    @functools.wraps(command)
    def run(*arguments: object, verbose: bool, **options: Any) -> object:
        try:
            return command(*arguments, **options)
        except TidegateError as error:
            fail(error, verbose, getattr(command, "failed_with", None))
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(128 + 2)
        except BrokenPipeError:
            sys.exit(FAILED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # noqa: BLE001  (the outermost driver of the command line)
            if verbose:
                click.echo(SECRETS.masked(traceback.format_exc()), err=True, nl=False)
            hint = "" if verbose else "; --verbose shows where"
            text = f"error: this is a mistake in tidegate: {type(error).__name__}: {error}{hint}"
            click.echo(SECRETS.masked(text), err=True)
            sys.exit(FAILED)

    return run


def fail(error: TidegateError, verbose: bool, exit_code: int | None = None) -> NoReturn:
    """Reports one error and exits."""
    click.echo(SECRETS.masked(f"error: {error.message}"), err=True)
    if verbose:
        if error.details:
            click.echo(SECRETS.masked(error.details.rstrip()), err=True)
        click.echo(SECRETS.masked("".join(traceback.format_exception(error, chain=False))), err=True, nl=False)
    sys.exit(exit_code or (MISUSE if error.code in _MISUSE_CODES else FAILED))


def cause_in_a_few_lines(failure: ErrorInfo) -> str:
    """Describes why a job failed: the message, its place, and the end of the user's traceback."""
    place = f" in {failure.origin}" if failure.origin and failure.origin not in failure.message else ""
    lines = [f"{failure.message}{place}"]
    details = [line for line in failure.details.rstrip().splitlines() if line.strip()]
    if len(details) > _DETAIL_LINES:
        details = ["...", *details[-_DETAIL_LINES:]]
    return "\n".join([*lines, *(f"  {line}" for line in details)])
