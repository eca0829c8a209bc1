"""`TableSchema`: names and types of columns (PyFlink: ``pyflink.table.table_schema``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.records.data_types import DataType, DataTypes, RowType

__all__ = ["TableSchema"]


class TableSchema:
    """Column names with their types. Raises ``InvalidJob`` for unequal numbers of both, or a duplicate name."""

    Builder: ClassVar[type[TableSchemaBuilder]]

    def __init__(self, field_names: Sequence[str] = (), data_types: Sequence[DataType] = ()) -> None:
        if len(field_names) != len(data_types):
            raise InvalidJob(f"TableSchema: {len(field_names)} names for {len(data_types)} types")
        if len(set(field_names)) != len(field_names):
            raise InvalidJob(f"TableSchema: a name stands twice: {', '.join(field_names)}")
        self._names = tuple(field_names)
        self._types = tuple(data_types)

    @staticmethod
    def of(type: LogicalType) -> TableSchema:
        """Returns the schema of a row type. This method is tidegate's own."""
        return TableSchema([field.name for field in type.fields], [data_type_of(field.type) for field in type.fields])

    @staticmethod
    def builder() -> TableSchemaBuilder:
        """Returns a builder of a schema."""
        return TableSchemaBuilder()

    def copy(self) -> TableSchema:
        """Returns an equal schema."""
        return TableSchema(self._names, self._types)

    def get_field_names(self) -> list[str]:
        """Returns the names."""
        return list(self._names)

    def get_field_name(self, field_index: int) -> str | None:
        """Returns the name at a position; ``None``: there is none."""
        return self._names[field_index] if 0 <= field_index < len(self._names) else None

    def get_field_data_types(self) -> list[DataType]:
        """Returns the types."""
        return list(self._types)

    def get_field_data_type(self, field: int | str) -> DataType | None:
        """Returns the type of a column, by position or name; ``None``: there is none. Raises ``TypeError`` for anything else."""
        if not isinstance(field, int | str):
            raise TypeError(f"Expected field index or field name, got {type(field)}")
        if isinstance(field, str):
            return self._types[self._names.index(field)] if field in self._names else None
        return self._types[field] if 0 <= field < len(self._types) else None

    def get_field_count(self) -> int:
        """Returns how many columns there are."""
        return len(self._names)

    def to_row_data_type(self) -> RowType:
        """Returns the row type of the columns."""
        return DataTypes.ROW([DataTypes.FIELD(*pair) for pair in zip(self._names, self._types, strict=True)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableSchema) and (self._names, self._types) == (other._names, other._types)

    def __hash__(self) -> int:
        return hash((self._names, self._types))

    def __repr__(self) -> str:
        columns = [f" |-- {name}: {_summary(kind)}\n" for name, kind in zip(self._names, self._types, strict=True)]
        return f"root\n{''.join(columns)}"


class TableSchemaBuilder:
    """Builds a ``TableSchema`` (PyFlink: ``TableSchema.Builder``)."""

    def __init__(self) -> None:
        self._fields: list[tuple[str, DataType]] = []

    def field(self, name: str, data_type: DataType) -> TableSchemaBuilder:
        """Adds a column."""
        self._fields.append((name, data_type))
        return self

    def build(self) -> TableSchema:
        """Returns the schema."""
        return TableSchema([name for name, _ in self._fields], [kind for _, kind in self._fields])


TableSchema.Builder = TableSchemaBuilder


def _summary(type: DataType) -> str:
    return str(type).replace(f"VARCHAR({2**31 - 1})", "STRING").replace(f"VARBINARY({2**31 - 1})", "BYTES")


_MAKERS: dict[TypeRoot, Callable[..., DataType]] = {
    TypeRoot.BOOLEAN: DataTypes.BOOLEAN,
    TypeRoot.TINYINT: DataTypes.TINYINT,
    TypeRoot.SMALLINT: DataTypes.SMALLINT,
    TypeRoot.INTEGER: DataTypes.INT,
    TypeRoot.BIGINT: DataTypes.BIGINT,
    TypeRoot.FLOAT: DataTypes.FLOAT,
    TypeRoot.DOUBLE: DataTypes.DOUBLE,
    TypeRoot.DECIMAL: DataTypes.DECIMAL,
    TypeRoot.CHAR: DataTypes.CHAR,
    TypeRoot.VARCHAR: DataTypes.VARCHAR,
    TypeRoot.BINARY: DataTypes.BINARY,
    TypeRoot.VARBINARY: DataTypes.VARBINARY,
    TypeRoot.DATE: DataTypes.DATE,
    TypeRoot.TIME: DataTypes.TIME,
    TypeRoot.TIMESTAMP: DataTypes.TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ: DataTypes.TIMESTAMP_LTZ,
    TypeRoot.ARRAY: DataTypes.ARRAY,
    TypeRoot.MAP: DataTypes.MAP,
}


def data_type_of(type: LogicalType) -> DataType:
    """Converts a plan's type to a ``DataTypes`` type. Raises ``InvalidJob`` for one that ``DataTypes`` does not have."""
    if type.root is TypeRoot.ROW:
        fields = [DataTypes.FIELD(field.name, data_type_of(field.type)) for field in type.fields]
        return DataTypes.ROW(fields, type.nullable)
    if type.root is TypeRoot.MULTISET:
        return DataTypes.MULTISET(data_type_of(type.element), type.nullable)
    if type.root is TypeRoot.NULL:
        return DataTypes.NULL()
    maker = _MAKERS.get(type.root)
    if maker is None:
        raise InvalidJob(f"DataTypes has no type for {type}")
    parts: list[Any] = [data_type_of(child) for child in type.children]
    parts += [part for part in (type.length, type.precision, type.scale) if part is not None]
    return maker(*parts, type.nullable)
