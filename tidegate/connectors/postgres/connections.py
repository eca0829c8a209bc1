"""Connections to PostgreSQL, and conversion of their errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tidegate.model.errors import ExternalError, InvalidJob, TidegateError, Unreachable, UserError
from tidegate.model.masking import SECRETS

CONNECT_TIMEOUT_S = 15
"""The connect timeout in seconds. Chosen, not measured: for a server that is starting, the job restarts."""
LOCK_TIMEOUT_S = 30
"""The lock timeout in seconds. Chosen, not measured: a lock held longer fails the attempt with an error that says so."""
SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lock_timeout": f"{LOCK_TIMEOUT_S}s",
}
"""Session settings that make the meaning of values independent of role and database; the encoding is UTF-8, from which the server converts."""
_OF_DATA = ("0A", "22", "23", "42", "44", "54", "P0")
"""Classes of SQLSTATE that recur with the same rows and table: not supported, data, integrity, names and rights, check options, limits (the size of an
index entry), and errors of triggers."""


def library() -> Any:
    """Imports ``psycopg``. Raises ``InvalidJob`` when it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise InvalidJob("the PostgreSQL sink needs the package psycopg: pip install 'tidegate[postgres]'") from error
    return psycopg


def connect(conninfo: str, application: str) -> Any:
    """Opens a connection in autocommit mode, with ``SETTINGS``. Raises ``Unreachable`` (without the password)."""
    with postgres_errors("connect", conninfo):
        connection = library().connect(
            conninfo,
            autocommit=True,
            application_name=application[:63],
            connect_timeout=CONNECT_TIMEOUT_S,
            client_encoding="UTF8",
        )
        chosen = ", ".join("set_config(%s, %s, false)" for _ in SETTINGS)
        connection.execute(f"SELECT {chosen}", [text for setting in SETTINGS.items() for text in setting])
        return connection


@contextlib.contextmanager
def postgres_errors(doing: str, conninfo: str) -> Iterator[None]:
    """Converts the driver's exceptions to typed errors that say what was being done and where: ``UserError`` for those that recur with the same rows,
    ``ExternalError`` for those that a retry may avoid."""
    psycopg = library()
    try:
        yield
    except psycopg.Error as error:
        raise _typed(error, doing, conninfo) from error


def is_of_data(error: Any) -> bool:
    """Returns whether an error of the driver recurs with the same rows and the same table."""
    return isinstance(error, library().DataError) or (error.sqlstate or "")[:2] in _OF_DATA


def _typed(error: Any, doing: str, conninfo: str) -> TidegateError:
    psycopg = library()
    text = f"cannot {doing} (PostgreSQL, {place_of(conninfo)}): {reason_of(error)}"
    if is_of_data(error):
        return UserError(text)
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return ExternalError(f"{text}; another session has held the lock for more than {LOCK_TIMEOUT_S} s")
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return Unreachable(f"{text}; is the server up, and the address right?")
    return ExternalError(text)


def reason_of(error: Any) -> str:
    """Returns the server's message, with the place in the rows of a ``COPY``."""
    text = str(error).strip()
    reason = text.splitlines()[0] if text else type(error).__name__
    places = [line for line in (error.diag.context or "").splitlines() if line.startswith("COPY")]
    return f"{reason} ({places[0]})" if places else reason


def place_of(conninfo: str) -> str:
    """Returns database, host and port of a connection string."""
    parts = _parts(conninfo)
    return f"database {parts.get('dbname', '')!r} at {parts.get('host', 'the local socket')}:{parts.get('port', 5432)}"


def without_secrets(conninfo: str) -> str:
    """Returns a connection string without passwords, for commands in messages."""
    parts = _parts(conninfo)
    return str(library().conninfo.make_conninfo("", **{k: v for k, v in parts.items() if "pass" not in k}))


def _parts(conninfo: str) -> dict[str, Any]:
    psycopg = library()
    try:
        parts: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        raise InvalidJob(f"not a connection string of PostgreSQL: {str(error).strip()}") from None
    SECRETS.learn({name: str(value) for name, value in parts.items()})
    return parts
