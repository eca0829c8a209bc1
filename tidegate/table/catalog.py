"""`ResolvedSchema` and `Column`: what Flink's planner knows of a table's columns (PyFlink: ``pyflink.table.catalog``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate.common.names.java_only import refusing
from tidegate.plan.logical_types import LogicalType
from tidegate.records.data_types import DataType, RowType
from tidegate.table.table_schema import TableSchema, data_type_of

__all__ = ["Column", "ResolvedSchema"]


@dataclass(frozen=True)
class Column:
    """A column of a table: it is stored, computed, or metadata of the connector."""

    _name: str
    _type: DataType
    _text: str
    _is_physical: bool
    _is_persisted: bool
    _comment: str | None

    def get_name(self) -> str:
        """Returns its name."""
        return self._name

    def get_data_type(self) -> DataType:
        """Returns its type."""
        return self._type

    def get_comment(self) -> str | None:
        """Returns its comment; ``None``: there is none."""
        return self._comment

    def is_physical(self) -> bool:
        """Whether it is stored as a field of the rows."""
        return self._is_physical

    def is_persisted(self) -> bool:
        """Whether it is written."""
        return self._is_persisted

    def as_summary_string(self) -> str:
        """Returns it in Flink's words."""
        return self._text

    def __str__(self) -> str:
        return self._text


class ResolvedSchema:
    """Columns with their types, watermarks and the key of a table."""

    def __init__(self, j_resolved_schema: Any, row_type: Callable[[Any], LogicalType]) -> None:
        self._type = row_type(j_resolved_schema)
        self._text = str(j_resolved_schema.toString())
        types = [data_type_of(field.type) for field in self._type.fields]
        self._columns = [
            Column(
                str(column.getName()),
                kind,
                str(column.asSummaryString()),
                bool(column.isPhysical()),
                bool(column.isPersisted()),
                column.getComment().orElse(None),
            )
            for column, kind in zip(j_resolved_schema.getColumns(), types, strict=True)
        ]
        self._key = list(map(str, j_resolved_schema.getPrimaryKeyIndexes()))

    def get_column_count(self) -> int:
        """Returns how many columns there are."""
        return len(self._columns)

    def get_columns(self) -> list[Column]:
        """Returns the columns."""
        return list(self._columns)

    def get_column(self, column_index_or_name: int | str) -> Column | None:
        """Returns a column by position or name; ``None``: there is none."""
        if isinstance(column_index_or_name, int):
            return self._columns[column_index_or_name] if 0 <= column_index_or_name < len(self._columns) else None
        return next((column for column in self._columns if column.get_name() == column_index_or_name), None)

    def get_column_names(self) -> list[str]:
        """Returns the names of the columns."""
        return [column.get_name() for column in self._columns]

    def get_column_data_types(self) -> list[DataType]:
        """Returns the types of the columns."""
        return [column.get_data_type() for column in self._columns]

    def get_primary_key_indexes(self) -> list[int]:
        """Returns the positions of the columns of the key; none: there is no key."""
        return list(map(int, self._key))

    def to_physical_row_data_type(self) -> RowType:
        """Returns the row type of the columns that are stored."""
        stored = [column for column in self._columns if column.is_physical()]
        return TableSchema([c.get_name() for c in stored], [c.get_data_type() for c in stored]).to_row_data_type()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResolvedSchema) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text


__getattr__ = refusing(
    __name__,
    """
    Catalog CatalogBaseTable CatalogColumnStatistics CatalogDatabase CatalogDescriptor CatalogFunction CatalogPartition
    CatalogPartitionSpec CatalogTableStatistics ComputedColumn Constraint HiveCatalog MetadataColumn ObjectIdentifier ObjectPath
    PhysicalColumn Procedure UniqueConstraint WatermarkSpec
    """,
    "name catalogs, databases and tables by statements: CREATE CATALOG, CREATE DATABASE, CREATE TABLE, SHOW TABLES, DESCRIBE",
)
