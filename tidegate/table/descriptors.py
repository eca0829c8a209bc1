"""`Schema` and `TableDescriptor` with their builders (PyFlink: ``pyflink.table``). They are descriptions: the planner reads them when a
table is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import pyarrow as pa

from tidegate.common.config_options import ConfigOption
from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only
from tidegate.common.typeinfo import TypeInformation
from tidegate.model.errors import InvalidJob
from tidegate.records.data_types import DataType, RowType
from tidegate.table.expression import Expression, java_type

if TYPE_CHECKING:
    from tidegate.table._planner.planner import Planner

_NAMES = "Descriptor Rowtime"

__all__ = ["FormatDescriptor", "Schema", "TableDescriptor", *_NAMES.split()]

ColumnType: TypeAlias = DataType | TypeInformation | str


class HasStoredColumns(Protocol):
    """A schema that ``from_resolved_schema`` accepts, such as a ``ResolvedSchema``."""

    def to_physical_row_data_type(self) -> RowType:
        """Returns the row type of the physical columns."""


@dataclass(frozen=True)
class Schema:
    """The declared columns, watermark and primary key of a table (PyFlink: ``Schema``)."""

    Builder: ClassVar[type[SchemaBuilder]]

    columns: Mapping[str, ColumnType] = field(default_factory=dict)
    computed: tuple[tuple[str, str | Expression], ...] = ()
    watermarks: tuple[tuple[str, str | Expression], ...] = ()
    key: tuple[str, ...] = ()
    metadata: tuple[tuple[str, DataType | str, str | None, bool], ...] = ()
    """Metadata columns: name, type, metadata key (``None``: the name), and whether the column is virtual, that is, read only."""
    order: tuple[str, ...] = ()
    """The names of all columns in order of declaration; if empty, physical ones come first, then metadata columns, then computed ones."""

    @staticmethod
    def new_builder() -> SchemaBuilder:
        """Returns a builder of a schema."""
        return SchemaBuilder()

    def arrow_schema(self) -> pa.Schema:
        """Returns the columns as an Arrow schema. Raises ``InvalidJob`` for a type that was given as text, which only the planner can parse."""
        fields = []
        for name, kind in self.columns.items():
            if isinstance(kind, str):
                raise InvalidJob(f"column {name!r}: give the type {kind} by DataTypes to make a stream of the table")
            fields.append(pa.field(name, kind.arrow) if isinstance(kind, DataType) else kind.arrow_field(name))
        return pa.schema(fields)

    def to_java(self, planner: Planner) -> Any:
        """Converts it to Flink's ``Schema``. Raises ``InvalidJob`` for a ``TypeInformation``, which only streams have."""
        declared: list[tuple[str, str, tuple[Any, ...]]] = []
        for name, kind in self.columns.items():
            if isinstance(kind, TypeInformation):
                raise InvalidJob(
                    f"column {name!r}: {kind!r} is a type of streams; tables have DataTypes, such as DataTypes.INT()"
                )
            declared.append((name, "column", (java_type(kind, planner) if isinstance(kind, DataType) else kind,)))
        for name, data_type, metadata_key, is_virtual in self.metadata:
            keys = () if metadata_key is None else (metadata_key,)
            declared.append((name, "columnByMetadata", (java_type(data_type, planner), *keys, is_virtual)))
        for name, expression in self.computed:
            declared.append((name, "columnByExpression", (_java(expression, planner),)))
        places = {name: place for place, name in enumerate(self.order)}
        builder = planner.api.Schema.newBuilder()
        for name, method, given in sorted(declared, key=lambda column: places.get(column[0], len(places))):
            getattr(builder, method)(name, *given)
        for name, expression in self.watermarks:
            builder.watermark(name, _java(expression, planner))
        if self.key:
            builder.primaryKey(planner.array(planner.jvm.String, list(self.key)))
        return builder.build()


class SchemaBuilder:
    """Builds a ``Schema`` (PyFlink: ``Schema.Builder``)."""

    def __init__(self) -> None:
        self._columns: dict[str, ColumnType] = {}
        self._computed: list[tuple[str, str | Expression]] = []
        self._watermarks: list[tuple[str, str | Expression]] = []
        self._key: tuple[str, ...] = ()
        self._metadata: list[tuple[str, DataType | str, str | None, bool]] = []
        self._order: list[str] = []

    def column(self, column_name: str, data_type: ColumnType) -> SchemaBuilder:
        """Adds a column. Raises ``InvalidJob`` for what is not a type."""
        if not isinstance(data_type, DataType | TypeInformation | str):
            raise InvalidJob(
                f"column {column_name!r}: {data_type!r} is not a type; use DataTypes, such as DataTypes.INT()"
            )
        self._columns[column_name] = data_type
        self._order.append(column_name)
        return self

    def from_fields(self, field_names: list[str], field_data_types: list[DataType]) -> SchemaBuilder:
        """Adds a column for each name and type."""
        for name, kind in zip(field_names, field_data_types, strict=True):
            self.column(name, kind)
        return self

    def from_row_data_type(self, data_type: RowType) -> SchemaBuilder:
        """Adds the fields of a row type as columns."""
        for found in data_type:
            self.column(found.name, found.data_type)
        return self

    def from_schema(self, unresolved_schema: Schema) -> SchemaBuilder:
        """Adds the columns, watermarks and key of another schema."""
        self._columns |= unresolved_schema.columns
        self._order += unresolved_schema.order or unresolved_schema.columns
        self._computed += unresolved_schema.computed
        self._watermarks += unresolved_schema.watermarks
        self._key = unresolved_schema.key or self._key
        self._metadata += unresolved_schema.metadata
        return self

    def column_by_expression(self, column_name: str, expr: str | Expression) -> SchemaBuilder:
        """Adds a computed column, such as ``("total", "a + b")``."""
        self._order.append(column_name)
        self._computed.append((column_name, expr))
        return self

    def column_by_metadata(
        self, column_name: str, data_type: DataType | str, metadata_key: str | None = None, is_virtual: bool = False
    ) -> SchemaBuilder:
        """Adds a metadata column, which a connector provides besides the fields of a row: for a stream, its ``rowtime``."""
        self._order.append(column_name)
        self._metadata.append((column_name, data_type, metadata_key, is_virtual))
        return self

    def watermark(self, column_name: str, watermark_expr: str | Expression) -> SchemaBuilder:
        """Makes a column the event time, with the expression of its watermark."""
        self._watermarks.append((column_name, watermark_expr))
        return self

    def from_resolved_schema(self, resolved_schema: HasStoredColumns) -> SchemaBuilder:
        """Adds the physical columns of a resolved schema."""
        return self.from_row_data_type(resolved_schema.to_physical_row_data_type())

    def primary_key_named(self, constraint_name: str, *column_names: str) -> SchemaBuilder:
        """Declares the primary key; the name of the constraint has no effect."""
        return self.primary_key(*column_names)

    def primary_key(self, *column_names: str) -> SchemaBuilder:
        """Declares the primary key, which is not enforced."""
        self._key = column_names
        return self

    def build(self) -> Schema:
        """Returns the schema. Raises ``InvalidJob`` for an empty one."""
        if not (self._columns or self._computed or self._metadata or self._watermarks or self._key):
            raise InvalidJob("a table needs at least one column")
        return Schema(
            dict(self._columns),
            tuple(self._computed),
            tuple(self._watermarks),
            self._key,
            tuple(self._metadata),
            tuple(self._order),
        )


@dataclass(frozen=True)
class FormatDescriptor:
    """A format with its options (PyFlink: ``FormatDescriptor``)."""

    Builder: ClassVar[type[FormatDescriptorBuilder]]

    format: str
    options: Mapping[str, str] = field(default_factory=dict)

    def get_format(self) -> str:
        """Returns the name of the format."""
        return self.format

    def get_options(self) -> dict[str, str]:
        """Returns the options, without the name of the format before them."""
        return dict(self.options)

    @staticmethod
    def for_format(format: str) -> FormatDescriptorBuilder:
        """Returns a builder of a format descriptor."""
        return FormatDescriptorBuilder(FormatDescriptor(format))


@dataclass
class FormatDescriptorBuilder:
    """Builds a ``FormatDescriptor`` (PyFlink: ``FormatDescriptor.Builder``)."""

    _descriptor: FormatDescriptor

    def option(self, key: str, value: object) -> FormatDescriptorBuilder:
        """Sets an option, named without the format's prefix."""
        self._descriptor = replace(self._descriptor, options={**self._descriptor.options, key: _text(value)})
        return self

    def build(self) -> FormatDescriptor:
        """Returns the descriptor."""
        return self._descriptor


@dataclass(frozen=True)
class TableDescriptor:
    """The description of a table: its connector, schema and options (PyFlink: ``TableDescriptor``). The connector is looked up when the table is used."""

    Builder: ClassVar[type[TableDescriptorBuilder]]

    connector: str
    columns: Schema | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None

    def get_schema(self) -> Schema | None:
        """Returns the columns; ``None``: there are none."""
        return self.columns

    def get_options(self) -> dict[str, str]:
        """Returns the options, the connector's name among them."""
        return {"connector": self.connector, **self.options}

    def get_partition_keys(self) -> list[str]:
        """Returns the partition columns."""
        return list(self.partition_keys)

    def get_comment(self) -> str | None:
        """Returns the comment; ``None``: there is none."""
        return self.comment

    @staticmethod
    def for_connector(connector: str) -> TableDescriptorBuilder:
        """Returns a builder of a table with this connector."""
        return TableDescriptorBuilder(TableDescriptor(connector))

    def to_java(self, planner: Planner) -> Any:
        """Converts it to Flink's ``TableDescriptor``."""
        builder = planner.api.TableDescriptor.forConnector(self.connector)
        if self.columns is not None:
            builder.schema(self.columns.to_java(planner))
        for key, text in self.options.items():
            builder.option(key, text)
        if self.partition_keys:
            builder.partitionedBy(planner.array(planner.jvm.String, list(self.partition_keys)))
        if self.comment is not None:
            builder.comment(self.comment)
        return builder.build()


@dataclass
class TableDescriptorBuilder:
    """Builds a ``TableDescriptor`` (PyFlink: ``TableDescriptor.Builder``)."""

    _descriptor: TableDescriptor

    def schema(self, schema: Schema) -> TableDescriptorBuilder:
        """Sets the schema."""
        self._descriptor = replace(self._descriptor, columns=schema)
        return self

    def option(self, key: str, value: object) -> TableDescriptorBuilder:
        """Sets an option of the connector."""
        self._descriptor = replace(self._descriptor, options={**self._descriptor.options, key: _text(value)})
        return self

    def format(
        self, format: str | FormatDescriptor, format_option: ConfigOption[Any] | None = None
    ) -> TableDescriptorBuilder:
        """Sets the format and its options. ``format_option``: the option that names the format, such as ``key.format``, whose prefix the format's
        options get too."""
        found = FormatDescriptor(format) if isinstance(format, str) else format
        name = "format" if format_option is None else format_option.key
        self.option(name, found.format)
        prefix = f"{name.removesuffix('format')}{found.format}"
        for key, text in found.options.items():
            self.option(f"{prefix}.{key}", text)
        return self

    def partitioned_by(self, *partition_keys: str) -> TableDescriptorBuilder:
        """Sets the partition columns."""
        self._descriptor = replace(self._descriptor, partition_keys=partition_keys)
        return self

    def comment(self, comment: str) -> TableDescriptorBuilder:
        """Sets the comment."""
        self._descriptor = replace(self._descriptor, comment=comment)
        return self

    def build(self) -> TableDescriptor:
        """Returns the descriptor."""
        return self._descriptor


Schema.Builder = SchemaBuilder
FormatDescriptor.Builder = FormatDescriptorBuilder
TableDescriptor.Builder = TableDescriptorBuilder


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _java(expression: str | Expression, planner: Planner) -> Any:
    return expression._make(planner) if isinstance(expression, Expression) else expression


_REFUSED = java_only(
    __name__,
    "Descriptor Rowtime",
    "Flink has removed what took them: Schema.new_builder() takes columns and watermarks",
)
__getattr__ = finding(__name__, _REFUSED, elsewhere("tidegate.table.table_schema", "TableSchema"))
