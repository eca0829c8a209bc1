"""Type information of records, with the Arrow types of each. Programs import it from ``tidegate.common.typeinfo``.

| type                                    | column of a value                   | columns of a stream        |
|-----------------------------------------|-------------------------------------|----------------------------|
| basic, date, time, timestamp, lists, map| its Arrow type                      | ``value``                  |
| ``ROW_NAMED``                           | struct with its names               | its names                  |
| ``ROW``, ``TUPLE``                      | struct ``f0`` ...                   | ``f0`` ...                 |
| ``PICKLED_BYTE_ARRAY``                  | binary, marked in the field         | ``pickled``                |
| ``SCHEMA`` (ours, for columnar streams) | struct                              | those of the Arrow schema  |

Types are values: equal when they mean the same, hashable, picklable. ``tidegate.records`` turns values into columns and back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum

import pyarrow as pa

from tidegate.model.errors import InvalidJob
from tidegate.model.values import FieldValue
from tidegate.records.internal_form import from_internal, to_internal
from tidegate.records.schema_evolution import with_default

PICKLED_METADATA = {b"tidegate.pickled": b"1"}
"""Metadata of an Arrow field whose binary values are pickled objects."""


class TypeInformation(ABC):
    """The type of records or fields: the base of all types. Two types are equal when their class and their ``_parts`` are equal."""

    def get_java_type_info(self) -> TypeInformation:
        """Returns the type itself: PyFlink returns that of its JVM here."""
        return self

    @abstractmethod
    def arrow_type(self) -> pa.DataType:
        """Returns the Arrow type of a column with values of this type."""

    @abstractmethod
    def _parts(self) -> tuple[object, ...]: ...

    def arrow_field(self, name: str) -> pa.Field:
        """Returns a nullable Arrow field of this type."""
        return pa.field(name, self.arrow_type())

    def arrow_schema(self) -> pa.Schema:
        """Returns the Arrow schema of a stream of this type."""
        return pa.schema([self.arrow_field("value")])

    @property
    def is_columnar(self) -> bool:
        """Tells whether a stream of this type has named Arrow columns, whose records are ``Row`` for functions that take one record."""
        return False

    def need_conversion(self) -> bool:
        """Tells whether PyFlink's internal form of a value differs from the value."""
        return False

    def to_internal_type(self, obj: FieldValue) -> FieldValue:
        """Converts a value to PyFlink's internal form: days, microseconds, rows as tuples after their kind."""
        return to_internal(self, obj)

    def from_internal_type(self, obj: FieldValue) -> FieldValue:
        """Converts a value from PyFlink's internal form to the form that functions see."""
        return from_internal(self, obj)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, TypeInformation) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self).__name__, repr(self._parts())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._parts()))})"


class BasicType(Enum):
    """The basic types by name (PyFlink: ``BasicType``)."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


_BASIC_ARROW: dict[BasicType, pa.DataType] = {
    BasicType.STRING: pa.string(),
    BasicType.BYTE: pa.int8(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.FLOAT: pa.float32(),
    BasicType.DOUBLE: pa.float64(),
    BasicType.CHAR: pa.string(),
    BasicType.BIG_INT: pa.decimal256(76, 0),
    BasicType.BIG_DEC: pa.decimal128(38, 18),  # as Flink's DECIMAL for BigDecimal
    BasicType.INSTANT: pa.timestamp("us", tz="UTC"),
}


class BasicTypeInfo(TypeInformation):
    """The type of numbers, strings, booleans and instants."""

    def __init__(self, basic_type: BasicType) -> None:
        self.basic_type = basic_type

    def arrow_type(self) -> pa.DataType:
        return _BASIC_ARROW[self.basic_type]

    def _parts(self) -> tuple[object, ...]:
        return (self.basic_type,)

    def need_conversion(self) -> bool:
        return self.basic_type is BasicType.INSTANT

    def __repr__(self) -> str:
        return self.basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.STRING()``."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.BYTE()``."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.BOOLEAN()``."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.SHORT()``."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.INT()``."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.LONG()``."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.FLOAT()``."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.DOUBLE()``."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.CHAR()``."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.BIG_INT()``."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.BIG_DEC()``."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        """Returns ``Types.INSTANT()``."""
        return BasicTypeInfo(BasicType.INSTANT)


class DecimalTypeInfo(BasicTypeInfo):
    """The type of ``decimal.Decimal`` values of up to ``precision`` digits (38), ``scale`` of them after the point: for values that
    ``Types.BIG_DEC()``, with 20 digits before and 18 after it, cannot hold (Flink: ``BigDecimalTypeInfo``)."""

    def __init__(self, precision: int, scale: int) -> None:
        super().__init__(BasicType.BIG_DEC)
        self.precision = precision
        self.scale = scale

    def arrow_type(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)

    def _parts(self) -> tuple[object, ...]:
        return (self.precision, self.scale)

    def __repr__(self) -> str:
        return f"Decimal({self.precision}, {self.scale})"


class SqlTimeTypeInfo(TypeInformation):
    """The type of ``datetime.date``, ``datetime.time`` and ``datetime.datetime`` without a zone, in microseconds."""

    _ARROW = {"Date": pa.date32(), "Time": pa.time64("us"), "Timestamp": pa.timestamp("us")}  # noqa: RUF012

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def arrow_type(self) -> pa.DataType:
        return self._ARROW[self.kind]

    def _parts(self) -> tuple[object, ...]:
        return (self.kind,)

    def need_conversion(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"{self.kind}TypeInfo"

    @staticmethod
    def DATE() -> SqlTimeTypeInfo:
        """Returns ``Types.SQL_DATE()``."""
        return SqlTimeTypeInfo("Date")

    @staticmethod
    def TIME() -> SqlTimeTypeInfo:
        """Returns ``Types.SQL_TIME()``."""
        return SqlTimeTypeInfo("Time")

    @staticmethod
    def TIMESTAMP() -> SqlTimeTypeInfo:
        """Returns ``Types.SQL_TIMESTAMP()``."""
        return SqlTimeTypeInfo("Timestamp")


class _ElementsTypeInfo(TypeInformation):
    """Base of the types with any number of elements of one type."""

    def __init__(self, element_type: TypeInformation) -> None:
        self.element_type = element_type

    def arrow_type(self) -> pa.DataType:
        return pa.list_(self.element_type.arrow_field("item"))

    def _parts(self) -> tuple[object, ...]:
        return (self.element_type,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.element_type!r}>"


class ListTypeInfo(_ElementsTypeInfo):
    """The type of lists."""


class BasicArrayTypeInfo(_ElementsTypeInfo):
    """The type of arrays of basic values, which may be ``None``."""


class ObjectArrayTypeInfo(_ElementsTypeInfo):
    """The type of arrays of values of any type."""


class PrimitiveArrayTypeInfo(_ElementsTypeInfo):
    """The type of arrays of numbers or booleans without nulls; of BYTE: ``bytes``."""

    def arrow_type(self) -> pa.DataType:
        return pa.binary() if self.element_type == BasicTypeInfo.BYTE_TYPE_INFO() else super().arrow_type()


class MapTypeInfo(TypeInformation):
    """The type of maps (``dict``)."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self.key_type = key_type_info
        self.value_type = value_type_info

    def arrow_type(self) -> pa.DataType:
        key = pa.field(
            "key", self.key_type.arrow_type(), nullable=False, metadata=self.key_type.arrow_field("k").metadata
        )
        return pa.map_(key, self.value_type.arrow_field("value"))

    def _parts(self) -> tuple[object, ...]:
        return (self.key_type, self.value_type)

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self.key_type!r}, {self.value_type!r}>"


class PickledBytesTypeInfo(TypeInformation):
    """The type of objects that are pickled: that of a stream whose type was not declared."""

    def arrow_type(self) -> pa.DataType:
        return pa.binary()

    def arrow_field(self, name: str) -> pa.Field:
        return pa.field(name, pa.binary(), metadata=PICKLED_METADATA)

    def arrow_schema(self) -> pa.Schema:
        return pa.schema([self.arrow_field("pickled")])

    def _parts(self) -> tuple[object, ...]:
        return ()

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class _FieldsTypeInfo(TypeInformation):
    """Base of the types with a fixed number of fields."""

    def __init__(self, field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> None:
        if not field_types:
            raise InvalidJob(f"{type(self).__name__} needs at least one field type")
        if len(field_names) != len(field_types):
            raise InvalidJob(f"{len(field_names)} field names {list(field_names)} for {len(field_types)} field types")
        if len(set(field_names)) != len(field_names):
            raise InvalidJob(f"field names must differ: {list(field_names)}")
        self._names = tuple(field_names)
        self._types = tuple(field_types)

    def get_field_names(self) -> list[str]:
        """Returns the names of the fields in their order."""
        return list(self._names)

    def get_field_types(self) -> list[TypeInformation]:
        """Returns the types of the fields in their order."""
        return list(self._types)

    def get_field_index(self, field_name: str) -> int:
        """Returns the position of a field; -1 for an unknown name, as in Java."""
        return self._names.index(field_name) if field_name in self._names else -1

    def arrow_type(self) -> pa.DataType:
        return pa.struct(list(self.arrow_schema()))

    def arrow_schema(self) -> pa.Schema:
        return pa.schema([t.arrow_field(n) for n, t in zip(self._names, self._types, strict=True)])

    def need_conversion(self) -> bool:
        return True

    def _parts(self) -> tuple[object, ...]:
        return (self._names, self._types)


class RowTypeInfo(_FieldsTypeInfo):
    """The type of ``Row`` with these fields, named ``f0``, ``f1``, ... by default. The default of a field is its value in state that was stored before
    the field was added."""

    def __init__(
        self,
        field_types: Sequence[TypeInformation],
        field_names: Sequence[str] | None = None,
        defaults: Mapping[str, FieldValue] | None = None,
    ) -> None:
        self.is_named = field_names is not None
        super().__init__(field_names if field_names is not None else _positions(field_types), field_types)
        self._defaults = dict(defaults or {})
        strange = sorted(self._defaults.keys() - set(self._names))
        if strange:
            raise InvalidJob(f"defaults are given for {strange}, which are not among the fields {list(self._names)}")
        try:
            self.arrow_schema()
        except ValueError as error:
            raise InvalidJob(str(error)) from None

    def arrow_schema(self) -> pa.Schema:
        plain = super().arrow_schema()
        if not self._defaults:
            return plain
        return pa.schema([with_default(f, self._defaults[f.name]) if f.name in self._defaults else f for f in plain])

    def _parts(self) -> tuple[object, ...]:
        return (*super()._parts(), *([tuple(self._defaults.items())] if self._defaults else []))

    def __repr__(self) -> str:
        names = [f"{name}: " if self.is_named else "" for name in self._names]
        return f"RowTypeInfo({', '.join(f'{name}{kind!r}' for name, kind in zip(names, self._types, strict=True))})"


class TupleTypeInfo(_FieldsTypeInfo):
    """The type of tuples."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        super().__init__(_positions(field_types), field_types)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self._types))})"


def _positions(field_types: Sequence[TypeInformation]) -> list[str]:
    return [f"f{i}" for i in range(len(field_types))]
