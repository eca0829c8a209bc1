"""PostgreSQL as an exactly-once sink, on ``psycopg`` (the extra ``tidegate[postgres]``).

write ─▶ COPY (or upsert) in an open transaction │ barrier n: PREPARE TRANSACTION │ confirm(n): COMMIT PREPARED
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.common.names.finding import connector

if TYPE_CHECKING:
    from tidegate.connectors.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]

__getattr__ = connector(__name__)
