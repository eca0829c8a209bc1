"""Avro schemas: parsing and checking of JSON text, with full names.

A type of a schema is a name (of a primitive or a named type), a list (a union), or an object with ``type``. Once checked, names are full
and the named types stand in a table. A logical type that does not fit what it annotates is none, as the specification has it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidegate.model.errors import InvalidJob
from tidegate.model.values import Json

AvroType: TypeAlias = Json
"""An Avro type as ``fastavro`` parses it: a name, a list of schemas for a union, or an object with ``type``."""

MISSING = "needs packages that are not here: pip install 'tidegate[avro]'"
_BASES: dict[str, tuple[str, ...]] = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
}
_UUID_BYTES = 16
"""The size of fixed types that can be uuids, by the specification."""


def library() -> Any:
    """Imports ``fastavro``. Raises ``InvalidJob`` when it is not installed."""
    try:
        import fastavro
    except ImportError as error:
        raise InvalidJob(f"Avro {MISSING}") from error
    return fastavro


@dataclass(frozen=True)
class ParsedSchema:
    """A checked schema. ``named``: each named type by its full name."""

    root: AvroType
    named: dict[str, AvroType]

    def resolved(self, schema: AvroType) -> AvroType:
        """Returns the definition of a named type, a primitive type as an object, or a union unchanged."""
        if isinstance(schema, str):
            return self.named.get(schema, {"type": schema})
        return schema


def parse(text: str, references: Sequence[str] = (), *, has_written: bool = False) -> ParsedSchema:
    """Parses and checks a schema. ``references``: schemas whose types it uses, each after those that it uses itself. ``has_written``: it is only used
    to read what was written with it, so defaults are not checked. Raises ``InvalidJob``."""
    try:
        known: dict[str, AvroType] = {}
        for one in references:
            _parse(_plain(json.loads(one), has_written), known)
        return ParsedSchema(_parse(_plain(json.loads(text), has_written), known), known)
    except Exception as error:  # json's errors, and fastavro's, which have no common root
        raise InvalidJob(f"not an Avro schema: {type(error).__name__}: {error}") from error


def _parse(schema: AvroType, named: dict[str, AvroType]) -> AvroType:
    """Parses a schema by ``fastavro``; a name that its own namespace lacks is looked up in the null namespace, as in Avro Java."""
    fastavro = library()
    while True:
        trial = dict(named)
        try:
            found = fastavro.parse_schema(schema, trial)
        except fastavro.schema.UnknownType as error:
            bare = str(error.name).rpartition(".")[2]
            if bare == error.name or bare not in trial:
                raise
            named[error.name] = trial[bare]
            continue
        named.update(trial)
        return found


def _plain(schema: AvroType, has_written: bool) -> AvroType:
    """Removes logical types that do not fit and objects around a mere name, both of which ``fastavro`` refuses."""
    match schema:
        case list():
            return [_plain(one, has_written) for one in schema]
        case dict():
            found = dict(schema)
            if "logicalType" in found and not logical_type(found):
                del found["logicalType"]
            for part in ("items", "values"):
                if part in found:
                    found[part] = _plain(found[part], has_written)
            if isinstance(found.get("fields"), list):
                found["fields"] = [_plain_field(one, has_written) for one in found["fields"]]
            kind = found.get("type")
            if isinstance(kind, (dict, list)) or (isinstance(kind, str) and kind not in _TYPES):
                return _plain(kind, has_written)
            return found
    return schema


def _plain_field(one: AvroType, has_written: bool) -> AvroType:
    if not isinstance(one, dict) or "type" not in one:
        return one
    found = {**one, "type": _plain(one["type"], has_written)}
    if has_written:
        found.pop("default", None)
    return found


_TYPES = frozenset(
    "null boolean int long float double bytes string record error enum fixed array map".split()  # noqa: SIM905
)


def logical_type(schema: AvroType) -> str:
    """Returns the logical type of a schema; empty when it has none, or one that is unknown or does not fit."""
    name = schema.get("logicalType") if isinstance(schema, dict) else None
    if not isinstance(name, str) or schema["type"] not in _BASES.get(name, ()):
        return ""
    if name == "decimal" and not _has_digits(schema):
        return ""
    return "" if name == "uuid" and schema["type"] == "fixed" and schema.get("size") != _UUID_BYTES else name


def _has_digits(schema: AvroType) -> bool:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return False
    return schema["type"] == "bytes" or precision <= len(str(2 ** (8 * schema.get("size", 0) - 1) - 1)) - 1
