"""`DataTypes`: types of the columns of tables and files (PyFlink: ``pyflink.table.types``), each with the matching type of a stream.

    row_type = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("price", DataTypes.DECIMAL(10, 2))])

A length of text or bytes is kept, and not enforced on streams. Raw and structured types are not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidegate.model.errors import InvalidJob
from tidegate.records.type_factory import Types
from tidegate.records.type_information import RowTypeInfo, TypeInformation

__all__ = ["DataType", "DataTypes", "IntervalResolution", "RowField", "RowType"]

_MAX_LENGTH = 2**31 - 1
"""Flink's `VarCharType.MAX_LENGTH`."""
_MAX_DIGITS = 38
"""Flink's `DecimalType.MAX_PRECISION`."""
_MONTHS = ("YEAR", "MONTH")
_DAYS = ("DAY", "HOUR", "MINUTE", "SECOND")
"""The units of ``INTERVAL``, each larger than the next."""


@dataclass(frozen=True)
class DataType:
    """The type of a column. ``type_info``: the type of a stream's values; ``arrow``: the type in files; ``text``: Flink's name for it."""

    text: str
    type_info: TypeInformation
    arrow: pa.DataType
    is_nullable: bool = True

    def nullable(self) -> DataType:
        """Returns the same type for a column that may hold nulls."""
        return replace(self, is_nullable=True)

    def not_null(self) -> DataType:
        """Returns the same type for a column without nulls; a null in it fails when the file is written."""
        return replace(self, is_nullable=False)

    def bridged_to(self, conversion_cls: str) -> DataType:
        """Returns the type unchanged: ``conversion_cls`` names a Java class, and there is no JVM."""
        return self

    def decimals(self) -> tuple[int, int] | None:
        """Returns precision and scale of a DECIMAL, or of a list of them; ``None`` for other types."""
        inner = self.arrow.value_type if pa.types.is_list(self.arrow) else self.arrow
        return (inner.precision, inner.scale) if pa.types.is_decimal(inner) else None

    def __str__(self) -> str:
        return self.text if self.is_nullable else f"{self.text} NOT NULL"


@dataclass(frozen=True)
class RowField:
    """A named field of a row type. ``description``: a comment for readers."""

    name: str
    data_type: DataType
    description: str | None = None

    def arrow_field(self) -> pa.Field:
        """Returns the column as an Arrow field."""
        return pa.field(self.name, self.data_type.arrow, self.data_type.is_nullable)


@dataclass(frozen=True)
class RowType(DataType):
    """The type of a row: named fields, each with a type (PyFlink: ``RowType``)."""

    fields: tuple[RowField, ...] = ()

    def field_names(self) -> list[str]:
        """Returns the names of the fields."""
        return [field.name for field in self.fields]

    names = property(field_names)

    def field_types(self) -> list[DataType]:
        """Returns the types of the fields."""
        return [field.data_type for field in self.fields]

    def arrow_schema(self) -> pa.Schema:
        """Returns the columns as an Arrow schema."""
        return pa.schema([field.arrow_field() for field in self.fields])

    def row_type_info(self) -> RowTypeInfo:
        """Returns the stream's type for these rows."""
        return RowTypeInfo([field.data_type.type_info for field in self.fields], self.field_names())

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


@dataclass(frozen=True)
class IntervalResolution:
    """A unit of ``INTERVAL``, with the digits that are kept of it where it has any."""

    unit: str
    precision: int | None = None

    def __str__(self) -> str:
        return self.unit if self.precision is None else f"{self.unit}({self.precision})"


class DataTypes:
    """Creates the data types by name. Raises ``InvalidJob`` for an invalid precision, scale or length."""

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:
        """Declares booleans."""
        return DataType("BOOLEAN", Types.BOOLEAN(), pa.bool_(), nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:
        """Declares whole numbers of 8 bits."""
        return DataType("TINYINT", Types.BYTE(), pa.int8(), nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:
        """Declares whole numbers of 16 bits."""
        return DataType("SMALLINT", Types.SHORT(), pa.int16(), nullable)

    @staticmethod
    def INT(nullable: bool = True) -> DataType:
        """Declares whole numbers of 32 bits."""
        return DataType("INT", Types.INT(), pa.int32(), nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:
        """Declares whole numbers of 64 bits."""
        return DataType("BIGINT", Types.LONG(), pa.int64(), nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:
        """Declares numbers of 32 bits."""
        return DataType("FLOAT", Types.FLOAT(), pa.float32(), nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:
        """Declares numbers of 64 bits."""
        return DataType("DOUBLE", Types.DOUBLE(), pa.float64(), nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:
        """Declares decimal numbers of ``precision`` digits, ``scale`` of them after the decimal point."""
        if not 1 <= precision <= _MAX_DIGITS or not 0 <= scale <= precision:
            raise InvalidJob(
                f"DECIMAL({precision}, {scale}): precision is 1 to {_MAX_DIGITS}, scale is 0 to the precision"
            )
        return DataType(f"DECIMAL({precision}, {scale})", Types.BIG_DEC(), pa.decimal128(precision, scale), nullable)

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:
        """Declares text of a fixed length. The length is not enforced."""
        return DataType(f"CHAR({_positive(length)})", Types.STRING(), pa.string(), nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:
        """Declares text up to a length. The length is not enforced."""
        return DataType(f"VARCHAR({_positive(length)})", Types.STRING(), pa.string(), nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:
        """Declares text of any length."""
        return DataTypes.VARCHAR(_MAX_LENGTH, nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> DataType:
        """Declares bytes of a fixed length. The length is not enforced."""
        return DataType(f"BINARY({_positive(length)})", Types.PRIMITIVE_ARRAY(Types.BYTE()), pa.binary(), nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:
        """Declares bytes up to a length. The length is not enforced."""
        return DataType(f"VARBINARY({_positive(length)})", Types.PRIMITIVE_ARRAY(Types.BYTE()), pa.binary(), nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:
        """Declares bytes of any length."""
        return DataTypes.VARBINARY(_MAX_LENGTH, nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:
        """Declares dates without a zone."""
        return DataType("DATE", Types.SQL_DATE(), pa.date32(), nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:
        """Declares times of day with ``precision`` digits of a second's fraction."""
        return DataType(f"TIME({precision})", Types.SQL_TIME(), _time_of_day(precision), nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:
        """Declares timestamps without a time zone, with ``precision`` digits of a second's fraction."""
        return DataType(
            f"TIMESTAMP({precision})", Types.SQL_TIMESTAMP(), pa.timestamp(_unit("TIMESTAMP", precision)), nullable
        )

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> DataType:
        """Declares points in time, which files hold in UTC, with ``precision`` digits of a second's fraction."""
        unit = _unit("TIMESTAMP_LTZ", precision)
        return DataType(f"TIMESTAMP_LTZ({precision})", Types.INSTANT(), pa.timestamp(unit, tz="UTC"), nullable)

    TIMESTAMP_WITH_LOCAL_TIME_ZONE = TIMESTAMP_LTZ

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> DataType:
        """Declares lists of elements of one type."""
        item = pa.field("item", element_type.arrow, element_type.is_nullable)
        return DataType(f"ARRAY<{element_type}>", Types.LIST(element_type.type_info), pa.list_(item), nullable)

    @staticmethod
    def LIST_VIEW(element_type: DataType) -> DataType:
        """Declares a ``ListView`` in the accumulator of an aggregate function."""
        return DataTypes.ARRAY(element_type)

    @staticmethod
    def MAP_VIEW(key_type: DataType, value_type: DataType) -> DataType:
        """Declares a ``MapView`` in the accumulator of an aggregate function."""
        return DataTypes.MAP(key_type, value_type)

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> DataType:
        """Declares maps with keys of one type and values of another."""
        info = Types.MAP(key_type.type_info, value_type.type_info)
        value = pa.field("value", value_type.arrow, value_type.is_nullable)
        return DataType(f"MAP<{key_type}, {value_type}>", info, pa.map_(key_type.arrow, value), nullable)

    @staticmethod
    def MULTISET(element_type: DataType, nullable: bool = True) -> DataType:
        """Declares multisets: maps from each element to how many times it occurs."""
        made = DataTypes.MAP(element_type, DataTypes.INT(False), nullable)
        return replace(made, text=f"MULTISET<{element_type}>")

    @staticmethod
    def NULL() -> DataType:
        """Declares the type of a value that is always null."""
        return DataType("NULL", Types.STRING(), pa.null())

    @staticmethod
    def SECOND(precision: int = 6) -> IntervalResolution:
        """Returns the unit SECOND of ``INTERVAL``, with ``precision`` digits of a second's fraction."""
        return IntervalResolution("SECOND", precision)

    @staticmethod
    def MINUTE() -> IntervalResolution:
        """Returns the unit MINUTE of ``INTERVAL``."""
        return IntervalResolution("MINUTE")

    @staticmethod
    def HOUR() -> IntervalResolution:
        """Returns the unit HOUR of ``INTERVAL``."""
        return IntervalResolution("HOUR")

    @staticmethod
    def DAY(precision: int = 2) -> IntervalResolution:
        """Returns the unit DAY of ``INTERVAL``, with ``precision`` digits."""
        return IntervalResolution("DAY", precision)

    @staticmethod
    def MONTH() -> IntervalResolution:
        """Returns the unit MONTH of ``INTERVAL``."""
        return IntervalResolution("MONTH")

    @staticmethod
    def YEAR(precision: int = 2) -> IntervalResolution:
        """Returns the unit YEAR of ``INTERVAL``, with ``precision`` digits."""
        return IntervalResolution("YEAR", precision)

    @staticmethod
    def INTERVAL(upper_resolution: IntervalResolution, lower_resolution: IntervalResolution | None = None) -> DataType:
        """Declares lengths of time, in months or in parts of days. Raises ``InvalidJob`` for units that do not go together."""
        units = _MONTHS if upper_resolution.unit in _MONTHS else _DAYS
        text = str(upper_resolution)
        if lower_resolution is not None:
            after = units[units.index(upper_resolution.unit) + 1 :]
            if lower_resolution.unit not in after:
                raise InvalidJob(f"there is no INTERVAL {upper_resolution} TO {lower_resolution}")
            text += f" TO {lower_resolution}"
        if units is _MONTHS:
            return DataType(f"INTERVAL {text}", Types.INT(), pa.int32())
        return DataType(f"INTERVAL {text}", Types.PICKLED_BYTE_ARRAY(), pa.duration("ms"))

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> RowField:
        """Declares a field of ``ROW``."""
        return RowField(name, data_type, description)

    @staticmethod
    def ROW(row_fields: Sequence[RowField], nullable: bool = True) -> RowType:
        """Declares rows with these fields. Raises ``InvalidJob`` without a field, or when names repeat."""
        fields = tuple(row_fields)
        info = RowTypeInfo([f.data_type.type_info for f in fields], [f.name for f in fields])
        text = f"ROW<{', '.join(f'`{f.name}` {f.data_type}' for f in fields)}>"
        return RowType(text, info, pa.struct([f.arrow_field() for f in fields]), nullable, fields)


def _positive(length: int) -> int:
    if not 1 <= length <= _MAX_LENGTH:
        raise InvalidJob(f"a length is 1 to {_MAX_LENGTH}, not {length}")
    return length


def _unit(name: str, precision: int) -> str:
    if not 0 <= precision <= 9:
        raise InvalidJob(f"{name}({precision}): a precision is 0 to 9 digits of the second")
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def _time_of_day(precision: int) -> pa.DataType:
    unit = _unit("TIME", precision)
    return pa.time32(unit) if unit == "ms" else pa.time64(unit)
