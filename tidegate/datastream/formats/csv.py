"""CSV under PyFlink's names (``pyflink.datastream.formats.csv``): files with a schema, and messages.

schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_column_separator("|").build()
source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path).build()
sink = FileSink.for_bulk_format(directory, CsvBulkWriters.for_schema(schema)).build()

CsvRowDeserializationSchema.Builder(type_info).set_field_delimiter("|").build()
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.serialization import BulkWriterFactory
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.formats.csv_cells import CsvColumn
from tidegate.connectors.formats.csv_dialect import CsvDialect
from tidegate.connectors.formats.csv_files import CsvLayout, CsvSchemaEncoderFactory, CsvSchemaFormat
from tidegate.connectors.formats.csv_messages import CsvRowDeserializationSchema as OurDeserializationSchema
from tidegate.connectors.formats.csv_messages import CsvRowSerializationSchema as OurSerializationSchema
from tidegate.datastream.connectors.bulk_writers import RowWriterFactory
from tidegate.datastream.connectors.file_system import StreamFormat
from tidegate.model.errors import InvalidJob
from tidegate.records.data_types import DataType, DataTypes, RowField, RowType

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


@dataclass(frozen=True)
class CsvSchema:
    """The columns of a CSV file, and its separators, quotes and header."""

    layout: CsvLayout
    row_type: RowType

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Returns a builder of a schema."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Returns the number of columns."""
        return len(self.layout.columns)

    def __len__(self) -> int:
        return self.size()


class CsvSchemaBuilder:
    """Builds a ``CsvSchema``, as Jackson's ``CsvSchema.Builder``. Defaults: commas, ``"`` around cells that need quotes, no escapes, no header, no text
    for null. Methods that take one character raise ``ValueError`` for other texts."""

    def __init__(self) -> None:
        self._columns: list[CsvColumn] = []
        self._fields: list[RowField] = []
        self._layout = CsvLayout(())

    def build(self) -> CsvSchema:
        """Returns the schema. Raises ``InvalidJob`` without a column."""
        if not self._columns:
            raise InvalidJob("a CSV schema needs at least one column")
        layout = replace(self._layout, columns=tuple(self._columns))
        return CsvSchema(layout, DataTypes.ROW(self._fields))

    # --- columns ---------------------------------------------------------------------------------

    def add_array_column(
        self, name: str, separator: str = ";", element_type: DataType | None = None
    ) -> CsvSchemaBuilder:
        """Appends a column of lists in one cell; of texts, unless ``element_type`` is given."""
        return self._add(name, DataTypes.ARRAY(element_type or DataTypes.STRING()), separator)

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Appends a column of booleans."""
        return self._add(name, DataTypes.BOOLEAN())

    def add_number_column(self, name: str, number_type: DataType | None = None) -> CsvSchemaBuilder:
        """Appends a column of numbers: BIGINT, unless ``number_type`` is given. A DECIMAL rounds half up; a value with too many digits is null."""
        return self._add(name, number_type or DataTypes.BIGINT())

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Appends a column of text."""
        return self._add(name, DataTypes.STRING())

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Appends the columns of another schema."""
        self._columns += schema.layout.columns
        self._fields += schema.row_type.fields
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Removes all columns."""
        self._columns.clear()
        self._fields.clear()
        return self

    def _add(self, name: str, data_type: DataType, separator: str = ";") -> CsvSchemaBuilder:
        self._fields.append(DataTypes.FIELD(name, data_type))
        self._columns.append(CsvColumn(name, data_type.type_info, separator, data_type.decimals()))
        return self

    # --- elements of lists -----------------------------------------------------------------------

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Sets the text between the elements of arrays, in all columns so far."""
        self._columns = [replace(column, separator=separator) for column in self._columns]
        return self

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Sets no separator: a list has its cell as its only element."""
        return self.set_array_element_separator("")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Lets the column at ``index`` hold one value again instead of an array."""
        self._columns[index] = replace(self._columns[index], separator="")
        return self

    # --- the file --------------------------------------------------------------------------------

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Skips lines that begin with ``#``."""
        return self._with_dialect(replace(self._layout.dialect, allow_comments=allow))

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Accepts lines with more cells than there are columns; these are ignored."""
        return self._with(replace(self._layout, ignore_more_cells=True))

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Sets the character between cells. Raises ``ValueError`` unless it is one character."""
        return self._with_dialect(replace(self._layout.dialect, column_separator=_one(char, "Column separator")))

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Sets the character behind which the next one stands for itself. Raises ``ValueError`` unless it is one
        character."""
        return self._with_dialect(replace(self._layout.dialect, escape_char=_one(char, "Escape char")))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Reads and writes without an escape character, as by default."""
        return self._with_dialect(replace(self._layout.dialect, escape_char=None))

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Sets the character around cells that need quotes. Raises ``ValueError`` unless it is one character."""
        return self._with_dialect(replace(self._layout.dialect, quote_char=_one(char, "Quote char")))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Reads and writes cells without quotes."""
        return self._with_dialect(replace(self._layout.dialect, quote_char=None))

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Sets the line end to write; ``\\n`` and ``\\r\\n`` are read."""
        return self._with_dialect(replace(self._layout.dialect, line_separator=separator))

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Sets the text of null; without it, no text is read as null, and null is written as an empty cell."""
        return self._with_dialect(replace(self._layout.dialect, null_value=null_value))

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Skips the first row of each file."""
        return self._with(replace(self._layout, skip_first_data_row=skip))

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Requires the header to have the names of the columns, in their order."""
        return self._with(replace(self._layout, strict_headers=strict))

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Uses the first line as a header: it is skipped when reading, and written."""
        return self._with(replace(self._layout, use_header=use))

    def size(self) -> int:
        """Returns the number of columns so far."""
        return len(self._columns)

    def __len__(self) -> int:
        return self.size()

    def _with_dialect(self, dialect: CsvDialect) -> CsvSchemaBuilder:
        return self._with(replace(self._layout, dialect=dialect))

    def _with(self, layout: CsvLayout) -> CsvSchemaBuilder:
        self._layout = layout
        return self


class CsvReaderFormat(StreamFormat):
    """Reads CSV files as rows with the names and types of the schema's columns."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Returns the format that reads files with this schema."""
        return CsvReaderFormat(CsvSchemaFormat(schema.layout))


class CsvBulkWriters:
    """Writers of CSV files, for ``FileSink.for_bulk_format`` (PyFlink: ``CsvBulkWriters``)."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> BulkWriterFactory:
        """Returns the factory of writers of rows with the schema's columns, by name if they have all of its names, by position otherwise."""
        return RowWriterFactory(partial(CsvSchemaEncoderFactory, schema.layout), schema.row_type)


class CsvRowDeserializationSchema(OurDeserializationSchema):
    """Reads a message as one line of CSV and returns a ``Row`` (PyFlink: ``CsvRowDeserializationSchema``)."""

    class Builder:
        """Builds a ``CsvRowDeserializationSchema``."""

        def __init__(self, type_info: TypeInformation) -> None:
            self._made = OurDeserializationSchema(type_info)

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the text between cells; a comma by default."""
            return self._with(replace(self._made, field_delimiter=delimiter))

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Skips lines that begin with ``#``."""
            return self._with(replace(self._made, allow_comments=allow_comments))

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the text between the elements of a list, or of a row within the row."""
            return self._with(replace(self._made, array_element_delimiter=delimiter))

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the character around cells that need quotes. Raises ``ValueError`` unless it is one character."""
            return self._with(replace(self._made, quote_character=_one(c, "Quote character")))

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the character behind which the next one stands for itself. Raises ``ValueError`` unless it is one
            character."""
            return self._with(replace(self._made, escape_character=_one(c, "Escape character")))

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the text that means null; without it, an empty cell does."""
            return self._with(replace(self._made, null_literal=null_literal))

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """Reads a cell as null when it is missing or is not of its type."""
            return self._with(replace(self._made, ignore_parse_errors=ignore_parse_errors))

        def build(self) -> OurDeserializationSchema:
            """Returns the schema."""
            return self._made

        def _with(self, made: OurDeserializationSchema) -> CsvRowDeserializationSchema.Builder:
            self._made = made
            return self


class CsvRowSerializationSchema(OurSerializationSchema):
    """Writes a ``Row`` as one line of CSV (PyFlink: ``CsvRowSerializationSchema``)."""

    class Builder:
        """Builds a ``CsvRowSerializationSchema``."""

        def __init__(self, type_info: TypeInformation) -> None:
            self._made = OurSerializationSchema()

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Sets the text between cells; a comma by default."""
            return self._with(replace(self._made, field_delimiter=c))

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            r"""Sets what a message ends with: nothing, ``\n``, ``\r`` or ``\r\n``; as in Flink, the default is ``\n``.
            Raises ``ValueError`` for anything else."""
            if delimiter not in ("", "\n", "\r", "\r\n"):
                raise ValueError(f"Unsupported new line delimiter: {delimiter!r}")
            return self._with(replace(self._made, line_delimiter=delimiter))

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Sets the text between the elements of a list, or of a row within the row."""
            return self._with(replace(self._made, array_element_delimiter=delimiter))

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Writes cells without quotes."""
            return self._with(replace(self._made, quote_character=None))

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Sets the character around cells that need quotes. Raises ``ValueError`` unless it is one character."""
            return self._with(replace(self._made, quote_character=_one(c, "Quote character")))

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Sets the character behind which the next one stands for itself. Raises ``ValueError`` unless it is one
            character."""
            return self._with(replace(self._made, escape_character=_one(c, "Escape character")))

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Sets the text that is written for null; nothing by default."""
            return self._with(replace(self._made, null_literal=s))

        def build(self) -> OurSerializationSchema:
            """Returns the schema."""
            return self._made

        def _with(self, made: OurSerializationSchema) -> CsvRowSerializationSchema.Builder:
            self._made = made
            return self


def _one(char: str, what: str) -> str:
    if len(char) != 1:
        raise ValueError(f"{what} must be a single char, got {char}")
    return char


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.serialization", "DeserializationSchema SerializationSchema"),
    elsewhere("tidegate.common.serialization", "RowDataBulkWriterFactory"),
)
