"""DuckDB connections: in-memory databases without access to anything else, in a given time zone."""

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
    """Imports DuckDB. Raises ``InvalidJob`` when it is not installed, or too old."""
    try:
        import duckdb
    except ImportError as error:
        raise InvalidJob("sql needs DuckDB: pip install 'tidegate[sql]'") from error
    if int(duckdb.__version__.split(".")[0]) < 2:
        raise InvalidJob(f"sql needs DuckDB 2 or newer, not {duckdb.__version__}: pip install 'tidegate[sql]'")
    return duckdb


def connected(zone: str) -> DuckDBPyConnection:
    """Opens a database of its own, with ``zone`` as its time zone."""
    connection: DuckDBPyConnection = duckdb_module().connect(":memory:", config=_SETTINGS)
    # As an entry of the settings it would come before the extension that knows the zones.
    connection.execute("SET TimeZone = ?", [zone])
    return connection


def planner(zone: str = "UTC") -> DuckDBPyConnection:
    """Returns the DuckDB database of this thread for parsing and binding queries. It is kept, since opening one takes longer than parsing a query."""
    if zone not in _KEPT.connections:
        _KEPT.connections[zone] = connected(zone)
    return _KEPT.connections[zone]
