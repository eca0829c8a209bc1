"""DuckDB's connections: databases in memory that read nothing else, in a time zone that is not the process's."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tidegate.model.errors import InvalidJob

if TYPE_CHECKING:
    from types import ModuleType

    from duckdb import DuckDBPyConnection

_SETTINGS = {"threads": 1, "enable_external_access": False}


class _Kept(threading.local):
    def __init__(self) -> None:
        self.connections: dict[str, DuckDBPyConnection] = {}


_KEPT = _Kept()


def duckdb_module() -> ModuleType:
    """Raises ``InvalidJob`` where DuckDB is not installed, or is too old."""
    try:
        import duckdb
    except ImportError as error:
        raise InvalidJob("sql needs DuckDB: pip install 'tidegate[sql]'") from error
    if int(duckdb.__version__.split(".")[0]) < 2:
        raise InvalidJob(f"sql needs DuckDB 2 or newer, not {duckdb.__version__}: pip install 'tidegate[sql]'")
    return duckdb


def connected(zone: str) -> DuckDBPyConnection:
    """A database of its own, whose local time is that of ``zone``."""
    connection: DuckDBPyConnection = duckdb_module().connect(":memory:", config=_SETTINGS)
    # As an entry of the settings it would come before the extension that knows the zones.
    connection.execute("SET TimeZone = ?", [zone])
    return connection


def planner(zone: str = "UTC") -> DuckDBPyConnection:
    """The database of this thread in which queries are parsed and bound: to open one takes longer than what it is asked."""
    if zone not in _KEPT.connections:
        _KEPT.connections[zone] = connected(zone)
    return _KEPT.connections[zone]
