"""Catalogs, databases, tables and columns as objects (PyFlink: ``pyflink.table.catalog``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.common.configuration import Configuration
from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType
from tidegate.records.data_types import DataType, RowType
from tidegate.table.descriptors import Schema
from tidegate.table.table_schema import TableSchema, data_type_of

if TYPE_CHECKING:
    from tidegate.table._planner.planner import Planner

_NAMES = """
CatalogColumnStatistics CatalogFunction CatalogModel CatalogPartition CatalogPartitionSpec CatalogTableStatistics ComputedColumn Constraint
HiveCatalog JdbcCatalog MetadataColumn PhysicalColumn Procedure UniqueConstraint WatermarkSpec
"""

__all__ = [
    "Catalog",
    "CatalogBaseTable",
    "CatalogDatabase",
    "CatalogDescriptor",
    "Column",
    "ObjectIdentifier",
    "ObjectPath",
    "ResolvedSchema",
    *_NAMES.split(),
]


@dataclass(frozen=True, order=True)
class ObjectPath:
    """The name of a table, view or function in a catalog: its database and itself."""

    database_name: str
    object_name: str

    @staticmethod
    def from_string(full_name: str) -> ObjectPath:
        """Parses ``database.name``. Raises ``InvalidJob`` for a name with more or fewer parts."""
        parts = full_name.split(".")
        if len(parts) != 2:
            raise InvalidJob(f"Cannot split '{full_name}' to get databaseName and objectName")
        return ObjectPath(*parts)

    def get_database_name(self) -> str:
        """Returns the name of the database."""
        return self.database_name

    def get_object_name(self) -> str:
        """Returns the name in the database."""
        return self.object_name

    def get_full_name(self) -> str:
        """Returns database and name, joined by a dot."""
        return f"{self.database_name}.{self.object_name}"

    def compare_to(self, other: ObjectPath) -> int:
        """Returns a number below 0 if this name sorts before the other, 0 if they are equal, and one above 0 otherwise."""
        return (self > other) - (self < other)

    def __str__(self) -> str:
        return self.get_full_name()


@dataclass(frozen=True)
class ObjectIdentifier:
    """The name of a table, view or function: its catalog, its database and itself."""

    catalog_name: str
    database_name: str
    object_name: str

    @staticmethod
    def of(catalog_name: str, database_name: str, object_name: str) -> ObjectIdentifier:
        """Returns the identifier of a table, view or function with these three names."""
        return ObjectIdentifier(catalog_name, database_name, object_name)

    def get_catalog_name(self) -> str:
        """Returns the name of the catalog."""
        return self.catalog_name

    def get_database_name(self) -> str:
        """Returns the name of the database."""
        return self.database_name

    def get_object_name(self) -> str:
        """Returns the name in the database."""
        return self.object_name

    def to_object_path(self) -> ObjectPath:
        """Returns the path within the catalog: database and name."""
        return ObjectPath(self.database_name, self.object_name)

    def to_list(self) -> list[str]:
        """Returns catalog, database and name."""
        return [self.catalog_name, self.database_name, self.object_name]

    def as_serializable_string(self) -> str:
        """Returns the identifier quoted for use in a statement."""
        return ".".join("`" + name.replace("`", "``") + "`" for name in self.to_list())

    def as_summary_string(self) -> str:
        """Returns the identifier as readable text."""
        return ".".join(self.to_list())

    def __str__(self) -> str:
        return self.as_serializable_string()


@dataclass(frozen=True)
class CatalogDescriptor:
    """The description of a catalog to create: its name and options, of which ``type`` is its kind."""

    catalog_name: str
    configuration: Configuration
    comment: str | None = None

    @staticmethod
    def of(catalog_name: str, configuration: Configuration, comment: str | None = None) -> CatalogDescriptor:
        """Describes a catalog."""
        return CatalogDescriptor(catalog_name, configuration, comment)


@dataclass(frozen=True)
class CatalogDatabase:
    """A database of a catalog: its properties and comment."""

    properties: Mapping[str, str]
    comment: str | None = None

    @staticmethod
    def create_instance(properties: dict[str, str], comment: str | None = None) -> CatalogDatabase:
        """Describes a database."""
        return CatalogDatabase(dict(properties), comment)

    def get_properties(self) -> dict[str, str]:
        """Returns its properties."""
        return dict(self.properties)

    def get_comment(self) -> str | None:
        """Returns its comment; ``None``: there is none."""
        return self.comment

    def copy(self) -> CatalogDatabase:
        """Returns a copy."""
        return CatalogDatabase(self.get_properties(), self.comment)

    def get_description(self) -> str | None:
        """Returns its comment; ``None``: there is none."""
        return self.comment

    get_detailed_description = get_description


@dataclass(frozen=True)
class CatalogBaseTable:
    """A table of a catalog: its columns, options, the columns of its partitions and its comment."""

    schema: TableSchema | Schema
    options: Mapping[str, str]
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None

    @staticmethod
    def create_table(
        schema: TableSchema | Schema,
        partition_keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> CatalogBaseTable:
        """Describes a table; ``properties`` are its options, such as ``connector``."""
        return CatalogBaseTable(schema, dict(properties or {}), tuple(partition_keys), comment)

    def get_options(self) -> dict[str, str]:
        """Returns its options."""
        return dict(self.options)

    def get_unresolved_schema(self) -> Schema:
        """Returns its columns."""
        if isinstance(self.schema, Schema):
            return self.schema
        names, types = self.schema.get_field_names(), self.schema.get_field_data_types()
        return Schema.new_builder().from_fields(names, types).build()

    def get_comment(self) -> str:
        """Returns its comment, which may be empty."""
        return self.comment or ""

    def copy(self) -> CatalogBaseTable:
        """Returns a copy."""
        return CatalogBaseTable(self.schema, self.get_options(), self.partition_keys, self.comment)

    def get_description(self) -> str | None:
        """Returns its comment."""
        return self.get_comment()

    get_detailed_description = get_description


class Catalog:
    """A catalog of the session, as ``TableEnvironment.get_catalog`` returns it. Each method raises ``InvalidStatement`` where Flink's catalog throws an
    exception."""

    def __init__(self, j_catalog: Any, planner: Planner) -> None:
        self._j_catalog = j_catalog
        self._planner = planner

    def get_default_database(self) -> str:
        """Returns the name of the default database."""
        return str(self._ask("getDefaultDatabase"))

    def list_databases(self) -> list[str]:
        """Returns the names of its databases."""
        return list(map(str, self._ask("listDatabases")))

    def get_database(self, database_name: str) -> CatalogDatabase:
        """Returns a database."""
        found = self._ask("getDatabase", database_name)
        return CatalogDatabase(dict(found.getProperties()), found.getComment())

    def database_exists(self, database_name: str) -> bool:
        """Returns whether a database of this name exists."""
        return bool(self._ask("databaseExists", database_name))

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        """Creates a database."""
        self._ask("createDatabase", name, self._java_database(database), ignore_if_exists)

    def drop_database(self, name: str, ignore_if_exists: bool) -> None:
        """Drops a database."""
        self._ask("dropDatabase", name, ignore_if_exists)

    def alter_database(self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool) -> None:
        """Replaces the properties of a database."""
        self._ask("alterDatabase", name, self._java_database(new_database), ignore_if_not_exists)

    def list_tables(self, database_name: str) -> list[str]:
        """Returns the names of tables and views of a database, but for temporary ones."""
        return list(map(str, self._ask("listTables", database_name)))

    def list_views(self, database_name: str) -> list[str]:
        """Returns the names of views of a database, but for temporary ones."""
        return list(map(str, self._ask("listViews", database_name)))

    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable:
        """Returns a table or view."""
        found = self._ask("getTable", self._path(table_path))
        with self._planner.errors():
            columns = {
                str(c.getName()): str(c.getDataType())
                for c in found.getUnresolvedSchema().getColumns()
                if _is_stored(c)
            }
            options, comment = dict(found.getOptions()), str(found.getComment())
        return CatalogBaseTable(Schema(columns=columns), options, (), comment)

    def table_exists(self, table_path: ObjectPath) -> bool:
        """Returns whether a table or view of this name exists."""
        return bool(self._ask("tableExists", self._path(table_path)))

    def create_table(self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool) -> None:
        """Creates a table."""
        with self._planner.errors():
            made = self._planner.jvm.org.apache.flink.table.catalog.CatalogTable.newBuilder()
            made = made.schema(table.get_unresolved_schema().to_java(self._planner)).comment(table.get_comment())
            made = made.partitionKeys(list(table.partition_keys)).options(table.get_options()).build()
        self._ask("createTable", self._path(table_path), made, ignore_if_exists)

    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Drops a table or view."""
        self._ask("dropTable", self._path(table_path), ignore_if_not_exists)

    def rename_table(self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool) -> None:
        """Renames a table or view within its database."""
        self._ask("renameTable", self._path(table_path), new_table_name, ignore_if_not_exists)

    def list_functions(self, database_name: str) -> list[str]:
        """Returns the names of functions of a database, but for temporary ones."""
        return list(map(str, self._ask("listFunctions", database_name)))

    def function_exists(self, function_path: ObjectPath) -> bool:
        """Returns whether a function of this name exists."""
        return bool(self._ask("functionExists", self._path(function_path)))

    def _ask(self, method: str, *arguments: object) -> Any:
        with self._planner.errors():
            return getattr(self._j_catalog, method)(*arguments)

    def _path(self, path: ObjectPath) -> Any:
        return self._planner.jvm.org.apache.flink.table.catalog.ObjectPath(path.database_name, path.object_name)

    def _java_database(self, database: CatalogDatabase) -> Any:
        made = self._planner.jvm.org.apache.flink.table.catalog.CatalogDatabaseImpl
        return made(database.get_properties(), database.comment)


@dataclass(frozen=True)
class Column:
    """A column of a table: physical, computed, or metadata of the connector."""

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
        """Returns whether the column is physical, that is, a field of the stored rows."""
        return self._is_physical

    def is_persisted(self) -> bool:
        """Returns whether the column is written to the table."""
        return self._is_persisted

    def as_summary_string(self) -> str:
        """Returns the column as text, as Flink writes it: name, type, and what is special about it."""
        return self._text

    def __str__(self) -> str:
        return self._text


class ResolvedSchema:
    """The schema of a table: columns with their types, watermarks and primary key."""

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

    @classmethod
    def of_row_type(cls, type: LogicalType) -> ResolvedSchema:
        """Returns the schema of a row type: physical columns without a primary key. This method is tidegate's own."""
        made = cls.__new__(cls)
        texts = [f"`{field.name.replace('`', '``')}` {data_type_of(field.type)}" for field in type.fields]
        made._type, made._key = type, []
        made._text = "(\n" + ",\n".join(f"  {text}" for text in texts) + "\n)" if texts else "()"
        made._columns = [
            Column(field.name, data_type_of(field.type), text, True, True, None)
            for field, text in zip(type.fields, texts, strict=True)
        ]
        return made

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
        """Returns the positions of the primary key's columns; none: there is no key."""
        return list(map(int, self._key))

    def to_physical_row_data_type(self) -> RowType:
        """Returns the row type of the physical columns."""
        stored = [column for column in self._columns if column.is_physical()]
        return TableSchema([c.get_name() for c in stored], [c.get_data_type() for c in stored]).to_row_data_type()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResolvedSchema) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text


def _is_stored(j_column: Any) -> bool:
    return str(j_column.getClass().getSimpleName()) == "UnresolvedPhysicalColumn"


_REFUSED = java_only(
    __name__,
    _NAMES,
    "name catalogs, databases and tables by statements: CREATE CATALOG, CREATE DATABASE, CREATE TABLE, SHOW TABLES, DESCRIBE",
)
__getattr__ = finding(__name__, _REFUSED, elsewhere("tidegate.table.resolved_expression", "ResolvedExpression"))
