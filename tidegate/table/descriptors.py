"""`Schema` and `TableDescriptor` with their builders (PyFlink: ``pyflink.table``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidegate.common.typeinfo import TypeInformation
from tidegate.model.errors import InvalidJob
from tidegate.records.data_types import DataType

__all__ = ["Schema", "TableDescriptor"]


@dataclass(frozen=True)
class Schema:
    """The columns of a table (PyFlink: ``Schema``)."""

    columns: Mapping[str, TypeInformation]

    @staticmethod
    def new_builder() -> SchemaBuilder:
        """Starts a schema without columns."""
        return SchemaBuilder()


class SchemaBuilder:
    """Collects columns, then ``build`` (PyFlink: ``Schema.Builder``)."""

    def __init__(self) -> None:
        self._columns: dict[str, TypeInformation] = {}

    def column(self, column_name: str, data_type: DataType | TypeInformation) -> SchemaBuilder:
        """Adds a column. Raises ``InvalidJob`` for what is not a type."""
        found = data_type.type_info if isinstance(data_type, DataType) else data_type
        if not isinstance(found, TypeInformation):
            raise InvalidJob(
                f"column {column_name!r}: {data_type!r} is no type; use DataTypes, such as DataTypes.INT()"
            )
        self._columns[column_name] = found
        return self

    def build(self) -> Schema:
        """Returns the schema. Raises ``InvalidJob`` when it has no column."""
        if not self._columns:
            raise InvalidJob("a table needs at least one column")
        return Schema(dict(self._columns))


@dataclass(frozen=True)
class TableDescriptor:
    """A table: its connector, columns and options (PyFlink: ``TableDescriptor``)."""

    connector: str
    columns: Schema | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def for_connector(connector: str) -> TableDescriptorBuilder:
        """Only ``datagen`` is there."""
        if connector != "datagen":
            raise InvalidJob(
                f"a table of connector {connector!r}: only datagen is there; read other systems with env.from_source(...)"
            )
        return TableDescriptorBuilder(TableDescriptor(connector))


@dataclass
class TableDescriptorBuilder:
    """Collects schema and options, then ``build`` (PyFlink: ``TableDescriptor.Builder``)."""

    _descriptor: TableDescriptor

    def schema(self, schema: Schema) -> TableDescriptorBuilder:
        """Sets the columns."""
        self._descriptor = replace(self._descriptor, columns=schema)
        return self

    def option(self, key: str, value: str) -> TableDescriptorBuilder:
        """Sets an option of the connector."""
        self._descriptor = replace(self._descriptor, options={**self._descriptor.options, key: str(value)})
        return self

    def build(self) -> TableDescriptor:
        """Returns the descriptor. Raises ``InvalidJob`` when it has no schema."""
        if self._descriptor.columns is None:
            raise InvalidJob("a table needs a schema: .schema(Schema.new_builder().column(...).build())")
        return self._descriptor
