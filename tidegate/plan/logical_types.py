"""Flink's logical types in compiled plans, decoded and encoded.

A plan holds a type as text, ``DECIMAL(10, 2) NOT NULL``, where that says everything, and otherwise as an object with a ``type``:
time attributes (``kind``: ``ROWTIME``, ``PROCTIME``), symbols, raw values, rows that contain one of these.
``LogicalType`` is either; it is written again as it was read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NoReturn

from tidegate.plan.errors import MalformedPlan


class TypeRoot(Enum):
    """The roots of logical types (Flink: ``LogicalTypeRoot``)."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BOOLEAN = "BOOLEAN"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DECIMAL = "DECIMAL"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME_WITHOUT_TIME_ZONE"
    TIMESTAMP = "TIMESTAMP_WITHOUT_TIME_ZONE"
    TIMESTAMP_TZ = "TIMESTAMP_WITH_TIME_ZONE"
    TIMESTAMP_LTZ = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
    INTERVAL_YEAR_MONTH = "INTERVAL_YEAR_MONTH"
    INTERVAL_DAY_TIME = "INTERVAL_DAY_TIME"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"
    STRUCTURED = "STRUCTURED_TYPE"
    DISTINCT = "DISTINCT_TYPE"
    RAW = "RAW"
    NULL = "NULL"
    SYMBOL = "SYMBOL"
    DESCRIPTOR = "DESCRIPTOR"
    VARIANT = "VARIANT"


class TimeKind(Enum):
    """Whether a timestamp is a time attribute (Flink: ``TimestampKind``)."""

    REGULAR = "REGULAR"
    ROWTIME = "ROWTIME"
    PROCTIME = "PROCTIME"


class Field:
    """A field of a row: its name, its type and its comment, or ``None``."""

    __slots__ = ("description", "name", "type")

    def __init__(self, name: str, type: LogicalType, description: str | None = None) -> None:
        self.name: Final = name
        self.type: Final = type
        self.description: Final = description

    def _key(self) -> tuple[object, ...]:
        return (self.name, self.type, self.description)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.type})"


class LogicalType:
    """One logical type of Flink. Attributes that a root does not have are ``None`` or empty:

    - ``length``: of CHAR, VARCHAR, BINARY and VARBINARY;
    - ``precision``: of DECIMAL, and the fractional digits of TIME and the timestamps; ``scale``: of DECIMAL;
    - ``kind``: of timestamps;
    - ``resolution``: of intervals, as in ``DAY(2) TO SECOND(6)``;
    - ``children``: the elements of ARRAY and MULTISET; key and value of MAP; ``fields``: of ROW;
    - ``extra``: the rest of RAW, STRUCTURED and DISTINCT, as JSON or as text.
    """

    __slots__ = (
        "children",
        "extra",
        "fields",
        "kind",
        "length",
        "nullable",
        "precision",
        "resolution",
        "root",
        "scale",
    )

    def __init__(
        self,
        root: TypeRoot,
        nullable: bool = True,
        *,
        length: int | None = None,
        precision: int | None = None,
        scale: int | None = None,
        kind: TimeKind = TimeKind.REGULAR,
        resolution: str = "",
        children: tuple[LogicalType, ...] = (),
        fields: tuple[Field, ...] = (),
        extra: str = "",
    ) -> None:
        self.root: Final = root
        self.nullable: Final = nullable
        self.length: Final = length
        self.precision: Final = precision
        self.scale: Final = scale
        self.kind: Final = kind
        self.resolution: Final = resolution
        self.children: Final = children
        self.fields: Final = fields
        self.extra: Final = extra

    @property
    def is_time_attribute(self) -> bool:
        """Whether the type is a row time or a processing time."""
        return self.kind is not TimeKind.REGULAR

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the fields of ROW."""
        return tuple(field.name for field in self.fields)

    @property
    def element(self) -> LogicalType:
        """The type of the elements of ARRAY and MULTISET."""
        (element,) = self.children
        return element

    @property
    def class_name(self) -> str:
        """The Java class of the values of RAW and STRUCTURED; empty for other roots, and where none is named."""
        if self.extra.startswith("{"):
            said = json.loads(self.extra)
            return str(said.get("class") or said.get("implementationClass") or "")
        found = _CLASS.match(self.extra)
        return found[1] if found else ""

    @property
    def attributes(self) -> tuple[Field, ...]:
        """The fields of STRUCTURED. Raises ``MalformedPlan`` where they cannot be read."""
        if self.root is not TypeRoot.STRUCTURED:
            return ()
        if self.extra.startswith("{"):
            return tuple(
                Field(str(one["name"]), decode_type(one["attributeType"]))
                for one in json.loads(self.extra).get("attributes", ())
            )
        return _Parser(self.extra).attributes()

    def with_nullable(self, nullable: bool) -> LogicalType:
        """Returns the same type with or without null."""
        values = {name: getattr(self, name) for name in self.__slots__ if name not in ("root", "nullable")}
        return LogicalType(self.root, nullable, **values)

    def _key(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogicalType) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        """Returns Flink's serializable text; a time attribute is followed by its kind between asterisks, as in Flink's summaries."""
        return _text(self) + (f" *{self.kind.value}*" if self.is_time_attribute else "")

    def __repr__(self) -> str:
        return f"LogicalType({self})"


def parse_type(text: str) -> LogicalType:
    """Parses the text of a type such as ``ROW<`a` INT, `b` DECIMAL(10, 2) NOT NULL>``. Raises ``MalformedPlan``."""
    parser = _Parser(text)
    found = parser.type()
    parser.end()
    return found


def decode_type(value: object) -> LogicalType:
    """Decodes a type in the JSON of a plan, a text or an object. Raises ``MalformedPlan``."""
    if isinstance(value, str):
        return parse_type(value)
    if not isinstance(value, Mapping):
        raise MalformedPlan(f"a type must be a string or an object, not {value!r}")
    rest = dict(value)
    name, nullable = rest.pop("type", None), rest.pop("nullable", True)
    try:
        root = TypeRoot(name)
    except ValueError:
        raise MalformedPlan(f"unknown type {name!r}") from None
    if root in _WITH_EXTRA:
        return LogicalType(root, nullable, extra=json.dumps(rest, ensure_ascii=False))
    take = rest.pop
    found = LogicalType(
        root,
        nullable,
        length=take("length", None),
        precision=take("precision", None),
        scale=take("scale", None),
        kind=TimeKind(take("kind", "REGULAR")),
        children=tuple(decode_type(take(key)) for key in ("keyType", "valueType", "elementType") if key in rest),
        fields=tuple(_decode_field(field) for field in take("fields", ())),
    )
    if rest:
        raise MalformedPlan(f"unknown field {sorted(rest)[0]!r} of the type {name}")
    if len(found.children) != _CHILDREN.get(root, 0):
        raise MalformedPlan(f"the type {name} takes {_CHILDREN.get(root, 0)} element types, not {len(found.children)}")
    return found


def encode_type(type: LogicalType) -> object:
    """Encodes a type for ``decode_type``: as text where that is complete, else as an object."""
    if type.root in _WITH_EXTRA and not type.extra.startswith("{"):
        return _text(type)
    if not _needs_object(type):
        return _text(type)
    written: dict[str, object] = {"type": type.root.value}
    if not type.nullable:
        written["nullable"] = False
    if type.root in _WITH_EXTRA:
        return {**written, **json.loads(type.extra)}
    for key in ("length", "precision", "scale"):
        if getattr(type, key) is not None:
            written[key] = getattr(type, key)
    if type.is_time_attribute:
        written["kind"] = type.kind.value
    if type.root is TypeRoot.MAP:
        written["keyType"], written["valueType"] = map(encode_type, type.children)
    elif type.children:
        written["elementType"] = encode_type(type.element)
    if type.root is TypeRoot.ROW:
        written["fields"] = [_encode_field(field) for field in type.fields]
    return written


_WITH_EXTRA = (TypeRoot.RAW, TypeRoot.STRUCTURED, TypeRoot.DISTINCT)
_CHILDREN = {TypeRoot.ARRAY: 1, TypeRoot.MULTISET: 1, TypeRoot.MAP: 2}
_NAMES = {TypeRoot.INTEGER: "INT"}
_ROOTS = {
    **{root.value: root for root in TypeRoot},
    "INT": TypeRoot.INTEGER,
    "TIME": TypeRoot.TIME,
    "TIMESTAMP": TypeRoot.TIMESTAMP,
    "STRING": TypeRoot.VARCHAR,
    "BYTES": TypeRoot.VARBINARY,
    "TIMESTAMP_LTZ": TypeRoot.TIMESTAMP_LTZ,
    "STRUCTURED": TypeRoot.STRUCTURED,
}
_MAXIMAL_LENGTH = 2147483647
"""The length of STRING and BYTES in Flink: Java's greatest int."""


def _decode_field(value: Mapping[str, object]) -> Field:
    unknown = set(value) - {"name", "fieldType", "description"}
    if unknown:
        raise MalformedPlan(f"unknown field {sorted(unknown)[0]!r} of the field of a row")
    description = value.get("description")
    return Field(str(value["name"]), decode_type(value["fieldType"]), None if description is None else str(description))


def _encode_field(field: Field) -> dict[str, object]:
    written: dict[str, object] = {"name": field.name, "fieldType": encode_type(field.type)}
    if field.description is not None:
        written["description"] = field.description
    return written


def _needs_object(type: LogicalType) -> bool:
    """Tells whether a type must be encoded as an object (Flink: ``LogicalTypeJsonSerializer.CompactSerializationChecker``); a text cannot have a length
    of 0."""
    if type.root in (TypeRoot.SYMBOL, TypeRoot.DESCRIPTOR, *_WITH_EXTRA) or type.is_time_attribute or type.length == 0:
        return type.root not in _WITH_EXTRA or type.extra.startswith("{")
    return any(_needs_object(part) for part in _parts(type))


def _parts(type: LogicalType) -> Iterator[LogicalType]:
    yield from type.children
    yield from (field.type for field in type.fields)


def _text(type: LogicalType) -> str:
    return _bare_text(type) + ("" if type.nullable else " NOT NULL")


def _bare_text(type: LogicalType) -> str:
    name = _NAMES.get(type.root, type.root.value)
    match type.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return f"{name}({type.length})"
        case TypeRoot.DECIMAL:
            return f"DECIMAL({type.precision}, {type.scale})"
        case TypeRoot.TIME:
            return f"TIME({type.precision})"
        case TypeRoot.TIMESTAMP:
            return f"TIMESTAMP({type.precision})"
        case TypeRoot.TIMESTAMP_TZ:
            return f"TIMESTAMP({type.precision}) WITH TIME ZONE"
        case TypeRoot.TIMESTAMP_LTZ:
            return f"TIMESTAMP({type.precision}) WITH LOCAL TIME ZONE"
        case TypeRoot.INTERVAL_YEAR_MONTH | TypeRoot.INTERVAL_DAY_TIME:
            return f"INTERVAL {type.resolution}"
        case TypeRoot.ARRAY | TypeRoot.MULTISET | TypeRoot.MAP:
            return f"{name}<{', '.join(map(str, type.children))}>"
        case TypeRoot.ROW:
            return f"ROW<{', '.join(map(_field_text, type.fields))}>"
        case TypeRoot.STRUCTURED | TypeRoot.RAW | TypeRoot.DISTINCT if not type.extra.startswith("{"):
            return type.extra
        case _:
            return name


def _field_text(field: Field) -> str:
    quoted = "`" + field.name.replace("`", "``") + "`"
    comment = "" if field.description is None else " '" + field.description.replace("'", "''") + "'"
    return f"{quoted} {field.type}{comment}"


_CLASS = re.compile(r"\w+\s*[<(]\s*'([^']*)'")
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)*)`|'((?:[^']|'')*)'|(\d+)|([A-Za-z_]+)|([<>(),]))")


class _Parser:
    """Parses the text of a type by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def end(self) -> None:
        if self._text[self._at :].strip():
            self._fail()

    def type(self) -> LogicalType:
        start = self._at
        name = self._word()
        root = _ROOTS.get(name)
        if name == "INTERVAL":
            found = self._interval()
        elif root is None:
            self._fail()
        elif root in (TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP):
            found = LogicalType(root, children=self._types())
            if len(found.children) != _CHILDREN[root]:
                self._fail()
        elif root is TypeRoot.ROW:
            found = LogicalType(root, fields=self._fields())
        elif root in (TypeRoot.STRUCTURED, TypeRoot.RAW):
            self._skip()
            found = LogicalType(root, extra=self._text[start : self._at].strip())
        else:
            found = self._simple(root, name, self._numbers())
        if self._takes("NOT"):
            self._expect("NULL")
            return found.with_nullable(False)
        self._takes("NULL")
        return found

    def _simple(self, root: TypeRoot, name: str, numbers: list[int]) -> LogicalType:
        first = numbers[0] if numbers else None
        match root:
            case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
                return LogicalType(
                    root, length=first if first is not None else _MAXIMAL_LENGTH if name in ("STRING", "BYTES") else 1
                )
            case TypeRoot.DECIMAL:
                scale = numbers[1] if len(numbers) > 1 else 0
                return LogicalType(root, precision=10 if first is None else first, scale=scale)
            case TypeRoot.TIME:
                return LogicalType(root, precision=first or 0)
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ | TypeRoot.TIMESTAMP_TZ:
                return LogicalType(self._zone(root), precision=6 if first is None else first)
            case _:
                return LogicalType(root)

    def _zone(self, root: TypeRoot) -> TypeRoot:
        if not self._takes("WITH"):
            return root
        is_local = self._takes("LOCAL")
        self._expect("TIME")
        self._expect("ZONE")
        return TypeRoot.TIMESTAMP_LTZ if is_local else TypeRoot.TIMESTAMP_TZ

    def _interval(self) -> LogicalType:
        start = self._at
        unit = self._word()
        self._numbers()
        if self._takes("TO"):
            self._word()
            self._numbers()
        root = TypeRoot.INTERVAL_YEAR_MONTH if unit in ("YEAR", "MONTH", "QUARTER") else TypeRoot.INTERVAL_DAY_TIME
        return LogicalType(root, resolution=self._text[start : self._at].strip())

    def _types(self) -> tuple[LogicalType, ...]:
        self._expect("<")
        found = [self.type()]
        while self._takes(","):
            found.append(self.type())
        self._expect(">")
        return tuple(found)

    def _fields(self) -> tuple[Field, ...]:
        self._expect("<")
        return () if self._takes(">") else self._more_fields()

    def attributes(self) -> tuple[Field, ...]:
        """Parses the attributes of STRUCTURED, after the name of its class."""
        self._word()
        self._expect("<")
        self._next()
        return self._more_fields() if self._takes(",") else ()

    def _more_fields(self) -> tuple[Field, ...]:
        found: list[Field] = []
        while True:
            name = self._next()
            type = self.type()
            found.append(Field(name, type, self._comment()))
            if not self._takes(","):
                break
        self._expect(">")
        return tuple(found)

    def _comment(self) -> str | None:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match[2] is None:
            return None
        self._at = match.end()
        return match[2].replace("''", "'")

    def _numbers(self) -> list[int]:
        found: list[int] = []
        if self._takes("("):
            found.append(int(self._next()))
            while self._takes(","):
                found.append(int(self._next()))
            self._expect(")")
        return found

    def _skip(self) -> None:
        """Skips to the end of the brackets that open here."""
        depth = 0
        while True:
            token = self._next()
            depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(token, 0)
            if depth == 0:
                return

    def _peek(self) -> re.Match[str] | None:
        return _TOKEN.match(self._text, self._at)

    def _next(self) -> str:
        match = self._peek()
        if match is None:
            self._fail()
        self._at = match.end()
        if match[1] is not None:
            return match[1].replace("``", "`")
        return match[match.lastindex or 0]

    def _word(self) -> str:
        match = self._peek()
        if match is None or match[4] is None:
            self._fail()
        self._at = match.end()
        return match[4]

    def _takes(self, token: str) -> bool:
        match = self._peek()
        if match is None or token not in (match[4], match[5]):
            return False
        self._at = match.end()
        return True

    def _expect(self, token: str) -> None:
        if not self._takes(token):
            self._fail()

    def _fail(self) -> NoReturn:
        raise MalformedPlan(f"the type {self._text!r} cannot be read at {self._text[self._at :]!r}")
