"""Connections to PostgreSQL, and what their errors mean to a job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tidegate.model.errors import ExternalError, InvalidJob, TidegateError, Unreachable, UserError

CONNECT_TIMEOUT_S = 15
"""Chosen, not measured: a server that is starting is tried again by the job's restart."""


def library() -> Any:
    """``psycopg``. Raises ``InvalidJob`` when it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise InvalidJob("the PostgreSQL sink needs the package psycopg: install tidegate[postgres]") from error
    return psycopg


def connect(conninfo: str, application: str, *, autocommit: bool = True) -> Any:
    """Raises ``Unreachable`` (without the password)."""
    with postgres_errors("connect", conninfo):
        return library().connect(
            conninfo, autocommit=autocommit, application_name=application[:63], connect_timeout=CONNECT_TIMEOUT_S
        )


@contextlib.contextmanager
def postgres_errors(doing: str, conninfo: str) -> Iterator[None]:
    """Turns what the driver raises into one typed error that says what was being done, and to whom."""
    psycopg = library()
    try:
        yield
    except psycopg.Error as error:
        raise _typed(error, doing, conninfo) from error


def _typed(error: Any, doing: str, conninfo: str) -> TidegateError:
    psycopg = library()
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    text = f"cannot {doing} (PostgreSQL, {place_of(conninfo)}): {reason}"
    if isinstance(error, psycopg.errors.DataError | psycopg.errors.IntegrityError | psycopg.errors.ProgrammingError):
        return UserError(text)
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return Unreachable(f"{text}; is the server up, and the address right?")
    return ExternalError(text)


def place_of(conninfo: str) -> str:
    """Where it is, without secrets."""
    psycopg = library()
    try:
        told = psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        raise InvalidJob(f"not a connection string of PostgreSQL: {str(error).strip()}") from None
    return f"database {told.get('dbname', '')!r} at {told.get('host', 'the local socket')}:{told.get('port', 5432)}"
