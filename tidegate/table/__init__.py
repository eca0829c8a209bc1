"""The little of ``pyflink.table`` that DataStream programs begin with: tables of generated rows as streams.

    t_env = StreamTableEnvironment.create(stream_execution_environment=env)
    t_env.create_temporary_table("source", TableDescriptor.for_connector("datagen").schema(...).build())
    stream = t_env.to_data_stream(t_env.from_path("source"))

There is no Table API here and no SQL over tables; streams have expressions, ``select``, windows and ``sql``.
"""

from __future__ import annotations

from tidegate.table.data_types import DataTypes
from tidegate.table.descriptors import Schema, TableDescriptor
from tidegate.table.environment import StreamTableEnvironment, Table

__all__ = ["DataTypes", "Schema", "StreamTableEnvironment", "Table", "TableDescriptor"]


def __getattr__(name: str) -> object:
    if name.startswith("_"):
        raise AttributeError(name)
    raise AttributeError(
        f"tidegate.table.{name} is not available: tidegate has DataStream programs, not the Table API; "
        "select, expressions and windows of a stream do what its queries do"
    )
